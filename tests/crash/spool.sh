#!/bin/bash
# Kills a process that works on a spool, at random moments, and holds the spool against what it promised before.
#
# usage: tests/crash/spool.sh [--kills N] [--build DIR] [--log FILE] [--no-log]
#   --kills N    so many kills in this run (50)
#   --build DIR  where bench and test programs are (KYMO_BUILD, else build)
#   --log FILE   each run adds a line here, so that runs sum up (tests/crash/spool.tsv); --no-log: none
#
# Exit code 1: a promise was broken; the spool and its log are then kept and named.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2

kills=50 build=${KYMO_BUILD:-build} log=tests/crash/spool.tsv
while [ $# -gt 0 ]; do
    case $1 in
    --kills) kills=${2:?--kills needs a number}; shift 2 ;;
    --build) build=${2:?--build needs a directory}; shift 2 ;;
    --log) log=${2:?--log needs a file}; shift 2 ;;
    --no-log) log=''; shift ;;
    *) sed -n '4,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done

child=$build/bin/spool_child
# A kill loses nothing that was written, synced or not, so memory does as well as a disk and lets more happen between kills.
default=/tmp
[ ! -w /dev/shm ] || default=/dev/shm
work=$(mktemp -d "${TMPDIR:-$default}/kymo-crash-spool.XXXXXX") || exit 2
mkdir "$work/intake"
failed=0 done_kills=0 seed=$((RANDOM * 32768 + RANDOM)) start=$SECONDS
for ((i = 0; i < kills; i++)); do
    "$child" run "$work/spool" "$work/intake" "$work/log" "$i" 2>"$work/stderr" &
    pid=$!
    # 1 to 150 ms: some die while the spool opens.
    sleep "$(printf '0.%03d' $((1 + (seed + i * 7919) % 150)))"
    kill -KILL "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    status=$?
    if [ $status != 137 ]; then
        echo "spool.sh: kill $i: the child ended by itself with $status: $(cat "$work/stderr")"
        failed=1
        break
    fi
    done_kills=$((done_kills + 1))
    # The next run would recover as well; checking in between holds each recovery to account.
    [ -f "$work/log" ] || continue
    result=$("$child" check "$work/spool" "$work/log") || { echo "spool.sh: kill $i: $result"; failed=1; break; }
done
echo "spool.sh: $done_kills kills in $((SECONDS - start)) s: ${result:-nothing was captured}"
if [ -n "$log" ]; then
    [ -f "$log" ] || printf 'date\tcommit\tkills\tseconds\tresult\taccount\n' >"$log"
    printf '%s\t%s\t%d\t%d\t%s\t%s\n' "$(date -u +%F)" "$(git rev-parse --short=12 HEAD)" "$done_kills" "$((SECONDS - start))" \
        "$([ $failed = 0 ] && echo clean || echo broken)" "${result:-}" >>"$log"
fi
if [ $failed = 0 ]; then
    rm -rf "$work"
else
    echo "spool.sh: kept: $work"
fi
exit $failed
