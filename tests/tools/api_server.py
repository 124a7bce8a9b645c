"""The test server of the collector's HTTP API as a process, and requests to it as bare as they can be."""

import http.client
import json
import os
from pathlib import Path
import socket
import subprocess

BUILD = Path(os.environ.get("KYMO_BUILD", "build")).resolve()
SERVER = BUILD / "bin" / "api-server"
TIMEOUT = 60


class Server:
    def __init__(self, data_path, *options):
        self.process = subprocess.Popen([SERVER, "--data-path", data_path, *options], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline().split()
        if line[:1] != ["port"]:
            self.process.wait(TIMEOUT)
            raise RuntimeError(self.process.stderr.read())
        self.port = int(line[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def close(self):
        self.process.stdin.close()
        code = self.process.wait(TIMEOUT)
        said = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        # Under sanitizers this is where leaks are told.
        assert code == 0, said

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def request(self, method, path, body=None, headers=None):
        """Status, headers, and the body as JSON where it is that."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        try:
            sent = dict(headers or {})
            if isinstance(body, dict):
                body = json.dumps(body)
                sent.setdefault("Content-Type", "application/json")
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        if answer.headers.get("Content-Type") == "application/json" and data:
            data = json.loads(data)
        return answer.status, answer.headers, data

    def get(self, path, **headers):
        status, _, data = self.request("GET", path, headers=headers)
        return status, data

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT)

    def raw(self, data):
        """All that comes back for these bytes, until the server closes."""
        with self.connect() as s:
            out = b""
            try:
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
                while piece := s.recv(65536):
                    out += piece
            except OSError:
                pass  # it was turned away before it had said all
        return out
