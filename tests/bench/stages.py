"""Where kymo-process spends its time: one sampled run on one thread, summed by stage.

usage: stages.py BUILD [RECORDS]

Wants perf. A sample belongs to the source file of the innermost function at its address, inlined ones included, and that to a
stage; samples outside of the program to the library, or the kernel.
"""

from collections import Counter
import os
from pathlib import Path
import re
import subprocess
import sys
import tempfile

# The first that a file's path begins with counts.
STAGES = (
    ("formats/ntff/", "reading and decoding records"),
    ("pipeline/rings/ring_io", "reading and decoding records"),
    ("pipeline/rings/scan", "scan"),
    ("pipeline/rings/", "pairing, clocks, ledger"),
    ("pipeline/dma/dma_rows", "rows of DMA tables"),
    ("pipeline/dma/", "DMA: pairing, merge, transfers"),
    ("pipeline/instructions/instr_rows", "rows of Instruction"),
    ("pipeline/instructions/", "instructions: pairing, merge, resolve"),
    ("pipeline/semaphores/", "semaphores"),
    ("pipeline/flow/", "flow and waits"),
    ("pipeline/hierarchy/", "hierarchy"),
    ("pipeline/formulas/intervals", "hierarchy"),
    ("pipeline/series/", "series"),
    ("pipeline/formulas/rates", "series"),
    ("pipeline/formulas/", "summary and formulas"),
    ("pipeline/summary/", "summary and formulas"),
    ("pipeline/lod/lod", "level of detail"),
    ("pipeline/lod/", "sums by stretch of time"),
    ("pipeline/spill/", "queues, sorting, spill"),
    ("pipeline/", "handing over to consumers, the rest"),
    ("formats/parquet/", "encoding"),
    ("base/", "files and memory"),
)


def profile(build, scratch, records):
    """perf's own words about one run."""
    neff, ntff, data, program = scratch / "a.neff", scratch / "a.ntff", scratch / "perf.data", build / "bin/kymo-process"
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([build / "bin/kymo-sim", "neff", "--model", "attention", "--arch", "trn2", "--lnc", "1", "--repeat", "50",
                    "--output", neff], **quiet)
    subprocess.run([build / "bin/kymo-sim", "ntff", "--neff", neff, "--lnc", "1", "--events", records, "--dge", "1",
                    "--unlimited", "--seed", "1", "--output", ntff], **quiet)
    subprocess.run(["perf", "record", "-q", "-F", "2000", "-o", data, program, "--threads", "1", "--ntff", ntff, "--neff", neff,
                    "--output", scratch / "tables"], **quiet)
    return subprocess.run(["perf", "script", "-i", data, "--show-mmap-events", "-F", "ip,dso"], capture_output=True, text=True,
                          check=True).stdout.splitlines()


def count(lines, program):
    """How many samples each address of the program has, and each library or the kernel."""
    addresses, others, maps = Counter(), Counter(), []
    for line in lines:
        mapped = re.search(r"\[0x([0-9a-f]+)\(0x([0-9a-f]+)\) @ (0x[0-9a-f]+|0) .*r-xp " + re.escape(str(program)), line)
        if mapped:
            start, size, offset = (int(v, 16) for v in mapped.groups())
            maps.append((start, start + size, start - offset))
            continue
        sample = re.fullmatch(r"\s*([0-9a-f]+) \((.*)\)", line)
        if not sample:
            continue
        address, where = int(sample[1], 16), sample[2]
        base = next((b for start, end, b in maps if start <= address < end), None)
        if base is None:
            others["the kernel: files" if "kernel" in where else "zstd" if "zstd" in where else "C library"] += 1
        else:
            addresses[address - base] += 1
    return addresses, others


def sources(program, addresses):
    asked = "\n".join(hex(a) for a in addresses)
    out = subprocess.run(["addr2line", "-e", program], input=asked, capture_output=True, text=True, check=True).stdout
    return (line.split(":")[0] for line in out.splitlines())


def main():
    build, records = Path(sys.argv[1]).resolve(), sys.argv[2] if len(sys.argv) > 2 else "10000000"
    with tempfile.TemporaryDirectory() as directory:
        lines = profile(build, Path(directory), records)
    addresses, stages = count(lines, build / "bin/kymo-process")
    whole = sum(addresses.values()) + sum(stages.values())
    for path, n in zip(sources(build / "bin/kymo-process", addresses), addresses.values()):
        path = os.path.relpath(os.path.join(build, path), build.parent)
        stages[next((stage for prefix, stage in STAGES if path.startswith(prefix)), "files and memory")] += n
    for stage, n in stages.most_common():
        print(f"{stage}: {100 * n / whole:.1f} %")


if __name__ == "__main__":
    main()
