#!/bin/bash
# A crowd of hosts, some of them broken, slow or hostile, on one collector: all that the honest send arrives once.
# tests/scale/hosts.py does it with a thousand and measures. usage: KYMO_BUILD=DIR tests/e2e/hosts.sh
set -euo pipefail
: "${KYMO_BUILD:?names the build directory}"
cd "$(dirname "$0")/../.."
timeout -k 5 300 /usr/bin/python3 tests/scale/hosts.py --hosts 100 --captures 1 --breaking 100 --slow 100 --hostile 100 --idle 0.5 --no-log \
    --build "$KYMO_BUILD"
timeout -k 5 300 /usr/bin/python3 tests/scale/hosts.py --hosts 10 --captures 1 --process --idle 0 --no-log --build "$KYMO_BUILD"
code=0
(ulimit -n 100 && exec /usr/bin/python3 tests/scale/hosts.py --hosts 1000 --no-log --build "$KYMO_BUILD" 2>/dev/null) || code=$?
[ $code = 2 ] || { echo "hosts: too few descriptors gave $code" >&2; exit 1; }
echo "hosts: passed"
