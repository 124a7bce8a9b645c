"""Other readers of kymo's tables: makes profiles that together hold every table (tests/oracle/coverage_profiles.py), reads each file and each
column of them with hyparquet in Node or with Spark, and compares rows, nulls, distinct values and a digest of all values with pyarrow.
The outcome is a line of log.tsv: commit, reader, versions, files, tables, columns, values, outcome, seconds.

usage: KYMO_BUILD=DIR tests/.venv/bin/python tests/readers/check.py [hyparquet] [spark] [--log FILE] [--spark-python PYTHON]

hyparquet: `npm ci --prefix tests/readers` first. Spark: a Python with tests/readers/requirements.txt, and a JDK; too much for continuous
integration, where hyparquet reads two files of each table (tests/oracle/test_hyparquet.py).
"""

import argparse
import json
from pathlib import Path
import subprocess
import sys
import tempfile
import time

import pyarrow
import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "oracle")]
import coverage_profiles  # noqa: E402
import resumable  # noqa: E402
import values  # noqa: E402

LIMIT = 3600  # seconds for a reader


def files_of(directories):
    return sorted(path for directory in directories for path in directory.glob("*.parquet"))


def pyarrow_says(paths):
    return {str(path): values.summarise(pq.read_table(path, partitioning=None)) for path in paths}


def ask(command, paths):
    """(what the reader says by file, its version or None)"""
    done = subprocess.run([str(c) for c in command], input="".join(f"{p}\n" for p in paths), capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, f"{command[0]}: exit {done.returncode}\n{done.stderr[-3000:]}"
    said = dict(json.loads(line) for line in done.stdout.splitlines())
    return said, said.pop("version", None)


def hyparquet_says(paths):
    version = json.loads((HERE / "node_modules" / "hyparquet" / "package.json").read_text())["version"]
    node = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return ask(["node", HERE / "hyparquet_read.mjs"], paths)[0], f"{version} on node {node}"


def differences(said, wanted):
    found = [f"{path}: not read" for path in wanted if path not in said]
    for path, columns in said.items():
        want = wanted[path]
        if list(columns) != list(want):
            found.append(f"{path}: columns {sorted(set(columns) ^ set(want))} are in one only, or in another order")
        found += [f"{path}: {c}: {columns[c]} instead of {want[c]}" for c in want if c in columns and columns[c] != want[c]]
    return found


def note(log, reader, version, wanted, wrong, seconds):
    tables = {Path(path).stem for path in wanted}
    columns = {(Path(path).stem, c) for path, found in wanted.items() for c in found}
    count = sum(rows for found in wanted.values() for rows, *_ in found.values())
    outcome = f"{len(wrong)} differences" if wrong else "equal"
    line = [resumable.commit(), reader, f"{version}, pyarrow {pyarrow.__version__}", len(wanted), len(tables), len(columns), count, outcome, f"{seconds:.0f}"]
    with open(log, "a") as f:
        f.write("\t".join(map(str, line)) + "\n")
    print(*line)
    for text in wrong[:20]:
        print("   ", text[:600])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readers", nargs="*", choices=("hyparquet", "spark"), default=("hyparquet", "spark"))
    parser.add_argument("--log", default=HERE / "log.tsv")
    parser.add_argument("--spark-python", default=sys.executable)
    args = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory(prefix="kymo-readers-") as work:
        paths = files_of(coverage_profiles.make(Path(work)))
        wanted = pyarrow_says(paths)
        for reader in args.readers:
            begin = time.monotonic()
            said, version = hyparquet_says(paths) if reader == "hyparquet" else ask([args.spark_python, HERE / "spark_read.py"], paths)
            wrong = differences(said, wanted)
            note(args.log, reader, version, wanted, wrong, time.monotonic() - begin)
            failed = failed or bool(wrong)
    return failed


if __name__ == "__main__":
    sys.exit(main())
