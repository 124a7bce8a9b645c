"""What users of the page keep on the server, and how a browser logs in."""

import json
import re
import time
import urllib.parse

import pytest

from api_server import Server
from test_api import call, validate

ANN, BOB = "ann-has-a-token-1", "bob-has-a-token-1"
HOSTILE = ["'; DROP TABLE items; --", "<script>alert(1)</script>", "../../etc/passwd", "a/b?c=d&e", "%00".replace("%", "%25"), "ключ"]
VALUES = {
    "annotations": [{"id": 1, "name": "</script>", "ts": 5, "versus": None}],
    "layouts": [{"id": "timeline1", "type": "timeline", "x": 0, "y": 0, "w": 12, "h": 20}],
    "favourites": True, "recents": True, "folders": ["a", "b"], "tags": ["p"],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("store")) as made:
        yield made


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("guarded"), "--token", f"ann {ANN}\nbob {BOB}") as made:
        yield made


def bearer(token):
    return {"Authorization": "Bearer " + token}


@pytest.mark.parametrize("kind", VALUES)
def test_items_come_back(server, kind):
    assert call(server, "GET", f"/api/v1/{kind}") == (200, {"items": []})
    for name in HOSTILE:
        target = f"/api/v1/{kind}/{urllib.parse.quote(name, safe='')}"
        assert call(server, "GET", target)[0] == 404
        status, item = call(server, "PUT", target, {"value": VALUES[kind]})
        assert status == 200 and item["key"] == name and item["value"] == VALUES[kind]
        assert call(server, "GET", target) == (200, item)
        assert call(server, "PUT", target, {"value": VALUES[kind], "seen": 0})[0] == 409
        status, later = call(server, "PUT", target, {"value": VALUES[kind], "seen": item["changed_ns"]})
        assert status == 200 and later["changed_ns"] > item["changed_ns"]
    keys = [i["key"] for i in call(server, "GET", f"/api/v1/{kind}")[1]["items"]]
    assert keys == (HOSTILE[::-1] if kind == "recents" else sorted(HOSTILE, key=str.encode))
    for name in HOSTILE:
        target = f"/api/v1/{kind}/{urllib.parse.quote(name, safe='')}"
        assert call(server, "DELETE", target) == (200, {"deleted": True})
        assert call(server, "DELETE", target) == (200, {"deleted": False})


@pytest.mark.parametrize("body", [
    {}, {"value": None}, {"value": 1}, {"value": [], "seen": -1}, {"value": [], "seen": "x"}, {"value": [], "more": 1},
    {"value": [{"id": 1}]}, {"value": [{"id": 10**30, "name": "", "ts": 0, "versus": None}]},
    {"value": [{"id": 1, "name": "x" * 201, "ts": 0, "versus": None}]}, {"value": [[[[[]]]]]},
])
def test_other_values_are_refused(server, body):
    assert call(server, "PUT", "/api/v1/annotations/p", body)[0] == 400
    assert call(server, "GET", "/api/v1/annotations/p")[0] == 404


def test_too_much_is_refused(server):
    marks = [{"id": i, "name": "x", "ts": i, "versus": None} for i in range(501)]
    assert call(server, "PUT", "/api/v1/annotations/p", {"value": marks[:500]})[0] == 200
    assert call(server, "PUT", "/api/v1/annotations/p", {"value": marks})[0] == 400
    assert call(server, "PUT", "/api/v1/annotations/p", {"value": [{**m, "name": "x" * 200} for m in marks]})[0] == 413
    for i in range(101):
        assert call(server, "PUT", f"/api/v1/layouts/l{i}", {"value": []})[0] == (200 if i < 100 else 507)
    status, data = call(server, "PUT", "/api/v1/layouts/l100", {"value": []})
    assert status == 507 and data["error"]["code"] == "no_space"


def test_each_user_has_his_own(guarded):
    assert guarded.request("PUT", "/api/v1/tags/t", {"value": ["a"]}, bearer(ANN))[0] == 200
    assert guarded.request("GET", "/api/v1/tags/t", headers=bearer(BOB))[0] == 404
    assert guarded.request("GET", "/api/v1/user", headers=bearer(BOB))[2] == {"user": "bob", "login": False, "manages": False}
    assert guarded.request("GET", "/api/v1/tags/t", headers=bearer(ANN))[2]["value"] == ["a"]


def login(server, token, **headers):
    return server.request("POST", "/login", "token=" + urllib.parse.quote(token, safe=""),
                          {"Content-Type": "application/x-www-form-urlencoded", **headers})


def test_without_a_token_a_browser_gets_only_the_form(guarded):
    seen = set()
    for path in ("/", "/api/v1/profiles", "/index.html", "/assets/main.js", "/none"):
        status, headers, data = guarded.request("GET", path, headers={"Accept": "text/html,*/*"})
        assert status == 401 and headers["Content-Type"].startswith("text/html") and "Set-Cookie" not in headers
        assert "script" not in headers["Content-Security-Policy"] and "default-src 'none'" in headers["Content-Security-Policy"]
        seen.add(data)
    # The page's form goes to its own address, and keeps what is behind the #; all others are one.
    assert len(seen) == 2 and all(b"<form" in data for data in seen)
    for path in ("/login", "/logout", "/api/v1/user"):
        assert guarded.request("GET", path)[0] == 401
    assert guarded.request("POST", "/logout")[0] == 401


def test_login_and_logout(guarded):
    status, headers, data = login(guarded, ANN)
    assert status == 303 and headers["Location"] == "/" and data == b"" and headers["Cache-Control"] == "no-store"
    cookie = headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; ")) and "Secure" not in cookie
    assert ANN not in cookie
    pair = cookie.split(";")[0]
    assert guarded.request("GET", "/api/v1/user", headers={"Cookie": "x=y; " + pair})[2] == {"user": "ann", "login": True, "manages": False}
    own = f"http://127.0.0.1:{guarded.port}"
    put = ("PUT", "/api/v1/tags/u", {"value": []})
    # A browser says where a request that changes something comes from; one that does not say is none of ours.
    assert guarded.request(*put, {"Cookie": pair})[0] == 403
    assert guarded.request(*put, {"Cookie": pair, "Origin": "http://evil.example"})[0] == 403
    assert guarded.request(*put, {"Cookie": pair, "Origin": "null"})[0] == 403
    assert guarded.request(*put, {"Cookie": pair, "Sec-Fetch-Site": "same-site"})[0] == 403
    assert guarded.request(*put, {"Cookie": pair, "Origin": own})[0] == 200
    assert guarded.request(*put, {"Cookie": pair, "Sec-Fetch-Site": "same-origin"})[0] == 200
    status, headers, _ = guarded.request("POST", "/logout", headers={"Cookie": pair, "Origin": own})
    assert status == 303 and re.match("kymo=;.*Max-Age=0", headers["Set-Cookie"])


def test_a_login_at_the_page_itself(guarded):
    own = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://127.0.0.1:{guarded.port}"}
    status, headers, _ = guarded.request("POST", "/", "token=" + BOB, own)
    assert status == 303 and headers["Location"] == "/" and headers["Set-Cookie"].startswith("kymo=")
    pair = headers["Set-Cookie"].split(";")[0]
    # "Go on": the cookie that did not come with a link from elsewhere comes with a form of ours.
    status, headers, _ = guarded.request("POST", "/", "", {**own, "Cookie": pair})
    assert status == 303 and headers["Location"] == "/" and "Set-Cookie" not in headers
    status, _, data = guarded.request("POST", "/", "", own)
    assert status == 401 and b"not logged in" in data
    assert guarded.request("POST", "/", "token=" + BOB, {**own, "Origin": "http://evil.example"})[0] == 403
    assert guarded.request("GET", "/", headers={"Cookie": pair})[0] in (200, 404)
    assert guarded.request("PUT", "/", "", {**own, "Cookie": pair})[0] in (404, 405)


def test_wrong_tokens_are_slowed_down(tmp_path):
    with Server(tmp_path, "--token", f"ann {ANN}\nbob {BOB}") as server:
        pair = login(server, ANN)[1]["Set-Cookie"].split(";")[0]
        for n in range(10):
            assert login(server, f"wrong-token-number-{n:04}")[0] == 401
            assert server.request("GET", "/api/v1/user", headers=bearer(f"wrong-token-number-{n:04}"))[0] == 401
        # Requests without a token, and cookies of another process, are no attempts.
        for cookie in ("", "kymo=" + "0" * 81):
            assert server.request("GET", "/api/v1/user", headers={"Cookie": cookie})[0] == 401
        for answer in (login(server, BOB), server.request("GET", "/api/v1/user", headers=bearer(BOB)), login(server, "another-wrong-token")):
            assert answer[0] == 429 and 1 <= int(answer[1]["Retry-After"]) <= 3
        assert login(server, BOB, Accept="text/html")[1]["Content-Type"].startswith("text/html")
        user = server.request("GET", "/api/v1/user", headers={"Cookie": pair})[2]
        assert user["user"] == "ann" and user["login"]
        own = {"Cookie": pair, "Origin": f"http://127.0.0.1:{server.port}"}
        assert login(server, BOB, **own)[0] == 429, "who is logged in may not try others' tokens"
        text = server.request("GET", "/metrics", headers={"Cookie": pair})[2].decode()
        assert 'kymo_collector_http_refused_total{cause="attempts"} 5' in text
        time.sleep(3.1)
        assert login(server, BOB)[0] == 303
        assert login(server, "another-wrong-token")[0] == 401
        assert login(server, BOB)[0] == 429, "one attempt at a time from then on"


def test_a_cookie_does_not_hide_wrong_tokens(tmp_path):
    with Server(tmp_path, "--token", f"ann {ANN}\nbob {BOB}") as server:
        pair = login(server, ANN)[1]["Set-Cookie"].split(";")[0]
        for n in range(20):
            status, _, data = server.request("GET", "/api/v1/user", headers={"Cookie": pair, **bearer(f"wrong-token-number-{n:04}")})
            assert status == 200 and data["user"] == "ann" and data["login"]
        assert login(server, BOB)[0] == 429


@pytest.mark.parametrize("token", ["", "x", ANN + "x", ANN[:-1], "ann " + ANN, f"ann {ANN}\nbob {BOB}", "%", "x" * 5000])
def test_wrong_tokens_do_not_log_in(guarded, token):
    status, headers, data = login(guarded, token)
    assert status == 401 and "Set-Cookie" not in headers and b"<form" in data


def test_foreign_pages_do_not_log_in(guarded):
    assert login(guarded, ANN, Origin="http://evil.example")[0] == 403
    assert guarded.request("POST", "/login", json.dumps({"token": ANN}), {"Content-Type": "application/json"})[0] == 415
    assert guarded.request("GET", "/login?token=" + ANN)[0] == 401
    assert guarded.request("GET", "/api/v1/user?token=" + ANN)[0] == 401
    assert guarded.request("POST", "/login", "token=a&token=b", {"Content-Type": "application/x-www-form-urlencoded"})[0] == 401


def test_cookies_that_were_made_up(guarded):
    pair = login(guarded, BOB)[1]["Set-Cookie"].split(";")[0]
    for cookie in ("kymo=", "kymo", "kymo=" + "0" * 81, pair[:-1], pair + "0", pair.replace("kymo=", "kymo=f"), "__Host-" + pair,
                   pair.replace("=0", "=f", 1), "kymo=" + "ffffffffffffffff." + pair.split(".")[1], ";" * 50):
        assert guarded.request("GET", "/api/v1/user", headers={"Cookie": cookie})[0] == 401, cookie
    assert guarded.request("GET", "/api/v1/user", headers={"Cookie": pair})[0] == 200


def test_without_tokens_there_is_no_login(server):
    assert login(server, ANN)[0] in (404, 405)
    status, data = call(server, "GET", "/api/v1/user")
    assert (status, data) == (200, {"user": "local", "login": False, "manages": False})
    validate({"$ref": "#/components/schemas/User"}, data)
