#!/bin/bash
# A dozen kills of kymod, kymo-collector and kymo-process under simulated jobs: every capture arrives once, whole, and the jobs do
# not notice. tests/crash/loop.py does it for long. usage: KYMO_BUILD=DIR tests/e2e/crash_loop.sh
set -euo pipefail
: "${KYMO_BUILD:?names the build directory}"
cd "$(dirname "$0")/../.."
timeout -k 5 300 /usr/bin/python3 tests/crash/loop.py --kills 12 --no-log --build "$KYMO_BUILD"
echo "crash_loop: passed"
