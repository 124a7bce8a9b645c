#!/bin/bash
# Installs what kymo needs from Debian 12's own packages. --test adds what the tests need. Quick when everything is there.
set -euo pipefail

usage()
{
    cat <<'EOF'
usage: tools/install-deps.sh [--test] [--any-distribution] [--print]

Installs the Debian 12 packages that kymo is built with.
  --test              also what the tests and checks need
  --any-distribution  try on a system that is not Debian 12 (unverified: names and versions of packages may differ)
  --print             only print the names
EOF
}

# One package a line. "name=command" is satisfied by the command as well, whichever package brought it.
build_packages="
ca-certificates
cmake
gcc
git
libarchive-dev
libc6-dev
libcurl4-openssl-dev
libinih-dev
libisal-dev
libjansson-dev
libmicrohttpd-dev
libprotobuf-c-dev
libseccomp-dev
libsqlite3-dev
libssl-dev
libsystemd-dev
libuv1-dev
libzstd-dev
ninja-build
npm=npm
pkg-config=pkg-config
protobuf-c-compiler
python3
"
test_packages="
ccache
chromium
chromium-headless-shell
clang
clang-format
clang-tidy
cppcheck
dbus=dbus-daemon
fonts-dejavu-core
gcovr
libc6-dev-arm64-cross
libclang-rt-14-dev
libcmocka-dev
nodejs=node
python3-dbus
python3-gi
python3-venv
"

want_test=0 any=0 print=0
for arg in "$@"; do
    case $arg in
    --test) want_test=1 ;;
    --any-distribution) any=1 ;;
    --print) print=1 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
    esac
done

wanted=$build_packages
[ "$want_test" = 0 ] || wanted+=$test_packages
if [ "$print" = 1 ]; then
    for entry in $wanted; do echo "${entry%%=*}"; done
    exit 0
fi

distribution() { ( . "${OS_RELEASE:-/etc/os-release}" 2>/dev/null && echo "${ID:-} ${VERSION_ID:-}" ); }

found=$(distribution || true)
if [ "$found" != "debian 12" ]; then
    echo "install-deps: this is \"${found:-unknown}\"; kymo is verified on Debian 12 alone, other distributions are unverified." >&2
    [ "$any" = 1 ] || { echo "install-deps: --any-distribution tries it nevertheless" >&2; exit 1; }
fi

missing=()
for entry in $wanted; do
    package=${entry%%=*}
    [ "$entry" = "$package" ] || ! command -v "${entry#*=}" >/dev/null || continue
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} = 0 ]; then
    echo "install-deps: all packages are installed"
    exit 0
fi

as_root=()
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "install-deps: needs root, or sudo, to install: ${missing[*]}" >&2; exit 1; }
    as_root=(sudo)
fi
echo "install-deps: installing ${missing[*]}"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q update </dev/null
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "${missing[@]}" </dev/null
echo "install-deps: done"
