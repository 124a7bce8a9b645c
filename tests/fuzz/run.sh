#!/bin/bash
# Runs fuzz targets under libFuzzer and keeps a log that sums over runs.
#
#   tests/fuzz/run.sh [-s SECONDS] [-l MAX_LENGTH] [-b BUILD_DIR] [-n] [TARGET ...]
#   tests/fuzz/run.sh --totals
#
# -s: time per target (60). -l: longest input in bytes (65536). -b: build directory (build-fuzz). -n: no line in the log.
# TARGET: names as registered with kymo_fuzz; none: all of them. What a run finds is kept in BUILD_DIR/corpus/TARGET, so that the
# next one goes on from there; inputs that crash, hang or take too much memory are left in BUILD_DIR/findings. Each run adds
# a line to tests/fuzz/log.tsv, also one that was interrupted; its seconds are of processor time since 2026-11-30, 09:40, because on a
# busy machine those of the clock (as before) are no work. Exit code 1: something was found.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
log=tests/fuzz/log.tsv
seconds=60 length=65536 build=build-fuzz write=1 targets=()

totals()
{
    awk -F'\t' 'NR > 1 { n[$1]++; execs[$1] += $5; time[$1] += $6; found[$1] += ($7 != "clean") }
        END { for (t in n) printf "%-16s runs %d, executions %d, %.1f h, with findings %d\n", t, n[t], execs[t], time[t] / 3600, found[t] }' \
        "$log" | sort
}

while [ $# -gt 0 ]; do
    case $1 in
    -s) seconds=${2:?-s needs seconds}; shift 2 ;;
    -l) length=${2:?-l needs bytes}; shift 2 ;;
    -b) build=${2:?-b needs a directory}; shift 2 ;;
    -n) write=0; shift ;;
    --totals) totals; exit ;;
    -*) sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    *) targets+=("$1"); shift ;;
    esac
done

cmake -S . -B "$build" -G Ninja -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS=-O1 \
    -DKYMO_SANITIZE=address,undefined -DKYMO_FUZZ=ON >/dev/null || exit 2
declare -A program
while read -r file; do
    name=${file##*/fuzz_}
    program[$name]=$file
done < <(ninja -C "$build" -t targets all | sed -n 's/^\(.*\/fuzz_[a-z0-9_]*\): C_EXECUTABLE_LINKER.*/\1/p')
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(printf '%s\n' "${!program[@]}" | sort)
for t in "${targets[@]}"; do
    [ -n "${program[$t]:-}" ] || { echo "run.sh: no target $t; there are: ${!program[*]}" >&2; exit 2; }
done
ninja -C "$build" "${targets[@]/#/fuzz_}" | tail -1 || exit 2

commit=$(git rev-parse --short=12 HEAD)$(git diff --quiet HEAD -- '*.c' '*.h' '*.proto' || echo +)
[ -f "$log" ] || printf 'target\tdate\tcommit\tseeds\texecutions\tseconds\tresult\n' >"$log"
failed=0
TIMEFORMAT='%U %S'
# The target ends by itself on an interrupt and reports; this script must live to write that down.
trap 'interrupted=1' INT TERM
interrupted=0
for t in "${targets[@]}"; do
    mkdir -p "$build/corpus/$t" "$build/findings"
    seeds=$(find "tests/fuzz/corpus/$t" "$build/corpus/$t" -type f | wc -l)
    out=$build/findings/$t.txt
    { time "$build/${program[$t]}" -max_total_time="$seconds" -max_len="$length" -timeout=20 -rss_limit_mb=2048 -malloc_limit_mb=1200 \
        -print_final_stats=1 -artifact_prefix="$build/findings/$t-" "$build/corpus/$t" "tests/fuzz/corpus/$t" >"$out" 2>&1; } 2>"$out.time"
    code=$?
    took=$(awk '{ printf "%d", $1 + $2 }' "$out.time")
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$out")
    result=clean
    if [ $code -ne 0 ] && [ $interrupted -eq 0 ]; then
        result=$(sed -n 's/^.*Test unit written to .*findings\/\(.*\)$/\1/p' "$out" | head -1)
        result=${result:-failed}
        failed=1
        tail -40 "$out"
    fi
    line=$(printf '%s\t%s\t%s\t%s\t%s\t%s\t%s' "$t" "$(date -u +%F)" "$commit" "$seeds" "${executions:-0}" "$took" "$result")
    echo "$line"
    [ $write -eq 0 ] || echo "$line" >>"$log"
    [ $interrupted -eq 0 ] || break
done
exit $failed
