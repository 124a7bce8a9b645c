"""What kymo-query --serve answers, against pandas on the same tables; on kymo's directories and on others of the same layout."""

import json
import os
from pathlib import Path
import re
import shutil
import struct
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import packed
import profiles
from profiles import Cell
import serve_client
from waits import waits_of

OWN = {"PartialEvent", "LossLedger", "HostDmaTransfer", "HostDmaUsage", "FlopsUsage", "TimelineWarning", "LevelOfDetail", "WaitCause",
       "ClockSync", "WindowSums", "WaitSums"}


def read(directory, table):
    parts = sorted(p for p in Path(directory).glob(f"{table}*.parquet") if re.fullmatch(rf"{table}(_\d+)?\.parquet", p.name))
    return pd.concat([pq.read_table(p).to_pandas() for p in parts]) if parts else pd.DataFrame()


def make_foreign(source, target):
    """The layout as another tool writes it: other encodings, split tables, lower-case engines, no tables or columns of ours."""
    target.mkdir()
    for path in source.glob("*.parquet"):
        if path.stem in OWN:
            continue
        table = pq.read_table(path)
        if path.stem == "Instruction":
            own = ["psum_read_banks", "psum_write_banks", "symbolic_operands", "executed_by", "operator", "nki_region",
                   "nki_region_path", "timeline_track"]
            table = table.drop_columns(own)
            at = table.schema.get_field_index("engine")
            table = table.set_column(at, "engine", pa.array([e.lower() for e in table["engine"].to_pylist()]))
            at = table.schema.get_field_index("pcore_idx")
            table = table.set_column(at, "pcore_idx", table["pcore_idx"].cast(pa.int32()))
        options = {"compression": "snappy", "use_dictionary": False, "row_group_size": 5000, "write_statistics": path.stem != "Flow"}
        if path.stem in ("Instruction", "DmaPacket"):
            half = table.num_rows // 2
            pq.write_table(table.slice(0, half), target / f"{path.stem}_0.parquet", **options)
            pq.write_table(table.slice(half), target / f"{path.stem}_1.parquet", **options)
        else:
            pq.write_table(table, target / path.name, **options)
    return target


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    directory = tmp_path_factory.mktemp("serve")
    tables, _ = profiles.make_tables(directory, Cell("attention", "trn2", 2, executions=2))
    return {"own": tables, "foreign": make_foreign(tables, directory / "foreign")}


@pytest.fixture(scope="module")
def server():
    s = serve_client.Server()
    yield s
    assert s.close() == 0


@pytest.fixture(scope="module", params=["own", "foreign"])
def case(request, made, server):
    directory = made[request.param]

    def ask(op, **params):
        return server.ask(directory, op, **params)

    ask.directory, ask.own = directory, request.param == "own"
    ask.overview = ask("overview")
    ask.events = {kind: events_of(directory, kind) for kind in SOURCES}
    return ask


# Events of each kind of track, from the tables alone

CANONICAL = {e.lower(): e for e in ("Tensor", "Vector", "Scalar", "GpSimd", "Sync")}
SOURCES = {"instruction": "Instruction", "instruction_split": "Instruction", "dma_engine": "DmaPacket", "dma_queue": "DmaPacket",
           "dma_transfer": "DmaPacketAggregated", "host_dma": "HostDmaTransfer"}


def label_of(kind, e):
    core = f"(nc{int(e.pcore_idx)})" if "pcore_idx" in e._fields else ""
    if kind.startswith("instruction"):
        engine = CANONICAL[e.engine.lower()]
        if engine == "Tensor" and e.opcode == "MATMUL":
            return f"TensorMatrix{core}"
        side = {"sequencer": " Sequencer", "compute": " Compute"}[e.executed_by] if kind == "instruction_split" else ""
        return f"{engine}{side}{core}"
    if kind == "dma_engine":
        return f"DMA-E{e.engine_idx}{core}"
    if kind == "dma_queue":
        return f"DMA-E{e.engine_idx} {e.queue_name}{core}"
    if kind == "dma_transfer":
        return f"{e.queue_name}{core}"
    return f"Host-device DMA-E{e.engine_idx}"


def events_of(directory, kind):
    rows = read(directory, SOURCES[kind])
    if not len(rows) or (kind == "instruction_split" and "executed_by" not in rows):
        return pd.DataFrame({"track": pd.Series([], dtype=str), "id": [], "start_ts": [], "end_ts": []})
    rows = rows.assign(track=[f"{kind}:{label_of(kind, e)}" for e in rows.itertuples()])
    if "evt_wait_time_ns" in rows:
        rows["wait"] = waits_of(directory, rows)
    return rows.sort_values(["start_ts", "id"], kind="stable")


def inside(events, lo, hi):
    return events[(events.end_ts >= lo) & (events.start_ts <= hi)]


def test_overview(case):
    o = case.overview
    for name, rows in o["tables"].items():
        assert rows == len(read(case.directory, name)), name
    ends = [e.end_ts.max() for e in case.events.values() if len(e)]
    assert o["extent"] == {"from": 0, "to": max(ends)}
    assert o["cores"] == [0, 1]
    for kind, events in case.events.items():
        found = {t["id"]: t["events"] for t in o["tracks"] if t["kind"] == kind and t["events"]}
        wanted = events[~events.track.str.contains("TensorMatrix")] if kind == "instruction_split" else events
        assert found == wanted.groupby("track").size().to_dict(), kind
    names = [t["label"] for t in o["tracks"] if t["kind"] == "instruction"]
    assert names == [f"{e}(nc{c})" for c in (0, 1) for e in ("Tensor", "TensorMatrix", "Vector", "Scalar", "GpSimd", "Sync")]
    engines = [t["label"] for t in o["tracks"] if t["kind"] == "dma_engine"]
    assert engines == [f"DMA-E{e}(nc{c})" for c in (0, 1) for e in range(16)]
    instructions = read(case.directory, "Instruction")
    column = "operator" if case.own else "layer"
    first = instructions[instructions[column].notna()].groupby(column).start_ts.min().reset_index().sort_values(["start_ts", column])
    assert o["operators"] == first[column].to_list()
    missing = {m["what"] for m in o["missing"]}
    assert missing == (set() if case.own else {"flops", "why", "losses", "bands", "split"})
    absent = {t["label"] for t in o["tracks"] if t["absent"]}
    assert ("Host-device DMA" in absent) == (not case.own)
    assert len({t["id"] for t in o["tracks"]}) == len(o["tracks"])


def windows(extent):
    lo, hi = extent["from"], extent["to"]
    rng = np.random.default_rng(5)
    yield lo, hi, 1600
    yield lo, hi, 40
    yield lo - 1000, hi + 1000, 3
    for _ in range(4):
        span = int((hi - lo) / 10 ** rng.uniform(0.2, 4)) + 1
        start = int(rng.integers(lo, hi - span))
        yield start, start + span, int(rng.choice([7, 100, 800, 1600]))


SETTINGS = [{}, {"split": 1}, {"dma": "queue"}, {"dma": "aggregated"}]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_timeline(case, settings):
    known = {t["id"]: t for t in case.overview["tracks"]}
    for lo, hi, width in windows(case.overview["extent"]):
        answer = case("timeline", from_=lo, to=hi, width=width, groups="engine,dma,host_dma", **settings)
        assert (answer["from"], answer["to"], answer["width"]) == (lo, hi, width)
        dma = settings.get("dma", "engine")
        split = bool(settings.get("split"))
        assert {t["id"] for t in answer["tracks"]} == {
            i for i, t in known.items()
            if t["form"] == "events" and t["group"] in ("engine", "dma", "host_dma") and t["dma"] in (None, dma) and not t["absent"]
            and (t["split"] is None or (t["split"] != "joined") == split)}
        for track in answer["tracks"]:
            kind = track["id"].split(":")[0]
            events = case.events[kind]
            check_track(track, inside(events[events.track == track["id"]], lo, hi), events[events.track == track["id"]], lo, hi, width)


def check_track(track, wanted, every, lo, hi, width):
    got = track["values"]
    if track["mode"] == "events":
        assert len(wanted) <= 4 * width or len(wanted) == 0
        rows = pd.DataFrame({k: got[k] for k in ("start", "id", "end")})
        assert rows.start.to_list() == wanted.start_ts.to_list()
        assert rows.id.to_list() == wanted.id.to_list()
        assert rows.end.to_list() == wanted.end_ts.to_list()
        if "opcode" in wanted:
            assert track["texts"]["label"] == wanted.opcode.to_list()
            assert got["wait"].tolist() == wanted.wait.to_list()
            column = "operator" if "operator" in wanted else "layer"
            assert track["texts"]["color"] == wanted[column].fillna("").to_list()
        else:
            assert got["bytes"].tolist() == wanted.transfer_bytes.to_list()
        return
    bucket = track["bucket_ns"]
    assert bucket <= max(1, (hi - lo) // width)
    assert (np.diff(got["start"]) > 0).all() and not (got["start"] % bucket).any()
    assert ((got["first"] >= got["start"]) & (got["first"] < got["start"] + bucket)).all()
    # All buckets that the window touches with an event are there, and each stands for its events.
    groups = {b: g for b, g in every.groupby(every.start_ts // bucket * bucket)}
    assert {int(b) for b in got["start"]} >= {int(b) for b in wanted.start_ts // bucket * bucket}
    for i, b in enumerate(got["start"]):
        g = groups[b]
        # Only a bucket before the window may hold no more than what lasts into it.
        assert got["count"][i] == len(g) or b + bucket <= lo
        if got["count"][i] == len(g):
            assert got["first"][i] == g.start_ts.min()
            assert got["last"][i] == g.end_ts.max()
            assert got["longest"][i] == (g.end_ts - g.start_ts).max()
            row = g[g.id == got["id"][i]].iloc[0]
            assert row.end_ts - row.start_ts == got["longest"][i]
            if "opcode" in g:
                assert track["texts"]["label"][i] == row.opcode
                column = "operator" if "operator" in g else "layer"
                assert track["texts"]["color"][i] == (row[column] if isinstance(row[column], str) else "")
            else:
                assert got["bytes"][i] == g.transfer_bytes.sum()


def test_named_tracks(case):
    ids = [t["id"] for t in case.overview["tracks"] if t["form"] == "events" and t["events"]][::7]
    answer = case("timeline", from_=0, to=case.overview["extent"]["to"], width=500, tracks=",".join(ids))
    assert sorted(t["id"] for t in answer["tracks"]) == sorted(ids)


SERIES = {"FlopsUsage": {"Estimated Instant MFU": "mfu_instant_percent", "Estimated Cumulative HFU": "hfu_cumulative_percent"},
          "DmaUsage": {"DMA Throughput": "current_throughput", "Cumulative DMA Throughput": "cumulative_throughput"},
          "HbmUsage": {"HBM Throughput": "current_throughput"}, "PendingDma": {"Pending DMA": "value"},
          "SbufUsage": {"SBUF in use": "avg_util_percent"}}


def test_series(case):
    for lo, hi, width in windows(case.overview["extent"]):
        answer = {t["id"]: t for t in case("series", from_=lo, to=hi, width=width)["tracks"]}
        for table, names in SERIES.items():
            rows = read(case.directory, table)
            for name, column in names.items():
                for core in (0, 1):
                    track = answer[f"series:{name}(nc{core})"]
                    if not len(rows):
                        assert track["n"] == 0
                        continue
                    check_series(track, rows[rows.pcore_idx == core], column, lo, hi, width)


def check_series(track, rows, column, lo, hi, width):
    suffix = ".avg" if "min.avg" in track["values"] else ""
    before = rows[rows.timestamp < lo]
    within = rows[(rows.timestamp >= lo) & (rows.timestamp <= hi)]
    columns = np.minimum(np.floor((within.timestamp.to_numpy() - lo) * width / (hi - lo)).astype(int), width - 1)
    expected = {}
    for c, v in zip(columns, within[column].to_numpy(dtype=float)):
        expected.setdefault(c, []).append(v)
    if len(before):
        expected.setdefault(0, []).append(float(before[column].iloc[-1]))
    got = track["values"]
    assert got["column"].tolist() == sorted(expected)
    for i, c in enumerate(got["column"]):
        assert got["min" + suffix][i] == pytest.approx(np.nanmin(expected[c]), rel=1e-6)
        assert got["max" + suffix][i] == pytest.approx(np.nanmax(expected[c]), rel=1e-6)


def test_bands(case):
    lo, hi = 0, case.overview["extent"]["to"]
    answer = case("bands", from_=lo, to=hi)
    assert len(answer["executions"]) == 2
    assert len(answer["warnings"]) == min(2000, len(read(case.directory, "TimelineWarning")))
    if case.own:
        one = read(case.directory, "TimelineWarning").iloc[0]
        assert any(w["details"] == one.details and w["start_ts"] == one.start_ts for w in answer["warnings"])


@pytest.mark.parametrize("table", ["Instruction", "DmaPacket", "DmaPacketAggregated"])
def test_event(case, table):
    rows = read(case.directory, table).sort_values(["start_ts", "id"], kind="stable")
    kind = next(k for k, t in SOURCES.items() if t == table)
    tracks = case.events[kind].set_index("id").track
    framed = np.flatnonzero(rows.stack_frame_ids.notna()) if table == "Instruction" else [1]
    for position in (0, framed[len(framed) // 2], len(rows) - 1):
        row = rows.iloc[position]
        answer = case("event", table=table, id=row.id)
        assert answer["track"] == tracks[row.id]
        for column, value in row.items():
            got = answer["fields"][column]
            if isinstance(value, np.ndarray):
                assert got == value.tolist()
            elif value is None or value != value:
                assert got is None
            else:
                assert got == (pytest.approx(value, rel=1e-5) if isinstance(value, float) and isinstance(got, float) else value), column
        same = case.events[kind][case.events[kind].track == tracks[row.id]]
        at = same.id.to_list().index(row.id)
        neighbours = {k: v and v["id"] for k, v in answer["neighbours"].items()}
        assert neighbours["previous"] == (same.id.iloc[at - 1] if at else None)
        assert neighbours["next"] == (same.id.iloc[at + 1] if at + 1 < len(same) else None)
        if table == "Instruction":
            assert any(s["kind"] == "framework" and s["file"] and s["line"] for s in answer["sources"]) == isinstance(row.stack_frame_ids, str)
    with pytest.raises(serve_client.Failed) as missing:
        case("event", table=table, id=10**12)
    assert missing.value.status == 404


RANK = ["FLOW_DEPENDENCE", "ANTI_DEPENDENCE", "OUTPUT_DEPENDENCE", "ORDERED_DEPENDENCE", "SEMAPHORE", "DMA_WAIT", "DMA_TRIGGER",
        "SAME_PSUM_BANK"]


def edges_of(flow, table, key):
    """{(direction, other table, other id): kinds by rank}"""
    found = {}
    for r in flow[(flow.in_table == table) & (flow.in_id == key)].itertuples():
        found.setdefault(("out", r.out_table, r.out_id), []).append(r.dependency_type)
    for r in flow[(flow.out_table == table) & (flow.out_id == key)].itertuples():
        found.setdefault(("in", r.in_table, r.in_id), []).append(r.dependency_type)
    return {k: sorted(v, key=RANK.index) for k, v in found.items()}


def told(answer, *names):
    out = {}
    for name in names:
        for dep in answer[name]:
            table = "instruction" if dep["table"] == "Instruction" else "dma_block"
            out[dep["direction"], table, dep["id"]] = [dep["kind"]] + [a["kind"] for a in dep["also"]]
            assert dep["bank"] == (dep["kind"] == "SAME_PSUM_BANK")
    return out


def test_dependencies(case):
    flow = read(case.directory, "Flow")
    instructions = read(case.directory, "Instruction")
    degree = flow[flow.in_table == "instruction"].in_id.value_counts()
    for key in [*degree.index[:3], *degree.index[-3:], int(flow[flow.dependency_type == "SAME_PSUM_BANK"].in_id.iloc[5])]:
        answer = case("dependencies", table="Instruction", id=key)
        wanted = edges_of(flow, "instruction", key)
        assert told(answer, "predecessors", "successors", "transfers") == wanted
        assert all(t == "dma_block" for _, t, _ in told(answer, "transfers"))
        banks = {k for k, kinds in wanted.items() if "SAME_PSUM_BANK" in kinds}
        assert {("in", "instruction", d["id"]) for d in answer["same_bank"]["previous"]} | \
               {("out", "instruction", d["id"]) for d in answer["same_bank"]["next"]} == banks
        for dep in answer["predecessors"] + answer["successors"]:
            row = instructions[instructions.id == dep["id"]].iloc[0]
            assert (dep["pc"], dep["start_ts"], dep["end_ts"], dep["label"]) == (row.pc, row.start_ts, row.end_ts, row.opcode)
    block = int(flow[flow.out_table == "dma_block"].out_id.iloc[7])
    answer = case("dependencies", table="DmaPacketAggregated", id=block)
    assert told(answer, "starters", "dependents") == edges_of(flow, "dma_block", block)
    assert {d["kind"] for d in answer["starters"]} == {"DMA_TRIGGER"}
    packet = read(case.directory, "DmaPacket").query("packet_aggregation_id == @block").iloc[0]
    same = case("dependencies", table="DmaPacket", id=packet.id)
    assert same["starters"] == answer["starters"] and same["dependents"] == answer["dependents"]


def on_track(case, track, row):
    """Whether the timeline has a row on that track."""
    lo, hi = int(row["start_ts"]), int(row["end_ts"]) + 1
    answer = case("timeline", from_=lo, to=hi, width=16384, tracks=track)["tracks"][0]
    return answer["mode"] == "events" and row["id"] in answer["values"]["id"]


def test_dependencies_name_their_tracks_and_packets(case):
    flow, packets = read(case.directory, "Flow"), read(case.directory, "DmaPacket")
    known = {t["id"] for t in case.overview["tracks"]}
    starter = int(flow[(flow.in_table == "instruction") & (flow.out_table == "dma_block")].in_id.iloc[-1])
    answer = case("dependencies", table="Instruction", id=starter)
    deps = [d for name in ("predecessors", "successors", "transfers") for d in answer[name]]
    for dep in deps[:20]:
        assert dep["track"] == dep["tracks"][0] and set(dep["tracks"]) <= known
        assert all(on_track(case, track, dep) for track in dep["tracks"])
        if dep["table"] == "Instruction":
            assert len(dep["tracks"]) == 1 + any(t["split"] == "sequencer" for t in case.overview["tracks"])
    linked = [d["id"] for d in answer["transfers"] if d["table"] == "DmaPacketAggregated"]
    wanted = packets[packets.packet_aggregation_id.isin(linked)].sort_values(["start_ts", "id"])
    assert linked and len(wanted)
    got = [(p["transfer"], p["id"], p["start_ts"], p["end_ts"], p["track"]) for p in answer["packets"]]
    assert answer["packets_truncated"] == (2 * len(wanted) > 4000)
    rows = {r.id: (r.packet_aggregation_id, r.id, r.start_ts, r.end_ts) for r in wanted.itertuples()}
    assert all(p[:4] == rows[p[1]] for p in got)
    for prefix in ("dma_engine:", "dma_queue:"):
        mine = [p for p in got if p[4].startswith(prefix)]
        assert [p[1] for p in mine] == list(wanted.id[: len(mine)]) and (answer["packets_truncated"] or len(mine) == len(wanted))
        for p in mine[:3]:
            assert on_track(case, p[4], {"id": p[1], "start_ts": p[2], "end_ts": p[3]})


def test_why(case):
    if not case.own:
        assert case("why", table="Instruction", id=3)["end"] == "absent"
        return
    waits = read(case.directory, "WaitCause").set_index("instruction_id")
    for key in (waits.index[0], waits.index[len(waits) // 2], waits.index[-1]):
        wanted, at = [], key
        while at is not None and len(wanted) < 200:
            wanted.append(at)
            prior = waits.loc[at].prior_wait_id
            at = int(prior) if prior == prior and prior in waits.index and prior not in wanted else None
        answer = case("why", table="Instruction", id=key)
        assert [s["instruction_id"] for s in answer["chain"]] == wanted
        assert [s["wait_ns"] for s in answer["chain"]] == waits.loc[wanted].wait_ns.to_list()


@pytest.mark.parametrize("op, params, status", [
    ("timeline", {"from_": 0, "to": 10}, 400), ("timeline", {"from_": 10, "to": 10, "width": 3}, 400),
    ("timeline", {"from_": 0, "to": 10, "width": 99999}, 400), ("timeline", {"from_": "1e3", "to": 10, "width": 3}, 400),
    ("timeline", {"from_": 0, "to": 10, "width": 3, "dma": "x"}, 400), ("bands", {"from_": 0, "to": 2**63}, 400),
    ("event", {"table": "Instruction; DROP TABLE x", "id": 1}, 404), ("event", {"table": "Flow", "id": 1}, 404),
    ("event", {"table": "Instruction", "id": "1 OR 1=1"}, 400), ("nothing", {}, 404)])
def test_wrong_questions(made, server, op, params, status):
    with pytest.raises(serve_client.Failed) as failed:
        server.ask(made["own"], op, **params)
    assert failed.value.status == status


def test_directories_that_change(made, tmp_path, server):
    """Exchanged while open: the new tables; removed: 404."""
    place = tmp_path / "profile"
    shutil.copytree(made["own"], place)
    first = server.ask(place, "overview")
    shutil.move(place, tmp_path / "old")
    with pytest.raises(serve_client.Failed) as failed:
        server.ask(place, "overview")
    assert failed.value.status == 404
    shutil.copytree(made["foreign"], place)
    assert server.ask(place, "overview")["own_levels"] is False and first["own_levels"] is True
    for i in range(12):
        shutil.copytree(made["own"], tmp_path / f"more{i}")
        assert server.ask(tmp_path / f"more{i}", "overview")["extent"] == first["extent"]


def test_cancel_and_credit(made):
    """Without credit an answer stops; it goes on with credit, and ends when nobody wants it. Others are not held up."""
    s = serve_client.Server()
    extent = s.ask(made["own"], "overview")["extent"]
    window = {"from_": extent["from"], "to": extent["to"], "width": 16000}
    slow = s.begin(made["own"], "timeline", **window)
    kind, number, _ = s.frame()
    assert (kind, number) == (serve_client.HEAD, slow)
    got = 0
    while got < 256 << 10:
        kind, number, payload = s.frame()
        assert (kind, number) == (serve_client.DATA, slow)
        got += len(payload)
    assert got == 256 << 10
    assert s.ask(made["own"], "bands", from_=0, to=10)["truncated"] == []
    s.send(serve_client.CREDIT, slow, struct.pack("<I", 10))
    assert [len(f) if isinstance(f, bytes) else f for f in s.frame()] == [serve_client.DATA, slow, 10]
    s.send(serve_client.CANCEL, slow)
    kind, number, payload = s.frame()
    assert (kind, number) == (serve_client.END, slow) and json.loads(payload)["code"] == "canceled"
    assert s.close() == 0


@pytest.mark.parametrize("bytes_", [struct.pack("<IBI", 2, 9, 1) + b"{}", struct.pack("<IBI", 1 << 30, 1, 1),
                                    struct.pack("<IBI", 2, 2, 1) + b"{}"])
def test_broken_frames_end_it(bytes_):
    s = serve_client.Server()
    s.socket.sendall(bytes_)
    with pytest.raises((EOFError, ConnectionResetError)):
        s.frame()
    assert s.child.wait(timeout=30) == 1


def test_sandbox(made):
    """No file can be written, no network and no program be had; the process is what it should be."""
    s = serve_client.Server()
    s.ask(made["own"], "overview")
    status = Path(f"/proc/{s.child.pid}/status").read_text()
    assert "NoNewPrivs:\t1" in status
    if "Seccomp:\t0" in status:
        pytest.skip("built with a sanitizer")
    assert "Seccomp:\t2" in status
    assert s.close() == 0


def test_golden():
    """The decoder against the file that the writer's unit test holds itself to."""
    head = packed.decode((Path(__file__).parents[1] / "golden" / "packed" / "answer.kyb").read_bytes())
    assert (head["version"], head["from"], head["to"], head["width"]) == (1, -5, 1000000, 1600)
    first, second, third = head["tracks"]
    assert first["texts"]["label"] == ["MATMUL", "LDWEIGHTS", "MATMUL"]
    assert first["values"]["id"].tolist() == [1000, 1001, -(2**63)]
    assert first["values"]["share"].tolist() == [0.0, 0.25, 0.5] and first["values"]["flag"].tolist() == [0, 200, 255]
    assert (second["bucket_ns"], second["values"]["count"].tolist()) == (65536, [2**32 - 1])
    assert third["id"] == "bad ? id" and third["texts"]["label"] == ["x?"]
