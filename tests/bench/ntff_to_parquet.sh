#!/bin/bash
# NTFF to Parquet, all tables that kymo-process writes; see ntff_to_parquet.py.
set -euo pipefail
sizes=(10000000 100000000 300000000)
[ -z "$KYMO_BENCH_QUICK" ] || sizes=(--no-log 1000000 4000000)
"$KYMO_PYTHON" tests/bench/ntff_to_parquet.py "$KYMO_BUILD" "${sizes[@]}"
