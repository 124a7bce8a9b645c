"""What kymo view answers about one profile, and how long it takes: random windows of the timeline, summaries, boxes, operators,
marks of a search and sampled exports, at every width from all of the profile down to some microseconds.

usage: serve.py BUILD PROFILE [ROUNDS]

PROFILE is a directory of tables, for instance of ntff_to_parquet.py. Prints wall times as who asks sees them and the CPU time that the
server's processes took for it, which a busy machine does not stretch.
"""

import http.client
import json
import os
from pathlib import Path
import random
import statistics
import subprocess
import sys
import tempfile
import time
from urllib.parse import urlencode

from figures import say

WIDTH = 1920
SEED = 1
FIRST_WAIT_S = 30


def descendants(pid):
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            children = (task / "children").read_text().split()
        except FileNotFoundError:  # a thread that has just ended
            continue
        for child in children:
            yield int(child)
            yield from descendants(int(child))


def cpu_of(pids):
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_of(pids):
    """Greatest resident memory of all of them, MB."""
    lines = (line for pid in pids for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


class View:
    def __init__(self, build, profile):
        self.scratch = tempfile.TemporaryDirectory(prefix="kymo-bench-")
        ports = Path(self.scratch.name) / "ports"
        self.child = subprocess.Popen([Path(build) / "bin" / "kymo", "view", "--http", "127.0.0.1:0", "--ports-file", ports, profile],
                                      stdout=subprocess.DEVNULL, env={**os.environ, "XDG_STATE_HOME": "/dev/null"})
        end = time.monotonic() + FIRST_WAIT_S
        while not (ports.exists() and "=" in ports.read_text()):
            if time.monotonic() > end or self.child.poll() is not None:
                sys.exit("kymo view does not start")
            time.sleep(0.05)
        self.connection = http.client.HTTPConnection("127.0.0.1", int(ports.read_text().split("=")[1]), timeout=300)
        (self.name,) = (p["name"] for p in json.loads(self.ask("/api/v1/profiles"))["profiles"])

    def pids(self):
        return [self.child.pid, *descendants(self.child.pid)]

    def ask(self, path):
        self.connection.request("GET", path)
        answer = self.connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            sys.exit(f"{path}: {answer.status} {body[:200]}")
        return body

    def op(self, op, **params):
        return self.ask(f"/api/v1/profiles/{self.name}/{op}?{urlencode({k.rstrip('_'): v for k, v in params.items()})}")

    def close(self):
        self.child.terminate()
        self.child.wait(30)
        self.scratch.cleanup()


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def show(view, name, questions):
    """questions: of (op, params)"""
    walls, cpus, size = [], [], 0
    for op, params in questions:
        cpu, wall = cpu_of(view.pids()), time.perf_counter()
        size = max(size, len(view.op(op, **params)))
        walls.append((time.perf_counter() - wall) * 1000)
        cpus.append((cpu_of(view.pids()) - cpu) * 1000)
    say(f"serve_{name}_p50", statistics.median(walls), "ms")
    if len(walls) > 4:
        say(f"serve_{name}_p95", percentile(walls, 0.95), "ms")
    say(f"serve_{name}_cpu", statistics.mean(cpus), "ms")
    say(f"serve_{name}_bytes", size, "bytes")


def windows(extent, rounds, random_):
    """Of lengths from the whole down to 10 us, evenly on a logarithmic scale."""
    whole = extent["to"] - extent["from"]
    for _ in range(rounds):
        length = max(2, int(whole * (min(10_000 / whole, 1) ** random_.random())))
        start = extent["from"] + random_.randrange(max(1, whole - length))
        yield {"from_": start, "to": start + length}


def main():
    build, profile, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 40
    view, random_ = View(build, profile), random.Random(SEED)
    try:
        begin = time.perf_counter()
        overview = json.loads(view.op("overview"))
        say("serve_first_overview", (time.perf_counter() - begin) * 1000, "ms")
        extent, tracks = overview["extent"], overview["tracks"]
        say("serve_events", sum(t["events"] for t in tracks if t["kind"] in ("instruction", "dma_engine", "dma_transfer")), "events")
        whole = {"from_": extent["from"], "to": extent["to"] + 1}
        tried = list(windows(extent, rounds, random_))
        ids = lambda *kinds: ",".join(t["id"] for t in tracks if t["kind"] in kinds)
        some = ",".join(t["id"] for t in tracks if t["kind"] in ("instruction", "dma_engine"))[:2000].rsplit(",", 1)[0]
        queue = next(iter(t["label"] for t in tracks if t["kind"] == "dma_transfer"))
        row = json.loads(view.op("operators", sort="-time_ns"))["rows"][0]
        show(view, "timeline_whole", [("timeline", {**whole, "width": WIDTH})] * 3)
        show(view, "timeline", [("timeline", {**w, "width": WIDTH}) for w in tried])
        show(view, "timeline_queues", [("timeline", {**w, "width": WIDTH, "dma": "queue"}) for w in tried])
        show(view, "series", [("series", {**w, "width": WIDTH}) for w in tried])
        show(view, "summary_whole", [("summary", whole)] * 3)
        show(view, "summary", [("summary", w) for w in tried])
        show(view, "box_whole", [("summary", {**whole, "tracks": ids("instruction", "dma_engine", "dma_transfer")})] * 2)
        show(view, "box_some", [("summary", {**whole, "tracks": some})] * 2)
        show(view, "operators_whole", [("operators", {"sort": "-time_ns"})] * 3)
        show(view, "operators_below", [("operators", {"parent": row["id"]})] * 3)
        show(view, "operators", [("operators", w) for w in tried[:10]])
        find = {"category": "dma", "field": "queue_name", "value": queue[:12], "match": "partial"}
        show(view, "search_dma", [("search", find)] * 2)
        show(view, "marks_dma", [("search", {**find, **whole, "width": WIDTH, "marks": 1})] * 2)
        show(view, "marks_dma_variable", [("search", {**find, "field": "variable", "value": "a", **whole, "width": WIDTH, "marks": 1})] * 2)
        find = {"category": "instruction", "field": "opcode", "value": "MATMUL"}
        show(view, "marks_instruction", [("search", {**find, **whole, "width": WIDTH, "marks": 1})] * 2)
        for table in ("DmaPacket", "Instruction"):
            show(view, f"export_sampled_{table}", [("export", {"tables": table, **whole, "width": WIDTH})])
        say("serve_memory", memory_of(view.pids()), "MB")
    finally:
        view.close()


if __name__ == "__main__":
    main()
