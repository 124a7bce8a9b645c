"""Compares the tables of one profile with the truth that the simulator wrote (driver-iface/sim/TRUTH.md).

Every comparison is one of multisets: each true event is in its table once, and nothing else is. Differences come back as
sentences; an empty list means equality.
"""

from collections import Counter, defaultdict
from pathlib import Path
import bisect
import csv
import itertools
import math
import re

import hierarchy
import pyarrow as pa
import pyarrow.parquet as pq

SHOWN = 4  # differences shown per comparison
SATURATED = 65535  # cycles: all that a start record can say of a wait


def read_tsv(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))


def read_table(directory, name):
    """All parts of a table, or None when it has no file."""
    pattern = re.compile(rf"^{name}(_\d+)?\.parquet$")
    parts = sorted((p for p in Path(directory).iterdir() if pattern.match(p.name)),
                   key=lambda p: int((re.search(r"_(\d+)\.", p.name) or [0, "0"])[1]))
    if not parts:
        return None
    return pa.concat_tables([pq.read_table(p) for p in parts])


COLUMNS = {
    "Instruction": ["pcore_idx", "engine", "pc", "opcode", "operands", "start_ts", "end_ts", "duration_ns", "crc_in", "crc_out",
                    "compiler_pc", "compiler_opcode", "adjusted_flops", "psum_read_banks", "psum_write_banks", "evt_wait_time_ns",
                    "id", "timeline_track"],
}


def rows_of(directory, name):
    table = read_table(directory, name)
    if table is None:
        return []
    return table.select(COLUMNS.get(name, table.column_names)).to_pylist()


def integer(text, absent=None):
    return int(text, 0) if text not in ("", None) else absent


class Profile:
    def __init__(self, tables, truth):
        self.tables, self.truth = Path(tables), Path(truth)
        self.facts = {row["key"]: row["value"] for row in read_tsv(self.truth / "profile.tsv")}
        self.first_ns = int(self.facts["first_ps"]) // 1000
        self.differences = []

    def true(self, name):
        path = self.truth / f"{name}.tsv"
        return read_tsv(path) if path.exists() else []

    def rows(self, name, columns=None):
        table = read_table(self.tables, name)
        return [] if table is None else (table.select(columns) if columns else table).to_pylist()

    def ts(self, ps):
        return int(ps) // 1000 - self.first_ns

    def begins(self, rows):
        """When each row of Instruction began to run, as far as a trace can tell: by its counter, and where that is at its end, as the
        model has it, provided that the met wait's record was stored."""
        return self._begins(rows, "instructions", "semaphores", lambda r: (r["pcore_idx"] or 0, r["engine"], r["pc"], r["start_ts"]),
                            lambda r: (int(r["pcore_idx"]), r["engine"], int(r["pc"]), self.ts(r["start_ps"])),
                            lambda r: (r["pcore_idx"], r["engine"], r["begin_ps"]), lambda r: (r["pcore_idx"], r["source"], r["ts_ps"]))

    def cc_begins(self, rows):
        """The same of CcInstruction."""
        return self._begins(rows, "cc_instructions", "cc_events", lambda r: (r["core_idx"], r["pc"], r["start_ts"]),
                            lambda r: (int(r["core_idx"]), int(r["pc"]), self.ts(r["start_ps"])),
                            lambda r: (r["core_idx"], "Sync", r["begin_ps"]), lambda r: (r["core_idx"], r["source"], r["ts_ps"]))

    def _begins(self, rows, instructions, events, row_key, true_key, waited, met):
        stored = {met(r) for r in self.true(events) if r["stored"] == "1" and r["mode"] == "0"}
        late = {true_key(r): self.ts(r["begin_ps"]) for r in self.true(instructions)
                if int(r["wait_cycles"]) == SATURATED and waited(r) in stored}
        return [late.get(row_key(r), min(r["start_ts"] + int(r["evt_wait_time_ns"] or 0), r["end_ts"])) for r in rows]

    def differ(self, what, want, got):
        """want and got are lists of tuples."""
        want, got = Counter(want), Counter(got)
        missing, extra = want - got, got - want
        if missing or extra:
            self.differences.append(
                f"{what}: {sum(missing.values())} of {sum(want.values())} true ones are missing, e.g. {list(missing)[:SHOWN]}; "
                f"{sum(extra.values())} too many, e.g. {list(extra)[:SHOWN]}")

    def equal(self, what, want, got):
        if want != got:
            self.differences.append(f"{what}: expected {want}, found {got}")


def whole(row):
    return row["start_stored"] == "1" and row["end_stored"] == "1"


def half(row):
    return (row["start_stored"] == "1") != (row["end_stored"] == "1")


def banks(text):
    return tuple(int(b) for b in text.split(",")) if text else ()


def check_instructions(p):
    true = [r for r in p.true("instructions") if whole(r)]
    got = rows_of(p.tables, "Instruction")
    p.differ("Instruction",
             [(int(r["pcore_idx"]), r["engine"], int(r["pc"]), r["opcode"], r["operands"], p.ts(r["start_ps"]), p.ts(r["end_ps"]),
               integer(r["crc_in"]), integer(r["crc_out"])) for r in true],
             [(r["pcore_idx"] or 0, r["engine"], r["pc"], r["opcode"], r["operands"], r["start_ts"], r["end_ts"], r["crc_in"],
               r["crc_out"]) for r in got])
    p.differ("Instruction's compiler side",
             [(int(r["pcore_idx"]), r["engine"], int(r["pc"]),
               integer(r["compiler_pc"]) if integer(r["compiler_pc"], -1) >= 0 else None, r["compiler_opcode"] or None)
              for r in true],
             [(r["pcore_idx"] or 0, r["engine"], r["pc"], r["compiler_pc"], r["compiler_opcode"]) for r in got])
    p.differ("Instruction's FLOPs and PSUM banks",
             [(r["engine"], int(r["pc"]), integer(r["adjusted_flops"], 0), banks(r["psum_read_banks"]),
               banks(r["psum_write_banks"])) for r in true],
             [(r["engine"], r["pc"], r["adjusted_flops"] or 0, tuple(r["psum_read_banks"] or ()),
               tuple(r["psum_write_banks"] or ())) for r in got])
    check_waits(p, true, got)
    starts = [r["start_ts"] for r in got]
    p.equal("Instruction is sorted by start_ts", True, starts == sorted(starts))
    p.equal("Instruction.id is unique", len(got), len({r["id"] for r in got}))
    p.equal("Instruction.duration_ns is end minus start", 0,
            sum(r["duration_ns"] != r["end_ts"] - r["start_ts"] for r in got))


def check_waits(p, true, got):
    """Waited cycles by the engine's clock, to the nanosecond."""
    meta = rows_of(p.tables, "Metadata")[0]
    clocks = {"Tensor": meta["tensor_engine_clock_freq"], "Vector": meta["vector_engine_clock_freq"],
              "Scalar": meta["scalar_engine_clock_freq"], "GpSimd": meta["gpsimd_engine_clock_freq"],
              "Sync": meta["neuroncore_clock_freq"]}
    key = lambda pcore, engine, pc, start: (pcore, engine, pc, start)
    want = {}
    for r in true:
        want.setdefault(key(int(r["pcore_idx"]), r["engine"], int(r["pc"]), p.ts(r["start_ps"])), []).append(
            int(r["wait_cycles"]) / clocks[r["engine"]])
    wrong = []
    for r in got:
        expected = want.get(key(r["pcore_idx"] or 0, r["engine"], r["pc"], r["start_ts"]))
        if expected and not any(abs((r["evt_wait_time_ns"] or 0) - e) <= 1 for e in expected):
            wrong.append((r["engine"], r["pc"], r["evt_wait_time_ns"], expected))
    p.equal("Instruction.evt_wait_time_ns", [], wrong[:SHOWN])


def check_packets(p):
    true = [r for r in p.true("dma_packets") if whole(r)]
    got = rows_of(p.tables, "DmaPacket")
    p.differ("DmaPacket",
             [(int(r["pcore_idx"]), int(r["engine_idx"]), int(r["queue_idx"]), r["queue_name"], r["queue_type"], int(r["bytes"]),
               p.ts(r["start_ps"]), p.ts(r["end_ps"])) for r in true],
             [(r["pcore_idx"] or 0, r["engine_idx"], r["queue_idx"], r["queue_name"], r["queue_type"], r["transfer_bytes"],
               r["start_ts"], r["end_ts"]) for r in got])
    check_transfers(p, got)


def check_transfers(p, packets):
    named = p.facts["dge_notifications"] == "1"
    dynamic = {"software_dynamic", "hardware_dynamic"}
    types = {r["queue_name"]: r["queue_type"] for r in p.true("dma_packets")}
    # A dynamic transfer without DGE notices cannot be grouped; its packets stand alone (a Warning says so).
    known = lambda queue: named or types.get(queue) not in dynamic
    all_true = [r for r in p.true("dma_transfers") if known(r["queue_name"])]
    true = [r for r in all_true if r["complete"] == "1"]
    # A transfer that a failed execution cut off has a row of what was moved.
    cut = {(int(r["pcore_idx"]), r["queue_name"], p.ts(r["trigger_start_ps"])) for r in all_true
           if r["complete"] != "1" and r["trigger_start_ps"]}
    got = rows_of(p.tables, "DmaPacketAggregated")
    whole_profile = all(int(r["dropped"]) == 0 for r in p.true("rings"))
    if whole_profile:
        p.differ("DmaPacketAggregated",
                 [(int(r["pcore_idx"]), r["queue_name"], integer(r["block_id"], -1), int(r["bytes"]), p.ts(r["start_ps"]),
                   p.ts(r["end_ps"]), p.ts(r["trigger_start_ps"]) if r["trigger_start_ps"] else None,
                   p.ts(r["trigger_end_ps"]) if r["trigger_end_ps"] else None) for r in true],
                 [(r["pcore_idx"] or 0, r["queue_name"], r["block_id"], r["transfer_bytes"], r["start_ts"], r["end_ts"],
                   r["trigger"], r["completion"]) for r in got
                  if known(r["queue_name"]) and ((r["pcore_idx"] or 0), r["queue_name"], r["trigger"]) not in cut])
    by_id = {r["id"]: r for r in got}
    members = Counter()
    for packet in packets:
        if packet["packet_aggregation_id"] in by_id:
            members[packet["packet_aggregation_id"]] += packet["transfer_bytes"]
    p.equal("DmaPacketAggregated.transfer_bytes is the sum of its packets", 0,
            sum(members[r["id"]] != r["transfer_bytes"] for r in got))


STATE_BUFFER = "state_buffer_0"  # the variable that is the chip's memory


def variable_of(row):
    """The tensor of a true packet: the side in HBM, of two the source."""
    return row["variable_to"] if row["variable_from"] in ("", STATE_BUFFER) and row["variable_to"] else row["variable_from"]


def check_names(p):
    """Which tensor every packet moved, and how often each tensor was loaded into SBUF."""
    named = p.facts["dge_notifications"] == "1"
    dynamic = {"software_dynamic", "hardware_dynamic"}
    names = lambda kind, name: name if named or kind not in dynamic else "unknown"
    true = [r for r in p.true("dma_packets") if whole(r)]
    want = Counter((int(r["pcore_idx"]), int(r["engine_idx"]), int(r["queue_idx"]), p.ts(r["start_ps"]), p.ts(r["end_ps"]),
                    names(r["queue_type"], variable_of(r))) for r in true)
    p.equal("packets without a true variable", 0, sum(not variable_of(r) for r in true))
    got = p.rows("DmaPacket", ["pcore_idx", "engine_idx", "queue_idx", "start_ts", "end_ts", "variable", "packet_aggregation_id"])
    # After a loss it is not known which transfer some packets belong to.
    whole_profile = all(int(r["dropped"]) == 0 for r in p.true("rings"))
    placed = [r for r in got if r["packet_aggregation_id"] != -1]
    mine = Counter((r["pcore_idx"] or 0, r["engine_idx"], r["queue_idx"], r["start_ts"], r["end_ts"], r["variable"]) for r in placed)
    p.equal("DmaPacket.variable", [], list((mine - want).items())[:SHOWN])
    if whole_profile:
        p.equal("packets of no transfer", 0, len(got) - len(placed))
    check_loads(p, named, dynamic, whole_profile)


def check_loads(p, named, dynamic, whole_profile):
    loads, transfers = Counter(), defaultdict(set)
    nodes = {r["execution"]: int(r["node"]) for r in p.true("status")}
    for r in p.true("dma_packets"):
        if r["variable_to"] == STATE_BUFFER and (named or r["queue_type"] not in dynamic):
            tensor = (nodes[r["execution"]], int(r["pcore_idx"]), r["variable_from"])
            loads[tensor] += int(r["bytes"])
            transfers[tensor].add((r["queue_name"], r["block_id"], r["function"], r["run"], r["execution"]))
    runs = Counter(nodes.values())
    cut = any(r["complete"] != "1" for r in p.true("dma_transfers"))
    for row in rows_of(p.tables, "TensorInfo"):
        tensor = (row["node"] or 0, row["pcore_idx"] or 0, row["variable_name"])
        size, count = row["load_to_sbuf_total_size_bytes"], row["load_to_sbuf_dma_count"]
        if whole_profile and not cut:
            p.equal(f"loads of {tensor}", (loads[tensor], len(transfers[tensor])), (size, count))
        elif size > loads[tensor] or count > len(transfers[tensor]):
            p.equal(f"loads of {tensor} at most", (loads[tensor], len(transfers[tensor])), (size, count))
        p.equal(f"repeated loads of {tensor}", True,
                math.isclose(row["load_to_sbuf_repeat_factor"], size / row["size"] / max(1, runs[tensor[0]]), rel_tol=1e-6))


def check_host_dma(p):
    true = [r for r in p.true("host_dma") if whole(r)]
    got = rows_of(p.tables, "HostDmaTransfer")
    p.differ("HostDmaTransfer",
             [(int(r["nd_idx"]), int(r["nc_idx"]), int(r["engine_idx"]), int(r["queue_idx"]), r["direction"] or None, r["traffic"],
               int(r["bytes"]), p.ts(r["start_ps"]), p.ts(r["end_ps"])) for r in true],
             [(r["neuron_device_idx"], r["neuroncore_idx"], r["engine_idx"], r["queue_idx"], r["direction"], r["traffic"],
               r["transfer_bytes"], r["start_ts"], r["end_ts"]) for r in got])


def check_semaphores(p):
    true = [r for r in p.true("semaphores") if r["stored"] == "1"]
    got = rows_of(p.tables, "SemaphoreUpdate")
    signed = lambda v: int(v) - (1 << 32) if int(v) >= 1 << 31 else int(v)
    p.differ("SemaphoreUpdate",
             [(int(r["pcore_idx"]), r["source"], r["operation"], r["timing"] or "", signed(r["value"]), p.ts(r["ts_ps"]),
               int(r["id"])) for r in true],
             [(r["pcore_idx"] or 0, r["update_source"], r["update_operation_type"], r["update_trigger_timing"] or "", r["value"],
               r["timestamp"], int(re.search(r"\d+", r["id"]).group())) for r in got])


def check_throttles(p):
    true = [r for r in p.true("throttle") if r["stored"] == "1"]
    got = rows_of(p.tables, "Throttle")
    p.differ("Throttle",
             [(int(r["pcore_idx"]), r["type"], int(r["k"]), int(r["n"]), p.ts(r["start_ps"]),
               p.ts(r["end_ps"]) - p.ts(r["start_ps"])) for r in true],
             [(r["pcore_idx"], r["type"], r["k"], r["n"], r["timestamp"], r["duration"]) for r in got])
    starts = [r["timestamp"] for r in got]
    p.equal("Throttle is sorted by timestamp", True, starts == sorted(starts))
    check_throttle_sums(p, true)


def busy_before(spans):
    """Function from a time to the length before it that is covered by disjoint spans, which are in order."""
    starts = [s for s, _ in spans]
    sums = [0, *itertools.accumulate(e - s for s, e in spans)]

    def before(t):
        k = bisect.bisect_right(starts, t)
        return sums[k] - (max(0, spans[k - 1][1] - t) if k else 0)

    return before


def least_limits(spans):
    """(start, end, limit) between the borders of spans of (kind, start, end, limit): the least that holds there."""
    borders = defaultdict(Counter)
    for _, start, end, limit in spans:
        borders[start][limit] += 1
        borders[end][limit] -= 1
    held, times = Counter(), sorted(borders)
    for a, b in zip(times, times[1:]):
        held.update(borders[a])
        limits = [limit for limit, n in held.items() if n > 0]
        if limits:
            yield a, b, min(limits)


def merged(spans):
    out = []
    for s, e in sorted(spans):
        if out and s <= out[-1][1]:
            out[-1][1] = max(out[-1][1], e)
        elif s < e:
            out.append([s, e])
    return out


def check_throttle_sums(p, true):
    """The documented integral from the true notices and the true instructions, border by border."""
    total = rows_of(p.tables, "Summary")[0]["total_time"] * 1e9
    got = {(r["nc_idx"] - int(p.facts["first_nc"]), r["throttle_type"]): r for r in rows_of(p.tables, "ThrottleSummary")}
    # What a reader can know: instructions of which both records were stored, to the nanosecond.
    rows = [r for r in rows_of(p.tables, "Instruction") if r["engine"] == "Tensor"]
    begins = {(r["pcore_idx"] or 0, r["pc"], r["start_ts"]): begin for r, begin in zip(rows, p.begins(rows))}
    for pcore in {int(r["pcore_idx"]) for r in true}:
        busy = merged([begins[(pcore, int(r["pc"]), p.ts(r["start_ps"]))], p.ts(r["end_ps"])]
                      for r in p.true("instructions")
                      if whole(r) and r["engine"] == "Tensor" and int(r["pcore_idx"]) == pcore)
        before = busy_before(busy)
        mine = [(r["type"], p.ts(r["start_ps"]), p.ts(r["end_ps"]), int(r["k"]) / int(r["n"])) for r in true
                if int(r["pcore_idx"]) == pcore]
        for kind in {m[0] for m in mine} | {"all"}:
            spans = [m for m in mine if kind in ("all", m[0])]
            active = lost = held = 0
            for a, b, limit in least_limits(spans):
                held += b - a
                lost += (1 - limit) * (b - a)
                active += (1 - limit) * (before(b) - before(a))
            time = sum(m[2] - m[1] for m in spans)
            row = got.pop((pcore, kind), None)
            close = lambda x, y: abs(x - y) <= 1e-5 * max(1, abs(y))
            p.equal(f"ThrottleSummary of core {pcore}, {kind}", True, row is not None and
                    row["throttle_active_time_ns"] == held and
                    close(row["throttle_active_time_percent"], 100 * held / total) and
                    close(row["max_achievable_util_with_throttling_percent"],
                          sum(m[3] * (m[2] - m[1]) for m in spans) / time if time else 0) and
                    close(row["active_throttled_percent"], 100 * active / total) and
                    close(row["unused_throttled_percent"], 100 * (lost - active) / total))
    p.equal("rows of ThrottleSummary beyond the true ones", {}, got)


TPB = ("FP Underflow", "NaN", "Inf", "FP Overflow", "Memory", "Fake", "Semaphore", "Event", "PSUM Collision",
       "Sequencer Nonfatal", "Sequencer Fatal")
CUSTOM = ("EMBD OOB", "PDMAC OOB", "DMA2D OOB", "DMAI OOB", "OOB 4", "OOB 5", "Debug", "Tensor Completion", "Debug Tensor",
          "OOB 9", "OOB 10")


def error_of(r):
    """(type, description, digits of metadata_hex)"""
    kind, number = r["kind"], int(r["id"])
    if kind == "tpb_error":
        return "Warnings" if number == 9 else "Errors", TPB[number], 12
    if kind == "custom":
        return "Custom Notification", CUSTOM[number] if number < len(CUSTOM) else f"Unknown {number}", 5
    return ("Warnings", "Warning", 8) if kind == "warning" else ("Errors", "Interrupt", 8)


def check_errors(p):
    true = [(r, *error_of(r)) for r in p.true("errors") if r["stored"] == "1"]
    got = rows_of(p.tables, "Error")
    p.differ("Error",
             [(int(r["pcore_idx"]), kind, int(r["id"]), name, f"{int(r['metadata']):0{digits}x}", p.ts(r["ts_ps"]))
              for r, kind, name, digits in true],
             [(r["pcore_idx"], r["type"], r["error_type_id"], r["description"], r["metadata_hex"], r["timestamp"]) for r in got])
    stamps = [r["timestamp"] for r in got]
    p.equal("Error is sorted by timestamp", True, stamps == sorted(stamps))


def check_memory(p):
    """The snapshot of device memory by core and class."""
    got = rows_of(p.tables, "HbmUsageSummaryByType")
    true = p.true("memory")
    if true:
        p.differ("HbmUsageSummaryByType", [(int(p.facts["nd_idx"]), int(r["nc_idx"]), r["class"], int(r["bytes"])) for r in true],
                 [(r["neuron_device_idx"], r["neuroncore_idx"], r["usage_type"], r["usage_bytes"]) for r in got])


def check_series(p):
    """Each series ends with the sum of its events, and the stored truth of a whole profile says the same."""
    packets, host = rows_of(p.tables, "DmaPacket"), rows_of(p.tables, "HostDmaTransfer")
    for name, events in (("DmaUsage", packets), ("HostDmaUsage", host)):
        rows = rows_of(p.tables, name)
        last = {r.get("pcore_idx", 0): r for r in rows}
        p.equal(f"{name} ends with all bytes", sum(e["transfer_bytes"] for e in events),
                sum(r["total_transfer_bytes"] for r in last.values()))
        p.equal(f"{name} ends at rest", [], [r for r in last.values() if r["current_throughput"]])
        p.equal(f"{name} is bounded", True, len(rows) <= 2 * len(events))
    for name, file in (("DmaUsage", "dma_packets"), ("HostDmaUsage", "host_dma")):
        last = {r.get("pcore_idx", 0): r["total_transfer_bytes"] for r in rows_of(p.tables, name)}
        p.equal(f"{name} against the truth", sum(int(r["bytes"]) for r in p.true(file) if whole(r)), sum(last.values()))
    last = {r["pcore_idx"]: r for r in rows_of(p.tables, "FlopsUsage")}
    summary = rows_of(p.tables, "Summary")[0]
    p.equal("FlopsUsage ends with Summary.hardware_flops", summary["hardware_flops"],
            sum(r["hardware_flops"] for r in last.values()))
    for name in ("DmaUsage", "HbmUsage", "HostDmaUsage", "PendingDma", "FlopsUsage", "SbufUsage", "PsumUsage"):
        at = [r["timestamp"] for r in rows_of(p.tables, name)]
        p.equal(f"{name} is sorted by timestamp", True, at == sorted(at))


def check_collectives(p):
    true = [r for r in p.true("cc_ops") if whole(r)]
    got = rows_of(p.tables, "CcOp")
    bandwidth = lambda size, ns: None if ns <= 0 else size * 1e9 / ns
    share = {"AllReduce": lambda n: 2 * (n - 1) / n, "AllGather": lambda n: (n - 1) / n, "ReduceScatter": lambda n: (n - 1) / n,
             "AllToAll": lambda n: (n - 1) / n, "Permute": lambda n: 1.0, "Broadcast": lambda n: 1.0}
    want = []
    for r in true:
        start, end = p.ts(r["start_ps"]), p.ts(r["end_ps"])
        want.append((int(r["core_idx"]), int(r["stream_index"]), int(r["op_id"]), int(r["invocation"]), r["operation"], r["algorithm"],
                     r["dtype"], int(r["num_elements"]), int(r["input_size"]), int(r["output_size"]), int(r["ranks"]),
                     int(r["replica_group_id"]), r["replica_group"], start, end, end - start, r["trigger_engine"]))
    p.differ("CcOp", want,
             [(r["core_idx"], r["stream_index"], r["op_id"], r["invocation"], r["operation"], r["algorithm"], r["dtype"],
               r["num_elements"], r["input_size"], r["output_size"], r["ranks"], r["replica_group_id"], r["replica_group"],
               r["start_ts"], r["end_ts"], r["duration_ns"], r["trigger_engine"]) for r in got])
    for r in got:
        size, ns = max(r["input_size"], r["output_size"]), r["duration_ns"]
        expected = bandwidth(size, ns)
        if expected is None:
            continue
        bus = expected * share[r["operation"]](r["ranks"])
        if abs(r["algorithm_bandwidth"] - expected) > expected * 1e-6 or abs(r["bus_bandwidth"] - bus) > bus * 1e-6:
            p.differences.append(f"CcOp bandwidths of {r['op_id']}: {r['algorithm_bandwidth']}, {r['bus_bandwidth']} of {expected}, {bus}")
    p.equal("CcOp is sorted by start_ts", True, [r["start_ts"] for r in got] == sorted(r["start_ts"] for r in got))
    check_cc_triggers(p, true, got)
    check_cc_instructions(p)


def check_cc_triggers(p, true, got):
    """Never a wrong trigger; without losses among the instructions never a missing one."""
    key = lambda r, start: (int(r["op_id"]), int(r["invocation"]), start)
    triggers = {key(r, p.ts(r["start_ps"])): p.ts(r["trigger_start_ps"]) for r in true}
    lost = any(int(r["dropped"]) for r in p.true("rings") if r["ring"] == "INSTRUCTION")
    wrong = []
    for r in got:
        expected = triggers.get(key(r, r["start_ts"]))
        if r["trigger_start_ts"] != expected and not (lost and r["trigger_start_ts"] is None):
            wrong.append((r["op_id"], r["invocation"], r["trigger_start_ts"], expected))
        if r["trigger_start_ts"] is not None and r["cc_trigger_start_delay"] != r["start_ts"] - r["trigger_start_ts"]:
            wrong.append((r["op_id"], r["cc_trigger_start_delay"]))
    p.equal("CcOp.trigger_start_ts", [], wrong[:SHOWN])


def check_cc_instructions(p):
    true = [r for r in p.true("cc_instructions") if whole(r)]
    got = rows_of(p.tables, "CcInstruction")
    p.differ("CcInstruction",
             [(int(r["core_idx"]), int(r["pc"]), r["description"], p.ts(r["start_ps"]), p.ts(r["end_ps"])) for r in true],
             [(r["core_idx"], r["pc"], r["description"], r["start_ts"], r["end_ts"]) for r in got])
    dropped = any(int(r["dropped"]) for r in p.true("rings") if r["ring"] == "CC_CORE_INSTRUCTION")
    if not dropped:
        p.differ("CcInstruction's collective",
                 [(int(r["core_idx"]), p.ts(r["start_ps"]), int(r["invocation"])) for r in true],
                 [(r["core_idx"], r["start_ts"], r["invocation"]) for r in got])
    p.differ("CcSemaphoreUpdate",
             [(int(r["core_idx"]), "AXI" if r["source"] == "AXI" else "CC-core", int(r["id"]), int(r["value"]), r["operation"],
               p.ts(r["ts_ps"])) for r in p.true("cc_events") if r["stored"] == "1"],
             [(r["core_idx"], r["update_source"], int(re.search(r"\d+", r["id"]).group()), r["value"], r["update_operation_type"],
               r["timestamp"]) for r in rows_of(p.tables, "CcSemaphoreUpdate")])
    check_cc_summary(p)


def union(spans):
    total, until = 0, None
    for start, end in sorted(spans):
        if until is None or start > until:
            total += max(end - start, 0)
        elif end > until:
            total += end - until
        until = end if until is None else max(until, end)
    return total


def check_cc_summary(p):
    summary = rows_of(p.tables, "Summary")[0]
    ops, instrs = rows_of(p.tables, "CcOp"), rows_of(p.tables, "CcInstruction")
    close = lambda a, b: abs(a - b) <= max(abs(b) * 1e-6, 1e-9)
    spans = [(begin, r["end_ts"]) for r, begin in zip(instrs, p.cc_begins(instrs))]
    for column, expected in (("cc_op_time", sum(r["duration_ns"] for r in ops)),
                             ("cc_op_active_time", union((r["start_ts"], r["end_ts"]) for r in ops)),
                             ("cc_cores_instruction_time", sum(r["duration_ns"] for r in instrs)),
                             ("cc_cores_instruction_active_time", union(s for s in spans if s[1] > s[0]))):
        p.equal(f"Summary.{column}", True, close(summary[column], expected / 1e9))
    p.equal("Summary.cc_op_count", len(ops), summary["cc_op_count"])
    p.equal("Summary.cc_cores_instruction_count", len(instrs), summary["cc_cores_instruction_count"])


def check_active(p):
    """Times in which something runs, from the true begins: ActiveTime by engine, OpcodeSummary, Summary, LevelOfDetail by track."""
    rows = rows_of(p.tables, "Instruction")
    spans = defaultdict(list)
    for r, begin in zip(rows, p.begins(rows)):
        engine = r["engine"].lower()
        for key in (("ActiveTime", r["pcore_idx"] or 0, engine), ("OpcodeSummary", engine, r["opcode"]), ("Summary", engine),
                    ("LevelOfDetail", r["timeline_track"])):
            spans[key].append((begin, r["end_ts"]))
    of = lambda name: {key[1:]: merged(s) for key, s in spans.items() if key[0] == name}
    length = lambda found: sum(e - s for s, e in found)
    p.differ("ActiveTime", [(*key, s, e) for key, found in of("ActiveTime").items() for s, e in found],
             [(r["pcore_idx"] or 0, r["engine"], r["start_ts"], r["end_ts"]) for r in rows_of(p.tables, "ActiveTime")])
    p.differ("OpcodeSummary.active_time_ns", [(*key, length(found)) for key, found in of("OpcodeSummary").items()],
             [(r["engine"], r["opcode"], r["active_time_ns"]) for r in rows_of(p.tables, "OpcodeSummary")])
    summary = rows_of(p.tables, "Summary")[0]
    for (engine,), found in of("Summary").items():
        got = summary[f"{engine}_engine_active_time"]
        p.equal(f"Summary.{engine}_engine_active_time {got}, {length(found)} ns", True,
                math.isclose(got, length(found) / 1e9, rel_tol=1e-6, abs_tol=1e-9))
    busy = defaultdict(Counter)
    for r in rows_of(p.tables, "LevelOfDetail"):
        if r["kind"] == "instruction":
            busy[r["level"]][r["timeline_track"]] += r["busy_ns"]
    for level, tracks in busy.items():
        p.differ(f"LevelOfDetail.busy_ns at level {level}", [(*key, length(found)) for key, found in of("LevelOfDetail").items()],
                 list(tracks.items()))


def check_barriers(p):
    got = rows_of(p.tables, "CoreBarriers")
    p.differ("CoreBarriers",
             [(int(r["pcore_idx"]), r["engine"], int(r["compiler_pc"]), p.ts(r["start_ps"]), p.ts(r["end_ps"]))
              for r in p.true("instructions") if whole(r) and r["compiler_opcode"] == "PSEUDO_CORE_BARRIER"],
             [(r["pcore_idx"], r["engine_name"], r["compiler_pc"], r["start_ts"], r["end_ts"]) for r in got])


def check_partials(p):
    want = Counter()
    for name, kind in (("instructions", "instruction"), ("dma_packets", "dma_packet"), ("host_dma", "host_dma"),
                       ("cc_ops", "collective"), ("cc_instructions", "cc_instruction")):
        for r in p.true(name):
            if half(r):
                side = "start" if r["start_stored"] == "1" else "end"
                want[(kind, side, p.ts(r["start_ps" if side == "start" else "end_ps"]))] += 1
    got = Counter((r["kind"], r["side"], r["ts"]) for r in rows_of(p.tables, "PartialEvent"))
    p.differ("PartialEvent", list(want.elements()), list(got.elements()))


# A truth's kind: what Flow says of it, and the rings whose records it takes.
KINDS = {
    "semaphore": (("SEMAPHORE", "instruction", "instruction"), {"INSTRUCTION", "EVENT"}),
    "dma_wait": (("DMA_WAIT", "dma_block", "instruction"), {"INSTRUCTION", "EVENT", "DMA"}),
    "dma_trigger": (("DMA_TRIGGER", "instruction", "dma_block"), {"INSTRUCTION", "DMA"}),
    "same_psum_bank": (("SAME_PSUM_BANK", "instruction", "instruction"), {"INSTRUCTION"}),
    "cc_trigger": (("DMA_TRIGGER", "instruction", "cc_op"), {"INSTRUCTION", "CC_CORE_INSTRUCTION"}),
    "cc_wait": (("SEMAPHORE", "cc_op", "instruction"), {"INSTRUCTION", "EVENT", "CC_CORE_INSTRUCTION"}),
}


class Events:
    """What a truth's or a table's row is called in both: an instruction by place and start, a transfer by place and trigger, a
    collective by its numbers and start."""

    def __init__(self, p):
        self.p = p
        self.instructions, self.transfers = p.true("instructions"), p.true("dma_transfers")
        self.runs = {r["id"]: (r["pcore_idx"] or 0, r["engine"], r["pc"], r["start_ts"]) for r in rows_of(p.tables, "Instruction")}
        self.moves = {r["id"]: (r["pcore_idx"] or 0, r["queue_name"], r["block_id"], r["trigger"])
                      for r in rows_of(p.tables, "DmaPacketAggregated")}
        self.collectives = p.true("cc_ops")
        self.ops = {r["id"]: (r["stream_index"], r["op_id"], r["invocation"], r["start_ts"]) for r in rows_of(p.tables, "CcOp")}

    def true(self, table, row, cut=False):
        """None: it is not whole, so that it has no row. cut: a transfer of which packets were lost counts, as it has one."""
        r = {"instructions": self.instructions, "dma_transfers": self.transfers, "cc_ops": self.collectives}[table][int(row)]
        if table == "instructions":
            return (int(r["pcore_idx"]), r["engine"], int(r["pc"]), self.p.ts(r["start_ps"])) if whole(r) else None
        if table == "cc_ops":
            return (int(r["stream_index"]), int(r["op_id"]), int(r["invocation"]), self.p.ts(r["start_ps"])) if whole(r) else None
        if (r["complete"] != "1" and not cut) or not r["trigger_start_ps"]:
            return None
        return (int(r["pcore_idx"]), r["queue_name"], integer(r["block_id"], -1), self.p.ts(r["trigger_start_ps"]))

    def found(self, table, key):
        return {"instruction": self.runs, "dma_block": self.moves, "cc_op": self.ops}[table][key]


def true_edges(p, events, cut):
    """Those between whole events whose update is in the trace, by kind."""
    stored = [r["stored"] == "1" for r in p.true("semaphores")]
    edges = {kind: [] for kind in KINDS}
    for e in p.true("edges"):
        ends = events.true(e["from_table"], e["from_row"], cut), events.true(e["to_table"], e["to_row"], cut)
        update = re.fullmatch(r"update=(\d+)", e["detail"] or "")
        if None not in ends and (not update or stored[int(update.group(1))]):
            edges[e["kind"]].append(ends)
    return edges


def check_flow(p):
    """Where nothing was lost, Flow has every true edge and no other; else it has none that is not true."""
    events = Events(p)
    got = {edge: [] for edge, _ in KINDS.values()}
    for r in rows_of(p.tables, "Flow"):
        edge = r["dependency_type"], r["in_table"], r["out_table"]
        if edge in got:
            got[edge].append((events.found(r["in_table"], r["in_id"]), events.found(r["out_table"], r["out_id"])))
        else:
            p.equal("the compiler's edges alone are of other kinds", "_DEPENDENCE", edge[0][-11:])
    dropped = {r["ring"] for r in p.true("rings") if int(r["dropped"])}
    failed = any(not r["end_ps"] for r in events.instructions)
    whole_edges, all_edges = true_edges(p, events, False), true_edges(p, events, True)
    for kind, (edge, needs) in KINDS.items():
        unnamed = p.facts["dge_notifications"] != "1" and "dma_block" in edge
        if dropped & needs or unnamed or failed:
            false = Counter(got[edge]) - Counter(all_edges[kind])
            p.equal(f"Flow's {kind} that are not true", [], list(false.elements())[:SHOWN])
        else:
            p.differ(f"Flow's {kind}", whole_edges[kind], got[edge])


def check_wait_causes(p):
    """One row for each instruction that waited, as long as its counter or its met wait says, and its cause is an edge of Flow."""
    got = rows_of(p.tables, "WaitCause")
    waits = {r["id"]: r for r in rows_of(p.tables, "Instruction") if (r["evt_wait_time_ns"] or 0) > 0}
    begins = dict(zip(waits, p.begins(waits.values())))
    p.equal("WaitCause has each wait once", sorted(waits), sorted(r["instruction_id"] for r in got))
    edges = {(r["in_table"], r["in_id"], r["out_id"], r["dependency_type"]) for r in rows_of(p.tables, "Flow")
             if r["out_table"] == "instruction"}
    p.equal("WaitCause's edges that Flow lacks", [],
            [r for r in got if r["in_id"] is not None and
             (r["in_table"], r["in_id"], r["instruction_id"], r["dependency_type"]) not in edges][:SHOWN])
    p.equal("WaitCause.wait_ns", [], [
        (r, waits[r["instruction_id"]]) for r in got if r["instruction_id"] in waits and not
        -1 <= r["start_ts"] + r["wait_ns"] - begins[r["instruction_id"]] <= (0 if r["saturated"] else 2)][:SHOWN])
    p.equal("WaitCause.cost_ns", [], [r for r in got if not 0 <= r["cost_ns"] <= r["wait_ns"]][:SHOWN])
    p.equal("WaitCause has a cause or a reason", [],
            [r for r in got if (r["in_id"] is None) != (r["unknown_reason"] is not None)][:SHOWN])
    if p.facts["dge_notifications"] == "1" and not any(int(r["dropped"]) for r in p.true("rings")):
        p.equal("WaitCause knows every writer", [], [r for r in got if r["unknown_reason"] == "writer_not_known"][:SHOWN])


def label(ring):
    if ring["ring"] == "DMA":
        return f"DMA-E{ring['engine_index']}(nc{ring['pcore_idx']})"
    if ring["ring"] == "H2D_DMA":
        return f"H2D_DMA-E{ring['engine_index']}"
    if ring["ring"].startswith("CC_CORE"):
        return f"{ring['ring']}-{ring['engine_index']}"
    return f"{ring['ring']}(nc{ring['pcore_idx']})"


def check_ledger(p):
    got = {}
    for r in rows_of(p.tables, "LossLedger"):
        if r["stage"] == "device_ring":
            sums = got.setdefault(r["ring"], Counter())
            for column in ("emitted_records", "row_records", "partial_records", "other_records", "unknown_records", "lost_records"):
                sums[column] += r[column] or 0
    for ring in p.true("rings"):
        sums = got.get(label(ring), Counter())
        p.equal(f"LossLedger emitted of {label(ring)}", int(ring["emitted"]), sums["emitted_records"])
        p.equal(f"LossLedger lost of {label(ring)}", int(ring["dropped"]), sums["lost_records"])
        p.equal(f"the equation of {label(ring)}", sums["emitted_records"],
                sum(v for k, v in sums.items() if k != "emitted_records"))


def compare(tables, truth):
    """All differences between the tables of a profile and its truth."""
    p = Profile(tables, truth)
    if p.facts["detail"] != "1":
        return [f"{truth}: more happened than the simulator keeps the detail of (TRUTH.md)"]
    for check in (check_throttles, check_errors,
                  check_ledger, check_instructions, check_packets, check_names, check_host_dma, check_semaphores, check_partials, check_memory,
                  check_series, check_flow, check_wait_causes, hierarchy.check, check_collectives, check_barriers,
                  check_active):
        check(p)
    return p.differences


if __name__ == "__main__":
    import sys

    found = compare(sys.argv[1], sys.argv[2])
    for sentence in found:
        print(sentence)
    print("equal" if not found else f"{len(found)} differences")
    sys.exit(bool(found))
