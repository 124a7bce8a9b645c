#!/bin/bash
# Compiles libkymo-hook.so's sources for aarch64, whose stubs no other test reaches: that they assemble, that nothing but libc is
# asked for, and that every interposed name is there. They are not run. usage: KYMO_BUILD=DIR tests/e2e/hook_aarch64.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
include=/usr/aarch64-linux-gnu/include
if ! command -v clang >/dev/null || [ ! -e $include/dlfcn.h ]; then
    echo "hook_aarch64: skipped: needs clang and libc6-dev-arm64-cross"
    exit 0
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/kymo-hook-aarch64.XXXXXX")
trap 'rm -rf "$work"' EXIT
for file in driver-iface/hook/*.c; do
    clang --target=aarch64-linux-gnu -nostdlibinc -isystem $include -std=c17 -D_GNU_SOURCE -DKYMO_VERSION='"test"' -I. -O2 -fPIC \
        -fvisibility=hidden -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror -c "$file" -o "$work/$(basename "$file" .c).o"
done
readelf -sW "$work"/*.o >"$work/symbols"
for name in $(sed -n '/global:/,/local:/p' driver-iface/hook/hook.map | grep -oE '\b(dlsym|nrta?_[a-z_]+)\b'); do
    grep -qE "FUNC +GLOBAL DEFAULT +[0-9]+ $name\$" "$work/symbols" || { echo "hook_aarch64: $name is not defined" >&2; exit 1; }
done
echo "hook_aarch64: passed"
