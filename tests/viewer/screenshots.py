#!/usr/bin/env python3
"""Pictures of the page's main states, from simulated profiles and the product's own server, for viewer/docs.

usage: tests/.venv/bin/python tests/viewer/screenshots.py [--output DIR] [NAME...]
KYMO_BIN names the folder of the programs, whose tree has the page built. A picture of more than 100 kB is an error: it stays in the
repository's history for good."""

import argparse
import datetime
import json
import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import duckdb
from PIL import Image
from playwright.sync_api import expect, sync_playwright

import conftest
import test_manage
from driver import Viewer

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "oracle"))
import fleet_job  # noqa: E402

LIMIT = 100_000
SIZE = {"width": 1280, "height": 860}
STATES = {}
ENDS = []  # of what the states have started
# The same program twice, once throttled: what a comparison is for.
PROFILES = {
    "attention": conftest.PROFILES["attention"],
    "attention-calm": (conftest.PROFILES["attention"][0], ["--lnc", "2", "--executions", "3", "--dge", "1"]),
    "lossy": conftest.PROFILES["lossy"],
}


def state(function):
    STATES[function.__name__] = function
    return function


def rows(profiles, sql, name="attention"):
    db = duckdb.connect()
    for path in (profiles / name).glob("*.parquet"):
        db.execute(f"create view {path.stem} as select * from '{path}'")
    cursor = db.execute(sql)
    return [dict(zip([column[0] for column in cursor.description], row)) for row in cursor.fetchall()]


def some_matmul(profiles):
    return rows(profiles, "select * from Instruction where opcode = 'MATMUL' and pcore_idx = 0 order by start_ts limit 1 offset 40")[0]


def zoomed(viewer, profiles, **params):
    event = some_matmul(profiles)
    params = {"from": event["start_ts"] - 3000, "to": event["end_ts"] + 5000, "event": f"Instruction:{event['id']}", **params}
    viewer.open("attention", **params)
    viewer.page.wait_for_selector(".details table.fields")
    return event


def collected(profiles):
    """A collector's store with captures of two jobs, one of which is damaged; how to end it, and where it is."""
    store = profiles.parent / "store"
    for name in ("attention", "attention-calm", "lossy"):
        capture = profiles.parent / f"capture-{name}"
        capture.mkdir()
        for end in ("neff", "ntff"):
            data = (profiles.parent / f"{name}.{end}").read_bytes()
            (capture / f"p.{end}").write_bytes(data[:4000] + b"\xff" * 400 + data[4400:] if (name, end) == ("lossy", "ntff") else data)
        subprocess.run([conftest.BIN / "kymo", "import", "--reserve", "1M", "--capture-id", name, "--data-path", store, capture],
                       check=False, capture_output=True)
    process, base = test_manage.start(store)
    ENDS.append(lambda: conftest.stop(process))
    return base


@state
def profiles_list(viewer, profiles):
    base = collected(profiles)
    for path, value in (("folders/week%2048", []), ("folders/to%20compare", []), ("tags/throttled", []), ("tags/baseline", [])):
        names = [row["name"] for row in json.load(urllib.request.urlopen(f"{base}/api/v1/profiles"))["profiles"]]
        wanted = [n for n in names if ("calm" in n) == ("baseline" in path or "week" in path) and "lossy" not in n]
        body = json.dumps({"value": value or wanted}).encode()
        headers = {"content-type": "application/json"}
        urllib.request.urlopen(urllib.request.Request(f"{base}/api/v1/{path}", body, headers, method="PUT"))
    page = viewer.page
    page.goto(base)
    page.locator("tr[data-profile]").first.wait_for()
    page.get_by_label(re.compile("Favourite .*calm")).click()
    page.get_by_role("button", name="Upload").click()
    page.get_by_label("Capture: folder").set_input_files(profiles.parent / "capture-attention")
    page.get_by_label("Name", exact=True).fill("nightly")
    page.get_by_role("dialog").get_by_role("button", name="Upload").click()
    status = page.get_by_role("region", name="Upload nightly").get_by_role("status")
    expect(status).to_have_text("ready", timeout=60000)
    page.get_by_role("navigation").get_by_role("button", name="All profiles").click()
    expect(page.locator("tr[data-profile]")).to_have_count(4)
    for name in ("attention-calm", "attention-nc0"):
        page.get_by_label(re.compile(f"Select .*-{name}")).check()
    page.get_by_role("button", name="Actions").click()


@state
def timeline(viewer, profiles):
    viewer.open("attention")


@state
def hover(viewer, profiles):
    event = zoomed(viewer, profiles)
    viewer.hover("instruction:TensorMatrix(nc0)", (event["start_ts"] + event["end_ts"]) / 2)
    viewer.card()


@state
def dependencies(viewer, profiles):
    zoomed(viewer, profiles)
    viewer.page.get_by_role("tab", name="Dependencies").click()
    viewer.page.locator("li.card").first.wait_for()


@state
def dark(viewer, profiles):
    viewer.page.emulate_media(color_scheme="dark")
    zoomed(viewer, profiles)


@state
def search(viewer, profiles):
    viewer.open("attention")
    widget = viewer.widget("Search")
    widget.get_by_label("Category").select_option("instruction")
    widget.get_by_label("Field").select_option("opcode")
    widget.get_by_label("Value").fill("ACTIVATE")
    widget.get_by_role("button", name="Submit").click()
    widget.locator(".paging").first.wait_for()


@state
def regions(viewer, profiles):
    viewer.open("attention")
    widget = viewer.add_widget("Region Highlighter")
    widget.get_by_role("button", name="Unfold attend nc0", exact=True).click()
    for name in ("attend #2 nc0", "attend #3 nc0"):
        widget.get_by_role("checkbox", name=f"Compare {name}", exact=True).check()
    widget.get_by_role("button", name="Fold attend nc0", exact=True).click()
    widget.get_by_role("region", name="Comparison of regions").scroll_into_view_if_needed()


@state
def categories(viewer, profiles):
    viewer.open("attention")
    widget = viewer.add_widget("Overall Summary")
    widget.get_by_role("region", name="Tensor engine").get_by_role("button").click()
    widget.scroll_into_view_if_needed()


@state
def losses(viewer, profiles):
    viewer.open("lossy")


@state
def operators(viewer, profiles):
    viewer.open("attention")
    widget = viewer.add_widget("Operator Table")
    for path in ("attention", "attention/Layer[0]"):
        widget.get_by_role("button", name=f"Unfold {path}", exact=True).first.click()
    widget.locator('tr[data-path="attention/Layer[0]/Softmax"]').first.wait_for()
    widget.scroll_into_view_if_needed()


@state
def compare(viewer, profiles):
    viewer.page.goto(f"{viewer.base}/#/compare/attention/attention-calm")
    viewer.page.wait_for_function("() => document.querySelectorAll('.timeline[data-from][data-busy=false]').length === 2")
    viewer.page.get_by_text("Compare Operator Table").wait_for()
    viewer.page.wait_for_timeout(2000)


@state
def summary(viewer, profiles):
    viewer.page.goto(f"{viewer.base}/#/summary/attention")
    viewer.page.wait_for_selector("canvas, svg")


@state
def sql(viewer, profiles):
    text = "SELECT engine, opcode, count(*) AS n, sum(duration_ns)::BIGINT AS ns FROM Instruction GROUP BY ALL ORDER BY ns DESC LIMIT 12"
    viewer.page.goto(f"{viewer.base}/#/sql/attention?sql={text.replace(' ', '%20')}")
    viewer.page.locator("table tbody tr").first.wait_for()
    expect(viewer.page.get_by_role("button", name="Run")).to_be_enabled()
    viewer.page.get_by_text("AssemblyInstruction").first.wait_for()


@state
def ranks(viewer, profiles):
    viewer.page.goto(f"{viewer.base}/#/ranks/train-ranks")
    viewer.page.locator("[data-collective] button").first.click()
    viewer.page.wait_for_selector("[data-arrival]")
    viewer.page.wait_for_selector(".ranks-lanes[data-busy=false]")


@state
def fleet(viewer, profiles):
    viewer.page.goto(f"{viewer.base}/#/fleet?group=rank&to=2026-11-30")
    viewer.page.get_by_role("button", name="Profiles of train rank 1").click()
    viewer.page.wait_for_selector("tr[data-profile]")


def make_ranks(folder):
    """A job with a slow rank, and a fleet in which one lost MFU this week."""
    fleet_job.profiles.BIN = conftest.BIN
    _, members = fleet_job.simulated_job(folder)
    last = datetime.date(2026, 11, 30)
    for back in range(0, 14, 2):
        for rank, member in enumerate(members):
            name = member.name if back == 0 else f"train-node{rank // 2}-r{rank}-{back}"
            scale = 0.6 if rank == 1 and back < 7 else 1 - (back * rank % 5) / 50
            fleet_job.publish(folder / "fleet", member, name, last - datetime.timedelta(days=back), scale=scale, job="train", rank=rank,
                              host=f"node{rank // 2}", capture=f"c{back}")


def take(browser, base, profiles, name, output):
    context = browser.new_context(viewport=SIZE, color_scheme="light", reduced_motion="reduce")
    viewer = Viewer(context.new_page(), base)
    viewer.page.set_default_timeout(20000)
    STATES[name](viewer, profiles)
    viewer.page.wait_for_timeout(800)
    path = output / f"{name}.png"
    viewer.page.screenshot(path=path)
    context.close()
    # 256 colours are all that a page of plain areas needs.
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path}: {path.stat().st_size} bytes")
    return path.stat().st_size <= LIMIT and not viewer.errors


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, default=conftest.TOP / "viewer" / "docs")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(STATES)}")
    args = parser.parse_args()
    args.output.mkdir(exist_ok=True)
    good = True
    with tempfile.TemporaryDirectory(prefix="kymo-screenshots-") as scratch, sync_playwright() as play:
        folder = Path(scratch)
        profiles = folder / "profiles"
        profiles.mkdir()
        for name, (neff_args, ntff_args) in PROFILES.items():
            conftest.make(folder, name, neff_args, ntff_args)
        fleets = []
        if not args.names or {"ranks", "fleet"} & set(args.names):
            make_ranks(folder)
            fleets = ["--fleet", folder / "fleet"]
        process, base = conftest.start_view([*fleets, profiles], folder)
        browser = play.chromium.launch(executable_path=conftest.CHROMIUM, args=["--no-sandbox", "--no-first-run"])
        try:
            able = conftest.has_sql(base)
            for name in args.names or STATES:
                if name in ("summary", "sql") and not able:
                    print(f"{name}: left out, this server has no SQL")
                    continue
                good = take(browser, base, profiles, name, args.output) and good
        finally:
            browser.close()
            conftest.stop(process)
            for end in ENDS:
                end()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
