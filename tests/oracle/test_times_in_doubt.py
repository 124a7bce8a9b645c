"""One flipped bit in one record's time leaves the axis of time, its buckets and the loss equation as they were, and is told; honest
idle stretches are left alone."""

from collections import namedtuple
import shutil
import struct
import subprocess

import duckdb
import pyarrow.parquet as pq
import pytest

import ntff_reader
import profiles
from profiles import BIN, Cell

CELLS = {
    "trn2": Cell("attention", "trn2", 2, "doubt", executions=2, small=True),
    "trn1": Cell("mlp", "trn1", 1, "doubt", executions=2, options=("--drift",), small=True),
}
FOUND_PS = 10 * 10**9  # shifts from here on are found wherever they are
SAME = ("Instruction", "DmaPacket", "SemaphoreUpdate", "HostDmaTransfer", "PartialEvent")
NEAR = ("LevelOfDetail", "SbufUsage", "PsumUsage", "DmaUsage", "DmaUsageSummary", "FlopsUsage")

SUMS = ("WindowSums", "WaitSums")
# A level has as many rows as its buckets have tracks with a beginning: an axis that moves by some ns moves a few of the finest.
PARTS = {"LevelOfDetail": 10}

# Tables are made anew under the same names: what was read of those before must not be taken for them.
duckdb.execute("SET enable_external_file_cache = false")

Intact = namedtuple("Intact", "ntff neff directory rows span widths")


def rows_of(tables):
    paths = [tables / f"{n}.parquet" for n in SAME + NEAR]
    return {p.stem: pq.read_metadata(p).num_rows for p in paths if p.exists()}


def span_of(tables):
    """(zero by the device's clock, length) in ns"""
    zero = duckdb.sql(f"SELECT first_hw_timestamp FROM '{tables}/Metadata.parquet'").fetchone()[0]
    return int(zero), duckdb.sql(f"SELECT max(last_ts) FROM '{tables}/LevelOfDetail.parquet'").fetchone()[0]


def widths_of(tables):
    """Buckets of sums: an event that lasts too long has rows in more of them, but they are as wide as before."""
    return [duckdb.sql(f"SELECT min(bucket_ns), max(bucket_ns) FROM '{tables}/{n}.parquet'").fetchone() for n in SUMS]


def doubts_of(tables):
    path = tables / "Warning.parquet"
    if not path.exists():
        return []
    column = [c[0] for c in duckdb.sql(f"DESCRIBE SELECT * FROM '{path}'").fetchall()]
    return [dict(zip(column, r)) for r in duckdb.sql(f"SELECT * FROM '{path}'").fetchall() if "contradict" in str(r)]


@pytest.fixture(scope="module", params=sorted(CELLS))
def intact(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp(request.param)
    ntff, neff, _ = profiles.make_ntff(directory, CELLS[request.param])
    tables = profiles.process(ntff, [neff], directory / "intact")
    assert not doubts_of(tables)
    return Intact(ntff, neff, directory, rows_of(tables), span_of(tables), widths_of(tables))


def flipped(intact, offset, byte):
    """Tables of the profile with one bit flipped, and by how much that moved the record."""
    data = bytearray(intact.ntff.read_bytes())
    before = struct.unpack_from("<Q", data, offset + 8)[0]
    data[offset + 8 + byte] ^= 0x40
    after = struct.unpack_from("<Q", data, offset + 8)[0]
    ntff = intact.directory / "flipped.ntff"
    ntff.write_bytes(data)
    tables = intact.directory / "flipped"
    if tables.exists():
        shutil.rmtree(tables)
    return profiles.process(ntff, [intact.neff], tables), abs(after - before)


def check(intact, offset, byte):
    tables, shift = flipped(intact, offset, byte)
    verify = subprocess.run([BIN / "kymo", "verify", tables], capture_output=True, text=True, timeout=60)
    assert verify.returncode == 0, verify.stdout + verify.stderr
    zero, length = span_of(tables)
    assert abs(zero - intact.span[0]) <= FOUND_PS // 1000 and abs(length - intact.span[1]) <= FOUND_PS // 1000
    if shift < FOUND_PS:
        return
    assert widths_of(tables) == intact.widths
    (warning,) = doubts_of(tables)
    assert f"offset {offset}" in str(warning) and ": 1 in " in str(warning)
    rows = rows_of(tables)
    for name in SAME:
        assert rows.get(name) == intact.rows.get(name), name
    for name in NEAR:
        if name in intact.rows:
            assert abs(rows[name] - intact.rows[name]) <= 2 + intact.rows[name] // PARTS.get(name, 50), name


@pytest.mark.parametrize("kind", ["INSTRUCTION", "EVENT", "INFER_STATUS", "DMA", "H2D_DMA"])
@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_one_bit(intact, kind, place):
    rings = [r for r in ntff_reader.read(intact.ntff).rings if r.name == kind and r.stored]
    offsets = list(rings[-1].offsets())
    offset = offsets[{"first": 0, "middle": len(offsets) // 2, "last": -1}[place]]
    for byte in range(8):
        check(intact, offset, byte)


def test_idle_minutes_are_not_damage(intact):
    """All that comes after the first execution, ten minutes later; the timeline knows nothing of it."""
    data = bytearray(intact.ntff.read_bytes())
    rings = ntff_reader.read(intact.ntff).rings
    status = next(r for r in rings if r.name == "INFER_STATUS" and r.stored)
    border = [time for _, _, time in status.words()][status.stored // 2] - 10**6
    for ring in rings:
        for offset, (_, _, time) in zip(ring.offsets(), ring.words()):
            if time >= border:
                struct.pack_into("<Q", data, offset + 8, time + 600 * 10**12)
    ntff = intact.directory / "idle.ntff"
    ntff.write_bytes(data)
    tables = profiles.process(ntff, [intact.neff], intact.directory / "idle")
    assert not doubts_of(tables)
    assert span_of(tables)[1] > 600 * 10**9
