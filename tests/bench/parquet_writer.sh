#!/bin/bash
# The Parquet writer against DuckDB and pyarrow on the Instruction table; see parquet_writer.py.
set -euo pipefail
rows=4000000
[ -z "$KYMO_BENCH_QUICK" ] || rows=200000
"$KYMO_PYTHON" tests/bench/parquet_writer.py "$KYMO_BUILD/bin/bench_parquet_writer" "$rows"
