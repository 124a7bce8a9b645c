#!/bin/bash
# kymod and simulated jobs, without a collector: captures by period and on demand land in the spool, each once and whole, also when
# kymod is killed under the job; jobs without kymod, and hostile settings, change nothing. usage: KYMO_BUILD=DIR tests/e2e/daemon.sh
set -euo pipefail
: "${KYMO_BUILD:?names the build directory}"
KYMO_BUILD=$(realpath "$KYMO_BUILD")
bin=$KYMO_BUILD/bin sample=$KYMO_BUILD/driver-iface/sim/sim-sample-neff hook=$KYMO_BUILD/lib/libkymo-hook.so

work=$(mktemp -d "${TMPDIR:-/tmp}/kymo-e2e-daemon.XXXXXX")
kymod="" job=""
cleanup()
{
    local status=$? pid
    trap - EXIT
    for pid in $kymod $job; do kill -9 "$pid" 2>/dev/null || true; done
    [ $status = 0 ] || { echo "daemon: FAILED" >&2; tail -n 30 "$work"/*.log >&2 2>/dev/null || true; }
    rm -rf "$work"
    exit $status
}
trap cleanup EXIT

die()
{
    echo "daemon: $*" >&2
    exit 1
}

start_kymod()
{
    "$bin/kymod" --config "$work/kymod.conf" "$@" 2>>"$work/kymod.log" &
    kymod=$!
    for _ in $(seq 250); do
        [ "$(grep -c 'hooks at' "$work/kymod.log" || true)" -lt "$starts" ] || break
        kill -0 "$kymod" 2>/dev/null || die "kymod does not start"
        sleep 0.02
    done
    starts=$((starts + 1))
}
starts=1

stop_kymod()
{
    kill "$kymod"
    wait "$kymod" || die "kymod ended with $?"
    kymod=""
}

start_job()
{
    LD_PRELOAD=$hook KYMO_SOCKET=$work KYMO_JOB=$1 timeout -k 5 60 "$bin/kymo-sim" run --mode none --instance trn2.48xlarge \
        --output "$work/out-$1" "${@:2}" >"$work/job-$1.txt" 2>&1 &
    job=$!
}

end_job()
{
    local code=0
    wait "$job" || code=$?
    job=""
    [ $code = "${1:-0}" ] || die "the job ended with $code"
}

captures() { find "$work/data/spool/captures" -mindepth 1 -maxdepth 1 -type d | wc -l; }

# until N SECONDS: so many captures are in the spool
until_captures()
{
    local tries=$(($2 * 20))
    while [ "$(captures)" -lt "$1" ] && [ $tries -gt 0 ]; do
        sleep 0.05
        tries=$((tries - 1))
    done
    [ "$(captures)" -ge "$1" ] || die "$(captures) captures instead of $1"
}

until_empty()
{
    for _ in $(seq 200); do
        [ -n "$(ls -A "$work/data/intake")" ] || return 0
        sleep 0.05
    done
    die "the intake still holds: $(ls "$work/data/intake")"
}

"$sample" Trn2 2 40 "$work/lnc2.neff"
cat >"$work/kymod.conf" <<END
data-dir = $work/data
socket-dir = $work
metrics = 0
spool-floor = 0
period = 0
host = e2e
[job periodic]
period = 1
jitter = 0
END
neff=(--lnc 2 --neff "$work/lnc2.neff")

# A broken file is refused with its line, and no socket is made.
echo "perod = 1" >"$work/broken.conf"
! "$bin/kymod" --config "$work/broken.conf" 2>"$work/refused.txt" || die "a broken file was taken"
grep -q "broken.conf:1: perod: no such key here" "$work/refused.txt" || die "no line: $(cat "$work/refused.txt")"

# Two ranks, once a second.
start_kymod
start_job periodic --ranks 2 --steps 100000 "${neff[@]}"
until_captures 2 20
[ "$(stat -c %a "$work/data/spool" "$work/data/intake" | sort -u)" = 700 ] || die "others may look into spool or intake"
stat=$("$bin/kymo" status --socket "$work" --json)
grep -q '"periodic"' <<<"$stat" || die "status does not show the job: $stat"
kill "$job" && end_job 143
until_empty
manifest=$(find "$work/data/spool/captures" -name manifest.pb | head -1)
for text in periodic e2e model kymo-sim; do
    grep -qa "$text" "$manifest" || die "the manifest lacks $text"
done
rm -rf "$work/data" && stop_kymod

# A step of somebody's choice; one that is over; nobody.
start_kymod
start_job asked --ranks 1 --steps 200000 "${neff[@]}"
for _ in $(seq 100); do
    "$bin/kymo" status --socket "$work" | grep -q ready && break
    sleep 0.05
done
"$bin/kymo" capture --socket "$work" --job asked --wait=20 --until spooled >"$work/asked.txt" 2>>"$work/asked.log" ||
    die "no capture on demand: $(cat "$work/asked.txt" "$work/asked.log")"
"$bin/kymo" capture --socket "$work" --job asked --mode session --steps 3 --wait=20 --until spooled >"$work/asked.txt" 2>>"$work/asked.log" ||
    die "no session on demand: $(cat "$work/asked.txt" "$work/asked.log")"
code=0
"$bin/kymo" capture --socket "$work" --job asked --step 1 --wait=20 --until spooled >"$work/asked.txt" 2>>"$work/asked.log" || code=$?
[ $code = 1 ] || die "a step that is over: exit code $code"
code=0
"$bin/kymo" capture --socket "$work" --job nobody >"$work/asked.txt" 2>>"$work/asked.log" || code=$?
[ $code = 5 ] || die "a job that is not there: exit code $code"
[ "$(captures)" = 2 ] || die "$(captures) captures on demand"

# Killed again and again under the job: it does not notice, and captures go on when kymod is back.
sed -i 's/^\[job periodic\]/[job *]/' "$work/kymod.conf"
for _ in $(seq 5); do
    kill -9 "$kymod"
    wait "$kymod" 2>/dev/null || true
    start_kymod
    sleep 0.2
done
until_captures 3 40
kill "$job" && end_job 143
until_empty
[ "$(find "$work/data/spool/captures" -name '*.ntff' -size 0 | wc -l)" = 0 ] || die "an empty profile"
stop_kymod
"$bin/kymo" spool check "$work/data/spool" >"$work/check.txt" || die "the spool is not sound: $(cat "$work/check.txt")"

# No kymod: nothing changes.
start_job alone --ranks 1 --steps 3 "${neff[@]}"
end_job

echo "daemon: passed"
