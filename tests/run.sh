#!/bin/bash
# Builds kymo and runs everything that must hold: checks, unit tests, sanitizers, a second compiler, end-to-end scripts and
# the Python oracles. Returns 0 only when all of it passed.
#
# usage: tests/run.sh [--quick] [--no-install]
#   --quick        leaves out the sanitizer build, the second compiler and clang-tidy
#   --no-install   takes packages and tests/.venv as they are
#
# Found by themselves: tests/e2e/*.sh (called with KYMO_BUILD set, from the top of the tree), tests/oracle and tests/tools
# (pytest), tests/viewer (pytest, with the page just built, in Chromium). Test files run side by side, one on each processor;
# the tests of one file share what they make and stay together.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

quick=0 install=1
for arg in "$@"; do
    case $arg in
    --quick) quick=1 ;;
    --no-install) install=0 ;;
    -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) sed -n '5,7s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done

export KYMO_BUILD=$PWD/build-release
logs=$(mktemp -d "${TMPDIR:-/tmp}/kymo-tests.XXXXXX")
trap 'rm -rf "$logs"' EXIT
command -v ccache >/dev/null && export CMAKE_C_COMPILER_LAUNCHER=ccache

names=() results=() failures=0

# step NAME LIMIT COMMAND...: runs it within LIMIT seconds, shows and keeps its output, notes the result.
step()
{
    local name=$1 limit=$2 begin=$SECONDS status
    shift 2
    printf '\n=== %s\n' "$name"
    timeout -k 10 "$limit" "$@" </dev/null 2>&1 | tee "$logs/$name"
    status=${PIPESTATUS[0]}
    names+=("$name")
    if [ "$status" = 0 ]; then
        results+=("passed in $((SECONDS - begin)) s")
    else
        failures=$((failures + 1))
        [ "$status" != 124 ] || status="time limit of $limit s"
        results+=("FAILED ($status)")
    fi
    [ "${status}" = 0 ]
}

# The closing line of a tool in the output of a step that ran.
closing()
{
    [ ! -f "$logs/$1" ] || grep -E "$2" "$logs/$1" | tail -1 | sed "s/^/$1: /"
}

finish()
{
    printf '\n=== summary\n'
    for i in "${!names[@]}"; do
        printf '%-14s %s\n' "${names[$i]}" "${results[$i]}"
    done
    closing ctest '^[0-9]+% tests passed'
    closing ctest-asan '^[0-9]+% tests passed'
    closing browser '(passed|failed|error|no tests ran).* in [0-9.]+s'
    closing pytest '(passed|failed|error|no tests ran).* in [0-9.]+s'
    if [ $failures -gt 0 ]; then
        echo "tests: $failures of ${#names[@]} steps failed"
        exit 1
    fi
    echo "tests: all ${#names[@]} steps passed in $SECONDS s"
    exit 0
}

make_venv()
{
    local wanted
    wanted=$(cat tests/requirements.txt tests/viewer/requirements.txt | sha256sum | cut -d' ' -f1)
    if [ "$(cat tests/.venv/requirements.sha256 2>/dev/null)" = "$wanted" ]; then
        echo "tests/.venv is up to date"
        return
    fi
    rm -rf tests/.venv
    /usr/bin/python3 -m venv tests/.venv &&
        tests/.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input -r tests/requirements.txt \
            -r tests/viewer/requirements.txt &&
        echo "$wanted" >tests/.venv/requirements.sha256
}

build_preset()
{
    cmake --preset "$1" && cmake --build --preset "$1"
}

# The page: compiler, linter and its own tests, then the bundle.
build_viewer()
{
    echo "by Node $(node --version) at $(command -v node)"
    cmake --build "$KYMO_BUILD" --target viewer_check && cmake --build "$KYMO_BUILD" --target viewer
}

# Installs into an empty directory and calls what came out.
check_install()
{
    local to=$logs/installed
    cmake --install "$KYMO_BUILD" --prefix "$to" >"$logs/installed.txt" || { cat "$logs/installed.txt"; return 1; }
    local programs
    programs=$(find "$to/bin" -type f | sort)
    for program in $programs; do
        "$program" --help >"$logs/help.txt" 2>&1 || { echo "$program --help fails:"; cat "$logs/help.txt"; return 1; }
    done
    echo "installed and callable:" $(basename -a $programs)
    diff -r viewer/dist "$to/share/kymo/viewer" && echo "and the viewer"
}

run_e2e()
{
    local status=0
    for script in tests/e2e/*.sh; do
        echo "--- $script"
        timeout -k 10 600 bash "$script" </dev/null || { echo "$script: FAILED ($?)"; status=1; }
    done
    return $status
}

export -f make_venv build_preset build_viewer check_install run_e2e
export logs

if [ $install = 1 ]; then
    step packages 900 tools/install-deps.sh --test || finish
    step duckdb 300 tools/fetch-duckdb.sh || finish
    step venv 900 bash -c make_venv || finish
fi
step build 900 bash -c 'build_preset release' || finish
step viewer 600 bash -c build_viewer
if [ $quick = 1 ]; then
    step checks 300 tools/check/all.sh
else
    step checks 1500 tools/check/all.sh --build "$KYMO_BUILD"
fi
step ctest 600 ctest --preset release -j "$(nproc)"
step install 60 bash -c check_install
if [ $quick = 0 ]; then
    step build-asan 900 bash -c 'build_preset asan' &&
        step ctest-asan 900 ctest --preset asan -j "$(nproc)"
    step build-clang 900 bash -c 'build_preset clang'
fi
if compgen -G 'tests/e2e/*.sh' >/dev/null; then
    step e2e 1200 bash -c run_e2e
fi
suites=()
for suite in tests/tools tests/oracle; do
    [ ! -d $suite ] || suites+=("$suite")
done
pytest=(tests/.venv/bin/python -m pytest -q -p no:cacheprovider -n "$(nproc)" --dist loadfile)
KYMO_BIN=$KYMO_BUILD/bin step browser 600 "${pytest[@]}" tests/viewer
step pytest 1800 "${pytest[@]}" "${suites[@]}"
finish
