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
while [ "$1" != --output ]; do shift; done
mkdir -p "$2/captures/i-0_pid_7/1"
"""
KYMO = """#!/bin/bash
echo "kymo $*" >>"$CALLS"
[ "$1" = process ] && mkdir -p "$5/profiles/global/job@latest"
[ "$1" = query ] && echo "Tensor MATMUL 879 305765"
exit 0
"""


@pytest.fixture
def programs(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (("kymo-sim", SIM), ("kymo", KYMO)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def environment(tmp_path, **extra):
    names = ("HANG", "ORPHAN", "FAIL")
    return {**os.environ, **dict.fromkeys(names, ""), "CALLS": str(tmp_path / "calls"), **extra}


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
    assert "kymo process -d " in (tmp_path / "calls").read_text()
    # A second run replaces what the first one left.
    (tmp_path / "out" / "captures" / "stale_pid_1" / "1").mkdir(parents=True)
    assert "1 captures, 1 profiles" in run(tmp_path, programs).stdout


@pytest.mark.parametrize(
    "args, text",
    [
        (["--instance", "p5.48xlarge"], "not an Inf2"),
        (["--instance", "trn1.32xlarge", "--lnc", "2"], "Trn2 and Trn3 alone do"),
        (["--lnc", "3"], "1 or 2"),
        (["--ranks", "0"], "--ranks 0"),
        (["--steps", "many"], "--steps many"),
        (["--model", "cnn"], "mlp or attention"),
        (["--what"], "usage:"),
        (["--ranks"], "usage:"),
    ],
)
def test_refuses_arguments(tmp_path, programs, args, text):
    done = run(tmp_path, programs, *args)
    assert done.returncode != 0
    assert text in done.stdout


def test_spares_folders_of_others(tmp_path, programs):
    (tmp_path / "out" / "data").mkdir(parents=True)
    (tmp_path / "out" / "data" / "mine").write_text("x")
    assert run(tmp_path, programs).returncode != 0
    assert (tmp_path / "out" / "data" / "mine").read_text() == "x"


def test_says_why_the_job_failed(tmp_path, programs):
    done = run(tmp_path, programs, FAIL="1")
    assert done.returncode == 1
    assert "kymo-sim run: no such thing" in done.stdout


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
