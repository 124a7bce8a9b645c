#!/bin/bash
# The simulated training job in all capture modes: exit codes, the files of the runtime's layout, counters that equal the
# truth, and no process left behind. usage: KYMO_BUILD=DIR tests/e2e/run_sim.sh
set -euo pipefail
: "${KYMO_BUILD:?names the build directory}"
sim=$KYMO_BUILD/bin/kymo-sim kymo=$KYMO_BUILD/bin/kymo sample=$KYMO_BUILD/driver-iface/sim/sim-sample-neff

work=$(mktemp -d "${TMPDIR:-/tmp}/kymo-run-sim.XXXXXX")
export KYMO_TEST_RUN=run-sim-$$-$RANDOM
cleanup()
{
    local status=$?
    trap - EXIT
    [ $status = 0 ] || { echo "run_sim: FAILED" >&2; tail -n 20 "$work"/*.log >&2 2>/dev/null || true; }
    rm -rf "$work"
    exit $status
}
trap cleanup EXIT

die()
{
    echo "run_sim: $*" >&2
    exit 1
}

# Processes that carry this run's mark, but for this shell and what it has just forked.
left()
{
    local environ pid
    for environ in /proc/[0-9]*/environ; do
        pid=${environ#/proc/}
        pid=${pid%/environ}
        [ "$pid" != $$ ] && [ "$pid" != "$BASHPID" ] || continue
        ! grep -qsza "^KYMO_TEST_RUN=$KYMO_TEST_RUN\$" "$environ" 2>/dev/null || echo "$pid"
    done
    return 0
}

# run NAME EXPECTED_CODE OPTIONS...: output in $work/NAME
run()
{
    local name=$1 expected=$2 code=0
    shift 2
    timeout -k 5 100 "$sim" run "$@" --output "$work/$name" --truth "$work/$name/truth" >"$work/$name.log" 2>&1 || code=$?
    [ $code = "$expected" ] || die "$name: exit code $code instead of $expected"
    [ -z "$(left)" ] || die "$name: processes left: $(left)"
}

# count PATTERN EXPECTED: files below the captures of the last run
count()
{
    local n
    n=$(find "$work/$1/captures" -type f -name "$2" | wc -l)
    [ "$n" = "$3" ] || die "$1: $n files $2 instead of $3"
}

# Emitted, stored and dropped of every ring must be the truth's; the profile must be readable.
check_profiles()
{
    local file name
    while read -r file; do
        name=$(basename "$file" .ntff)
        "$kymo" ntff inspect --json "$file" >"$work/inspect.json" || die "$file cannot be inspected"
        /usr/bin/python3 - "$work/inspect.json" "$work/$1/truth/$name" <<'PY' || die "$file does not fit its truth"
import csv, json, re, sys
rings = json.load(open(sys.argv[1]))["rings"]
truth = list(csv.DictReader(open(sys.argv[2] + "/rings.tsv"), delimiter="\t"))
numbers = ("nc_idx", "engine_index", "emitted", "stored", "dropped")
seen = sorted((re.split("[(-]", r["ring"])[0], *(int(r[k]) for k in numbers)) for r in rings)
said = sorted((re.split("[(-]", t["ring"])[0], *(int(t[k]) for k in numbers)) for t in truth)
if seen != said:
    sys.exit("\n".join(map(str, sorted(set(seen) ^ set(said)))))
if not any(row[3] for row in seen):
    sys.exit("no record at all")
PY
    done < <(find "$work/$1/captures" -type f -name '*.ntff' -size +0)
}

# dropped RING: records of the ring that found it full, over all profiles of a run
dropped()
{
    cat "$work/$1"/truth/*/rings.tsv | awk -F'\t' -v ring="$2" '$1 == ring { n += $8 } END { print n + 0 }'
}

"$sample" Trn2 1 40 "$work/lnc1.neff"
"$sample" Trn2 2 40 "$work/lnc2.neff"
"$sample" Trn1 1 40 "$work/trn1.neff"
"$sample" Trn2 1 4000 "$work/long.neff"

run model 0 --instance trn2.48xlarge --lnc 1 --ranks 2 --steps 3 --neff "$work/lnc1.neff"
count model '*_instid_0_vnc_[01].ntff' 2
count model 'neff_*_vnc_[01].neff' 2
check_profiles model
cmp -s "$work/lnc1.neff" "$(find "$work/model/captures" -name '*_vnc_1.neff')" || die "model: the NEFF is not the one loaded"

run session 0 --instance trn2.48xlarge --lnc 2 --ranks 2 --steps 4 --mode session --neff "$work/lnc2.neff" --linked
count session 'profile_nc_[01]_session_1.ntff' 2
check_profiles session

run window 0 --instance trn2.48xlarge --lnc 2 --ranks 1 --steps 6 --mode session --capture-steps 1-2,4 --neff "$work/lnc2.neff"
count window 'profile_nc_0_session_*.ntff' 2
check_profiles window

run continuous 0 --instance trn2.48xlarge --lnc 2 --ranks 2 --steps 5 --mode continuous --capture-steps 1,3 --neff "$work/lnc2.neff"
count continuous 'model_*_vnc_[01]_inst_0_*.ntff' 4
check_profiles continuous

run async 0 --instance trn2.48xlarge --lnc 1 --ranks 2 --steps 4 --async --neff "$work/lnc1.neff" --neff "$work/long.neff"
count async 'profile_nc_[01]_session_1.ntff' 2
count async 'neff_*.neff' 4
check_profiles async

run failure 3 --instance trn2.48xlarge --lnc 1 --ranks 2 --steps 4 --mode on-failure --fail-step 2 --neff "$work/lnc1.neff"
count failure '*_instid_0_vnc_0.ntff' 1
count failure '*.ntff' 1
check_profiles failure

run tiny 0 --instance trn2.48xlarge --lnc 1 --ranks 1 --steps 4 --mode session --buffer INSTRUCTION=1 --buffer H2D_DMA=1 \
    --neff "$work/long.neff"
check_profiles tiny
[ "$(dropped tiny INSTRUCTION)" -gt 0 ] || die "tiny: nothing was dropped"

run off 0 --instance trn1.32xlarge --ranks 2 --steps 2 --drift --buffer H2D_DMA=0 --neff "$work/trn1.neff"
check_profiles off
grep -q '^host_dma	1$' "$work"/off/truth/*_vnc_0/profile.tsv || die "off: host-device DMA is not off"

run old 0 --instance trn2.48xlarge --lnc 1 --ranks 1 --steps 1 --driver 2.30.1 --neff "$work/lnc1.neff"
check_profiles old
"$kymo" ntff inspect "$(find "$work/old/captures" -name '*.ntff')" >"$work/inspect.txt"
grep -q 'host_dma: HOST_DMA_OLD_DRIVER' "$work/inspect.txt" ||
    die "old: the driver is not the reason"

run slow 0 --instance trn2.48xlarge --lnc 2 --ranks 2 --steps 2 --slow-rank 1:3 --neff "$work/lnc2.neff"
check_profiles slow

# A rank that starts helpers, goes on in a forked child, then in a program of its own, does the same steps.
life=(--instance trn2.48xlarge --lnc 2 --ranks 1 --steps 6 --mode none --neff "$work/lnc2.neff")
run plain 0 "${life[@]}"
for linked in '' --linked; do
    run life 0 "${life[@]}" --helpers 2 --fork-at 1 --exec-at 3 $linked
    grep -v -e child -e program "$work/life.log" | cmp -s - "$work/plain.log" || die "life: other steps than without"
    [ "$(grep -c -e 'forked child$' -e 'program$' "$work/life.log")" = 6 ] || die "life: helpers are missing"
done

# Two jobs on the devices of one process, one of them too big for its core's memory; what is in use is seen in sysfs.
"$sim" device --socket "$work/device.sock" --instance trn2.3xlarge --lnc 2 --truth "$work/shared-truth" --sysfs "$work/sysfs" --ready-fd 3 \
    3>"$work/ready" &
device=$!
for _ in $(seq 200); do
    [ ! -s "$work/ready" ] || break
    sleep 0.05
done
share=(--device "$work/device.sock" --instance trn2.3xlarge --lnc 2 --neff "$work/lnc2.neff" --output)
present=$work/sysfs/neuron0/neuron_core4/stats/memory_usage/device_mem/present
[ "$(cat "$present")" = 0 ] || die "shared: memory is in use before there is a job"
"$sim" run "${share[@]}" "$work/first" --ranks 2 --steps 100000 --step-ms 20 --first-core 2 --ballast 1G --mode session --handle-signals \
    --pids "$work/pids" >"$work/first.log" 2>&1 &
child=$!
for _ in $(seq 200); do
    [ "$(grep -c 'step 3:' "$work/first.log")" != 2 ] || break
    sleep 0.05
done
"$sim" run "${share[@]}" "$work/second" --steps 2 --mode session >"$work/second.log" 2>&1 || die "shared: the second job failed"
! "$sim" run "${share[@]}" "$work/third" --steps 2 --first-core 3 >"$work/third.log" 2>&1 || die "shared: a core was given twice"
grep -q 'belongs to another rank' "$work/third.log" || die "shared: nothing said of the core"
! "$sim" run "${share[@]}" "$work/third" --steps 2 --ballast 25G >"$work/third.log" 2>&1 || die "shared: a device has 25 GB for a core"
grep -q 'bytes of device memory' "$work/third.log" || die "shared: nothing said of the memory"
[ "$(cat "$present")" -gt 500000000 ] || die "shared: $(cat "$present") bytes in use beside 1 GB of ballast"
# The runtime's handlers write the session, then the job's own say their line.
kill -INT "$(sed -n 's/^1 //p' "$work/pids")"
kill -TERM "$(sed -n 's/^0 //p' "$work/pids")"
code=0
wait "$child" || code=$?
[ $code = 4 ] || die "shared: exit code $code instead of 4"
grep -q '^rank 0: ends on SIGTERM$' "$work/first.log" || die "shared: rank 0 did not handle its signal"
grep -q '^rank 1: ends on SIGINT$' "$work/first.log" || die "shared: rank 1 did not handle its signal"
count first 'profile_nc_[23]_session_1.ntff' 2
[ "$(cat "$present")" = 0 ] || die "shared: memory is in use after the job"
grep -q "^path.*$work/second/captures" "$work"/shared-truth/profile_nc_0_session_1/profile.tsv || die "shared: no truth of the second job"
kill "$device"
wait "$device" || die "shared: the device process failed"
[ -z "$(left)" ] || die "shared: processes left: $(left)"

# What cannot be is refused before anything starts.
run refused 2 --instance inf2.48xlarge --lnc 2 --neff "$work/lnc2.neff"
run refused 2 --instance trn2.3xlarge --lnc 2 --ranks 5 --neff "$work/lnc2.neff"
run refused 2 --async --mode model --neff "$work/lnc2.neff"
run refused 1 --neff "$work/absent.neff"
run refused 2 --buffer NOTHING=1 --neff "$work/lnc2.neff"
run refused 2 --ranks 0 --neff "$work/lnc2.neff"
run refused 2 --slow-rank 0:0 --neff "$work/lnc2.neff"
run refused 2 --steps 3 --fork-at 3 --mode none --neff "$work/lnc2.neff"
run refused 2 --steps 3 --exec-at 1 --mode session --neff "$work/lnc2.neff"
run refused 2 --device "$work/device.sock" --neff "$work/lnc2.neff" # which has a truth of its own
run refused 2 --first-core 64 --neff "$work/lnc2.neff"
run refused 2 --driver new --neff "$work/lnc2.neff"
run refused 2 --buffer DMA=x --neff "$work/lnc2.neff"
run refused 2 --mode session --steps 2 --capture-steps 2-3 --neff "$work/lnc2.neff"
grep -q 'nothing to capture, the job has steps 0 to 1' "$work/refused.log" || die "nothing said of steps that are not there"
"$sim" neff --model mlp --arch trn2 --output "$work/mlp.neff" >/dev/null
run refused 1 --instance trn1.32xlarge --neff "$work/mlp.neff"
grep -q 'made for Trn2' "$work/refused.log" || die "nothing said of the generation"

# Captures that cannot be written, for their names are too long.
deep=$work/deep
while [ ${#deep} -lt 3895 ]; do deep+=/$(printf 'd%.0s' {1..99}); done
for mode in model session; do
    code=0
    timeout -k 5 100 "$sim" run --lnc 1 --steps 1 --mode $mode --neff "$work/lnc1.neff" --output "$deep" >"$work/deep.log" 2>&1 || code=$?
    [ $code = 1 ] || die "$mode: exit code $code instead of 1 without a capture"
    grep -q '0 of 1 captures were written' "$work/deep.log" || die "$mode: nothing said of the capture"
done

# A run that is told to stop writes its sessions and takes everything down.
"$sim" run --instance trn2.48xlarge --lnc 2 --ranks 2 --steps 1000000 --mode session --neff "$work/lnc2.neff" \
    --output "$work/stopped" >"$work/stopped.log" 2>&1 &
child=$!
for _ in $(seq 200); do
    [ -z "$(find "$work/stopped/captures" -mindepth 2 -type d 2>/dev/null | sed -n 2p)" ] || break
    sleep 0.1
done
sleep 1 # both ranks are in their steps, wherever exactly
kill -TERM "$child"
code=0
wait "$child" || code=$?
[ $code = 143 ] || die "stopped: exit code $code instead of 143"
[ -z "$(left)" ] || die "stopped: processes left: $(left)"
count stopped 'profile_nc_[01]_session_1.ntff' 2

# When the run itself is killed, its children still end, and the ranks' sessions are written.
"$sim" run --instance trn2.48xlarge --lnc 2 --ranks 2 --steps 1000000 --mode session --neff "$work/lnc2.neff" \
    --output "$work/killed" >"$work/killed.log" 2>&1 &
child=$!
for _ in $(seq 200); do
    [ -z "$(find "$work/killed/captures" -mindepth 2 -type d 2>/dev/null | sed -n 2p)" ] || break
    sleep 0.1
done
sleep 1
kill -KILL "$child"
wait "$child" 2>/dev/null || true
for _ in $(seq 300); do
    [ -n "$(left)" ] || break
    sleep 0.1
done
[ -z "$(left)" ] || die "killed: processes left: $(left)"
count killed 'profile_nc_[01]_session_1.ntff' 2

echo "run_sim: passed"
