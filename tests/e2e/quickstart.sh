#!/bin/bash
# tools/quickstart.sh with the real programs: the table it prints is what pandas finds in the files, the tables of every capture
# equal the truth, and neither success nor a signal leaves a process. usage: KYMO_BUILD=DIR tests/e2e/quickstart.sh
set -euo pipefail
: "${KYMO_BUILD:?names the build directory}"
top=$(cd "$(dirname "$0")/../.." && pwd)
python=$top/tests/.venv/bin/python

work=$(mktemp -d "${TMPDIR:-/tmp}/kymo-e2e-quickstart.XXXXXX")
export KYMO_TEST_RUN=quickstart-$$-$RANDOM
cleanup()
{
    local status=$?
    trap - EXIT
    [ $status = 0 ] || { echo "quickstart: FAILED" >&2; tail -n 20 "$work"/*.txt "$work"/*/*.log >&2 2>/dev/null || true; }
    rm -rf "$work"
    exit $status
}
trap cleanup EXIT

die()
{
    echo "quickstart: $*" >&2
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

# check NAME RANKS: what the run printed and left in $work/NAME.
check()
{
    "$python" - "$top/tests/oracle" "$KYMO_BUILD/bin" "$work/$1" "$work/$1.txt" "$2" <<'PY' || die "$1: what was printed or written is wrong"
import re, sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import captures
import duckdb
import pandas as pd

bin, output, text, ranks = sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]).read_text(), int(sys.argv[5])
name = re.search(r"== time by engine and opcode in (\S+)", text)[1]
table = output / "data" / "profiles" / "global" / name / "Instruction.parquet"
printed = [(e, o, int(c), int(s)) for e, o, c, s in re.findall(r"^(\w+) +(\w+) +(\d+) +(\d+)$", text, re.MULTILINE)]
grouped = pd.read_parquet(table).groupby(["engine", "opcode"])["duration_ns"].agg(["count", "sum"]).reset_index()
by_pandas = [tuple(r) for r in grouped.sort_values(["sum", "engine", "opcode"], ascending=[False, True, True]).head(10).to_numpy().tolist()]
by_duckdb = duckdb.execute(
    f"SELECT engine, opcode, count(*), sum(duration_ns)::BIGINT AS s FROM '{table}' GROUP BY ALL ORDER BY s DESC, engine, opcode LIMIT 10"
).fetchall()
if not len(printed) == 10 or not printed == by_pandas == by_duckdb:
    sys.exit(f"printed {printed}\npandas {by_pandas}\nDuckDB {by_duckdb}")
demanded = re.findall(r"^(d-\S+) sent$", text, re.MULTILINE)
total = int(re.search(r"^(\d+) captures, \d+ of them on demand", text, re.MULTILINE)[1])
if len(demanded) != ranks or total < 2 * ranks:
    sys.exit(f"{len(demanded)} of {total} captures on demand, {ranks} ranks")
if len(re.findall(r"@latest: \d+ rings: closed$", text, re.MULTILINE)) != total:
    sys.exit("not every profile's equation is said to be closed")
for folder in ("data/profiles/global/", "data/raw/captures", "truth"):
    if f"{output}/{folder}" not in text:
        sys.exit(f"{folder} is not named")
compared, differences = captures.check(bin, output / "data", output / "truth")
if differences or compared != total:
    sys.exit(f"{compared} profiles: " + "\n".join(differences))
print(f"{output.name}: {len(printed)} rows and {compared} profiles are right")
PY
}

# start NAME OPTIONS...: in the background, as $script.
start()
{
    local name=$1
    shift
    "$top/tools/quickstart.sh" --programs "$KYMO_BUILD/bin" --output "$work/$name" \
        --ranks 2 "$@" >"$work/$name.txt" 2>&1 &
    script=$!
}

# wait_for FILE TEXT
wait_for()
{
    for _ in $(seq 600); do
        ! grep -qs "$2" "$1" || return 0
        kill -0 $script 2>/dev/null || break
        sleep 0.1
    done
    die "no \"$2\" in $1"
}

# stop SIGNAL CODE
stop()
{
    local code=0
    kill "-$1" $script
    wait $script || code=$?
    [ $code = "$2" ] || die "SIG$1: exit code $code instead of $2"
    [ -z "$(left)" ] || die "SIG$1: processes left: $(left)"
}

timeout -k 5 150 "$top/tools/quickstart.sh" --programs "$KYMO_BUILD/bin" --output "$work/trn1" --ranks 1 --steps 8 --model attention \
    --instance trn1.32xlarge >"$work/trn1.txt" 2>&1 || die "trn1: exit code $?"
[ -z "$(left)" ] || die "trn1: processes left: $(left)"
check trn1 1

start served --serve
wait_for "$work/served.txt" "go on until Ctrl-C"
check served 2
url=$(sed -n 's/^API *//p' "$work/served.txt")
"$python" -c 'import json, sys, urllib.request as u; json.load(u.urlopen(sys.argv[1], timeout=10))' "${url}profiles" ||
    die "served: no API at \"$url\""
viewer=$(sed -n 's/^viewer *//p' "$work/served.txt")
"$python" - "$KYMO_BUILD/share/kymo/viewer/index.html" "$url" "$viewer" <<'PY' || die "served: no viewer at \"$viewer\""
import json, os, sys, urllib.request as u
built, api, viewer = sys.argv[1:]
page = u.urlopen(viewer.split("#")[0].split()[0], timeout=10).read().decode()
if os.path.exists(built):
    assert page == open(built).read(), page
    name = viewer.split("#/profile/")[1]
    assert json.load(u.urlopen(f"{api}profiles/{name}/overview", timeout=60))["tables"]["Instruction"]
else:
    assert "--target viewer" in page and "says how to have it" in viewer, (page, viewer)
PY
grep -q "or kill $script\$" "$work/served.txt" || die "served: it does not say how to stop it"
code=0
"$top/tools/quickstart.sh" --programs "$KYMO_BUILD/bin" --output "$work/served" >"$work/beside.txt" 2>&1 || code=$?
[ $code = 2 ] && grep -q "in use by another quickstart" "$work/beside.txt" || die "served: a second one took its place: $code"
"$KYMO_BUILD/bin/kymo" status --socket "$work/served/sockets" >"$work/status.txt" || die "served: no daemon"
stop TERM 0

start stopped --steps 999999
wait_for "$work/stopped/job.log" "rank 1 step 1:"
stop TERM 143

echo "quickstart: passed"
