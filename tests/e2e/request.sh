#!/bin/bash
# Captures that a collector's user asks for: POST /api/v1/captures goes over the uplink to kymod, whose hooks capture, and the ids
# of the answer are those of profiles; who cannot be asked says why. usage: KYMO_BUILD=DIR tests/e2e/request.sh
set -euo pipefail
: "${KYMO_BUILD:?names the build directory}"
KYMO_BUILD=$(realpath "$KYMO_BUILD")
bin=$KYMO_BUILD/bin hook=$KYMO_BUILD/lib/libkymo-hook.so

work=$(mktemp -d "${TMPDIR:-/tmp}/kymo-e2e-request.XXXXXX")
collector="" kymod="" job=""
cleanup()
{
    local status=$? pid
    trap - EXIT
    for pid in $job $kymod $collector; do kill -9 "$pid" 2>/dev/null || true; done
    [ $status = 0 ] || { echo "request: FAILED" >&2; tail -n 30 "$work"/*.log >&2 2>/dev/null || true; }
    wait 2>/dev/null || true
    rm -rf "$work"
    exit $status
}
trap cleanup EXIT

die()
{
    echo "request: $*" >&2
    exit 1
}

# until_true SECONDS COMMAND...
until_true()
{
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.05
    done
}

"$bin/kymo-collector" --data-path "$work/data" --reserve 1M --gather-settle 86400 --listen 127.0.0.1:0 --http 127.0.0.1:0 --ports-file "$work/ports" \
    >"$work/collector.log" 2>&1 &
collector=$!
until_true 10 test -s "$work/ports" || die "the collector does not start"
. "$work/ports"
"$bin/kymod" --data-dir "$work/host" --socket-dir "$work" --metrics 0 --spool-floor 0 --period 0 --host node7 \
    --collector "127.0.0.1:$uplink" 2>"$work/kymod.log" &
kymod=$!
until_true 10 test -S "$work/hook.sock" || die "kymod does not start"
"$bin/kymo-sim" neff --model mlp --arch trn2 --lnc 2 --output "$work/m.neff" >/dev/null
LD_PRELOAD=$hook KYMO_SOCKET=$work KYMO_JOB=wanted timeout -k 5 60 "$bin/kymo-sim" run --mode none --instance trn2.48xlarge --lnc 2 \
    --ranks 2 --steps 100000 --step-ms 5 --neff "$work/m.neff" --output "$work/out" >"$work/job.log" 2>&1 &
job=$!
is_ready()
{
    [ "$("$bin/kymo" status --socket "$work" | grep -c ready || true)" = 2 ]
}
until_true 20 is_ready || die "the ranks are not ready"

/usr/bin/python3 - "http://127.0.0.1:$http/api/v1" "$work/data" >"$work/asked.log" <<'PY' || die "$(cat "$work/asked.log")"
import json, sys, time, urllib.error, urllib.request
from pathlib import Path

url, data = sys.argv[1], Path(sys.argv[2])


def call(path, body=None):
    request = urllib.request.Request(url + path, None if body is None else json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=40) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as e:
        return e.code, json.load(e)


def check(holds, text):
    if not holds:
        sys.exit(print(text) or 1)


def asked(body, ids):
    code, answer = call("/captures", body)
    check(code == 202 and len(answer["hosts"]) == 1, f"{body}: {code} {answer}")
    host = answer["hosts"][0]
    check(len(host["captures"]) == ids and ("error" in host) == (ids == 0), f"{body}: {answer}")
    return host["captures"] if ids else host["error"]


def ready(capture):
    for _ in range(300):
        code, answer = call(f"/captures/{capture}")
        states = [p["state"] for p in answer["profiles"]] if code == 200 else []
        if states == ["ready"]:
            return answer
        check("failed" not in states, f"{capture}: {answer}")
        time.sleep(0.05)
    sys.exit(print(f"{capture} is not ready: {code} {answer}") or 1)


# The whole host, both ranks; then a session of one rank of two, named by job and host.
seen = []
for body, ids in (({}, 2), ({"host": "node7", "job": "wanted", "mode": "session", "ranks_one_in": 2}, 1)):
    for capture in asked(body, ids):
        got = ready(capture)
        check(got["trigger"] == "collector" and got["host"] == "node7" and got["job"] == "wanted", f"{got}")
        check(got["mode"] == body.get("mode", "model"), f"{got}")
        check(got.get("runtime_version", "").startswith("2."), f"no version of the runtime: {got}")
        seen += got["profiles"]
check(len(list((data / "profiles" / "global").iterdir())) == len(seen) == 3, f"profiles: {seen}")

# Who is not there, and what cannot be.
check("no rank" in asked({"job": "nobody"}, 0), "a job that is not there")
check("mode" in asked({"mode": "on-failure"}, 0), "a mode that cannot be asked for")
check(call("/captures", {"host": "node8"})[0] == 404, "a host that is not there")
check(call("/captures", {"ranks_one_in": 65536})[0] == 400, "beyond what the uplink carries")
# A step that is far away: the rank is busy for others.
asked({"step": 10**9, "ranks_one_in": 2}, 1)
check(len(asked({}, 1)) == 1, "the other rank")
PY

kill "$job"
wait "$job" 2>/dev/null || true
job=""
kill "$kymod" && wait "$kymod" || die "kymod ended with $?"
kymod=""
# Nobody is left to be asked.
is_alone()
{
    code=$(/usr/bin/python3 -c 'import sys, urllib.request, urllib.error
try:
    print(urllib.request.urlopen(urllib.request.Request(sys.argv[1], b"{}", {"Content-Type": "application/json"}), timeout=40).status)
except urllib.error.HTTPError as e:
    print(e.code)' "http://127.0.0.1:$http/api/v1/captures")
    [ "$code" = 404 ]
}
until_true 10 is_alone || die "without a daemon: $code"
kill "$collector" && wait "$collector" || die "the collector ended with $?"
collector=""
echo "request: passed"
