#!/bin/bash
# The Parquet writer against DuckDB and pyarrow on the Instruction table; see parquet_writer.py.
set -euo pipefail
run=(4000000)
[ -z "$KYMO_BENCH_QUICK" ] || run=(200000 --no-log)
"$KYMO_PYTHON" tests/bench/parquet_writer.py "$KYMO_BUILD/bin/bench_parquet_writer" "${run[@]}"
