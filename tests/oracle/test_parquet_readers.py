"""Files of the Parquet writer as other readers see them: content, schema, nullability, statistics, row groups, sorting, page index.

parquet_cases (built from parquet_cases.c) writes the files; the content is worked out here again, independently.
KYMO_BUILD names the build directory (build by default).
"""

import glob
import math
import os
import subprocess

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

BUILD = os.environ.get("KYMO_BUILD", "build")
TOOL = os.path.join(BUILD, "bin", "parquet_cases")
COLUMNS = ["sorted", "wide", "i32", "low", "f32", "f64", "boolean", "s_low", "s_unique", "s_long", "s_null", "l32", "l64",
           "l_string", "i32_req", "b_req", "f64_req", "runs", "l_short"]
REQUIRED = {"sorted", "s_unique", "l64", "i32_req", "b_req", "f64_req"}
# case: (how, rows, batch, group, split)
CASES = {
    "one": ("values", 1, 1, 0, 0),
    "few": ("values", 100, 7, 0, 0),
    "few_ids": ("ids", 101, 13, 40, 0),
    "values": ("values", 80_000, 65536, 0, 0),
    "ids": ("ids", 80_000, 10_000, 50_000, 0),
    "map": ("map", 140_001, 65536, 0, 70_000),
    "map_small": ("map", 70_001, 4_999, 30_000, 0),
    "mixed": ("mixed", 70_000, 5_000, 30_000, 0),
    "late": ("late", 160_000, 40_000, 0, 0),
}


def mix(row, column):
    """splitmix64 over an array of rows; wraps in 64 bits."""
    with np.errstate(over="ignore"):
        z = (row * np.uint64(1000003) + np.uint64(column * 7919 + 1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def nulls(name, i):
    c = COLUMNS.index(name)
    if name == "wide":
        return mix(i, 100 + c) % np.uint64(5) == 0
    if name in ("i32", "f32", "f64"):
        return mix(i, 100 + c) % np.uint64(11) == 0
    if name == "low":
        return i % np.uint64(1000) < 500
    if name == "boolean":
        return i % np.uint64(3) == 0
    if name in ("s_low", "l_string"):
        return mix(i, 100 + c) % np.uint64(13) == 0
    if name == "s_long":
        return i % np.uint64(500) != 0
    if name == "l32":
        return i % np.uint64(4) == 0
    if name == "l_short":
        return i % np.uint64(5) == 0
    return np.full(len(i), name == "s_null")


def values(name, i):
    """A list of Python values, nulls not yet taken into account."""
    r = mix(i, COLUMNS.index(name))
    ri, ii = r.tolist(), i.tolist()
    if name == "sorted":
        return [a * 10 + b % 10 for a, b in zip(ii, ri)]
    if name in ("wide", "i32"):
        bits = 64 if name == "wide" else 32
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        signed = [((b & ((1 << bits) - 1)) ^ (1 << (bits - 1))) - (1 << (bits - 1)) for b in ri]
        return [low if a % 97 == 0 else high if a % 97 == 1 else b for a, b in zip(ii, signed)]
    if name == "low":
        return [b % 7 - 3 for b in ri]
    if name in ("f32", "f64", "f64_req"):
        many = 2000 if name == "f64_req" else 200
        return [math.nan if name == "f32" and a % 53 == 0 else (b % many - many / 2) / 8 for a, b in zip(ii, ri)]
    if name in ("boolean", "b_req"):
        return [bool(b & 1) for b in ri]
    if name == "s_low":
        return [f"v{b % 50}" if b % 50 else "" for b in ri]
    if name == "s_unique":
        return [f"row-{a}-é" for a in ii]
    if name == "s_long":
        return ["x" * (60 + a // 500 % 200) + "ü" for a in ii]
    if name == "s_null":
        return ["" for _ in ii]
    if name == "l32":
        return [[b >> (4 * k + 8) & 7 for k in range(b % 4)] for b in ri]
    if name == "l_short":
        return [[b >> 8 & 7] if b % 2 else [] for b in ri]
    if name == "l64":
        signed = [[(b >> k) - (1 << 64) if (b >> k) >> 63 else b >> k for k in range(a % 3)] for a, b in zip(ii, ri)]
        return signed
    if name == "l_string":
        return [["a" if b & 8 else "", f"b{b % 100}"][: b % 3] for b in ri]
    if name == "i32_req":
        return [7 for _ in ii]
    return [a // 1000 % 5 for a in ii]


def expected(how, rows):
    i = np.arange(rows, dtype=np.uint64)
    picked = mix(i, 99) % np.uint64(500) if how == "map" else i
    out = {}
    for name in COLUMNS:
        rowid = i if name == "sorted" else picked
        null = nulls(name, rowid).copy()
        if how == "late" and name not in REQUIRED:
            null[: rows // 2] = True
        out[name] = [None if n else v for n, v in zip(null.tolist(), values(name, rowid))]
    return out


@pytest.fixture(scope="module", params=list(CASES))
def case(request, tmp_path_factory):
    how, rows, batch, group, split = CASES[request.param]
    path = tmp_path_factory.mktemp(request.param)
    subprocess.run([TOOL, str(path), how, str(rows), str(batch), str(group), str(split)], check=True)
    files = sorted(glob.glob(f"{path}/*"))
    return {"files": files, "rows": rows, "group": group or 131072, "split": split, "how": how, "want": expected(how, rows)}


def same(a, b):
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a):
        return math.isnan(b)
    return a == b


def check(got, want, name):
    assert len(got) == len(want), name
    for row, (a, b) in enumerate(zip(got, want)):
        if not same(b, a):
            pytest.fail(f"{name}[{row}]: {a!r}, {b!r} expected")


def test_names(case):
    names = [os.path.basename(f) for f in case["files"]]
    if case["split"]:
        assert names == [f"Cases_{k}.parquet" for k in range(-(-case["rows"] // case["split"]))]
    else:
        assert names == ["Cases.parquet"]


def test_pyarrow(case):
    table = pa.concat_tables([pq.read_table(f) for f in case["files"]])
    table.validate(full=True)
    for name in COLUMNS:
        check(table[name].to_pylist(), case["want"][name], name)


def test_duckdb(case):
    con = duckdb.connect()
    for name in COLUMNS:
        got = con.execute(f'SELECT "{name}" FROM read_parquet(?)', [case["files"]]).fetchall()
        check([g[0] for g in got], case["want"][name], name)


def test_polars(case):
    frame = pl.concat([pl.read_parquet(f) for f in case["files"]])
    for name in COLUMNS:
        check(frame[name].to_list(), case["want"][name], name)


def test_pandas(case):
    frame = pd.concat([pd.read_parquet(f, dtype_backend="pyarrow") for f in case["files"]], ignore_index=True)
    assert list(frame.columns) == COLUMNS
    for name in ("sorted", "wide", "s_low", "boolean"):
        check([None if v is pd.NA else v for v in frame[name].tolist()], case["want"][name], name)


def test_filters(case):
    """Readers that skip by statistics and page index find the same rows as those that do not."""
    want = case["want"]["sorted"]
    low, high = want[len(want) // 3], want[len(want) // 2]
    expect = sum(low <= v <= high for v in want)
    con = duckdb.connect()
    got = con.execute("SELECT count(*) FROM read_parquet(?) WHERE sorted BETWEEN ? AND ?", [case["files"], low, high])
    assert got.fetchone()[0] == expect
    assert pl.scan_parquet(case["files"]).filter(pl.col("sorted").is_between(low, high)).select(pl.len()).collect().item() == expect
    assert pq.read_table(case["files"], filters=[("sorted", ">=", low), ("sorted", "<=", high)]).num_rows == expect
    text = [v for v in case["want"]["s_long"] if v]
    if text:
        expect = sum(v == text[-1] for v in text)
        got = con.execute("SELECT count(*) FROM read_parquet(?) WHERE s_long = ?", [case["files"], text[-1]])
        assert got.fetchone()[0] == expect
        assert pl.scan_parquet(case["files"]).filter(pl.col("s_long") == text[-1]).select(pl.len()).collect().item() == expect


TYPES = {"sorted": pa.int64(), "wide": pa.int64(), "low": pa.int64(), "runs": pa.int64(), "i32": pa.int32(), "i32_req": pa.int32(),
         "f32": pa.float32(), "f64": pa.float64(), "f64_req": pa.float64(), "boolean": pa.bool_(), "b_req": pa.bool_(),
         "l32": pa.list_(pa.field("element", pa.int32())), "l_short": pa.list_(pa.field("element", pa.int32())), "l64": pa.list_(pa.field("element", pa.int64())),
         "l_string": pa.list_(pa.field("element", pa.string()))}


def test_schema(case):
    for f in case["files"]:
        schema = pq.read_schema(f)
        assert schema.names == COLUMNS
        for field in schema:
            assert field.type == TYPES.get(field.name, pa.string()), field.name
            assert field.nullable == (field.name not in REQUIRED), field.name
        meta = pq.read_metadata(f)
        assert meta.created_by.startswith("kymo version ")
        assert meta.metadata[b"case"] == case["how"].encode()
        assert meta.metadata[b"kymo.table"] == b"Cases"
        assert meta.metadata[b"kymo.profile_schema_version"] == b"7.4.0"


def leaf_values(rows):
    for v in rows:
        if isinstance(v, list):
            yield from v
        elif v is not None and not (isinstance(v, float) and math.isnan(v)):
            yield v


def test_groups_and_statistics(case):
    first = 0
    for f in case["files"]:
        meta = pq.read_metadata(f)
        for g in range(meta.num_row_groups):
            group = meta.row_group(g)
            assert group.num_rows == min(case["group"], case["rows"] - first) or case["split"]
            assert [(s.column_index, s.descending, s.nulls_first) for s in group.sorting_columns] == [(0, False, False)]
            for k in range(group.num_columns):
                check_chunk(group.column(k), case["want"], first, group.num_rows)
            first += group.num_rows
    assert first == case["rows"]


def check_chunk(column, want, first, rows):
    name = column.path_in_schema.split(".")[0]
    want = want[name][first : first + rows]
    stats = column.statistics
    assert column.compression == "ZSTD"
    # Two levels of absence in lists: null and empty both count as null of the leaf.
    assert stats.null_count == sum(v is None or v == [] for v in want), name
    values = list(leaf_values(want))
    assert stats.has_min_max == bool(values), name
    assert column.has_offset_index
    if not values:
        return
    low, high = min(values), max(values)
    if isinstance(low, str):
        assert stats.min <= low and stats.max >= high and len(stats.min.encode()) <= 64 and len(stats.max.encode()) <= 64
        if len(low.encode()) <= 64:
            assert stats.min == low
        if len(high.encode()) <= 64:
            assert stats.max == high
    else:
        assert (stats.min, stats.max) == (low, high), name


def test_encodings(case):
    if case["how"] == "values":
        meta = pq.read_metadata(case["files"][0]).row_group(0)
        by_name = {meta.column(k).path_in_schema.split(".")[0]: meta.column(k) for k in range(meta.num_columns)}
        assert "DELTA_BINARY_PACKED" in by_name["sorted"].encodings
        assert "RLE_DICTIONARY" in by_name["s_low"].encodings
        assert by_name["sorted"].has_column_index
        if case["rows"] > 1024:
            assert "RLE_DICTIONARY" in by_name["f32"].encodings and "RLE_DICTIONARY" in by_name["f64"].encodings
            assert "RLE_DICTIONARY" not in by_name["f64_req"].encodings
        if case["rows"] > 70_000:
            assert "PLAIN" in by_name["s_unique"].encodings


def test_page_index(case):
    """Bounds, nulls and places of every page, read from the raw structures."""
    for f in case["files"]:
        with open(f, "rb") as stream:
            data = stream.read()
        meta = pq.read_metadata(f)
        con = duckdb.connect()
        rows = con.execute("SELECT * FROM parquet_metadata(?)", [f]).fetchall()
        assert len(rows) == meta.num_row_groups * meta.num_columns
        assert data[:4] == data[-4:] == b"PAR1"
        check_index(data, meta)


# Just enough of Thrift's compact protocol to read Parquet's footer and page index.


def varint(data, at):
    shift = value = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        shift += 7
        if byte < 0x80:
            return value, at


def read_value(data, at, kind):
    if kind in (1, 2):
        return kind == 1, at
    if kind in (4, 5, 6):
        value, at = varint(data, at)
        return (value >> 1) ^ -(value & 1), at
    if kind == 8:
        n, at = varint(data, at)
        return data[at : at + n], at + n
    if kind == 9:
        head = data[at]
        at += 1
        n, element = head >> 4, head & 15
        if n == 15:
            n, at = varint(data, at)
        out = []
        for _ in range(n):
            if element in (1, 2):
                value, at = data[at] == 1, at + 1
            else:
                value, at = read_value(data, at, element)
            out.append(value)
        return out, at
    assert kind == 12, kind
    return read_struct(data, at)


def read_struct(data, at):
    out, field = {}, 0
    while data[at]:
        head = data[at]
        at += 1
        kind = head & 15
        if head >> 4:
            field += head >> 4
        else:
            value, at = varint(data, at)
            field = (value >> 1) ^ -(value & 1)
        out[field], at = read_value(data, at, kind)
    return out, at + 1


def check_index(data, meta):
    length = int.from_bytes(data[-8:-4], "little")
    footer, end = read_struct(data, len(data) - 8 - length)
    assert end == len(data) - 8
    assert footer[3] == meta.num_rows
    for group in footer[4]:
        for chunk in group[1]:
            offsets, _ = read_struct(data, chunk[4])
            nulls, values, first = 0, 0, 0
            for place in offsets[1]:
                header, body = read_struct(data, place[1])
                assert header[1] == 0 and place[3] >= first
                assert body + header[3] == place[1] + place[2]
                values += header[5][1]
                first = place[3]
            assert values == chunk[3][5]
            if 6 not in chunk:
                # Floats with a page of NaN only have none; nothing else does.
                assert chunk[3][1] == 4
                continue
            columns, _ = read_struct(data, chunk[6])
            assert len(columns[1]) == len(columns[2]) == len(columns[3]) == len(columns[5]) == len(offsets[1])
            nulls = sum(columns[5])
            assert nulls == chunk[3][12][3]
            lows = [v for v, null in zip(columns[2], columns[1]) if not null]
            if chunk[3][1] == 2 and lows:
                low = min(int.from_bytes(v, "little", signed=True) for v in lows)
                assert low == int.from_bytes(chunk[3][12][6], "little", signed=True)
                if columns[4] == 1:
                    assert lows == sorted(lows, key=lambda v: int.from_bytes(v, "little", signed=True))
