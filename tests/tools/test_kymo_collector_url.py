"""kymo profiles and kymo reprocess say the same of a store and of its collector."""

import json
import os
import subprocess

import pytest

from api_server import BUILD, Server

TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    store = tmp_path_factory.mktemp("store")
    with Server(store, "--captures", "600") as made:
        made.store = store
        yield made


@pytest.fixture
def small(tmp_path):
    with Server(tmp_path, "--captures", "5", "--token", TOKEN) as made:
        made.store = tmp_path
        yield made


def kymo(*args, **environment):
    clean = {k: v for k, v in os.environ.items() if k != "KYMO_TOKEN"}
    # A proxy must not get to see what goes to a collector.
    clean |= {"http_proxy": "http://127.0.0.1:1", "https_proxy": "http://127.0.0.1:1", "ALL_PROXY": "http://127.0.0.1:1"}
    return subprocess.run([BUILD / "bin" / "kymo", *args], capture_output=True, text=True, timeout=60,
                          env={**clean, **environment})


def good(*args, **environment):
    done = kymo(*args, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_profiles_both_ways(server):
    for options in ([], ["--json"]):
        by_store = good("profiles", "--data-path", server.store, *options)
        by_collector = good("profiles", "--collector", server.url + "/", *options)
        assert by_store == by_collector
    listed = json.loads(by_store)
    assert len(listed["profiles"]) == 1202 and len(listed["captures"]) == 602
    text = good("profiles", "--collector", server.url)
    assert "\x01" not in text and len(text.splitlines()) == 1203
    assert "capture cap-receiving receiving: no room on the disk" in text
    assert "failed: record 7 is of no known kind (offset 4096)" in text
    assert " processing: decode, 5 of 10\n" in text


@pytest.mark.parametrize("args, code, words", [
    (["profiles"], 2, "either --data-path or --collector"),
    (["profiles", "--data-path", "x", "--collector", "http://x"], 2, "either --data-path or --collector"),
    (["profiles", "--collector", "127.0.0.1:3001"], 1, "no address of a collector"),
    (["profiles", "--collector", "file:///etc/passwd"], 1, "no address of a collector"),
    (["profiles", "--collector", "http://127.0.0.1:1"], 1, "connect"),
    (["reprocess", "--collector", "http://127.0.0.1:1"], 2, "names of profiles"),
    (["reprocess", "--collector", "http://127.0.0.1:1", "--capture", "a/b"], 2, "no capture's id"),
    (["reprocess", "--collector", "http://127.0.0.1:1", "../../status"], 1, "there is no profile ../../status"),
    (["reprocess", "--collector", "http://127.0.0.1:1", "x"], 1, "connect"),
])
def test_wrong_usage(args, code, words):
    done = kymo(*args)
    assert done.returncode == code and words in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_token(small, tmp_path):
    ask = ["profiles", "--collector", small.url]
    denied = kymo(*ask)
    assert denied.returncode == 1 and "a bearer token is needed" in denied.stderr and TOKEN not in denied.stderr
    assert kymo(*ask, KYMO_TOKEN="another-token-of-it").returncode == 1
    assert good(*ask, KYMO_TOKEN=TOKEN)
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n")
    assert good(*ask, "--token-file", token)
    token.write_text("two words\n")
    assert "holds no token" in kymo(*ask, "--token-file", token).stderr
    assert "none" in kymo(*ask, "--token-file", tmp_path / "none").stderr


def test_reprocess(small):
    ask = ["reprocess", "--collector", small.url]
    token = {"KYMO_TOKEN": TOKEN}
    rows = json.loads(good("profiles", "--collector", small.url, "--json", **token))["profiles"]
    ready = next(r["name"] for r in rows if r["state"] == "ready" and r["vnc"] == 1)
    done = good(*ask, ready, **token)
    assert done.startswith(f"{ready} ready ")
    queued = [r["name"] for r in rows if r["state"] == "queued"]
    assert good(*ask, "--no-wait", *queued, **token) == ""
    missing = kymo(*ask, "none", **token)
    assert missing.returncode == 1 and "there is no profile none" in missing.stderr
    failed = [r["name"] for r in rows if r["state"] == "failed"]
    assert good(*ask, "--no-wait", "--failed", **token) == ""
    rows = {r["name"]: r for r in json.loads(good("profiles", "--collector", small.url, "--json", **token))["profiles"]}
    assert failed and all(rows[name]["state"] in ("queued", "ready") for name in failed)


def test_not_a_collector(tmp_path):
    """Whatever answers there, it is an error in one line."""
    import http.server
    import threading

    answers = [b"hello", b"[]", b"{}", b'{"profiles": 1}', b'{"profiles": [], "next": 1}', b"[" * 100000, b""]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(302 if self.server.redirect else 200)
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(self.server.answer)

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        try:
            for other.redirect in (False, True):
                for other.answer in answers:
                    done = kymo("profiles", "--collector", f"http://127.0.0.1:{other.server_address[1]}")
                    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, (other.answer, done)
        finally:
            other.shutdown()
            thread.join()
