#!/bin/bash
# Captures into the spool against dd with the same sync pattern (one fsync a file), in turns within one run; the best of each counts.
set -euo pipefail
files=8 size=64 rounds=3
[ -z "$KYMO_BENCH_QUICK" ] || { files=2 size=16 rounds=1; }
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

best_dd=0 best_copy=0 best_rename=0
better() { [ "$1" -gt "$2" ] && echo "$1" || echo "$2"; }
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

for ((round = 0; round < rounds; round++)); do
    make_sources
    sync -f "$work"
    best_dd=$(better "$(dd_all)" $best_dd)
    best_copy=$(better "$(spool_all copy)" $best_copy)
    rm -rf "$work/in"
    make_sources
    best_rename=$(better "$(spool_all rename)" $best_rename)
    rm -rf "$work/in"
done
echo "spool, dd with fsync: $best_dd MB/s"
echo "spool, copied in: $best_copy MB/s"
echo "spool, copied in against dd: $(awk "BEGIN { printf \"%.2f\", $best_copy / $best_dd }") x"
echo "spool, taken by rename: $best_rename MB/s"
