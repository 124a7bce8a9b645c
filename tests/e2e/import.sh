#!/bin/bash
# kymo import, profiles and reprocess on a small simulated capture: the tables of kymo process, whatever is killed, full,
# broken or external. usage: KYMO_BUILD=DIR tests/e2e/import.sh
set -euo pipefail
: "${KYMO_BUILD:?names the build directory}"
sim=$KYMO_BUILD/bin/kymo-sim kymo=$KYMO_BUILD/bin/kymo

# In memory where possible: nothing here depends on what survives a loss of power.
[ ! -w /dev/shm ] || TMPDIR=/dev/shm
work=$(mktemp -d "${TMPDIR:-/tmp}/kymo-import.XXXXXX")
mounted=""
cleanup()
{
    local status=$?
    trap - EXIT
    [ $status = 0 ] || { echo "import: FAILED" >&2; tail -n 20 "$work"/*.log >&2 2>/dev/null || true; }
    [ -z "$mounted" ] || umount "$mounted" || true
    rm -rf "$work"
    exit $status
}
trap cleanup EXIT

die()
{
    echo "import: $*" >&2
    exit 1
}

# import NAME EXPECTED_CODE OPTIONS...: into the store $work/NAME, what it says in $work/NAME.log
import()
{
    local name=$1 expected=$2 code=0
    shift 2
    timeout -k 5 60 "$kymo" import --reserve 1M --data-path "$work/$name" "$@" >"$work/$name.log" 2>&1 || code=$?
    [ $code = "$expected" ] || die "$name: exit code $code instead of $expected"
}

says()
{
    grep -q -- "$2" "$work/$1.log" || die "$1: does not say \"$2\""
}

# state STORE PROFILE KEY: a value of kymo profiles --json; PROFILE is the end of its name
state()
{
    "$kymo" profiles --json --data-path "$work/$1" >"$work/state.json"
    /usr/bin/python3 - "$work/state.json" "$2" "$3" <<'PY'
import json, sys
print(*(p.get(sys.argv[3], "") for p in json.load(open(sys.argv[1]))["profiles"] if p["name"].endswith(sys.argv[2])))
PY
}

# The tables of kymo process, byte for byte, but for the name of the profile and the paths in warnings.
same_tables()
{
    local place=$work/$1/profiles/global/job-kymo-sim-r0-cap-nc0@latest table
    [ "$(ls "$place")" = "$(ls "$work/wanted")" ] || die "$1: other tables than those of kymo process"
    for table in "$work"/wanted/*.parquet; do
        cmp -s "$table" "$place/$(basename "$table")" || die "$1: $(basename "$table") differs"
    done
    [ -z "$(ls -A "$work/$1/work" "$work/$1/raw/incoming" | grep -v ':$' || true)" ] || die "$1: something is left in work or incoming"
    [ "$(ls "$work/$1/profiles/global" | wc -l)" = 1 ] || die "$1: more than one profile"
}

"$sim" neff --model mlp --arch trn2 --lnc 1 --output "$work/m.neff" >/dev/null
mkdir "$work/capture"
"$sim" ntff --neff "$work/m.neff" --output "$work/capture/p_vnc_0.ntff" --instance trn2.48xlarge --lnc 1 --dge 1 >/dev/null
cp "$work/m.neff" "$work/capture/neff_m.neff"
"$kymo" process -s "$work/capture/p_vnc_0.ntff" -n "$work/m.neff" --output-file "$work/wanted" >/dev/null 2>&1
rm -f "$work"/wanted/{Metadata,Warning,SchemaFields}.parquet

compare()
{
    local place=$work/$1/profiles/global/job-kymo-sim-r0-cap-nc0@latest
    "$kymo" verify "$place" >/dev/null 2>&1 || die "$1: kymo verify does not close"
    mkdir -p "$work/kept"
    mv "$place"/{Metadata,Warning,SchemaFields}.parquet "$work/kept/"
    same_tables "$1"
    mv "$work"/kept/* "$place/"
}

cap=(--capture-id cap "$work/capture")

# Whole, again (nothing to do), reprocessed.
import plain 0 "${cap[@]}"
says plain 'nc0 ready'
compare plain
import plain 0 "${cap[@]}"
says plain 'nc0 ready'
[ "$(state plain nc0 attempts)" = 1 ] || die "plain: a second import made the profile again"
inode=$(stat -c %i "$work"/plain/profiles/global/*nc0@latest)
"$kymo" reprocess job-kymo-sim-r0-cap-nc0 --reserve 1M --data-path "$work/plain" >"$work/plain.log" 2>&1 || die "reprocess fails"
[ "$(stat -c %i "$work"/plain/profiles/global/*nc0@latest)" != "$inode" ] || die "reprocess made nothing"
compare plain
code=0
"$kymo" reprocess nothing --data-path "$work/plain" >"$work/plain.log" 2>&1 || code=$?
[ $code = 1 ] || die "reprocess of nothing: $code"

# Two writers at a time are refused, readers are not.
exec 8>>"$work/plain/lock"
flock 8
import plain 1 "${cap[@]}"
says plain 'works on this store'
[ "$(state plain nc0 state)" = ready ] || die "plain: cannot be read beside a writer"
exec 8>&-

# Killed at many places; what is left never shows a part of a profile, and the next run ends as the first would have.
for ms in 2 5 10 15 20 30 40 60 80 120 200 300; do
    "$kymo" import --reserve 1M --data-path "$work/killed" "${cap[@]}" >/dev/null 2>&1 &
    pid=$!
    sleep "0.$(printf %03d "$ms")"
    kill -9 $pid 2>/dev/null || true
    wait $pid 2>/dev/null || true
    for place in "$work"/killed/profiles/global/*; do
        [ ! -e "$place" ] || [ -e "$place/Metadata.parquet" ] || die "killed: a half-published profile after $ms ms"
    done
    [ $((ms % 4)) != 0 ] || continue
    import killed 0 "${cap[@]}"
    compare killed
    rm -rf "$work/killed"
done
import killed 0 "${cap[@]}"
compare killed

# A broken profile fails with its reason and place; the one beside it does not mind. Empty ones are no profiles.
cp -r "$work/capture" "$work/broken-capture"
head -c 5000 "$work/capture/p_vnc_0.ntff" >"$work/broken-capture/q_vnc_1.ntff"
: >"$work/broken-capture/r_vnc_2.ntff"
import broken 1 --capture-id cap "$work/broken-capture"
says broken 'nc0 ready'
says broken 'nc1 failed: .*truncated.*(offset 5000)'
[ "$(state broken nc1 file_offset)" = 5000 ] || die "broken: no offset in the catalogue"
[ -z "$(state broken nc2 state)" ] || die "broken: an empty file has a profile"
import broken 1 --capture-id cap "$work/broken-capture"
says broken 'nc1 failed'
# A directory that changed under an id that is known.
echo more >"$work/broken-capture/notes.txt"
import broken 1 --capture-id cap "$work/broken-capture"
says broken 'another manifest'

# External processors: what kymo cannot decode goes to them, and to them alone.
cat >"$work/processor" <<'SH'
#!/bin/sh
# usage: processor HOW NTFF OUTPUT
[ -r "$2" ] && [ -d "$3" ] && [ "$KYMO_NTFF" = "$2" ] || exit 9
case $1 in
success) printf 'PAR1\025\002\031\034\004\000\000\000PAR1' >"$3/Foreign.parquet"; echo 2.33.1 >"$3/schema_version"; echo junk >"$3/junk.txt" ;;
failure) printf 'PAR1\025\002\031\034\004\000\000\000PAR1' >"$3/Foreign.parquet"; echo "no licence" >&2; exit 5 ;;
later) echo "come back" >&2; exit 75 ;;
timeout) printf 'PAR1\025\002\031\034\004\000\000\000PAR1' >"$3/Foreign.parquet"; sleep 100 & wait ;;
partial) printf 'PAR1\025\002\031\034\004\000\000\000PAR1' >"$3/Foreign.parquet"; printf 'PAR1....' >"$3/Cut.parquet" ;;
nothing) ;;
network) exec /usr/bin/python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_STREAM)' ;;
esac
SH
chmod +x "$work/processor"

# external HOW EXPECTED_CODE OPTIONS...: one decodable and one undecodable profile
external()
{
    local how=$1 code=$2
    shift 2
    rm -rf "$work/ext"
    import ext "$code" --capture-id cap "$work/broken-capture" --processor "$work/processor $how {ntff} {output}" "$@"
    [ "$(state ext nc0 processor)" = "$(state plain nc0 processor)" ] || die "$how: what kymo can decode went elsewhere"
    [ "$(state ext nc0 state)" = ready ] || die "$how: the other profile is not ready"
    [ "$code" = 0 ] || [ ! -e "$work/ext/profiles/global/job-kymo-sim-r0-cap-nc1@latest" ] || die "$how: something is published"
}
external success 0
[ "$(ls "$work/ext/profiles/global/job-kymo-sim-r0-cap-nc1@latest")" = Foreign.parquet ] || die "success: other files than tables"
[ "$(state ext nc1 schema_version) $(state ext nc1 processor)" = "2.33.1 processor" ] || die "success: no version of the schema"
external failure 1
says ext 'nc1 failed: no licence'
external later 1
says ext 'nc1 queued: come back'
import ext 0 --processor "$work/processor success {ntff} {output}"
[ "$(state ext nc1 state)" = ready ] || die "later: not tried again"
external timeout 1 --processor-time-limit 1
says ext 'nc1 failed: .*longer than its limit of 1000 ms'
external partial 1
says ext 'nc1 failed: .*Cut.parquet: .*no Parquet file'
external nothing 1
says ext 'nc1 failed: .*no table was made'
external network 1
says ext 'nc1 failed: PermissionError'
import ext 1 --processor "$work/processor {nothing}"
says ext 'no placeholder {nothing}'
import ext 1 --processor '"open'
says ext 'quote is not closed'

# Limits: time and memory.
import small 1 "${cap[@]}" --memory 12M
says small 'nc0 failed'
import small 1

# A full disk, twice: while the capture comes in, and while its tables are made. With room it goes on by itself.
mkdir "$work/full"
if mount -t tmpfs -o size=700k kymo-import "$work/full" 2>/dev/null; then
    mounted=$work/full
    import full 1 "${cap[@]}" --reserve 200K
    says full 'bytes are free'
    "$kymo" profiles --data-path "$work/full" >"$work/full.log"
    says full 'capture cap receiving: .*bytes are free'
    import full 1 "${cap[@]}" --reserve 0
    [ -z "$(ls -A "$work/full/raw/captures")" ] || die "full: a capture is half-published"
    mount -o remount,size=1500k "$work/full"
    import full 1 "${cap[@]}" --reserve 100K
    says full 'nc0 queued: .*No space left'
    [ "$(state full nc0 state)" = queued ] || die "full: the profile does not wait"
    [ -z "$(ls -A "$work/full/profiles/global")" ] || die "full: a profile is half-published"
    mount -o remount,size=16m "$work/full"
    import full 0 --reserve 0
    compare full
else
    echo "import: no tmpfs can be mounted here, so the full disk is left to the unit tests"
fi

echo "import: passed"
