"""What losses do to sums: a capture with small buffers beside the same executions with buffers that never fill. A figure that differs
is marked, a lower bound is no more than the truth, and what is not marked is the truth."""

import json

import duckdb
import pytest

import profiles
from profiles import Cell

THROTTLE = ("--throttle", "activity_0:6/8@20+30")
CELLS = (("mlp", "trn2", 2, 40), ("attention", "trn2", 1, 90), ("mlp", "trn1", 1, 50), ("attention", "trn1", 1, 120))
LOSSES = {"instruction": ("INSTRUCTION",), "dma": ("DMA",), "event": ("EVENT",), "all": ("INSTRUCTION", "DMA", "EVENT")}
MARKS = {"lower_bound", "lower_bound_reason"}


class Capture:
    def __init__(self, directory, base, name, options):
        model, arch, lnc, executions = base
        cell = Cell(model, arch, lnc, name, executions, (*THROTTLE, *options))
        ntff, neff, _ = profiles.make_ntff(directory, cell)
        self.tables = profiles.process(ntff, [neff], directory / name)
        ntff.unlink()
        self.summary = json.loads(profiles.run(profiles.BIN / "kymo", "export", self.tables, "-f", "summary-json"))
        self.rings = {loss["ring"].split("(")[0].split("-")[0] for loss in self.summary["losses"]}

    def rows(self, sql, table):
        with duckdb.connect() as db:
            return db.sql(sql.format(f"'{self.tables}/{table}.parquet'")).fetchall()

    def warned(self, *words):
        return any(all(word in w["message"] for word in words) for w in self.summary["warnings"] if w["category"] == "Lower bounds")


@pytest.fixture(scope="module", params=CELLS, ids=lambda c: "-".join(map(str, c)))
def twins(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("bounds")
    captures = {name: Capture(directory, request.param, name, ("--buffer", *(f"{ring}=1" for ring in rings))) for name, rings in LOSSES.items()}
    return Capture(directory, request.param, "whole", ("--unlimited",)), captures


@pytest.mark.parametrize("model, arch", (("mlp", "trn2"), ("attention", "trn1"), ("attention", "trn2")))
@pytest.mark.parametrize("without", ("neff", "dge"))
def test_without_names(tmp_path, model, arch, without):
    """The same of a capture without the NEFF, or without DGE notifications; then the trace itself has fewer records."""
    whole = Capture(tmp_path, (model, arch, 1, 2), "whole", ())
    cell = Cell(model, arch, 1, "less", 2, THROTTLE, dge=int(without != "dge"))
    ntff, neff, _ = profiles.make_ntff(tmp_path, cell)
    tables = profiles.process(ntff, [] if without == "neff" else [neff], tmp_path / "less")
    less = json.loads(profiles.run(profiles.BIN / "kymo", "export", tables, "-f", "summary-json"))
    assert less["lower_bounds"] and less["uncertain"]
    exact = MARKS | ({"trace_count"} if without == "dge" else set())
    check_marks(whole.summary, less, exact)


def check_marks(whole, lossy, exact=MARKS):
    low, uncertain, wrong = lossy["lower_bounds"], lossy["uncertain"], []
    assert not set(low) & set(uncertain)
    for column, truth in whole["summary"].items():
        value = lossy["summary"][column]
        if column in low and not at_most(value, truth):
            wrong.append((column, "is no lower bound", value, truth))
        elif column not in low and column not in uncertain and column not in exact and value != truth:
            wrong.append((column, "is not marked", value, truth))
    assert not wrong


def at_most(value, truth):
    return value <= truth + 1e-6 * abs(truth)


def test_whole_is_exact(twins):
    whole, _ = twins
    assert not whole.rings and whole.summary["lower_bounds"] == {} and whole.summary["uncertain"] == {}
    assert not any(w["category"] in ("Lower bounds", "Upper bounds") for w in whole.summary["warnings"])


@pytest.mark.parametrize("loss", LOSSES)
def test_summary(twins, loss):
    whole, captures = twins
    lossy = captures[loss]
    assert lossy.rings == set(LOSSES[loss])
    assert lossy.summary["lower_bounds"] and lossy.summary["summary"]["lower_bound"] is True
    check_marks(whole.summary, lossy.summary)


@pytest.mark.parametrize("loss", LOSSES)
def test_average_is_of_its_row(twins, loss):
    """The packets of no known transfer are in neither the bytes nor the average; DmaUsage has them."""
    lossy = twins[1][loss]
    s = lossy.summary["summary"]
    assert s["dma_transfer_average_bytes"] * s["dma_transfer_count"] == pytest.approx(s["dma_transfer_total_bytes"], rel=1e-6)
    (packets,), = lossy.rows("SELECT sum(transfer_bytes)::BIGINT FROM {}", "DmaPacket")
    (transfers,), = lossy.rows("SELECT sum(transfer_bytes)::BIGINT FROM {}", "DmaPacketAggregated")
    (usage,), = lossy.rows("SELECT sum(m)::BIGINT FROM (SELECT max(total_transfer_bytes) m FROM {} GROUP BY pcore_idx)", "DmaUsage")
    assert transfers == s["dma_transfer_total_bytes"] <= packets == usage


@pytest.mark.parametrize("loss", LOSSES)
def test_other_sums(twins, loss):
    """OpcodeSummary, ThrottleSummary and DmaUsageSummary: what is too low or too high is told by name."""
    whole, captures = twins
    lossy = captures[loss]
    sql = "SELECT engine, opcode, instruction_count, instruction_time_ns, active_time_ns FROM {} ORDER BY ALL"
    truth, got = ({row[:2]: row[2:] for row in c.rows(sql, "OpcodeSummary")} for c in (whole, lossy))
    assert got.keys() <= truth.keys() and all(at_most(v, t) for key in got for v, t in zip(got[key], truth[key]))
    assert (got != truth) == ("INSTRUCTION" in lossy.rings) == lossy.warned("OpcodeSummary")
    sql = "SELECT nc_idx, throttle_type, throttle_active_time_ns, active_throttled_percent, unused_throttled_percent FROM {} ORDER BY ALL"
    truth, got = ({row[:2]: row[2:] for row in c.rows(sql, "ThrottleSummary")} for c in (whole, lossy))
    assert truth and got.keys() == truth.keys()
    for key, (time, active, unused) in truth.items():
        assert got[key][0] == time and at_most(got[key][1], active) and at_most(unused, got[key][2])
    assert (got != truth) <= lossy.warned("ThrottleSummary", "upper bound")
    sql = "SELECT sum(m)::BIGINT FROM (SELECT max(max_total_transfer_bytes) m FROM {} GROUP BY pcore_idx)"
    (truth,), (got,) = whole.rows(sql, "DmaUsageSummary") + lossy.rows(sql, "DmaUsageSummary")
    assert (got < truth) == ("DMA" in lossy.rings) == lossy.warned("DmaUsageSummary") and got <= truth


def test_text_shows_marks(twins):
    text = profiles.run(profiles.BIN / "kymo", "export", twins[1]["all"].tables, "-f", "summary-text")
    lines = {line.split()[0]: line.split()[1] for line in text.splitlines() if line.startswith("  ") and len(line.split()) > 2}
    assert lines["transpose_flops"] == lines["total_active_time"] == ">="
    assert lines["mfu_max_achievable_estimated_percent"] == lines["dma_transfer_average_bytes"] == "~"
    assert "\nLower bounds (>=)\n" in text and "\nToo low or too high (~)\n" in text
