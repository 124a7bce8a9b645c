"""Cells of the loop's matrix in which something is killed in the middle of a capture, or a disk is full."""

from contextlib import contextmanager
from functools import partial
from pathlib import Path
import random
import signal
import subprocess
import time

from loop_world import World, wait
import captures
from profiles import BIN
from resumable import Skipped

RANKS = 2


def half_published(w):
    """What of the store is there in part."""
    found = [d for d in (w.data / "profiles" / "global").glob("*@latest") if not (d / "Metadata.parquet").exists()]
    return [str(d) for d in found + [d for d in (w.data / "raw" / "captures").glob("*") if not (d / "manifest.pb").exists()]]


def kill_daemon(w):
    w.end(w.daemon, signal.SIGKILL)
    found = half_published(w)
    w.start_daemon()
    return found


def kill_collector(w):
    w.end(w.collector, signal.SIGKILL)
    found = half_published(w)
    w.start_collector()
    return found


def kill_process(w):
    """A processor, unless it has been killed before: after the third time its profile fails, as it should."""
    def at_work():
        rows = captures.profiles(BIN, w.data)
        return any(row["state"] == "processing" and row["attempts"] < 2 for row in rows)
    until = time.monotonic() + 3
    while time.monotonic() < until:
        children = [pid for tasks in Path(f"/proc/{w.collector.pid}/task").glob("*/children") for pid in tasks.read_text().split()]
        if children and at_work():
            subprocess.run(["kill", "-9", *children], stderr=subprocess.DEVNULL)
            break
        time.sleep(0.01)
    return half_published(w)


VICTIMS = {"daemon": kill_daemon, "collector": kill_collector, "process": kill_process}


def run_kills(directory, times, victims, seed=1):
    chance, wrong = random.Random(seed), []
    with World(directory, daemon=("--period", 1, "--jitter", 0.5)) as w:
        w.start()
        job = w.job("job", "--ranks", RANKS, "--steps", 999999, "--step-ms", 30, "--handle-signals")
        for _ in range(times):
            w.wait_ranks(RANKS)
            code, out, _ = w.kymo("capture", "--socket", w.sockets, "--json")
            w.announced |= {c["id"] for c in w.parse(out)} if code == 0 else set()
            time.sleep(chance.random() * 0.8)
            wrong += [f"half-published: {path}" for path in VICTIMS[chance.choice(victims)](w)]
        w.wait_ranks(RANKS)
        w.capture()
        job.process.terminate()
        code, _, complaints = job.end()
        wrong += [f"the job: code {code}, {complaints}"] * (code != 128 + signal.SIGTERM)
        # One that was asked for when the daemon died may never have begun, but what was written must arrive.
        w.announced &= {i for i, _ in captures.true_profiles(w.truth)}
        count, found = w.check()
        return wrong + found + [f"{count} profiles"] * (count < times)


def run_full_spool(directory, policy):
    """The collector is away until more has been captured than the spool holds."""
    with World(directory, daemon=("--period", 0, "--spool-bytes", "1M", "--spool-full", policy)) as w:
        w.start_collector()
        w.end(w.collector)
        w.start_daemon()
        job = w.job("job", "--ranks", RANKS, "--steps", 999999, "--step-ms", 50, "--handle-signals")
        for rank in range(RANKS):
            job.wait_step(2, rank)
        states, said, until = set(), "", time.monotonic() + 40
        for _ in range(10):
            w.kymo("capture", "--socket", w.sockets, "--json", "--wait=2", "--until", "spooled")
            status = w.status()
            states.add(status["spool_state"])
            said = status.get("spool_reason") or said
            if time.monotonic() > until:
                break
        wrong = []
        if policy == "stop" and ("stopped" not in states or not said):
            wrong.append(f"the spool was {states}: {said}")
        w.start_collector()
        wait("the spool to recover", lambda: w.status()["spool_state"] == "ok" and w.status()["spool_pending"] == 0)
        wrong += [f"after it: {c}" for c in w.capture() if c[1] != "sent"]
        job.process.terminate()
        job.end()
        count, found = w.check(lossless=False)
        written = len({i for i, _ in captures.true_profiles(w.truth)})
        lost = sum(w.host_losses().values())
        if count + lost != written or lost == 0:
            wrong.append(f"{written} were written, {count} arrived, {w.host_losses()} lost")
        return wrong + found


@contextmanager
def tmpfs(path, size):
    path.mkdir(parents=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", path], capture_output=True, text=True)
    if done.returncode:
        raise Skipped(f"no tmpfs: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", path], check=True)


def fill(path, leave):
    """A file that leaves so many bytes."""
    filler = path / "filler"
    with open(filler, "wb", buffering=0) as f:
        try:
            while f.write(bytes(65536)) == 65536:
                pass
        except OSError:
            pass
    with open(filler, "r+b") as f:
        f.truncate(max(0, filler.stat().st_size - leave))
    return filler


def run_full_host(directory):
    """No room where jobs write captures and where the spool is."""
    host = Path(directory) / "host"
    with tmpfs(host, "24m"), World(directory, daemon=("--period", 0, "--spool-reserve", "1M")) as w:
        w.start()
        options = ("--ranks", RANKS, "--steps", 150)
        bare = w.job("bare", *options, kymo=False)
        job = w.job("job", *options, "--step-ms", 60)
        for rank in range(RANKS):
            job.wait_step(2, rank)
        wrong = [f"before: {c}" for c in w.capture() if c[1] != "sent"]
        filler = fill(host, 65536)
        during = w.capture("--wait=3")
        status = w.status()
        filler.unlink()
        wrong += [f"no room, but {c}" for c in during if c[1] == "sent"]
        wrong += [f"no reason: {during}, {status}"] * (not any(c[2] for c in during) and not status.get("spool_reason"))
        wait("room", lambda: any(c[1] == "sent" for c in w.capture()), 20)
        end, expected = job.end(), bare.end()
        # The runtime itself complains that it cannot write a profile.
        end = (*end[:2], "".join(line for line in end[2].splitlines(True) if not line.startswith("libnrt: ")))
        wrong += [f"the job: {end}; without kymo {expected}"] * (end != expected)
        count, found = w.check(lossless=False)
        return wrong + found + [f"{count} profiles"] * (count < RANKS + 1)


def run_full_store(directory):
    """No room at the collector."""
    data = Path(directory) / "data"
    with tmpfs(data, "48m"), World(directory, daemon=("--period", 0), collector=("--reserve", "1M")) as w:
        w.start()
        job = w.job("job", "--ranks", RANKS, "--steps", 999999, "--step-ms", 50, "--handle-signals")
        for rank in range(RANKS):
            job.wait_step(2, rank)
        wrong = [f"before: {c}" for c in w.capture() if c[1] != "sent"]
        filler = fill(data, 1 << 20)
        during = w.capture(until="spooled")
        wrong += [f"the host's spool: {c}" for c in during if c[1] != "spooled"]
        time.sleep(2)
        pending, there = w.status()["spool_pending"], len(list((data / "raw" / "captures").iterdir()))
        wrong += [f"{pending} pending, {there} published"] * (pending != RANKS or there != RANKS)
        wrong += [f"half-published: {path}" for path in half_published(w)]
        wrong += ["no reason in the collector's log"] * ("bytes are free" not in w.log("collector"))
        filler.unlink()
        job.process.terminate()
        job.end()
        count, found = w.check()
        return wrong + found + [f"{count} profiles"] * (count != 2 * RANKS)


def cells():
    found = {f"kill-{name}": partial(run_kills, times=4, victims=(name,)) for name in VICTIMS}
    found |= {f"kill-any-{times}": partial(run_kills, times=times, victims=tuple(VICTIMS)) for times in (6, 40)}
    found |= {f"full-spool-{policy}": partial(run_full_spool, policy=policy) for policy in ("drop-oldest", "drop-newest", "stop")}
    return found | {"full-host": run_full_host, "full-store": run_full_store}
