#!/bin/bash
# tools/quickstart.sh with the real programs: the table it prints is what pandas finds in the files, every rank's tables
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
    [ $status = 0 ] || { echo "quickstart: FAILED" >&2; tail -n 20 "$work"/*.txt "$work"/*/quickstart.log >&2 2>/dev/null || true; }
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

# check NAME RANKS OPTIONS...
check()
{
    local name=$1 ranks=$2
    shift 2
    timeout -k 5 150 "$top/tools/quickstart.sh" --programs "$KYMO_BUILD/bin" --output "$work/$name" --ranks "$ranks" "$@" \
        >"$work/$name.txt" 2>&1 || die "$name: exit code $?"
    [ -z "$(left)" ] || die "$name: processes left: $(left)"
    "$python" - "$top/tests/oracle" "$work/$name" "$work/$name.txt" "$ranks" <<'PY' || die "$name: what was printed or written is wrong"
import re, sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import duckdb
import pandas as pd
import truth

output, text, ranks = Path(sys.argv[2]), Path(sys.argv[3]).read_text(), int(sys.argv[4])
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
if len(re.findall(r"@latest: \d+ rings: closed$", text, re.MULTILINE)) != ranks:
    sys.exit("not every profile's equation is said to be closed")
for folder in ("data/profiles/global/", "captures", "truth"):
    if f"{output}/{folder}" not in text:
        sys.exit(f"{folder} is not named")
compared = 0
for rank in range(ranks):
    (true,) = (output / "truth").glob(f"*_vnc_{rank}")
    (profile,) = table.parents[1].glob(f"*-r{rank}@latest")
    differences = truth.compare(profile, true)
    if differences:
        sys.exit(f"rank {rank}: " + "\n".join(differences))
    compared += 1
print(f"{output.name}: {len(printed)} rows and {compared} profiles are right")
PY
}

check mlp 2 --steps 3
check attention 2 --steps 3 --model attention --lnc 1
check trn1 2 --steps 3 --instance trn1.32xlarge

# Stopped while the ranks train.
"$top/tools/quickstart.sh" --programs "$KYMO_BUILD/bin" --output "$work/stopped" --ranks 2 --steps 999999 >"$work/stopped.txt" 2>&1 &
script=$!
for _ in $(seq 200); do
    ! grep -qs "rank 1 step 1:" "$work/stopped/quickstart.log" || break
    sleep 0.1
done
grep -qs "rank 1 step 1:" "$work/stopped/quickstart.log" || die "stopped: the training did not begin"
kill -TERM $script
code=0
wait $script || code=$?
[ $code = 143 ] || die "stopped: exit code $code instead of 143"
[ -z "$(left)" ] || die "stopped: processes left: $(left)"

echo "quickstart: passed"
