"""The formulas of Summary, OpcodeSummary and the event tables from the simulator's truth, without a look at any other table."""

import json

import duckdb
import pytest

import profiles
import truth
from profiles import Cell

CELLS = (Cell("mlp", "trn2", 2), Cell("attention", "trn1", 1, "drift", 3, ("--drift",)), Cell("mlp", "trn3", 1, "seed", 1, ("--seed", "9")))
SETUP = {"NOP", "SET_ORDERING_MODE", "EVENT_SEMAPHORE", "EVENT_SEMAPHORE_RANGE_CLEAR", "NOTIFY", "COMPARE_BRANCH", "DRAIN", "WRITE",
         "TENSOR_LOAD", "MODIFY_POOL_CONFIG"}
# By generation: PE rows, columns and clock in GHz, clocks of the other engines, bytes/s of one HBM stack (documents of the vendor).
PE = {"trn1": (128, 128, 2.8), "trn2": (128, 128, 2.4), "trn3": (128, 128, 2.4)}
CORE = {"trn1": 1.4, "trn2": 1.2}


def union(spans):
    total, until = 0, None
    for start, end in sorted(spans):
        if until is None or start > until:
            total, until = total + end - start, end
        elif end > until:
            total, until = total + end - until, end
    return total


class Facts:
    """The truth of one profile in the tables' nanoseconds."""

    def __init__(self, tables, directory, cell, neff):
        p = truth.Profile(tables, directory)
        self.p, self.cell, self.tables = p, cell, tables
        self.meta, = truth.rows_of(tables, "Metadata")
        self.summary, = truth.rows_of(tables, "Summary")
        clock = {"Tensor": "tensor_engine", "Vector": "vector_engine", "Scalar": "scalar_engine", "GpSimd": "gpsimd_engine",
                 "Sync": "neuroncore"}
        self.ins = [{**r, "start": p.ts(r["start_ps"]), "end": p.ts(r["end_ps"]), "pcore": int(r["pcore_idx"]),
                     "wait": self.wait(r, self.meta[f"{clock[r['engine']]}_clock_freq"])} for r in p.true("instructions")]
        self.packets = [{**r, "start": p.ts(r["start_ps"]), "end": p.ts(r["end_ps"]), "bytes": int(r["bytes"])}
                        for r in p.true("dma_packets")]
        self.transfers = [{**r, "start": p.ts(r["start_ps"]), "end": p.ts(r["end_ps"])} for r in p.true("dma_transfers")]
        starts = [p.ts(r["ts_ps"]) for r in p.true("status") if r["kind"] == "start"]
        stops = [p.ts(r["ts_ps"]) for r in p.true("status") if r["kind"] == "end"]
        self.time = max(stops) - min(starts)
        header = json.loads(profiles.run(profiles.BIN / "kymo", "neff", "inspect", neff, "--json"))
        self.macs = header["mac_count"]
        self.executions = int(p.facts["executions"])

    def wait(self, r, clock):
        """By the counter that the reader has; beyond its end, by the model."""
        cycles = int(r["wait_cycles"])
        return cycles / clock if cycles < truth.SATURATED else self.p.ts(r["begin_ps"]) - self.p.ts(r["start_ps"])


@pytest.fixture(scope="module", params=CELLS, ids=str)
def facts(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("formulas")
    ntff, neff, true = profiles.make_ntff(directory, request.param)
    return Facts(profiles.process(ntff, [neff], directory / "tables"), true, request.param, neff)


near = lambda value, rel=1e-6: pytest.approx(float(value), rel=rel)


def test_times(facts):
    s = facts.summary
    assert s["total_time"] == near(facts.time / 1e9)
    work = [(r["start"], r["end"]) for r in facts.ins if r["opcode"] not in SETUP] + [(r["start"], r["end"]) for r in facts.packets]
    whole = max(e for _, e in work) - min(b for b, _ in work)
    assert s["total_exec_time"] == near(whole / 1e9)
    busy = union([(r["start"] + r["wait"], r["end"]) for r in facts.ins] + [(r["start"], r["end"]) for r in facts.packets])
    # The reader cuts each wait to whole nanoseconds.
    assert s["total_active_time"] == near(busy / 1e9, 1e-3)
    assert s["total_active_time_percent"] == near(100 * busy / whole, 1e-3)
    if facts.cell.arch in CORE:
        assert s["neuroncore_cycle_count"] == round(facts.time * CORE[facts.cell.arch])
    assert s["lower_bound"] is False and s["lower_bound_reason"] is None


@pytest.mark.parametrize("engine", ("Tensor", "Vector", "Scalar", "GpSimd", "Sync"))
def test_engines(facts, engine):
    rows, name, s = [r for r in facts.ins if r["engine"] == engine], engine.lower(), facts.summary
    assert s[f"{name}_engine_instruction_count"] == len(rows)
    assert s[f"{name}_engine_instruction_time"] == near(sum(r["end"] - r["start"] for r in rows) / 1e9)
    busy = union([(r["start"] + r["wait"], r["end"]) for r in rows])
    # Each wait is cut to whole nanoseconds.
    assert 0 <= s[f"{name}_engine_active_time"] * 1e9 - busy <= len(rows) + 1
    assert s[f"{name}_engine_active_time_percent"] == near(100 * s[f"{name}_engine_active_time"] * 1e9 / facts.time)


def test_operations(facts):
    got = {(r["engine"], r["opcode"]): r for r in truth.rows_of(facts.tables, "OpcodeSummary")}
    want = {}
    for r in facts.ins:
        want.setdefault((r["engine"].lower(), r["opcode"]), []).append(r)
    assert set(got) == set(want)
    for key, rows in want.items():
        assert got[key]["instruction_count"] == len(rows)
        assert got[key]["instruction_time_ns"] == sum(r["end"] - r["start"] for r in rows)
        # Each of them may cut its wait to whole nanoseconds.
        assert -1 <= got[key]["active_time_ns"] - union([(r["start"] + r["wait"], r["end"]) for r in rows]) <= len(rows) + 1
    s = facts.summary
    assert s["matmul_instruction_count"] == len(want[("tensor", "MATMUL")])
    activates = [r for (_, opcode), rows in want.items() if opcode in ("ACTIVATE", "ACTIVATE_QUANTIZE") for r in rows]
    assert s["activate_instruction_count"] == len(activates)
    assert s["activate_instruction_time"] == near(sum(r["end"] - r["start"] for r in activates) / 1e9)


def test_flops(facts):
    rows, columns, ghz = PE[facts.cell.arch]
    peak = 2 * rows * columns * ghz * 1e9
    s = facts.summary
    assert s["adjusted_hardware_flops"] == sum(int(r["adjusted_flops"] or 0) for r in facts.ins)
    assert s["model_flops"] == 2 * facts.macs * facts.executions
    assert s["mfu_estimated_percent"] == s["mfu_hlo_estimated_percent"] == near(100 * s["model_flops"] / peak / (facts.time / 1e9))
    assert s["hfu_estimated_percent"] == near(100 * s["hardware_flops"] / peak / (facts.time / 1e9))
    assert s["peak_flops_bandwidth_ratio"] == near(peak / facts.meta["hbm_ddr_bandwidth"])
    traffic = s["hbm_read_bytes"] + s["hbm_write_bytes"]
    assert s["mbu_estimated_percent"] == near(100 * traffic / (facts.time / 1e9) / facts.meta["hbm_ddr_bandwidth"])
    assert s["total_bandwidth_available_bytes"] == pytest.approx(facts.meta["hbm_ddr_bandwidth"] * facts.time / 1e9, rel=1e-6)


def test_dma(facts):
    s, p = facts.summary, facts.packets
    assert s["dma_active_time"] == near(union([(r["start"], r["end"]) for r in p]) / 1e9)
    assert s["dma_active_time_percent"] == near(100 * union([(r["start"], r["end"]) for r in p]) / facts.time)
    assert s["dma_packet_time"] == near(sum(r["end"] - r["start"] for r in p) / 1e9)
    assert s["dma_transfer_time"] == near(sum(r["end"] - r["start"] for r in facts.transfers) / 1e9)
    assert s["dma_transfer_count"] == len(facts.transfers)
    assert s["dma_transfer_total_bytes"] == sum(r["bytes"] for r in p)
    assert s["dma_transfer_average_bytes"] == near(sum(r["bytes"] for r in p) / len(facts.transfers))
    for name, types in (("static", ("instruction", "input", "output", "data")), ("software_dynamic", ("software_dynamic",)),
                        ("hardware_dynamic", ("hardware_dynamic",))):
        rows = [r for r in p if r["queue_type"] in types]
        assert s[f"{name}_dma_packet_count"] == len(rows)
        assert s[f"{name}_dma_size"] == sum(r["bytes"] for r in rows)
        assert s[f"{name}_dma_active_time"] == near(union([(r["start"], r["end"]) for r in rows]) / 1e9)
        assert s[f"{name}_dma_packet_percent"] == near(100 * len(rows) / len(p))
    for name, kind in (("input", "input"), ("output", "output"), ("weight", "data")):
        assert s[f"{name}_queue_bytes"] == sum(r["bytes"] for r in p if r["queue_type"] == kind)


def test_spills(facts):
    """By the queue of the program that saves and reloads."""
    s = facts.summary
    queue = [r for r in facts.packets if "SpillReload" in r["queue_name"]]
    assert s["spill_save_bytes"] + s["spill_reload_bytes"] == sum(r["bytes"] for r in queue)
    reads = s["hbm_read_bytes"]
    assert s["useful_read_percent"] == near(100 * (reads - s["spill_reload_bytes"]) / reads)


def test_rates_of_packets_and_transfers(facts):
    sql = "SELECT count(*) FROM read_parquet('{}') WHERE abs(throughput - transfer_bytes * 1e9 / duration_ns) > 1e-6 * throughput"
    for table in ("DmaPacket", "DmaPacketAggregated"):
        assert duckdb.sql(sql.format(facts.tables / f"{table}.parquet")).fetchone()[0] == 0


def test_waits_for_what_was_launched(facts):
    """dma_wait_time_ns: from the end of the launching instruction to the start of its transfer."""
    want = sorted((int(r["pcore_idx"]), facts.p.ts(r["trigger_start_ps"]), r["start"] - facts.p.ts(r["trigger_end_ps"]))
                  for r in facts.transfers if r["trigger_start_ps"])
    got = duckdb.sql(f"""SELECT coalesce(pcore_idx, 0), start_ts, dma_wait_time_ns
                         FROM read_parquet('{facts.tables / 'Instruction.parquet'}') WHERE dma_wait_time_ns IS NOT NULL""").fetchall()
    assert want and sorted(got) == want


def test_lower_bounds_say_why(tmp_path):
    """Losses, a missing NEFF and missing names: each is told in Summary."""
    reasons = {}
    for name, cell, with_neff in (("lost", Cell("mlp", "trn2", 1, "lost", 80, ("--buffer", "INSTRUCTION=1"), small=True), True),
                                  ("bare", Cell("attention", "trn1", 1, "bare", 1), False),
                                  ("unnamed", Cell("attention", "trn2", 1, "unnamed", 1, dge=0), True)):
        ntff, neff, _ = profiles.make_ntff(tmp_path, cell)
        summary, = truth.rows_of(profiles.process(ntff, [neff] if with_neff else [], tmp_path / name), "Summary")
        assert summary["lower_bound"] is True
        reasons[name] = summary["lower_bound_reason"]
    assert "records of 1 rings were lost" in reasons["lost"]
    assert "1 NEFFs are missing" in reasons["bare"]
    assert "have no DGE notifications" in reasons["unnamed"]


@pytest.mark.parametrize("cell", [Cell("mlp", "trn2", 1, "failed", 2, ("--fail",), small=True), Cell("attention", "trn1", 1, "failed", 3, ("--fail",)),
                                  Cell("mlp", "trn2", 1, "only", 1, ("--fail",), small=True)], ids=str)
def test_a_failed_execution_is_in_the_time_and_not_in_the_model(tmp_path, cell):
    """It has no stop notice, and ends with its error; of the model's FLOPs nobody knows how much it did."""
    ntff, neff, true = profiles.make_ntff(tmp_path, cell)
    tables = profiles.process(ntff, [neff], tmp_path / "tables")
    p, (s,) = truth.Profile(tables, true), truth.rows_of(tables, "Summary")
    begin = min(p.ts(r["ts_ps"]) for r in p.true("status") if r["kind"] == "start")
    stops = [p.ts(r["ts_ps"]) for r in p.true("status") if r["kind"] == "end"]
    failed = max(p.ts(r["ts_ps"]) for r in p.true("errors"))
    assert all(failed > stop for stop in stops) and len(stops) == cell.executions - 1
    assert s["total_time"] == near((failed - begin) / 1e9)
    macs = json.loads(profiles.run(profiles.BIN / "kymo", "neff", "inspect", neff, "--json"))["mac_count"]
    assert s["model_flops"] == 2 * macs * (cell.executions - 1)
    assert s["mfu_estimated_percent"] <= s["hfu_estimated_percent"] and (s["hfu_estimated_percent"] > 0 or cell.executions == 1)
    assert s["lower_bound"] and "1 executions failed: model FLOPs are those of the others" in s["lower_bound_reason"]
    told = json.loads(profiles.run(profiles.BIN / "kymo-export", tables, "-f", "summary-json"))
    assert {"model_flops", "mfu_estimated_percent"} <= set(told["lower_bounds"]) and "total_time" not in told["lower_bounds"]
