#!/bin/bash
# Fetches DuckDB's C library and header, pinned and checked by hash, into third_party/download/duckdb. The library comes in an
# npm package (nothing in Debian 12 has it); no install script of a package is run. Quick when everything is there.
set -euo pipefail

cd "$(dirname "$0")/.."
dir=third_party/download/duckdb
library_package=@duckdb/node-bindings-linux-x64@1.4.4-r.4
library_sha256=1ef33048e12235115ac0d277a0aaccbb560e33248144f488b5ac005cd9ba81b5
header_package=duckdb@1.4.4
header_sha256=cbe6a827284375c5a646b8f27dbd3a00808ce8738b5bbb49c190cb1e08540281

check() # FILE SHA256
{
    echo "$2  $1" | sha256sum --check --status
}

if [ -f $dir/libduckdb.so ] && [ -f $dir/duckdb.h ] && check $dir/libduckdb.so $library_sha256 &&
    check $dir/duckdb.h $header_sha256; then
    exit 0
fi
if [ "$(uname -m)" != x86_64 ]; then
    echo "fetch-duckdb: only the x86-64 library is pinned; this machine is $(uname -m)" >&2
    exit 1
fi
command -v npm >/dev/null || { echo "fetch-duckdb: npm is missing; run tools/install-deps.sh" >&2; exit 1; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fetch() # PACKAGE MEMBER
{
    local tarball
    tarball=$(npm pack --silent --ignore-scripts --pack-destination "$scratch" "$1" </dev/null | tail -1)
    tar -xzf "$scratch/$tarball" -C "$scratch" "$2"
}
fetch $library_package package/libduckdb.so
fetch $header_package package/src/duckdb/src/include/duckdb.h
check "$scratch/package/libduckdb.so" $library_sha256 ||
    { echo "fetch-duckdb: libduckdb.so of $library_package has an unexpected hash" >&2; exit 1; }
check "$scratch/package/src/duckdb/src/include/duckdb.h" $header_sha256 ||
    { echo "fetch-duckdb: duckdb.h of $header_package has an unexpected hash" >&2; exit 1; }
# A link whose target is gone would be in the way.
[ -e third_party/download ] || rm -f third_party/download
mkdir -p $dir
install -m 644 "$scratch/package/src/duckdb/src/include/duckdb.h" $dir/duckdb.h
install -m 755 "$scratch/package/libduckdb.so" $dir/libduckdb.so.new
mv $dir/libduckdb.so.new $dir/libduckdb.so
