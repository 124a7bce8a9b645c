#!/bin/bash
# kymo in a booted systemd: both programs as units, a training unit that gets the hook, is captured and loses it again, restarts
# under it, what the sandboxes deny. Takes root, debootstrap, systemd-nspawn and some ten minutes the first time; not part of
# continuous integration. Each step's result is a line of tests/systemd/log.tsv.
#
# usage: tests/systemd/nspawn.sh [--tree DIR] [--no-log] [--keep] [STEP...]
#   --tree DIR   where the system and the build are kept (default /var/tmp/kymo-nspawn)
#   --no-log     adds nothing to the log
#   --keep       leaves the system as it was at the end in DIR/run, for looking around
#   STEP         only these, after boot and units; see "steps=" below. clean: removes DIR.
set -uo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/debian_tree.sh"
. "$top/tests/systemd/nspawn_steps.sh"

tree=/var/tmp/kymo-nspawn log=$top/tests/systemd/log.tsv keep=0 steps=()
while [ $# -gt 0 ]; do
    case $1 in
    --tree) tree=${2:?--tree needs a directory}; shift 2 ;;
    --no-log) log=/dev/null; shift ;;
    --keep) keep=1; shift ;;
    clean) rm -rf "${tree:?}"; exit 0 ;;
    -h | --help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) sed -n '6,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    *) declare -F "step_$1" >/dev/null || { echo "nspawn: no step $1" >&2; exit 2; }; steps+=("$1"); shift ;;
    esac
done
# In this order; the later ones find what the earlier ones left.
[ ${#steps[@]} -gt 0 ] || steps=(enable capture bus group restart watchdog reload socket strict slice user sandbox disable stop)
[ "$(id -u)" = 0 ] || { echo "nspawn: needs root" >&2; exit 1; }
for program in debootstrap systemd-nspawn nsenter; do
    command -v $program >/dev/null || { echo "nspawn: $program is missing: apt-get install debootstrap systemd-container util-linux" >&2; exit 1; }
done
mkdir -p "$tree"
tree=$(cd "$tree" && pwd)
base=$tree/base run=$tree/run build=$tree/build work=$tree/work
machine='' leader=''
commit=$(git -C "$top" rev-parse --short HEAD)
git -C "$top" diff --quiet HEAD -- . ':!tests/systemd/log.tsv' || commit+=+
mkdir -p "$work"

# Ends what we started and unmounts what we mounted; nothing else.
finish()
{
    local status=$?
    trap - EXIT
    if [ -n "$machine" ] && kill -0 "$machine" 2>/dev/null; then
        kill -TERM "$machine"
        for _ in $(seq 100); do
            kill -0 "$machine" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$machine" 2>/dev/null
    fi
    for system in "$base" "$run"; do tree_leave; done
    [ $keep = 1 ] || { ! mountpoint -q "$run" || umount -l "$run"; rm -rf "$run" "$tree/upper" "$tree/overlay"; }
    exit $status
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Packages of the shared libraries that the installed programs need.
runtime_packages()
{
    find "$1" -type f \( -path '*/bin/*' -o -name '*.so*' \) -exec ldd {} + 2>/dev/null | awk '$2 == "=>" && $3 ~ "^/" {print $3}' |
        sort -u | while read -r library; do
        dpkg -S "$library" 2>/dev/null || dpkg -S "$(realpath "$library")" 2>/dev/null || dpkg -S "/usr$library" 2>/dev/null
    done | sed 's/[:,].*//' | sort -u
}

prepare()
{
    local packages wanted
    # A build of another clone cannot be gone on with.
    grep -qsxF "CMAKE_HOME_DIRECTORY:INTERNAL=$top" "$build/CMakeCache.txt" || rm -rf "$build"
    cmake -S "$top" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_INSTALL_PREFIX=/usr -DBUILD_TESTING=OFF \
        >"$work/build.log" && ninja -C "$build" -j2 >>"$work/build.log" || { tail -20 "$work/build.log"; return 1; }
    rm -rf "$tree/stage"
    DESTDIR=$tree/stage cmake --install "$build" >"$work/install.log" || return 1
    packages=$(runtime_packages "$tree/stage" | tr '\n' ' ')
    wanted="systemd systemd-sysv dbus dbus-user-session libpam-systemd $packages"
    system=$base
    if [ ! -e "$tree/base.done" ]; then
        tree_leave
        rm -rf "$base"
        tree_make systemd,systemd-sysv,dbus >"$work/debootstrap.log" || { tail -5 "$work/debootstrap.log"; return 1; }
        : >"$tree/base.done"
    fi
    if [ "$(cat "$tree/base.done")" != "$wanted" ]; then
        tree_enter || return 1
        tree_inside root /root "apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends $wanted && apt-get clean" \
            >"$work/packages.log" 2>&1 || { tail -5 "$work/packages.log"; return 1; }
        tree_leave
        echo "$wanted" >"$tree/base.done"
    fi
    # The system of this run lies over the base.
    ! mountpoint -q "$run" || umount -l "$run"
    rm -rf "$run" "$tree/upper" "$tree/overlay"
    mkdir -p "$run" "$tree/upper" "$tree/overlay"
    mount -t overlay overlay -o "lowerdir=$base,upperdir=$tree/upper,workdir=$tree/overlay" "$run" || return 1
    cp -a "$tree/stage/." "$run/" || return 1
    # The library that stands in for the runtime's, where a loader finds it.
    system=$run
    tree_inside root /root 'find /usr/lib -path "*/kymo/libnrt.so.1" -printf "%h\n" >/etc/ld.so.conf.d/kymo-sim.conf; ldconfig;
        useradd -m trainer; useradd -m watcher; useradd -m -G daemon other'
}

boot()
{
    systemd-nspawn -q -b -D "$run" --register=no --keep-unit --machine=kymo-test --private-network </dev/null >"$work/boot.log" 2>&1 &
    machine=$!
    for _ in $(seq 300); do
        kill -0 $machine 2>/dev/null || { tail -20 "$work/boot.log"; machine=''; return 1; }
        leader=$(pgrep -P $machine -x systemd | head -1)
        [ -z "$leader" ] || case $(inside 'systemctl is-system-running' 2>/dev/null) in running | degraded) return 0 ;; esac
        sleep 0.2
    done
    echo "it has not booted within a minute"
    return 1
}

# inside COMMAND: as root in the booted system
inside()
{
    timeout -k 5 120 nsenter -t "$leader" -m -u -i -n -p -- env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 bash -c "cd /; $1" </dev/null
}

# as USER COMMAND
as()
{
    inside "setpriv --reuid=$1 --regid=$1 --init-groups bash -c '$2'"
}

result=0
try()
{
    local name=$1 begin=$SECONDS status
    shift
    # A step ends at its first failing command, which only holds in the background: here the caller asks for our result.
    ( set -eE; trap 'echo "$BASH_COMMAND: $?"' ERR; "$@" ) >"$work/$name.log" 2>&1 &
    wait $!
    status=$?
    if [ $status = 0 ]; then
        printf '%-10s passed in %d s\n' "$name" $((SECONDS - begin))
    else
        printf '%-10s FAILED\n' "$name"
        tail -n 25 "$work/$name.log" | sed 's/^/    /'
        result=1
    fi
    printf '%s\t%s\t%s\t%s\t%d\n' "$commit" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$name" "$([ $status = 0 ] && echo passed || echo failed)" \
        $((SECONDS - begin)) >>"$log"
    return $status
}

[ -s "$log" ] || [ "$log" = /dev/null ] || printf 'commit\ttime\tstep\tresult\tseconds\n' >"$log"
begin=$SECONDS
prepare || { echo "nspawn: the system cannot be made"; exit 1; }
echo "prepared in $((SECONDS - begin)) s"
begin=$SECONDS
boot || { echo "nspawn: it does not boot"; exit 1; }
echo "booted in $((SECONDS - begin)) s"
if try units step_units; then
    for step in "${steps[@]}"; do
        try "$step" "step_$step" || true
    done
fi
[ $result = 0 ] || inside 'journalctl -q --no-pager -u kymod -u kymo-collector | tail -n 60'
exit $result
