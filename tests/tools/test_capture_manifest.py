"""kymo process -d on captures whose manifest says things that are not so, or not safe."""

import hashlib
import os
from pathlib import Path
import subprocess

import pytest

BIN = Path(os.environ.get("KYMO_BUILD", "build")).resolve() / "bin"
NTFF, NEFF, OTHER = 1, 2, 8


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value if isinstance(value, bytes) else value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def entry(path, name=None, kind=NTFF, change=b""):
    data = path.read_bytes()
    name = path.name if name is None else name
    return field(14, field(1, name) + field(2, kind) + field(3, len(data)) +
                 field(4, hashlib.sha256(data + change).digest()))


def manifest(*entries, version=1):
    return field(1, version) + field(2, "cap-1") + field(3, "job") + field(5, "host") + b"".join(entries)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    neff, ntff = folder / "m.neff", folder / "m.ntff"
    for command in (["neff", "--model", "mlp", "--arch", "trn2", "--layers", "1", "--output", neff],
                    ["ntff", "--neff", neff, "--instance", "trn2.48xlarge", "--lnc", "1", "--output", ntff]):
        subprocess.run([BIN / "kymo-sim", *command], check=True, capture_output=True, timeout=120)
    return neff, ntff


@pytest.fixture
def capture(made, tmp_path):
    for path in made:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def process(folder, text):
    (folder / "manifest.pb").write_bytes(text)
    return subprocess.run([BIN / "kymo", "process", "-d", folder, "--output-file", folder / "out"],
                          capture_output=True, text=True, timeout=120)


def test_sound(capture):
    done = process(capture, manifest(entry(capture / "m.ntff"), entry(capture / "m.neff", kind=NEFF)))
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr


def test_type_decides(capture):
    (capture / "m.ntff").rename(capture / "profile.bin")
    text = manifest(entry(capture / "profile.bin"), entry(capture / "m.neff", kind=NEFF),
                    entry(capture / "profile.bin", "notes.ntff", OTHER))
    done = process(capture, text)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr


@pytest.mark.parametrize("name, kind, change, code", [("m.neff", NEFF, b"x", 0), ("m.ntff", NTFF, b"x", 1)])
def test_changed_file(capture, name, kind, change, code):
    rest = entry(capture / "m.ntff") if kind == NEFF else entry(capture / "m.neff", kind=NEFF)
    done = process(capture, manifest(rest, entry(capture / name, kind=kind, change=change)))
    assert done.returncode == code
    assert f"{name}: its SHA-256 is" in done.stderr


@pytest.mark.parametrize("text, words", [
    (b"", "manifest: no bytes"),
    (manifest(version=9), "version 9, only 1 is known"),
    (manifest(field(14, field(1, b"m.ntff\0x") + field(2, NTFF))), "a text holds a NUL"),
    (b"\xff", "do not parse"),
])
def test_refused(capture, text, words):
    done = process(capture, text)
    assert done.returncode == 1
    assert words in done.stderr and "manifest.pb" in done.stderr


def test_duplicates_and_ways_out(capture):
    ntff = entry(capture / "m.ntff")
    assert "two files are named m.ntff" in process(capture, manifest(ntff, ntff)).stderr
    assert "unsafe name" in process(capture, manifest(entry(capture / "m.ntff", "../m.ntff"))).stderr


def test_link_out(capture, made):
    (capture / "sub").symlink_to(made[1].parent)
    (capture / "inside.ntff").symlink_to("m.ntff")
    done = process(capture, manifest(entry(made[1], "sub/m.ntff")))
    assert done.returncode == 1
    assert "a link leads out of the capture" in done.stderr
    assert process(capture, manifest(entry(capture / "inside.ntff"))).returncode == 0


def test_pipe_does_not_hold_up(capture):
    (capture / "m.ntff").unlink()
    os.mkfifo(capture / "m.ntff")
    text = field(14, field(1, "m.ntff") + field(2, NTFF) + field(3, 5) + field(4, bytes(32)))
    done = process(capture, manifest(text))
    assert done.returncode == 1
    assert "not a regular file" in done.stderr
