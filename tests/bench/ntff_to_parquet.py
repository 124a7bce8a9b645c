"""Rows per second and peak memory of kymo-process on simulated profiles of the named numbers of records.

    ntff_to_parquet.py BUILD RECORDS...

The peer is DuckDB in the same run: it holds the Instruction table that kymo-process wrote in memory and writes it again with
COPY (zstd, one thread). kymo-process meanwhile decodes, pairs, correlates and writes all tables, so the ratio is one of whole
work against writing alone. KYMO_BENCH_DIR (the system's temporary directory by default) needs about 40 bytes a record.
"""

from pathlib import Path
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import pyarrow.parquet as pq

PEER_ROWS = 2_000_000  # rows that DuckDB writes


def say(name, value, unit):
    print(f"{name}: {value:.4g} {unit}" if isinstance(value, float) else f"{name}: {value} {unit}", flush=True)


def measured(*command):
    """(wall seconds, CPU seconds, peak RSS in MB)"""
    begin = time.monotonic()
    child = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{command[0]} failed with {child.returncode}")
    return time.monotonic() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def rows_by_table(directory):
    rows = {}
    for path in directory.iterdir():
        name = re.sub(r"(_\d+)?\.parquet$", "", path.name)
        rows[name] = rows.get(name, 0) + pq.read_metadata(path).num_rows
    return rows


def peer(directory, scratch):
    """Instruction rows per second of DuckDB's COPY, and its bytes per row; in a process of its own, since a child's peak
    memory begins with that of the process that made it."""
    out = subprocess.run([sys.executable, __file__, "--peer", str(directory), str(scratch)], capture_output=True, text=True,
                         check=True).stdout
    return tuple(float(v) for v in out.split())


def run_peer(directory, scratch):
    import duckdb

    con = duckdb.connect(config={"threads": 1})
    con.execute(f"CREATE TABLE t AS SELECT * FROM read_parquet('{directory}/Instruction*.parquet') LIMIT {PEER_ROWS}")
    n = con.execute("SELECT count(*) FROM t").fetchone()[0]
    begin = time.monotonic()
    con.execute(f"COPY t TO '{scratch}/peer.parquet' (FORMAT parquet, COMPRESSION zstd)")
    seconds = time.monotonic() - begin
    print(n / seconds, os.path.getsize(f"{scratch}/peer.parquet") / n)


def bench(build, scratch, neff, records):
    label = f"{records // 1_000_000}M"
    ntff, tables = scratch / f"{label}.ntff", scratch / label
    wall, _, _ = measured(build / "bin/kymo-sim", "ntff", "--neff", neff, "--lnc", "1", "--events", records, "--dge", "1",
                          "--unlimited", "--output", ntff)
    size = ntff.stat().st_size
    say(f"ntff_{label}_bytes", size, "bytes")
    say(f"ntff_{label}_simulated_in", wall, "s")
    wall, cpu, rss = measured(build / "bin/kymo-process", "--ntff", ntff, "--neff", neff, "--output", tables)
    rows = rows_by_table(tables)
    events = sum(rows.get(t, 0) for t in ("Instruction", "DmaPacket", "DmaPacketAggregated", "HostDmaTransfer", "SemaphoreUpdate"))
    say(f"process_{label}_wall", wall, "s")
    say(f"process_{label}_cpu", cpu, "s")
    say(f"process_{label}_records", size / 16 / wall, "records/s")
    say(f"process_{label}_instruction_rows", rows["Instruction"], "rows")
    say(f"process_{label}_event_rows", events / cpu, "rows/s/core")
    say(f"process_{label}_input", size / 1e6 / wall, "MB/s")
    say(f"process_{label}_peak_memory", rss, "MB")
    instruction_bytes = sum(p.stat().st_size for p in tables.glob("Instruction*.parquet"))
    say(f"process_{label}_instruction_file", instruction_bytes / rows["Instruction"], "bytes/row")
    peer_rate, peer_bytes = peer(tables, scratch)
    say(f"duckdb_copy_{label}_instruction_rows", peer_rate, "rows/s/core")
    say(f"process_{label}_all_rows_against_duckdb_copy", events / cpu / peer_rate, "x")
    say(f"process_{label}_instruction_file_against_duckdb", instruction_bytes / rows["Instruction"] / peer_bytes, "x")
    ntff.unlink()
    shutil.rmtree(tables)
    return wall / records


def main():
    build = Path(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="kymo-bench-", dir=os.environ.get("KYMO_BENCH_DIR")) as directory:
        scratch = Path(directory)
        neff = scratch / "attention.neff"
        measured(build / "bin/kymo-sim", "neff", "--model", "attention", "--arch", "trn2", "--lnc", "1", "--repeat", "50",
                 "--output", neff)
        per_record = [bench(build, scratch, neff, int(n)) for n in sys.argv[2:]]
    if len(per_record) > 1:
        say("process_time_per_record_largest_against_smallest", per_record[-1] / per_record[0], "x")


if __name__ == "__main__":
    if sys.argv[1] == "--peer":
        run_peer(sys.argv[2], sys.argv[3])
    else:
        main()
