"""What users of the vendor's tables do with them, in pandas and in DuckDB, from the documented meaning of the columns alone. Both ways
give the same, and where Summary has the figure, Summary's."""

import duckdb
import pandas as pd
import pytest

import profiles
from profiles import Cell

CELLS = (Cell("mlp", "trn2", 2), Cell("attention", "trn1", 1), Cell("attention", "trn3", 1, "no-dge", dge=0))


class Tables:
    def __init__(self, directory):
        self.directory = directory
        self.con = duckdb.connect()
        for path in directory.glob("*.parquet"):
            self.con.execute(f"CREATE VIEW \"{path.stem}\" AS SELECT * FROM read_parquet('{path}')")

    def frame(self, name):
        return pd.read_parquet(self.directory / f"{name}.parquet")

    def one(self, sql):
        return self.con.execute(sql).fetchone()[0]

    def map(self, sql):
        return {row[:-1] if len(row) > 2 else row[0]: row[-1] for row in self.con.execute(sql).fetchall()}


@pytest.fixture(scope="module", params=CELLS, ids=str)
def made(request, tmp_path_factory):
    directory, _ = profiles.make_tables(tmp_path_factory.mktemp("analysis"), request.param)
    return Tables(directory), request.param


@pytest.fixture(scope="module")
def tables(made):
    return made[0]


near = lambda value: pytest.approx(float(value), rel=1e-5)


def test_bound_by_compute(tables):
    """Least time for the matmuls at the array's peak: rows, columns and clock from Metadata, FLOPs from Instruction."""
    meta, ins = tables.frame("Metadata").iloc[0], tables.frame("Instruction")
    peak = 2 * meta.tensor_engine_num_rows * meta.tensor_engine_num_cols * meta.tensor_engine_clock_freq * 1e9
    matmuls = ins[ins.opcode == "MATMUL"]
    seconds = matmuls.adjusted_flops.sum() / peak
    assert seconds > 0 and near(seconds) == tables.one("""
        SELECT (SELECT sum(adjusted_flops) FROM Instruction WHERE opcode = 'MATMUL')
             / (2.0 * tensor_engine_num_rows * tensor_engine_num_cols * tensor_engine_clock_freq * 1e9) FROM Metadata""")
    summary = tables.frame("Summary").iloc[0]
    assert summary.adjusted_hardware_flops == matmuls.adjusted_flops.sum()
    assert near(summary.hfu_estimated_percent) == 100 * ins.raw_flops.sum() / peak / summary.total_time
    # An array cannot be quicker than its peak; LNC=2 has two of them.
    assert seconds / meta.num_physical_cores <= summary.tensor_engine_active_time


def test_flops_by_kind_of_matmul(tables):
    ins = tables.frame("Instruction")
    matmuls = ins[ins.opcode == "MATMUL"]
    by_kind = matmuls.groupby("tensor_instruction_type", dropna=False).adjusted_flops.sum()
    assert {k: v for k, v in by_kind.items() if k == k} == tables.map("""
        SELECT tensor_instruction_type, sum(adjusted_flops)::BIGINT FROM Instruction
        WHERE opcode = 'MATMUL' AND tensor_instruction_type IS NOT NULL GROUP BY 1""")
    summary = tables.frame("Summary").iloc[0]
    assert by_kind.sum() == summary.adjusted_hardware_flops
    transposes = sum(v for k, v in by_kind.items() if str(k).lower().startswith("transpose"))
    assert 0 < transposes == summary.adjusted_transpose_flops == matmuls.adjusted_flops_transpose.sum()


def test_bound_by_dma(made):
    """Least time for the bytes at the DMA engines' and at HBM's bandwidth, both from Metadata."""
    tables, cell = made
    meta, packets, summary = tables.frame("Metadata").iloc[0], tables.frame("DmaPacket"), tables.frame("Summary").iloc[0]
    seconds = packets.transfer_bytes.sum() / meta.dma_ddr_bandwidth
    assert near(seconds) == tables.one("SELECT (SELECT sum(transfer_bytes) FROM DmaPacket) / dma_ddr_bandwidth FROM Metadata")
    assert 0 < seconds / meta.num_physical_cores <= summary.dma_active_time
    assert packets.transfer_bytes.sum() == summary.dma_transfer_total_bytes == tables.frame("DmaPacketAggregated").transfer_bytes.sum()
    assert near(summary.mbu_estimated_percent) == 100 * (summary.hbm_read_bytes + summary.hbm_write_bytes) / (
        summary.total_time * meta.hbm_ddr_bandwidth)
    assert near(summary.dma_transfer_average_bytes) == packets.transfer_bytes.sum() / len(tables.frame("DmaPacketAggregated"))
    assert bool(summary.lower_bound) == (cell.dge == 0)


def test_bound_by_inputs_and_weights(tables):
    """What must be read at least once, from TensorInfo's roles and sizes; and the repeat of loads, per tensor."""
    tensors, summary, meta = tables.frame("TensorInfo"), tables.frame("Summary").iloc[0], tables.frame("Metadata").iloc[0]
    by_type = tensors.groupby(tensors.type.str.upper())["size"].sum()
    assert dict(by_type) == tables.map("SELECT upper(type), sum(size)::BIGINT FROM TensorInfo WHERE type IS NOT NULL GROUP BY 1")
    assert {"IN", "OUT"} <= set(by_type.index)
    assert summary.inputs_outputs_weights_size_bytes - summary.inputs_and_weights_size_bytes == by_type["OUT"]
    assert summary.inputs_and_weights_size_bytes == by_type["IN"] + summary.weight_size_bytes
    assert near(summary.mbu_min_read_util_percent) == 100 * summary.inputs_and_weights_size_bytes / (
        summary.total_time * meta.hbm_ddr_bandwidth)


def test_redundant_loads_per_tensor(tables):
    """Loads to SBUF per tensor from the transfers; a factor above 1 is a load that an execution could have spared."""
    tensors = tables.frame("TensorInfo")
    loaded = tensors[tensors.load_to_sbuf_dma_count > 0]
    moved = tables.frame("DmaPacketAggregated")
    moved = moved[(moved.dest == "[SB]") & (moved.variable != "unknown")]
    by_name = moved.groupby("variable").agg(count=("id", "count"), size=("transfer_bytes", "sum"))
    assert len(loaded)
    runs = tables.one("SELECT count(*) FROM ExecutionInfo")
    for name, rows in loaded.groupby("variable_name"):
        count, size = by_name.loc[name]
        assert rows.load_to_sbuf_dma_count.sum() == count and rows.load_to_sbuf_total_size_bytes.sum() == size, name
    for row in loaded.itertuples():
        assert near(row.load_to_sbuf_repeat_factor) == row.load_to_sbuf_total_size_bytes / row.size / runs, row.variable_name
        assert row.load_to_sbuf_avg_size_bytes == pytest.approx(row.load_to_sbuf_total_size_bytes / row.load_to_sbuf_dma_count, abs=1)
    spare = loaded[loaded.load_to_sbuf_repeat_factor > 1]
    wasted = (spare.load_to_sbuf_total_size_bytes - spare["size"] * runs).sum()
    assert wasted == tables.one("""
        SELECT coalesce(sum(load_to_sbuf_total_size_bytes - size * (SELECT count(*) FROM ExecutionInfo)), 0)::BIGINT FROM TensorInfo
        WHERE load_to_sbuf_dma_count > 0 AND load_to_sbuf_repeat_factor > 1""")


def union(spans):
    total, until = 0, None
    for start, end in sorted(spans):
        if until is None or start > until:
            total, until = total + end - start, end
        elif end > until:
            total, until = total + end - until, end
    return total


def test_busy_time_per_engine(tables):
    """Merged busy spans: of one core the table's sum, over both cores Summary's union."""
    active, summary = tables.frame("ActiveTime"), tables.frame("Summary").iloc[0]
    sums = active.groupby(["engine", "pcore_idx"]).duration_ns.sum()
    assert sums.to_dict() == tables.map("SELECT engine, pcore_idx, sum(duration_ns)::BIGINT FROM ActiveTime GROUP BY ALL")
    for engine, rows in active.groupby("engine"):
        busy = union(zip(rows.start_ts, rows.end_ts))
        assert near(summary[f"{engine}_engine_active_time"]) == busy / 1e9, engine
        assert near(summary[f"{engine}_engine_active_time_percent"]) == 100 * busy / (summary.total_time * 1e9), engine
    dma = tables.frame("DmaPacket")
    everything = union(list(zip(active.start_ts, active.end_ts)) + list(zip(dma.start_ts, dma.end_ts)))
    assert near(summary.total_active_time) == everything / 1e9


def test_dma_by_queue_type(tables):
    """Packets, bytes and busy time of each class of queues."""
    packets, summary = tables.frame("DmaPacket"), tables.frame("Summary").iloc[0]
    classes = {"static": {"instruction", "input", "output", "data"}, "software_dynamic": {"software_dynamic"},
               "hardware_dynamic": {"hardware_dynamic"}}
    for name, types in classes.items():
        rows = packets[packets.queue_type.isin(types)]
        assert summary[f"{name}_dma_packet_count"] == len(rows)
        assert summary[f"{name}_dma_size"] == rows.transfer_bytes.sum()
        assert near(summary[f"{name}_dma_active_time"]) == union(zip(rows.start_ts, rows.end_ts)) / 1e9
        assert near(summary[f"{name}_dma_packet_percent"]) == 100 * len(rows) / len(packets)
        assert near(summary[f"{name}_dma_size_percent"]) == 100 * rows.transfer_bytes.sum() / packets.transfer_bytes.sum()
    dynamic = packets[packets.queue_type.isin(("software_dynamic", "hardware_dynamic"))]
    assert near(summary.dynamic_dma_active_time_percent) == 100 * union(zip(dynamic.start_ts, dynamic.end_ts)) / (summary.total_time * 1e9)
    assert near(summary.dma_active_time) == union(zip(packets.start_ts, packets.end_ts)) / 1e9
    assert packets.groupby("queue_type").transfer_bytes.sum().to_dict() == tables.map(
        "SELECT queue_type, sum(transfer_bytes)::BIGINT FROM DmaPacket GROUP BY 1")


def test_dma_by_queue_and_direction(tables):
    """Bytes by queue name, and by direction between HBM and SBUF."""
    moved, summary = tables.frame("DmaPacketAggregated"), tables.frame("Summary").iloc[0]
    by_name = moved.groupby("queue_name").transfer_bytes.sum().to_dict()
    assert by_name == tables.map("SELECT queue_name, sum(transfer_bytes)::BIGINT FROM DmaPacket GROUP BY 1")
    side = lambda text: text.map(lambda t: "SBUF" if t == "[SB]" else "HBM" if t else "")
    by_way = moved.groupby([side(moved.source), side(moved.dest)]).transfer_bytes.sum().to_dict()
    assert by_way == tables.map("""
        SELECT CASE source WHEN '[SB]' THEN 'SBUF' WHEN '' THEN '' ELSE 'HBM' END,
               CASE dest WHEN '[SB]' THEN 'SBUF' WHEN '' THEN '' ELSE 'HBM' END, sum(transfer_bytes)::BIGINT
        FROM DmaPacketAggregated GROUP BY ALL""")
    assert summary.hbm_read_bytes == sum(v for (a, _), v in by_way.items() if a == "HBM")
    assert summary.hbm_write_bytes == sum(v for (_, b), v in by_way.items() if b == "HBM")


def test_time_of_operations(tables):
    """The table by engine and opcode is OpcodeSummary; sums are Summary's."""
    ins, summary, ops = tables.frame("Instruction"), tables.frame("Summary").iloc[0], tables.frame("OpcodeSummary")
    # Where the counter is at its end, WaitCause has the time until the wait was met.
    late = tables.frame("WaitCause").query("saturated").set_index("instruction_id").wait_ns
    waits = ins.id.map(late).fillna(ins.evt_wait_time_ns).fillna(0).astype("int64")
    for (engine, opcode), rows in ins.groupby([ins.engine.str.lower(), "opcode"]):
        row = ops[(ops.engine == engine) & (ops.opcode == opcode)].iloc[0]
        busy = union(zip(rows.start_ts + waits[rows.index], rows.end_ts))
        assert (row.instruction_count, row.instruction_time_ns, row.active_time_ns) == (len(rows), rows.duration_ns.sum(), busy)
        assert near(row.active_time_percent) == 100 * busy / (summary.total_exec_time * 1e9)
    activates = ins[ins.opcode.isin(("ACTIVATE", "ACTIVATE_QUANTIZE"))]
    assert summary.activate_instruction_count == len(activates)
    assert near(summary.activate_instruction_time) == activates.duration_ns.sum() / 1e9


def test_figures_of_the_summary_page(tables):
    """Own columns of Summary: what the vendor's pages show beyond its schema."""
    summary, meta, moved = tables.frame("Summary").iloc[0], tables.frame("Metadata").iloc[0], tables.frame("DmaPacketAggregated")
    reads = summary.hbm_read_bytes
    assert near(summary.useful_read_percent) == (100 * (reads - summary.spill_reload_bytes) / reads if reads else 0)
    assert near(summary.total_bandwidth_available_bytes) == meta.hbm_ddr_bandwidth * summary.total_time
    into, out = (moved[moved[c] == "[SB]"].transfer_bytes.sum() for c in ("dest", "source"))
    assert near(summary.sbuf_reload_ratio) == (summary.spill_reload_bytes / into if into else 0)
    assert near(summary.sbuf_save_ratio) == (summary.spill_save_bytes / out if out else 0)
    active = tables.frame("ActiveTime")
    peak = 2 * meta.tensor_engine_num_rows * meta.tensor_engine_num_cols * meta.tensor_engine_clock_freq  # per ns
    could = active[active.engine == "tensor"].duration_ns.sum() * peak
    assert summary.active_flops == pytest.approx(max(0, could - summary.adjusted_hardware_flops), rel=1e-6, abs=2)


def test_roofline(tables):
    """Intensity against the ridge says which bound holds, and the best reachable utilisation is their quotient."""
    s, meta = tables.frame("Summary").iloc[0], tables.frame("Metadata").iloc[0]
    peak = 2 * meta.tensor_engine_num_rows * meta.tensor_engine_num_cols * meta.tensor_engine_clock_freq * 1e9
    ridge, traffic = peak / meta.hbm_ddr_bandwidth, s.hbm_read_bytes + s.hbm_write_bytes
    useful = s.hardware_flops - s.transpose_flops
    assert near(s.peak_flops_bandwidth_ratio) == ridge
    assert near(s.mm_arithmetic_intensity) == (useful / traffic if traffic else 0)
    assert near(s.mfu_inst_max_achievable_estimated_percent) == (100 * useful / traffic / ridge if traffic else 0)
    assert near(s.mfu_hlo_max_achievable_estimated_percent) == (100 * s.model_flops / traffic / ridge if traffic else 0)
    assert near(s.mfu_inst_estimated_percent) == 100 * useful / peak / s.total_time
    assert near(s.mfu_estimated_percent) == 100 * s.model_flops / peak / s.total_time
    assert s.mfu_hlo_estimated_percent == s.mfu_estimated_percent
    assert s.neuroncore_cycle_count == pytest.approx(s.total_time * meta.neuroncore_clock_freq * 1e9, rel=1e-5)
    assert s.dma_active_cycles == pytest.approx(s.dma_active_time * meta.neuroncore_clock_freq * 1e9, rel=1e-5)


def test_share_of_source_attribution(tables):
    """Share of instructions with a source line, in all and by engine."""
    ins = tables.frame("Instruction")
    has = ins.bir_debug_info_source_location.fillna("").ne("") | ins.nki_source_location.fillna("").ne("")
    share = has.groupby(ins.engine).mean()
    assert {k: near(v) for k, v in share.items()} == tables.map("""
        SELECT engine, avg((coalesce(bir_debug_info_source_location, '') <> '' OR coalesce(nki_source_location, '') <> '')::INT)
        FROM Instruction GROUP BY 1""")
    assert 0 < has.mean() <= 1
