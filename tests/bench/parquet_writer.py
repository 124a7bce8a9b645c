"""The Parquet writer against DuckDB COPY and pyarrow: the same Instruction rows from memory, one thread, zstd level 1.

usage: parquet_writer.py BENCH_PROGRAM ROWS [--no-log]
Prints "name: value unit" lines. DuckDB and pyarrow are given plain strings and, in a second run, ENUM or dictionary columns.
A run is a line of log.tsv; one that is there for this commit is not made again.
"""

import os
import subprocess
import sys
import tempfile
import time

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from figures import Clock, log, logged

TYPES = {("integer", "int64"): pa.int64(), ("integer", "int32"): pa.int32(), ("string", ""): pa.string(),
         ("array", "int32"): pa.list_(pa.int32()), ("number", "float"): pa.float32()}
REQUIRED = {"start_ts", "end_ts", "duration_ns", "engine", "opcode", "operands", "id", "pc", "bir_id"}


def parse(text, kind):
    if text == "":
        return None
    if pa.types.is_list(kind):
        return [int(v) for v in text.split(",")]
    return text if pa.types.is_string(kind) else int(text)


def load(path, dictionaries):
    """The dumped rows as an Arrow table, wholly in memory."""
    index = pa.array(np.fromfile(f"{path}/index.bin", dtype=np.uint32).astype(np.int32))
    columns, fields = [], []
    with open(f"{path}/static.tsv", encoding="utf-8") as f:
        for line in f:
            name, kind, fmt, dynamic, *texts = line.rstrip("\n").split("\t")
            kind = TYPES[(kind, fmt)]
            if dynamic == "1":
                data = np.fromfile(f"{path}/{name}.bin", dtype=np.int64)
                mask = None
                if os.path.exists(f"{path}/{name}.valid.bin"):
                    mask = np.fromfile(f"{path}/{name}.valid.bin", dtype=np.uint8) == 0
                column = pa.array(data, mask=mask)
            else:
                static = pa.array([parse(t, kind) for t in texts], kind)
                if dictionaries and pa.types.is_string(kind):
                    static = static.dictionary_encode()
                column = static.take(index)
                column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            columns.append(column)
            fields.append(pa.field(name, column.type, nullable=name not in REQUIRED))
    return pa.table(columns, pa.schema(fields))


def show(figures):
    for name, value in figures.items():
        unit = "bytes" if "bytes" in name else "x" if "ratio" in name else "rows/s"
        print(f"parquet_{name}: {value} {unit}", flush=True)


def against(name, rows, seconds, path, ours):
    speed = rows / seconds[0]
    size = os.path.getsize(path) / rows
    return {
        f"{name}_rows_per_cpu_second": round(speed),
        f"{name}_rows_per_second": round(rows / seconds[1]),
        f"{name}_bytes_per_row": round(size, 3),
        f"ratio_speed_to_{name}": round(ours["kymo_rows_per_cpu_second"] / speed, 1),
        f"ratio_size_to_{name}": round(ours["kymo_bytes_per_row"] / size, 3),
    }


def duckdb_copy(table, path, enums):
    con = duckdb.connect()
    con.execute("SET threads = 1")
    con.register("arrow_rows", table)
    columns = []
    for field in table.schema:
        columns.append(field.name)
        if enums and pa.types.is_dictionary(field.type) and table[field.name].null_count < table.num_rows:
            con.execute(f"CREATE TYPE e_{field.name} AS ENUM (SELECT DISTINCT {field.name} FROM arrow_rows "
                        f"WHERE {field.name} IS NOT NULL)")
            columns[-1] = f"{field.name}::e_{field.name} AS {field.name}"
    # The table is in DuckDB's own memory before the clock starts.
    con.execute(f"CREATE TABLE rows_in_memory AS SELECT {', '.join(columns)} FROM arrow_rows")
    kinds = {k[1] for k in con.execute("DESCRIBE rows_in_memory").fetchall()}
    assert any(k.startswith("ENUM") for k in kinds) == enums, kinds
    clock = Clock()
    con.execute(f"COPY rows_in_memory TO '{path}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, ROW_GROUP_SIZE 1048576)")
    return clock.seconds()


def pyarrow_write(table, path):
    clock = Clock()
    pq.write_table(table, path, compression="zstd", compression_level=1, write_page_index=True)
    return clock.seconds()


def run(program, rows):
    with tempfile.TemporaryDirectory() as tmp:
        out = subprocess.run([program, "write", tmp, str(rows)], check=True, capture_output=True, text=True).stdout
        lines = (line.removeprefix("parquet_").split(": ") for line in out.splitlines())
        figures = {name: float(value.split()[0]) for name, value in lines}
        ours_path = f"{tmp}/Instruction.parquet"
        subprocess.run([program, "dump", tmp, str(rows)], check=True)
        for dictionaries in (False, True):
            table = load(tmp, dictionaries)
            kind = "dictionary" if dictionaries else "strings"
            path = f"{tmp}/pyarrow.parquet"
            figures |= against(f"pyarrow_{kind}", rows, pyarrow_write(table, path), path, figures)
            path = f"{tmp}/duckdb.parquet"
            kind = "enum" if dictionaries else "strings"
            figures |= against(f"duckdb_{kind}", rows, duckdb_copy(table, path, dictionaries), path, figures)
        check = duckdb.connect().execute(
            f"SELECT count(*) FROM (FROM '{ours_path}' EXCEPT ALL FROM '{path}')") if rows <= 400_000 else None
        if check:
            assert check.fetchone()[0] == 0, "our rows and DuckDB's differ"
    return figures


def main():
    program, rows, keep = sys.argv[1], int(sys.argv[2]), "--no-log" not in sys.argv
    pa.set_cpu_count(1)
    begin, figures = time.monotonic(), logged("parquet_writer", rows, 0) if keep else None
    if not figures:
        figures = run(program, rows)
        if keep:
            log("parquet_writer", rows, 0, time.monotonic() - begin, figures)
    show(figures)


main()
