"""The collector's HTTP API against its description, collector/openapi.json: routes, parameters, answers."""

import json
from pathlib import Path
import re
import subprocess

import jsonschema
import pytest

from api_server import SERVER, Server

DOCUMENT = json.loads((Path(__file__).parents[2] / "collector" / "openapi.json").read_text())
CAPTURES = 30
PROFILES = 2 * CAPTURES + 2
QUERIES = {o["operationId"] for path, methods in DOCUMENT["paths"].items() for method, o in methods.items()
           if path.startswith(("/api/v1/profiles/{name}/", "/api/v1/compare", "/api/v1/fleet")) and method == "get"}
STATES = ["received", "queued", "processing", "ready", "failed"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("store"), "--captures", str(CAPTURES)) as made:
        yield made


def operations():
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def operation_of(method, target):
    path = target.split("?")[0]
    for known_method, pattern, operation in operations():
        if method == known_method and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", pattern), path):
            return operation
    return None


def validate(schema, value):
    """The document is the root of references."""
    resolver = jsonschema.Draft202012Validator({**DOCUMENT, **schema} if "$ref" in schema else schema)
    resolver.validate(value)


def call(server, method, target, body=None, headers=None):
    """A request whose answer is as the document says."""
    status, got, data = server.request(method, target, body, headers)
    operation = operation_of(method, target)
    described = (operation or {"responses": {}})["responses"].get(str(status))
    if described is None:
        assert status >= 400, (status, data)
        validate({"$ref": "#/components/schemas/Error"}, data)
    else:
        kind = got["Content-Type"].split(";")[0]
        schema = described["content"][kind]["schema"]
        validate(schema, data if kind == "application/json" else data.decode())
    assert got["X-Content-Type-Options"] == "nosniff" and got["X-Frame-Options"] == "DENY"
    assert got["Cache-Control"] == "no-store"
    assert "default-src 'none'" in got["Content-Security-Policy"]
    return status, data


def all_pages(server, path, key, **params):
    rows, cursor = [], None
    for _ in range(200):
        query = "&".join(f"{k}={v}" for k, v in {**params, **({"cursor": cursor} if cursor else {})}.items())
        status, data = call(server, "GET", f"{path}?{query}")
        assert status == 200
        rows += data[key]
        cursor = data["next"]
        if cursor is None:
            return rows
    raise AssertionError("pages do not end")


def test_document_is_sound():
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    used = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(DOCUMENT)))
    assert used == set(DOCUMENT["components"]["schemas"])
    for _, path, operation in operations():
        named = {p["name"] for p in operation.get("parameters", []) if p["in"] == "path"}
        assert named == set(re.findall(r"\{(\w+)\}", path))
        assert operation["operationId"] and operation["summary"] and "default" in operation["responses"]


def test_every_route_is_described():
    routes = subprocess.run([SERVER, "--routes"], check=True, capture_output=True, text=True).stdout.split("\n")
    # The page's own files are no part of the API.
    api = [r for r in routes if r and re.match(r"\w+ /(api/|metrics)", r)]
    assert sorted(api) == sorted(f"{method} {path}" for method, path, _ in operations())


def test_every_parameter_is_taken_and_no_other(server):
    for method, path, operation in operations():
        target = path.format(name="train-host-0-r0-cap-00000-nc0", id="cap-00000", table="Instruction", key="k")
        # This server has no tables to ask about; what is asked is looked at all the same.
        taken = {400, 404, 409, 501} if path == "/api/v1/compare" else {409, 501} if operation["operationId"] in QUERIES else {200}
        if path.startswith("/api/v1/uploads"):  # this server takes none; test_upload.py has theirs
            assert call(server, method, target)[0] == 501
            continue
        assert call(server, method, target + "?surely_not=1")[0] == 400
        for p in operation.get("parameters", []):
            if p["in"] != "query" or p["name"] == "cursor":
                continue
            value = p["schema"].get("enum", [1])[0]
            assert call(server, method, f"{target}?{p['name']}={value}")[0] in taken, p["name"]


def test_profiles(server):
    rows = all_pages(server, "/api/v1/profiles", "profiles", limit=7)
    assert len({r["name"] for r in rows}) == len(rows) == PROFILES
    assert [r["received_ns"] for r in rows] == sorted((r["received_ns"] for r in rows), reverse=True)
    assert {r["state"] for r in rows} == set(STATES)
    failed = next(r for r in rows if r["state"] == "failed")
    assert failed["reason"] and failed["file_offset"] == 4096
    ready = next(r for r in rows if r["state"] == "ready")
    assert ready["path"].endswith(ready["name"] + "@latest") and ready["tables"] == 3
    status, one = call(server, "GET", "/api/v1/profiles/" + failed["name"])
    assert status == 200
    labels = one.pop("labels")
    assert one == failed and list(labels) == ["team"]
    assert call(server, "GET", "/api/v1/profiles/none")[0] == 404


@pytest.mark.parametrize("filters, expected", [
    ({"job": "train"}, CAPTURES),
    ({"job": "nobody"}, 0),
    ({"host": "host-3"}, 6),
    ({"capture": "cap-00007"}, 2),
    ({"rank": 0}, 8),
    ({"text": "cap-0000"}, 20),
    ({"text": "colour_1"}, 20),
    ({"text": "%25"}, 2),
    ({"text": "colour%251"}, 0),
    ({"job": "train", "host": "host-3"}, 0),
    ({"job": "%27 OR 1=1 --".replace(" ", "%20")}, 0),
])
@pytest.mark.parametrize("sort", ["received", "-finished", "name"])
def test_filters(server, filters, expected, sort):
    rows = all_pages(server, "/api/v1/profiles", "profiles", limit=4, sort=sort, **filters)
    assert len(rows) == len({r["name"] for r in rows}) == expected
    if sort == "name":
        assert [r["name"] for r in rows] == sorted(r["name"] for r in rows)


@pytest.mark.parametrize("query", [
    "limit=0", "limit=1001", "limit=-1", "limit=x", "limit=", "limit=1e3", "limit=99999999999999999999", "rank=4294967296",
    "state=READY", "sort=size", "cursor=", "cursor=x", "cursor=na0.x", "limit=1&limit=2", "text=%00", "text=%ff", "text=%",
    "cursor=rd" + "f" * 17 + ".x", "cursor=rd1." + "x" * 300,
])
def test_bad_parameters(server, query):
    assert call(server, "GET", "/api/v1/profiles?" + query)[0] == 400


def test_captures(server):
    rows = all_pages(server, "/api/v1/captures", "captures", limit=4)
    assert len({r["id"] for r in rows}) == len(rows) == CAPTURES + 2
    assert rows[0]["id"] == "cap-receiving" and rows[0]["state"] == "receiving" and rows[0]["reason"]
    assert len(all_pages(server, "/api/v1/captures", "captures", job="eval")) == CAPTURES // 2
    assert len(all_pages(server, "/api/v1/captures", "captures", state="receiving", limit=1)) == 1
    status, one = call(server, "GET", "/api/v1/captures/cap-00003")
    assert status == 200 and len(one["profiles"]) == 2 and one["labels"] == {"team": "colour_0"}
    assert call(server, "GET", "/api/v1/captures/none")[0] == 404


def test_names_that_hosts_made_up(server):
    status, one = call(server, "GET", "/api/v1/captures/cap-hostile")
    assert status == 200
    assert one["job"] == "<script>\"\x01??(</script>"
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", p["name"]) for p in one["profiles"])
    assert call(server, "GET", "/api/v1/hosts")[1]["hosts"][1]["name"] == "h?<b>"


def test_reprocess(server):
    failed = all_pages(server, "/api/v1/profiles", "profiles", state="failed")
    assert len(failed) > 2
    failed.sort(key=lambda row: row["vnc"])
    target = f"/api/v1/profiles/{failed[0]['name']}/reprocess"
    assert call(server, "POST", target) == (202, {"queued": 1})
    status, data = call(server, "POST", target)
    assert status == 409 and data["error"]["code"] == "state"
    assert call(server, "GET", "/api/v1/profiles/" + failed[0]["name"])[1]["state"] == "queued"
    assert call(server, "POST", "/api/v1/profiles/none/reprocess")[0] == 404
    assert call(server, "POST", "/api/v1/reprocess", {"failed": True}) == (202, {"queued": len(failed) - 1})
    assert call(server, "POST", "/api/v1/reprocess", {"capture": "cap-00001"})[0] == 202
    for body in ({}, {"failed": False}, {"failed": True, "capture": "c"}, {"failed": 1}, {"capture": ""}, {"capture": 1},
                 {"capture": "a\nb"}, {"capture": "x" * 256}, {"other": 1}):
        assert call(server, "POST", "/api/v1/reprocess", body)[0] == 400, body


def test_capture_requests(server):
    good = {"job": "train", "mode": "session", "step": 5, "ranks_one_in": 8, "cores": [0, 1]}
    validate({"$ref": "#/components/schemas/CaptureRequest"}, good)
    status, data = call(server, "POST", "/api/v1/captures", good)
    assert status == 202 and data["hosts"][0]["captures"] == ["cap-new-0", "cap-new-1"]
    assert data["hosts"][1]["error"]
    assert call(server, "POST", "/api/v1/captures")[0] == 202
    assert call(server, "POST", "/api/v1/captures", {"host": "nobody"})[0] == 404
    for body in ({"mode": "fast"}, {"step": 0}, {"step": -1}, {"step": 1.5}, {"step": "1"}, {"cores": [1, 1]}, {"cores": [-1]},
                 {"cores": 1}, {"cores": list(range(129))}, {"ranks_one_in": 0}, {"ranks_one_in": 1 << 32}, {"job": ""}):
        assert call(server, "POST", "/api/v1/captures", body)[0] == 400, body
        with pytest.raises(jsonschema.ValidationError):
            validate({"$ref": "#/components/schemas/CaptureRequest"}, body)


@pytest.mark.parametrize("body", [b"{", b"[]", b"1", b'{"job":"a","job":"b"}', b"[" * 60000, b'{"job":"\xff"}', b'{"job":"\\u0000"}',
                                  b'{"step":' + b"9" * 400 + b"}"])
def test_bad_bodies(server, body):
    assert call(server, "POST", "/api/v1/captures", body, {"Content-Type": "application/json"})[0] == 400


@pytest.mark.parametrize("kind", [None, "text/plain", "application/jsonx", "application/x-www-form-urlencoded"])
def test_body_of_another_type(server, kind):
    headers = {"Content-Type": kind} if kind else {}
    assert call(server, "POST", "/api/v1/captures", b"{}", headers)[0] == 415


def test_status(server):
    status, data = call(server, "GET", "/api/v1/status")
    assert status == 200 and sum(data["profiles"].values()) == PROFILES and data["hosts"] == 2


def test_metrics(server):
    status, text = call(server, "GET", "/metrics")
    assert status == 200
    families, line = {}, re.compile(r'([a-z_]+)(\{[a-z]+="(?:[^"\\\n]|\\[\\"n])*"\})? [0-9.]+')
    for row in text.decode().splitlines():
        if row.startswith("# TYPE "):
            _, _, name, kind = row.split(" ")
            assert name not in families
            families[name] = kind
        elif not row.startswith("#"):
            found = line.fullmatch(row)
            assert found and found[1] in families, row
            assert families[found[1]] == ("counter" if found[1].endswith("_total") else "gauge")
    assert 'kymo_collector_refused_total{cause="no \\"space\\"\\\\\\n"} 1' in text.decode()
    assert f'kymo_collector_profiles{{state="ready"}}' in text.decode()


def test_methods(server):
    for method, path, _ in operations():
        target = path.format(name="x", id="x", table="x", key="x")
        status, headers, data = server.request("PATCH", target)
        assert status == 405 and method in headers["Allow"].split(", ") and data["error"]["code"] == "method"
    assert call(server, "GET", "/nothing")[0] == 404
    status, headers, page = server.request("GET", "/")
    assert status == 200 and "default-src 'self'" in headers["Content-Security-Policy"] and b"<title>kymo</title>" in page
    assert server.request("GET", "/", headers={"If-None-Match": headers["ETag"]})[0] == 304
    status, headers, data = server.request("HEAD", "/api/v1/status")
    assert status == 200 and data == b"" and int(headers["Content-Length"]) > 100


def test_profiles_by_name(server):
    names = [r["name"] for r in all_pages(server, "/api/v1/profiles", "profiles")][::-1][:40]
    status, data = call(server, "POST", "/api/v1/profiles/find", {"names": [names[3], "none", *names, "'; --"]})
    assert status == 200 and [r["name"] for r in data["profiles"]] == [names[3], *names]
    assert call(server, "POST", "/api/v1/profiles/find", {}) == (200, {"profiles": []})
    for wrong in (["x"] * 101, [1], [""], ["x" * 256], "x", [["x"]], {"a": 1}):
        assert call(server, "POST", "/api/v1/profiles/find", {"names": wrong})[0] == 400
    assert call(server, "POST", "/api/v1/profiles/find", {"name": "x"})[0] == 400
