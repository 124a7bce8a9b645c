"""What processes take: proportional memory and CPU time of a process and of all below it, from /proc."""

import os
from pathlib import Path
import threading
import time

TICK = os.sysconf("SC_CLK_TCK")


def children():
    """parent: [child]"""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        found.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
    return found


def tree(root):
    below, todo = children(), [root]
    for pid in todo:
        todo.extend(below.get(pid, []))
    return todo


def name_of(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def pss(pids):
    """MB"""
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total * 1024 / 1e6


def browsers():
    """Chromium's processes that this one has started."""
    return [pid for pid in tree(os.getpid()) if name_of(pid).startswith("chrom")]


def cpu(pids):
    """Seconds of those processes that are there."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total / TICK


class Memory:
    """The most that the server and the browsers had, looked at every second."""

    def __init__(self, server):
        self.server, self.most, self.over = server, {"server": 0.0, "browser": 0.0}, threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def look(self):
        found = {"browser": pss(browsers())}
        if self.server:
            found["server"] = pss(tree(self.server))
        return found

    def watch(self):
        while not self.over.wait(1):
            for name, value in self.look().items():
                self.most[name] = max(self.most[name], value)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        for name, value in self.look().items():
            self.most[name] = max(self.most[name], value)


def idle_after(root, seconds, share=0.1, calm=0.5, window=0.1):
    """Seconds until the processes together take less than this share of a core for a while; None: not within the limit."""
    begin = time.monotonic()
    before, at, last = cpu(tree(root)), begin, 0.0
    while at - begin < seconds:
        time.sleep(window)
        now, then = cpu(tree(root)), time.monotonic()
        if (now - before) / (then - at) >= share:
            last = then - begin
        elif then - begin - last > calm:
            return last
        before, at = now, then
    return None
