"""What README says of a first look: the slowest operator, why it waits, its events as a file, and the version that was mended beside it."""

import csv
import os
import re
import shutil

import pytest

import conftest
from driver import Viewer


# As a collector names them: long, and different at their end.
LONG = [f"train-large-model.sh-10614-host-with-a-name-r0-d-1a22c90bce3-9654bfe6-{n}-nc0" for n in (3, 4)]


@pytest.fixture(scope="module")
def browser(playwright):
    """The whole browser, as people have it."""
    chromium = conftest.launch(playwright, os.environ.get("KYMO_CHROMIUM", conftest.WHOLE_CHROMIUM))
    yield chromium
    chromium.close()


@pytest.fixture(scope="module")
def mended(profiles, tmp_path_factory):
    """A server of attention, and of the same program without what throttles it."""
    folder = tmp_path_factory.mktemp("first-look")
    (folder / "profiles").mkdir()
    neff, ntff = profiles.parent / "attention.neff", folder / "mended.ntff"
    conftest.run(conftest.BIN / "kymo-sim", "ntff", "--neff", neff, "--output", ntff, "--lnc", "2", "--executions", "3", "--dge", "1")
    conftest.run(conftest.BIN / "kymo-process", "--ntff", ntff, "--neff", neff, "--output", folder / "profiles" / "mended")
    for name in LONG:
        shutil.copytree(profiles / "reduce", folder / "profiles" / name)
    process, base = conftest.start_view([profiles / "attention", folder / "profiles"], folder)
    yield base
    conftest.stop(process)


def covered(spans):
    total, end = 0, 0
    for low, high in sorted(spans):
        total += max(high - max(low, end), 0)
        end = max(end, high)
    return total


def slowest(tables):
    """The operator without parts whose events cover most time, their waits left out; and how much."""
    rows = tables("attention", "select operator o, start_ts + coalesce(evt_wait_time_ns, 0) s, end_ts e from Instruction where operator is not null")
    names = {row["o"] for row in rows}
    return max((covered([(r["s"], r["e"]) for r in rows if r["o"] == name]), name) for name in names)


def test_from_the_slowest_operator_to_the_mended_version(context, mended, tables, tmp_path):
    base = mended
    viewer = Viewer(context.new_page(), base)
    page = viewer.page
    viewer.open("attention")
    # The slowest operator: the first row, unfolded as long as it has parts.
    table = viewer.add_widget("Operator Table")
    framework = table.locator('tr[data-kind="framework"]')
    framework.first.wait_for()
    path = ""
    for _ in range(8):
        inner = framework.and_(table.locator(f'tr[data-path^="{path}/"]')) if path else framework
        inner.first.wait_for()
        path = inner.first.get_attribute("data-path")
        fold = table.locator(f'tr[data-kind="framework"][data-path="{path}"]').get_by_role("button", name=f"Unfold {path}", exact=True)
        if path in {row["operator"] for row in tables("attention", "select distinct operator from Instruction")}:
            break
        fold.click()
    assert table.evaluate("e => { const r = e.getBoundingClientRect(); return r.top >= 0 && r.bottom <= innerHeight; }"), "it is in sight"
    _, name = slowest(tables)
    assert path.rsplit("/", 1)[0] in name or path == name
    # Its events, and why the first of those that waited did.
    table.locator(f'tr[data-path="{path}"]').first.get_by_title("show its events").click()
    details = viewer.widget("Event Details")
    details.locator("table.fields").first.wait_for()
    assert "Match 1 of" in details.inner_text() and path in details.inner_text()
    sql = """select i.id, i.engine, i.pcore_idx, w.wait_ns from Instruction i join WaitCause w on w.instruction_id = i.id
             where i.operator = ? and w.dependency_type is not null order by i.start_ts, i.id limit 1"""
    (wait,) = tables("attention", sql, path)
    page.goto(f"{base}/#/profile/attention?event=Instruction:{wait['id']}")
    viewer.settle()
    details.get_by_role("tab", name="Dependencies").click()
    details.get_by_role("button", name="Why did this wait?").click()
    first = details.locator("ol.chain li").first
    first.wait_for()
    assert f"on {wait['engine']}(nc{wait['pcore_idx']})" in first.inner_text() and "for" in first.inner_text()
    # A menu that is closed by Escape leaves the selection.
    page.get_by_role("button", name=re.compile("^Layout:")).click()
    page.get_by_role("menu").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("menu").wait_for(state="detached")
    assert first.is_visible()
    # Its events as a file.
    page.locator(".timeline .toolbar").get_by_role("button", name="Export to CSV").click()
    dialog = page.get_by_role("dialog", name="Export to CSV")
    for label in ("DMA transfers (aggregated by queue)", "DMA packets (individual)", "Semaphore updates"):
        dialog.locator("label", has_text=label).get_by_role("checkbox").uncheck()
    dialog.get_by_label("Sample at the timeline’s resolution").uncheck()
    with page.expect_download() as download:
        dialog.get_by_role("button", name="Export", exact=True).click()
    download.value.save_as(tmp_path / "Instruction.csv")
    rows = [row for row in csv.DictReader((tmp_path / "Instruction.csv").open()) if row["operator"] == path]
    assert len(rows) == tables("attention", "select count(*) n from Instruction where operator = ?", path)[0]["n"]
    # Beside the version that was mended: it is faster, and nothing throttles it.
    page.locator(".home").click()
    for profile in ("attention", "mended"):
        page.get_by_label(f"Select {profile}").check()
    page.get_by_role("button", name="Actions").click()
    page.get_by_role("menuitem", name="Compare profiles").click()
    summary = page.get_by_role("region", name="Compare Overall Summary")
    duration = summary.locator("tr", has=page.locator("th", has_text=re.compile("^duration$"))).locator("td")
    duration.nth(1).locator(".delta.better").wait_for()
    throttled = page.get_by_role("region", name="Differences and noise")
    throttled.get_by_role("tab", name="Throttling").click()
    throttled.locator("tbody tr").first.wait_for()
    assert throttled.locator("tbody tr").first.locator("td").last.inner_text().startswith(("0", "–"))
    assert viewer.errors == []


def test_long_names_hide_no_figures(context, mended):
    page = context.new_page()
    page.goto(f"{mended}/#/compare/{'/'.join(LONG)}")
    for title in ("Compare Overall Summary", "Compare Current Selection Summary"):
        region = page.get_by_role("region", name=title)
        region.locator("tbody tr").first.wait_for()
        assert region.locator("thead th").all_inner_texts()[2].endswith(LONG[1][-8:])
        box, cell = region.bounding_box(), region.locator("tbody td").nth(1).bounding_box()
        assert cell["x"] + cell["width"] <= box["x"] + box["width"]


def test_a_narrow_window_has_all_buttons_in_sight(viewer):
    viewer.page.set_viewport_size({"width": 420, "height": 900})
    viewer.open("attention")
    assert viewer.page.evaluate("document.documentElement.scrollWidth") == 420
    for name in ("Add Widget", "Copy link", "Settings", "Export to CSV"):
        box = viewer.page.get_by_role("button", name=name).first.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 420, name
    assert viewer.page.locator("h1").inner_text() == "attention"


def test_a_link_that_cannot_be_read_says_so(viewer):
    viewer.open("attention", **{"from": 900000, "to": 100})
    assert viewer.page.locator(".bar").get_by_text("The link’s range cannot be read.").is_visible()
    viewer.open("reduce", **{"from": 100, "to": 900000})
    assert viewer.page.get_by_text("cannot be read").count() == 0
