"""Tables agree with each other: keys resolve, sums are the same by whichever table they are taken, Summary included."""

import duckdb
import pytest

import profiles
from profiles import Cell

CELLS = (Cell("mlp", "trn2", 2), Cell("attention", "trn1", 1), Cell("attention", "trn3", 1))


@pytest.fixture(scope="module", params=CELLS, ids=str)
def tables(request, tmp_path_factory):
    directory, _ = profiles.make_tables(tmp_path_factory.mktemp("consistency"), request.param)
    con = duckdb.connect()
    for path in directory.glob("*.parquet"):
        con.execute(f"CREATE VIEW \"{path.stem}\" AS SELECT * FROM read_parquet('{path}')")
    return con


def one(tables, sql):
    return tables.execute(sql).fetchone()[0]


def test_every_packet_belongs_to_one_transfer(tables):
    assert one(tables, "SELECT count(*) FROM DmaPacket p ANTI JOIN DmaPacketAggregated a ON p.packet_aggregation_id = a.id") == 0
    assert one(tables, "SELECT count(*) - count(DISTINCT id) FROM DmaPacketAggregated") == 0
    assert tables.execute("""
        SELECT a.id FROM DmaPacketAggregated a JOIN DmaPacket p ON p.packet_aggregation_id = a.id GROUP BY a.id
        HAVING min(p.start_ts) <> any_value(a.start_ts) OR max(p.end_ts) <> any_value(a.end_ts)
            OR sum(p.transfer_bytes) <> any_value(a.transfer_bytes)""").fetchall() == []


def test_instructions_and_transfers_name_each_other(tables):
    """A trigger knows when its transfer ran, the transfer when its trigger did."""
    assert tables.execute("""
        SELECT i.id FROM Instruction i ANTI JOIN DmaPacketAggregated a
            ON a.trigger = i.start_ts AND a.completion = i.end_ts AND a.start_ts = i.dma_trigger_start_ts
            AND a.end_ts = i.dma_trigger_end_ts AND a.pcore_idx IS NOT DISTINCT FROM i.pcore_idx
        WHERE i.dma_trigger_start_ts IS NOT NULL""").fetchall() == []
    assert one(tables, "SELECT count(*) FROM DmaPacketAggregated WHERE trigger IS NOT NULL") == one(
        tables, "SELECT count(*) FROM Instruction WHERE dma_trigger_start_ts IS NOT NULL")


@pytest.mark.parametrize("side, memory, column", (("read", "DRAM", "hbm_read_bytes"), ("write", "DRAM", "hbm_write_bytes")))
def test_memory_traffic_is_the_same_by_instruction_and_by_transfer(tables, side, memory, column):
    place = "source" if side == "read" else "dest"
    by_transfer = one(tables, f"SELECT sum({side}_bytes)::BIGINT FROM DmaPacketAggregated WHERE {place} <> '[SB]'")
    assert by_transfer > 0
    assert one(tables, f"SELECT sum({column})::BIGINT FROM Instruction") == by_transfer
    assert one(tables, f"SELECT {column} FROM Summary") == by_transfer


def test_summary_is_the_sum_of_the_tables(tables):
    for column, sql in {
        "dma_transfer_count": "SELECT count(*) FROM DmaPacketAggregated",
        "dma_transfer_total_bytes": "SELECT sum(transfer_bytes) FROM DmaPacket",
        "matmul_instruction_count": "SELECT count(*) FROM Instruction WHERE opcode = 'MATMUL'",
        "tensor_engine_instruction_count": "SELECT count(*) FROM Instruction WHERE engine = 'Tensor'",
        "adjusted_hardware_flops": "SELECT sum(adjusted_flops) FROM Instruction",
        "adjusted_transpose_flops": "SELECT sum(adjusted_flops_transpose) FROM Instruction",
        "psum_write_bytes": "SELECT sum(psum_write_bytes) FROM Instruction",
        "psum_read_bytes": "SELECT sum(psum_read_bytes) FROM Instruction",
        "sbuf_write_bytes": "SELECT sum(sbuf_write_bytes) FROM Instruction",
        "sbuf_read_bytes": "SELECT sum(sbuf_read_bytes) FROM Instruction",
        "spill_save_bytes": "SELECT sum(spill_save_bytes) FROM Instruction",
        "spill_reload_bytes": "SELECT sum(spill_reload_bytes) FROM Instruction",
        "weight_queue_bytes": "SELECT sum(weight_queue_bytes) FROM Instruction",
    }.items():
        assert one(tables, f"SELECT {column} FROM Summary") == int(one(tables, sql)), column
    for engine in ("tensor", "vector", "scalar", "gpsimd", "sync"):
        seconds = one(tables, f"SELECT {engine}_engine_instruction_time FROM Summary")
        total = one(tables, f"SELECT sum(duration_ns) FROM Instruction WHERE lower(engine) = '{engine}'")
        assert seconds == pytest.approx(float(total) / 1e9, rel=1e-6), engine


def test_active_time_excludes_waits_and_never_overlaps(tables):
    assert one(tables, """
        SELECT count(*) FROM (SELECT start_ts, lag(end_ts) OVER (PARTITION BY engine, pcore_idx ORDER BY start_ts) AS before
                              FROM ActiveTime) WHERE start_ts <= before""") == 0
    for engine, total in tables.execute("SELECT engine, sum(duration_ns) FROM ActiveTime GROUP BY engine").fetchall():
        busy = one(tables, f"""
            SELECT sum(duration_ns - CASE WHEN w.saturated THEN w.wait_ns ELSE coalesce(evt_wait_time_ns, 0) END)
            FROM Instruction i LEFT JOIN WaitCause w ON w.instruction_id = i.id WHERE lower(i.engine) = '{engine}'""")
        assert 0 < total <= busy, engine


def test_opcode_summary_is_that_of_seed_003(tables):
    ours = tables.execute("SELECT engine, opcode, instruction_count, instruction_time_ns FROM OpcodeSummary ORDER BY ALL").fetchall()
    assert ours == tables.execute("""
        SELECT lower(engine), opcode, count(*), sum(duration_ns)::BIGINT FROM Instruction GROUP BY ALL ORDER BY ALL""").fetchall()


def test_percentages_are_percentages(tables):
    """But for the best-reachable ones: no document clamps them, and a compute-bound program passes 100."""
    columns = [r[0] for r in tables.execute("DESCRIBE Summary").fetchall()
               if r[0].endswith("_percent") and "max_achievable" not in r[0]]
    values = tables.execute(f"SELECT {', '.join(columns)} FROM Summary").fetchone()
    assert {c: v for c, v in zip(columns, values) if v is not None and not 0 <= v <= 100} == {}


def test_feature_bits_have_names(tables):
    names = one(tables, "SELECT enabled_features FROM NeffHeader")
    assert "bit-" not in names
