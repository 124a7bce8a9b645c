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

cat mlp.neff other.neff a.ntff b.ntff | sha256sum | cmp - inputs || die "an input has changed"
echo "process: all passed"
