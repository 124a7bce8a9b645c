"""kymo view over HTTP: its routes, streams that stop and go on, clients that leave, a query process that dies."""

import http.client
import json
import os
from pathlib import Path
import signal
import socket
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "oracle"))
import packed
import profiles
from profiles import Cell


class View:
    def __init__(self, scratch, *arguments):
        ports = scratch / "ports"
        ports.unlink(missing_ok=True)
        self.child = subprocess.Popen([str(a) for a in (profiles.BIN.resolve() / "kymo", "view", *arguments, "--http", "127.0.0.1:0",
                                                        "--ports-file", ports)], stdout=subprocess.PIPE, text=True,
                                      env={**os.environ, "XDG_STATE_HOME": str(scratch / "state")})
        self.line = self.child.stdout.readline()
        self.port = int(ports.read_text().split("=")[1])

    def get(self, path, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        if answer.headers.get("Content-Type") == "application/json":
            data = json.loads(data)
        return answer.status, answer.headers, data

    def queries(self):
        """Children of the collector, by pid."""
        found = []
        for entry in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(entry.read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            if parent == self.child.pid:
                found.append(int(entry.parent.name))
        return found

    def close(self):
        self.child.send_signal(signal.SIGTERM)
        return self.child.wait(timeout=30)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    return profiles.make_tables(tmp_path_factory.mktemp("view"), Cell("attention", "trn2", 1, executions=2))[0]


@pytest.fixture(scope="module")
def view(tables, tmp_path_factory):
    v = View(tmp_path_factory.mktemp("run"), tables)
    yield v
    assert v.close() == 0
    assert not v.queries()


def test_routes(view, tables):
    assert view.line.startswith("kymo view: 1 profile at http://127.0.0.1:")
    status, _, answer = view.get("/api/v1/profiles")
    name = tables.name
    assert status == 200 and [p["name"] for p in answer["profiles"]] == [name] and answer["next"] is None
    assert view.get(f"/api/v1/profiles/{name}")[2]["path"] == str(tables)
    status, _, overview = view.get(f"/api/v1/profiles/{name}/overview")
    assert status == 200 and overview["tables"]["Instruction"]
    status, headers, data = view.get(f"/api/v1/profiles/{name}/timeline?from=0&to={overview['extent']['to']}&width=800")
    assert status == 200 and headers["Content-Type"] == "application/vnd.kymo.packed"
    assert sum(t["n"] for t in packed.decode(data)["tracks"]) > 1000
    for path, wanted in [("none/overview", 404), (f"{name}/timeline?from=1&to=0&width=3", 400), (f"{name}/timeline?what=1", 400),
                         (f"{name}/events/Instruction/99999999", 404), (f"{name}/events/Flow/1", 404), (f"{name}/nothing", 404),
                         (f"{name}/events/Instruction/%27%20OR%201=1", 400)]:
        status, headers, answer = view.get(f"/api/v1/profiles/{path}")
        assert status == wanted and answer["error"]["code"], path
        assert headers["Cache-Control"] == "no-store"


def test_page(view, tmp_path, tables):
    dist = tmp_path / "dist"
    (dist / "assets").mkdir(parents=True)
    (dist / "index.html").write_text("<!doctype html><title>page</title>")
    (dist / "assets" / "app.js").write_text("1")
    (dist / "secret").write_text("no type, so no file of the page")
    v = View(tmp_path, tables, "--page", dist)
    status, headers, data = v.get("/")
    assert (status, data) == (200, b"<!doctype html><title>page</title>") and "default-src 'self'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert v.get("/", **{"If-None-Match": headers["ETag"]})[0] == 304
    assert v.get("/assets/app.js")[1]["Content-Type"].startswith("text/javascript")
    for path in ("/secret", "/app.js", "/assets/none.js", "/..%2fsecret", "/assets/..%2findex.html"):
        assert v.get(path)[0] == 404, path
    assert v.get("/", Host="evil.example")[0] == 403
    assert v.close() == 0


def big_request(view, tables):
    to = view.get(f"/api/v1/profiles/{tables.name}/overview")[2]["extent"]["to"]
    return f"GET /api/v1/profiles/{tables.name}/timeline?from=0&to={to}&width=16000 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def test_slow_reader_and_leaver(view, tables):
    """A client that takes nothing holds up nobody; one that leaves frees its query."""
    request = big_request(view, tables)
    slow = []
    for _ in range(6):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(("127.0.0.1", view.port))
        s.sendall(request)
        slow.append(s)
    time.sleep(1)
    begin = time.monotonic()
    assert view.get(f"/api/v1/profiles/{tables.name}/bands?from=0&to=1000")[0] == 200
    assert time.monotonic() - begin < 20
    for s in slow[:5]:
        s.close()
    # The last one takes all of it, and all of it is there.
    data = b""
    slow[5].settimeout(60)
    while not data.endswith(b"0\r\n\r\n"):
        more = slow[5].recv(1 << 16)
        assert more
        data += more
    slow[5].close()
    # Had the five kept their places, more than eight could not be answered.
    for _ in range(9):
        assert view.get(f"/api/v1/profiles/{tables.name}/bands?from=0&to=1000")[0] == 200


def test_without_the_viewer(tables, tmp_path):
    """The address says how to have it, and what else is there works."""
    ports = tmp_path / "ports"
    command = [profiles.BIN.resolve() / "kymo", "view", "--page", tmp_path, "--http", "127.0.0.1:0", "--ports-file", ports, tables]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline().startswith("kymo view: 1 profile at")
    connection = http.client.HTTPConnection("127.0.0.1", int(ports.read_text().split("=")[1]), timeout=60)
    for path, status, text in (("/", 200, "--target viewer"), ("/api/v1/profiles", 200, tables.name), ("/assets/page.js", 404, "nothing")):
        connection.request("GET", path)
        answer = connection.getresponse()
        assert (answer.status, text in answer.read().decode()) == (status, True), path
    connection.close()
    child.send_signal(signal.SIGTERM)
    _, said = child.communicate(timeout=30)
    assert child.returncode == 0 and f"no viewer in {tmp_path}" in said


def test_query_process_dies(view, tables):
    path = f"/api/v1/profiles/{tables.name}/bands?from=0&to=1000"
    assert view.get(path)[0] == 200
    for pid in view.queries():
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while (status := view.get(path)[0]) != 200:
        assert status == 503 and time.monotonic() < deadline
        time.sleep(0.05)


def test_arguments(tables, tmp_path):
    """A directory of profiles; the same name twice; nothing there."""
    many = tmp_path / "many"
    many.mkdir()
    (many / "a@latest").symlink_to(tables)
    (many / "b").symlink_to(tables)
    (many / "empty").mkdir()
    v = View(tmp_path, many, tables)
    assert [p["name"] for p in v.get("/api/v1/profiles")[2]["profiles"]] == ["a", "b", tables.name]
    assert [p["name"] for p in v.get("/api/v1/profiles?text=b")[2]["profiles"]] == ["b"] + ([tables.name] if "b" in tables.name else [])
    for text in ("%20b%20", "B", "B%20%20"):
        assert [p["name"] for p in v.get(f"/api/v1/profiles?text={text}")[2]["profiles"]][:1] == ["b"]
    assert len(v.get("/api/v1/profiles?text=%20")[2]["profiles"]) == 3
    assert v.close() == 0
    command = [profiles.BIN.resolve() / "kymo", "view"]
    assert subprocess.run(command, capture_output=True).returncode == 2
    failed = subprocess.run([*command, many / "empty"], capture_output=True, text=True)
    assert failed.returncode == 1 and "no table" in failed.stderr


def test_named_twice(tables, tmp_path):
    """A directory is one profile, however often and in whatever way it is named."""
    many = tmp_path / "many"
    many.mkdir()
    (many / "a").symlink_to(tables)
    (tmp_path / "link").symlink_to(tables)
    v = View(tmp_path, tables, tables, f"{tables}/", tmp_path / "link", many, many)
    assert v.line.startswith("kymo view: 2 profiles at")
    assert sorted(p["name"] for p in v.get("/api/v1/profiles")[2]["profiles"]) == sorted([tables.name, "a"])
    assert v.close() == 0


def test_files_of_another_case_or_cut_off(tables, tmp_path):
    """What is listed can be opened, and what cannot says in a line why."""
    for name in ("lower", "upper", "cut", "none", "other"):
        (tmp_path / "all" / name).mkdir(parents=True)
    for path in tables.glob("*.parquet"):
        (tmp_path / "all" / "lower" / path.name.lower()).symlink_to(path)
        (tmp_path / "all" / "cut" / path.name).symlink_to(path)
    (tmp_path / "all" / "upper" / "INSTRUCTION.PARQUET").symlink_to(tables / "Instruction.parquet")
    for place, name, data in (("lower", "Foo.parquet", b""), ("cut", "DmaPacket.parquet", (tables / "DmaPacket.parquet").read_bytes()[:5000]),
                              ("none", "Instruction.parquet", b""), ("other", "some notes.parquet", b"")):
        (tmp_path / "all" / place / name).unlink(missing_ok=True)
        (tmp_path / "all" / place / name).write_bytes(data)
    v = View(tmp_path, tmp_path / "all")
    assert [p["name"] for p in v.get("/api/v1/profiles")[2]["profiles"]] == ["cut", "lower", "none", "upper"]
    overviews = {name: v.get(f"/api/v1/profiles/{name}/overview") for name in ("lower", "upper", "cut", "none")}
    why = "is no Parquet file, or was cut off"
    assert {name: answer[0] for name, answer in overviews.items()} == {"lower": 200, "upper": 200, "cut": 200, "none": 500}
    assert overviews["none"][2]["error"] == {"code": "unreadable", "message": f"Instruction.parquet: {why}"}
    assert {"what": "DmaPacket", "why": f"DmaPacket.parquet: {why}"} in overviews["cut"][2]["missing"]
    assert {"what": "Foo", "why": f"Foo.parquet: {why}"} in overviews["lower"][2]["missing"]
    rows = overviews["cut"][2]["tables"]["Instruction"]
    assert overviews["upper"][2]["tables"] == {"Instruction": rows} and overviews["lower"][2]["tables"]["Instruction"] == rows
    assert v.close() == 0


def test_sql_sources_and_what_users_keep(tables, tmp_path):
    """Over HTTP: what the oracles of kymo-query ask without it."""
    root = tmp_path / "root"
    root.mkdir()
    first = View(tmp_path, tables, "--nki-source-root", root, "--framework-source-root", root)

    def ask(view, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", view.port, timeout=60)
        connection.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        data = json.loads(answer.read())
        connection.close()
        return answer.status, data

    name = first.get("/api/v1/profiles")[2]["profiles"][0]["name"]
    status, data = ask(first, "POST", "/api/v1/sql", {"profile": name, "sql": 'SELECT count(*) AS n FROM "Instruction"'})
    assert status == 200 and data["columns"] == [{"name": "n", "type": "BIGINT"}] and data["rows"][0][0] > 0
    for body in ({}, {"sql": "SELECT 1"}, {"profile": name}, {"profile": name, "profiles": [name], "sql": "SELECT 1"}, {"profiles": [], "sql": "SELECT 1"},
                 {"profiles": [name] * 9, "sql": "SELECT 1"}, {"profile": name, "sql": "SELECT 1", "dirs": "/etc"}, {"profile": 1, "sql": "SELECT 1"},
                 {"profile": name, "sql": "SELECT 1", "limit": 10**18}, {"profile": name, "sql": "SELECT 1\u0000"}):
        assert ask(first, "POST", "/api/v1/sql", body)[0] == 400, body
    assert ask(first, "POST", "/api/v1/sql", {"profile": "none", "sql": "SELECT 1"})[0] == 404
    status, data = ask(first, "GET", f"/api/v1/compare?base={name}&profiles={name},{name};{name}")
    assert status == 200 and [len(s["profiles"]) for s in data["sides"]] == [1, 2, 1]
    for query in ("", f"base={name}", f"profiles={name}", f"base={name}&profiles=;", f"base={name}&profiles=" + ",".join([name] * 16)):
        assert ask(first, "GET", "/api/v1/compare?" + query)[0] == 400, query
    files = ask(first, "GET", f"/api/v1/profiles/{name}/source")[1]["files"]
    file = next(f["file"] for f in files if f["kind"] in ("nki", "framework"))
    (root / file.split("/")[-1]).write_text("text")
    quoted = file.replace("/", "%2F")
    assert ask(first, "GET", f"/api/v1/profiles/{name}/source?file={quoted}") == (200, {"file": file, "text": "text"})
    assert ask(first, "GET", f"/api/v1/profiles/{name}/source?file={quoted}&nki_root=/etc")[0] == 400
    mark = [{"id": 1, "name": "a", "ts": 5, "versus": None}]
    assert ask(first, "PUT", f"/api/v1/annotations/{name}", {"value": mark})[0] == 200
    assert first.close() == 0
    second = View(tmp_path, tables)
    assert ask(second, "GET", f"/api/v1/annotations/{name}")[1]["value"] == mark
    assert second.close() == 0


def test_roots_of_source_texts(tables, tmp_path, monkeypatch):
    """Relative ones are taken from where the server starts; what is no folder ends it, and says which option it is."""
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "attention.py").write_text("text of a model")
    monkeypatch.setattr(profiles, "BIN", profiles.BIN.resolve())
    tables = tables.resolve()
    monkeypatch.chdir(tmp_path)
    v = View(tmp_path, tables, "--nki-source-root", "kernels", "--framework-source-root", "./kernels/../kernels")
    name = v.get("/api/v1/profiles")[2]["profiles"][0]["name"]
    files = v.get(f"/api/v1/profiles/{name}/source")[2]["files"]
    file = next(f["file"] for f in files if f["kind"] == "framework")
    (tmp_path / "kernels" / file.split("/")[-1]).write_text("text of a model")
    status, _, data = v.get(f"/api/v1/profiles/{name}/source?file=" + file.replace("/", "%2F"))
    assert (status, data["text"]) == (200, "text of a model")
    assert v.close() == 0
    for option in ("framework-source-root", "nki-source-root"):
        for root, why in (("nowhere", "No such file"), ("kernels/attention.py", "Not a directory")):
            view = [profiles.BIN.resolve() / "kymo", "view", tables, "--http", "127.0.0.1:0", f"--{option}", root]
            collector = [profiles.BIN.resolve() / "kymo-collector", "--data-path", tmp_path / "store", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
                         "--reserve", "1M", f"--{option}", root]
            for command in (view, collector):
                failed = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=30)
                assert failed.returncode == 1 and f"{option}: {root}: {why}" in failed.stderr
    relative = [profiles.BIN.resolve() / "kymo-collector", "--data-path", "store", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--reserve", "1M",
                "--framework-source-root", "kernels"]
    child = subprocess.Popen([str(part) for part in relative], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert "ready" in child.stdout.readline()
    child.terminate()
    assert child.wait(30) == 0
    child.stdout.close()
