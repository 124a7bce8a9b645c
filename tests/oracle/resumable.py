"""A long list of cells whose results are kept in a committed log, so that an interrupted run goes on where it was."""

import argparse
import itertools
import subprocess
import time


class Skipped(Exception):
    """Cannot be run here; the text says why."""


def commit():
    return subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()


def done_before(log, head, good):
    try:
        with open(log) as f:
            return {line.split("\t")[1] for line in f if line.startswith(head) and f"\t{good}\t" in line}
    except FileNotFoundError:
        return set()


def try_cell(cell, run_cell):
    """(result or None, sentences about what is wrong)"""
    try:
        return None, run_cell(cell)
    except Skipped as why:
        print(why)
        return "skipped", []
    except (AssertionError, subprocess.SubprocessError, OSError) as error:
        return None, [f"{type(error).__name__}: {error}"]


def main(doc, cells, run_cell, log, good, bad):
    """Runs every cell that the log does not hold for this commit; returns the exit code."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--log", default=log)
    parser.add_argument("--again", action="store_true", help="run cells too that the log already has for this commit")
    parser.add_argument("--only", default="", help="cells whose name contains this")
    parser.add_argument("--part", default="1/1", metavar="K/N", help="every Nth cell from the Kth on: several run side by side")
    args = parser.parse_args()
    part, parts = (int(n) for n in args.part.split("/"))
    head, failed = commit(), 0
    done = done_before(args.log, head, good)
    for cell in itertools.islice(cells, part - 1, None, parts):
        if (str(cell) in done and not args.again) or args.only not in str(cell):
            continue
        begin = time.monotonic()
        result, found = try_cell(cell, run_cell)
        failed += bool(found)
        line = f"{cell}\t{result or (bad if found else good)}\t{time.monotonic() - begin:.1f}"
        with open(args.log, "a") as f:
            f.write(f"{head}\t{line}\n")
        print(line.replace("\t", " "), flush=True)
        for sentence in found[:6]:
            print("   ", sentence[:900], flush=True)
    print(f"{failed} cells are {bad}")
    return 1 if failed else 0
