#!/bin/bash
# Runs the quickstart and all tests from a fresh clone in a minimal Debian 12, as somebody without anything would. Takes root,
# debootstrap, and an hour; not part of continuous integration.
#
# usage: tests/clean-debian.sh [--tree DIR] [--commit COMMIT] [STEP...]
#   --tree DIR       where the system is made (default /var/tmp/kymo-clean-debian); steps that are done there are not repeated
#   --commit COMMIT  what is cloned (default HEAD)
#   STEP             base: make the system. root: quickstart as root, which installs the packages. user: quickstart as somebody
#                    else, who cannot. tests: .ci/run. All of them by default; one that is named is repeated. clean: remove it.
#
# The system gets the machine's package sources, registry configuration and certificates, and devices of its own.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)

tree=/var/tmp/kymo-clean-debian commit=HEAD again=0 steps=()
while [ $# -gt 0 ]; do
    case $1 in
    --tree) tree=${2:?--tree needs a directory}; shift 2 ;;
    --commit) commit=${2:?--commit needs a commit}; shift 2 ;;
    base | root | user | tests | clean) steps+=("$1"); again=1; shift ;;
    -h | --help) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) sed -n '5,11s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done
[ ${#steps[@]} -gt 0 ] || steps=(base root user tests)
[ "$(id -u)" = 0 ] || { echo "clean-debian: needs root for chroot" >&2; exit 1; }
commit=$(git -C "$top" rev-parse --verify "$commit^{commit}")
certificates=/etc/ssl/certs/ca-certificates.crt
mkdir -p "$tree"
tree=$(cd "$tree" && pwd)
system=$tree/system

leave()
{
    local place
    for place in dev proc; do
        ! mountpoint -q "$system/$place" || umount -l "$system/$place"
    done
}
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Devices of its own: what runs in there as root may not reach those of the machine.
enter()
{
    local name major minor
    mountpoint -q "$system/proc" || mount -t proc proc "$system/proc"
    ! mountpoint -q "$system/dev" || return 0
    mount -t tmpfs -o mode=755,size=2g tmpfs "$system/dev"
    while read -r name major minor; do
        mknod -m 666 "$system/dev/$name" c "$major" "$minor"
    done <<<$'null 1 3\nzero 1 5\nfull 1 7\nrandom 1 8\nurandom 1 9\ntty 5 0'
    ln -s /proc/self/fd "$system/dev/fd"
    mkdir -m 1777 "$system/dev/shm"
}

# inside USER HOME COMMAND: in the system, with an empty environment
inside()
{
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME="$2" LANG=C.UTF-8 TERM=dumb \
        NODE_EXTRA_CA_CERTS=$certificates PIP_CERT=$certificates chroot --userspec="$1" "$system" bash -c "cd && $3" </dev/null
}

# fresh HOME: a clone of the commit alone, without objects shared with ours
fresh()
{
    rm -rf "${system:?}$1/kymo"
    git clone -q --no-local "$top" "$system$1/kymo"
    git -C "$system$1/kymo" checkout -q "$commit"
}

step_base()
{
    leave
    rm -rf "$system"
    debootstrap --variant=minbase --include=ca-certificates,git bookworm "$system" >"$tree/debootstrap.log"
    # debootstrap reaches the sources itself; what follows makes them and the registries reachable from inside.
    rm -f "$system/etc/apt/sources.list"
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.* /etc/apt/apt.conf.d/*proxy* /etc/apt/apt.conf.d/99* /etc/hosts \
        /etc/resolv.conf /etc/pip.conf /etc/npmrc $certificates; do
        [ ! -f "$file" ] || install -D -m 644 "$file" "$system$file"
    done
    inside root /root 'useradd -m -s /bin/bash somebody'
}

step_root()
{
    fresh /root
    inside root /root 'cd kymo && tools/quickstart.sh'
}

step_user()
{
    fresh /home/somebody
    inside root /root 'chown -R somebody: /home/somebody'
    inside somebody:somebody /home/somebody 'cd kymo && tools/quickstart.sh --model attention --lnc 1'
}

step_tests()
{
    fresh /root
    inside root /root 'cd kymo && .ci/run'
}

for step in "${steps[@]}"; do
    if [ "$step" = clean ]; then
        leave
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
    [ "$step" = base ] || enter
    rm -f "$done_mark"
    # In the background, where a failing command still ends it.
    "step_$step" >"$tree/$step.log" 2>&1 &
    wait $! || { tail -n 30 "$tree/$step.log"; echo "clean-debian: $step FAILED; see $tree/$step.log"; exit 1; }
    echo "$commit" >"$done_mark"
    echo "clean-debian: $step passed in $((SECONDS - begin)) s"
done
