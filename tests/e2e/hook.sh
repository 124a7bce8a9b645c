#!/bin/bash
# The simulated job under libkymo-hook.so: without a daemon nothing changes; with one, a step is captured over dlopen and linked,
# on one and two physical cores per logical one, in each mode, and kymo reads what came. usage: KYMO_BUILD=DIR tests/e2e/hook.sh
set -euo pipefail
: "${KYMO_BUILD:?names the build directory}"
KYMO_BUILD=$(realpath "$KYMO_BUILD")
sim=$KYMO_BUILD/bin/kymo-sim kymo=$KYMO_BUILD/bin/kymo sample=$KYMO_BUILD/driver-iface/sim/sim-sample-neff
hook=$KYMO_BUILD/lib/libkymo-hook.so peer=$KYMO_BUILD/driver-iface/hook/hook-peer

work=$(mktemp -d "${TMPDIR:-/tmp}/kymo-e2e-hook.XXXXXX")
cleanup()
{
    local status=$?
    trap - EXIT
    [ $status = 0 ] || { echo "hook: FAILED" >&2; tail -n 20 "$work"/*.log "$work"/*.txt >&2 2>/dev/null || true; }
    rm -rf "$work"
    exit $status
}
trap cleanup EXIT

die()
{
    echo "hook: $*" >&2
    exit 1
}

# same NAME OPTIONS...: output, exit code and number of captures with and without the hook
same()
{
    local name=$1 way code files=()
    shift
    for way in plain hooked; do
        code=0
        env LD_PRELOAD="$([ $way = plain ] || echo "$hook")" KYMO_SOCKET="$work" timeout -k 5 60 "$sim" run "$@" --output "$work/$name-$way" >"$work/$way.txt" 2>&1 || code=$?
        echo "exit code $code" >>"$work/$way.txt"
        files+=("$(find "$work/$name-$way" -type f -name '*.ntff' -size +0 | wc -l)")
    done
    cmp -s "$work/plain.txt" "$work/hooked.txt" || die "$name: the output differs: $(diff "$work/plain.txt" "$work/hooked.txt")"
    [ "${files[0]}" = "${files[1]}" ] || die "$name: ${files[0]} captures of the job's own, ${files[1]} with the hook"
}

# attend NAME ARGUMENTS...: starts the peer for a job of that name; its process is $run
attend()
{
    local name=$1
    shift
    mkdir -p "$work/$name/intake"
    "$peer" "$work/$name" "$work/$name/intake" "$@" >"$work/$name.log" 2>&1 &
    run=$!
    for _ in $(seq 200); do
        ! grep -q ready "$work/$name.log" || break
        sleep 0.02
    done
}

# hooked NAME OPTIONS...: the job, with nothing but the hook and the socket
hooked()
{
    local name=$1
    shift
    LD_PRELOAD=$hook KYMO_SOCKET=$work/$name timeout -k 5 60 "$sim" run --mode none --steps 8 "$@" --output "$work/$name/out" \
        >"$work/$name.txt" 2>&1 || die "$name: the job failed"
}

# refuse NAME REASON OPTIONS...: the job profiles itself; nothing is captured, for that reason, and the job has its own captures
refuse()
{
    local name=$1 reason=$2
    shift 2
    attend "$name" 0 2 3 1
    hooked "$name" "$@"
    ! wait "$run" || die "$name: there is a capture"
    grep -qx "refused $reason" "$work/$name.log" || die "$name: $(tail -1 "$work/$name.log")"
    [ -z "$(find "$work/$name/intake" -name '*.ntff')" ] || die "$name: profiles in the intake"
    [ -n "$(find "$work/$name/out" -name '*.ntff' -size +0)" ] || die "$name: the job's own profile is missing"
}

# memory NAME EXPECTED OPTIONS...: 14 GB are needed beside what the job holds of the 24 GB of two cores, as sysfs tells
memory()
{
    local name=$1 expected=$2
    shift 2
    attend "$name" 0 2 3 1 15032385536 25769803776 0 2
    hooked "$name" --sysfs "$work/$name/sysfs" "$@" --instance trn2.3xlarge # with few files to make
    wait "$run" || [[ $expected = refused* ]] || die "$name: no capture"
    grep -q "^$expected" "$work/$name.log" || die "$name: $(tail -1 "$work/$name.log")"
}

# capture NAME EXPECTED ARMED MODE OPTIONS...: one capture at the third execution; EXPECTED as the peer prints it
capture()
{
    local name=$1 expected=$2 armed=$3 mode=$4 neff=${*: -1} files=0 file
    shift 4
    attend "$name" "$armed" "$mode" 3 2
    hooked "$name" --truth "$work/$name/truth" "$@"
    wait "$run" || die "$name: no capture"
    grep -qx "captured cap-1 $expected" "$work/$name.log" || die "$name: $(tail -1 "$work/$name.log")"
    while read -r file; do
        files=$((files + 1))
        "$kymo" ntff inspect "$file" >"$work/inspect.txt" || die "$name: $file cannot be inspected"
        grep -q INSTRUCTION "$work/inspect.txt" || die "$name: $file has no instruction ring"
    done < <(find "$work/$name/intake/cap-1" -type f -name '*.ntff' -size +0)
    [ $files = 1 ] || die "$name: $files profiles"
    grep -q '^path.*/cap-1.part/' "$work/$name"/truth/*/profile.tsv || die "$name: no truth tells of cap-1"
    cmp -s "$neff" "$work/$name/intake/neff_1.neff" || die "$name: the NEFF is not the one loaded"
}

"$sample" Trn2 1 40 "$work/lnc1.neff"
"$sample" Trn2 2 40 "$work/lnc2.neff"
one=(--instance trn2.48xlarge --lnc 1 --neff "$work/lnc1.neff")
two=(--instance trn2.48xlarge --lnc 2 --neff "$work/lnc2.neff")

same model --ranks 1 --steps 3 "${one[@]}"
same session --ranks 1 --steps 3 --mode session --linked "${two[@]}"
same continuous --ranks 1 --steps 3 --mode continuous "${two[@]}"
same failure --ranks 1 --steps 3 --mode on-failure --fail-step 1 "${one[@]}"
same async --ranks 1 --steps 3 --async --linked "${one[@]}"

capture m1 'mode 2 executions 1 flags 0' 0 2 "${one[@]}"
capture m2 'mode 2 executions 1 flags 0' 0 2 --linked "${two[@]}"
capture s1 'mode 3 executions 2 flags 0' 0 3 --linked "${one[@]}"
capture s2 'mode 3 executions 2 flags 0' 0 3 "${two[@]}"
capture c2 'mode 1 executions 1 flags 0' 1 1 "${two[@]}"
capture a1 'mode 3 executions 1 flags 1' 1 2 --async "${one[@]}"

refuse inspecting '1: NEURON_RT_INSPECT_ENABLE' "${one[@]}" --mode session
refuse profiling '2: nrt_profile_continuous_start' "${one[@]}" --mode continuous --linked

memory free 'captured cap-1 mode 2' "${two[@]}"
memory full 'refused 4: 15032385536 bytes needed, 1[0-9]\{10\} of 25769803776 in use' --ballast 11G "${two[@]}"

# A rank that executes itself, and one that goes on in a forked child, are seen anew; captured is the first life's step.
capture f1 'mode 2 executions 1 flags 0' 0 2 --fork-at 4 --helpers 3 "${one[@]}"
capture x1 'mode 2 executions 1 flags 0' 0 2 --exec-at 4 --helpers 3 --linked "${one[@]}"

echo "hook: passed"
