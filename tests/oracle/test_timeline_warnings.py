"""TimelineWarning against conditions that are worked out anew from the other tables and from the truth."""

import duckdb
import pytest

import profiles
import truth
from profiles import Cell

THROTTLED = ("--throttle", "activity_0:1/4@5+30", "activity_1:3/4@60+5~20#0")
US = 1000


def columns(directory, table, sql):
    return duckdb.sql(f"SELECT {sql} FROM read_parquet('{directory / (table + '.parquet')}')").fetchall()


def bands(directory, kind):
    return duckdb.sql(
        f"SELECT start_ts, end_ts, count, pcore_idx, label, details FROM read_parquet('{directory / 'TimelineWarning.parquet'}') "
        f"WHERE kind = '{kind}' ORDER BY start_ts, pcore_idx").fetchall()


def near(spans, gap):
    """Joins (start, end, count) that are no further apart than gap."""
    out = []
    for start, end, count in sorted(spans):
        if out and start - out[-1][1] <= gap:
            out[-1] = (out[-1][0], max(out[-1][1], end), out[-1][2] + count)
        else:
            out.append((start, end, count))
    return out


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    directory = tmp_path_factory.mktemp("bands")
    return {
        "attention": profiles.make_tables(directory, Cell("attention", "trn2", 1, "dge", 3), "--set", "small_dma_count=5",
                                          "--set", "small_dma_window_us=40", "--set", "transpose_percent=12"),
        "throttled": profiles.make_tables(directory, Cell("mlp", "trn2", 2, "throttled", 2, THROTTLED, small=True)),
        "unnamed": profiles.make_tables(directory, Cell("attention", "trn2", 1, "unnamed", 2, ("--vnc", "1"), dge=0)),
        "lossy": profiles.make_tables(directory, Cell("mlp", "trn2", 1, "lossy", 80, ("--buffer", "INSTRUCTION=1"), small=True)),
        "spills": profiles.make_tables(directory, Cell("mlp", "trn1", 1, "spills", 1), "--set", "spill_reload_percent=3"),
    }


def small_bands(tables, need, window, percent, limit=4096):
    rows = duckdb.sql(f"""
        SELECT a.id, any_value(a.start_ts), any_value(a.end_ts), any_value(a.transfer_bytes), count(*)
        FROM read_parquet('{tables / 'DmaPacketAggregated.parquet'}') a
        JOIN read_parquet('{tables / 'DmaPacket.parquet'}') p ON p.packet_aggregation_id = a.id
        WHERE p.queue_type = 'hardware_dynamic' GROUP BY a.id ORDER BY a.id""").fetchall()
    marked = [(place, start, end) for place, (_, start, end, size, packets) in enumerate(rows) if size < limit * packets]
    spans, counted = [], 0
    for n in range(need, len(marked) + 1):
        first, last = marked[n - need], marked[n - 1]
        if last[1] - first[1] <= window and 100 * need >= percent * (last[0] - first[0] + 1):
            spans.append((first[1], last[2], n - max(counted, n - need)))
            counted = n
    return near(spans, window)


def test_small_dma_transfers(made):
    tables, _ = made["attention"]
    want = small_bands(tables, 5, 40 * US, 50)
    got = bands(tables, "small_dma_transfers")
    assert want and [b[:3] for b in got] == want
    assert {b[4] for b in got} == {"Small DMA transfers"}
    for start, end, count, pcore, _, details in got:
        assert details.startswith(f"Excessive small DMA transfers ({count} instructions) back-pressure HBM in this region, "
                                  "making instruction timing here unreliable. Consider batching or vectorizing these transfers")
        assert "contiguous payloads of at least 4 KiB" in details


def test_small_ones_without_names_are_packets(made):
    tables, _ = made["unnamed"]
    got = bands(tables, "small_dma_transfers")
    assert [b[:3] for b in got] == small_bands(tables, 32, 100 * US, 50)
    assert got and all(f"({b[2]} packets)" in b[5] for b in got)


def test_throttling(made):
    tables, true = made["throttled"]
    p = truth.Profile(tables, true)
    for pcore in (0, 1):
        rows = [r for r in p.true("throttle") if int(r["pcore_idx"]) == pcore]
        spans = [(p.ts(r["start_ps"]), p.ts(r["end_ps"]), 1) for r in rows]
        got = [b for b in bands(tables, "throttling") if b[3] == pcore]
        assert [b[:3] for b in got] == near(spans, 1000 * US)
        time = sum(e - s for s, e, _ in spans)
        speed = 100 * sum((e - s) * int(r["k"]) / int(r["n"]) for (s, e, _), r in zip(spans, rows)) / time
        assert f"{speed:.1f} % of full speed" in got[0][5]


def windows(rows, width, limit):
    """rows: (start, end, part, whole), in order of start."""
    by = {}
    for start, end, part, whole in rows:
        w = by.setdefault(start // width, [0, 0, None, None, 0])
        w[0] += part
        w[1] += whole
        if part:
            w[2] = start if w[2] is None else w[2]
            w[3] = end if w[3] is None else max(w[3], end)
            w[4] += 1
    return near([(w[2], w[3], w[4]) for w in by.values() if w[2] is not None and 100 * w[0] > limit * w[1]], width)


@pytest.mark.parametrize("name, limit", (("attention", 12), ("spills", 10), ("lossy", 10)))
def test_transposes(made, name, limit):
    tables, _ = made[name]
    rows = duckdb.sql(f"""
        SELECT start_ts, end_ts, coalesce(raw_flops, 0) * (coalesce(adjusted_flops_transpose, 0) > 0)::INT, coalesce(raw_flops, 0)
        FROM read_parquet('{tables / 'Instruction.parquet'}') WHERE raw_flops > 0 ORDER BY start_ts""").fetchall()
    assert [b[:3] for b in bands(tables, "transpose_overhead")] == windows(rows, 1000 * US, limit)


@pytest.mark.parametrize("name, limit", (("attention", 25), ("spills", 3), ("lossy", 25)))
def test_spill_reloads(made, name, limit):
    """A packet is a reload when its block writes SBUF from a spilled tensor."""
    tables, _ = made[name]
    rows = duckdb.sql(f"""
        SELECT p.start_ts, p.end_ts, p.transfer_bytes * (a.is_spill AND a.dest = '[SB]')::INT, p.transfer_bytes
        FROM read_parquet('{tables / 'DmaPacket.parquet'}') p
        JOIN (SELECT id, source, dest, queue_name LIKE '%SpillReload%' AS is_spill
              FROM read_parquet('{tables / 'DmaPacketAggregated.parquet'}')) a ON p.packet_aggregation_id = a.id
        WHERE a.source NOT IN ('', '[SB]') ORDER BY p.id""").fetchall()
    got = bands(tables, "spill_reload")
    assert bool(got) == (name == "spills")
    assert [b[:3] for b in got] == windows(rows, 1000 * US, limit)


def test_names_missing(made):
    tables, _ = made["unnamed"]
    packets = duckdb.sql(f"""SELECT count(*), min(start_ts), max(end_ts) FROM read_parquet('{tables / 'DmaPacket.parquet'}')
                             WHERE queue_type IN ('software_dynamic', 'hardware_dynamic')""").fetchone()
    got = bands(tables, "dma_names_missing")
    assert got and sum(b[2] for b in got) == packets[0]
    assert (got[0][0], max(b[1] for b in got)) == packets[1:]
    assert all("NEURON_RT_ENABLE_DGE_NOTIFICATIONS=1" in b[5] for b in got)
    assert bands(made["attention"][0], "dma_names_missing") == []


def test_collective_outliers(tmp_path):
    """Those of one kind, type, size and number of ranks against their median, the lower one of an even number."""
    ntff, neff, _ = profiles.make_ntff(tmp_path, Cell("allreduce", "trn2", 1, "outliers", 6))
    tables = profiles.process(ntff, [neff], tmp_path / "tables", "--set", "collective_outlier_percent=1")
    rows = columns(tables, "CcOp", "start_ts, end_ts, operation, dtype, num_elements, len(split(split(replica_group, ']')[1], ','))")
    groups = {}
    for row in rows:
        groups.setdefault(row[2:], []).append(row[1] - row[0])
    median = {key: sorted(d)[(len(d) - 1) // 2] for key, d in groups.items() if len(d) >= 4}
    slow = [(s, e, 1) for s, e, *key in rows if tuple(key) in median and 100 * (e - s) > 101 * median[tuple(key)]]
    got = bands(tables, "collective_outlier")
    assert slow and [b[:3] for b in got] == near(slow, 0)
    assert {b[3] for b in got} == {None} and all("median" in b[5] for b in got)
    plain = profiles.process(ntff, [neff], tmp_path / "plain")
    assert not (plain / "TimelineWarning.parquet").exists()  # nothing is worth a band at 50 %


def test_nki_coverage(tmp_path):
    """Only where a program has kernels: windows in which most of the three engines' instructions are not theirs."""
    neff, ntff = tmp_path / "nki.neff", tmp_path / "nki.ntff"
    profiles.run(profiles.BIN / "kymo-sim", "neff", "--model", "attention", "--arch", "trn2", "--lnc", 1, "--nki", "--output", neff)
    profiles.run(profiles.BIN / "kymo-sim", "ntff", "--neff", neff, "--lnc", 1, "--executions", 2, "--dge", 1, "--output", ntff)
    for percent in (50, 30):
        tables = profiles.process(ntff, [neff], tmp_path / f"p{percent}", "--set", f"nki_coverage_percent={percent}", "--set", "window_us=50")
        rows = columns(tables, "Instruction", "start_ts, end_ts, (kernel_instruction_name IS NULL)::INT, 1, engine")
        rows = sorted((r[:4] for r in rows if r[4] in ("Tensor", "Vector", "Scalar")), key=lambda r: r[0])
        want = windows(rows, 50 * US, 100 - percent)
        assert want and [b[:3] for b in bands(tables, "low_nki_coverage")] == want
        coverage, = columns(tables, "Summary", "nki_coverage_percent")[0]
        assert coverage == pytest.approx(100 * (1 - sum(r[2] for r in rows) / len(rows)), rel=1e-6)


def test_without_kernels_there_is_no_coverage(made):
    for tables, _ in made.values():
        assert bands(tables, "low_nki_coverage") == [] and columns(tables, "Summary", "nki_coverage_percent") == [(None,)]


def test_host_dma_is_not_captured(made):
    (start, end, count, pcore, _, details), = bands(made["unnamed"][0], "host_dma_not_captured")
    last, = columns(made["unnamed"][0], "Metadata", "last_hw_timestamp - first_hw_timestamp")[0]
    assert (start, end, count, pcore) == (0, last, None, None) and "odd core" in details
    assert bands(made["attention"][0], "host_dma_not_captured") == []


def test_records_lost(made):
    tables, true = made["lossy"]
    p = truth.Profile(tables, true)
    lossy = {truth.label(r): r for r in p.true("rings") if int(r["dropped"])}
    got = bands(tables, "records_lost")
    assert lossy and len(got) == len(lossy)
    for start, end, count, pcore, _, details in got:
        ring = lossy[details.split(" lost ")[0]]
        assert count == int(ring["dropped"]) and pcore == int(ring["pcore_idx"])
        # A start record that comes late, after its wait, may have a time from before the band.
        assert start <= p.ts(ring["last_dropped_ps"]) and p.ts(ring["first_dropped_ps"]) <= end
        assert "lower bounds" in details and f"NEURON_RT_PROFILE_BUF_{ring['ring']}_MB" in details
    assert bands(made["attention"][0], "records_lost") == []


def test_bands_are_sorted_and_inside_the_profile(made):
    for tables, _ in made.values():
        last, = columns(tables, "Metadata", "last_hw_timestamp - first_hw_timestamp")[0]
        rows = columns(tables, "TimelineWarning", "start_ts, end_ts")
        assert rows == sorted(rows) and all(0 <= s <= e <= last for s, e in rows)


def test_settings(made, tmp_path):
    """A limit of bands joins them and says so; a condition can be switched off; a wrong one is refused."""
    ntff, neff, _ = profiles.make_ntff(tmp_path, Cell("attention", "trn2", 1, "few", 3))
    few = profiles.process(ntff, [neff], tmp_path / "few", "--set", "small_dma_count=5", "--set", "small_dma_window_us=40",
                           "--set", "bands_max=2", "--set", "transpose_percent=100", "--set", "window_us=10")
    assert len(bands(few, "small_dma_transfers")) <= 2 and bands(few, "transpose_overhead") == []
    many = profiles.process(ntff, [neff], tmp_path / "many", "--set", "small_dma_count=5", "--set", "small_dma_window_us=40",
                            "--set", "transpose_percent=100", "--set", "window_us=10")
    assert sum(b[2] for b in bands(few, "small_dma_transfers")) == sum(b[2] for b in bands(many, "small_dma_transfers")) > 0
    joined = [m for m, in columns(few, "Warning", "message") if "joined with their neighbours" in m]
    assert len(joined) == (len(bands(many, "small_dma_transfers")) > 2)
    with pytest.raises(AssertionError, match="small_dma_count"):
        profiles.process(ntff, [neff], tmp_path / "wrong", "--set", "small_dma_count=none")
    assert not (tmp_path / "wrong").exists()
    profiles.run(profiles.BIN / "kymo", "process", "-s", ntff, "-n", neff, "--output-file", tmp_path / "by-kymo", "--set",
                 "small_dma_count=5", "--set", "small_dma_window_us=40", "--set", "transpose_percent=100", "--set", "window_us=10")
    assert bands(tmp_path / "by-kymo", "small_dma_transfers") == bands(many, "small_dma_transfers")
