"""Uploads: files in pieces over HTTP become captures, whose profiles are the same that kymo import makes."""

import hashlib
import http.client
import json
import os
from pathlib import Path
import shutil
import socket
import subprocess
import time
import urllib.parse

import duckdb
import pytest

from test_api import call, validate
from test_collector_http import BIN, Collector, run
from test_manage import ANN, BOB, bearer, settled

PIECE = 300_000


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    made = tmp_path_factory.mktemp("upload") / "run7"
    made.mkdir()
    run(BIN / "kymo-sim", "neff", "--model", "attention", "--arch", "trn2", "--lnc", "1", "--output", made / "m.neff")
    for core in (0, 1):
        run(BIN / "kymo-sim", "ntff", "--neff", made / "m.neff", "--instance", "trn2.48xlarge", "--lnc", "1", "--vnc", core, "--output",
            made / f"p_vnc_{core}.ntff")
    return made


@pytest.fixture(scope="module")
def tables(capture):
    """What kymo-process makes of it, as tables that are ready."""
    made = capture.parent / "tables"
    run(BIN / "kymo-process", "--ntff", capture / "p_vnc_0.ntff", "--neff", capture / "m.neff", "--output", made)
    return made


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Collector(tmp_path_factory.mktemp("collector") / "store") as made:
        made.store = Path(made.log.name).parent / "store"
        yield made


def files_of(folder):
    return [(f"{folder.name}/{p.relative_to(folder)}", p.read_bytes()) for p in sorted(folder.rglob("*")) if p.is_file()]


def begin(server, size, name="my run", **headers):
    status, data = call(server, "POST", "/api/v1/uploads", {"name": name, "bytes": size}, headers)
    assert status == 201, data
    return data["id"]


def put(server, upload, path, data, offset=0, size=None, source=None, **headers):
    query = {"path": path, "size": len(data) if size is None else size, "offset": offset, **({"source": source} if source else {})}
    target = f"/api/v1/uploads/{upload}/files?{urllib.parse.urlencode(query)}"
    return call(server, "PUT", target, data, {"Content-Type": "application/octet-stream", **headers})


def put_all(server, upload, files, source=None, **headers):
    for path, data in files:
        for at in range(0, max(len(data), 1), PIECE):
            status, answer = put(server, upload, path, data[at:at + PIECE], at, len(data), source, **headers)
            assert (status, answer) == (200, {"path": path, "size": len(data), "received": min(at + PIECE, len(data))})


def finish(server, upload, **headers):
    """The status of what was asked, and what became of it: an error, or the upload when it is over."""
    status, answer = call(server, "POST", f"/api/v1/uploads/{upload}/finish", None, headers)
    if status != 202:
        return status, answer
    end = time.monotonic() + 30
    while answer["state"] == "finishing":
        assert time.monotonic() < end
        status, answer = call(server, "GET", f"/api/v1/uploads/{upload}", headers=headers)
        assert status == 200
    return 202, answer


def upload(server, files, sources=(), name="my run", **headers):
    """As finish."""
    made = begin(server, sum(len(data) for _, data in [*files, *sources]), name, **headers)
    put_all(server, made, files, **headers)
    put_all(server, made, sources, "1", **headers)
    return finish(server, made, **headers)


def rows(folder, sql):
    db = duckdb.connect()
    for path in Path(folder).glob("*.parquet"):
        db.execute(f"create view {path.stem} as select * from '{path}'")
    return db.execute(sql).fetchall()


def nothing_left(server):
    return not any((server.store / "uploads").iterdir()) and not any((server.store / "raw" / "incoming").iterdir())


def test_a_folder_becomes_profiles(server, capture, tables):
    source = [("model/attention.py", b"def kernel(x):\n    return x\n"), ("model/deep/other.py", b"# nothing\n")]
    status, answer = upload(server, [*files_of(capture), ("run7/.DS_Store", b"x"), ("run7/notes.txt", b"mine")], source)
    assert status == 202 and answer["ignored"] == ["run7/.DS_Store"] and len(answer["profiles"]) == 2
    made = {r["name"]: r for r in settled(server)}
    for core, name in enumerate(sorted(answer["profiles"])):
        row = made[name]
        assert row["state"] == "ready" and row["job"] == "my run" and row["host"] == "upload" and row["vnc"] == core
        assert row["capture"] == answer["capture"] and "owner" not in row and name.startswith("my_run-upload-r0-")
    sql = "select count(*), sum(end_ts - start_ts), min(start_ts) from Instruction"
    first = made[sorted(answer["profiles"])[0]]
    assert rows(first["path"], sql) == rows(tables, sql) and rows(tables, sql)[0][0] > 1000
    # As it came, in the raw store; NEFFs by their hash.
    raw = server.store / "raw" / "captures" / answer["capture"]
    assert (raw / "p_vnc_0.ntff").read_bytes() == (capture / "p_vnc_0.ntff").read_bytes() and (raw / "notes.txt").read_bytes() == b"mine"
    sha = hashlib.sha256((capture / "m.neff").read_bytes()).hexdigest()
    assert (server.store / "raw" / "neff" / f"{sha}.neff").exists()
    until(lambda: nothing_left(server))
    # Source texts come with the profile.
    listed = server.get(f"/api/v1/profiles/{first['name']}/source")[1]["files"]
    named = next(f for f in listed if f["file"].endswith("/attention.py"))
    assert named["available"]
    text = server.get(f"/api/v1/profiles/{first['name']}/source?file={urllib.parse.quote(named['file'])}")[1]
    assert text["text"] == source[0][1].decode()
    # And go with it.
    for name in answer["profiles"]:
        assert call(server, "DELETE", "/api/v1/profiles/" + name)[0] == 200
    assert not raw.exists()


def test_ready_tables(server, tables):
    version = ("tables/schema_version", b"7.1.0")
    status, answer = upload(server, [*files_of(tables), version, ("tables/readme.md", b"#")], name="vendor's")
    assert status == 202 and len(answer["profiles"]) == 1
    (row,) = [r for r in settled(server) if r["capture"] == answer["capture"]]
    assert row["state"] == "ready" and row["schema_version"] == "7.1.0" and row["tables"] == len(list(tables.glob("*.parquet")))
    place = Path(row["path"])
    assert sorted(os.listdir(place)) == sorted(p.name for p in tables.glob("*.parquet"))
    # The same files as in the raw store: they take no room twice.
    assert (place / "Instruction.parquet").samefile(server.store / "raw" / "captures" / answer["capture"] / "Instruction.parquet")
    overview = call(server, "GET", f"/api/v1/profiles/{row['name']}/overview")
    assert overview[0] == 200 and overview[1]["tables"]["Instruction"] == rows(tables, "select count(*) from Instruction")[0][0]
    # Made again of what is there, as any other.
    assert call(server, "POST", f"/api/v1/profiles/{row['name']}/reprocess")[0] == 202
    (again,) = [r for r in settled(server) if r["capture"] == answer["capture"]]
    assert again["state"] == "ready" and (place / "Instruction.parquet").exists()


def test_tables_that_are_none(server, tables):
    cut = (tables / "Instruction.parquet").read_bytes()[:5000]
    status, answer = upload(server, [("t/Instruction.parquet", cut)])
    assert status == 202 and answer["state"] == "done"
    (row,) = [r for r in settled(server) if r["capture"] == answer["capture"]]
    assert row["state"] == "failed" and "Instruction.parquet" in row["reason"]
    assert call(server, "DELETE", "/api/v1/profiles/" + row["name"])[0] == 200


def test_a_bad_file_fails_with_its_offset(server, capture):
    data = bytearray((capture / "p_vnc_0.ntff").read_bytes())
    data[4000:4400] = b"\xff" * 400
    status, answer = upload(server, [("m.neff", (capture / "m.neff").read_bytes()), ("p.ntff", bytes(data))])
    assert status == 202 and answer["state"] == "done"
    (row,) = [r for r in settled(server) if r["capture"] == answer["capture"]]
    assert row["state"] == "failed" and row["reason"] and row["file_offset"] >= 0
    assert call(server, "DELETE", "/api/v1/profiles/" + row["name"])[0] == 200


def test_a_capture_with_its_manifest(server, capture, tmp_path):
    """A capture of another collector, uploaded file by file, is the same capture here."""
    run(BIN / "kymo", "import", "--reserve", "1M", "--data-path", tmp_path / "other", capture)
    (raw,) = (tmp_path / "other" / "raw" / "captures").iterdir()
    (neff,) = (tmp_path / "other" / "raw" / "neff").iterdir()
    files = [*files_of(raw), ("anything.neff", neff.read_bytes())]
    # Without one of its files it stays, and can be completed.
    part = [f for f in files if not f[0].endswith("p_vnc_1.ntff")]
    made = begin(server, sum(len(d) for _, d in files))
    put_all(server, made, part)
    status, answer = finish(server, made)
    assert status == 400 and "p_vnc_1.ntff" in answer["error"]["message"]
    put_all(server, made, [f for f in files if f not in part])
    status, answer = finish(server, made)
    assert status == 202 and answer["capture"] == raw.name and len(answer["profiles"]) == 2
    assert all(r["state"] == "ready" for r in settled(server) if r["capture"] == raw.name)
    assert (server.store / "raw" / "captures" / raw.name / "manifest.pb").read_bytes() == (raw / "manifest.pb").read_bytes()
    status, answer = upload(server, files)
    assert status == 409 and "already" in answer["error"]["message"]
    (left,) = call(server, "GET", "/api/v1/uploads")[1]["uploads"]
    assert left["state"] == "receiving" and call(server, "DELETE", f"/api/v1/uploads/{left['id']}")[0] == 200 and nothing_left(server)


def test_a_neff_that_is_listed_twice(server, capture, tmp_path):
    """Two names of one program in a manifest, and one file of it."""
    folder = tmp_path / "twice"
    shutil.copytree(capture, folder)
    (folder / "again.neff").write_bytes((folder / "m.neff").read_bytes() + b" of its own")
    (folder / "same.neff").write_bytes((folder / "again.neff").read_bytes())
    run(BIN / "kymo", "import", "--reserve", "1M", "--data-path", tmp_path / "other", folder)
    (raw,) = (tmp_path / "other" / "raw" / "captures").iterdir()
    files = files_of(raw)
    assert dict(files)[f"{raw.name}/manifest.pb"].count(b".neff") == 3
    made = begin(server, sum(len(d) for _, d in files) + 2**20)
    put_all(server, made, files)
    # One NEFF is known here, the other comes once.
    status, answer = finish(server, made)
    assert status == 202 and answer["state"] == "failed" and "does not have it" in answer["reason"]
    assert [u["state"] for u in call(server, "GET", "/api/v1/uploads")[1]["uploads"]] == ["failed"]
    assert not any((server.store / "raw" / "incoming").iterdir())
    put_all(server, made, [("again.neff", (folder / "again.neff").read_bytes()), ("m.neff", (folder / "m.neff").read_bytes())])
    status, answer = finish(server, made)
    assert status == 202 and answer["state"] == "done" and answer["capture"] == raw.name
    # What became of it is told for a while, also to who asks for it again.
    assert call(server, "POST", f"/api/v1/uploads/{made}/finish") == (200, {k: v for k, v in answer.items() if k != "files"})
    assert put(server, made, "late", b"x")[0] == 409
    assert len(list((server.store / "raw" / "neff").glob("*.neff"))) == 2
    until(lambda: nothing_left(server))
    assert call(server, "GET", "/api/v1/uploads")[1]["uploads"] == []
    assert call(server, "DELETE", f"/api/v1/uploads/{made}")[0] == 200 and call(server, "GET", f"/api/v1/uploads/{made}")[0] == 404
    assert (server.store / "raw" / "captures" / raw.name / "manifest.pb").exists()


def test_a_kill_while_it_enters_the_store(capture, tmp_path):
    """What was acknowledged is there after it, with its owner."""
    (tmp_path / "tokens").write_text(f"ann {ANN}\n")
    options = ("--http-token-file", tmp_path / "tokens", "--no-work")
    ann = bearer(ANN)
    files = [*files_of(capture), *((f"run7/{i}/notes.txt", b"%d" % i) for i in range(150))]
    server = Collector(tmp_path / "store", *options)
    made = begin(server, sum(len(d) for _, d in files), **ann)
    put_all(server, made, files, **ann)
    status, answer = call(server, "POST", f"/api/v1/uploads/{made}/finish", None, ann)
    server.process.kill()
    assert (status, answer["state"]) == (202, "finishing")
    server.process.wait()
    server.process.stdout.close()
    server.log.close()
    with Collector(tmp_path / "store", *options) as server:
        server.store = tmp_path / "store"
        listed = call(server, "GET", "/api/v1/profiles", headers=ann)[1]["profiles"]
        assert [(p["vnc"], p["job"], p["owner"]) for p in sorted(listed, key=lambda p: p["vnc"])] == [(0, "my run", "ann"), (1, "my run", "ann")]
        raw = server.store / "raw" / "captures" / listed[0]["capture"]
        assert (raw / "149" / "notes.txt").read_bytes() == b"149"
        assert (raw / "p_vnc_1.ntff").read_bytes() == (capture / "p_vnc_1.ntff").read_bytes()
        until(lambda: nothing_left(server))


def test_a_piece_whose_connection_is_dead(server):
    made = begin(server, 3_000_000)
    s = send_part(server, made, "x", 3_000_000, b"a" * 1_000_000)
    received = lambda: call(server, "GET", f"/api/v1/uploads/{made}")[1]["files"][0]["received"]
    until(lambda: received() >= 700_000)
    have = received()
    status, answer = put(server, made, "x", b"a" * 100, have, 3_000_000)
    assert status == 409 and answer["error"]["code"] == "busy"
    # It says nothing more, and gives way.
    until(lambda: put(server, made, "x", b"a" * 100, have, 3_000_000)[0] == 200, 10)
    assert received() == have + 100
    status, answer = put(server, made, "x", b"a" * 100, have, 3_000_000)
    assert status == 409 and answer["error"]["code"] == "offset"
    # Whoever was silent hears so, and does no harm.
    s.sendall(b"b" * 2_000_000)
    assert b" 409 " in s.recv(100)
    s.close()
    assert put(server, made, "x", b"a" * (3_000_000 - have - 100), have + 100, 3_000_000)[1]["received"] == 3_000_000
    assert (server.store / "uploads" / made / "part-0").read_bytes() == b"a" * 3_000_000
    assert call(server, "DELETE", f"/api/v1/uploads/{made}")[0] == 200


def test_files_that_are_begun_hold_nothing_open(server):
    open_files = lambda: len(os.listdir(f"/proc/{server.process.pid}/fd"))
    made = begin(server, 10_000)
    assert put(server, made, "0", b"x", 0, 10)[0] == 200
    before = open_files()
    for i in range(1, 100):
        assert put(server, made, f"{i}", b"x", 0, 10)[0] == 200
    assert open_files() <= before + 5
    assert put(server, made, "0", b"yz", 1, 10)[1]["received"] == 3
    assert call(server, "DELETE", f"/api/v1/uploads/{made}")[0] == 200


def test_names_stay_inside(server):
    made = begin(server, 1000)
    for path in ("/etc/passwd", "../x.ntff", "a/../../x", "a//b", "./x", "a/./b", "", "x" * 256, "a/", "\x01x", ".."):
        assert put(server, made, path, b"x")[0] == 400, path
    assert put(server, made, "a", b"x")[0] == 200
    assert put(server, made, "a/b", b"x")[0] == 400
    for name in ("..", "x/y", "%2e%2e", made.upper() + "f"):
        assert call(server, "PUT", f"/api/v1/uploads/{urllib.parse.quote(name, safe='')}/files?path=a&size=1", b"x",
                    {"Content-Type": "application/octet-stream"})[0] == 404
    assert sorted(os.listdir(server.store / "uploads" / made)) == ["part-0"]
    status, answer = finish(server, made)
    assert status == 400 and "nothing to make a profile of" in answer["error"]["message"]
    assert call(server, "DELETE", f"/api/v1/uploads/{made}") == (200, {"deleted": True})
    assert call(server, "GET", f"/api/v1/uploads/{made}")[0] == 404 and nothing_left(server)


def test_pieces_that_do_not_fit(server):
    made = begin(server, 10)
    for offset, size, data, status in ((5, 10, b"x", 409), (0, 4, b"12345", 400), (20, 10, b"", 400), (0, 11, b"x", 400)):
        assert put(server, made, f"f{offset}-{size}", data, offset, size)[0] == status
    assert call(server, "DELETE", f"/api/v1/uploads/{made}")[0] == 200
    made = begin(server, 10)
    assert put(server, made, "f", b"12345", 0, 10)[0] == 200
    assert put(server, made, "f", b"12", 0, 9)[0] == 409
    assert call(server, "POST", f"/api/v1/uploads/{made}/finish")[0] == 409
    # It begins anew, and goes on where it ended.
    assert put(server, made, "f", b"abc", 0, 10)[1]["received"] == 3
    assert put(server, made, "f", b"defghij", 3, 10)[1]["received"] == 10
    assert (server.store / "uploads" / made / "part-0").read_bytes() == b"abcdefghij"
    assert call(server, "GET", f"/api/v1/uploads/{made}")[1]["files"] == [{"path": "f", "size": 10, "received": 10}]
    assert put(server, made, "g", b"x")[0] == 400  # more than was said
    assert call(server, "DELETE", f"/api/v1/uploads/{made}")[0] == 200


def test_too_much(server):
    assert call(server, "POST", "/api/v1/uploads", {"bytes": 2**41})[0] == 507
    assert call(server, "POST", "/api/v1/uploads", {"bytes": 2**60})[0] == 400
    for body in ({}, {"bytes": -1}, {"bytes": "1"}, {"bytes": 1, "name": "x" * 101}, {"bytes": 1, "x": 1}, {"bytes": 1, "name": "a\nb"}):
        assert call(server, "POST", "/api/v1/uploads", body)[0] == 400
    made = [begin(server, 1) for _ in range(8)]
    assert call(server, "POST", "/api/v1/uploads", {"bytes": 1})[0] == 503
    listed = call(server, "GET", "/api/v1/uploads")[1]
    assert {u["id"] for u in listed["uploads"]} == set(made) and listed["max_files"] == 4095
    for one in made:
        assert call(server, "DELETE", f"/api/v1/uploads/{one}")[0] == 200
    assert nothing_left(server)


def send_part(server, made, path, size, data):
    """A piece of which only so much comes."""
    s = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    s.sendall(f"PUT /api/v1/uploads/{made}/files?path={path}&size={size} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n"
              .encode() + data)
    return s


def until(check, seconds=20):
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_what_is_broken_off_leaves_nothing(tmp_path):
    with Collector(tmp_path / "store", "--upload-idle", "2") as server:
        server.store = tmp_path / "store"
        made = begin(server, 3_000_001)
        s = send_part(server, made, "x.ntff", 3_000_000, b"a" * 1_000_000)
        until(lambda: call(server, "GET", f"/api/v1/uploads/{made}")[1]["received"] >= 700_000)
        # While it is on its way it is not idle, and nobody else may write to it.
        assert put(server, made, "x.ntff", b"b", 0, 3_000_000)[0] == 409
        s.close()
        # What came can be gone on with...
        until(lambda: put(server, made, "y", b"1")[0] == 200)
        have = call(server, "GET", f"/api/v1/uploads/{made}")[1]["files"][0]["received"]
        assert put(server, made, "x.ntff", b"a" * 10, have, 3_000_000)[0] == 200
        # ... or is gone after a while.
        until(lambda: nothing_left(server))
        assert call(server, "GET", f"/api/v1/uploads/{made}")[0] == 404
        made = begin(server, 3_000_001)
        s = send_part(server, made, "x.ntff", 3_000_000, b"a" * 1_000_000)
        until(lambda: call(server, "GET", f"/api/v1/uploads/{made}")[1]["received"] >= 700_000)
        # Given up while a piece is coming.
        assert call(server, "DELETE", f"/api/v1/uploads/{made}")[0] == 200
        s.close()
        until(lambda: nothing_left(server))
        made = begin(server, 10)
        assert put(server, made, "x", b"1")[0] == 200
        s = send_part(server, made, "y", 9, b"12")
    # Stopped with a piece on its way, it ends in order (Collector looks at its exit code); the next start removes what is there.
    s.close()
    (tmp_path / "store" / "uploads" / "left").mkdir(parents=True, exist_ok=True)
    with Collector(tmp_path / "store") as server:
        server.store = tmp_path / "store"
        until(lambda: nothing_left(server))


def test_a_full_disk(capture, tmp_path):
    """A file system of its own, of a few MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "none", disk], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        with Collector(disk / "store") as server:
            server.store = disk / "store"
            status, data = call(server, "POST", "/api/v1/uploads", {"bytes": 40_000_000})
            assert status == 507 and "disk is full" in data["error"]["message"]
            made = begin(server, 8_000_000)
            fill = disk / "fill"
            fill.write_bytes(b"x" * 6_000_000)
            status, data = put(server, made, "x.ntff", b"a" * 8_000_000)
            assert status == 507 and "disk is full" in data["error"]["message"]
            # With room again it goes on.
            fill.unlink()
            have = call(server, "GET", f"/api/v1/uploads/{made}")[1]["files"][0]["received"]
            assert put(server, made, "x.ntff", b"a" * (8_000_000 - have), have, 8_000_000)[0] == 200
            assert call(server, "DELETE", f"/api/v1/uploads/{made}")[0] == 200 and nothing_left(server)
    finally:
        subprocess.run(["umount", disk], check=True)


def test_users_have_their_own(capture, tmp_path):
    (tmp_path / "tokens").write_text(f"ann {ANN}\nbob {BOB}\n")
    with Collector(tmp_path / "store", "--http-token-file", tmp_path / "tokens") as server:
        ann, bob = bearer(ANN), bearer(BOB)
        assert server.request("POST", "/api/v1/uploads", {"bytes": 1})[0] == 401
        made = begin(server, 100, **ann)
        assert call(server, "GET", f"/api/v1/uploads/{made}", headers=bob)[0] == 404
        assert put(server, made, "x", b"x", **bob)[0] == 404
        assert call(server, "DELETE", f"/api/v1/uploads/{made}", headers=bob)[0] == 404
        assert call(server, "GET", "/api/v1/uploads", headers=bob)[1]["uploads"] == []
        assert call(server, "DELETE", f"/api/v1/uploads/{made}", headers=ann)[0] == 200
        status, answer = upload(server, files_of(capture)[:2], **ann)
        assert status == 202 and answer["state"] == "done"
        (name,) = answer["profiles"]
        until(lambda: call(server, "GET", "/api/v1/profiles/" + name, headers=ann)[1].get("fleet", "ready") == "ready" and
              call(server, "GET", "/api/v1/profiles/" + name, headers=ann)[1]["state"] == "ready")
        assert call(server, "GET", "/api/v1/profiles/" + name, headers=bob)[1]["owner"] == "ann"
        status, data = call(server, "DELETE", "/api/v1/profiles/" + name, headers=bob)
        assert status == 403 and "ann" in data["error"]["message"]
        until(lambda: call(server, "DELETE", "/api/v1/profiles/" + name, headers=ann)[0] == 200)
        # A page from elsewhere cannot upload with somebody's cookie.
        status, headers, _ = server.request("POST", "/login", "token=" + ANN, {"Content-Type": "application/x-www-form-urlencoded"})
        cookie = headers["Set-Cookie"].split(";")[0]
        for more in ({}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            assert server.request("POST", "/api/v1/uploads", {"bytes": 1}, {"Cookie": cookie, **more})[0] == 403
            assert server.request("PUT", "/api/v1/uploads/x/files?path=a&size=1", b"x", {"Cookie": cookie, **more})[0] == 403


def test_what_is_no_upload(server):
    target = "/api/v1/uploads/none/files?path=a&size=1"
    assert server.request("GET", target)[0] == 405 and server.request("POST", target)[0] == 405
    assert call(server, "PUT", "/api/v1/uploads/none/files")[0] == 400
    assert call(server, "PUT", "/api/v1/uploads/none/files?path=a&size=x")[0] == 400
    assert call(server, "PUT", "/api/v1/uploads/none/files?path=a&size=1&more=1")[0] == 400
    # An answer before its body is read; a long body is read no further.
    assert call(server, "PUT", target, b"x" * 2_000_000)[0] == 404
    for method, path in (("POST", "/api/v1/uploads/none/finish"), ("DELETE", "/api/v1/uploads/none"), ("GET", "/api/v1/uploads/none")):
        assert call(server, method, path)[0] == 404


def test_kymo_view_takes_none(tables, tmp_path):
    ports = tmp_path / "ports"
    child = subprocess.Popen([BIN / "kymo", "view", tables, "--http", "127.0.0.1:0", "--ports-file", ports],
                             stdout=subprocess.PIPE, env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")})
    try:
        child.stdout.readline()
        connection = http.client.HTTPConnection("127.0.0.1", int(ports.read_text().split("=")[1]), timeout=30)
        for method, path in (("POST", "/api/v1/uploads"), ("PUT", "/api/v1/uploads/x/files?path=a&size=1"), ("DELETE", "/api/v1/profiles/tables"),
                             ("PUT", "/api/v1/profiles/tables/pin")):
            connection.request(method, path, body=b"{}", headers={"Content-Type": "application/json"})
            answer = connection.getresponse()
            data = json.loads(answer.read())
            assert answer.status == 501 and "kymo-collector" in data["error"]["message"]
        connection.request("GET", "/api/v1/user")
        assert json.loads(connection.getresponse().read())["manages"] is False
        connection.close()
    finally:
        child.terminate()
        child.wait(30)
        child.stdout.close()


def test_off(tmp_path):
    with Collector(tmp_path / "store", "--upload-max", "0") as server:
        status, data = call(server, "POST", "/api/v1/uploads", {"bytes": 1})
        assert status == 501 and "upload-max" in data["error"]["message"]
