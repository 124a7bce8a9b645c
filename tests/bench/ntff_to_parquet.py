"""NTFF to Parquet, all device tables, on simulated profiles of the named numbers of records.

usage: ntff_to_parquet.py BUILD [--no-log] RECORDS...

Peers in the same run: DuckDB (COPY) and pyarrow write the same tables again from memory (peers.py). kymo-process meanwhile
reads, pairs, correlates and derives, so the ratio is one of the whole work against writing alone. Of tables of more than
PORTIONS row groups the peers write that many, and their time is taken for the rest.

Each number of records that is done is a line of log.tsv; what is there for this commit is not run again. KYMO_BENCH_DIR (the
system's temporary directory by default) needs about 60 bytes a record.
"""

import json
import os
from pathlib import Path
import shutil
import subprocess
import sys
import tempfile
import time

import pyarrow.parquet as pq

from figures import logged, log, measured, say

SEED = 1
PORTIONS = 4  # row groups of a table that the peers write
EVENTS = ("Instruction", "DmaPacket", "DmaPacketAggregated", "HostDmaTransfer", "SemaphoreUpdate")
SHOWN = 0.02  # share of all bytes from which on a table is listed

UNITS = {"wall": "s", "cpu": "s", "ntff_bytes": "bytes", "tables_bytes": "bytes", "peak_memory": "MB", "input": "MB/s"}


def unit_of(name):
    if name in UNITS:
        return UNITS[name]
    if name.endswith("_per_core"):
        return "rows/s/core"
    if name.endswith("_rows"):
        return "rows"
    if name.startswith("file_"):
        return "bytes/row"
    return "s" if name.endswith("_cpu") else "bytes" if name.endswith("_bytes") else "x"


def show(records, figures):
    for name, value in figures.items():
        say(f"process_{records / 1e6:g}M_{name}", value, unit_of(name))


def peers(directory, scratch):
    """In a process of its own, since a child's peak memory begins with that of the process that made it."""
    out = subprocess.run([sys.executable, Path(__file__).with_name("peers.py"), directory, scratch, str(PORTIONS)],
                         capture_output=True, text=True, check=True).stdout
    return json.loads(out)


def of_tables(tables, cpu):
    """Figures of the files and of what the peers took, whole tables each."""
    whole = sum(t["bytes"] for t in tables.values())
    figures = {"tables_bytes": whole}
    for name, t in sorted(tables.items(), key=lambda item: -item[1]["bytes"]):
        if t["bytes"] >= SHOWN * whole:
            figures[f"file_{name}"] = t["bytes"] / t["rows"]
    for peer in ("duckdb", "pyarrow"):
        seconds = sum(t[peer]["seconds"] * t["rows"] / t["written"] for t in tables.values())
        size = sum(t[peer]["bytes"] * t["rows"] / t["written"] for t in tables.values())
        figures[f"{peer}_cpu"] = seconds
        figures[f"ratio_speed_to_{peer}"] = seconds / cpu
        figures[f"ratio_size_to_{peer}"] = whole / size
        if "Instruction" in tables:
            t = tables["Instruction"]
            figures[f"{peer}_instruction_rows_per_core"] = t["written"] / t[peer]["seconds"]
    return figures


def run(build, scratch, neff, records):
    ntff, directory = scratch / "bench.ntff", scratch / "tables"
    measured(build / "bin/kymo-sim", "ntff", "--neff", neff, "--lnc", "1", "--events", records, "--dge", "1", "--unlimited",
             "--seed", SEED, "--output", ntff)
    size = ntff.stat().st_size
    wall, cpu, rss = measured(build / "bin/kymo-process", "--ntff", ntff, "--neff", neff, "--output", directory)
    ntff.unlink()
    rows = {path.stem: pq.read_metadata(path).num_rows for path in directory.glob("*.parquet")}
    events, everything = sum(rows.get(t, 0) for t in EVENTS), sum(rows.values())
    figures = {
        "ntff_bytes": size,
        "wall": wall,
        "cpu": cpu,
        "peak_memory": rss,
        "input": size / 1e6 / wall,
        "instruction_rows": rows["Instruction"],
        "instruction_rows_per_core": rows["Instruction"] / cpu,
        "event_rows": events,
        "event_rows_per_core": events / cpu,
        "all_rows": everything,
        "all_rows_per_core": everything / cpu,
    }
    figures |= of_tables(peers(directory, scratch), cpu)
    shutil.rmtree(directory)
    return figures


def main():
    build, keep = Path(sys.argv[1]), "--no-log" not in sys.argv
    sizes = [int(n) for n in sys.argv[2:] if n != "--no-log"]
    done = {}
    with tempfile.TemporaryDirectory(prefix="kymo-bench-", dir=os.environ.get("KYMO_BENCH_DIR")) as directory:
        scratch = Path(directory)
        neff = scratch / "attention.neff"
        measured(build / "bin/kymo-sim", "neff", "--model", "attention", "--arch", "trn2", "--lnc", "1", "--repeat", "50",
                 "--output", neff)
        for records in sizes:
            begin, figures = time.monotonic(), logged("ntff_to_parquet", records, SEED) if keep else None
            if not figures:
                figures = run(build, scratch, neff, records)
                if keep:
                    log("ntff_to_parquet", records, SEED, time.monotonic() - begin, figures)
            show(records, figures)
            done[records] = figures
    if len(sizes) > 1:
        first, last = (done[n]["cpu"] / done[n]["ntff_bytes"] for n in (sizes[0], sizes[-1]))
        say("process_cpu_per_byte_largest_against_smallest", last / first, "x")


if __name__ == "__main__":
    main()
