#!/usr/bin/env python3
"""A stand-in for the collector that the viewer's tests use to show what a real server seldom shows: slow, failing and breaking answers.

usage: double.py --pages DIST [--port N] [--sources DIR] NAME=DIRECTORY...   prints "listening PORT"
POST /faults with [{"path": REGEX, "delay": S, "status": N, "break": true, "times": N}, ...] makes requests slow, fail or break off.
GET /requests tells what was asked since the last DELETE /requests, and which of it the page gave up."""

import argparse
import datetime
import decimal
import json
import math
import re
import select
import socket
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

import duckdb

import double_more
from double_tables import Tables

TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
POLICY = "default-src 'self'; img-src 'self' data: blob:; frame-ancestors 'none'; object-src 'none'; base-uri 'none'"
PACKED = "application/vnd.kymo.packed"


def plain(value):
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, uuid.UUID):
        return str(value)
    raise TypeError(type(value))


def finite(value):
    """JSON has no NaN: such values are null."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class State:
    def __init__(self, pages, profiles, sources):
        self.sources = sources
        self.pages = pages
        self.profiles = profiles
        self.faults = []
        self.requests = []
        self.lock = threading.Lock()

    def fault(self, path):
        with self.lock:
            for fault in self.faults:
                if re.search(fault["path"], path) and fault.get("times", 1) > 0:
                    fault["times"] = fault.get("times", 1) - 1
                    return fault
        return None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state = None

    def log_message(self, *_):
        pass

    def send(self, status, kind, body):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.send_header("content-security-policy", POLICY)
        self.end_headers()
        self.wfile.write(body)

    def json(self, value, status=200):
        self.send(status, "application/json", json.dumps(finite(value), default=plain).encode())

    def error(self, status, code, message):
        self.json({"error": {"code": code, "message": message}}, status)

    def page(self, path):
        file = (self.state.pages / (path.lstrip("/") or "index.html")).resolve()
        if not file.is_file() or self.state.pages.resolve() not in file.parents:
            return self.error(404, "not_found", "no such page")
        return self.send(200, TYPES.get(file.suffix, "application/octet-stream"), file.read_bytes())

    def operation(self, tables, path, params):
        parts = path.split("/")
        if parts[0] == "events":
            table, key = parts[1], int(parts[2])
            event = tables.event(table, key)
            if event is None:
                return self.error(404, "not_found", f"no event {key} in {table}")
            if len(parts) == 3:
                return self.json(event)
            return self.json(getattr(tables, parts[3])(table, key))
        if path in ("timeline", "series"):
            return self.send(200, PACKED, getattr(tables, path)(params))
        if path == "operators":
            return self.json(double_more.operators(tables, params))
        if path.split("/")[0] == "source":
            answer = double_more.source(tables, path, params, self.state.sources)
            if isinstance(answer, bytes):
                return self.send(200, PACKED, answer)
            return self.error(404, "not_found", "there is no text of it") if answer is None else self.json(answer)
        if path == "overview":
            return self.json(tables.overview())
        if path == "bands":
            return self.json(tables.bands(params))
        return self.error(404, "not_found", "no such operation")

    def gone(self):
        """Has the page closed its connection?"""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""

    def wait(self, seconds, entry):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.gone():
                entry["gone"] = True
                return False
            time.sleep(0.02)
        return True

    def do_GET(self):
        url = urlsplit(self.path)
        if url.path == "/requests":
            with self.state.lock:
                return self.json(self.state.requests)
        if not url.path.startswith("/api/"):
            return self.page(url.path)
        entry = {"path": self.path, "gone": False}
        with self.state.lock:
            self.state.requests.append(entry)
        fault = self.state.fault(self.path)
        if fault and not self.wait(fault.get("delay", 0), entry):
            self.close_connection = True
            return None
        if fault and fault.get("break"):
            self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{")
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return None
        if fault and fault.get("status"):
            return self.error(fault["status"], "busy", fault.get("message", "told to fail"))
        return self.answer(url)

    def answer(self, url):
        if url.path == "/api/v1/profiles":
            rows = [{"name": name, "state": "ready"} for name in self.state.profiles]
            return self.json({"profiles": rows})
        match = re.fullmatch(r"/api/v1/profiles/([^/]+)/(.+)", url.path)
        tables = match and self.state.profiles.get(unquote(match.group(1)))
        if not tables:
            return self.error(404, "not_found", "no such profile")
        try:
            return self.operation(tables, match.group(2), dict(parse_qsl(url.query)))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
            return None

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path == "/faults":
            with self.state.lock:
                self.state.faults = json.loads(body)
            return self.json({})
        if self.path == "/api/v1/sql":
            question = json.loads(body)
            tables = self.state.profiles.get(question["profile"])
            try:
                return self.json(double_more.ask(tables, question))
            except duckdb.Error as error:
                return self.error(400, "sql", str(error))
        return self.error(404, "not_found", "no such address")

    def do_DELETE(self):
        with self.state.lock:
            self.state.requests = []
        self.json({})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--sources", type=Path)
    parser.add_argument("profiles", nargs="+")
    args = parser.parse_args()
    profiles = {}
    for text in args.profiles:
        name, _, directory = text.partition("=")
        profiles[name] = Tables(directory)
    Handler.state = State(args.pages, profiles, args.sources)
    server = ThreadingHTTPServer(("127.0.0.1", args.port), Handler)
    server.daemon_threads = True
    print(f"listening {server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
