"""Clients of the collector's HTTP API that are broken, slow, many or up to no good: each is turned away, and the others do not
notice."""

import http.client
import os
import socket
import ssl
import subprocess
import threading
import time

import pytest

from api_server import TIMEOUT, Server

TOKEN = "a-token-of-some-length"
QUICK = ["--request-ms", "700", "--answer-ms", "700", "--send-ms", "1500"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("store"), "--captures", "3", "--name", "collector.example") as made:
        yield made


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """One that gives its clients little time."""
    with Server(tmp_path_factory.mktemp("quick"), "--captures", "300", *QUICK) as made:
        yield made


def metric(server, name, **headers):
    text = server.request("GET", "/metrics", headers=headers)[2].decode()
    return int(next(line for line in text.splitlines() if line.startswith(name + " ")).split()[-1])


def refused(server, cause, **headers):
    return metric(server, f'kymo_collector_http_refused_total{{cause="{cause}"}}', **headers)


@pytest.mark.parametrize("host, code", [
    ("evil.example", 403), ("127.0.0.1.evil.example", 403), ("localhost.evil.example:3001", 403), ("", 403), ("0.0.0.0", 403),
    ("localhost", 200), ("LOCALHOST:99", 200), ("[::1]:3001", 200), ("127.1.2.3", 200), ("collector.example:80", 200),
])
def test_host(server, host, code):
    answer = server.raw(f"GET /api/v1/status HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(f"HTTP/1.1 {code} ".encode())


@pytest.mark.parametrize("headers", [
    {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:1"}, {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
])
def test_pages_from_elsewhere(server, headers):
    status, _, data = server.request("POST", "/api/v1/reprocess", {"failed": True}, headers)
    assert status == 403 and data["error"]["code"] == "origin"


def test_own_page(server):
    headers = {"Origin": f"http://127.0.0.1:{server.port}", "Sec-Fetch-Site": "same-origin"}
    assert server.request("POST", "/api/v1/captures", {}, headers)[0] == 202


@pytest.mark.parametrize("request_bytes, codes", [
    (b"GET /api/v1/status HTTP/1.1\r\n\r\n", [400]),
    (b"GET /api/v1/status HTTP/1.0\r\n\r\n", [400]),
    (b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n", [400, 403]),
    (b"GET /api/v1/status HTTP/1.1\r\nHost: evil\r\nHost: localhost\r\n\r\n", [400, 403]),
    (b"POST /api/v1/captures HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", [400]),
    (b"POST /api/v1/captures HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", [400]),
    (b"POST /api/v1/captures HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n{}", [400]),
    (b"POST /api/v1/captures HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n{}", [400, 413]),
    (b"GET http://localhost/api/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n", [400]),
    (b"GET //api/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n", [404]),
    (b"GET /api/v1/../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", [404]),
    (b"GET /api/v1/profiles/..%2f..%2fcatalog.db HTTP/1.1\r\nHost: localhost\r\n\r\n", [404]),
    (b"GET /api/v1/profiles/%2e%2e/status HTTP/1.1\r\nHost: localhost\r\n\r\n", [404]),
    (b"GET /api/v1/profiles/a%00b HTTP/1.1\r\nHost: localhost\r\n\r\n", [400]),
    (b"GET /api/v1/profiles/%0d%0aX: HTTP/1.1\r\nHost: localhost\r\n\r\n", [400]),
    (b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n", [400]),
    (b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", [400]),
    (b"CONNECT evil:443 HTTP/1.1\r\nHost: localhost\r\n\r\n", [400]),
    (b"BREW /api/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n", [405]),
    (b"get /api/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n", [405]),
    (b"GET /api/v1/status?" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", [400]),
    (b"GET /" + b"a" * 60000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", [400, 414]),
    (b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 60000 + b"\r\n\r\n", [413, 431]),
    (b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\n" + b"X: a\r\n" * 5000 + b"\r\n", [413, 431]),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", []),
    (b"\x00" * 1000, []),
    (b"\r\n" * 1000, []),
])
def test_requests_that_are_none(server, request_bytes, codes):
    answer = server.raw(request_bytes.replace(b"Host: localhost\r\n\r\n", b"Host: localhost\r\nConnection: close\r\n\r\n"))
    # Of a head that is too long something may be left unread, which may take the answer with it.
    if answer or (codes and len(request_bytes) < 16384):
        assert answer[:9] == b"HTTP/1.1 " and int(answer[9:12]) >= 400
        assert not codes or int(answer[9:12]) in codes, answer[:200]
    assert server.get("/api/v1/status")[0] == 200


@pytest.mark.parametrize("size, code", [(65536, 400), (65537, 413), (1000000, 413)])
@pytest.mark.parametrize("chunked", [False, True])
def test_long_bodies(server, size, code, chunked):
    body = b" " * size
    sent = iter([body[:7], body[7:]]) if chunked else body
    status, _, data = server.request("POST", "/api/v1/captures", sent, {"Content-Type": "application/json"})
    assert status == code and data["error"]["message"]


def test_endless_body(server):
    """Closed in time, though nothing ever says how long it is."""
    with server.connect() as s:
        s.sendall(b"POST /api/v1/captures HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        piece = b"10000\r\n" + b" " * 65536 + b"\r\n"
        with pytest.raises(OSError):
            for _ in range(1000):
                s.sendall(piece)
    assert server.get("/api/v1/status")[0] == 200


def test_pipelining(server):
    ask = b"GET /api/v1/profiles/none HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answer = server.raw(ask * 200 + last)
    assert answer.count(b"HTTP/1.1 404 ") == 200 and answer.count(b"HTTP/1.1 200 ") == 1


def test_pipelining_behind_a_later_answer(server):
    wait = b"POST /api/v1/captures HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answer = server.raw(wait * 3 + last)
    assert answer.count(b"HTTP/1.1 202 ") == 3 and answer.count(b"HTTP/1.1 200 ") == 1


def test_clients_that_leave(server):
    for _ in range(40):
        with server.connect() as s:
            s.sendall(b"POST /api/v1/captures HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with server.connect() as s:
            s.sendall(b"GET /api/v1/profiles HTTP/1.1\r\nHost: localhost\r\n\r\nGET ")
        with server.connect() as s:
            s.sendall(b"POST /api/v1/captures HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
    deadline = time.monotonic() + TIMEOUT
    while metric(server, "kymo_collector_http_connections") > 1 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert metric(server, "kymo_collector_http_connections") == 1


def end_of(s):
    try:
        return s.recv(65536)
    except ConnectionResetError:
        return b""


def test_slow_clients(quick):
    """Headers byte by byte, a body that does not come, nothing at all: each has its time and no more."""
    heads = [b"", b"GET /api/v1/sta", b"POST /api/v1/captures HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"]
    before = refused(quick, "slow")
    sockets = [quick.connect() for _ in heads]
    for s, head in zip(sockets, heads):
        s.sendall(head)
    begin = time.monotonic()
    dripping = sockets[1]
    with pytest.raises(OSError):
        while time.monotonic() - begin < TIMEOUT:
            dripping.sendall(b"t")
            time.sleep(0.05)
    for s in (sockets[0], sockets[2]):
        assert end_of(s) == b""
        s.close()
    dripping.close()
    # On a slow machine the one that asks for this may have been slow itself.
    assert refused(quick, "slow") >= before + 3


def test_answers_that_do_not_come(quick, tmp_path):
    status, _, data = quick.request("POST", "/api/v1/profiles/never/reprocess")
    assert status == 504 and data["error"]["code"] == "timeout"
    # One waits when all ends, and learns it.
    with Server(tmp_path) as server:
        s = server.connect()
        s.sendall(b"POST /api/v1/profiles/never/reprocess HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert server.get("/api/v1/status")[0] == 200
    assert b"HTTP/1.1 503 " in s.recv(65536)
    s.close()


def test_client_that_does_not_read(quick):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(TIMEOUT)
        s.connect(("127.0.0.1", quick.port))
        s.sendall(b"GET /api/v1/profiles?limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n" * 40)
        begin = time.monotonic()
        while metric(quick, "kymo_collector_http_connections") > 1 and time.monotonic() - begin < TIMEOUT:
            time.sleep(0.05)
        # Not at once, and long before anybody takes all of it.
        assert 1 < time.monotonic() - begin < TIMEOUT


def test_five_hundred_connections(tmp_path):
    """Idle ones make room for those that ask, and nobody who asks has to wait."""
    with Server(tmp_path, "--connections", "50") as server:
        idle = [server.connect() for _ in range(500)]
        begin = time.monotonic()
        assert server.get("/api/v1/status")[0] == 200
        assert time.monotonic() - begin < 15  # idle ones have 20 s
        assert metric(server, "kymo_collector_http_connections") <= 51
        assert refused(server, "crowded") >= 449
        for s in idle:
            s.close()
        assert server.get("/api/v1/status")[0] == 200


def test_many_at_once(server):
    """Keep-alive clients in parallel, each gets its own answers."""
    wrong = []

    def run(i):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT)
        for k in range(30):
            connection.request("GET", f"/api/v1/profiles/none-{i}-{k}")
            answer = connection.getresponse()
            if f"none-{i}-{k}".encode() not in answer.read():
                wrong.append((i, k))
        connection.close()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(TIMEOUT)
    assert not wrong


@pytest.mark.parametrize("options, words", [
    (["--address", "0.0.0.0:0"], "there is no token"),
    (["--address", "0.0.0.0:0", "--token", TOKEN], "there is no TLS"),
    (["--address", "[::]:0", "--token", TOKEN], "there is no TLS"),
    (["--address", "0.0.0.0:0", "--plain"], "there is no token"),
    (["--token", "short"], "a token has"),
    (["--token", "spaces in this token"], "a token has"),
    (["--address", "localhost:0"], "a numeric address is needed"),
])
def test_not_started(tmp_path, options, words):
    with pytest.raises(RuntimeError, match=words):
        Server(tmp_path, *options)


def check_token(ask):
    for headers in ({}, {"Authorization": "Bearer wrong-token-of-some-length"}, {"Authorization": "Basic " + TOKEN},
                    {"Authorization": "Bearer " + TOKEN[:-1]}, {"Authorization": "Bearer " + TOKEN + "x"}):
        for method, path in (("GET", "/api/v1/status"), ("GET", "/metrics"), ("GET", "/"), ("POST", "/api/v1/captures"),
                             ("GET", "/%"), ("BREW", "/")):
            status, got, data = ask(method, path, headers=headers)
            assert status == 401 and got["WWW-Authenticate"].startswith("Bearer") and data["error"]["code"] == "token"
    good = {"Authorization": "Bearer " + TOKEN}
    assert ask("GET", "/api/v1/status", headers=good)[0] == 200
    assert ask("POST", "/api/v1/captures", headers=good)[0] == 202


def test_token(tmp_path):
    with Server(tmp_path, "--token", TOKEN) as server:
        check_token(server.request)
        assert refused(server, "token", Authorization="Bearer " + TOKEN) == 30


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificate")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out",
                    cert], check=True, capture_output=True)
    return cert, key


@pytest.fixture(scope="module")
def tls_server(certificate, tmp_path_factory):
    cert, key = certificate
    with Server(tmp_path_factory.mktemp("tls"), "--captures", "300", "--address", "0.0.0.0:0", "--token", TOKEN, "--cert", cert, "--key", key,
                *QUICK) as made:
        context = ssl.create_default_context(cafile=cert)

        def connect():
            return context.wrap_socket(made.connect(), server_hostname="localhost")

        def request(method, path, body=None, headers=None):
            connection = http.client.HTTPSConnection("127.0.0.1", made.port, timeout=TIMEOUT, context=context)
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            data = answer.read()
            connection.close()
            import json
            return answer.status, answer.headers, json.loads(data) if data[:1] == b"{" else data

        made.request, made.connect_tls, made.context = request, connect, context
        yield made


def test_tls(tls_server):
    server = tls_server
    check_token(server.request)
    good = {"Authorization": "Bearer " + TOKEN}
    # A page may end early on a slow machine.
    rows, cursor = 0, ""
    while cursor is not None:
        _, _, data = server.request("GET", "/api/v1/profiles?limit=1000" + cursor, headers=good)
        rows += len(data["profiles"])
        cursor = data["next"] and "&cursor=" + data["next"]
    assert rows == 602
    # A plain client, noise, one that leaves in the handshake, one that says nothing.
    for noise in (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", os.urandom(5000), b"\x16\x03\x01", b""):
        with server.connect() as s:
            s.sendall(noise)
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode, old.maximum_version = False, ssl.CERT_NONE, ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        old.wrap_socket(server.connect())
    for _ in range(20):
        with server.connect_tls() as s:
            s.sendall(b"POST /api/v1/captures HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n\r\n")
    assert server.request("GET", "/api/v1/status", headers=good)[0] == 200


def test_tls_slow_and_unread(tls_server):
    server = tls_server
    slow = server.connect_tls()
    slow.sendall(b"GET /api/v1/status HTTP/1.1\r\nX")
    assert end_of(slow) == b""
    slow.close()
    unread = server.connect_tls()
    unread.sendall(b"GET /api/v1/profiles?limit=1000 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + TOKEN.encode() +
                   b"\r\n\r\nGET / HTTP/1.1\r\n")
    good = {"Authorization": "Bearer " + TOKEN}
    begin = time.monotonic()
    while metric(server, "kymo_collector_http_connections", **good) > 1 and time.monotonic() - begin < TIMEOUT:
        time.sleep(0.05)
    assert time.monotonic() - begin < TIMEOUT
    unread.close()
