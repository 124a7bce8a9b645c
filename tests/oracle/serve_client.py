"""A client of kymo-query --serve, as kymo-collector is one: frames over a socket pair (collector/query/SERVE.md)."""

import json
import os
import socket
import struct
import subprocess

import packed
import profiles

REQUEST, HEAD, DATA, END, CANCEL, CREDIT = range(1, 7)


class Failed(Exception):
    def __init__(self, end):
        super().__init__(f"{end['status']} {end['message']}")
        self.status, self.code = end["status"], end["code"]


class Server:
    def __init__(self, *options):
        self.socket, child = socket.socketpair()
        self.socket.settimeout(120)
        os.set_inheritable(child.fileno(), True)
        number = child.fileno()
        # The descriptor becomes 3 between fork and exec.
        command = ["/bin/bash", "-c", f'exec 3<&{number}; exec "$0" --serve "$@"', profiles.BIN.absolute() / "kymo-query", *options]
        self.child = subprocess.Popen([str(c) for c in command], pass_fds=(number,))
        child.close()
        self.next = 1
        self.buffer = b""

    def close(self):
        self.socket.close()
        return self.child.wait(timeout=30)

    def send(self, kind, number, payload=b""):
        self.socket.sendall(struct.pack("<IBI", len(payload), kind, number) + payload)

    def frame(self):
        while True:
            if len(self.buffer) >= 9:
                n, kind, number = struct.unpack_from("<IBI", self.buffer)
                if len(self.buffer) >= 9 + n:
                    payload, self.buffer = self.buffer[9 : 9 + n], self.buffer[9 + n :]
                    return kind, number, payload
            more = self.socket.recv(1 << 20)
            if not more:
                raise EOFError
            self.buffer += more

    def begin(self, directory, op, **params):
        number, self.next = self.next, self.next + 1
        question = {"dir": str(os.path.abspath(directory)), "op": op, "params": {k.rstrip("_"): str(v) for k, v in params.items()}}
        self.send(REQUEST, number, json.dumps(question).encode())
        return number

    def finish(self, number):
        head, data = None, bytearray()
        while True:
            kind, got, payload = self.frame()
            assert got == number
            if kind == HEAD:
                head = json.loads(payload)
            elif kind == DATA:
                data += payload
                self.send(CREDIT, number, struct.pack("<I", len(payload)))
            else:
                assert kind == END
                end = json.loads(payload)
                if end:
                    raise Failed(end)
                break
        assert head["status"] == 200
        if head["type"].startswith("text/csv"):
            return data.decode()
        return json.loads(data) if head["type"] == "application/json" else packed.decode(bytes(data))

    def ask(self, directory, op, **params):
        return self.finish(self.begin(directory, op, **params))
