#!/usr/bin/python3
"""Kills kymod, kymo-collector and kymo-process at random moments under simulated jobs, and holds what arrived against
what the jobs' hooks finished.

    tests/crash/loop.py [--kills N] [--batch N] [--seconds S] [--squeeze] [--build DIR] [--seed N] [--log FILE | --no-log]

Each batch starts long jobs and one short one after another, kills with SIGKILL every fraction of a second, one or both ends
at once, and restarts at once (now and then one is asked to stop in order instead, which must succeed). Half of the kills
come some milliseconds after something happened that takes several steps: a hook finished a capture, the collector began to
receive one, or published one. Then it lets all settle, and checks:

- each capture that a hook finished (its name appeared in the intake, as inotify tells) is in raw/captures, put there once
  and as its manifest says, or a loss row with a cause stands for it at the collector; with --squeeze the spool is small and the
  collector stays down for seconds now and then, so that captures are given up
- each of its profiles is ready; nothing is left half-done; kymo verify closes; kymo spool check finds nothing
- the jobs wrote what they write without kymo, and ended as they do then

A batch adds a line to the log (tests/crash/loop.tsv), so that runs sum up. Exit code 1: a promise was broken; the directory
with all that is left is then kept and named.
"""

import argparse
import ctypes
import hashlib
import json
import os
import random
import select
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
COLUMNS = (
    "date commit seed seconds kills kymod kymo-collector kymo-process finished read-in-job arrived lost-with-row "
    "interrupted profiles verified result"
).split()
PAUSE = (0.05, 0.7)  # s between a restart and the next kill
ASK = (0.1, 0.6)  # s between captures on demand
SETTLE_S = 180
# name, nops of the program, ranks, first logical core, steps (0: as long as the kills take; else again and again)
JOBS = (("small", 8, 2, 0, 0), ("large", 1200, 1, 8, 0), ("short", 60, 1, 16, 40))
STEP_MS = 40
STOPS = 0.1  # of all
AWAY = (1, 6)  # s that a collector stays down with --squeeze
EVENT_S = 0.04  # after an event
PROFILE_KILLS_MAX = 2  # the third one is the profile's last: work_queue.h
VERIFY_SAMPLE = 5

IN_CREATE, IN_MOVED_TO, IN_Q_OVERFLOW, IN_ONLYDIR = 0x100, 0x80, 0x4000, 0x1000000


class Broken(Exception):
    """A promise that was not kept."""


class Watch:
    """Names that appear in directories by rename, in order."""

    def __init__(self):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self.paths = {}

    def add(self, path):
        watch = self.libc.inotify_add_watch(self.fd, str(path).encode(), IN_CREATE | IN_MOVED_TO | IN_ONLYDIR)
        if watch >= 0:
            self.paths[watch] = Path(path)
        return watch >= 0

    def read(self):
        """(directory, name, came by rename)"""
        try:
            data = os.read(self.fd, 1 << 20)
        except BlockingIOError:
            return
        offset = 0
        while offset < len(data):
            watch, mask, _, size = struct.unpack_from("iIII", data, offset)
            name = data[offset + 16 : offset + 16 + size].rstrip(b"\0").decode()
            offset += 16 + size
            if mask & IN_Q_OVERFLOW:
                raise Broken("inotify lost events: the account is not known")
            if watch in self.paths and name:
                yield self.paths[watch], name, bool(mask & IN_MOVED_TO)


def fields(data):
    """(number, value) of a protobuf message's varints and length-delimited fields."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 2:
            size = varint()
            at += size
            yield key >> 3, data[at - size : at]
        else:
            raise Broken(f"manifest: wire type {key & 7}")


def manifest_files(path):
    """name, size and SHA-256 of each file of a manifest.pb (proto/manifest.proto)."""
    for number, value in fields(path.read_bytes()):
        if number == 14:
            file = dict(fields(value))
            yield file[1].decode(), file.get(3, 0), file[4].hex()


class Loop:
    """Collector and daemon on one data directory, and the captures of all batches of this run."""

    def __init__(self, build, work, seed, squeeze):
        self.bin, self.work, self.random = build / "bin", work, random.Random(seed)
        self.hook = build / "lib" / "libkymo-hook.so"
        self.data, self.host = work / "data", work / "host"
        self.programs, self.jobs, self.asking = {}, {}, []
        self.kills = dict.fromkeys(("kymod", "kymo-collector", "kymo-process"), 0)
        self.profile_kills = {}
        self.squeeze = squeeze
        self.finished, self.arrived, self.checked = set(), {}, set()
        self.lost, self.interrupted = 0, 0  # of the batches before
        self.written = {}  # SHA-256 of NTFFs as the job wrote them, by capture: of those that could be read in time
        self.neffs, self.plain = {}, {}
        for name, nops, *_ in JOBS:
            self.neffs[name] = work / f"{name}.neff"
            self.run(build / "driver-iface/sim/sim-sample-neff", "Trn2", 1, nops, self.neffs[name])
        with socket.socket() as s:  # the same port at every restart; below those that connections get
            while True:
                port = self.random.randrange(20000, 32000)
                try:
                    s.bind(("127.0.0.1", port))
                    break
                except OSError:
                    continue
        (work / "kymod.conf").write_text(
            f"data-dir = {self.host}\nsocket-dir = {work}\nmetrics = 0\nspool-floor = 0\nperiod = 1\njitter = 0.3\n"
            f"host = crash\ncollector = 127.0.0.1:{port}\ncpu-limit = 0\ndisk-limit = 0\n"
            + ("spool-bytes = 2M\nspool-capture-bytes = 1M\n" if squeeze else "")
        )
        self.commands = {
            "kymo-collector": ["--data-path", self.data, "--listen", f"127.0.0.1:{port}", "--http", "off", "--retry", "1", "--gather-settle", "0"],
            "kymod": ["--config", work / "kymod.conf"],
        }
        self.watch, self.events = Watch(), 0
        for directory in (self.host / "intake", self.data / "raw" / "captures", self.data / "raw" / "incoming"):
            directory.mkdir(parents=True)
            self.watch.add(directory)

    def run(self, *command, codes=(0,)):
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        if done.returncode not in codes:
            raise Broken(f"{Path(command[0]).name} {command[1]} ended with {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}")
        return done.stdout

    def start(self, name):
        with open(self.work / f"{name}.log", "a") as log:
            command = [str(self.bin / name)] + [str(c) for c in self.commands[name]]
            self.programs[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def note_finished(self, directory, id):
        self.finished.add(id)
        for path in (directory / id, directory.with_suffix(".t") / id / "files"):
            try:
                for file in path.rglob("*.ntff"):
                    self.written.setdefault(id, set()).add(hashlib.sha256(file.read_bytes()).hexdigest())
            except OSError:
                pass  # on its way into the spool

    def look(self):
        """Takes note of what appeared, and that nothing ended by itself."""
        for directory, name, renamed in self.watch.read():
            path = directory / name
            self.events += 1
            if directory.name == "intake":
                if name.endswith(".d") and self.watch.add(path):
                    for found in path.iterdir():
                        if not found.name.endswith(".part"):
                            self.note_finished(path, found.name)
            elif directory.name == "captures":
                if name in self.arrived:
                    raise Broken(f"capture {name} was stored twice")
                self.arrived[name] = path.stat().st_ino
            elif directory.name != "incoming" and renamed and not name.endswith(".part"):
                self.note_finished(directory, name)
        for name, program in self.programs.items():
            if program.poll() is not None:
                raise Broken(f"{name} ended by itself with {program.returncode}: {(self.work / f'{name}.log').read_text()[-600:]}")
        for asking, since in self.asking[:]:
            if asking.poll() is not None:
                self.asking.remove((asking, since))
                if asking.returncode not in (0, 1, 4, 5):
                    raise Broken(f"kymo capture ended with {asking.returncode}")
            elif time.monotonic() - since > 30:
                raise Broken("kymo capture hangs")

    def pause(self, seconds):
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.look()
            select.select([self.watch.fd], [], [], min(left, 0.05))

    def processors(self):
        """(pid, profile) of the collector's children that may be killed."""
        pid = self.programs["kymo-collector"].pid
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                found = children.read_text().split()
            except OSError:
                continue
            for child in found:
                try:
                    line = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                if b"--name" in line and line[0].endswith(b"kymo-process"):
                    profile = line[line.index(b"--name") + 1].decode()
                    if self.profile_kills.get(profile, 0) < PROFILE_KILLS_MAX:
                        yield int(child), profile

    def kill_processor(self):
        until = time.monotonic() + 1
        while time.monotonic() < until:
            for pid, profile in self.processors():
                self.pause(self.random.uniform(0, 0.05))
                if not any(pid == p for p, _ in self.processors()):
                    continue
                os.kill(pid, signal.SIGKILL)
                self.profile_kills[profile] = self.profile_kills.get(profile, 0) + 1
                self.kills["kymo-process"] += 1
                return True
            self.look()
            time.sleep(0.002)
        return False

    def await_event(self):
        seen, until = self.events, time.monotonic() + 1
        while self.events == seen and time.monotonic() < until:
            self.look()
            select.select([self.watch.fd], [], [], 0.05)
        time.sleep(self.random.uniform(0, EVENT_S))

    def kill_one(self):
        roll = self.random.random()
        if roll < 0.15 and self.kill_processor():
            return
        names = ["kymod"] if roll < 0.5 else ["kymo-collector"] if roll < 0.9 else ["kymod", "kymo-collector"]
        if self.random.random() < 0.5:
            self.await_event()
        for name in names:
            self.programs[name].kill()
        for name in names:
            self.programs.pop(name).wait()
            self.kills[name] += 1
        for name in names:
            if name == "kymo-collector" and self.squeeze and self.random.random() < 0.3:
                self.pause(self.random.uniform(*AWAY))
            self.start(name)

    def job_command(self, job, steps, *more):
        name, _, ranks, core, _ = job
        return [
            self.bin / "kymo-sim", "run", "--mode", "none", "--instance", "trn2.48xlarge", "--lnc", 1, "--ranks", ranks,
            "--first-core", core, "--steps", steps, "--neff", self.neffs[name], "--output", self.work / f"out-{name}", *more,
        ]  # fmt: skip

    def start_job(self, job, steps):
        name = job[0]
        env = {**os.environ, "LD_PRELOAD": str(self.hook), "KYMO_SOCKET": str(self.work), "KYMO_JOB": name}
        command = [str(c) for c in self.job_command(job, steps, "--step-ms", STEP_MS)]
        with open(self.work / f"job-{name}.txt", "w") as out:
            self.jobs[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env)

    def start_jobs(self, steps):
        steps = {job[0]: job[4] or steps for job in JOBS}
        for job in JOBS:
            if (job[0], steps[job[0]]) not in self.plain:
                lines = self.run(*self.job_command(job, steps[job[0]])).splitlines()
                self.plain[job[0], steps[job[0]]] = sorted(lines)
        for job in JOBS:
            self.start_job(job, steps[job[0]])

    def check_job(self, name, steps):
        code = self.jobs.pop(name).returncode
        if code != 0:
            raise Broken(f"job {name} ended with {code}")
        if sorted((self.work / f"job-{name}.txt").read_text().splitlines()) != self.plain[name, steps]:
            raise Broken(f"job {name} wrote something else than without kymo: {self.work}/job-{name}.txt")

    def tend_jobs(self):
        """Short ones that ended are started again. Whether the long ones still run."""
        for job in JOBS:
            if job[4] and self.jobs[job[0]].poll() is not None:
                self.check_job(job[0], job[4])
                self.start_job(job, job[4])
        return any(self.jobs[job[0]].poll() is None for job in JOBS if not job[4])

    def end_jobs(self, steps):
        until = time.monotonic() + 120
        while any(job.poll() is None for job in self.jobs.values()):
            if time.monotonic() > until:
                raise Broken("a job does not end")
            self.pause(0.05)
        for job in JOBS:
            self.check_job(job[0], job[4] or steps)

    def ask(self):
        if len(self.asking) < 4:
            mode = self.random.choice(([], [], ["--mode", "session"]))
            command = ["capture", "--socket", self.work, "--job", self.random.choice(JOBS)[0], *mode]
            asking = subprocess.Popen(
                [str(c) for c in (self.bin / "kymo", *command)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            self.asking.append((asking, time.monotonic()))

    def profiles(self):
        return json.loads(self.run(self.bin / "kymo", "profiles", "--json", "--data-path", self.data))["profiles"]

    def unsettled(self):
        """What is not done yet; None: all is."""
        left = list((self.host / "intake").iterdir())
        if left:
            return f"{left[0]} is in the intake"
        status = json.loads(self.run(self.bin / "kymo", "status", "--json", "--socket", self.work))
        pending = [p.name for p in (self.host / "spool" / "captures").iterdir()]
        if pending or [p.name for p in (self.host / "spool" / "staging").iterdir()]:
            return f"the spool holds {pending}; status {status}"
        # What a host gave up after the collector had begun to receive it waits there, by default for days (collector/incoming.h).
        missing, rows = self.finished - set(self.arrived), self.losses()
        incoming = {p.name for p in (self.data / "raw" / "incoming").iterdir()} - missing
        if incoming:
            return f"raw/incoming holds {sorted(incoming)}"
        busy = [p for p in self.profiles() if p["state"] not in ("ready", "failed") or p.get("fleet") in ("waiting", "working")]
        if busy:
            return f"{busy[0]}"
        if len(missing) > sum(n for cause, n in rows.items() if cause != "interrupted"):
            return f"finished in the job, but neither stored nor in a loss row of the collector: {sorted(missing)}; rows {rows}"
        return None

    def settle(self):
        until = time.monotonic() + SETTLE_S
        while (why := self.unsettled()) is not None:
            if time.monotonic() > until:
                raise Broken(f"does not settle: {why}")
            self.pause(0.2)
        self.pause(0.1)

    def stop(self, name, codes=(0,)):
        program = self.programs.pop(name)
        program.terminate()
        try:
            code = program.wait(30)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()
            raise Broken(f"{name} does not end on SIGTERM") from None
        if code not in codes:
            raise Broken(f"{name} ended with {code} on SIGTERM: {(self.work / f'{name}.log').read_text()[-600:]}")

    def end_all(self):
        """After a failure: nothing that was started stays."""
        for process in [*self.programs.values(), *self.jobs.values(), *(a for a, _ in self.asking)]:
            if process.poll() is None:
                process.terminate() if process in self.jobs.values() else process.kill()
                process.wait()

    def check_capture(self, id):
        directory = self.data / "raw" / "captures" / id
        if directory.stat().st_ino != self.arrived[id]:
            raise Broken(f"capture {id} is another directory than the one that arrived")
        files = list(manifest_files(directory / "manifest.pb"))
        if not self.written.get(id, set()) <= {sha256 for _, _, sha256 in files}:
            raise Broken(f"capture {id}: not the bytes that the job wrote")
        for name, size, sha256 in files:
            path = directory / name
            if name.endswith(".neff"):
                path = self.data / "raw" / "neff" / f"{sha256}.neff"
            data = path.read_bytes()
            if len(data) != size or hashlib.sha256(data).hexdigest() != sha256:
                raise Broken(f"{path}: not what the manifest says")

    def losses(self):
        """Captures in the collector's loss rows, by cause."""
        with sqlite3.connect(f"file:{self.data}/catalog.db?mode=ro", uri=True) as db:
            return dict(db.execute("SELECT cause, sum(captures) FROM host_losses GROUP BY cause"))

    def check(self):
        """Returns captures lost with a row, interrupted ones, profiles, and profiles that were verified."""
        check = self.run(self.bin / "kymo", "spool", "check", self.host / "spool")
        if ", 0 problems" not in check:
            raise Broken(f"kymo spool check: {check}")
        new = set(self.arrived) - self.checked
        moved = {p.name for p in (self.data / "raw" / "captures").iterdir()} ^ set(self.arrived)
        if moved:
            raise Broken(f"arrived and not in raw/captures, or the reverse: {sorted(moved)}")
        for id in new:
            self.check_capture(id)
        missing, interrupted = self.finished - set(self.arrived), self.losses().get("interrupted", 0)
        if new - self.finished:
            raise Broken(f"arrived, but no hook finished them: {sorted(new - self.finished)}")
        profiles = [p for p in self.profiles() if p.get("capture") in new]
        failed = [p for p in profiles if p["state"] != "ready"]
        if failed:
            raise Broken(f"profile failed: {failed[0]}")
        without = new - {p["capture"] for p in profiles}
        if without:
            raise Broken(f"captures without a profile: {sorted(without)}")
        names = {f"{p['name']}@latest" for p in self.profiles()}
        stray = {p.name for p in (self.data / "profiles" / "global").iterdir()} ^ names
        if stray:
            raise Broken(f"profiles/global and catalogue differ: {sorted(stray)}")
        left = list((self.data / "work").iterdir())
        if left:
            raise Broken(f"left half-done: {left}")
        sample = self.random.sample(profiles, min(VERIFY_SAMPLE, len(profiles)))
        for profile in sample:
            self.run(self.bin / "kymo", "verify", self.data / "profiles" / "global" / f"{profile['name']}@latest")
        counts = len(missing) - self.lost, interrupted - self.interrupted, len(profiles), len(sample)
        self.checked |= new
        self.lost, self.interrupted = len(missing), interrupted
        return counts

    def batch(self, kills):
        steps = int((kills * (sum(PAUSE) / 2 + (0.8 if self.squeeze else 0.25)) + 2) * 1000 / STEP_MS)
        for name in self.commands:
            self.start(name)
        self.pause(0.3)
        self.start_jobs(steps)
        self.pause(1)
        ask_at = kill_at = time.monotonic()
        while sum(self.kills.values()) < kills and self.tend_jobs():
            now = time.monotonic()
            if now >= ask_at:
                self.ask()
                ask_at = now + self.random.uniform(*ASK)
            if now >= kill_at:
                if self.random.random() < STOPS:
                    name = self.random.choice(list(self.commands))
                    # One that has just been started may not hear the signal yet.
                    self.stop(name, (0, -signal.SIGTERM))
                    self.start(name)
                else:
                    self.kill_one()
                kill_at = time.monotonic() + self.random.uniform(*PAUSE)
            self.pause(0.01)
        self.end_jobs(steps)
        self.settle()
        for name in self.commands:
            self.stop(name)
        return self.check()


def commit():
    done = subprocess.run(["git", "-C", TOP, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def add_line(log, values):
    new = not log.exists()
    with open(log, "a") as f:
        if new:
            print(*COLUMNS, sep="\t", file=f)
        print(*(values[c] for c in COLUMNS), sep="\t", file=f)


def run_batch(loop, seed, kills, at):
    """The batch's line for the log, and why it failed or None."""
    loop.kills = dict.fromkeys(loop.kills, 0)
    finished, arrived, written, begin = len(loop.finished), len(loop.arrived), len(loop.written), time.monotonic()
    why, counts = None, (0, 0, 0, 0)
    try:
        counts = loop.batch(kills)
    except (Broken, OSError, subprocess.SubprocessError) as e:
        why = f"{type(e).__name__}: {e}"
    values = {"date": time.strftime("%F", time.gmtime()), "commit": at, "seed": seed, "seconds": round(time.monotonic() - begin)}
    values |= {"kills": sum(loop.kills.values()), **loop.kills}
    values |= {"finished": len(loop.finished) - finished, "arrived": len(loop.arrived) - arrived}
    values["read-in-job"] = len(loop.written) - written
    values |= dict(zip(("lost-with-row", "interrupted", "profiles", "verified"), counts))
    values["result"] = ("broken" if why else "clean") + (", squeezed" if loop.squeeze else "")
    return values, why


def main():
    parser = argparse.ArgumentParser(description="Kills both ends of the loop under simulated jobs.")
    parser.add_argument("--kills", type=int, default=50, help="so many in this run (50)")
    parser.add_argument("--batch", type=int, default=50, help="kills between two checks (50)")
    parser.add_argument("--seconds", type=int, default=0, help="begin no batch after so many")
    parser.add_argument("--squeeze", action="store_true", help="a small spool, and a collector that stays down now and then")
    parser.add_argument("--build", type=Path, default=Path(os.environ.get("KYMO_BUILD", TOP / "build")))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--log", type=Path, default=TOP / "tests/crash/loop.tsv")
    parser.add_argument("--no-log", action="store_true")
    options = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="kymo-crash-loop.", dir=os.environ.get("TMPDIR")))
    loop, begin, left = Loop(options.build.resolve(), work, options.seed, options.squeeze), time.monotonic(), options.kills
    why, at = None, commit()  # it may move on meanwhile
    try:
        while left > 0 and why is None:
            if options.seconds and time.monotonic() - begin > options.seconds:
                break
            values, why = run_batch(loop, options.seed, min(left, options.batch), at)
            left -= min(left, options.batch)
            print("loop.py: " + ", ".join(f"{c} {values[c]}" for c in COLUMNS[2:]), flush=True)
            if not options.no_log:
                add_line(options.log, values)
    finally:
        loop.end_all()
    if why:
        print(f"loop.py: {why}\nloop.py: kept: {work}", file=sys.stderr)
        return 1
    shutil.rmtree(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
