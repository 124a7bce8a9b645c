#!/bin/bash
# kymo-collector with a stand-in for daemons on loopback: captures become profiles once and whole, whatever is killed, full or
# foreign. usage: KYMO_BUILD=DIR tests/e2e/collector.sh
set -euo pipefail
: "${KYMO_BUILD:?names the build directory}"
bin=$KYMO_BUILD/bin

[ ! -w /dev/shm ] || TMPDIR=/dev/shm
work=$(mktemp -d "${TMPDIR:-/tmp}/kymo-collector.XXXXXX")
collector="" peer="" mounted=""
cleanup()
{
    local status=$?
    trap - EXIT
    [ $status = 0 ] || { echo "collector: FAILED" >&2; tail -n 15 "$work"/*.log >&2 2>/dev/null || true; }
    [ -z "$peer" ] || kill -9 "$peer" 2>/dev/null || true
    [ -z "$collector" ] || kill -9 "$collector" 2>/dev/null || true
    wait 2>/dev/null || true
    [ -z "$mounted" ] || umount "$mounted" || true
    rm -rf "$work"
    exit $status
}
trap cleanup EXIT

die()
{
    echo "collector: $*" >&2
    exit 1
}

# until_true COMMAND...: on any machine
until_true()
{
    local end=$((SECONDS + 90))
    until "$@"; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.02
    done
}

# start STORE OPTIONS...: sets collector, uplink and http
start()
{
    local store=$1
    shift
    rm -f "$work/ports"
    "$bin/kymo-collector" --data-path "$work/$store" --reserve 1M --listen 127.0.0.1:0 --http off --retry 1 \
        --ports-file "$work/ports" "$@" >>"$work/collector.log" 2>&1 &
    collector=$!
    until_true test -e "$work/ports" || die "$store: does not become ready"
    . "$work/ports"
}

stop()
{
    local begin=$SECONDS
    kill "$collector"
    wait "$collector" || die "exit code $? at the end"
    [ $((SECONDS - begin)) -lt 20 ] || die "took $((SECONDS - begin)) s to stop"
    collector=""
}

crash()
{
    kill -9 "$collector"
    wait "$collector" 2>/dev/null || true
    collector=""
}

send()
{
    timeout -k 5 180 "$bin/uplink-peer" --port "$uplink" --seconds 150 "$@" >>"$work/peer.log" 2>&1
}

# state STORE KEY [CAPTURE]: a value of the only profile, or of this capture's
state()
{
    "$bin/kymo" profiles --json --data-path "$work/$1" >"$work/state.json"
    /usr/bin/python3 - "$work/state.json" "$2" "${3:-}" <<'PY'
import json, sys
print(*(p.get(sys.argv[2], "") for p in json.load(open(sys.argv[1]))["profiles"] if p["capture"].startswith(sys.argv[3])))
PY
}

is()
{
    [ "$(state "$1" "$2" "${4:-}")" = "$3" ]
}

becomes()
{
    until_true is "$@" || die "$1: $2 is \"$(state "$1" "$2" "${4:-}")\", not \"$3\": $(state "$1" reason "${4:-}")"
}

# The profile is there once and equals what kymo process makes; nothing is left over.
whole()
{
    local place table
    becomes "$1" state ready
    [ "$(ls "$work/$1/profiles/global" | wc -l)" = 1 ] || die "$1: more than one profile"
    [ -z "$(ls "$work/$1/raw/incoming")" ] || die "$1: something is left in incoming"
    [ "$(ls "$work/$1/raw/neff" | wc -l)" = 1 ] || die "$1: more than one NEFF"
    place=$(echo "$work/$1"/profiles/global/*)
    for table in "$work"/wanted/*.parquet; do
        cmp -s "$table" "$place/$(basename "$table")" || die "$1: $(basename "$table") differs"
    done
}

children()
{
    cat /proc/"$collector"/task/*/children 2>/dev/null
}

has_child()
{
    [ -n "$(children)" ]
}

# capture NAME NTFF: a directory as a daemon has it
capture()
{
    local from=$work/from-$1
    mkdir "$from"
    cp "$2" "$from/p_vnc_0.ntff"
    cp "$work/m.neff" "$from/neff_m.neff"
    "$bin/kymo" import --reserve 1M --data-path "$work/import" --capture-id "$1" "$from" >>"$work/import.log" 2>&1 || true
    cp -r "$work/import/raw/captures/$1" "$work/$1"
    cp "$work/m.neff" "$work/$1/neff_m.neff"
    rm -rf "$from" "$work/import"
}

"$bin/kymo-sim" neff --model mlp --arch trn2 --lnc 1 --output "$work/m.neff" >/dev/null
"$bin/kymo-sim" ntff --neff "$work/m.neff" --output "$work/p.ntff" --instance trn2.48xlarge --lnc 1 --dge 1 --executions 16 \
    --buffer EVENT=1 >/dev/null
capture cap "$work/p.ntff"
head -c 3000 /dev/urandom >"$work/foreign.ntff"
capture foreign "$work/foreign.ntff"
"$bin/kymo" process -s "$work/p.ntff" -n "$work/m.neff" --output-file "$work/wanted" >/dev/null 2>&1
rm -f "$work"/wanted/{Metadata,Warning,SchemaFields}.parquet

# Whole, offered again, and what the rings lost comes back to the host that sent it, once.
start plain
send --host h1 "$work/cap"
whole plain
send --host h2 --stay-ms 300
heard()
{
    grep -q '^losses ' "$work/peer.log"
}
! heard || die "plain: another host heard of the losses"
hear()
{
    send --host h1 --stay-ms 300 "$work/cap" && heard
}
until_true hear || die "plain: the host did not hear of its losses"
send --host h1 --stay-ms 300
is plain attempts 1 || die "plain: a capture that came again was made again"
lost=$(grep '^losses ' "$work/peer.log" || true)
[[ "$lost" == "losses job-kymo-sim-r0-cap-nc0 EVENT(nc0) ring_full "* && "$lost" != *$'\n'* ]] || die "losses: \"$lost\""
stop

# Killed at any point on the way, and started again under a daemon that only comes again.
start killed
port=$uplink
send --host h1 "$work/cap" &
peer=$!
for ms in 5 15 30 50 80 120 180 260; do
    sleep "0.$(printf %03d "$ms")"
    crash
    start killed --listen "127.0.0.1:$port"
    for place in "$work"/killed/profiles/global/*; do
        [ ! -e "$place" ] || [ -e "$place/Metadata.parquet" ] || die "killed: a half-published profile after $ms ms"
    done
done
wait "$peer" || die "killed: the capture is not stored"
peer=""
whole killed
stop

# A processor that is killed is tried again, three times.
start children
send --host h1 "$work/cap"
until_true has_child || die "children: none"
kill -9 $(children)
becomes children attempts 2
whole children
stop
start beaten
send --host h1 "$work/cap"
for try in 1 2 3; do
    until_true has_child || die "beaten: no try $try"
    kill -9 $(children) 2>/dev/null || die "beaten: it was too fast"
    until_true is beaten attempts $try
done
becomes beaten state failed
[[ "$(state beaten reason)" == *"killed from outside"*"try 3 of 3"* ]] || die "beaten: $(state beaten reason)"
stop

# A disk that is full: a state with a reason; by itself when there is room.
mkdir "$work/small"
if mount -t tmpfs -o size=32m none "$work/small" 2>/dev/null; then
    mounted=$work/small
    start small/store --no-work
    head -c 20000000 /dev/zero >"$work/small/filler"
    send --host h1 "$work/cap" &
    peer=$!
    full()
    {
        /usr/bin/python3 - "$work/small/store/catalog.db" <<'PY'
import sqlite3, sys
rows = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True).execute("select state, reason from captures").fetchall()
sys.exit(not any(s == "receiving" and "bytes are free" in (r or "") for s, r in rows))
PY
    }
    until_true full || die "small: no reason"
    [ -z "$(ls "$work/small/store/raw/captures")" ] || die "small: published"
    grep -q "refused cap" "$work/peer.log" || until_true grep -q "refused cap" "$work/peer.log" || die "small: the daemon was not told"
    rm "$work/small/filler"
    wait "$peer" || die "small: not stored when there was room again"
    peer=""
    [ "$(ls "$work/small/store/raw/captures")" = cap ] || die "small: not published"
    stop
    umount "$mounted"
    mounted=""
else
    echo "collector: no tmpfs here: the full disk is left to the unit tests"
fi

# The external processor, for what kymo cannot decode: its tables, its failure, its time, its tables cut off.
cat >"$work/external" <<'EXT'
#!/bin/sh
mode=$(cat "$0.mode")
[ "$mode" != slow ] || exec sleep 600
[ "$mode" != failure ] || { echo "cannot read $1" >&2; exit 3; }
printf 'PAR1\025\002\031\034\004\000\000\000PAR1' >"$2/Table.parquet"
[ "$mode" != partial ] || printf 'PAR1....' >"$2/Other.parquet"
echo 9.9 >"$2/schema_version"
EXT
chmod +x "$work/external"
for mode in success failure slow partial; do
    echo $mode >"$work/external.mode"
    limit=90
    [ $mode != slow ] || limit=1
    printf 'processor = %s {ntff} {output}\nprocessor-time = %s\n' "$work/external" $limit >"$work/external.conf"
    start "external-$mode" --config "$work/external.conf"
    send --host h1 "$work/foreign"
    case $mode in
    success)
        becomes external-success state ready
        is external-success schema_version 9.9 || die "external: schema version $(state external-success schema_version)"
        is external-success processor external || die "external: processor $(state external-success processor)"
        ;;
    *)
        becomes "external-$mode" state failed
        [ -z "$(ls "$work/external-$mode/profiles/global")" ] || die "external: published in spite of $mode"
        ;;
    esac
    stop
done
[[ "$(state external-failure reason)" == *"cannot read"* ]] || die "external: $(state external-failure reason)"
[[ "$(state external-slow reason)" == *"longer than its limit of 1000 ms"* ]] || die "external: $(state external-slow reason)"
[[ "$(state external-partial reason)" == *Other.parquet* ]] || die "external: $(state external-partial reason)"

# Settings that change while it runs: with the processor taken in, what failed can be made again.
printf '# nothing yet\n' >"$work/reload.conf"
start reload --config "$work/reload.conf"
send --host h1 "$work/foreign"
becomes reload state failed
echo success >"$work/external.mode"
cp "$work/external.conf" "$work/reload.conf"
echo 'window = 8M' >>"$work/reload.conf"
kill -HUP "$collector"
until_true grep -q "settings are read again" "$work/collector.log" || die "reload: nothing happens"
grep -q "window changes at the next start" "$work/collector.log" || die "reload: does not say what waits"
echo 'nonsense = 1' >>"$work/reload.conf"
kill -HUP "$collector"
until_true grep -q "the former settings stay" "$work/collector.log" || die "reload: takes nonsense"
stop

echo "collector: passed"
