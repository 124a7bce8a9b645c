"""What tools/quickstart.sh does around the programs: arguments, its folder, and that nothing outlives it. The programs
themselves are shell stand-ins here; the whole run is tested end to end."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
SCRIPT = TOP / "tools" / "quickstart.sh"

SIM = """#!/bin/bash
[ "$1" = neff ] && exit 0
[ -z "$HANG" ] || { sleep 300 & echo $! >"$HANG"; wait; }
[ -z "$ORPHAN" ] || { setsid sleep 300 & echo $! >"$ORPHAN"; }
[ -z "$FAIL" ] || { echo "kymo-sim run: no such thing" >&2; exit 1; }
env | grep -E '^(KYMO_|LD_PRELOAD)' | grep -v _RUN= >"$CALLS.job"
for i in $(seq 0 3); do echo "rank $i step 1: NRT_SUCCESS"; done
sleep 0.5
"""
COLLECTOR = """#!/bin/bash
while [ "$1" != --ports-file ]; do [ "$1" = --data-path ] && data=$2; shift; done
for profile in $PROFILES; do mkdir -p "$data/profiles/global/$profile@latest"; done
printf 'uplink=7\\nhttp=8\\n' >"$2"
[ -z "$COLLECTOR_ENDS" ] || { echo "the disk is on fire" >&2; exit 9; }
exec sleep 300
"""
DAEMON = """#!/usr/bin/python3
import socket, sys, time
print("kymod", *sys.argv[1:], flush=True)
folder = sys.argv[sys.argv.index("--socket-dir") + 1]
kept = []
for name in ("hook.sock", "control.sock"):
    kept.append(socket.socket(socket.AF_UNIX))
    kept[-1].bind(f"{folder}/{name}")
time.sleep(300)
"""
KYMO = """#!/bin/bash
echo "kymo $*" >>"$CALLS"
case $1 in
capture) for i in 1 2 3 4; do echo "d-$i sent"; done ;;
status) echo "captures 9 asked, 0 under-way, 8 sent, 1 failed"; echo "spool ok, 0 captures to send" ;;
profiles) for profile in $PROFILES; do echo "$profile $STATE x"; done ;;
query) echo "Tensor MATMUL 879 305765" ;;
verify) echo "a ring"; echo "1 rings: $VERDICT"; exit "${CODE:-0}" ;;
esac
exit 0
"""
PROFILES = " ".join(f"job-r{rank}-{kind}-1-nc{rank}" for rank in range(4) for kind in "dp")


@pytest.fixture
def programs(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libkymo-hook.so").touch()
    for name, text in (("kymo-sim", SIM), ("kymo-collector", COLLECTOR), ("kymod", DAEMON), ("kymo", KYMO)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def environment(tmp_path, **extra):
    names = ("HANG", "ORPHAN", "FAIL", "COLLECTOR_ENDS", "CODE")
    ours = {name: value for name, value in os.environ.items() if not name.startswith("KYMO_")}
    return {**ours, **dict.fromkeys(names, ""), "VERDICT": "closed", "STATE": "ready", "PROFILES": PROFILES,
            "CALLS": str(tmp_path / "calls"), **extra}


def command(tmp_path, programs, *args):
    return [str(SCRIPT), "--programs", str(programs), "--output", str(tmp_path / "out"), *args]


def run(tmp_path, programs, *args, **extra):
    return subprocess.run(
        command(tmp_path, programs, *args), env=environment(tmp_path, **extra), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
    )


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_prints_the_table_and_where_to_look(tmp_path, programs):
    done = run(tmp_path, programs)
    assert done.returncode == 0, done.stdout
    assert "Tensor MATMUL 879 305765" in done.stdout
    assert f"{tmp_path}/out/truth" in done.stdout
    assert "job-r3-p-1-nc3@latest: 1 rings: closed" in done.stdout
    assert "8 captures, 4 of them on demand; 8 profiles" in done.stdout
    assert "in job-r0-d-1-nc0@latest" in done.stdout
    assert f"--socket {tmp_path}/out/sockets --wait" in (tmp_path / "calls").read_text()
    # The job is told of nothing else.
    assert sorted((tmp_path / "calls.job").read_text().split()) == [
        f"KYMO_SOCKET={tmp_path}/out/sockets", f"LD_PRELOAD={tmp_path}/lib/libkymo-hook.so"]
    # A second run replaces what the first one left.
    (tmp_path / "out" / "data" / "profiles" / "global" / "stale@latest").mkdir(parents=True)
    assert "8 captures, 4 of them on demand; 8 profiles" in run(tmp_path, programs).stdout


@pytest.mark.parametrize("verdict, code, expected", [("open", 3, 0), ("violated", 1, 1)])
def test_reports_what_is_not_accounted_for(tmp_path, programs, verdict, code, expected):
    done = run(tmp_path, programs, VERDICT=verdict, CODE=str(code))
    assert f"job-r0-d-1-nc0@latest: 1 rings: {verdict}" in done.stdout
    assert done.returncode == expected


@pytest.mark.parametrize(
    "extra, text",
    [
        ({"STATE": "failed"}, "a capture became no profile"),
        ({"PROFILES": PROFILES + " more-1"}, "9 profiles of 8 captures"),
        ({"COLLECTOR_ENDS": "1"}, "the disk is on fire\nquickstart: the collector ended with 9"),
        ({"FAIL": "1"}, "kymo-sim run: no such thing\nquickstart: kymo-sim run ended with 1"),
    ],
)
def test_says_why_it_failed(tmp_path, programs, extra, text):
    done = run(tmp_path, programs, **extra)
    assert done.returncode == 1
    assert text in done.stdout


def test_lists_instances(tmp_path, programs):
    listed = run(tmp_path, programs, "--instance", "help").stdout.split()
    assert len(listed) == (TOP / "arch" / "instances.def").read_text().count('INSTANCE("') > 0
    assert "trn2.48xlarge" in listed


@pytest.mark.parametrize(
    "args, text",
    [
        (["--instance", "p5.48xlarge"], "--instance p5.48xlarge: not one of inf2.xlarge"),
        (["--instance", "trn2.99xlarge"], "not one of"),
        (["--instance", ".*"], "not one of"),
        (["--instance", "trn2.48xlarge", "--ranks", "65"], "64 logical cores with LNC 2"),
        (["--instance", "trn2.48xlarge", "--lnc", "1", "--ranks", "129"], "128 logical cores with LNC 1"),
        (["--instance", "INF2.XLARGE", "--ranks", "3"], "inf2.xlarge has 2 logical cores"),
        (["--instance", "trn1.32xlarge", "--lnc", "2"], "Trn2 and Trn3 alone have them"),
        (["--lnc", "3"], "1 or 2"),
        (["--ranks", "0"], "--ranks 0"),
        (["--steps", "many"], "--steps many"),
        (["--steps", "7"], "from 8"),
        (["--model", "cnn"], "mlp, attention or allreduce"),
        (["--what"], "--what: no such option"),
        (["--ranks"], "--ranks needs a value"),
        (["--programs", "/nonexistent"], "no kymo in it"),
    ],
)
def test_refuses_arguments(tmp_path, programs, args, text):
    done = run(tmp_path, programs, *args)
    assert done.returncode == 2
    assert text in done.stdout
    assert not (tmp_path / "out").exists()


def test_spares_folders_of_others(tmp_path, programs):
    (tmp_path / "out" / "data").mkdir(parents=True)
    (tmp_path / "out" / "data" / "mine").write_text("x")
    assert run(tmp_path, programs).returncode == 2
    assert (tmp_path / "out" / "data" / "mine").read_text() == "x"


def test_stops_what_a_program_left_behind(tmp_path, programs):
    left = tmp_path / "pid"
    done = run(tmp_path, programs, ORPHAN=str(left))
    assert done.returncode == 0, done.stdout
    assert not is_alive(int(left.read_text()))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stops_everything_when_stopped(tmp_path, programs, number):
    left = tmp_path / "pid"
    script = subprocess.Popen(
        command(tmp_path, programs), env=environment(tmp_path, HANG=str(left)), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 20
    while not (left.exists() and left.read_text().strip()) and time.monotonic() < deadline:
        time.sleep(0.05)
    pid = int(left.read_text())
    assert is_alive(pid)
    script.send_signal(number)
    assert script.wait(timeout=20) == 128 + number
    assert not is_alive(pid)


@pytest.mark.parametrize("number, page", [(signal.SIGTERM, True), (signal.SIGINT, False)])
def test_serves_until_stopped(tmp_path, programs, number, page):
    text = tmp_path / "text"
    if page:
        (tmp_path / "share" / "kymo" / "viewer").mkdir(parents=True)
        (tmp_path / "share" / "kymo" / "viewer" / "index.html").touch()
    with open(text, "w") as to:
        script = subprocess.Popen(
            command(tmp_path, programs, "--serve"), env=environment(tmp_path), stdin=subprocess.DEVNULL, stdout=to,
            stderr=subprocess.STDOUT, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
    deadline = time.monotonic() + 40
    while "until Ctrl-C" not in text.read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    assert script.poll() is None
    said = "http://127.0.0.1:8/#/profile/job-r0-d-1-nc0\n" if page else "http://127.0.0.1:8/ says how to have it"
    assert f"viewer    {said}" in text.read_text()
    script.send_signal(number)
    assert script.wait(timeout=20) == 0
    left = subprocess.run(["pgrep", "-f", f"{tmp_path}/out"], stdout=subprocess.PIPE, text=True).stdout
    assert left == ""
