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
for i in $(seq 0 "$((${RANKS:-4} - 1))"); do
    mkdir -p "$2/captures/i-0_pid_$i/1"
    touch "$2/captures/i-0_pid_$i/1/7_instid_0_vnc_$i.ntff"
done
"""
KYMO = """#!/bin/bash
echo "kymo $*" >>"$CALLS"
[ "$1" = process ] && mkdir -p "$5/profiles/global/$7@latest"
[ "$1" = query ] && echo "Tensor MATMUL 879 305765"
[ "$1" = verify ] && { echo "a ring"; echo "1 rings: $VERDICT"; exit "${CODE:-0}"; }
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
    names = ("HANG", "ORPHAN", "FAIL", "RANKS", "CODE")
    return {**os.environ, **dict.fromkeys(names, ""), "VERDICT": "closed", "CALLS": str(tmp_path / "calls"), **extra}


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
    assert "mlp-r3@latest: 1 rings: closed" in done.stdout
    calls = (tmp_path / "calls").read_text()
    for rank in range(4):
        assert f"captures/i-0_pid_{rank}/1 --data-path {tmp_path}/out/data --display-name mlp-r{rank}\n" in calls
    # A second run replaces what the first one left.
    (tmp_path / "out" / "captures" / "stale_pid_1" / "1").mkdir(parents=True)
    (tmp_path / "out" / "captures" / "stale_pid_1" / "1" / "1_instid_0_vnc_9.ntff").touch()
    assert "4 captures, 4 profiles" in run(tmp_path, programs).stdout


@pytest.mark.parametrize("verdict, code, expected", [("open", 3, 0), ("violated", 1, 1)])
def test_reports_what_is_not_accounted_for(tmp_path, programs, verdict, code, expected):
    done = run(tmp_path, programs, VERDICT=verdict, CODE=str(code))
    assert f"mlp-r0@latest: 1 rings: {verdict}" in done.stdout
    assert done.returncode == expected


def test_fails_when_a_rank_left_no_capture(tmp_path, programs):
    done = run(tmp_path, programs, RANKS="3")
    assert done.returncode == 1
    assert "3 captures of 4 ranks" in done.stdout


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
        (["--model", "cnn"], "mlp or attention"),
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
