"""CSV of finished profiles: complete, of a range, sampled, as RFC 4180 readers, pandas and DuckDB read it back."""

from functools import cache
from pathlib import Path
import csv
import json
import shutil
import subprocess

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import profiles

USUAL = ("Instruction", "DmaPacketAggregated", "DmaPacket", "SemaphoreUpdate")  # and CcInstruction where there are collectives
GOLDEN = Path(__file__).parents[1] / "golden" / "systrace" / "v1"
TIMES = {"SemaphoreUpdate": ("timestamp", "timestamp")}


def export(directory, *options, code=0):
    done = subprocess.run([profiles.BIN / "kymo", "export", directory, *map(str, options)], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


CELLS = (profiles.Cell("mlp", "trn2", 2, executions=1, small=True), profiles.Cell("attention", "trn1", 1, executions=1, small=True))


@pytest.fixture(scope="module", params=CELLS, ids=str)
def tables(request, tmp_path_factory):
    return profiles.make_tables(tmp_path_factory.mktemp("profile"), request.param)[0]


def read_parquet(tables, name):
    return pq.read_table(tables / f"{name}.parquet", partitioning=None)


def read_strict(path):
    """Header and records by the csv module; RFC 4180's line ends are checked on the bytes."""
    data = path.read_bytes()
    assert data.endswith(b"\r\n") and not data.startswith(b"\xef\xbb\xbf")
    with open(path, newline="", encoding="utf-8") as f:
        rows = list(csv.reader(f, strict=True))
    assert len({len(row) for row in rows}) == 1
    return rows[0], rows[1:]


@cache
def several_cores(tables):
    return pq.read_table(tables / "Metadata.parquet")["num_physical_cores"][0].as_py() > 1


@cache
def rows_of(tables, name):
    return read_parquet(tables, name).to_pylist()


def expected_track(tables, name, row):
    lnc2 = several_cores(tables)
    core = f"(nc{row['pcore_idx']})" if lnc2 and row.get("pcore_idx") is not None else ""
    if name == "Instruction":
        return row["timeline_track"]
    if name == "DmaPacket":
        return f"DMA-E{row['engine_idx']}{core}"
    if name == "DmaPacketAggregated":
        return f"{row['queue_name']}{core}"
    return f"Semaphore {row['id']}{core}" if name == "SemaphoreUpdate" else f"Host-device DMA-E{row['engine_idx']}"


def times_of(name, row):
    start, end = TIMES.get(name, ("start_ts", "end_ts"))
    return row[start], row[end]


def in_range(name, row, begin, end):
    """What a viewer shows of [begin, end): what lasts and overlaps it, and instants within."""
    s, e = times_of(name, row)
    return s < end and (e > begin or s >= begin)


def text_of(value, kind):
    if value is None:
        return ""
    if pa.types.is_boolean(kind):
        return "true" if value else "false"
    if pa.types.is_list(kind):
        return "[" + ", ".join(json.dumps(v) if isinstance(v, str) else str(v) for v in value) + "]"
    return str(value)


def check_rows(path, tables, name, want):
    header, rows = read_strict(path)
    table = read_parquet(tables, name)
    columns = [c for c in table.column_names if c != "timeline_track"]
    assert header == ["timeline_track", *columns]
    assert len(rows) == len(want)
    assert [got[0] for got in rows] == [expected_track(tables, name, row) for row in want]
    for k, column in enumerate(columns, 1):
        kind = table.schema.field(column).type
        got, values = [row[k] for row in rows], [row[column] for row in want]
        if pa.types.is_floating(kind):
            assert pa.array([float(text) if text else None for text in got], kind).to_pylist() == values, column
        else:
            assert got == [text_of(value, kind) for value in values], column


def test_complete(tables, tmp_path):
    """The boxes of the viewer's dialog, named as its page names them; a table without activity has no file."""
    export(tables, "-f", "csv", "-o", tmp_path / "out")
    note = json.loads((tmp_path / "out" / "export.json").read_text())
    assert {p.name for p in (tmp_path / "out").iterdir()} - {"export.json"} - {"CcInstruction.csv"} == {f"{n}.csv" for n in USUAL}
    for name in USUAL:
        want = rows_of(tables, name)
        check_rows(tmp_path / "out" / f"{name}.csv", tables, name, want)
        entry = next(f for f in note["files"] if f["table"] == name)
        assert (entry["rows"], entry["events_in_range"], entry["complete"]) == (len(want), len(want), True)


@pytest.mark.parametrize("name", ("Instruction", "SemaphoreUpdate", "HostDmaTransfer"))
def test_range(tables, tmp_path, name):
    every = rows_of(tables, name)
    starts = sorted(times_of(name, row)[0] for row in every)
    begin, end = starts[len(starts) // 3], starts[2 * len(starts) // 3]
    export(tables, "-f", "csv", "-o", tmp_path / "out", "--table", name, "--start", begin, "--end", end)
    want = [row for row in every if in_range(name, row, begin, end)]
    assert 0 < len(want) < len(every)
    check_rows(tmp_path / "out" / f"{name}.csv", tables, name, want)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted((f"{name}.csv", "export.json"))


def test_pandas_and_duckdb(tables, tmp_path):
    """Both give back the very values, with the types of the schema; DuckDB also tells empty texts from nulls."""
    export(tables, "-f", "csv", "-o", tmp_path / "out")
    for name in USUAL:
        path, table = tmp_path / "out" / f"{name}.csv", read_parquet(tables, name)
        columns = [c for c in table.column_names if c != "timeline_track"]
        with duckdb.connect() as db:
            db.register("rows", table)
            types = {c: t for c, t, *_ in db.sql("DESCRIBE SELECT * FROM rows").fetchall()}
            cast = ", ".join(f'CAST("{c}" AS {types[c]}) AS "{c}"' for c in columns)
            back = db.sql(f"SELECT {cast} FROM read_csv('{path}', all_varchar=true, allow_quoted_nulls=false, header=true, "
                          "delim=',', quote='\"', escape='\"', new_line='\\r\\n')").fetchall()
            want = db.sql("SELECT {} FROM rows".format(", ".join(f'"{c}"' for c in columns))).fetchall()
        assert back == want, name
        frame = pd.read_csv(path, keep_default_na=False, na_values={}, dtype=str)
        for column in columns:
            kind = table.schema.field(column).type
            if pa.types.is_integer(kind):
                want = table[column].to_pylist()
                assert [int(v) if v else None for v in frame[column]] == want, column


def sampled(name, every, begin, end, pixels, tables):
    """Of the events of a track that begin in an interval, the longest; of equals, the first. By start, then as in the table."""
    best, count = {}, {}
    for k, row in enumerate(every):
        if not in_range(name, row, begin, end):
            continue
        s, e = times_of(name, row)
        key = expected_track(tables, name, row), max(0, s - begin) * pixels // (end - begin)
        count[key] = count.get(key, 0) + 1
        if key not in best or e - s > best[key][0]:
            best[key] = e - s, s, k, row
    order = sorted(best, key=lambda key: (best[key][1], best[key][2]))
    return [best[key][3] for key in order], [count[key] for key in order]


@pytest.mark.parametrize("pixels", (7, 400))
@pytest.mark.parametrize("name", USUAL)
def test_sampled(tables, tmp_path, name, pixels):
    every = rows_of(tables, name)
    begin, end = times_of(name, every[len(every) // 4])[0] + 1, times_of(name, every[-1])[0]
    export(tables, "-f", "csv", "-o", tmp_path / "out", "-t", name, "--start", begin, "--end", end, "--sample", pixels)
    want, counts = sampled(name, every, begin, end, pixels, tables)
    header, rows = read_strict(tmp_path / "out" / f"{name}.csv")
    assert header[0] == "timeline_track" and header[-1] == "events_in_sample" and header.count("timeline_track") == 1
    assert [int(row[-1]) for row in rows] == counts
    assert [(row[0], int(row[header.index(TIMES.get(name, ("start_ts",))[0])])) for row in rows] == [
        (expected_track(tables, name, row), times_of(name, row)[0]) for row in want]
    note = json.loads((tmp_path / "out" / "export.json").read_text())
    assert note["sample"] == pixels and note["files"][0]["complete"] == (note["files"][0]["rows"] == note["files"][0]["events_in_range"])
    assert note["files"][0]["events_in_range"] == sum(counts) == sum(in_range(name, row, begin, end) for row in every)


def test_sample_that_holds_everything(tables, tmp_path):
    """With as many intervals as it takes, nothing is left out, and the note says so."""
    export(tables, "-f", "csv", "-o", tmp_path / "all", "-t", "ExecutionInfo", "--sample", 1_000_000)
    export(tables, "-f", "csv", "-o", tmp_path / "few", "-t", "Instruction", "--sample", 3)
    (few,), (whole,) = (json.loads((tmp_path / d / "export.json").read_text())["files"] for d in ("few", "all"))
    assert whole["complete"] and whole["rows"] == whole["events_in_range"] == len(rows_of(tables, "ExecutionInfo"))
    assert not few["complete"] and few["rows"] < few["events_in_range"]


def test_other_order(tables, tmp_path):
    """Another tool's tables come in any order: the sample is the same."""
    other = tmp_path / "other"
    other.mkdir()
    table = read_parquet(tables, "DmaPacket")
    pq.write_table(table.take(list(range(len(table)))[::-1]), other / "DmaPacket.parquet")
    pq.write_table(read_parquet(tables, "Metadata"), other / "Metadata.parquet")
    for directory, out in ((tables, "a"), (other, "b")):
        export(directory, "-f", "csv", "-o", tmp_path / out, "-t", "DmaPacket", "--sample", 50)
    a, b = (read_strict(tmp_path / out / "DmaPacket.csv") for out in "ab")
    assert a[0] == b[0] and len(a[1]) == len(b[1])
    key = a[0].index("start_ts"), a[0].index("duration_ns")
    assert sorted((r[0], r[-1], r[key[1]]) for r in a[1]) == sorted((r[0], r[-1], r[key[1]]) for r in b[1])


def test_hard_values(tmp_path):
    """Nulls, empty texts, quotes, line ends, lists, wide numbers and columns that no schema knows; a split table."""
    directory = tmp_path / "p"
    directory.mkdir()
    texts = ["", None, 'a "quoted" one', "two\nlines", "comma, and\r\nmore", "ünï", " blank ", "=1+1"]
    n = len(texts)
    table = pa.table({
        "start_ts": pa.array(range(n), pa.int64()), "end_ts": pa.array(range(10, n + 10), pa.int64()),
        "engine": pa.array(texts), "words": pa.array([["a, b", 'c"d'], [], None, ["\n"], ["x"], [""], None, ["[1]"]]),
        "banks": pa.array([[1, 2], [], None, [7], [0], [3], [4], [5, 6]], pa.list_(pa.int32())),
        "wide": pa.array([2**63 - 1, -(2**63), None, 0, 1, 2, 3, 4], pa.int64()),
        "half": pa.array([0.1, 1e300, None, -0.0, 5e-324, 1 / 3, 2.5, 1e22], pa.float64()),
        "single": pa.array([0.1, 3e38, None, 16777216, 1e-45, 1 / 3, 2.5, 7], pa.float32()),
        "yes": pa.array([True, False, None] + [True] * 5),
    })
    pq.write_table(table.slice(0, 3), directory / "Instruction_0.parquet")
    pq.write_table(table.slice(3), directory / "Instruction_1.parquet")
    export(directory, "-f", "csv", "-o", tmp_path / "out")
    header, rows = read_strict(tmp_path / "out" / "Instruction.csv")
    assert header == ["timeline_track", *table.column_names]
    assert [r[0] for r in rows] == [t if t is not None else "Instruction" for t in texts]
    with duckdb.connect() as db:
        back = db.sql(f"SELECT * FROM read_csv('{tmp_path}/out/Instruction.csv', all_varchar=true, allow_quoted_nulls=false, delim=',', "
                      "quote='\"', escape='\"', header=true, new_line='\\r\\n')").fetchall()
    assert [r[header.index("engine")] for r in back] == texts
    for row, want in zip(rows, table.to_pylist()):
        got = dict(zip(header, row))
        assert (json.loads(got["words"]) if got["words"] else None) == want["words"]
        assert (json.loads(got["banks"]) if got["banks"] else None) == want["banks"]
        assert (int(got["wide"]) if got["wide"] else None) == want["wide"]
        assert (float(got["half"]) if got["half"] else None) == want["half"]
        assert (pa.scalar(float(got["single"]), pa.float32()).as_py() if got["single"] else None) == want["single"]
        assert got["yes"] == text_of(want["yes"], pa.bool_())


def test_places(tables, tmp_path):
    """An earlier export is replaced whole; what is something else stays, and so does everything after a failure."""
    out = tmp_path / "out"
    export(tables, "-f", "csv", "-o", out)
    export(tables, "-f", "csv", "-o", out, "-t", "HostDmaTransfer")
    assert sorted(p.name for p in out.iterdir()) == ["HostDmaTransfer.csv", "export.json"]
    assert "no table CcOp" in export(tables, "-f", "csv", "-o", out, "-t", "CcOp", code=1)
    assert sorted(p.name for p in out.iterdir()) == ["HostDmaTransfer.csv", "export.json"]
    (out / "mine.txt").write_text("keep")
    assert "not replaced" in export(tables, "-f", "csv", "-o", out, code=1)
    assert "not replaced" in export(tables, "-f", "csv", "-o", tables, code=1)
    assert (out / "mine.txt").exists() and (tables / "Summary.parquet").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("options, text", (
    (("-f", "csv"), "--output-file"),
    (("-o", "x"), "--output-format"),
    (("-f", "xml", "-o", "x"), "xml"),
    (("-f", "csv", "-o", "x", "--start", "ten"), "whole number"),
    (("-f", "csv", "-o", "x", "--start", "10", "--end", "10"), "empty"),
    (("-f", "csv", "-o", "x", "--start", "10", "--sample", "5"), "both --start and --end"),
    (("-f", "csv", "-o", "x", "--sample", "0"), "--sample"),
    (("-f", "summary-text", "--sample", "5"), "--sample is for csv"),
    (("-f", "summary-text", "--start", "5"), "whole profile"),
))
def test_bad_options(tmp_path, options, text):
    options = [tmp_path / o if o == "x" else o for o in options]
    assert text in export(tmp_path, *options, code=2)
    assert not list(tmp_path.iterdir())


def test_bad_tables(tables, tmp_path):
    for table, text in (("Summary", "has no times"), ("Nothing", "no table Nothing"), ('a"; DROP', "not the name")):
        said = export(tables, "-f", "csv", "-o", tmp_path / "x", "-t", table, code=1)
        assert text in said
        names = said.split("tables there that have times: ")[1].split("\n")[0].split(", ")
        assert names == sorted(names) and {*USUAL, "ActiveTime"} <= set(names) and not {"Summary", "CcOp"} & set(names)
    # The list is what -t takes, of the tables that are there.
    for table in {path.stem for path in tables.glob("*.parquet")}:
        done = subprocess.run([profiles.BIN / "kymo", "export", tables, "-f", "csv", "-o", tmp_path / "one", "-t", table, "--start", "0",
                               "--end", "10"], capture_output=True, text=True, timeout=60)
        assert (done.returncode == 0) == (table in names), (table, done.stderr)
        shutil.rmtree(tmp_path / "one", ignore_errors=True)
    assert "the schema has none" in export(tables, "-f", "csv", "-o", tmp_path / "x", "-t", "Nothing", code=1)
    assert not list(tmp_path.iterdir())


def test_no_profile(tmp_path):
    (tmp_path / "empty").mkdir()
    assert "no table" in export(tmp_path / "empty", "-f", "csv", "-o", tmp_path / "x", code=1)
    assert "absent" in export(tmp_path / "absent", "-f", "csv", "-o", tmp_path / "x", code=1)
    (tmp_path / "empty" / "Instruction.parquet").write_bytes(b"PAR1" + bytes(100))
    assert "kymo export:" in export(tmp_path / "empty", "-f", "csv", "-o", tmp_path / "x", code=1)
    assert sorted(p.name for p in Path(tmp_path).iterdir()) == ["empty"]


def test_system_profile(tmp_path):
    """All that has times, each event of the golden session on its track."""
    profiles.run(profiles.BIN / "kymo-process", "--system", GOLDEN, "--output", tmp_path / "t")
    export(tmp_path / "t", "-f", "csv", "-o", tmp_path / "x")
    tracks = {}
    for name in ("SystemProfileEvents", "SystemProfileHbmUsage", "CpuUsage", "HostMemUsage"):
        header, rows = read_strict(tmp_path / "x" / f"{name}.csv")
        assert len(rows) == len(read_parquet(tmp_path / "t", name))
        tracks[name] = {row[0] for row in rows}
    assert len(list((tmp_path / "x").iterdir())) == 5
    here = "i-0123 pid 4711 "
    assert tracks == {"SystemProfileEvents": {here + "neuron_rt thread 77", here + "neuron_hw nc0", here + "framework thread 9",
                                              here + "framework thread -1"},
                      "SystemProfileHbmUsage": {"nd0 HBM 1"}, "CpuUsage": {"CPU 0", "CPU 1", "CPU average"}, "HostMemUsage": {"Host memory"}}
