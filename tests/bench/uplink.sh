#!/bin/bash
# The uplink on loopback, plain and with TLS, against a bare socket and OpenSSL alone; see uplink.c.
set -euo pipefail
mib=2048 rounds=5
[ -z "$KYMO_BENCH_QUICK" ] || { mib=256 rounds=2; }
"$KYMO_BUILD/bin/bench_uplink" "$mib" "$rounds"
