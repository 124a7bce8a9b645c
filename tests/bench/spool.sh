#!/bin/bash
# Captures into the spool against dd with the same sync pattern (one fsync a file), in one run. On a virtual disk whoever writes
# first in a while is slow (a factor of two to three was seen), so one pass of each is thrown away, the two take turns in
# going first, and the medians are compared.
set -euo pipefail
files=4 size=64 rounds=6
[ -z "$KYMO_BENCH_QUICK" ] || { files=2 size=16 rounds=2; }
# On the disk that the tree is on: /tmp may be memory.
work=$(mktemp -d "$KYMO_BUILD/bench-spool.XXXXXX")
trap 'rm -rf "$work"' EXIT

make_sources()
{
    mkdir -p "$work/in"
    for ((i = 0; i < files; i++)); do
        dd if=/dev/urandom of="$work/in/$i" bs=1M count=$size status=none
    done
}

median() { printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"; }
rate() { echo $(($1 * 1000 / $2)); } # bytes, ns: MB/s

dd_all()
{
    local start
    mkdir -p "$work/out"
    start=$(date +%s%N)
    for ((i = 0; i < files; i++)); do
        dd if="$work/in/$i" of="$work/out/$i" bs=1M conv=fsync status=none
    done
    rate $((files * size * 1048576)) $(($(date +%s%N) - start))
    rm -rf "$work/out"
}

spool_all()
{
    "$KYMO_BUILD/bin/bench_spool" "$work/spool" "$1" "$work"/in/* >"$work/result"
    read -r bytes ns <"$work/result"
    rate "$bytes" "$ns"
    rm -rf "$work/spool"
}

dd_rates=() copy_rates=() rename_rates=()
make_sources
sync -f "$work"
dd_all >"$work/discarded"
spool_all copy >"$work/discarded"
for ((round = 0; round < rounds; round++)); do
    [ $((round % 2)) = 0 ] || copy_rates+=("$(spool_all copy)")
    dd_rates+=("$(dd_all)")
    [ $((round % 2)) = 1 ] || copy_rates+=("$(spool_all copy)")
done
for ((round = 0; round < (rounds + 1) / 2; round++)); do
    rm -rf "$work/in"
    make_sources
    rename_rates+=("$(spool_all rename)")
done
with_dd=$(median "${dd_rates[@]}") with_spool=$(median "${copy_rates[@]}")
echo "spool, dd with fsync: $with_dd MB/s"
echo "spool, copied in: $with_spool MB/s"
echo "spool, copied in against dd: $(awk "BEGIN { printf \"%.2f\", $with_spool / $with_dd }") x"
echo "spool, taken by rename: $(median "${rename_rates[@]}") MB/s"
