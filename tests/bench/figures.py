"""What the benches in Python share: measuring a program, printing figures, and the log that lets a run go on."""

from datetime import datetime, timezone
import os
from pathlib import Path
import subprocess
import sys
import time

sys.path.insert(0, str(Path(__file__).parent.parent / "oracle"))
from resumable import commit  # noqa: E402

LOG = Path(__file__).with_name("log.tsv")
HEAD = ("commit", "date", "bench", "count", "seed", "seconds", "figures")


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


class Clock:
    """Seconds of this process's CPU, which a busy machine does not stretch, and of the wall."""

    def __init__(self):
        self.cpu, self.wall = time.process_time(), time.perf_counter()

    def seconds(self):
        return time.process_time() - self.cpu, time.perf_counter() - self.wall


def logged(bench, count, seed):
    """The figures that the log has for this commit, or None."""
    if not LOG.exists():
        return None
    for line in LOG.read_text().splitlines():
        row = dict(zip(HEAD, line.split("\t")))
        if (row["commit"], row["bench"], row["count"], row["seed"]) == (commit(), bench, str(count), str(seed)):
            pairs = (figure.split("=") for figure in row["figures"].split())
            return {name: float(value) if "." in value or "e" in value else int(value) for name, value in pairs}
    return None


def log(bench, count, seed, seconds, figures):
    row = (commit(), datetime.now(timezone.utc).strftime("%Y-%m-%d"), bench, str(count), str(seed), f"{seconds:.0f}",
           " ".join(f"{name}={float(value):.5g}" if isinstance(value, float) else f"{name}={value}"
                    for name, value in figures.items()))
    if not LOG.exists():
        LOG.write_text("\t".join(HEAD) + "\n")
    with open(LOG, "a", encoding="utf-8") as f:
        f.write("\t".join(row) + "\n")
