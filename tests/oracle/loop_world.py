"""A host with a daemon, a collector, and simulated jobs, on loopback below one directory. Every process is ended by pid."""

from contextlib import closing
from pathlib import Path
import json
import os
import signal
import sqlite3
import subprocess
import time

import captures
from profiles import BIN, INSTANCES, make_neff

LIMIT = 120  # seconds that anything may take
HOOK = BIN.parent / "lib" / "libkymo-hook.so"

# A shell that runs this in the background lets it ignore what its jobs are to react to.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def wait(what, condition, seconds=LIMIT, pause=0.05):
    """What condition returns once that is true."""
    until = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < until, f"waited too long for {what}"
        time.sleep(pause)
    return value


def text_of(path):
    return path.read_text(errors="replace") if path.exists() else ""


class Job:
    """One kymo-sim run."""

    def __init__(self, name, directory, options, environment):
        self.name, self.out, self.err, self.pids = name, directory / f"{name}.out", directory / f"{name}.err", directory / f"{name}.pids"
        command = [BIN / "kymo-sim", "run", "--output", directory / name, "--mode", "none", "--pids", self.pids, *options]
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                            env={**os.environ, **environment})

    def lines(self):
        return text_of(self.out).splitlines()

    def steps(self, rank=0):
        """How many steps a rank has done."""
        return sum(line.startswith(f"rank {rank} step ") for line in self.lines())

    def is_over(self):
        return self.process.poll() is not None

    def wait_step(self, step, rank=0):
        wait(f"step {step} of {self.name}\n{text_of(self.err)}", lambda: self.steps(rank) >= step or self.is_over())

    def rank_pid(self, rank=0):
        return int(dict(line.split() for line in wait("pids", lambda: text_of(self.pids)).splitlines())[str(rank)])

    def end(self):
        """(exit code, lines of each rank, what it complained of)"""
        code = self.process.wait(timeout=LIMIT)
        # Ranks write side by side: the order of lines is that of each alone.
        return code, sorted(self.lines(), key=lambda line: line.split()[:2]), self.err.read_text()

    def stop(self):
        if not self.is_over():
            self.process.terminate()
            self.process.wait(timeout=LIMIT)


class World:
    def __init__(self, directory, daemon=(), collector=()):
        self.directory = Path(directory)
        self.data, self.truth = self.directory / "data", self.directory / "truth"
        self.sockets, self.host, self.sysfs = self.directory / "s", self.directory / "host", self.directory / "sysfs"
        for folder in (self.sockets, self.truth, self.sysfs):
            folder.mkdir()
        self.daemon_options, self.collector_options = daemon, collector
        self.jobs, self.daemon, self.collector, self.device, self.port = [], None, None, None, 0
        self.announced = set()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for job in self.jobs:
            job.stop()
        for process in (self.daemon, self.collector, self.device):
            if process and process.poll() is None:
                process.terminate()
                process.wait(timeout=LIMIT)

    def log(self, name):
        return text_of(self.directory / f"{name}.log")

    def _start(self, name, *command, **environment):
        with open(self.directory / f"{name}.log", "ab") as log:
            return subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                    env={**os.environ, **environment})

    def start_collector(self):
        ports = self.directory / "ports"
        ports.unlink(missing_ok=True)
        self.collector = self._start("collector", BIN / "kymo-collector", "--data-path", self.data, "--listen", f"127.0.0.1:{self.port}",
                                     "--http", "127.0.0.1:0", "--retry", 1, "--ports-file", ports, *self.collector_options)
        wait(f"the collector\n{self.log('collector')}", lambda: "uplink=" in text_of(ports) or self.collector.poll() is not None)
        assert self.collector.poll() is None, self.log("collector")
        self.port = int(ports.read_text().split("uplink=")[1].split()[0])

    def start_daemon(self, *more):
        before = len(self.log("daemon"))
        self.daemon = self._start("daemon", BIN / "kymod", "--data-dir", self.host, "--socket-dir", self.sockets, "--sysfs", self.sysfs,
                                  "--collector", f"127.0.0.1:{self.port}", "--metrics", "127.0.0.1:0", "--jitter", 0, "--cpu-limit", 0,
                                  "--disk-limit", 0, "--spool-floor", 0, "-v", *self.daemon_options, *more)
        wait("the daemon", lambda: "hooks at" in self.log("daemon")[before:] or self.daemon.poll() is not None)
        assert self.daemon.poll() is None, self.log("daemon")[before:]

    def start(self):
        self.start_collector()
        self.start_daemon()
        return self

    def end(self, process, number=signal.SIGTERM):
        """Ends a program; returns its exit code."""
        process.send_signal(number)
        return process.wait(timeout=LIMIT)

    def start_device(self, arch="trn2", lnc=1):
        """For several jobs on one host."""
        socket = self.directory / "device.sock"
        self.device = self._start("device", BIN / "kymo-sim", "device", "--socket", socket, "--instance", INSTANCES[arch], "--lnc", lnc,
                                  "--truth", self.truth, "--sysfs", self.sysfs)
        wait("the device", socket.exists)
        return ("--device", socket)

    def job(self, name, *options, arch="trn2", lnc=1, neffs=("mlp",), kymo=True):
        """Starts a job; kymo: with what a captured job is given, and nothing else."""
        programs = sum((["--neff", make_neff(self.directory, model, arch, lnc, True)] for model in neffs), [])
        host = ("--instance", INSTANCES[arch], "--lnc", lnc)
        if kymo and "--device" not in options:
            host += ("--truth", self.truth, "--sysfs", self.sysfs)
        environment = {"LD_PRELOAD": str(HOOK.resolve()), "KYMO_SOCKET": str(self.sockets)} if kymo else {}
        self.jobs.append(Job(name, self.directory, (*host, *programs, *options), environment))
        return self.jobs[-1]

    def wait_ranks(self, ranks):
        """Until the daemon that runs now has heard of so many."""
        def known():
            log = self.log("daemon")
            return log[log.rfind("hooks at"):].count("is process") >= ranks or self.jobs[-1].is_over()
        wait("the ranks", known)

    def kymo(self, *command):
        done = subprocess.run([str(c) for c in (BIN / "kymo", *command)], capture_output=True, text=True, timeout=LIMIT)
        return done.returncode, done.stdout, done.stderr

    @staticmethod
    def parse(out):
        """The captures that `kymo capture --json` tells of."""
        return json.loads(out)["captures"] if out else []

    def capture(self, *options, until="sent"):
        """[(id, state, text)] of captures asked for, once they have ended; asked for again while no rank can be captured."""
        def ask():
            code, out, err = self.kymo("capture", "--socket", self.sockets, "--json", "--wait=60", "--until", until, *options)
            assert not all(job.is_over() for job in self.jobs), f"the job is over: {out}{err}"
            return self.parse(out)
        found = [(c["id"], c["state"], c.get("text", "")) for c in wait("a capture", ask, 30)]
        self.announced |= {i for i, state, _ in found if state in ("saved", "spooled", "sent")}
        return found

    def status(self):
        code, out, err = self.kymo("status", "--socket", self.sockets, "--json")
        assert code == 0, err
        return json.loads(out)

    def settle(self):
        """Until nothing is under way any more on either side; returns the store's profiles."""
        def sent():
            status = self.status()
            states = {s["name"]: s["count"] for s in status["states"]}
            return states["under-way"] == 0 and status["spool_pending"] == 0
        wait("the daemon to send all", sent, pause=0.2)

        def made():
            rows = captures.profiles(BIN, self.data)
            return all(row["state"] in ("ready", "failed") for row in rows) and (rows or [None])
        return wait("the profiles", made, pause=0.2)

    def host_losses(self):
        """{cause: captures} that the collector was told of."""
        with closing(sqlite3.connect(f"file:{self.data}/catalog.db?mode=ro", uri=True)) as db:
            return dict(db.execute("SELECT cause, sum(captures) FROM host_losses GROUP BY cause"))

    def check(self, lossless=True):
        """What is wrong: every profile that the runtime wrote and every capture that was announced is there once, equal to the
        truth, closed; or the collector knows that so many were lost."""
        written = {i for i, _ in captures.true_profiles(self.truth)}
        rows = self.settle()
        there = {captures.hook_id(row["capture"]) for row in rows if row}
        count, wrong = captures.check(BIN, self.data, self.truth)
        missing = sorted((written | self.announced) - there)
        lost = sum(self.host_losses().values())
        if missing and (lossless or lost < len(missing)):
            wrong.append(f"did not arrive: {missing}; the collector knows of {self.host_losses()}")
        return count, wrong
