"""kymo neff inspect over the vectors: its JSON says what the expectations say, its text form holds the same names, and a
broken file ends with its class. KYMO_BUILD names the build directory (build by default)."""

import json
import os
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
KYMO = TOP / os.environ.get("KYMO_BUILD", "build") / "bin" / "kymo"
VECTORS = TOP / "tests" / "vectors" / "neff"
SOUND = sorted(p for p in VECTORS.glob("*.json") if not p.name.startswith("bad-"))
BROKEN = sorted(VECTORS.glob("bad-*.json"))
ENGINES = {"PE": "Tensor", "ACT": "Scalar", "POOL": "GpSimd", "DVE": "Vector", "SP": "Sync"}


def inspect(neff, *options):
    return subprocess.run([KYMO, "neff", "inspect", neff, *options], capture_output=True, timeout=60, check=False)


@pytest.mark.parametrize("path", SOUND, ids=lambda p: p.stem)
def test_json(path):
    want = json.loads(path.read_text())
    run = inspect(VECTORS / want["file"], "--json", "--instructions")
    assert run.returncode == 0, run.stderr
    got = json.loads(run.stdout)
    for key, value in want["header"].items():
        have = got["header"][key]
        if key == "hash":
            have = have[: len(value)]
        assert str(have) == str(value), key
    if "hash" in want:
        assert got["hash"] == want["hash"]
    for key in ("gzip", "kelf", "target", "compiler_version"):
        if key in want:
            assert got[key] == want[key], key
    named = [f for f in got["features"] if f["name"]]
    assert [(f["bit"], f["name"]) for f in named] == [(f["bit"], f["name"]) for f in want["features"]]
    assert {tuple(m) for m in got["members"]} >= {tuple(m) for m in want["members"] if m[0] not in want["ignored_members"]}
    for sg, have in zip(want["subgraphs"], got["subgraphs"], strict=True):
        assert {q["name"]: q["num_queues"] for q in have["queues"]} == {n: q["num_queues"] for n, q in sg["queues"].items()}
        engines = {e["engine"]: e for e in have["engines"]}
        assert set(engines) == {ENGINES[e] for e in sg["engines"]}
        for name, engine in sg["engines"].items():
            mine = engines[ENGINES[name]]
            assert [i["opcode"] for i in mine["instructions"]] == [i["opcode"] for i in engine["instructions"]]
            assert sum(mine["opcodes"].values()) == len(engine["instructions"]) == mine["instruction_count"]
            assert [(b["id"], b["queue"], b["function"], b["from"]["variable"]) for b in mine["dma"]] == [
                (b["id"], b["queue"], b["function"], b["from"]) for b in engine["dma"]
            ]


def test_text():
    run = inspect(VECTORS / "queue-instances.neff", "--engine", "vector", "--instructions")
    text = run.stdout.decode()
    assert run.returncode == 0
    assert "qVectorPIO0-i1" in text and "engine Vector" in text and "engine Tensor" not in text
    assert "fits the data" in text and "kelf-a.json" in text


@pytest.mark.parametrize("path", BROKEN, ids=lambda p: p.stem)
def test_broken(path):
    want = json.loads(path.read_text())
    run = inspect(VECTORS / want["file"])
    if want["error"] == ["hash_mismatch"]:
        assert run.returncode == 0
        assert b"does NOT fit the data" in run.stdout
    else:
        assert run.returncode == 1
        assert run.stdout == b""
        assert any(f"({e})\n".encode() in run.stderr for e in want["error"]), run.stderr


@pytest.mark.parametrize("arguments", [[], ["inspect"], ["inspect", "a", "b"], ["inspect", "a", "--engine"], ["show", "a"]])
def test_usage(arguments):
    run = subprocess.run([KYMO, "neff", *arguments], capture_output=True, timeout=60, check=False)
    assert run.returncode == 2
    assert b"usage: kymo neff" in run.stderr
