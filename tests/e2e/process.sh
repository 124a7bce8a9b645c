#!/bin/bash
# kymo-process, kymo process and kymo-sim where they are told wrong things: what is refused, with which exit code and which
# reason, and what stays as it was. usage: KYMO_BUILD=DIR tests/e2e/process.sh
set -euo pipefail
: "${KYMO_BUILD:?names the build directory}"
sim=$KYMO_BUILD/bin/kymo-sim kymo=$KYMO_BUILD/bin/kymo process=$KYMO_BUILD/bin/kymo-process

work=$(mktemp -d "${TMPDIR:-/tmp}/kymo-process.XXXXXX")
cleanup()
{
    local status=$?
    trap - EXIT
    [ $status = 0 ] || echo "process: FAILED" >&2
    rm -rf "$work"
    exit $status
}
trap cleanup EXIT

die()
{
    echo "process: $*" >&2
    exit 1
}

# gives CODE TEXT COMMAND...: the exit code, and an extended regular expression that stdout and stderr must match
gives()
{
    local expected=$1 text=$2 code=0
    shift 2
    timeout -k 5 60 "$@" >"$work/out" 2>&1 </dev/null || code=$?
    [ $code = "$expected" ] || { cat "$work/out"; die "exit code $code instead of $expected: $*"; }
    [ -z "$text" ] || grep -Eq -- "$text" "$work/out" || { cat "$work/out"; die "nothing like \"$text\" from: $*"; }
}

cd "$work"
"$sim" neff --model mlp --arch trn2 --lnc 2 --output mlp.neff >/dev/null
"$sim" neff --model mlp --arch trn2 --lnc 2 --seed 7 --output other.neff >/dev/null
"$sim" ntff --neff mlp.neff --output a.ntff >/dev/null
"$sim" ntff --neff mlp.neff --executions 2 --output b.ntff >/dev/null
cat mlp.neff other.neff a.ntff b.ntff | sha256sum >inputs

# Nothing but a profile is replaced.
mkdir mine && echo mine >mine/notes.txt && echo plain >file && ln -s mine link
for there in mine file link mlp.neff a.ntff . "$work"; do
    gives 1 'not replaced|not a name' "$process" --ntff a.ntff --neff mlp.neff --output "$there"
done
mkdir nest && cp a.ntff nest/a.parquet
gives 1 'holds the input' "$process" --ntff nest/a.parquet --neff mlp.neff --output nest
[ "$(cat mine/notes.txt)" = mine ] && [ "$(cat file)" = plain ] && [ -L link ] || die "something was replaced"
gives 0 '' "$process" --ntff a.ntff --neff mlp.neff --output tables
gives 0 '' "$process" --ntff a.ntff --neff mlp.neff --output tables
[ -f tables/Metadata.parquet ] || die "no tables"

# What is missing is told at once.
gives 0 'warning: Missing NEFF: ' "$process" --ntff a.ntff --output tables
gives 0 'warning: Wrong NEFF: ' "$process" --ntff a.ntff --neff other.neff --output tables
gives 0 'warning: Unreadable NEFF: .*file' "$process" --ntff a.ntff --neff file --output tables
gives 0 'warning: Manifest: .*absent' "$process" --ntff a.ntff --neff mlp.neff --manifest absent --output tables
gives 0 'warning: Lost records: ' bash -c \
    "'$sim' ntff --neff mlp.neff --buffer DMA=1 --executions 100 --output lost.ntff && '$process' --ntff lost.ntff --neff mlp.neff --output tables"

# Signals and limits leave nothing behind.
gives 2 'progress-fd 77: no open descriptor' "$process" --ntff a.ntff --output tables --progress-fd 77
"$process" --ntff lost.ntff --neff mlp.neff --output hup 2>hup.txt & child=$!
for ((i = 0; i < 500; i++)); do compgen -G 'hup.tmp-*' >/dev/null && break; sleep 0.01; done
kill -HUP $child && code=0 && wait $child || code=$?
[ "$code" = 1 ] && grep -q 'stopped on request' hup.txt || { cat hup.txt; die "SIGHUP: exit code $code"; }
gives 1 'File too large' bash -c "ulimit -f 8; exec '$process' --ntff a.ntff --neff mlp.neff --output big"
! compgen -G '*.tmp-*' >/dev/null && [ ! -e hup ] && [ ! -e big ] || die "left behind: $(echo *.tmp-*)"
sleep 0 & child=$! && wait $child && mkdir "tables.tmp-$child"
gives 0 '' "$process" --ntff a.ntff --neff mlp.neff --output tables
[ ! -e "tables.tmp-$child" ] || die "the work of a dead process was not removed"

# kymo process: what the user names must be sound.
gives 1 'absent.neff: cannot open' "$kymo" process -s a.ntff -n absent.neff --output-file none
gives 1 'file' "$kymo" process -s a.ntff -n file --output-file none
gives 1 'none.ntff: cannot open' "$kymo" process -s none.ntff --output-file none
gives 0 'warning: Wrong NEFF' "$kymo" process -s a.ntff -n other.neff --output-file wrong
gives 0 'warning: Missing NEFF' "$kymo" process -s a.ntff --output-file wrong
gives 1 'not replaced' "$kymo" process -s a.ntff -n mlp.neff --output-file mine
[ ! -e none ] || die "something was written"

# Names: one for each profile, and only letters that are safe in paths.
for name in 'a b' .hidden 'x/y' 'é' '' "$(printf 'n%.0s' {1..201})"; do
    gives 2 'display-name' "$kymo" process -s a.ntff --data-path data --display-name "$name"
done
gives 0 '' "$kymo" process -s a.ntff -n mlp.neff --data-path data
gives 0 '' "$kymo" process -s b.ntff -n mlp.neff --data-path data
gives 0 '' "$kymo" process -s a.ntff -n mlp.neff --data-path data
names=$(ls data/profiles/global)
[ "$(wc -l <<<"$names")" = 2 ] || die "two profiles, but: $names"
! grep -Evq '^job-[A-Za-z0-9._-]+-20260101T000000Z-nc0-[0-9a-f]{12}@latest$' <<<"$names" || die "names: $names"
mkdir man && cp a.ntff man && python3 - <<'END'
import hashlib

def varint(n):
    return bytes([n & 127 | 128]) + varint(n >> 7) if n > 127 else bytes([n])

def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value

data = open("a.ntff", "rb").read()
entry = field(1, b"a.ntff") + field(2, 1) + field(3, len(data)) + field(4, hashlib.sha256(data).digest())
with open("man/manifest.pb", "wb") as out:
    out.write(field(1, 1) + field(2, b"c1") + field(3, b".a job") + field(4, 3) + field(5, b"h") + field(14, entry))
END
gives 0 '/_a_job-h-r3-c1-nc0-[0-9a-f]{12}@latest$' "$kymo" process -d man -n mlp.neff --data-path manifest
mkdir -p host_pid_7/123 && cp a.ntff b.ntff mlp.neff host_pid_7/123
gives 0 'job-host-7-123-nc0-' "$kymo" process -d host_pid_7/123 --data-path session
[ "$(ls session/profiles/global | wc -l)" = 2 ] || die "two profiles of one core: $(ls session/profiles/global)"
gives 0 '' "$kymo" process -d host_pid_7/123 --data-path named --display-name both
[ "$(ls named/profiles/global | wc -l)" = 2 ] || die "two profiles of one name: $(ls named/profiles/global)"

# What is damaged in a directory keeps nothing else from being made.
head -c 1000 a.ntff >host_pid_7/123/0.ntff && echo bad >host_pid_7/123/bad.neff
gives 1 '0.ntff: .*' "$kymo" process -d host_pid_7/123 --data-path damaged
[ "$(ls damaged/profiles/global | wc -l)" = 2 ] || die "two sound profiles: $(ls damaged/profiles/global)"
grep -q '1 of 3 profiles could not be made' "$work/out" || die "no count of failures"

# Usage and output.
gives 0 'Exit code: 0 done' "$kymo" process --help
gives 0 'replaced' "$kymo" process --help
gives 2 'no command "bogus"' "$kymo" neff bogus
gives 2 'no command "bogus"' "$kymo" ntff bogus
gives 2 'unknown option.*--bogus' "$kymo" neff inspect mlp.neff --bogus
ulimit_write() { trap '' XFSZ; ulimit -f 0; exec "$@" >>"$work/full"; }
for command in "$kymo --help" "$kymo process -s a.ntff -n mlp.neff --help" "$process --help" "$sim --version"; do
    code=0
    (ulimit_write $command) 2>/dev/null || code=$?
    [ $code = 1 ] || die "exit code $code instead of 1 where the output cannot be written: $command"
done

# kymo-sim replaces regular files only, and none of its inputs.
for there in mine link mlp.neff; do
    gives 1 'will not be replaced' "$sim" ntff --neff mlp.neff --output "$there"
    [ $there = mlp.neff ] || gives 1 'will not be replaced' "$sim" neff --model mlp --arch trn2 --output "$there"
done
ln mlp.neff same.neff && gives 1 'is the input' "$sim" ntff --neff mlp.neff --output same.neff
ln -s file to.ntff.tmp && gives 1 'will not be replaced' "$sim" ntff --neff mlp.neff --output to.ntff
[ "$(cat mine/notes.txt)" = mine ] && [ "$(cat file)" = plain ] && [ -L link ] || die "something was replaced"
gives 2 'executions: 0 is outside' "$sim" ntff --neff mlp.neff --output x.ntff --executions 0
gives 2 'driver new: no version' "$sim" ntff --neff mlp.neff --output x.ntff --driver new
gives 2 'buffer.*DMA.*not a whole number' "$sim" ntff --neff mlp.neff --output x.ntff --buffer DMA=x
gives 2 'no instance type' "$sim" ntff --neff mlp.neff --output x.ntff --instance none
gives 1 'mlp.neff: made for Trn2 .*instance is Trn3' "$sim" ntff --neff mlp.neff --output x.ntff --instance trn3.48xlarge

cat mlp.neff other.neff a.ntff b.ntff | sha256sum | cmp - inputs || die "an input has changed"
echo "process: all passed"
