"""Dependencies of a simulated run by brute force, from its truth files' events and the NEFF's debug files.

Nothing here knows how kymo-process finds them: every pair is looked at. Loops are known from the names that flow_programs.c
gives its segments, updates from the times at which instructions and packets end.
"""

from collections import defaultdict
import io
import re
import tarfile

import truth

KINDS = {1: "ORDERED_DEPENDENCE", 2: "ANTI_DEPENDENCE", 3: "OUTPUT_DEPENDENCE", 4: "FLOW_DEPENDENCE"}
ENGINES = {"pe": "Tensor", "act": "Scalar", "pool": "GpSimd", "dve": "Vector", "sp": "Sync"}
COMPARE = {">=": lambda a, b: a >= b, "<=": lambda a, b: a <= b, "==": lambda a, b: a == b, ">": lambda a, b: a > b,
           "<": lambda a, b: a < b}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """(number, value) of a protobuf message: integers and bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            assert key & 7 == 2
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def packed(message, number):
    out = []
    for n, data in fields(message):
        at = 0
        while n == number and at < len(data):
            value, at = varint(data, at)
            out.append(value)
    return out


class Debug:
    """One subgraph's layers: BIR instruction of each compiler record, its predecessors, and the segment it lies in."""

    def __init__(self, files):
        self.bir, self.preds, self.segment = {}, {}, {}
        penguin = {}
        for data in (d for name, d in files.items() if "debug_info_penguin" in name):
            for n, m in fields(data):
                if n == 3:
                    one = dict(fields(m))
                    penguin[one[1]] = re.match(r"(straight|loop)\d+", one[2].decode()).group()
        for name, data in files.items():
            layer = re.search(r"debug_info_(asm|backend)\.(\w+)\.dbg$", name)
            if not layer:
                continue
            messages = [m for n, m in fields(data) if n == 3]
            for place, m in enumerate(messages):
                if layer.group(1) == "asm":
                    parents = packed(m, 3)
                    if parents:
                        self.bir[ENGINES[layer.group(2).lower()], place] = parents[0]
                    continue
                number = dict(fields(m))[1] if 1 in dict(fields(m)) else 0
                parents = packed(m, 3)
                self.segment[number] = penguin[parents[0]] if parents else None
                self.preds[number] = list(zip(packed(m, 4), packed(m, 9))) + [(p, 1) for p in packed(m, 5)]


def read_debug(neff):
    """By number of the subgraph."""
    files = defaultdict(dict)
    data = neff.read_bytes()[1024:]
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar.getmembers():
            graph = re.match(r"(?:\./)?sg(\d+)/debug_info/", member.name)
            if graph:
                files[int(graph.group(1))][member.name] = tar.extractfile(member).read()
    return {number: Debug(f) for number, f in files.items()}


class Run:
    """The instructions of a truth with the moment at which each began to run, in order of that."""

    def __init__(self, p):
        self.rows = p.true("instructions")
        self.packets = p.true("dma_packets")
        self.transfers = p.true("dma_transfers")
        self.collectives = p.true("cc_ops")
        self.semaphores = p.true("semaphores")
        met = defaultdict(list)
        for s in self.semaphores:
            if s["operation"] == "none":
                met[s["pcore_idx"], s["source"]].append(int(s["ts_ps"]))
        for n, r in enumerate(self.rows):
            r["row"], r["start"], r["end"] = n, int(r["start_ps"]), int(r["end_ps"])
            waits = re.search(r"\$[SE]\[\d+\](>=|<=|==|>|<)", r["operands"])
            inside = [t for t in met[r["pcore_idx"], r["engine"]] if r["start"] <= t <= r["end"]]
            r["begin"] = max(inside) if waits else r["start"]
        self.order = sorted(self.rows, key=lambda r: (r["begin"], r["row"]))


def compiler_edges(run, debug):
    """(kind, earlier row, later row)"""
    edges = []
    groups = defaultdict(lambda: defaultdict(list))  # core and execution: BIR to its instructions, in order
    for r in run.order:
        layers = debug[int(r["pcore_idx"])]
        place = int(r["compiler_pc"]) if r["compiler_pc"] else -1
        bir = layers.bir.get((r["engine"], place))
        if bir is not None:
            groups[r["pcore_idx"], r["execution"]][bir].append(r)
    for (pcore, _), birs in groups.items():
        layers = debug[int(pcore)]
        parts = {}
        for bir, rows in birs.items():
            places = sorted({int(r["pc"]) for r in rows if r["opcode"] != "EVENT_SEMAPHORE"} or {int(r["pc"]) for r in rows})
            parts[bir] = {place: [r for r in rows if int(r["pc"]) == place] for place in places}
        for bir, places in parts.items():
            for earlier, kind in sorted(set(layers.preds[bir])):
                if earlier == bir or earlier not in parts:
                    continue
                same = layers.segment[earlier] == layers.segment[bir] and layers.segment[bir].startswith("loop")
                for rows in places.values():
                    for n, r in enumerate(rows):
                        before = [x for runs in parts[earlier].values() for x in (runs[n:n + 1] if same else runs)
                                  if x["begin"] < r["begin"]]
                        if before:
                            edges.append((KINDS[kind], max(before, key=lambda x: x["begin"])["row"], r["row"]))
    return edges


def psum_edges(run):
    edges = set()
    use = lambda r: set(truth.banks(r["psum_read_banks"])) | set(truth.banks(r["psum_write_banks"]))
    writes = lambda r, b: b in truth.banks(r["psum_write_banks"])
    adds = {}  # row: accumulation by bank that it is part of
    held = {}
    flags = lambda r: int((re.search(r"flags=(\w+)", r["operands"]) or [0, "0"])[1], 0)
    starts = lambda r: flags(r) & 0xA  # begins; begins a group
    for r in run.order:
        for b in truth.banks(r["psum_write_banks"]):
            key = (r["pcore_idx"], r["execution"], b)
            if r["opcode"] != "MATMUL":
                held[key] = None
            elif starts(r) or not held.get(key):
                held[key] = r["row"]
            if r["opcode"] == "MATMUL":
                adds[r["row"], b] = held[key]
    for i, later in enumerate(run.order):
        for b in use(later):
            for earlier in reversed(run.order[:i]):
                if (earlier["pcore_idx"], earlier["execution"]) != (later["pcore_idx"], later["execution"]) or b not in use(earlier):
                    continue
                together = adds.get((earlier["row"], b)) is not None and adds.get((earlier["row"], b)) == adds.get((later["row"], b))
                if (writes(earlier, b) or writes(later, b)) and not together:
                    edges.add(("SAME_PSUM_BANK", earlier["row"], later["row"]))
                break
    return list(edges)


def writer(run, update):
    """(table, row) of what made an update, by the time at which it ended or began."""
    ts, pcore = int(update["ts_ps"]), update["pcore_idx"]
    if update["source"] == "AXI":
        ends = {(p["queue_name"], p["block_id"], p["run"], p["execution"]) for p in run.packets
                if p["pcore_idx"] == pcore and abs(int(p["end_ps"]) - ts) <= 1}
        rows = [n for n, t in enumerate(run.transfers) if t["pcore_idx"] == pcore and
                (t["queue_name"], t["block_id"], t["run"], t["execution"]) in ends]
        done = [n for n, c in enumerate(run.collectives) if abs(int(c["end_ps"]) - ts) <= 1]
        made = [("dma_transfers", row) for row in rows] + [("cc_ops", row) for row in done]
        return made[0] if len(made) == 1 else None
    mine = [r for r in run.rows if r["pcore_idx"] == pcore and r["engine"] == update["source"]]
    rows = [r["row"] for r in mine if (r["end"] == ts if update["timing"] == "complete" else r["start"] <= ts <= r["end"])]
    return ("instructions", rows[0]) if len(rows) == 1 else None


def semaphore_edges(run):
    """(kind, table and row of what was waited for, row that waited): waits for semaphores with a threshold in the instruction, found
    by walking back from each."""
    edges = []
    for k, met in enumerate(run.semaphores):
        if met["operation"] != "none" or met["is_semaphore"] != "1":
            continue
        same = lambda s: (s["pcore_idx"], s["id"], s["is_semaphore"]) == (met["pcore_idx"], met["id"], "1")
        (waiter,) = [r for r in run.rows if r["pcore_idx"] == met["pcore_idx"] and r["engine"] == met["source"] and
                     r["start"] <= int(met["ts_ps"]) <= r["end"]]
        compare, limit = re.search(rf"\$S\[{met['id']}\](>=|<=|==|>|<)(\d+)", waiter["operands"]).groups()
        since = min(r["start"] for r in run.rows if r["execution"] == waiter["execution"])
        found = None
        for s in reversed(run.semaphores[:k]):
            if int(s["ts_ps"]) < since:
                break
            if not same(s) or s["operation"] == "none":
                continue
            if not COMPARE[compare](int(s["value"]), int(limit)):
                break
            found = s
        made = writer(run, found) if found else None
        if made:
            edges.append(("DMA_WAIT" if made[0] == "dma_transfers" else "SEMAPHORE", made, waiter["row"]))
    return edges
