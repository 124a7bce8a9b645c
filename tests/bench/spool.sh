#!/bin/bash
# Captures into the spool against dd with the same sync pattern (one fsync a file), in one run. On a machine that does other things,
# and on a virtual disk, rates change by a factor within seconds: the two are compared round by round, one directly after the
# other and in turns first, and the median of the rounds' ratios counts, printed with its quartiles. One pass of each is thrown
# away: whoever writes first in a while is slow.
set -euo pipefail
files=2 size=64 rounds=15
[ -z "$KYMO_BENCH_QUICK" ] || { files=2 size=16 rounds=3; }
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

# Median and quartiles of ratios, one a line.
ratios()
{
    sort -n | awk '{ v[NR] = $1 } END { printf "%.2f x (quartiles %.2f to %.2f, %d rounds)\n",
        v[int((NR + 1) / 2)], v[int((NR + 3) / 4)], v[int((3 * NR + 1) / 4)], NR }'
}

dd_rates=() copy_rates=() link_rates=() pairs=()
make_sources
sync -f "$work"
dd_all >"$work/discarded"
spool_all copy >"$work/discarded"
for ((round = 0; round < rounds; round++)); do
    if [ $((round % 2)) = 0 ]; then
        with_dd=$(dd_all) with_spool=$(spool_all copy)
    else
        with_spool=$(spool_all copy) with_dd=$(dd_all)
    fi
    dd_rates+=("$with_dd") copy_rates+=("$with_spool")
    pairs+=("$(awk "BEGIN { print $with_spool / $with_dd }")")
done
for ((round = 0; round < 3; round++)); do
    rm -rf "$work/in"
    make_sources
    link_rates+=("$(spool_all link)")
done
echo "spool, dd with fsync: $(median "${dd_rates[@]}") MB/s"
echo "spool, copied in: $(median "${copy_rates[@]}") MB/s"
echo "spool, copied in against dd: $(printf '%s\n' "${pairs[@]}" | ratios)"
echo "spool, taken by link, as the outbox does: $(median "${link_rates[@]}") MB/s"
