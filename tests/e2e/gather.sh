#!/bin/bash
# Many captures as one: a capture of two ranks that a collector's user asks for becomes a parent with its members; rows of all go to
# the fleet's tables. Both are made again with their profiles, outlive kill -9 at any moment, and go when the tables go.
# usage: KYMO_BUILD=DIR tests/e2e/gather.sh
set -euo pipefail
: "${KYMO_BUILD:?names the build directory}"
KYMO_BUILD=$(realpath "$KYMO_BUILD")
bin=$KYMO_BUILD/bin hook=$KYMO_BUILD/lib/libkymo-hook.so
[ -x "$bin/kymo-gather" ] || { echo "gather: skipped, the build has no DuckDB"; exit 0; }

work=$(mktemp -d "${TMPDIR:-/tmp}/kymo-e2e-gather.XXXXXX")
collector="" kymod="" job=""
cleanup()
{
    local status=$? pid
    trap - EXIT
    for pid in $job $kymod $collector; do kill -9 "$pid" 2>/dev/null || true; done
    [ $status = 0 ] || { echo "gather: FAILED" >&2; tail -n 30 "$work"/*.log >&2 2>/dev/null || true; }
    wait 2>/dev/null || true
    rm -rf "$work"
    exit $status
}
trap cleanup EXIT

die()
{
    echo "gather: $*" >&2
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

start_collector()
{
    rm -f "$work/ports"
    "$bin/kymo-collector" --data-path "$work/data" --reserve 1M --listen "127.0.0.1:${uplink:-0}" --http "127.0.0.1:${http:-0}" \
        --gather-settle 1 --retry 1 --cluster west --jobs 2 --ports-file "$work/ports" >>"$work/collector.log" 2>&1 &
    collector=$!
    until_true 10 test -s "$work/ports" || die "the collector does not start"
    . "$work/ports"
}

start_collector
"$bin/kymod" --data-dir "$work/host" --socket-dir "$work" --metrics 0 --spool-floor 0 --period 0 --host node7 \
    --collector "127.0.0.1:$uplink" 2>"$work/kymod.log" &
kymod=$!
until_true 10 test -S "$work/hook.sock" || die "kymod does not start"
"$bin/kymo-sim" neff --model mlp --arch trn2 --lnc 2 --layers 1 --hidden 128 --batch 128 --output "$work/m.neff" >/dev/null
LD_PRELOAD=$hook KYMO_SOCKET=$work KYMO_JOB=many timeout -k 5 240 "$bin/kymo-sim" run --mode none --instance trn2.48xlarge --lnc 2 \
    --ranks 2 --steps 100000 --step-ms 5 --neff "$work/m.neff" --output "$work/out" >"$work/job.log" 2>&1 &
job=$!
is_ready()
{
    [ "$("$bin/kymo" status --socket "$work" | grep -c ready || true)" = 2 ]
}
until_true 30 is_ready || die "the ranks are not ready"

profiles()
{
    "$bin/kymo" profiles --data-path "$work/data" --json
}
# settled PARENTS: that many, all ready, and all rows of the fleet there.
settled()
{
    profiles | /usr/bin/python3 -c 'import json, sys
rows = json.load(sys.stdin)["profiles"]
parents = [r for r in rows if r["kind"] == "ranks"]
sys.exit(len(parents) != int(sys.argv[1]) or any(r["state"] != "ready" or r.get("fleet") != "ready" for r in rows))' "$1"
}
ask()
{
    /usr/bin/python3 -c 'import json, sys, urllib.request
q = urllib.request.Request(sys.argv[1], b"{}", {"Content-Type": "application/json"})
print(len(json.load(urllib.request.urlopen(q, timeout=40))["hosts"][0]["captures"]))' "http://127.0.0.1:$http/api/v1/captures"
}

[ "$(ask)" = 2 ] || die "not all ranks were asked"
until_true 60 settled 1 || die "no parent: $(profiles)"
# By the API, by the command, and as tables.
/usr/bin/python3 - "http://127.0.0.1:$http/api/v1" >"$work/api.log" <<'PY' || die "$(cat "$work/api.log")"
import json, sys, urllib.request
get = lambda path: json.load(urllib.request.urlopen(sys.argv[1] + path, timeout=40))
rows = get("/profiles")["profiles"]
parent, = [r for r in rows if r["kind"] == "ranks"]
one = get("/profiles/" + parent["name"])
assert sorted(m["rank"] for m in one["members"]) == [0, 1], one
assert {m["name"] for m in one["members"]} == {r["name"] for r in rows if r["kind"] == "device"}, one
assert one["job"] == "many" and "capture" not in one and one["request"].startswith("c-"), one
assert {r["request"] for r in rows} == {one["request"]}, rows
assert len(get("/captures")["captures"]) == 2
# What the viewer asks: the members with their own figures, and the fleet by job down to the profiles.
ranks = get("/profiles/" + parent["name"] + "/ranks")
assert sorted(r["rank"] for r in ranks["ranks"]) == [0, 1] and all(r["mfu_percent"] is not None for r in ranks["ranks"]), ranks
row, = get("/fleet?group=job")["rows"]
assert row["key"] == {"job": "many"} and row["profiles"] == 2 and row["days"][-1]["mfu_percent"] > 0, row
behind = get("/fleet/profiles?job=many")["rows"]
assert {r["profile"] for r in behind} == {m["name"] for m in one["members"]}, behind
assert {r["parent"] for r in behind} == {parent["name"]} and {r["cluster"] for r in behind} == {"west"}, behind
print(parent["name"])
PY
parent=$(cat "$work/api.log")
"$bin/kymo" profiles --collector "http://127.0.0.1:$http" | grep -q "^$parent ready .*$parent@latest (ranks of request c-" || die "kymo profiles does not show it"
place=$work/data/profiles/global/$parent@latest
query()
{
    "$bin/kymo" query -f tsv "$1" "$2" | tail -n +2 | tr '\t' ' '
}
[ "$(query "$place" "SELECT count(*), count(DISTINCT host), sum((state = 'ready')::INT) FROM Member")" = "2 1 2" ] || die "members"
[ "$(query "$place" "SELECT count(*) FROM ClockMap WHERE method <> 'none' AND device_error_ns > 0 AND NOT contradict")" = 2 ] || die "clocks"
[ "$(query "$place" "SELECT profile_kind FROM Metadata")" = ranks ] || die "metadata"
member=$(profiles | /usr/bin/python3 -c 'import json, sys
print(next(r["path"] for r in json.load(sys.stdin)["profiles"] if r["kind"] == "device"))')
[ "$(query "$member" "SELECT count(*) FROM ClockSync WHERE source = 'sync_point' AND error_bound_ns > 0")" -ge 2 ] || die "no moments of both clocks"
[ -n "$(query "$member" "SELECT capture_id, host FROM Metadata WHERE request IS NOT NULL AND rank IS NOT NULL")" ] || die "whose profile it is"
parts()
{
    find "$work/data/fleet" -name '*.parquet' -path "*/$1/date=20*/cluster=west/part-*" | wc -l
}
[ "$(parts Summary)" = 2 ] && [ "$(parts Metadata)" = 3 ] && [ "$(parts Member)" = 1 ] || die "rows of the fleet: $(find "$work/data/fleet")"

# Made again: the parent follows its members.
before=$(stat -c %i "$place")
"$bin/kymo" reprocess --collector "http://127.0.0.1:$http" "$(basename "${member%@latest}")" >"$work/again.log" 2>&1 || die "$(cat "$work/again.log")"
is_another()
{
    [ "$(stat -c %i "$place")" != "$before" ] && settled 1
}
until_true 60 is_another || die "the parent is not made again: $(profiles)"

# Killed at any moment: all becomes what it would have been, nothing half.
for ms in 50 200 500; do
    [ "$(ask)" = 2 ] || die "not all ranks were asked"
    sleep "$(printf '0.%03d' $((ms % 1000)))"
    kill -9 "$collector"
    wait "$collector" 2>/dev/null || true
    for dir in "$work"/data/profiles/global/*; do
        [ ! -e "$dir" ] || [ -e "$dir/Metadata.parquet" ] || die "killed after $ms ms: $dir is half there"
    done
    start_collector
    sleep 0.3
done
until_true 120 settled 4 || die "after kills: $(profiles)"
[ -z "$(ls "$work/data/work")" ] || die "left at work: $(ls -R "$work/data/work")"
[ "$(parts Summary)" = 8 ] && [ "$(parts Metadata)" = 12 ] && [ "$(parts Member)" = 4 ] || die "after kills: $(find "$work/data/fleet" | wc -l)"
for dir in "$work"/data/profiles/global/*-ranks@latest; do
    [ "$(query "$dir" "SELECT count(*) FROM Member WHERE state = 'ready'")" = 2 ] || die "$dir: members"
done

# What somebody removes takes its rows along.
gone=$(basename "${member%@latest}")
rm -r "$member"
is_gone()
{
    [ -z "$(find "$work/data/fleet" -name "part-$gone.parquet")" ]
}
until_true 20 is_gone || die "rows of a profile that is gone"
[ "$(parts Summary)" = 7 ] || die "rows of others went as well"

kill "$job"
wait "$job" 2>/dev/null || true
job=""
kill "$kymod" && wait "$kymod" || die "kymod ended with $?"
kymod=""
kill "$collector" && wait "$collector" || die "the collector ended with $?"
collector=""
echo "gather: passed"
