#!/bin/bash
# What people and Prometheus see of a running kymod: status, captures on demand with each exit code, metrics, and that a peer that
# talks nonsense disturbs nobody. usage: KYMO_BUILD=DIR tests/e2e/control.sh
set -euo pipefail
: "${KYMO_BUILD:?names the build directory}"
KYMO_BUILD=$(realpath "$KYMO_BUILD")
bin=$KYMO_BUILD/bin sample=$KYMO_BUILD/driver-iface/sim/sim-sample-neff hook=$KYMO_BUILD/lib/libkymo-hook.so

work=$(mktemp -d "${TMPDIR:-/tmp}/kymo-e2e-control.XXXXXX")
kymod="" job=""
cleanup()
{
    local status=$? pid
    trap - EXIT
    for pid in $kymod $job; do kill -9 "$pid" 2>/dev/null || true; done
    [ $status = 0 ] || { echo "control: FAILED" >&2; tail -n 30 "$work"/*.log "$work"/*.txt >&2 2>/dev/null || true; }
    rm -rf "$work"
    exit $status
}
trap cleanup EXIT

die()
{
    echo "control: $*" >&2
    exit 1
}

export KYMO_SOCKET=$work/run

# expect CODE COMMAND...: output in out.txt, errors in err.txt
expect()
{
    local want=$1 code=0
    shift
    timeout -k 5 60 "$bin/kymo" "$@" >"$work/out.txt" 2>"$work/err.txt" || code=$?
    [ $code = "$want" ] || die "kymo $*: exit code $code instead of $want"
}

# field FILE EXPRESSION: of a JSON file, in Python
field() { /usr/bin/python3 -c "import json, sys; d = json.load(open(sys.argv[1])); print($2)" "$1"; }

# No daemon, no directory, a file that is no socket.
expect 4 status
grep -q "no kymod listens at $KYMO_SOCKET/control.sock" "$work/err.txt" || die "no reason"
mkdir -p "$work/run" "$work/odd" && touch "$work/odd/control.sock"
expect 4 capture --socket "$work/odd"
expect 2 capture --cores 3-1
expect 2 capture --job ''
expect 2 capture --until later

port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$bin/kymod" --data-dir "$work/data" --socket-dir "$KYMO_SOCKET" --metrics "127.0.0.1:$port" --spool-floor 0 --period 0 \
    --collector 127.0.0.1:1 2>"$work/kymod.log" &
kymod=$!
for _ in $(seq 250); do
    ! grep -q 'hooks at' "$work/kymod.log" || break
    kill -0 "$kymod" 2>/dev/null || die "kymod does not start"
    sleep 0.02
done
[ "$(stat -c %a "$KYMO_SOCKET/control.sock")" = 660 ] || die "mode of the socket"
expect 0 status
grep -q 'no job with the hook is running' "$work/out.txt" || die "status of nothing"
expect 5 capture
expect 5 status --job nobody

"$sample" Trn2 1 40 "$work/a.neff"
LD_PRELOAD=$hook KYMO_JOB=train timeout -k 5 60 "$bin/kymo-sim" run --mode none --instance trn2.48xlarge --lnc 1 --ranks 2 \
    --steps 200000 --step-ms 2 --neff "$work/a.neff" --output "$work/out" >"$work/job.log" 2>&1 &
job=$!
for _ in $(seq 200); do
    expect 0 status
    [ "$(grep -c ' ready ' "$work/out.txt" || true)" != 2 ] || break
    sleep 0.05
done
[ "$(awk 'length > 100' "$work/out.txt" | wc -l)" = 0 ] || die "lines of more than 100 columns"
grep -q '^job train: 2 ranks, step' "$work/out.txt" || die "no job: $(cat "$work/out.txt")"

# All ranks, one of two, one process.
expect 0 capture --wait=30 --until spooled
[ "$(grep -c ' spooled$' "$work/out.txt")" = 2 ] || die "not two captures: $(cat "$work/out.txt")"
expect 0 capture --job train --one-in 2 --json
[ "$(field "$work/out.txt" 'len(d["captures"])')" = 1 ] || die "one rank in two"
expect 0 status --json
pid=$(field "$work/out.txt" 'd["jobs"][0]["ranks"][1]["pid"]')
expect 0 capture --pid "$pid" --mode session --steps 2 --wait=30 --until spooled --json
[ "$(field "$work/out.txt" 'd["captures"][0]["state"]')" = spooled ] || die "one process: $(cat "$work/out.txt")"
# Nobody takes it to a collector: the wait ends, the capture goes on.
expect 3 capture --pid "$pid" --wait=1
grep -q 'still under way' "$work/err.txt" || die "no reason for the end of the wait"
# Refused with the hook's reason.
expect 1 capture --pid "$pid" --step 1 --wait=20 --until spooled
grep -q 'failed: .*over' "$work/out.txt" || die "no reason: $(cat "$work/out.txt" "$work/err.txt")"

# A peer that talks nonsense, and one that goes in the middle of its wait.
/usr/bin/python3 - "$KYMO_SOCKET/control.sock" <<'END'
import socket, sys
for junk in (b"\xff" * 4096, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\0" * 64, b""):
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    s.settimeout(5)
    if junk:
        s.sendall(junk)
        while s.recv(65536):
            pass
    s.close()
END
"$bin/kymo" capture --job train --wait=60 >"$work/left.txt" 2>&1 &
left=$!
sleep 0.3
kill "$left" && wait "$left" 2>/dev/null || true

# Metrics, as they came.
/usr/bin/python3 - "$port" >"$work/metrics.txt" <<'END'
import sys, urllib.request
sys.stdout.write(urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/metrics", timeout=5).read().decode())
END
for line in 'kymod_ranks 2' 'kymod_jobs 1' 'kymod_hook_sessions 2' 'kymod_job_ranks{job_name="train"} 2' \
    'kymod_uplink_up{collector="127.0.0.1:1"} 0' 'kymod_spool_state{state="ok"} 1'; do
    grep -qxF "$line" "$work/metrics.txt" || die "no metric $line"
done
awk '/^kymod_captures_total\{state="spooled"\}/ { n = $2 } /^kymod_step_latency_seconds_count/ { c = $2 } END { exit !(n >= 4 && c > 100) }' \
    "$work/metrics.txt" || die "captures or latencies are not counted"
expect 0 status --json
[ "$(field "$work/out.txt" 'd["collectors"][0]["state"]')" != up ] || die "a collector that is not there"
[ "$(field "$work/out.txt" 'd["spool_pending"] >= 4 and d["cost"]["rss_bytes"] < 50e6')" = True ] || die "status: $(cat "$work/out.txt")"

kill "$job"
wait "$job" 2>/dev/null || true
job=""
kill "$kymod"
wait "$kymod" || die "kymod ended with $?"
kymod=""
expect 4 status
echo "control: passed"
