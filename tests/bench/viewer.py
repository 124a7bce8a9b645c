"""The viewer's page on a simulated profile: how long until something is seen, and what moving, searching and summing up take.

usage: viewer.py BUILD [--records N] [--quick] [--no-log] [--no-peers] [--keep] [--minutes M]
  --records N   records of the profile (default 100 M)
  --quick       1 M records, fewer steps, peers at that size too; nothing is logged
  --keep        leave the profile where it is, for another run
  --minutes M   begin no further part when so much time has gone by (default 8.5)

The product's server shows the profile, Debian's Chromium opens its page (KYMO_CHROMIUM), wheel, keys and mouse drive it by seeded
chance. Each part that is done is a line of log.tsv; what is there for this commit is not run again. KYMO_BENCH_DIR (the system's
temporary directory by default) needs 27 bytes a record, and 0.6 GB for the peers. The page must have been built (target viewer)."""

import argparse
import contextlib
import ctypes
import functools
import json
import os
from pathlib import Path
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from playwright.sync_api import Error

from figures import log, logged, measured, say
from viewer_page import Ours, chromium, tab
from viewer_peers import PEERS, opened, served
from viewer_watch import Memory, browsers, cpu, idle_after, tree

SEED = 5
TOP = Path(__file__).resolve().parent.parent.parent
SEARCHES = {
    "search_opcode_exact": ("instruction", "opcode", "exact", "MATMUL"),
    "search_opcode_rare": ("instruction", "opcode", "exact", "IOTA"),
    "search_dma_partial": ("dma", "variable", "partial", "weight"),
    "search_operator_partial": ("operator", "operator", "partial", "softmax"),
}
HEAVY = """select count(distinct a.id * 31 + b.range) from DmaPacket a, range(1000) b where a.id % 3 = b.range % 3"""
COMPARED = ("first_view", "zoom_p50", "zoom_p95", "pan_p50", "pan_p95", "glide_frame_p95", "step_browser_cpu", "browser_memory")
LIMIT_S = 75  # for a peer to open a file
STEPS_S = 60  # for one series of steps; what is not done by then is left out


def unit_of(name):
    if name.startswith("ratio_"):
        return "x"
    if "memory" in name or name.endswith("_MB"):
        return "MB"
    if name.endswith("_rate"):
        return "MB/s"
    if name.endswith(("_steps", "_missed", "records", "opened")):
        return "" if name == "opened" else name.rpartition("_")[2]
    if name.endswith("_cores"):
        return "cores"
    return "s" if name.endswith("_s") else "ms"


def show(prefix, figures):
    for name, value in figures.items():
        say(f"{prefix}_{name}", value, unit_of(name))


def spread(name, values):
    """p50, p95 and the number of those that never came."""
    there = sorted(value for value in values if value is not None)
    found = {f"{name}_steps": len(values), f"{name}_missed": len(values) - len(there)}
    if there:
        found |= {f"{name}_p50": statistics.median(there), f"{name}_p95": there[min(int(len(there) * 0.95), len(there) - 1)],
                  f"{name}_max": there[-1]}
    return found


def with_parent():
    """Ends with this process, however that ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


@contextlib.contextmanager
def server(build, scratch, tables):
    """(address, process id) of the product's server for the directories"""
    ports = scratch / "ports"
    ports.unlink(missing_ok=True)
    page = TOP / "viewer/dist"
    if not (page / "index.html").exists():
        sys.exit(f"no page in {page}: build the target viewer")
    command = [build / "bin/kymo", "view", "--http", "127.0.0.1:0", "--page", page, "--ports-file", ports, tables]
    process = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, preexec_fn=with_parent,
                               env={**os.environ, "XDG_STATE_HOME": str(scratch / "state")})
    try:
        for _ in range(600):
            if ports.exists() and ports.read_text().strip():
                break
            time.sleep(0.05)
        else:
            sys.exit("kymo view does not start")
        yield f"http://127.0.0.1:{ports.read_text().strip().split('=')[1]}", process.pid
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


def profile(build, scratch, records):
    """A finished directory of tables, made unless it is there."""
    directory = scratch / f"tables-{records}" / "bench"
    if directory.exists():
        return directory
    directory.parent.mkdir(exist_ok=True)
    neff, ntff = scratch / "attention.neff", scratch / "bench.ntff"
    measured(build / "bin/kymo-sim", "neff", "--model", "attention", "--arch", "trn2", "--lnc", "1", "--repeat", "10",
             "--output", neff)
    measured(build / "bin/kymo-sim", "ntff", "--neff", neff, "--lnc", "1", "--events", records, "--dge", "1", "--unlimited",
             "--seed", SEED, "--output", ntff)
    measured(build / "bin/kymo-process", "--ntff", ntff, "--neff", neff, "--output", directory)
    ntff.unlink()
    return directory


# --- gestures


def wander(view, rng, count, seconds=STEPS_S):
    """Zooms and pans by wheel and keys, from the whole down to microseconds and back, resting now and then."""
    zooms, pans, end = [], [], time.monotonic() + seconds
    view.move(0.5)
    view.key("0")
    view.settled()
    while len(zooms) + len(pans) < count and time.monotonic() < end:
        low, high = view.range()
        chance, at = rng.random(), rng.uniform(0.05, 0.95)
        if high - low < 2000:
            zooms.append(view.step(lambda: view.zoom(at, rng.uniform(20, 4000))))
        elif chance < 0.45:
            zooms.append(view.step(lambda: view.zoom(at, 2.718 ** rng.uniform(-2.3, 1.0))))
        elif chance < 0.55:
            zooms.append(view.step(lambda: view.key(rng.choice("wws"))))
        elif chance < 0.9:
            pans.append(view.step(lambda: view.pan(rng.uniform(-0.9, 0.9))))
        else:
            pans.append(view.step(lambda: view.key(rng.choice("ad"))))
        view.page.wait_for_timeout(rng.choice((0, 0, 100, 300)))
    return zooms, pans


def walk(view, rng, count):
    """The same for all viewers: from a few depths, small zooms and pans by wheel."""
    zooms, pans, end = [], [], time.monotonic() + STEPS_S
    while len(zooms) + len(pans) < count and time.monotonic() < end:
        view.go(0.5, 800)
        view.go(rng.uniform(0.05, 0.95), 0.65 ** rng.randrange(16))
        view.settled()
        for i in range(8):
            at, factor, share = rng.uniform(0.05, 0.95), rng.choice((0.65, 0.75, 1.4)), rng.uniform(-0.5, 0.5)
            if i % 2:
                zooms.append(view.step(lambda: view.zoom(at, factor)))
            else:
                view.move(at)
                pans.append(view.step(lambda: view.pan(share)))
    return zooms, pans


def stepped(name, steps):
    firsts = spread(f"{name}_first_frame", [step and step[0] for step in steps])
    return spread(name, [step and step[1] for step in steps]) | {key: firsts[key] for key in firsts if key.endswith("p95")}


def moved(zooms, pans, glide):
    frames = spread("glide_frame", glide)
    frames = {name: value for name, value in frames.items() if name[-3:] in ("p50", "p95", "max")}
    return stepped("zoom", zooms) | stepped("pan", pans) | frames


# --- parts


def part_view(run):
    """First views, steps at mixed depths, a long pan."""
    with run.viewing() as (view, memory):
        blank = memory.look()["browser"]
        some, whole = view.open(run.base, run.name)
        first = {"first_view_events": some, "first_view": whole}
        view.page.context.close()
        view = Ours(tab(run.browser))
        some, whole = view.open(run.base, run.name)
        first |= {"second_view_events": some, "second_view": whole}
        with Cpu(run.pid) as taken:
            steps = wander(view, random.Random(SEED), run.steps)
        view.key("0")
        view.settled()
        view.go(0.5, 0.02)
        view.settled()
        figures = first | moved(*steps, view.glide()) | taken.per(sum(map(len, steps)))
    return figures | {"browser_memory_blank": blank}


def search(view, category, field, match, value):
    widget = view.page.locator("[data-widget=search]")
    widget.get_by_label("Category").select_option(category)
    widget.get_by_label("Field").select_option(field)
    widget.get_by_label("Match").select_option(match)
    widget.get_by_label("Value").fill(value)
    button = widget.get_by_role("button", name="Submit")
    found = view.timed(button.click, "document.querySelector('[data-widget=search] .paging, [data-widget=search] .error')")
    if widget.locator(".error").count():
        print(f"search for {value}: {widget.locator('.error').inner_text()}", file=sys.stderr)
        found = None
    widget.get_by_role("button", name="Clear result").click()
    return found


def summed(widget):
    """A condition: new figures are shown."""
    inside = f"[data-widget={widget}]"
    return (f"benchProbe.answers.includes('summary') && document.querySelector('{inside} table') &&"
            f" !document.querySelector('{inside} .stale')")


def box(view, rng):
    (x0, y0), (x1, y1) = view.place(rng.uniform(0.05, 0.5), 0.2), view.place(rng.uniform(0.55, 0.95), 0.9)

    def drag():
        view.page.mouse.move(x0, y0)
        view.page.mouse.down()
        view.page.mouse.move(x1, y1, steps=3)
        view.page.mouse.up()

    view.page.evaluate("scrollTo(0, 0)")
    view.key("b")
    found = view.timed(drag, summed("box"))
    view.key("Escape")
    return found


def export_path(run, table, mode):
    return f"{run.path}/export?tables={table}&from={run.extent['from']}&to={run.extent['to'] + 1}&mode={mode}&width=1600"


def exported(run, table, mode, seconds):
    """(MB, seconds) of one export of everything, read for so long at most; 0 MB when nothing came"""
    begin, size = time.monotonic(), 0
    with contextlib.suppress(OSError):
        with urllib.request.urlopen(run.base + export_path(run, table, mode), timeout=seconds) as response:
            while time.monotonic() - begin < seconds and (data := response.read(1 << 20)):
                size += len(data)
    return size / 1e6, time.monotonic() - begin


def part_ask(run):
    """Search, summaries, export."""
    rng, figures = random.Random(SEED), {}
    with run.viewing() as (view, _):
        view.open(run.base, run.name)
        view.page.get_by_role("button", name="Add Widget").click()
        view.page.get_by_role("menuitem", name="Box Selection Summary").click()
        run.rest()
        for name, question in SEARCHES.items():
            figures[name] = search(view, *question)
            run.rest()
        boxes, windows = [], []
        for depth in (1, 1, 1, 30, 30, 1000, 1000, 10000):
            view.page.evaluate("scrollTo(0, 0)")
            view.key("0")
            view.settled()
            windows.append(view.timed(lambda: view.zoom(rng.uniform(0.1, 0.9), 0.8 / depth), summed("selection")))
            run.rest()
            boxes.append(box(view, rng))
            run.rest()
        figures |= spread("box_summary", boxes) | spread("selection_summary", windows)
    for table in ("Instruction", "DmaPacket"):
        for mode, limit in (("complete", 12), ("sampled", 40)):
            size, seconds = exported(run, table, mode, limit)
            figures |= {f"export_{mode}_{table}_rate": size / seconds, f"export_{mode}_{table}_MB": size,
                        f"export_{mode}_{table}_s": seconds}
    return {name: value for name, value in figures.items() if value is not None}


def ask_sql(run, sql):
    body = json.dumps({"profile": run.name, "sql": sql, "limit": 1}).encode()
    request = urllib.request.Request(f"{run.base}/api/v1/sql", data=body, headers={"content-type": "application/json"})
    with contextlib.suppress(OSError):
        urllib.request.urlopen(request, timeout=40).read()


def part_load(run):
    """Steps while an export and a statement run; how long the server goes on after their tab was closed."""
    count, over, sizes = run.steps // 3, threading.Event(), []

    def export():
        begin = time.monotonic()
        while not over.is_set() and time.monotonic() - begin < 90:
            sizes.append(exported(run, "DmaPacket", "complete", 2))

    def sql():
        begin = time.monotonic()
        while not over.is_set() and time.monotonic() - begin < 90:
            ask_sql(run, HEAVY)

    with run.viewing() as (view, _):
        view.open(run.base, run.name)
        alone = [value for values in wander(view, random.Random(SEED + 1), count, 35) for value in values]
        others = [threading.Thread(target=target, daemon=True) for target in (export, sql)]
        for thread in others:
            thread.start()
        beside = [value for values in wander(view, random.Random(SEED + 1), count, 35) for value in values]
        over.set()
        figures = stepped("alone", alone) | stepped("beside", beside)
        figures["ratio_beside_to_alone_p95"] = figures["beside_p95"] / figures["alone_p95"]
        figures["beside_export_rate"] = sum(size for size, _ in sizes) / max(sum(seconds for _, seconds in sizes), 0.1)
        for thread in others:
            thread.join(60)
        run.rest(60)
        return figures | closed_tab(run, view)


def closed_tab(run, view):
    """A second tab asks for much; then it is closed."""
    other = view.page.context.new_page()
    other.goto(run.base)
    other.evaluate(f"""() => {{
        const read = async (url, init) => {{
            const reader = (await fetch(url, init)).body.getReader();
            while (!(await reader.read()).done);
        }};
        read("{export_path(run, "DmaPacket", "complete")}");
        read("/api/v1/sql", {{ method: "POST", headers: {{ "content-type": "application/json" }},
             body: JSON.stringify({{ profile: "{run.name}", sql: {json.dumps(HEAVY)}, limit: 1 }}) }});
        for (let i = 0; i < 3; i++) read("{run.path}/search?category=dma&field=variable&match=partial&value=w" + i);
    }}""")
    time.sleep(0.7)
    before, begin = cpu(tree(run.pid)), time.monotonic()
    time.sleep(0.5)
    busy = (cpu(tree(run.pid)) - before) / (time.monotonic() - begin)
    begin = time.monotonic()
    other.close()
    closed = time.monotonic() - begin
    idle = idle_after(run.pid, 20)
    return {"open_tab_cores": busy} | ({"closed_tab_idle_s": closed + idle} if idle is not None else {"closed_tab_missed": 1})


PARTS = {"viewer_view": part_view, "viewer_ask": part_ask, "viewer_load": part_load}


class Cpu:
    """Milliseconds of CPU time for each step, of the browser and of the server: a busy machine stretches these less."""

    def __init__(self, server=None):
        self.server, self.before = server, None

    def now(self):
        times = {"browser": cpu(browsers())}
        return times | ({"server": cpu(tree(self.server))} if self.server else {})

    def __enter__(self):
        self.before = self.now()
        return self

    def __exit__(self, *_):
        self.taken = {name: value - self.before[name] for name, value in self.now().items()}

    def per(self, steps):
        return {f"step_{name}_cpu": value * 1000 / max(steps, 1) for name, value in self.taken.items()}


class Run:
    """A server with one profile, and a browser."""

    def __init__(self, base, pid, browser, steps):
        self.base, self.pid, self.browser, self.steps, self.name = base, pid, browser, steps, "bench"
        self.path, self.memory = f"/api/v1/profiles/{self.name}", {}

    @functools.cached_property
    def extent(self):
        """Asked for when it is needed: the first view begins with a server that has not opened the profile."""
        with urllib.request.urlopen(f"{self.base}{self.path}/overview", timeout=60) as response:
            return json.load(response)["extent"]

    @contextlib.contextmanager
    def viewing(self):
        page = tab(self.browser)
        try:
            with Memory(self.pid) as memory:
                yield Ours(page), memory
            self.memory = {f"{name}_memory": value for name, value in memory.most.items()}
        finally:
            for context in self.browser.contexts:
                context.close()

    def rest(self, seconds=30):
        """Until the server has nothing to do."""
        idle_after(self.pid, seconds)


# --- peers


def walked(view, count, taken):
    with taken:
        steps = walk(view, random.Random(SEED), count)
    return moved(*steps, view.glide()) | taken.per(sum(map(len, steps)))


def part_like(build, scratch, records, browser, count):
    tables = profile(build, scratch, records)
    with server(build, scratch, tables.parent) as (base, pid):
        run = Run(base, pid, browser, count)
        with run.viewing() as (view, _):
            _, whole = view.open(base, run.name)
            view.page.mouse.move(*view.place(0.5))
            figures = {"first_view": whole} | walked(view, count, Cpu(pid))
        return figures | run.memory


def part_peer(kind, build, scratch, records, browser, count, limit):
    folder = kind.install(scratch)
    trace = scratch / f"{kind.name}-{records}"
    kind.write(build, profile(build, scratch, records), trace)
    try:
        with served(folder, trace) as base, Memory(None) as memory:
            page, before = tab(browser), cpu(browsers())
            try:
                view, time_or_why = opened(kind, page, base, limit)
                figures = {"opened": int(view is not None), "file_MB": trace.stat().st_size / 1e6,
                           "open_cpu_s": cpu(browsers()) - before}
                if view:
                    view.move(0.5)
                    figures |= {"first_view": time_or_why} | walked(view, count, Cpu())
                else:
                    print(f"{kind.name} at {records / 1e6:g} M: {time_or_why}", file=sys.stderr)
            finally:
                page.context.close()
        return figures | {"browser_memory": memory.most["browser"]}
    finally:
        trace.unlink()


def compare(kind, like, figures):
    """Ours against a peer: above 1 ours takes less."""
    for name in COMPARED:
        if like.get(name) and figures.get(name):
            say(f"viewer_ratio_{kind.name}_to_kymo_{name}", figures[name] / like[name], "x")


class Bench:
    def __init__(self, args, scratch):
        self.args, self.scratch, self.begin = args, scratch, time.monotonic()
        self.build = Path(args.build).resolve()
        self.left = []

    def part(self, bench, records, make):
        """Figures of a part, from the log or made now; None when there is no time left for it."""
        keep = not self.args.no_log and not self.args.quick
        figures, begin = logged(bench, records, SEED) if keep else None, time.monotonic()
        if not figures:
            if begin - self.begin > self.args.minutes * 60:
                self.left.append(f"{bench} {records}")
                return None
            try:
                figures = make()
            except (Error, OSError, subprocess.SubprocessError, StopIteration) as error:
                print(f"{bench} at {records / 1e6:g} M failed: {type(error).__name__}: {error}", file=sys.stderr)
                self.left.append(f"{bench} {records}")
                return None
            if keep:
                log(bench, records, SEED, time.monotonic() - begin, figures)
        show(f"{bench}_{records / 1e6:g}M", figures)
        print(f"# {bench} {records / 1e6:g}M took {time.monotonic() - begin:.0f} s", flush=True)
        return figures

    def ours(self):
        records = self.args.records
        for bench, part in PARTS.items():
            def make():
                tables = profile(self.build, self.scratch, records)
                with server(self.build, self.scratch, tables.parent) as (base, pid), chromium() as browser:
                    run = Run(base, pid, browser, 24 if self.args.quick else 120)
                    return part(run) | run.memory
            self.part(bench, records, make)

    def peers(self):
        count, limit = (16, 3 * LIMIT_S) if self.args.quick else (24, LIMIT_S)
        like = {}
        for kind in PEERS:
            for records in [self.args.records] if self.args.quick else kind.sizes:
                def make_peer():
                    with chromium() as browser:
                        return part_peer(kind, self.build, self.scratch, records, browser, count, limit)

                def make_like():
                    with chromium() as browser:
                        return part_like(self.build, self.scratch, records, browser, count)
                figures = self.part(f"viewer_{kind.name}", records, make_peer)
                if figures and figures["opened"]:
                    if records not in like:
                        like[records] = self.part("viewer_like", records, make_like)
                    if like[records]:
                        compare(kind, like[records], figures)
                    break


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--records", type=int, default=100_000_000)
    parser.add_argument("--minutes", type=float, default=8.5)
    for name in ("quick", "no-log", "no-peers", "keep"):
        parser.add_argument(f"--{name}", action="store_true")
    args = parser.parse_args()
    if args.quick:
        args.records = 1_000_000
    return args


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    scratch = Path(os.environ.get("KYMO_BENCH_DIR") or tempfile.gettempdir()) / "kymo-bench-viewer"
    scratch.mkdir(parents=True, exist_ok=True)
    bench = Bench(args, scratch)
    bench.ours()
    if not args.no_peers:
        bench.peers()
    if bench.left:
        sys.exit(f"failed, or no time was left: {', '.join(bench.left)}. Run it again: it goes on there")
    if not args.keep:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
