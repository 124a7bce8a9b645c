"""Summaries of finished profiles: what they say is what the tables hold, and they mark what is a lower bound."""

import json
from pathlib import Path
import subprocess

import duckdb
import pytest

import profiles


def export(directory, *options):
    return profiles.run(profiles.BIN / "kymo", "export", directory, *options)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    cell = profiles.Cell("mlp", "trn2", 2, executions=1, small=True)
    return profiles.make_tables(tmp_path_factory.mktemp("plain"), cell)[0]


@pytest.fixture(scope="module")
def lossy(tmp_path_factory):
    cell = profiles.Cell("mlp", "trn2", 2, "overflow", executions=80, small=True, options=("--buffer", "INSTRUCTION=1"))
    return profiles.make_tables(tmp_path_factory.mktemp("lossy"), cell)[0]


def row_of(tables, name):
    with duckdb.connect() as db:
        return db.sql(f"SELECT * FROM '{tables}/{name}.parquet'").fetchdf().iloc[0].to_dict()


def test_json_is_the_tables(plain):
    got = json.loads(export(plain, "-f", "summary-json"))
    assert got["kymo_summary_version"] == 1
    with duckdb.connect() as db:
        for key, table in (("summary", "Summary"), ("metadata", "Metadata")):
            relation = db.sql(f"SELECT * FROM '{plain}/{table}.parquet'")
            want = dict(zip(relation.columns, relation.fetchone()))
            assert list(got[key]) == list(want)
            for column, value in want.items():
                assert got[key][column] == (pytest.approx(value, rel=1e-7) if isinstance(value, float) else value), column
        opcodes = db.sql(f"SELECT opcode, instruction_count FROM '{plain}/OpcodeSummary.parquet' "
                         "ORDER BY active_time_ns DESC, engine, opcode LIMIT 20").fetchall()
        assert [(o["opcode"], o["instruction_count"]) for o in got["opcodes"]] == opcodes
        messages = db.sql(f"SELECT message FROM '{plain}/Warning.parquet'").fetchall()
        assert [w["message"] for w in got["warnings"]] == [m for m, in messages]
    assert got["units"]["total_time"] == "seconds" and got["lower_bounds"] == got["uncertain"] == {} and got["losses"] == []


def test_lower_bounds(lossy):
    """A ring that lost records makes the figures that count its events lower bounds, and not those of others."""
    got = json.loads(export(lossy, "-f", "summary-json"))
    assert {r["ring"].split("(")[0] for r in got["losses"]} >= {"INSTRUCTION"}
    assert {"tensor_engine_instruction_count", "hardware_flops"} <= set(got["lower_bounds"])
    assert not {"total_time", "dma_active_time", "weight_size_bytes", "static_dma_packet_percent"} & {*got["lower_bounds"], *got["uncertain"]}
    assert {"active_flops", "mm_arithmetic_intensity"} <= set(got["uncertain"])
    text = export(lossy, "-f", "summary-text")
    line = next(t for t in text.splitlines() if t.startswith("  tensor_engine_instruction_count"))
    assert f">= {got['summary']['tensor_engine_instruction_count']:,}" in line
    assert "Lower bounds (>=)" in text and "Records lost" in text


def test_text(plain, tmp_path):
    """Units for people; to a file when asked, the same bytes."""
    text = export(plain, "-f", "summary-text")
    summary = row_of(plain, "Summary")
    assert f"{summary['hfu_estimated_percent']:.2f} %" in text
    assert f"({int(summary['hbm_read_bytes']):,} bytes)" in text
    assert "Opcodes by active time" in text and ">=" not in text
    assert export(plain, "-f", "summary-text", "-o", tmp_path / "s.txt") == ""
    assert (tmp_path / "s.txt").read_text() == text


def test_process(plain, tmp_path):
    """kymo process makes the same of a capture, keeps tables only where asked, and names several results."""
    cell = profiles.Cell("mlp", "trn2", 2, executions=1, small=True)
    ntff, neff, _ = profiles.make_ntff(tmp_path, cell)
    kymo = (profiles.BIN / "kymo", "process", "-n", neff, "-s", ntff)
    got = json.loads(profiles.run(*kymo, "--output-format", "summary-json"))
    assert got["summary"] == json.loads(export(plain, "-f", "summary-json"))["summary"]
    out = tmp_path / "out"
    said = profiles.run(*kymo, "--output-format", "csv", "summary-text", "parquet", "--display-name", "p", "--output-file", out)
    assert sorted(p.name for p in out.iterdir()) == ["p", "p.csv", "p.summary.txt"]
    assert said.split() == [str(out / n) for n in ("p", "p.csv", "p.summary.txt")]
    profiles.run(*kymo, "--output-format", "csv", "--display-name", "p", "--data-path", tmp_path / "store", "--output-file", tmp_path / "c")
    assert (tmp_path / "store/profiles/global/p@latest/Instruction.parquet").exists() and (tmp_path / "c/Instruction.csv").exists()
    assert not list(tmp_path.glob("**/kymo-process-*"))


@pytest.mark.parametrize("options, text", ((("--output-format", "csv"), "needs --output-file"), (("--output-format", "xml"), "none of parquet"),
                                           ((), "either --output-file or --data-path"), (("--output-format", "parquet", "summary-text"), "for the tables")))
def test_process_options(plain, tmp_path, options, text):
    ntff = next(plain.parents[1].glob("*.ntff"))
    done = subprocess.run([profiles.BIN / "kymo", "process", "-s", ntff, *options], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and text in done.stderr


def test_system_profile(tmp_path):
    """Events by name, processors, memory of host and devices, beside what every summary has."""
    golden = Path(__file__).parents[1] / "golden" / "systrace" / "v1"
    profiles.run(profiles.BIN / "kymo-process", "--system", golden, "--output", tmp_path / "t")
    got = json.loads(export(tmp_path / "t", "-f", "summary-json"))
    events = {(e["trace_event_source"], e["name"]): e for e in got["system_events"]}
    with duckdb.connect() as db:
        want = db.sql("SELECT trace_event_source, name, count(*), sum(duration_ns)::BIGINT, sum(transfer_bytes)::BIGINT "
                      f"FROM '{tmp_path}/t/SystemProfileEvents.parquet' GROUP BY ALL").fetchall()
    assert {(s, n): (c, d, b) for s, n, c, d, b in want} == {k: (e["events"], e["duration_ns"], e["transfer_bytes"]) for k, e in events.items()}
    assert got["cpu"][0] == {"cpu_id": "average", "samples": 2, "util_percent": 25, "max_percent": 35}
    assert [c["cpu_id"] for c in got["cpu"]] == ["average", "1", "0"]
    assert got["host_memory"] == {"samples": 1, "used_bytes": 1000, "used_percent": 25}
    (hbm,) = got["device_memory"]
    assert (hbm["device_idx"], hbm["hbm_idx"], hbm["total_bytes"], hbm["tensors_bytes"], hbm["unknown_bytes"]) == (0, 1, 5120, 4096, 1024)
    assert [(p["engine"], p["reason"], p["events"]) for p in got["partial_events"]] == [("tensor_read", "open_at_end", 1)]
    text = export(tmp_path / "t", "-f", "summary-text")
    for title in ("System profile", "System events by time", "Processors", "Host memory", "Device memory", "Records lost"):
        assert f"{title}" in text
