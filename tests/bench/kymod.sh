#!/bin/bash
# What kymod costs: idle (metrics on, nobody asks), and draining a spool to a collector on loopback at 64 MB/s, beyond what cat needs
# to copy the same bytes into a socket. A capture that the collector has is removed, which costs the kernel about half as much as the
# copy where the writer's pages were small: what rm needs for the same files is printed beside it.
set -euo pipefail
idle_s=60 files=8
[ -z "$KYMO_BENCH_QUICK" ] || { idle_s=5 files=3; }
bin=$KYMO_BUILD/bin
work=$(mktemp -d "${TMPDIR:-/tmp}/kymo-bench-kymod.XXXXXX")
kymod="" collector="" sink=""
cleanup()
{
    local status=$? pid
    trap - EXIT
    for pid in $kymod $collector $sink; do kill -9 "$pid" 2>/dev/null || true; done
    rm -rf "$work"
    exit $status
}
trap cleanup EXIT

# CPU nanoseconds of all threads of a process.
cpu_ns() { awk '{ n += $1 } END { printf "%.0f", n }' /proc/"$1"/task/*/schedstat; }
now_ns() { date +%s%N; }

start_kymod()
{
    "$bin/kymod" --data-dir "$work/data" --socket-dir "$work/run" --spool-floor 0 --zstd-level 0 "$@" 2>>"$work/kymod.log" &
    kymod=$!
    for _ in $(seq 250); do
        [ ! -S "$work/run/control.sock" ] || "$bin/kymo" status --socket "$work/run" >/dev/null 2>&1 && return 0
        sleep 0.02
    done
    cat "$work/kymod.log" >&2
    return 1
}

port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
start_kymod --metrics "127.0.0.1:$port"
sleep 1
cpu=$(cpu_ns $kymod) begin=$(now_ns)
sleep "$idle_s"
cpu=$(($(cpu_ns $kymod) - cpu)) wall=$(($(now_ns) - begin))
awk -v c="$cpu" -v w="$wall" 'BEGIN { printf "kymod idle, CPU: %.4f %% of a core\n", 100 * c / w }'
awk '/^VmRSS/ { printf "kymod idle, memory: %.1f MB\n", $2 * 1024 / 1e6 }' /proc/$kymod/status
kill $kymod && wait $kymod || true
kymod=""

make_files() { for i in $(seq "$files"); do head -c 64M /dev/urandom >"$work/f$i"; done; }
TIMEFORMAT='%U %S'
to_ns() { awk '{ printf "%.0f", ($1 + $2) * 1e9 }'; }

# The same files, durable and read once, removed.
make_files
sync "$work"/f*
cat "$work"/f* >/dev/null
removed=$({ time rm "$work"/f*; } 2>&1 | to_ns)

# The same bytes through cat, into a socket whose other end throws them away.
make_files
/usr/bin/python3 - "$work/port" <<'END' &
import os, socket, sys
s = socket.create_server(("127.0.0.1", 0))
with open(sys.argv[1] + ".new", "w") as f:
    f.write(str(s.getsockname()[1]))
os.rename(sys.argv[1] + ".new", sys.argv[1])
c, _ = s.accept()
b = bytearray(1 << 20)
while c.recv_into(b):
    pass
END
sink=$!
for _ in $(seq 250); do [ ! -s "$work/port" ] || break; sleep 0.02; done
copied=$({ time cat "$work"/f* >"/dev/tcp/127.0.0.1/$(cat "$work/port")"; } 2>&1 | to_ns)
wait $sink || true
sink=""

"$bin/bench_spool" "$work/data/spool" rename "$work"/f* >/dev/null
"$bin/kymo-collector" --data-path "$work/store" --listen 127.0.0.1:0 --http off --no-work --ports-file "$work/ports" >"$work/collector.log" 2>&1 &
collector=$!
for _ in $(seq 250); do [ ! -s "$work/ports" ] || break; sleep 0.02; done
uplink=$(sed -n 's/.*uplink=\([0-9]*\).*/\1/p' "$work/ports" | head -1)
start_kymod --metrics 0 --period 0 --rate 64M --collector "127.0.0.1:$uplink"
cpu=0 begin=$(now_ns)
for _ in $(seq 600); do
    left=$("$bin/kymo" status --socket "$work/run" --json | sed -n 's/^"spool_pending":\([0-9]*\).*/\1/p')
    [ "$left" != 0 ] || break
    sleep 0.1
done
[ "$left" = 0 ] || { tail -3 "$work"/*.log >&2; exit 1; }
cpu=$(cpu_ns $kymod) wall=$(($(now_ns) - begin))
"$bin/kymo" status --socket "$work/run" --json >"$work/status"
! grep -q '^"losses":.*{' "$work/status" || { cat "$work/status" >&2; exit 1; }
[ "$(find "$work/store/raw/captures" -name '*.ntff' -size 64M | wc -l)" = "$files" ] || { echo "not all arrived" >&2; exit 1; }
awk -v c="$cpu" -v w="$wall" -v n="$files" -v b="$copied" -v r="$removed" 'BEGIN {
    printf "kymod draining, rate: %.1f MB/s\n", n * 67108864e3 / w
    printf "kymod draining, CPU: %.2f %% of a core\n", 100 * c / w
    printf "cat of the same bytes: %.2f %% of a core at that rate\n", 100 * b / w
    printf "rm of the same files: %.2f %% of a core at that rate\n", 100 * r / w
    printf "kymod draining, beyond the copy: %.2f %% of a core\n", 100 * (c - b) / w
    printf "kymod draining, beyond copy and removal: %.2f %% of a core\n", 100 * (c - b - r) / w }'
kill $kymod && wait $kymod || true
kymod=""
kill $collector && wait $collector || true
collector=""
