"""kymo process on a terminal: one line that grows, and is gone at the end; without a terminal nothing of it."""

import os
import pty
import re
import signal
import subprocess
import time

import profiles


def test_bar(tmp_path):
    ntff, neff, _ = profiles.make_ntff(tmp_path, profiles.Cell("mlp", "trn2", 2, executions=1, small=True))
    command = [profiles.BIN / "kymo", "process", "-n", neff, "-s", ntff, "--output-file"]
    done = subprocess.run([*command, tmp_path / "quiet"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "[" not in done.stderr and "\r" not in done.stderr

    main, terminal = pty.openpty()
    with subprocess.Popen([*command, tmp_path / "shown"], stdout=subprocess.DEVNULL, stderr=terminal) as child:
        os.close(terminal)
        said = b""
        while True:
            try:
                said += os.read(main, 4096)
            except OSError:  # the other end is closed
                break
        os.close(main)
    assert child.returncode == 0
    lines = [line for line in said.decode().split("\r\x1b[K") if "[" in line]
    shown = [re.search(r"\[([#.]{20})\] +(\d+) % (\w+)", line) for line in lines]
    assert all(shown) and {m[3] for m in shown} >= {"scan", "dma", "instructions", "summary"}
    percents = [int(m[2]) for m in shown]
    assert percents == sorted(percents) and percents[-1] > 80
    assert said.endswith(b"\r\x1b[K") and all(len(line) < 80 for line in lines)


def test_stopped(tmp_path):
    """A signal to kymo process ends its children, and nothing is left: no scratch tables, no half result."""
    ntff, neff, _ = profiles.make_ntff(tmp_path, profiles.Cell("mlp", "trn2", 2, executions=40))
    before = set(tmp_path.iterdir())
    for place in ("--output-format", "csv", "--output-file", tmp_path / "out"), ("--output-file", tmp_path / "out"):
        with subprocess.Popen([profiles.BIN / "kymo", "process", "-n", neff, "-s", ntff, *place], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as child:
            time.sleep(0.3)
            child.send_signal(signal.SIGTERM)
            said = child.communicate(timeout=30)[1]
        assert child.returncode == 1 and "stopped on request" in said
        assert set(tmp_path.iterdir()) == before


def test_killed(tmp_path):
    """A signal that kymo-process cannot catch: kymo process removes what it left."""
    ntff, neff, _ = profiles.make_ntff(tmp_path, profiles.Cell("mlp", "trn2", 2, executions=40))
    before = set(tmp_path.iterdir())
    with subprocess.Popen([profiles.BIN / "kymo", "process", "-n", neff, "-s", ntff, "--output-file", f"{tmp_path}/out/"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True) as child:
        until = time.monotonic() + 20
        while not (work := list(tmp_path.glob("out.tmp-*"))) and time.monotonic() < until:
            time.sleep(0.002)
        os.kill(int(work[0].name.rsplit("-", 1)[1]), signal.SIGKILL)
        said = child.communicate(timeout=30)[1]
    assert child.returncode == 1 and "ended by signal 9; nothing was written" in said
    assert set(tmp_path.iterdir()) == before
