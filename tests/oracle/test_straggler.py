"""One rank is 100 times slower, and all others wait for it: for longer than a start record can count, 65,535 cycles. Whoever waits
is idle, in every table, and where no record tells how long it waited, a Warning says so."""

import dataclasses
import re

import pytest

import matrix
from ntff_reader import read
import profiles
import truth


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    directory = tmp_path_factory.mktemp("straggler")
    return profiles.make_tables(directory, matrix.find("allreduce-trn2-lnc2-cc-straggler"))


def saturated(p, name="instructions"):
    return [r for r in p.true(name) if truth.whole(r) and int(r["wait_cycles"]) == truth.SATURATED]


def beyond(r, clock):
    """ns that the counter does not hold."""
    return (int(r["begin_ps"]) - int(r["start_ps"])) / 1000 - truth.SATURATED / clock


def test_waits_are_idle_time(made):
    """What the counters leave out is most of the run, and none of it is active time."""
    p = truth.Profile(*made)
    summary, meta = (truth.rows_of(p.tables, name)[0] for name in ("Summary", "Metadata"))
    late = saturated(p)
    assert {r["engine"] for r in late} >= {"Tensor"} and saturated(p, "cc_instructions")
    lost = sum(beyond(r, meta["tensor_engine_clock_freq"]) for r in late if r["engine"] == "Tensor" and r["pcore_idx"] == "0")
    assert lost > 0.5e9 * summary["total_time"]
    assert summary["tensor_engine_active_time"] < summary["total_time"] - lost / 1e9


def test_every_table_agrees(made):
    """ActiveTime, Summary, OpcodeSummary, ThrottleSummary, LevelOfDetail, WaitCause, the hierarchy and the CC-cores with the model."""
    assert truth.compare(*made) == []


def test_the_warning_says_how_many(made):
    p = truth.Profile(*made)
    found = [r for r in truth.rows_of(p.tables, "Warning") if r["category"] in ("Semaphore waits", "Upper bounds")]
    assert sorted(int(re.match(r"\d+", r["message"])[0]) for r in found) == sorted(
        len(saturated(p, name)) for name in ("instructions", "cc_instructions"))


def untold(tables):
    """Numbers of waits of which Warnings say that no record tells how long they were."""
    found = [r["message"] for r in truth.rows_of(tables, "Warning") if r["category"] == "Upper bounds"]
    return [int(re.search(r"waits of (\d+) ", m)[1]) for m in found]


# As the matrix has it, with just as many executions as fill the ring.
UNTOLD = dataclasses.replace(matrix.find("allreduce-trn2-lnc2-cc-untold"), executions=130)


def test_waits_without_records(tmp_path):
    """A ring of semaphores that fills: the rest of the waits counts as active, and a Warning has their number."""
    p = truth.Profile(*profiles.make_tables(tmp_path, UNTOLD))
    truth.check_active(p)
    truth.check_wait_causes(p)
    assert p.differences == []
    met = {(r["pcore_idx"], r["source"], r["ts_ps"]) for r in p.true("semaphores") if r["stored"] == "1" and r["mode"] == "0"}
    late = saturated(p)
    lost = sum((r["pcore_idx"], r["engine"], r["begin_ps"]) not in met for r in late)
    assert 0 < lost < len(late) and untold(p.tables) == [lost]


def test_waits_of_cc_cores_without_records(tmp_path):
    """The same of CC-cores, whose own records of semaphores are made unreadable."""
    ntff, neff, true = profiles.make_ntff(tmp_path, matrix.find("allreduce-trn2-lnc2-cc-straggler"))
    data = bytearray(ntff.read_bytes())
    for ring in read(ntff).rings:
        for o in ring.offsets() if ring.name == "CC_CORE_EVENT" else ():
            if data[o + 3] & 0x1F != 0x1B:  # not those that come in through AXI
                data[o + 3] = data[o + 3] & 0xE0 | 0x01  # a type that nobody knows
    ntff.write_bytes(data)
    tables = profiles.process(ntff, [neff], tmp_path / "tables")
    late = saturated(truth.Profile(tables, true), "cc_instructions")
    rows = truth.rows_of(tables, "CcInstruction")
    counted = truth.union((r["start_ts"] + r["evt_wait_time_ns"], r["end_ts"]) for r in rows)
    assert late and untold(tables) == [len(late)]
    assert truth.rows_of(tables, "Summary")[0]["cc_cores_instruction_active_time"] == pytest.approx(counted / 1e9, rel=1e-6)
