#!/bin/bash
# ns that libkymo-hook.so adds to one nrt_execute, idle and armed, against the bare call in the same run; see hook.c.
set -euo pipefail
calls=100000
[ -z "$KYMO_BENCH_QUICK" ] || calls=10000
"$KYMO_BUILD/bin/bench_hook" "$calls"
