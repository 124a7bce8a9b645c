"""Every series, made again from the events' tables by the documented meaning of its columns: bytes and counts exactly, rates
within what a 32-bit number holds. And the last rows are Summary's totals."""

import numpy as np
import pandas as pd
import pytest

import profiles
from profiles import Cell
import truth

CELLS = (Cell("mlp", "trn2", 2), Cell("attention", "trn1", 1), Cell("attention", "trn3", 1), Cell("mlp", "trn2", 1, "no-dge", dge=0),
         Cell("allreduce", "trn2", 1, "straggler", options=("--slow-rank", "1:100")))
SINGLE = 2e-7  # of a value; a float's last digit


@pytest.fixture(scope="module", params=CELLS, ids=str)
def made(request, tmp_path_factory):
    return profiles.make_tables(tmp_path_factory.mktemp("series"), request.param)


@pytest.fixture(scope="module")
def tables(made):
    return made[0]


def read(directory, name):
    table = truth.read_table(directory, name)
    return pd.DataFrame() if table is None else table.to_pandas()


def rates(events):
    """events: start, end, amount (already multiplied). One row per instant: the rate just after it, the amounts that ended by it."""
    if events.empty:
        return pd.DataFrame(columns=["timestamp", "rate", "total"])
    duration = (events.end - events.start).where(events.end > events.start)
    rate = (events.amount * 1e9 / duration).fillna(0)
    changes = pd.concat([pd.DataFrame({"timestamp": events.start, "rate": rate, "total": 0}),
                         pd.DataFrame({"timestamp": events.end, "rate": -rate, "total": events.amount})])
    sums = changes.groupby("timestamp", sort=True).agg({"rate": "sum", "total": "sum"}).cumsum().reset_index()
    return sums


def equal_rates(got, want, name):
    assert list(got.timestamp) == list(want.timestamp), name
    assert list(got.total_transfer_bytes) == list(want.total), name
    # Sums of 64-bit reals lose some digits of the greatest rate.
    slack = want.rate.abs().max() * 1e-9
    assert (np.abs(got.current_throughput - want.rate) <= np.abs(want.rate) * SINGLE + slack).all(), name
    elapsed = want.timestamp.where(want.timestamp > 0)
    cumulative = (want.total * 1e9 / elapsed).fillna(0)
    assert np.allclose(got.cumulative_throughput, cumulative, rtol=SINGLE, atol=0), name


def packets(tables):
    p = read(tables, "DmaPacket")
    a = read(tables, "DmaPacketAggregated").set_index("id")
    p = p.join(a[["source", "dest"]], on="packet_aggregation_id")
    memory = lambda side: ~p[side].isin(["[SB]", "", "unknown"]) & p[side].notna()
    p["sides"] = memory("source").astype(int) + memory("dest").astype(int)
    p["pcore_idx"] = p.pcore_idx.fillna(0).astype(int)
    return p


def test_dma_and_hbm_usage(tables):
    p = packets(tables)
    for name, amount in (("DmaUsage", p.transfer_bytes), ("HbmUsage", p.transfer_bytes * p.sides)):
        usage = read(tables, name)
        assert usage.timestamp.is_monotonic_increasing
        for core in sorted(p.pcore_idx.unique()):
            events = pd.DataFrame({"start": p.start_ts, "end": p.end_ts, "amount": amount})[(p.pcore_idx == core) & (amount > 0)]
            equal_rates(usage[usage.pcore_idx == core].reset_index(drop=True), rates(events), f"{name} of core {core}")
        assert len(usage) <= 2 * len(p)


def test_dma_usage_summary(tables):
    usage, got = read(tables, "DmaUsage"), read(tables, "DmaUsageSummary")
    width = got.bucket_resolution_ns.unique()
    assert len(width) == 1 and len(got[got.pcore_idx == 0]) <= 4096
    usage["timestamp"] = usage.timestamp // width[0] * width[0]
    usage["current_throughput"] = usage.current_throughput.astype("float64")
    want = usage.groupby(["timestamp", "pcore_idx"], sort=True).agg(
        rate=("current_throughput", "sum"), total=("total_transfer_bytes", "sum"), greatest=("total_transfer_bytes", "max"),
        count=("timestamp", "size")).reset_index()
    assert got.timestamp.is_monotonic_increasing
    assert list(zip(got.timestamp, got.pcore_idx, got.sum_total_transfer_bytes, got.max_total_transfer_bytes, got["count"])) == \
        list(zip(want.timestamp, want.pcore_idx, want.total, want.greatest, want["count"]))
    assert np.allclose(got.sum_current_throughput, want.rate, rtol=1e-12)


def test_host_dma_usage(tables):
    h, usage = read(tables, "HostDmaTransfer"), read(tables, "HostDmaUsage")
    assert len(h) and usage.timestamp.is_monotonic_increasing
    equal_rates(usage, rates(pd.DataFrame({"start": h.start_ts, "end": h.end_ts, "amount": h.transfer_bytes})), "HostDmaUsage")
    # None of it is in the cores' own series.
    assert read(tables, "DmaUsage").total_transfer_bytes.max() <= read(tables, "DmaPacket").transfer_bytes.sum()


def test_pending_dma(tables):
    a, got = read(tables, "DmaPacketAggregated"), read(tables, "PendingDma")
    assert got.timestamp.is_monotonic_increasing and (got.value >= 0).all()
    a["core"] = a.pcore_idx.fillna(0).astype(int)
    since = np.fmin(a.completion, a.start_ts).astype("int64")
    changes = pd.concat([pd.DataFrame({"core": a.core, "timestamp": since, "value": 1}),
                         pd.DataFrame({"core": a.core, "timestamp": a.end_ts, "value": -1})])
    for core in sorted(a.core.unique()):
        want = changes[changes.core == core].groupby("timestamp", sort=True).value.sum().cumsum()
        mine = got[got.pcore_idx == core]
        assert list(zip(mine.timestamp, mine.value)) == list(want.items())


def matmuls(tables, true):
    i = read(tables, "Instruction")
    i["begin"] = truth.Profile(tables, true).begins(i.fillna({"pcore_idx": 0, "evt_wait_time_ns": 0}).to_dict("records"))
    i = i[(i.opcode == "MATMUL") & (i.engine == "Tensor")].copy()
    i["core"] = i.pcore_idx.fillna(0).astype(int)
    return i


def test_flops_usage(made):
    tables = made[0]
    got, i, meta = read(tables, "FlopsUsage"), matmuls(*made), read(tables, "Metadata").iloc[0]
    peak = 2 * meta.tensor_engine_num_rows * meta.tensor_engine_num_cols * float(str(meta.tensor_engine_clock_freq))
    assert got.timestamp.is_monotonic_increasing
    for core, mine in got.groupby("pcore_idx"):
        m = i[i.core == core]
        ends = mine.timestamp.to_numpy()
        begins = np.concatenate([[0], ends[:-1]])
        widths = np.diff(ends[:-1])
        assert len(set(widths)) <= 1 and len(mine) <= 65536
        work = m.raw_flops.to_numpy().astype("float64")
        transpose = (m.tensor_instruction_type == "TRANSPOSE").to_numpy()
        done = work_until(m.begin.to_numpy(), m.end_ts.to_numpy(), work, ends)
        useless = work_until(m.begin.to_numpy()[transpose], m.end_ts.to_numpy()[transpose], work[transpose], ends)
        assert np.abs(mine.hardware_flops - done).max() <= 1 + done[-1] * 1e-9
        assert np.abs(mine.transpose_flops - useless).max() <= 1 + done[-1] * 1e-9
        assert mine.hardware_flops.iloc[-1] == int(work.sum()) and mine.transpose_flops.iloc[-1] == int(work[transpose].sum())
        slack = 1e-4
        for column, amount in (("hfu", done), ("mfu", done - useless)):
            instant = 100 * np.diff(np.concatenate([[0], amount])) / (peak * (ends - begins))
            assert np.allclose(mine[f"{column}_instant_percent"], instant, rtol=1e-5, atol=slack), (core, column)
            assert np.allclose(mine[f"{column}_cumulative_percent"], 100 * amount / (peak * ends), rtol=1e-5, atol=slack)
            assert (mine[f"{column}_instant_percent"] >= 0).all()


def work_until(begin, end, work, instants):
    """Work done by each instant, each span's work spread evenly over it: pieces between all changes."""
    duration = (end - begin).astype("float64")
    at = np.concatenate([begin, end])
    rate = np.concatenate([work / duration, -work / duration])
    order = np.argsort(at, kind="stable")
    at, rate = at[order], np.cumsum(rate[order])
    done = np.concatenate([[0], np.cumsum(rate[:-1] * np.diff(at))])
    k = np.searchsorted(at, instants, side="right") - 1
    inside = k >= 0
    result = np.zeros(len(instants))
    result[inside] = done[k[inside]] + rate[k[inside]] * (instants[inside] - at[k[inside]])
    return result


def test_last_rows_are_the_summary(tables):
    s = read(tables, "Summary").iloc[0]
    last = lambda name, column: int(read(tables, name).groupby("pcore_idx")[column].last().sum())
    assert last("DmaUsage", "total_transfer_bytes") == s.dma_transfer_total_bytes
    assert last("HbmUsage", "total_transfer_bytes") == s.hbm_read_bytes + s.hbm_write_bytes
    assert last("FlopsUsage", "hardware_flops") == s.hardware_flops
    assert last("FlopsUsage", "transpose_flops") == s.transpose_flops
    assert read(tables, "PendingDma").groupby("pcore_idx").value.last().eq(0).all()
    # Summary counts over total_time, the series from the profile's zero to its last instant; both over one PE array.
    flops = read(tables, "FlopsUsage")
    end = flops.timestamp.iloc[-1]
    hfu = flops.groupby("pcore_idx").hfu_cumulative_percent.last().sum()
    assert hfu * end == pytest.approx(s.hfu_estimated_percent * s.total_time * 1e9, rel=1e-5)
