#!/bin/bash
# ns that libkymo-hook.so adds to one nrt_execute, idle and armed, and its part in the stall of a capture; see hook.c.
set -euo pipefail
calls=300
[ -z "$KYMO_BENCH_QUICK" ] || calls=30
"$KYMO_BUILD/bin/bench_hook" "$calls"
