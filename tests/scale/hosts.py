#!/usr/bin/python3
"""Many simulated hosts on one collector: what they cost it, and that everything they send arrives once.

    tests/scale/hosts.py [--hosts N] [--captures N] [--rounds N] [--process] [--tls] [--build DIR] [--log FILE | --no-log]

The collector runs on one processor core (taskset), the crowd (hosts.h) wherever it likes. Some hosts have their connections
broken in the middle of files, some are slow, some hostile. In each round all connect, stay idle, and send; directly
before and after, the same files are written by a plain copy with the store's order of syncs, on the same file system. With
--process the collector makes profiles meanwhile, and the round ends when all are ready.

Each round adds a line to the log (tests/scale/hosts.tsv). Exit code 1: something did not arrive, or twice; 2: the machine's
limit on descriptors is too low.
"""

import argparse
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
COLUMNS = (
    "date commit hosts hostile breaking slow captures file-bytes processing tls connect-s connect-cpu-s idle-cpu-percent send-s cpu-s "
    "cpu-ms-per-capture rss-mb captures-per-s mb-per-s copy-mb-per-s ratio breaks resumed turned-away profiles profiles-s result"
).split()
TICKS = os.sysconf("SC_CLK_TCK")


class Broken(Exception):
    """Something did not arrive, or twice."""


def cpu_seconds(pid):
    """Of a process without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak_rss_mb(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0


def words(line):
    return {name: float(value) for name, value in (w.split("=") for w in line.split())}


def check_descriptors(hosts):
    need, hard = 2 * hosts + 256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < need:
        print(f"hosts.py: {hosts} hosts need {need} descriptors, and the limit is {hard}: see ulimit -Hn", file=sys.stderr)
        sys.exit(2)


class Round:
    def __init__(self, options, work):
        self.options, self.work, self.bin = options, work, options.build / "bin"
        self.data, self.certificates, self.processes = work / "data", work / "certificates", []

    def spawn(self, *command, **how):
        with open(self.work / "stderr.txt", "a") as log:
            process = subprocess.Popen([str(c) for c in command], stderr=log, text=True, **how)
        self.processes.append(process)
        return process

    def run(self, *command):
        return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True, timeout=600).stdout

    def make_files(self):
        """A program and a trace of one execution of it."""
        neff = self.work / "program.neff"
        self.run(self.options.build / "driver-iface/sim/sim-sample-neff", "Trn2", 1, self.options.nops, neff)
        self.run(self.bin / "kymo-sim", "run", "--instance", "trn2.48xlarge", "--lnc", 1, "--ranks", 1, "--steps", 2,
                 "--neff", neff, "--output", self.work / "sim")  # fmt: skip
        return max((self.work / "sim").rglob("*.ntff"), key=lambda p: p.stat().st_size), neff

    def copy(self, ntff, count):
        """Bytes a second of the plain copy."""
        directory = self.work / "copy"
        out = words(self.run("taskset", "-c", self.core(), self.bin / "scale_copy", directory, count, ntff))
        shutil.rmtree(directory)
        return out["bytes"] / out["seconds"]

    def core(self):
        return max(os.sched_getaffinity(0))

    def start_collector(self):
        ports = self.work / "ports"
        more = [] if self.options.process else ["--no-work"]
        if self.options.tls:
            # One certificate stands for all.
            self.certificates.mkdir()
            self.run(self.bin / "scale_hosts", "--make-tls", "--tls", self.certificates)
            more += ["--tls-cert", self.certificates / "server.pem", "--tls-key", self.certificates / "server.key"]
            more += ["--tls-ca", self.certificates / "ca.pem", "--max-per-host", self.options.hosts + 1]
        collector = self.spawn("taskset", "-c", self.core(), self.bin / "kymo-collector", "--data-path", self.data, "--listen",
                               "127.0.0.1:0", "--http", "off", "--log", "error", "--ports-file", ports, *more,
                               stdout=subprocess.DEVNULL)  # fmt: skip
        until = time.monotonic() + 20
        while not ports.exists() or "uplink=" not in ports.read_text():
            if collector.poll() is not None or time.monotonic() > until:
                raise Broken(f"the collector does not start: {(self.work / 'stderr.txt').read_text()}")
            time.sleep(0.05)
        port = next(line.split("=")[1] for line in ports.read_text().splitlines() if line.startswith("uplink="))
        return collector, f"127.0.0.1:{port}"

    def expect(self, crowd, word):
        line = crowd.stdout.readline().strip()
        if line != word:
            raise Broken(f"scale_hosts: {line or crowd.wait(5)} instead of {word}: {(self.work / 'stderr.txt').read_text()}")

    def send(self, collector, address, ntff, neff, values):
        options = self.options
        more = ["--tls", self.certificates] if options.tls else []
        before = cpu_seconds(collector.pid)
        crowd = self.spawn(self.bin / "scale_hosts", "--address", address, "--ntff", ntff, "--neff", neff, "--hosts",
                           options.hosts, "--captures", options.captures, "--seconds", options.seconds, "--breaking",
                           options.breaking, "--slow", options.slow, "--hostile", options.hostile, *more,
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
        self.expect(crowd, "connected")
        values["connect-cpu-s"] = round(cpu_seconds(collector.pid) - before, 2)
        before, begin = cpu_seconds(collector.pid), time.monotonic()
        time.sleep(options.idle)
        values["idle-cpu-percent"] = round(100 * (cpu_seconds(collector.pid) - before) / (time.monotonic() - begin), 2)
        before = cpu_seconds(collector.pid)
        crowd.stdin.write("\n")
        crowd.stdin.flush()
        self.expect(crowd, "sending")
        line = crowd.stdout.readline()
        values["cpu-s"] = round(cpu_seconds(collector.pid) - before, 2)
        values["rss-mb"] = round(peak_rss_mb(collector.pid), 1)
        crowd.stdin.close()
        crowd.wait(60)
        if not line or crowd.returncode != 0:
            raise Broken(f"scale_hosts ended with {crowd.returncode}: {line}{(self.work / 'stderr.txt').read_text()}")
        return words(line)

    def check_store(self, out):
        """Each capture of the honest is there once, byte for byte as large; of the hostile nothing."""
        captures = self.data / "raw" / "captures"
        found = {p.name: p for p in captures.iterdir()}
        if len(found) != int(out["wanted"]):
            raise Broken(f"{len(found)} captures of {int(out['wanted'])} are in {captures}")
        if len(list((self.data / "raw" / "neff").iterdir())) != 1:
            raise Broken("the shared NEFF is not there once")
        size = out["bytes"] / out["stored"]
        for path in found.values():
            if (path / "profile_nc_0.ntff").stat().st_size != size:
                raise Broken(f"{path}: another size")
        with sqlite3.connect(f"file:{self.data}/catalog.db?mode=ro", uri=True) as db:
            known = {row[0] for row in db.execute("SELECT id FROM captures WHERE state = 'received'")}
        if known != set(found):
            raise Broken(f"catalogue and raw/captures differ: {sorted(known ^ set(found))[:5]}")

    def wait_profiles(self, count):
        until = time.monotonic() + self.options.seconds
        while True:
            profiles = json.loads(self.run(self.bin / "kymo", "profiles", "--json", "--data-path", self.data))["profiles"]
            failed = [p for p in profiles if p["state"] == "failed"]
            if failed or len(profiles) != count:
                raise Broken(f"{len(profiles)} profiles of {count} captures; failed: {failed[:1]}")
            left = sum(p["state"] != "ready" for p in profiles)
            if left == 0:
                return
            if time.monotonic() > until:
                raise Broken(f"{left} profiles are not ready in time")
            time.sleep(1)

    def measure(self, values):
        ntff, neff = self.make_files()
        count = self.options.hosts * self.options.captures
        values["file-bytes"] = ntff.stat().st_size
        copied = [self.copy(ntff, count)]
        collector, address = self.start_collector()
        out = self.send(collector, address, ntff, neff, values)
        begin = time.monotonic()
        if self.options.process:
            self.wait_profiles(int(out["stored"]))
            values["profiles"] = int(out["stored"])
            values["profiles-s"] = round(time.monotonic() - begin + out["send_s"], 1)
        collector.terminate()
        if collector.wait(60) != 0:
            raise Broken(f"the collector ended with {collector.returncode}")
        self.check_store(out)
        copied.append(self.copy(ntff, count))
        copy = sum(copied) / len(copied)
        rate = out["bytes"] / out["send_s"]
        for name in ("hostile", "breaking", "slow", "breaks", "resumed"):
            values[name] = int(out[name])
        values |= {"captures": int(out["stored"]), "turned-away": int(out["turned_away"]), "connect-s": round(out["connect_s"], 2)}
        values |= {"send-s": round(out["send_s"], 2), "captures-per-s": round(out["stored"] / out["send_s"], 1)}
        values |= {"cpu-ms-per-capture": round(1e3 * values["cpu-s"] / out["stored"], 2), "mb-per-s": round(rate / 1e6, 2)}
        values |= {"copy-mb-per-s": round(copy / 1e6, 2), "ratio": round(rate / copy, 2)}

    def end_all(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()


def commit():
    done = subprocess.run(["git", "-C", TOP, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def one_round(options):
    """The line for the log; why it failed, or None."""
    work = Path(tempfile.mkdtemp(prefix="kymo-scale-hosts.", dir=os.environ.get("TMPDIR")))
    values = dict.fromkeys(COLUMNS, "-")
    values |= {"date": time.strftime("%F", time.gmtime()), "commit": commit(), "hosts": options.hosts}
    values |= {"processing": "yes" if options.process else "no", "tls": "yes" if options.tls else "no"}
    this, why = Round(options, work), None
    try:
        this.measure(values)
    except (Broken, OSError, subprocess.SubprocessError) as e:
        why = f"{type(e).__name__}: {e} {getattr(e, 'stderr', '') or ''}"
    finally:
        this.end_all()
        shutil.rmtree(work, ignore_errors=True)
    values["result"] = "broken" if why else "clean"
    return values, why


def main():
    parser = argparse.ArgumentParser(description="Many simulated hosts on one collector.")
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--captures", type=int, default=2, help="of each host (2)")
    parser.add_argument("--breaking", type=int, default=50, help="of a thousand, whose connections break (50)")
    parser.add_argument("--slow", type=int, default=30, help="of a thousand (30)")
    parser.add_argument("--hostile", type=int, default=20, help="of a thousand (20)")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--process", action="store_true", help="make profiles too")
    parser.add_argument("--tls", action="store_true", help="TLS 1.3 with client certificates")
    parser.add_argument("--idle", type=float, default=20, help="seconds without anything to do (20)")
    parser.add_argument("--nops", type=int, default=100, help="size of the program, and so of the trace (100)")
    parser.add_argument("--seconds", type=int, default=600, help="for a part of a round (600)")
    parser.add_argument("--build", type=Path, default=Path(os.environ.get("KYMO_BUILD", TOP / "build")))
    parser.add_argument("--log", type=Path, default=TOP / "tests/scale/hosts.tsv")
    parser.add_argument("--no-log", action="store_true")
    options = parser.parse_args()
    options.build = options.build.resolve()
    check_descriptors(options.hosts)
    for _ in range(options.rounds):
        values, why = one_round(options)
        print("hosts.py: " + ", ".join(f"{c} {values[c]}" for c in COLUMNS[2:]), flush=True)
        if not options.no_log:
            new = not options.log.exists()
            with open(options.log, "a") as f:
                if new:
                    print(*COLUMNS, sep="\t", file=f)
                print(*(values[c] for c in COLUMNS), sep="\t", file=f)
        if why:
            print(f"hosts.py: {why}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
