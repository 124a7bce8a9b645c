"""What is answered from the tables of sums is what the events themselves say: any window, with these tables and without them."""

import os
import random

import duckdb
import numpy as np
import pytest

import profiles
from profiles import Cell
import serve_client

CELLS = {
    "lnc2": Cell("attention", "trn2", 2, executions=4),
    "collectives": Cell("allreduce", "trn2", 1, "straggler", options=("--slow-rank", "1:100")),
}
SUMS = {"WindowSums", "WaitSums"}


@pytest.fixture(scope="module", params=CELLS)
def both(request, tmp_path_factory):
    """(ask, overview): ask(op, ...) gives the answers with the tables and without."""
    tmp = tmp_path_factory.mktemp("sums")
    directory, _ = profiles.make_tables(tmp, CELLS[request.param])
    bare = tmp / "bare"
    bare.mkdir()
    for path in directory.glob("*.parquet"):
        if path.stem not in SUMS:
            os.link(path, bare / path.name)
    server = serve_client.Server()
    overview = server.ask(directory, "overview")
    yield lambda op, **params: (server.ask(directory, op, **params), server.ask(bare, op, **params)), overview
    assert server.close() == 0


def windows(extent, n):
    """Wide and narrow ones, some beyond the profile's ends."""
    chance, lo, hi = random.Random(20261130), extent["from"], extent["to"]
    yield lo, hi + 1
    yield lo - 1000, hi + 1000
    yield lo + 1, hi
    for _ in range(n):
        length = max(1, int((hi - lo) ** chance.random()) if chance.random() < 0.5 else chance.randrange(1, hi - lo))
        start = chance.randrange(lo - length // 4, hi - length // 2)
        step = chance.choice((1, 1, 1 << 14))
        yield start // step * step, start // step * step + max(length // step * step, 1)


def same(a, b, path=""):
    """FLOPs are summed in another order."""
    assert type(a) is type(b) or (isinstance(a, (int, float)) and isinstance(b, (int, float))), f"{path}: {a} {b}"
    if isinstance(a, dict):
        assert a.keys() == b.keys(), path
        for key in a:
            same(a[key], b[key], f"{path}.{key}")
    elif isinstance(a, list):
        assert len(a) == len(b), f"{path}: {a} {b}"
        for i, (x, y) in enumerate(zip(a, b)):
            same(x, y, f"{path}[{i}]")
    elif isinstance(a, float) or path.rsplit(".")[-1].endswith("flops"):
        assert a == b or a == pytest.approx(b, rel=1e-9, abs=1e-9), f"{path}: {a} {b}"
    else:
        assert a == b, f"{path}: {a} {b}"


def test_summary(both):
    ask, overview = both
    for lo, hi in windows(overview["extent"], 10):
        same(*ask("summary", from_=lo, to=hi), f"summary {lo} {hi}")


def test_boxes(both):
    ask, overview = both
    chance = random.Random(7)
    tracks = [t for t in overview["tracks"] if t["form"] == "events"]
    of_kind = lambda *kinds: [t["id"] for t in tracks if t["kind"] in kinds]
    boxes = [of_kind("instruction", "dma_engine"), of_kind("instruction_split", "dma_queue"), of_kind("instruction", "instruction_split"),
             [t["id"] for t in tracks], of_kind("dma_engine")[:1], of_kind("dma_queue")[:1], of_kind("dma_engine")[:3], of_kind("dma_transfer"),
             [t["id"] for t in tracks if t["label"].startswith("TensorMatrix")], [t["id"] for t in tracks if t["engine"] == "Tensor" and t["split"] == "compute"],
             *(chance.sample([t["id"] for t in tracks], 5) for _ in range(2))]
    for box in boxes:
        for lo, hi in list(windows(overview["extent"], 1))[2:]:
            same(*ask("summary", from_=lo, to=hi, tracks=",".join(box)), f"box {box} {lo} {hi}")


def test_operators(both):
    ask, overview = both
    for lo, hi in windows(overview["extent"], 2):
        below = [None]
        for _ in range(12):
            if not below:
                break
            parent = below.pop(0)
            with_sums, bare = ask("operators", from_=lo, to=hi, **({"parent": parent} if parent else {}))
            same(with_sums, bare, f"operators of {parent} {lo} {hi}")
            below += [r["id"] for r in bare["rows"][:3] if r["expandable"]]
    same(*ask("operators", sort="-active_ns"), "operators")
    same(*ask("operators", filter="a", sort="-time_ns"), "operators")


# A table of several row groups, which DuckDB reads with several threads, and more tracks than it compares one by one.

RECORDS, MANY = 1_000_000, 6
PACKETS = """SELECT 'DMA-E' || engine_idx || ' ' || queue_name AS track, start_ts, end_ts FROM '{0}/DmaPacket.parquet' WHERE start_ts < {2}
    AND end_ts >= {1} ORDER BY start_ts"""


def covered(rows, lo, hi):
    """Nanoseconds; rows ascend by start."""
    begin, end = rows.start_ts.to_numpy().clip(lo, hi), rows.end_ts.to_numpy().clip(lo, hi)
    reach = np.maximum.accumulate(np.concatenate([[lo], end]))
    return int(np.maximum(end - np.maximum(begin, reach[:-1]), 0).sum())


def test_boxes_of_many_tracks(tmp_path):
    neff = profiles.make_neff(tmp_path, "attention", "trn2", 1)
    ntff, directory = tmp_path / "long.ntff", tmp_path / "tables"
    profiles.run(profiles.BIN / "kymo-sim", "ntff", "--neff", neff, "--lnc", 1, "--events", RECORDS, "--unlimited", "--output", ntff)
    profiles.run(profiles.BIN / "kymo-process", "--ntff", ntff, "--neff", neff, "--output", directory)
    server, chance = serve_client.Server(), random.Random(11)
    overview = server.ask(directory, "overview")
    tracks = {t["id"]: t["label"] for t in overview["tracks"] if t["kind"] == "dma_queue"}
    assert len(tracks) > 2 * MANY
    for lo, hi in list(windows(overview["extent"], 12))[2:]:
        box = chance.sample(sorted(tracks), chance.randrange(MANY, len(tracks)))
        answer = server.ask(directory, "summary", from_=lo, to=hi, tracks=",".join(box))
        rows = duckdb.sql(PACKETS.format(directory, lo, hi)).df()
        rows = rows[rows.track.isin([tracks[i] for i in box])]
        assert answer["dma"]["active_ns"] == covered(rows, lo, hi), f"{box} {lo} {hi}"
        told = {t["track"]: t["active_ns"] for t in answer["tracks"]}
        wanted = {track: covered(some, lo, hi) for track, some in rows.groupby("track")}
        assert {k: v for k, v in told.items() if v} == {k: v for k, v in wanted.items() if v}, f"{box} {lo} {hi}"
    assert server.close() == 0
