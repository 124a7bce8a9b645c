"""The HTTP API of kymo-collector itself, over a store with a simulated capture: what it says is as described, and kymo's commands
work through it."""

import http.client
import json
from pathlib import Path
import re
import signal
import ssl
import subprocess
import time

import pytest

from api_server import BUILD, Server
from test_api import DOCUMENT, call, operations

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
            expected = 400 if path == "/api/v1/compare" else 200  # it compares nothing without names
            assert call(collector, method, path)[0] == expected, path
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


def test_description(collector):
    assert call(collector, "GET", "/api/v1/openapi.json") == (200, DOCUMENT)


def make_certificate(folder, name):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                    "/CN=" + name, "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "http.key", "-out",
                    folder / "http.pem"], check=True, capture_output=True)
    return (folder / "http.pem").read_text()


def ask(server, authority, token):
    """The status of a request over TLS to a server that this certificate speaks for."""
    context = ssl.create_default_context(cadata=authority)
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=30, context=context)
    try:
        connection.request("GET", "/api/v1/status", headers={"Authorization": "Bearer " + token})
        return connection.getresponse().status
    finally:
        connection.close()


def reload(server, folder, words):
    """Reads the log on from here, until it says so."""
    log = Path(server.log.name)
    begin = log.stat().st_size
    server.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 60
    while words not in log.read_text()[begin:]:
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)


def test_reload_of_secrets(tmp_path):
    """New certificates and tokens hold from SIGHUP on; what is wrong with them changes nothing."""
    ports, token = tmp_path / "ports", tmp_path / "token"
    old = make_certificate(tmp_path, "old")
    token.write_text("the-first-token-of-all\n")
    with Collector(tmp_path / "store", "--http-cert", tmp_path / "http.pem", "--http-key", tmp_path / "http.key", "--http-token-file",
                   token, "--ports-file", ports) as server:
        # Whole before the line on stdout was written.
        assert f"http={server.port}\n" in ports.read_text() and ports.read_text().startswith("uplink=")
        assert ask(server, old, "the-first-token-of-all") == 200
        new = make_certificate(tmp_path, "new")
        token.write_text("the-second-token-of-all\n")
        assert ask(server, old, "the-first-token-of-all") == 200
        reload(server, tmp_path, "settings are read again")
        assert ask(server, new, "the-second-token-of-all") == 200
        assert ask(server, new, "the-first-token-of-all") == 401
        with pytest.raises(ssl.SSLCertVerificationError):
            ask(server, old, "the-second-token-of-all")
        for broken, content, words in ((token, "short", "a token has"), (token, " \n", "there is no token in it"),
                                       (tmp_path / "http.pem", "nonsense", "http.pem"), (tmp_path / "http.key", "nonsense", "http.key")):
            kept = broken.read_text()
            broken.write_text(content)
            reload(server, tmp_path, "the former settings stay")
            broken.write_text(kept)
            assert words in Path(server.log.name).read_text()
            assert ask(server, new, "the-second-token-of-all") == 200
