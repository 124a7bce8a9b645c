"""Profiles from the simulator, a server that shows them, and a Chromium that looks at them.

KYMO_BIN: folder of the programs (default build/bin). KYMO_CHROMIUM: the browser (default Debian's chromium-headless-shell, which takes a
third less of the processor than the whole chromium, or that).
KYMO_VIEWER_SERVER=double: the stand-in for all tests that it can answer, also where the product's server could."""

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import duckdb
import pytest
from playwright.sync_api import sync_playwright

from driver import Viewer

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
BIN = Path(os.environ.get("KYMO_BIN", TOP / "build" / "bin"))
WHOLE_CHROMIUM = "/usr/bin/chromium"
SHELL = "/usr/bin/chromium-headless-shell"
CHROMIUM = os.environ.get("KYMO_CHROMIUM", SHELL if os.path.exists(SHELL) else WHOLE_CHROMIUM)
PAGES = TOP / "viewer" / "dist"
HOSTILE = "<img src=x onerror=\"document.title='owned'\">/'; drop table x; --/&amp;<script>alert(1)</script>"

# name: (arguments of kymo-sim neff, arguments of kymo-sim ntff)
PROFILES = {
    "attention": (
        ["--model", "attention", "--lnc", "2", "--nki"],
        ["--lnc", "2", "--executions", "3", "--dge", "1", "--throttle", "activity_0:6/8@20+30", "--notice", "nan@15"],
    ),
    "lossy": (
        ["--model", "mlp", "--lnc", "1", "--repeat", "4"],
        ["--lnc", "1", "--executions", "8", "--buffer", "DMA=1", "--vnc", "1"],
    ),
    "reduce": (["--model", "allreduce", "--lnc", "1"], ["--lnc", "1", "--executions", "3", "--dge", "1"]),
}


def run(*command):
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make(folder, name, neff_args, ntff_args):
    neff, ntff = folder / f"{name}.neff", folder / f"{name}.ntff"
    run(BIN / "kymo-sim", "neff", *neff_args, "--arch", "trn2.48xlarge", "--output", neff)
    run(BIN / "kymo-sim", "ntff", "--neff", neff, "--output", ntff, *ntff_args)
    run(BIN / "kymo-process", "--ntff", ntff, "--neff", neff, "--output", folder / "profiles" / name)


def make_hostile(profiles):
    """A copy whose operator and opcode are HTML and SQL, written by DuckDB: also other encodings than ours, and without the sums,
    which have the operators' names too."""
    copy = profiles / "hostile"
    shutil.copytree(profiles / "attention", copy, ignore=shutil.ignore_patterns("WindowSums.parquet", "WaitSums.parquet"))
    text = HOSTILE.replace("'", "''")
    db = duckdb.connect()
    db.execute(
        f"""copy (select * replace (case when opcode = 'MATMUL' then '{text}' else operator end as operator)
        from '{profiles / "attention"}/Instruction.parquet') to '{copy}/Instruction.parquet' (format parquet)"""
    )


@pytest.fixture(scope="session")
def profiles(tmp_path_factory):
    folder = tmp_path_factory.mktemp("viewer")
    (folder / "profiles").mkdir()
    for name, (neff_args, ntff_args) in PROFILES.items():
        make(folder, name, neff_args, ntff_args)
    make_hostile(folder / "profiles")
    return folder / "profiles"


@pytest.fixture(scope="session")
def tables(profiles):
    """Rows of a profile's tables: what the page must show."""

    def ask(profile, sql, *params):
        db = duckdb.connect()
        for path in (profiles / profile).glob("*.parquet"):
            db.execute(f"create view {path.stem} as select * from '{path}'")
        cursor = db.execute(sql, params)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row)) for row in cursor.fetchall()]

    return ask


@pytest.fixture(scope="session")
def sources(tmp_path_factory):
    """Text for the source files that the simulator's programs name."""
    folder = tmp_path_factory.mktemp("sources")
    for name, count in (("attention.py", 60), ("attention_nki.py", 400)):
        lines = [f'    value_{n} = load("<b>{n}</b>", {n})  # line {n}' for n in range(1, count + 1)]
        lines[:3] = ['"""Two lines', 'of text."""', "def kernel(x):"]
        (folder / name).write_text("\n".join(lines) + "\n")
    return folder


def wait_for(ready, what, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = ready()
        if value:
            return value
        time.sleep(0.05)
    raise TimeoutError(what)


def stop(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()


def start_view(arguments, scratch, state="/dev/null"):
    """(process, address)"""
    ports = scratch / "ports"
    command = [BIN / "kymo", "view", "--http", "127.0.0.1:0", "--page", PAGES, "--ports-file", ports, *arguments]
    # Tests begin with nothing kept, and leave nothing: without a folder this server has no place for what users keep.
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, "XDG_STATE_HOME": str(state)})
    text = wait_for(lambda: ports.exists() and ports.read_text().strip(), "kymo view does not start")
    return process, f"http://127.0.0.1:{text.split('=')[1]}"


@pytest.fixture(scope="session")
def double(profiles, sources):
    names = [f"{path.name}={path}" for path in sorted(profiles.iterdir())]
    command = [sys.executable, HERE / "double.py", "--pages", PAGES, "--sources", sources, *names]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    assert line.startswith("listening "), line
    yield f"http://127.0.0.1:{int(line.split()[1])}"
    stop(process)


@pytest.fixture(scope="session")
def collector(profiles, sources, tmp_path_factory):
    """The product's own server; None where these programs have none."""
    help_ = subprocess.run([BIN / "kymo", "view", "--help"], capture_output=True, text=True, check=False)
    only_double = os.environ.get("KYMO_VIEWER_SERVER") == "double"
    if only_double or help_.returncode:
        yield None
        return
    roots = ["--framework-source-root", sources, "--nki-source-root", sources]
    if "source-root" not in help_.stdout + help_.stderr:
        roots = []
    process, base = start_view([*roots, profiles], tmp_path_factory.mktemp("server"))
    yield base
    stop(process)


def answers(base, path, question=None):
    body = json.dumps(question).encode() if question else None
    request = urllib.request.Request(f"{base}/api/v1/{path}", data=body, headers={"content-type": "application/json"} if body else {})
    try:
        with urllib.request.urlopen(request) as response:
            return response.status == 200
    except urllib.error.HTTPError:
        return False


@functools.cache
def has_operators(base):
    row = "profiles/attention/search?category=operator&field=row&match=exact&value=none:"
    return answers(base, "profiles/attention/operators") and answers(base, row)


@functools.cache
def has_sql(base):
    return answers(base, "sql", {"profile": "attention", "sql": "select 1", "limit": 1})


@functools.cache
def has_source(base):
    return answers(base, "profiles/attention/source?file=/opt/model/attention.py")


@pytest.fixture(scope="session")
def server(collector, double):
    return collector or double


@pytest.fixture(scope="session")
def full_server(collector):
    """One that searches, sums up and exports too."""
    if not collector:
        pytest.skip("the stand-in does not search")
    return collector


def launch(play, path=CHROMIUM):
    arguments = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--no-first-run"]
    return play.chromium.launch(executable_path=path, args=arguments)


@pytest.fixture(scope="session")
def playwright():
    with sync_playwright() as play:
        yield play


@pytest.fixture(scope="session")
def browser(playwright):
    chromium = launch(playwright)
    yield chromium
    chromium.close()


@pytest.fixture
def context(browser):
    made = browser.new_context(viewport={"width": 1600, "height": 1000}, color_scheme="light", accept_downloads=True)
    yield made
    made.close()


@pytest.fixture
def viewer(context, server):
    made = Viewer(context.new_page(), server)
    yield made
    assert made.errors == []


@pytest.fixture
def full(context, full_server):
    made = Viewer(context.new_page(), full_server)
    yield made
    assert made.errors == []


def opened(context, collector, double, has):
    made = Viewer(context.new_page(), collector if collector and has(collector) else double)
    yield made
    assert made.errors == []


@pytest.fixture
def with_operators(context, collector, double):
    yield from opened(context, collector, double, has_operators)


@pytest.fixture
def with_sql(context, collector, double):
    yield from opened(context, collector, double, has_sql)


@pytest.fixture
def with_source(context, collector, double):
    yield from opened(context, collector, double, has_source)


@pytest.fixture
def faulty(context, double):
    made = Viewer(context.new_page(), double)
    yield made
    urllib.request.urlopen(urllib.request.Request(f"{double}/faults", data=b"[]", method="POST"))
