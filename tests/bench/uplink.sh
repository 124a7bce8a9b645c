#!/bin/bash
# The uplink on loopback, plain and with TLS, against a bare socket and OpenSSL alone; see uplink.c.
set -euo pipefail
mib=512 rounds=15
[ -z "$KYMO_BENCH_QUICK" ] || { mib=128 rounds=3; }
"$KYMO_BUILD/bin/bench_uplink" "$mib" "$rounds"
