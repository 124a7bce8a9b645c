#!/bin/bash
# Runs every bench in this folder and prints each figure as a line "name: value unit" (ratios "name: value x").
#
# usage: tests/bench/run.sh [--quick] [NAME...]
#   --quick   small inputs: shows that the benches work, the figures are rough
#   NAME      benches to run (file name without .sh); all of them by default
#
# A bench is an executable NAME.sh beside this file. It is called from the top of the tree with KYMO_BUILD (a release build),
# KYMO_PYTHON (with the packages of tests/requirements.txt) and KYMO_BENCH_QUICK (1 or empty) set.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

quick='' names=()
for arg in "$@"; do
    case $arg in
    --quick) quick=1 ;;
    -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) sed -n '4,6s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    *) names+=("$arg") ;;
    esac
done

export KYMO_BENCH_QUICK=$quick
export KYMO_BUILD=${KYMO_BUILD:-$([ -d build-release ] && echo build-release || echo build)}
export KYMO_PYTHON=${KYMO_PYTHON:-$([ -x tests/.venv/bin/python ] && echo tests/.venv/bin/python || echo python3)}

if [ ${#names[@]} = 0 ]; then
    for file in tests/bench/*.sh; do
        name=$(basename "$file" .sh)
        [ "$name" = run ] || names+=("$name")
    done
fi

failures=0
for name in "${names[@]}"; do
    if ! timeout -k 10 3600 "tests/bench/$name.sh" </dev/null; then
        echo "bench $name failed" >&2
        failures=$((failures + 1))
    fi
done
[ $failures = 0 ]
