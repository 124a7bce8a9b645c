"""PSUM and SBUF in use, made again byte by byte from the operands' text, and from the ranges that SbufAllocation names."""

import re

import numpy as np
import pandas as pd
import pytest

import profiles
from profiles import Cell
import truth

CELLS = (Cell("mlp", "trn2", 2, executions=1), Cell("attention", "trn1", 1, executions=1, small=True))
BITS = {"fp32": 32, "bf16": 16, "fp16": 16, "fp32r": 32, "i32": 32, "u32": 32, "i16": 16, "u16": 16, "i8": 8, "u8": 8}
TRACKED = (0, 32, 64, 96)
BANK = 2048


@pytest.fixture(scope="module", params=CELLS, ids=str)
def made(request, tmp_path_factory):
    return profiles.make_tables(tmp_path_factory.mktemp("buffers"), request.param, "-F", "enable-memory-viewer=1")


@pytest.fixture(scope="module")
def tables(made):
    return made[0]


def read(directory, name):
    return truth.read_table(directory, name).to_pandas()


def instructions(tables, true):
    """With the time at which each began to run."""
    i = read(tables, "Instruction")
    i["begin"] = truth.Profile(tables, true).begins(i.fillna({"pcore_idx": 0, "evt_wait_time_ns": 0}).to_dict("records"))
    return i


def operand(text, name):
    """(PSUM?, start partition, first byte, end) of an operand, or None; the type is given by the caller."""
    place = re.search(rf"(?:^| ){name}=(0x[0-9a-f]+) {name}_pattern=((?:\[-?\d+,\d+\])+)", text)
    if not place:
        return None
    address = int(place[1], 16)
    dims = [(int(step), int(count)) for step, count in re.findall(r"\[(-?\d+),(\d+)\]", place[2])]
    if address >> 26 or any(count == 0 for _, count in dims):
        return None
    low = sum(step * (count - 1) for step, count in dims if step < 0)
    high = sum(step * (count - 1) for step, count in dims if step >= 0)
    return bool(address >> 25 & 1), (address >> 23 & 3) * 32, address & 0x3ffff, low, high


def psum_accesses(row):
    """(how, lane, first, end) of each PSUM operand in each followed partition, reads first."""
    text = row.operands
    value = lambda name: (re.search(rf"(?:^| ){name}=(\w+)", text) or [None, None])[1]
    types = {"src": value("dtype"), "src1": value("dtype1") or value("dtype"), "dst": value("out_dtype") or value("dtype")}
    rows, cols, channels = value("rows"), value("cols"), value("channels")
    counts = {"src": rows or channels, "src1": channels, "dst": cols or channels}
    flags = int(value("flags") or "0", 16)
    for name in ("src", "src1", "dst"):
        o = operand(text, name)
        if not o or not o[0]:
            continue
        _, partition, offset, low, high = o
        bits = BITS[types[name]]
        first, end = max(0, offset + low * bits // 8), min(16384, offset + ((high + 1) * bits + 7) // 8)
        how = "read" if name != "dst" else "add" if row.opcode == "MATMUL" and not flags & 0xa else "write"
        for lane, followed in enumerate(TRACKED):
            if partition <= followed < partition + int(counts[name]):
                yield how, lane, first, end


def samples_of(i, core, instants):
    """Bytes in use per bank, over all followed partitions, at each instant."""
    i = i[(i.pcore_idx.fillna(0) == core) & i.operands.str.contains("0x2[0-9a-f]{6}(?: |$)", regex=True)].copy()
    i = i.sort_values(["begin", "id"])
    changes = np.zeros((len(instants) + 1, 8), dtype="int64")
    since, until = np.zeros((4, 16384), dtype="int64"), np.full((4, 16384), -1, dtype="int64")

    def free(lane, first, end, at_latest):
        u = np.minimum(until[lane, first:end], at_latest)
        used = (until[lane, first:end] >= 0) & (u > since[lane, first:end])
        start, stop = np.searchsorted(instants, since[lane, first:end][used]), np.searchsorted(instants, u[used])
        banks = np.arange(first, end)[used] // BANK
        np.add.at(changes, (start, banks), 1)
        np.add.at(changes, (stop, banks), -1)

    for row in i.itertuples():
        for how, lane, first, end in psum_accesses(row):
            place = slice(first, end)
            unused = until[lane, place] < 0
            if how == "read":
                until[lane, place] = np.maximum(until[lane, place], row.end_ts)
                continue
            fresh = np.ones(end - first, dtype=bool) if how == "write" else unused
            if how == "write":
                free(lane, first, end, row.begin)
            since[lane, place] = np.where(fresh, row.begin, since[lane, place])
            until[lane, place] = np.where(fresh, row.end_ts, np.maximum(until[lane, place], row.end_ts))
    for lane in range(4):
        free(lane, 0, 16384, np.iinfo("int64").max)
    return np.cumsum(changes, axis=0)[:-1]


def every_sample(usage, columns, instants):
    """The value at each instant: that of the last row at or before it, 0 before the first."""
    at = np.searchsorted(usage.timestamp.to_numpy(), instants, side="right") - 1
    values = usage[columns].to_numpy()
    return np.where(at[:, None] >= 0, values[np.maximum(at, 0)], 0)


def width_of(tables):
    end = read(tables, "FlopsUsage").timestamp.iloc[-1]
    width = next(w for p in range(19) for w in (10 ** p, 2 * 10 ** p, 5 * 10 ** p) if end // w < 65536)
    return width, np.arange(0, end + width, width)


def test_psum_usage(made):
    tables, i = made[0], instructions(*made)
    usage = read(tables, "PsumUsage")
    width, instants = width_of(tables)
    assert usage.timestamp.is_monotonic_increasing and (usage.timestamp % width == 0).all()
    columns = [f"bank_{b}_util_percent" for b in range(8)]
    assert len(usage) and usage[columns].min().min() >= 0 and usage[columns].max().max() <= 100
    for core, mine in usage.groupby("pcore_idx"):
        want = 100 * samples_of(i, core, instants) / (4 * BANK)
        assert np.abs(every_sample(mine, columns, instants) - want).max() < 1e-4
        assert np.allclose(mine.avg_util_percent, mine[columns].mean(axis=1), atol=1e-4)
        # A row stands where something changed.
        assert (mine[columns].diff().abs().sum(axis=1).iloc[1:] > 0).all()


def test_sbuf_usage_is_that_of_its_ranges(tables):
    usage, ranges = read(tables, "SbufUsage"), read(tables, "SbufAllocation")
    size = {"trn1": 192, "trn2": 224}[next(a for a in ("trn1", "trn2") if a in str(tables))] * 1024
    _, instants = width_of(tables)
    assert ranges.start_ts.is_monotonic_increasing and set(ranges.partition) <= set(TRACKED)
    assert (ranges.end_ts > ranges.start_ts).all() and (ranges.end_address >= ranges.start_address).all()
    assert ranges.end_address.max() < size
    for core, mine in usage.groupby("pcore_idx"):
        for partition in TRACKED:
            r = ranges[(ranges.pcore_idx == core) & (ranges.partition == partition)]
            changes = np.zeros(len(instants) + 1)
            np.add.at(changes, np.searchsorted(instants, r.start_ts), r.end_address - r.start_address + 1)
            np.add.at(changes, np.searchsorted(instants, r.end_ts), r.start_address - r.end_address - 1)
            got = every_sample(mine, [f"partition_{partition}_util_percent"], instants)[:, 0]
            assert np.abs(got - 100 * np.cumsum(changes)[:-1] / size).max() < 1e-4


def test_ranges_never_overlap(tables):
    """Bytes of a partition belong to one writer at a time."""
    ranges = read(tables, "SbufAllocation")
    for _, r in ranges.groupby(["pcore_idx", "partition", "start_address"]):
        r = r.sort_values("start_ts")
        assert (r.start_ts.to_numpy()[1:] >= r.end_ts.to_numpy()[:-1]).all()


def test_ranges_name_their_writers(made):
    tables, i = made[0], instructions(*made)
    ranges, a = read(tables, "SbufAllocation"), read(tables, "DmaPacketAggregated")
    writers = set(zip(i.begin, i.opcode, i.operands))
    by = ranges[ranges.op_source_type == "instruction"]
    assert len(by) and set(zip(by.start_ts, by.opcode, by.operands)) <= writers
    dma = ranges[ranges.op_source_type == "dma"]
    assert len(dma) and set(zip(dma.start_ts, dma.queue_name)) <= set(zip(a.start_ts, a.queue_name))
    assert dma.opcode.isna().all() and by.queue_name.isna().all()


def test_usage_can_be_left_out(tmp_path):
    directory, _ = profiles.make_tables(tmp_path, Cell("attention", "trn2", 1, small=True), "-F", "ignore-nc-buf-usage=true")
    assert not list(directory.glob("PsumUsage*")) and not list(directory.glob("Sbuf*"))
    assert list(directory.glob("DmaUsage*"))
