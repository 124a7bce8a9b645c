#!/bin/bash
# Runs the quickstart and all tests from a fresh clone in a minimal Debian 12, as somebody without anything would. Takes root,
# debootstrap, and an hour; not part of continuous integration.
#
# usage: tests/clean-debian.sh [--tree DIR] [--commit COMMIT] [STEP...]
#   --tree DIR       where the system is made (default /var/tmp/kymo-clean-debian); steps that are done there are not repeated
#   --commit COMMIT  what is cloned (default HEAD)
#   STEP             base: make the system. root: quickstart as root, which installs the packages. user: quickstart as somebody
#                    else, who cannot. tests: .ci/run. All of them by default; one that is named is repeated. clean: remove it.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)

tree=/var/tmp/kymo-clean-debian commit=HEAD again=0 steps=()
while [ $# -gt 0 ]; do
    case $1 in
    --tree) tree=${2:?--tree needs a directory}; shift 2 ;;
    --commit) commit=${2:?--commit needs a commit}; shift 2 ;;
    base | root | user | tests | clean) steps+=("$1"); again=1; shift ;;
    -h | --help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) sed -n '5,11s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done
[ ${#steps[@]} -gt 0 ] || steps=(base root user tests)
[ "$(id -u)" = 0 ] || { echo "clean-debian: needs root for chroot" >&2; exit 1; }
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
