"""WindowSums and WaitSums against the events they sum up, by the documented meaning of their columns."""

from collections import Counter, defaultdict

import pandas as pd
import pyarrow.parquet as pq
import pytest

import profiles
from profiles import Cell
from waits import waits_of

CELLS = {
    "lnc2": Cell("attention", "trn2", 2, executions=3),
    "fail": Cell("attention", "trn1", 1, "fail", executions=3, options=("--fail",)),
    "waits": Cell("allreduce", "trn2", 1, "straggler", options=("--slow-rank", "1:100")),  # beyond their counters
    "short": Cell("mlp", "trn2", 1, executions=1, small=True),
}
BYTES = [f"{memory}_{way}_bytes" for memory in ("hbm", "sbuf", "psum") for way in ("read", "write")] + ["spill_save_bytes", "spill_reload_bytes"]
TREE = ("operator", "hlo", "opcode")
DEPTH = 32


def read(directory, name, columns=None):
    path = directory / f"{name}.parquet"
    return pq.read_table(path, columns=columns).to_pylist() if path.exists() else []


@pytest.fixture(scope="module", params=CELLS)
def tables(request, tmp_path_factory):
    directory, _ = profiles.make_tables(tmp_path_factory.mktemp("sums"), CELLS[request.param])
    names = ("WindowSums", "WaitSums", "WaitCause", "Instruction", "DmaPacket", "DmaPacketAggregated", "HostDmaTransfer", "ActiveTime")
    made = {name: read(directory, name) for name in names}
    frame = pd.DataFrame({c: [r[c] for r in made["Instruction"]] for c in ("id", "start_ts", "end_ts", "evt_wait_time_ns")})
    for row, wait in zip(made["Instruction"], waits_of(directory, frame)):
        row["wait"] = int(wait)
    return made


def spread(begin, end, width):
    """(bucket's start, part) of a span of time."""
    while begin < end:
        until = min(end, begin // width * width + width)
        yield begin // width * width, until - begin
        begin = until


def merged(spans):
    out = []
    for begin, end in sorted(s for s in spans if s[0] < s[1]):
        if out and begin <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([begin, end])
    return out


def width_of(rows):
    (width,) = {r["bucket_ns"] for r in rows}
    assert width & (width - 1) == 0
    return width


def begin_of(event):
    return event["start_ts"] + event.get("wait", 0)


def check_busy(rows, key_of, spans):
    """spans: by key."""
    width = width_of(rows)
    want = Counter()
    for key, list_of in spans.items():
        for span in merged(list_of):
            for start, part in spread(*span, width):
                want[key, start] += part
    got = {(key_of(r), r["start_ts"]): r["busy_ns"] for r in rows if r["busy_ns"]}
    assert got == dict(want)


def check_events(rows, key_of, events, event_key, size=None):
    width = width_of(rows)
    want = defaultdict(lambda: {"count": 0, "first": None, "last": None, "time": 0, "wait": 0, "bytes": 0})
    for e in events:
        key, start = event_key(e), e["start_ts"]
        w = want[key, start // width * width]
        w["count"] += 1
        w["first"] = min(start, w["first"] if w["first"] is not None else start)
        w["last"] = max(e["end_ts"], w["last"] or 0)
        w["bytes"] += e[size] if size else 0
        for at, part in spread(start, e["end_ts"], width):
            want[key, at]["time"] += part
        for at, part in spread(start, begin_of(e), width):
            want[key, at]["wait"] += part
    got = {(key_of(r), r["start_ts"]): {"count": r["event_count"], "first": r["first_ts"], "last": r["last_ts"], "time": r["time_ns"],
                                        "wait": r["wait_ns"] or 0, "bytes": r["transfer_bytes"] or 0} for r in rows}
    assert got == dict(want)


def of_kind(tables, kind):
    return [r for r in tables["WindowSums"] if r["kind"] == kind]


def core(tables):
    cores = {r["pcore_idx"] for r in tables["Instruction"]}
    return (lambda p: f"(nc{p})") if len(cores) > 1 else lambda p: ""


def split_track(tables):
    suffix, sides = core(tables), {"sequencer": " Sequencer", "compute": " Compute"}
    return lambda e: (e["timeline_track"] if e["timeline_track"].startswith("TensorMatrix")
                      else e["engine"] + sides[e["executed_by"]] + suffix(e["pcore_idx"]))


def test_kinds(tables):
    """Every kind that has events is there, in order, each row once."""
    rows = tables["WindowSums"]
    kinds = ["dma", "dma_engine", "dma_queue", "dma_transfer", "host_dma", "engine", "instruction", "instruction_split", "operation", *TREE]
    seen = list(dict.fromkeys(r["kind"] for r in rows))
    assert seen == [k for k in kinds if k != "host_dma" or tables["HostDmaTransfer"]]
    names = ("kind", "start_ts", "timeline_track", "split_track", "pcore_idx", "engine", "opcode", "operator", "hlo_name", "queue_name")
    assert max(Counter(tuple(r[n] for n in names) for r in rows).values()) == 1
    for kind in seen:
        starts = [r["start_ts"] for r in rows if r["kind"] == kind]
        assert starts == sorted(starts) and len(set(starts)) <= 1026


def test_packets(tables):
    packets, suffix = tables["DmaPacket"], core(tables)
    engine = lambda e: f"DMA-E{e['engine_idx']}{suffix(e['pcore_idx'])}"
    queue = lambda e: f"DMA-E{e['engine_idx']} {e['queue_name'] or 'queue %d' % e['queue_idx']}{suffix(e['pcore_idx'])}"
    track = lambda r: r["timeline_track"]
    for kind, key in (("dma_engine", engine), ("dma_queue", queue)):
        check_events(of_kind(tables, kind), track, packets, key, "transfer_bytes")
        spans = defaultdict(list)
        for e in packets:
            spans[key(e)].append((e["start_ts"], e["end_ts"]))
        check_busy(of_kind(tables, kind), track, spans)
    check_busy(of_kind(tables, "dma"), lambda r: "", {"": [(e["start_ts"], e["end_ts"]) for e in packets]})


@pytest.mark.parametrize("kind, table", (("dma_transfer", "DmaPacketAggregated"), ("host_dma", "HostDmaTransfer")))
def test_transfers(tables, kind, table):
    events, suffix = tables[table], core(tables)
    if not events:
        pytest.skip("none of these")
    key = (lambda e: f"{e['queue_name']}{suffix(e['pcore_idx'])}") if kind == "dma_transfer" else lambda e: f"Host-device DMA-E{e['engine_idx']}"
    check_events(of_kind(tables, kind), lambda r: r["timeline_track"], events, key, "transfer_bytes")
    spans = defaultdict(list)
    for e in events:
        spans[key(e)].append((e["start_ts"], e["end_ts"]))
    check_busy(of_kind(tables, kind), lambda r: r["timeline_track"], spans)
    assert kind == "host_dma" or {(r["queue_name"], r["pcore_idx"]) for r in of_kind(tables, kind)} == {(e["queue_name"], e["pcore_idx"]) for e in events}


def operation_of_event(tables):
    split = split_track(tables)
    return lambda e: (e["timeline_track"], split(e), e["pcore_idx"], e["engine"], e["opcode"], e["operator"], e["hlo_name"])


def operation_of_row(r):
    return tuple(r[n] for n in ("timeline_track", "split_track", "pcore_idx", "engine", "opcode", "operator", "hlo_name"))


def test_operations(tables):
    rows, events, key = of_kind(tables, "operation"), tables["Instruction"], operation_of_event(tables)
    check_events(rows, operation_of_row, events, key)
    width = width_of(rows)
    want, flops = Counter(), Counter()
    for e in events:
        at = key(e), e["start_ts"] // width * width
        for name in BYTES:
            if e[name]:
                want[at, name] += e[name]
        begin, end = begin_of(e), e["end_ts"]
        for name in ("raw_flops", "flops_transpose"):
            for start, part in spread(begin, end, width) if begin < end else [(at[1], 0)]:
                flops[(key(e), start), name] += (e[name] or 0) * (part / (end - begin) if begin < end else 1)
    assert {((operation_of_row(r), r["start_ts"]), n): r[n] for r in rows for n in BYTES if r[n]} == dict(want)
    assert any(r["raw_flops"] for r in rows)
    for r in rows:
        for name in ("raw_flops", "flops_transpose"):
            assert (r[name] or 0) == pytest.approx(flops[(operation_of_row(r), r["start_ts"]), name], rel=1e-9, abs=1e-3)


def test_sums_are_null_where_nothing_is_known(tables):
    """As their columns in Instruction are."""
    rows, key = of_kind(tables, "operation"), operation_of_event(tables)
    width = width_of(rows)
    known = {(key(e), e["start_ts"] // width * width) for e in tables["Instruction"] if e["hbm_read_bytes"] is not None}
    assert {(operation_of_row(r), r["start_ts"]) for r in rows if r["hbm_read_bytes"] is not None} == known
    matmuls = {key(e) for e in tables["Instruction"] if e["raw_flops"] is not None}
    assert {operation_of_row(r) for r in rows if r["raw_flops"] is not None} == matmuls


def test_tracks_and_engines(tables):
    for kind, key in (("instruction", lambda e: e["timeline_track"]), ("instruction_split", split_track(tables))):
        spans = defaultdict(list)
        for e in tables["Instruction"]:
            spans[key(e)].append((begin_of(e), e["end_ts"]))
        check_busy(of_kind(tables, kind), lambda r: r["timeline_track"], spans)
    spans = defaultdict(list)
    for r in tables["ActiveTime"]:
        spans[r["engine"], r["pcore_idx"]].append((r["start_ts"], r["end_ts"]))
    check_busy(of_kind(tables, "engine"), lambda r: (r["engine"].lower(), r["pcore_idx"]), spans)


def test_tree_of_operators(tables):
    spans = {kind: defaultdict(list) for kind in TREE}
    for e in tables["Instruction"]:
        span, path = (begin_of(e), e["end_ts"]), e["operator"] or None
        parts = path.split("/")[:DEPTH] if path else []
        for n in range(1, len(parts) + 1):
            spans["operator"]["/".join(parts[:n])].append(span)
        if not path:
            spans["operator"][None].append(span)
        hlo = e["hlo_name"] if e["hlo_name"] and e["hlo_name"] != path else None
        if hlo:
            spans["hlo"][path, hlo].append(span)
        spans["opcode"][path, hlo, e["engine"], e["opcode"]].append(span)
    keys = {"operator": lambda r: r["operator"], "hlo": lambda r: (r["operator"], r["hlo_name"]),
            "opcode": lambda r: (r["operator"], r["hlo_name"], r["engine"], r["opcode"])}
    for kind in TREE:
        check_busy(of_kind(tables, kind), keys[kind], spans[kind])


def test_waits(tables):
    rows, split = tables["WaitSums"], split_track(tables)
    width = width_of(rows)
    instructions = {e["id"]: e for e in tables["Instruction"]}
    want = Counter()
    for w in tables["WaitCause"]:
        e = instructions[w["instruction_id"]]
        key = e["timeline_track"], split(e), e["pcore_idx"], w["dependency_type"]
        at = key, w["start_ts"] // width * width
        want[at, "event_count"] += 1
        want[at, "cost_ns"] += w["cost_ns"]
        for start, part in spread(w["start_ts"], w["end_ts"], width):
            want[(key, start), "wait_ns"] += part
    key = lambda r: ((r["timeline_track"], r["split_track"], r["pcore_idx"], r["dependency_type"]), r["start_ts"])
    assert {(key(r), n): r[n] for r in rows for n in ("event_count", "cost_ns", "wait_ns") if r[n]} == {k: v for k, v in want.items() if v}
