"""The HTTP API of kymo-collector itself, over a store with a simulated capture: what it says is as described, and kymo's commands
work through it."""

import json
from pathlib import Path
import re
import signal
import subprocess

import pytest

from api_server import BUILD, Server
from test_api import call, operations

BIN = BUILD / "bin"


def run(*args, code=0):
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return done.stdout


class Collector(Server):
    """As the test server: what differs is how it starts and ends."""

    def __init__(self, store, *options):
        self.log = open(store.parent / "collector.log", "w")
        self.process = subprocess.Popen([BIN / "kymo-collector", "--data-path", store, "--listen", "127.0.0.1:0", "--http",
                                         "127.0.0.1:0", "--reserve", "1M", *options],
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)
        found = re.search(r"ready, .*HTTP port (\d+)", self.process.stdout.readline())
        assert found, Path(self.log.name).read_text()
        self.port = int(found[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(30)
        finally:
            self.process.kill()
            self.process.stdout.close()
            self.log.close()
        assert code == 0, Path(self.log.name).read_text()


@pytest.fixture(scope="module")
def collector(tmp_path_factory):
    folder = tmp_path_factory.mktemp("collector")
    capture = folder / "capture"
    capture.mkdir()
    run(BIN / "kymo-sim", "neff", "--model", "mlp", "--arch", "trn2", "--layers", "1", "--lnc", "1", "--output", capture / "m.neff")
    run(BIN / "kymo-sim", "ntff", "--neff", capture / "m.neff", "--instance", "trn2.48xlarge", "--lnc", "1", "--output",
        capture / "p_vnc_0.ntff")
    run(BIN / "kymo", "import", "--reserve", "1M", "--data-path", folder / "store", capture)
    with Collector(folder / "store") as made:
        yield made


def test_reads(collector):
    for method, path, _ in operations():
        if method == "GET" and "{" not in path:
            assert call(collector, method, path)[0] == 200, path
    status, data = call(collector, "GET", "/api/v1/profiles")
    assert data["profiles"] and all(p["state"] == "ready" for p in data["profiles"])
    for profile in data["profiles"]:
        assert Path(profile["path"], "Instruction.parquet").exists()
        assert call(collector, "GET", "/api/v1/profiles/" + profile["name"])[0] == 200
        assert call(collector, "GET", "/api/v1/captures/" + profile["capture"])[0] == 200
    assert call(collector, "GET", "/api/v1/hosts")[1] == {"hosts": []}
    status = call(collector, "GET", "/api/v1/status")[1]
    assert status["profiles"]["ready"] == len(data["profiles"]) and status["disk_total"] > status["disk_free"] > 0


def test_reprocess(collector):
    names = [p["name"] for p in call(collector, "GET", "/api/v1/profiles")[1]["profiles"]]
    before = {n: Path(call(collector, "GET", "/api/v1/profiles/" + n)[1]["path"]).stat().st_ino for n in names}
    out = run(BIN / "kymo", "reprocess", "--collector", collector.url, *names)
    assert [line.split()[:2] for line in out.splitlines()] == [[n, "ready"] for n in names]
    for n in names:
        profile = call(collector, "GET", "/api/v1/profiles/" + n)[1]
        assert Path(profile["path"]).stat().st_ino != before[n]
    capture = profile["capture"]
    assert call(collector, "POST", "/api/v1/reprocess", {"capture": capture})[0] == 202
    assert call(collector, "POST", "/api/v1/profiles/none/reprocess")[0] == 404
    assert call(collector, "POST", "/api/v1/reprocess", {"failed": True}) == (202, {"queued": 0})
    by_collector = run(BIN / "kymo", "reprocess", "--collector", collector.url, "--capture", capture)
    assert by_collector.count(" ready ") == len(names)
    listed = [run(BIN / "kymo", "profiles", "--json", *where) for where in
              (["--collector", collector.url], ["--data-path", Path(profile["path"]).parents[2]])]
    assert listed[0] == listed[1] and json.loads(listed[0])["profiles"]


def test_nobody_to_ask(collector):
    status, data = call(collector, "POST", "/api/v1/captures", {"job": "train"})
    assert status in (202, 404) and (status == 404 or data == {"hosts": []})
    assert call(collector, "POST", "/api/v1/captures", {"host": "nobody"})[0] == 404
