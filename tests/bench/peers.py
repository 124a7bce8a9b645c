"""DuckDB and pyarrow write the tables of a profile again: one thread, zstd level 1, from memory.

usage: peers.py DIRECTORY SCRATCH PORTIONS

A table is read by row groups, untimed, and each is written, timed, until PORTIONS of them are. Both are given strings as
such and as ENUM or dictionary columns; what is faster on a table's first portion counts and is used for those after it.
Prints one JSON object: by table its rows, how many were written, and by peer CPU seconds and bytes.
"""

import json
import os
from pathlib import Path
import sys

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from figures import Clock


def is_text(field):
    return pa.types.is_string(field.type) or pa.types.is_dictionary(field.type)


def plain(table):
    """The same rows with strings instead of dictionaries."""
    for i, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(field.type.value_type))
    return table


def pyarrow_write(table, path):
    clock = Clock()
    pq.write_table(table, path, compression="zstd", compression_level=1, write_page_index=True)
    return clock.seconds()[0]


def duckdb_copy(table, path):
    """Columns that are dictionaries become ENUMs; the rows are in DuckDB's own memory before the clock starts."""
    con = duckdb.connect(config={"threads": 1})
    con.register("arrow_rows", table)
    columns = []
    for field in table.schema:
        columns.append(f'"{field.name}"')
        if pa.types.is_dictionary(field.type) and table[field.name].null_count < table.num_rows:
            con.execute(f'CREATE TYPE "e_{field.name}" AS ENUM (SELECT DISTINCT "{field.name}" FROM arrow_rows '
                        f'WHERE "{field.name}" IS NOT NULL)')
            columns[-1] = f'"{field.name}"::"e_{field.name}" AS "{field.name}"'
    con.execute(f"CREATE TABLE rows_in_memory AS SELECT {', '.join(columns)} FROM arrow_rows")
    clock = Clock()
    con.execute(f"COPY rows_in_memory TO '{path}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, "
                "ROW_GROUP_SIZE 1048576)")
    seconds = clock.seconds()[0]
    con.close()
    return seconds


PEERS = {"duckdb": duckdb_copy, "pyarrow": pyarrow_write}


class Peer:
    def __init__(self, write, path):
        self.write, self.path = write, path
        self.seconds, self.bytes, self.dictionaries = 0.0, 0, None

    def once(self, table, dictionaries):
        seconds = self.write(table if dictionaries else plain(table), self.path)
        return seconds, os.path.getsize(self.path), dictionaries

    def take(self, table):
        variants = [self.dictionaries]
        if self.dictionaries is None:
            variants = [False, True] if any(pa.types.is_dictionary(f.type) for f in table.schema) else [False]
        seconds, size, self.dictionaries = min(self.once(table, v) for v in variants)
        self.seconds += seconds
        self.bytes += size


def write_again(path, scratch, portions):
    source = pq.ParquetFile(path)
    texts = [f.name for f in source.schema_arrow if pa.types.is_string(f.type)]
    source = pq.ParquetFile(path, read_dictionary=texts)
    peers = {name: Peer(write, f"{scratch}/{name}.parquet") for name, write in PEERS.items()}
    written = 0
    for i in range(min(portions, source.num_row_groups)):
        table = source.read_row_group(i).unify_dictionaries()
        written += table.num_rows
        for peer in peers.values():
            peer.take(table)
    result = {"rows": source.metadata.num_rows, "written": written, "bytes": path.stat().st_size}
    for name, peer in peers.items():
        result[name] = {"seconds": peer.seconds, "bytes": peer.bytes, "dictionaries": bool(peer.dictionaries)}
    return result


def main():
    directory, scratch, portions = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    pa.set_cpu_count(1)
    print(json.dumps({p.stem: write_again(p, scratch, portions) for p in sorted(directory.glob("*.parquet"))}))


if __name__ == "__main__":
    main()
