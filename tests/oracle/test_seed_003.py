"""The vendor's page "Analyze Profile Output" holds for our directories: its Python as written, its layout, and every table in every
reader. The parts of a split table are read as that page reads them, by a glob.
"""

from collections import defaultdict
from glob import glob
from pathlib import Path
import csv
import math
import re

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import matrix
import profiles

SCHEMA = Path(__file__).parents[2] / "formats" / "schema"
CELLS = ("mlp-trn2-lnc2-plain", "attention-trn1-lnc1-fail")
SPLIT_ROWS = 1000
# Tables that grow with the events; the others say something once and are never split.
EVENTS = {"BirInstruction", "PenguinInstruction", "HloInstruction", "FrameworkInstruction", "FrameworkNode",
          "ActiveTime", "DmaPacket", "DmaPacketAggregated", "HostDmaTransfer", "Instruction", "PartialEvent", "SemaphoreUpdate",
          "CcInstruction", "CcOp", "CcSemaphoreUpdate", "DmaUsage", "DmaUsageSummary", "Error", "Flow", "FlopsUsage", "HbmUsage", "HostDmaUsage",
          "LevelOfDetail", "PendingDma", "PsumUsage", "SbufAllocation", "SbufUsage", "Throttle", "WaitCause", "WaitSums", "WindowSums"}
WHOLE = Path("whole/profiles/global/my-profile@latest")
SPLIT = Path("split/profiles/global/my-profile@latest")
TYPES = {("integer", "int64"): pa.int64(), ("integer", "int32"): pa.int32(), ("number", "float"): pa.float32(),
         ("number", "double"): pa.float64(), ("boolean", ""): pa.bool_(), ("string", ""): pa.string(),
         ("array", "int32"): pa.list_(pa.field("element", pa.int32())), ("array", "int64"): pa.list_(pa.field("element", pa.int64())),
         ("array", "string"): pa.list_(pa.field("element", pa.string()))}


def read_tsv(name):
    with open(SCHEMA / name, newline="") as f:
        return list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))


TABLES = {row["table"]: row for row in read_tsv("tables.tsv")}
FIELDS = defaultdict(list)
for row in read_tsv("schema.tsv"):
    FIELDS[row["table"]].append(row)


@pytest.fixture(scope="module", params=CELLS)
def store(request, tmp_path_factory):
    """A directory with the same profile in two stores, whole and of split tables."""
    directory = tmp_path_factory.mktemp(request.param)
    ntff, neff, _ = profiles.make_ntff(directory, matrix.find(request.param))
    for path, options in ((WHOLE, ()), (SPLIT, ("--split-rows", SPLIT_ROWS))):
        profiles.run(profiles.BIN / "kymo", "process", "-n", neff, "-s", ntff, "--data-path", directory / path.parts[0], "--display-name",
                     "my-profile", *options)
    return directory


def parts(directory):
    """Table name to its files, in order."""
    found = defaultdict(list)
    for path in directory.iterdir():
        table, number = re.fullmatch(r"([A-Za-z]+?)(?:_(\d+))?\.parquet", path.name).groups()
        found[table].append((int(number or 0), path))
    return {table: [path for _, path in sorted(files)] for table, files in sorted(found.items())}


def rows_of(table):
    return list(zip(*(table[name].to_pylist() for name in table.column_names)))


def plain(value):
    """One spelling for NaN and for lists, whichever reader they come from."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return [plain(v) for v in value] if isinstance(value, (list, tuple)) else value


def same(got, want, where):
    assert len(got) == len(want), where
    for k, (a, b) in enumerate(zip(got, want)):
        if a != b:
            assert [plain(v) for v in a] == [plain(v) for v in b], f"{where}, row {k}"


def test_the_pages_python_as_written(store, monkeypatch, capsys):
    monkeypatch.chdir(store / WHOLE.parent)

    df = pd.read_parquet("my-profile@latest/Instruction.parquet")
    print(df.head())
    print(df.groupby(["engine", "opcode"])["duration_ns"]
            .agg(["count", "sum"])
            .sort_values("sum", ascending=False)
            .head(10))

    lines = capsys.readouterr().out.splitlines()
    head = next(k for k, line in enumerate(lines) if line.split() == ["count", "sum"])
    assert lines[head + 1].split() == ["engine", "opcode"]
    want = duckdb.execute("""SELECT engine, opcode, count(*), sum(duration_ns)::BIGINT AS s
                             FROM 'my-profile@latest/Instruction.parquet' GROUP BY ALL ORDER BY s DESC LIMIT 10""").fetchall()
    assert len(lines) == head + 2 + len(want)
    for line, (_, opcode, count, total) in zip(lines[head + 2 :], want):
        assert line.split()[-3:] == [opcode, str(count), str(total)]


def test_a_split_table_by_the_pages_glob(store, monkeypatch):
    monkeypatch.chdir(store / SPLIT.parent)

    df = pd.concat(
        (pd.read_parquet(path) for path in glob("my-profile@latest/Instruction*.parquet")),
        ignore_index=True,
    )

    assert len(glob("my-profile@latest/Instruction*.parquet")) > 1
    whole = pd.read_parquet(store / WHOLE / "Instruction.parquet")
    key = ["start_ts", "id"]
    pd.testing.assert_frame_equal(df.sort_values(key, ignore_index=True), whole.sort_values(key, ignore_index=True))


def test_names_and_parts(store):
    """Name.parquet, or Name_0.parquet, Name_1.parquet and so on, each full but for the last; no table without rows."""
    whole, split = parts(store / WHOLE), parts(store / SPLIT)
    assert whole.keys() == split.keys() and whole.keys() <= TABLES.keys()
    assert {"Instruction", "DmaPacket", "SemaphoreUpdate", "Summary", "SchemaFields"} <= whole.keys()
    for table, files in whole.items():
        assert [f.name for f in files] == [f"{table}.parquet"]
        rows = pq.read_metadata(files[0]).num_rows
        assert rows > 0
        counts = [pq.read_metadata(f).num_rows for f in split[table]]
        assert sum(counts) == rows, table
        if table in EVENTS:
            assert [f.name for f in split[table]] == [f"{table}_{k}.parquet" for k in range(-(-rows // SPLIT_ROWS))]
            assert all(n == SPLIT_ROWS for n in counts[:-1]), table
        else:
            assert [f.name for f in split[table]] == [f"{table}.parquet"]
    assert any(len(files) > 2 for files in split.values())


def test_every_reader_sees_the_same(store):
    for table, files in parts(store / SPLIT).items():
        whole = pq.read_table(store / WHOLE / f"{table}.parquet")
        whole.validate(full=True)
        want = rows_of(whole)
        same(rows_of(pa.concat_tables([pq.read_table(f) for f in files])), want, f"{table} by pyarrow, split")
        for kind, paths in (("whole", [store / WHOLE / f"{table}.parquet"]), ("split", files)):
            names = [str(p) for p in paths]
            got = duckdb.execute("SELECT * FROM read_parquet(?)", [names]).fetchall()
            same(got, want, f"{table} by DuckDB, {kind}")
            same(pl.concat([pl.read_parquet(n) for n in names]).rows(), want, f"{table} by polars, {kind}")
            frame = pd.concat([pd.read_parquet(n, dtype_backend="pyarrow") for n in names], ignore_index=True)
            assert list(frame.columns) == whole.column_names
            columns = ([None if v is pd.NA else v for v in frame[c].astype(object)] for c in frame.columns)
            listed = [[v.tolist() if hasattr(v, "tolist") else v for v in column] for column in columns]
            same(list(zip(*listed)), want, f"{table} by pandas, {kind}")


def test_plain_pandas_has_no_surprises(store):
    """Without options, as people read: required columns come without holes, integers stay integers."""
    for table, (path,) in parts(store / WHOLE).items():
        frame = pd.read_parquet(path)
        for field in FIELDS[table]:
            if field["required"] == "1":
                assert not frame[field["field"]].isna().any(), f"{table}.{field['field']}"
                if field["type"] == "integer":
                    assert str(frame[field["field"]].dtype) == field["format"], f"{table}.{field['field']}"


def test_schema_and_nullability(store):
    for table, files in parts(store / SPLIT).items():
        for path in files:
            schema = pq.read_schema(path)
            assert schema.names == [f["field"] for f in FIELDS[table]], table
            for field, column in zip(FIELDS[table], schema):
                assert column.type == TYPES[field["type"], field["format"]], f"{table}.{column.name}"
                assert column.nullable == (field["required"] == "0"), f"{table}.{column.name}"


def test_schema_fields(store):
    """The table says what schema.tsv says, of every table and column."""
    got = {(r["table_name"], r["field_name"]): r for r in pq.read_table(store / WHOLE / "SchemaFields.parquet").to_pylist()}
    want = {(f["table"], f["field"]): f for fields in FIELDS.values() for f in fields}
    assert list(got) == list(want)
    for key, field in want.items():
        row = got[key]
        assert row["table_description"] == TABLES[field["table"]]["description"]
        for name in ("type", "description"):
            assert row[f"field_{name}"] == field[name], key
        for name in ("format", "unit", "enum_values", "example"):
            assert (row[f"field_{name}"] or "") == field[name], key
        assert row["field_required"] == (field["required"] == "1")


def test_closed_sets_hold(store):
    for table, (path,) in parts(store / WHOLE).items():
        for field in FIELDS[table]:
            if field["enum_values"] and field["type"] == "string":
                found = set(pq.read_table(path, columns=[field["field"]])[field["field"]].unique().to_pylist())
                assert found - {None, ""} <= set(field["enum_values"].split(",")), f"{table}.{field['field']}"


def test_order_and_statistics(store):
    for directory in (WHOLE, SPLIT):
        for table, files in parts(store / directory).items():
            column = TABLES[table]["sort_column"]
            index = [f["field"] for f in FIELDS[table]].index(column) if column else None
            last = None
            for path in files:
                check_groups(pq.ParquetFile(path), table, index)
                if column:
                    values = pq.read_table(path, columns=[column])[column].to_pylist()
                    assert values == sorted(values) and (last is None or last <= values[0]), f"{table}: not sorted by {column}"
                    last = values[-1]


def check_groups(file, table, sorted_by):
    assert file.metadata.created_by.startswith("kymo version ")
    for g in range(file.metadata.num_row_groups):
        group, rows = file.metadata.row_group(g), file.read_row_group(g)
        expected = [] if sorted_by is None else [(sorted_by, False, False)]
        assert [(s.column_index, s.descending, s.nulls_first) for s in group.sorting_columns] == expected, table
        for k, name in enumerate(rows.column_names):
            chunk, values = group.column(k), rows[name]
            where = f"{table}.{name}"
            assert chunk.compression == "ZSTD" and chunk.has_offset_index, where
            if pa.types.is_list(values.type):
                continue
            assert chunk.statistics.null_count == values.null_count, where
            seen = [v for v in values.to_pylist() if v is not None and v == v]
            assert chunk.statistics.has_min_max == bool(seen), where
            if seen and not pa.types.is_string(values.type):
                assert (chunk.statistics.min, chunk.statistics.max) == (min(seen), max(seen)), where
            elif seen:
                # Long texts are bounded, not repeated.
                assert chunk.statistics.min <= min(seen) and chunk.statistics.max >= max(seen), where
