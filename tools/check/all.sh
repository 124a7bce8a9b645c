#!/bin/bash
# Runs every check of the source tree. usage: all.sh [--base COMMIT] [--build BUILD_DIR]
# --base checks the messages of the commits since it (default: since origin/main, where that exists and differs);
# --build adds clang-tidy and cppcheck, which need a finished build.
set -uo pipefail
cd "$(dirname "$0")/../.."

base="" build=""
while [ $# -gt 0 ]; do
    case $1 in
    --base) base=${2:?--base needs a commit}; shift 2 ;;
    --build) build=${2:?--build needs a directory}; shift 2 ;;
    *) sed -n '2,4s/^# //p' "$0" >&2; exit 2 ;;
    esac
done
[ -n "$base" ] || base=$(git merge-base HEAD origin/main 2>/dev/null || true)

failed=()
run()
{
    "$@" || failed+=("$(basename "${2:-$1}")")
}

python=/usr/bin/python3
run $python tools/check/rooms.py
run $python tools/check/style.py
run $python tools/check/features.py
if [ -n "$base" ]; then
    run $python tools/check/words.py --commits "$base"
    run $python tools/check/commits.py "$base"
else
    run $python tools/check/words.py
fi
[ -z "$build" ] || run bash tools/check/analyse.sh "$build"

if [ ${#failed[@]} -gt 0 ]; then
    echo "checks: failed: ${failed[*]}"
    exit 1
fi
echo "checks: all passed"
