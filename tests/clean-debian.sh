#!/bin/bash
# Runs the quickstart and all tests from a fresh clone in a minimal Debian 12, as somebody without anything would. Takes root,
# debootstrap, and an hour; not part of continuous integration.
#
# usage: tests/clean-debian.sh [--tree DIR] [--commit COMMIT] [STEP...]
#   --tree DIR       where the system is made (default /var/tmp/kymo-clean-debian); steps that are done there are not repeated
#   --commit COMMIT  what is cloned (default HEAD)
#   STEP             base: make the system. serve: quickstart --serve as root, which installs the packages and Node, and shows the
#                    page. root: quickstart as root. user: quickstart as somebody else, who cannot install. tests: .ci/run. All of
#                    them by default; one that is named is repeated. clean: remove it.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)

tree=/var/tmp/kymo-clean-debian commit=HEAD again=0 steps=()
while [ $# -gt 0 ]; do
    case $1 in
    --tree) tree=${2:?--tree needs a directory}; shift 2 ;;
    --commit) commit=${2:?--commit needs a commit}; shift 2 ;;
    base | serve | root | user | tests | clean) steps+=("$1"); again=1; shift ;;
    -h | --help) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) sed -n '5,12s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done
[ ${#steps[@]} -gt 0 ] || steps=(base serve root user tests)
[ "$(id -u)" = 0 ] || { echo "clean-debian: needs root for chroot" >&2; exit 1; }
SERVE_LIMIT=1500 # seconds for packages, both builds and the loop
commit=$(git -C "$top" rev-parse --verify "$commit^{commit}")
mkdir -p "$tree"
tree=$(cd "$tree" && pwd)
system=$tree/system

. "$top/tests/debian_tree.sh"
trap tree_leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# fresh HOME: a clone of the commit alone, without objects shared with ours
fresh()
{
    rm -rf "${system:?}$1/kymo"
    git clone -q --no-local "$top" "$system$1/kymo"
    git -C "$system$1/kymo" checkout -q "$commit"
}

step_base()
{
    tree_leave
    rm -rf "$system"
    tree_make git >"$tree/debootstrap.log"
    tree_inside root /root 'useradd -m -s /bin/bash somebody'
}

step_root()
{
    fresh /root
    tree_inside root /root 'cd kymo && tools/quickstart.sh'
}

# Ports of the system are the machine's own: the page is asked for from outside.
step_serve()
{
    local said=$system/root/served.txt quickstart wait shown=0
    fresh /root
    ! tree_inside root /root 'command -v node' || echo "clean-debian: Node was there before; step base makes a system without"
    rm -f "$said"
    tree_inside root /root "cd kymo && exec timeout -s INT -k 20 $SERVE_LIMIT tools/quickstart.sh --serve >../served.txt 2>&1" &
    quickstart=$!
    for ((wait = 0; wait < SERVE_LIMIT; wait++)); do
        ! grep -q '^viewer  *http' "$said" 2>/dev/null || break
        kill -0 $quickstart 2>/dev/null || break
        sleep 1
    done
    cat "$said"
    tree_inside root /root 'node --version'
    # It is stopped whatever the page says.
    python3 "$top/tests/page_answers.py" "$(sed -n 's/^viewer  *\(http.*\)/\1/p' "$said")" || shown=$?
    kill -INT "$(sed -n 's/.*go on until Ctrl-C, or kill \([0-9]*\)$/\1/p' "$said")"
    wait $quickstart
    return $shown
}

step_user()
{
    fresh /home/somebody
    tree_inside root /root 'chown -R somebody: /home/somebody'
    tree_inside somebody:somebody /home/somebody 'cd kymo && tools/quickstart.sh --model attention --lnc 1'
}

step_tests()
{
    fresh /root
    tree_inside root /root 'cd kymo && .ci/run'
}

for step in "${steps[@]}"; do
    if [ "$step" = clean ]; then
        tree_leave
        rm -rf "${system:?}" "$tree"/done-* "$tree"/*.log
        rmdir "$tree"
        continue
    fi
    done_mark=$tree/done-$step
    if [ $again = 0 ] && grep -qsx "$commit" "$done_mark"; then
        echo "clean-debian: $step: done before"
        continue
    fi
    [ "$step" != base ] || [ $again = 1 ] || [ ! -e "$done_mark" ] || continue
    begin=$SECONDS
    [ "$step" = base ] || tree_enter
    rm -f "$done_mark"
    # In the background, where a failing command still ends it.
    "step_$step" >"$tree/$step.log" 2>&1 &
    wait $! || { tail -n 30 "$tree/$step.log"; echo "clean-debian: $step FAILED; see $tree/$step.log"; exit 1; }
    echo "$commit" >"$done_mark"
    echo "clean-debian: $step passed in $((SECONDS - begin)) s"
done
