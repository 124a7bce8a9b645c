"""LevelOfDetail against the events it stands for, by the documented meaning of its columns."""

import pyarrow.parquet as pq
import pytest

import profiles
from profiles import Cell
import truth

KINDS = {"dma_engine": "DmaPacket", "dma_queue": "DmaPacket", "dma_transfer": "DmaPacketAggregated", "host_dma": "HostDmaTransfer",
         "instruction": "Instruction", "instruction_split": "Instruction"}


@pytest.fixture(scope="module", params=[1, 2])
def tables(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("lod")
    ntff, neff, true = profiles.make_ntff(directory, Cell("attention", "trn2", request.param, executions=5))
    out = profiles.process(ntff, [neff], directory / "profile")
    made = {name: pq.read_table(out / f"{name}.parquet").to_pandas() for name in {"LevelOfDetail", *KINDS.values()}}
    for name in made:
        if name != "LevelOfDetail":
            made[name]["begin"] = made[name].start_ts
    ins = made["Instruction"]
    ins["begin"] = truth.Profile(out, true).begins(ins.fillna({"pcore_idx": 0, "evt_wait_time_ns": 0}).to_dict("records"))
    return made


def tracks(kind, events, cores):
    """The track of each event, by kind."""
    core = [f"(nc{p})" if cores > 1 else "" for p in events.pcore_idx] if "pcore_idx" in events else None
    if kind == "instruction":
        return events.timeline_track
    if kind == "instruction_split":
        sides = {"sequencer": " Sequencer", "compute": " Compute"}
        return [t if t.startswith("TensorMatrix") else e + sides[s] + c
                for t, e, s, c in zip(events.timeline_track, events.engine, events.executed_by, core)]
    if kind == "dma_engine":
        return [f"DMA-E{e}{c}" for e, c in zip(events.engine_idx, core)]
    if kind == "host_dma":
        return [f"Host-device DMA-E{e}" for e in events.engine_idx]
    names = events.queue_name.where(events.queue_name != "", "unknown") if kind == "dma_transfer" else events.queue_name
    if kind == "dma_transfer":
        return [f"{q}{c}" for q, c in zip(names, core)]
    return [f"DMA-E{e} {q}{c}" for e, q, c in zip(events.engine_idx, names, core)]


def expected(events, width):
    """Rows by (track, bucket); the events are in order of start. Waits are not busy."""
    rows, covered = {}, {}
    for e in events.itertuples():
        row = rows.setdefault((e.track, e.start_ts // width * width), dict(count=0, busy=0, first=e.start_ts, last=0, bytes=0, longest=-1))
        row["count"] += 1
        row["busy"] += max(0, e.end_ts - max(e.begin, covered.get(e.track, -1)))
        covered[e.track] = max(covered.get(e.track, -1), e.end_ts)
        row["last"] = max(row["last"], e.end_ts)
        row["longest"] = max(row["longest"], e.end_ts - e.start_ts)
        row["bytes"] += e.bytes
    return rows


@pytest.mark.parametrize("kind", KINDS)
def test_levels(tables, kind):
    lod = tables["LevelOfDetail"]
    events = tables[KINDS[kind]].copy()
    cores = tables["Instruction"].pcore_idx.nunique()
    events["track"] = tracks(kind, events, cores)
    size = "transfer_bytes" if "transfer_bytes" in events else None
    events["bytes"] = events[size] if size else 0
    events = events.sort_values(["start_ts", "id"], kind="stable")
    mine = lod[lod.kind == kind]
    assert len(mine)
    for (level, width), rows in mine.groupby(["level", "bucket_ns"]):
        assert width == mine[mine.level == level].bucket_ns.iloc[0]
        want = expected(events, width)
        assert len(rows) == len(want)
        assert rows.start_ts.is_monotonic_increasing
        assert not rows.duplicated(["timeline_track", "start_ts"]).any()
        for r in rows.itertuples():
            w = want[r.timeline_track, r.start_ts]
            assert (r.event_count, r.busy_ns, r.first_ts, r.last_ts, r.longest_ns) == (w["count"], w["busy"], w["first"], w["last"], w["longest"])
            assert kind.startswith("instruction") or r.transfer_bytes == w["bytes"]


def test_longest(tables):
    """The longest event of a row is the one that its key names, with the row's label."""
    rows = tables["LevelOfDetail"].query("kind == 'instruction'")
    both = rows.merge(tables["Instruction"], left_on="longest_id", right_on="id", suffixes=("", "_event"))
    assert len(both) == len(rows)
    assert (both.longest_ns == both.duration_ns).all()
    assert (both.label == both.opcode).all()
    assert (both.operator.fillna("") == both.operator_event.fillna("")).all()
    assert (both.timeline_track == both.timeline_track_event).all()


def test_widths(tables):
    """Each level is four times as wide as the one before, and the coarsest has few rows on any track."""
    lod = tables["LevelOfDetail"]
    widths = lod.groupby("level").bucket_ns.agg(["min", "max"])
    assert (widths["min"] == widths["max"]).all()
    assert all(b == 4 * a for a, b in zip(widths["min"], widths["min"][1:]))
    coarsest = lod[lod.level == lod.level.max()]
    assert coarsest.groupby(["kind", "timeline_track"]).size().max() <= 257
