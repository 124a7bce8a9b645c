#!/bin/bash
# The viewer's page on a large profile, against other viewers; see viewer.py.
set -euo pipefail
arguments=(--records 100000000)
[ -z "$KYMO_BENCH_QUICK" ] || arguments=(--quick)
exec timeout -k 10 705 "$KYMO_PYTHON" tests/bench/viewer.py "$KYMO_BUILD" "${arguments[@]}"
