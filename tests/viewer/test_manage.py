"""The Profile Manager against kymo-collector: uploads, folders, tags, favourites, recents, deleting. What the page does is compared with
what the server has, and with the tables."""

import base64
import json
import re
import shutil
import sqlite3
import subprocess
import tarfile
import time
import urllib.request

import duckdb
import pytest
from playwright.sync_api import expect

import conftest
from conftest import BIN, run
from driver import Viewer

TOKENS = {"ann": "ann-has-a-token-1", "bob": "bob-has-a-token-1"}


@pytest.fixture(scope="module")
def captures(tmp_path_factory):
    """Two captures as folders, and a store that has two others."""
    made = tmp_path_factory.mktemp("manage")
    for name, model in (("alpha", "mlp"), ("beta", "attention"), ("gamma", "mlp"), ("delta", "attention")):
        folder = made / name
        folder.mkdir()
        run(BIN / "kymo-sim", "neff", "--model", model, "--arch", "trn2.48xlarge", "--lnc", "1", "--output", folder / "m.neff")
        run(BIN / "kymo-sim", "ntff", "--neff", folder / "m.neff", "--lnc", "1", "--vnc", len(name) % 4, "--output", folder / "p.ntff")
    for name in ("alpha", "beta"):
        run(BIN / "kymo", "import", "--reserve", "1M", "--capture-id", name, "--data-path", made / "store", made / name)
    # Their tables are made once; each test has a copy of the store.
    process, base = start(made / "store")

    def is_made():
        rows = json.loads(urllib.request.urlopen(f"{base}/api/v1/profiles").read())["profiles"]
        return len(rows) == 2 and all(row["state"] == row.get("fleet") == "ready" for row in rows)

    conftest.wait_for(is_made, "the profiles are not made")
    conftest.stop(process)
    return made


class Managed(Viewer):
    """The page of a collector with a store of its own."""

    def __init__(self, page, base, store):
        super().__init__(page, base)
        self.store = store

    def show(self):
        self.page.goto(self.base)
        self.page.locator("tr[data-profile]").first.wait_for()
        return self

    def get(self, path):
        return json.loads(urllib.request.urlopen(f"{self.base}/api/v1/{path}").read())

    def row(self, part):
        return self.page.locator("tr[data-profile]", has_text=part)

    def names(self):
        return self.page.eval_on_selector_all("tr[data-profile]", "rows => rows.map((row) => row.dataset.profile)")

    def check(self, *parts):
        for part in parts:
            self.row(part).get_by_label(re.compile("^Select ")).check()

    def act(self, item):
        self.page.get_by_role("button", name="Actions").click()
        self.page.get_by_role("menuitem", name=item, exact=True).click()

    def place(self, name):
        self.page.get_by_role("navigation", name="Places").get_by_role("button", name=re.compile(f"^{name}")).first.click()

    def kept(self, user="local"):
        """What viewer.db has: {kind: {key: value}}."""
        db = sqlite3.connect(f"file:{self.store}/viewer.db?mode=ro", uri=True)
        made = {}
        for kind, key, value in db.execute("select kind, key, value from items where user = ?", (user,)):
            made.setdefault(kind, {})[key] = json.loads(value)
        db.close()
        return made


def start(store, *options):
    ports = store.parent / "ports"
    ports.unlink(missing_ok=True)
    command = [BIN / "kymo-collector", "--data-path", store, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--reserve", "1M",
               "--ports-file", ports, *options]
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    text = conftest.wait_for(lambda: ports.exists() and ports.read_text(), "kymo-collector does not start")
    return process, "http://127.0.0.1:" + re.search(r"http=(\d+)", text)[1]


@pytest.fixture
def store(captures, tmp_path):
    shutil.copytree(captures / "store", tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def managed(context, store):
    process, base = start(store)
    made = Managed(context.new_page(), base, store)
    yield made.show()
    conftest.stop(process)
    assert made.errors == []


def pick(viewer, folder, section="Capture", kind="folder"):
    viewer.page.get_by_role("button", name="Upload").click()
    viewer.page.get_by_label(f"{section}: {kind}").set_input_files(folder)


def send(viewer):
    viewer.page.get_by_role("dialog").get_by_role("button", name="Upload").click()


def count(folder, table="Instruction"):
    return duckdb.connect().execute(f"select count(*) from '{folder}/{table}.parquet'").fetchone()[0]


def test_a_folder_is_uploaded_and_opened(managed, captures):
    page = managed.page
    pick(managed, captures / "delta")
    page.get_by_label("Name", exact=True).fill("my run")
    dialog = page.get_by_role("dialog")
    assert dialog.locator("td.path").all_inner_texts() == ["delta/m.neff", "delta/p.ntff"]
    page.get_by_label("Source Code: folder").set_input_files(source_folder(captures))
    assert dialog.get_by_role("cell", name="Source").count() == 1
    send(managed)
    card = page.get_by_role("region", name="Upload my run")
    expect(card.get_by_role("status")).to_have_text("ready", timeout=60000)
    # The same that kymo-process makes of these files.
    made = captures / "made"
    run(BIN / "kymo-process", "--ntff", captures / "delta" / "p.ntff", "--neff", captures / "delta" / "m.neff", "--output", made)
    (row,) = [p for p in managed.get("profiles")["profiles"] if p.get("job") == "my run"]
    assert count(row["path"]) == count(made) > 1000 and row["vnc"] == 0
    expect(managed.row("my run").locator(".state")).to_have_text("ready")
    card.get_by_role("link").click()
    page.wait_for_selector(".timeline")
    managed.settle()
    low, high = managed.range()
    assert high - low > 0 and managed.get(f"profiles/{row['name']}/overview")["tables"]["Instruction"] == count(made)
    # The source text came with it, and the Code Viewer finds it.
    files = managed.get(f"profiles/{row['name']}/source")["files"]
    named = next(f["file"] for f in files if f["file"].endswith("attention.py"))
    assert "text of mine" in managed.get(f"profiles/{row['name']}/source?file={named}")["text"]


def source_folder(captures):
    folder = captures / "code"
    folder.mkdir(exist_ok=True)
    (folder / "attention.py").write_text("# text of mine\n" * 200)
    (folder / ".hidden").write_text("x")
    return folder


def test_files_are_dropped(managed, captures):
    page = managed.page
    page.get_by_role("button", name="Upload").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Upload")).to_be_disabled()
    data = base64.b64encode((captures / "gamma" / "p.ntff").read_bytes()).decode()
    transfer = page.evaluate_handle(
        """(text) => {
            const transfer = new DataTransfer();
            const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
            transfer.items.add(new File([bytes], "dropped.ntff"));
            transfer.items.add(new File(["x"], "notes.txt"));
            return transfer;
        }""",
        data,
    )
    page.get_by_role("region", name="Capture").dispatch_event("drop", {"dataTransfer": transfer})
    expect(dialog.locator("td.path")).to_have_text(["dropped.ntff", "notes.txt"])
    page.get_by_label("Remove notes.txt").click()
    page.get_by_label("Capture: files").set_input_files(captures / "gamma" / "m.neff")
    send(managed)
    status = page.get_by_role("region", name="Upload without a name").get_by_role("status")
    expect(status).to_have_text("ready", timeout=60000)
    assert [p["state"] for p in managed.get("profiles?job=upload")["profiles"]] == ["ready"]


def drop(viewer, section, *paths):
    """As a file manager does: the browser reads the folders itself."""
    box = viewer.page.get_by_role("region", name=section).bounding_box()
    place = {"x": box["x"] + box["width"] / 2, "y": box["y"] + 20}
    data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    devtools = viewer.page.context.new_cdp_session(viewer.page)
    for kind in ("dragEnter", "dragOver", "drop"):
        devtools.send("Input.dispatchDragEvent", {"type": kind, **place, "data": data})
    devtools.detach()


def test_folders_are_dropped_and_an_archive_of_sources(managed, captures, tmp_path):
    page = managed.page
    # A folder in a folder, one with more entries than a browser gives at once, and a hidden one.
    session = tmp_path / "session"
    shutil.copytree(captures / "delta", session / "run 1")
    (session / ".git").mkdir()
    (session / ".git" / "x.ntff").write_text("x")
    (session / "logs" / "deep").mkdir(parents=True)
    for n in range(120):
        (session / "logs" / "deep" / f"{n}.txt").write_text("x")
    page.get_by_role("button", name="Upload").click()
    dialog = page.get_by_role("dialog")
    drop(managed, "Capture", session)
    expect(dialog.locator("td.path")).to_have_count(122)
    paths = dialog.locator("td.path").all_inner_texts()
    assert paths[-2:] == ["session/run 1/m.neff", "session/run 1/p.ntff"] and "session/logs/deep/119.txt" in paths
    # What leads out of an archive, or is none, is refused; of a good one one sees the files.
    for name, member in (("evil.tar.gz", "../../attention.py"), ("code.tar.gz", "model/attention.py")):
        with tarfile.open(tmp_path / name, "w:gz") as archive:
            archive.add(source_folder(captures) / "attention.py", member)
    (tmp_path / "none.tgz").write_text("x")
    drop(managed, "Source Code", tmp_path / "evil.tar.gz", tmp_path / "none.tgz")
    expect(dialog.get_by_role("alert")).to_have_text(["evil.tar.gz: a path leads out of it: ../../attention.py.",
                                                      "none.tgz: it is no gzip file, or damaged."])
    page.get_by_label("Source Code: files").set_input_files(tmp_path / "code.tar.gz")
    expect(dialog.get_by_role("alert")).to_have_count(0)
    expect(dialog.get_by_role("cell", name="model/attention.py", exact=True)).to_be_visible()
    send(managed)
    card = page.get_by_role("region", name="Upload without a name")
    expect(card.get_by_role("status")).to_have_text("ready", timeout=60000)
    (row,) = managed.get("profiles?job=upload")["profiles"]
    assert count(row["path"]) > 1000
    named = next(f["file"] for f in managed.get(f"profiles/{row['name']}/source")["files"] if f["file"].endswith("attention.py"))
    assert "text of mine" in managed.get(f"profiles/{row['name']}/source?file={named}")["text"]


def test_a_system_trace_is_uploaded(managed):
    page = managed.page
    pick(managed, conftest.TOP / "tests" / "golden" / "systrace" / "v1")
    dialog = page.get_by_role("dialog")
    assert dialog.get_by_role("cell", name="System trace", exact=True).count() >= 3
    send(managed)
    card = page.get_by_role("region", name="Upload without a name")
    expect(card.get_by_role("status")).to_have_text("ready", timeout=60000)
    (row,) = managed.get("profiles?job=upload")["profiles"]
    assert count(row["path"], "SystemProfileEvents") == 11
    # It has no timeline: its page says so, and leads to its tables.
    card.get_by_role("link").click()
    expect(page.get_by_text("This is a system trace")).to_be_visible()
    assert page.locator(".timeline").count() == 0
    page.get_by_role("link", name="SystemProfileEvents").click()
    expect(page.get_by_text("11 rows")).to_be_visible()
    expect(page.get_by_role("cell", name="aten::mm")).to_be_visible()


def test_what_cannot_be_a_profile(managed, captures, tmp_path):
    page = managed.page
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong" / "notes.txt").write_text("x")
    pick(managed, tmp_path / "wrong")
    expect(page.get_by_role("dialog").get_by_text("nothing to make a profile of")).to_be_visible()
    expect(page.get_by_role("dialog").get_by_role("button", name="Upload")).to_be_disabled()
    page.keyboard.press("Escape")
    # A file that is damaged: the reason, and where.
    bad = bytearray((captures / "gamma" / "p.ntff").read_bytes())
    bad[4000:4400] = b"\xff" * 400
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "p.ntff").write_bytes(bad)
    shutil.copy(captures / "gamma" / "m.neff", tmp_path / "bad")
    pick(managed, tmp_path / "bad")
    send(managed)
    expect(page.get_by_role("region", name="Upload without a name").get_by_role("status")).to_have_text("1 of 1 failed", timeout=60000)
    (row,) = managed.get("profiles?state=failed")["profiles"]
    assert "p.ntff: offset" in row["reason"]
    why = re.sub(r": offset \d+:", ":", row["reason"].split("/")[-1])
    expect(managed.row(row["name"]).locator(".state")).to_have_text(f"failed: {why} (at byte {row['file_offset']} of the file)")


def test_an_upload_is_cancelled(managed, captures, tmp_path):
    page = managed.page
    (tmp_path / "big").mkdir()
    (tmp_path / "big" / "p.ntff").write_bytes(b"x" * 9_000_000)
    held = []
    page.route("**/uploads/*/files?*", lambda route: held.append(route) if "offset=4194304" in route.request.url else route.continue_())
    pick(managed, tmp_path / "big")
    send(managed)
    card = page.get_by_role("region", name="Upload without a name")
    expect(card.get_by_label("Progress of big/p.ntff")).to_have_js_property("value", 4194304 / 9_000_000, timeout=30000)
    assert len(list((managed.store / "uploads").iterdir())) == 1
    card.get_by_role("button", name="Cancel upload").click()
    expect(card.get_by_role("status")).to_contain_text("cancelled")
    conftest.wait_for(lambda: not any((managed.store / "uploads").iterdir()), "the upload stays")
    assert managed.get("uploads")["uploads"] == []


def test_a_broken_connection_is_gone_on_with(managed, captures):
    """Also where the server waits for one that is dead, or has done what was asked and nobody heard so."""
    page = managed.page
    broken, told = [], []
    busy = {"error": {"code": "busy", "message": "a piece is on its way already"}}

    def breaks(route):
        broken.append(route)
        if len(broken) == 1:
            route.abort("connectionreset")
        elif len(broken) == 2:
            route.fulfill(status=409, json=busy)
        else:
            route.continue_()

    def tells_nobody(route):
        told.append(route.fetch().status)
        route.abort("connectionreset") if len(told) == 1 else route.fulfill(response=route.fetch())

    page.route("**/uploads/*/files?*", breaks)
    page.route("**/uploads/*/finish", tells_nobody)
    pick(managed, captures / "gamma")
    send(managed)
    expect(page.get_by_role("region", name="Upload without a name").get_by_role("status")).to_have_text("ready", timeout=60000)
    assert len(broken) == 4 and told[0] == 202 and told[1] in (200, 202)


def test_folders(managed):
    page = managed.page
    page.get_by_role("button", name="New folder").click()
    page.get_by_label("Name", exact=True).fill("week 48")
    page.get_by_role("button", name="Create").click()
    managed.check("alpha")
    managed.act("Move to folder")
    page.get_by_role("radio", name="week 48").check()
    page.get_by_role("button", name="Move", exact=True).click()
    page.get_by_role("dialog").wait_for(state="detached")
    (alpha,) = [name for name in managed.names() if "alpha" in name]
    assert managed.kept()["folders"] == {"week 48": [alpha]}
    managed.place("week 48")
    expect(page.locator("tr[data-profile]")).to_have_count(1)
    assert managed.names() == [alpha]
    # A name that is there is refused; a new one is followed.
    page.get_by_role("button", name="New folder").click()
    page.get_by_label("Name", exact=True).fill("week 48")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("alert")).to_contain_text("already")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Folder week 48").click()
    page.get_by_role("menuitem", name="Rename folder").click()
    page.get_by_label("Name", exact=True).fill("<b>kept</b>")
    page.get_by_role("button", name="Rename", exact=True).click()
    expect(page.get_by_role("heading", name="<b>kept</b>")).to_be_visible()
    assert managed.kept()["folders"] == {"<b>kept</b>": [alpha]}
    # Moved on, it is in one folder only.
    managed.act("Move to folder")
    page.get_by_label("Name of the new folder").fill("other")
    page.get_by_role("button", name="Move", exact=True).click()
    page.get_by_role("dialog").wait_for(state="detached")
    assert managed.kept()["folders"] == {"<b>kept</b>": [], "other": [alpha]}
    expect(page.get_by_text("Nothing is in this folder.")).to_be_visible()
    page.reload()
    managed.place("other")
    expect(page.locator("tr[data-profile]")).to_have_count(1)
    page.get_by_role("button", name="Folder other").click()
    page.get_by_role("menuitem", name="Delete folder").click()
    expect(page.get_by_role("heading", name="All profiles")).to_be_visible()
    expect(page.locator("tr[data-profile]")).to_have_count(2)
    assert managed.kept()["folders"] == {"<b>kept</b>": []}


def test_tags_are_filters(managed):
    page = managed.page
    managed.check("alpha", "beta")
    managed.act("Add tag")
    page.get_by_label("New tag").fill("slow")
    page.get_by_role("dialog").get_by_role("button", name="Add tag").click()
    page.get_by_role("checkbox", name="slow").wait_for()
    page.keyboard.press("Escape")
    page.get_by_label(re.compile("Select .*beta")).uncheck()
    managed.act("Add tag")
    page.get_by_label("New tag").fill("baseline")
    page.get_by_role("dialog").get_by_role("button", name="Add tag").click()
    page.get_by_role("checkbox", name="baseline").wait_for()
    page.keyboard.press("Escape")
    alpha, beta = sorted(managed.names())
    assert {tag: sorted(names) for tag, names in managed.kept()["tags"].items()} == {"slow": [alpha, beta], "baseline": [alpha]}
    chips = page.get_by_role("group", name="Tags")
    chips.get_by_role("button", name="slow").click()
    expect(page.locator("tr[data-profile]")).to_have_count(2)
    chips.get_by_role("button", name="baseline").click()
    expect(page.locator("tr[data-profile]")).to_have_count(1)
    assert managed.names() == [alpha]
    assert managed.row("alpha").locator("button.chip").all_inner_texts() == ["baseline", "slow"]
    # Taken off again.
    managed.act("Add tag")
    page.get_by_role("checkbox", name="baseline").click()  # which shows it when the server has it
    expect(page.get_by_role("checkbox", name="baseline")).not_to_be_checked()
    page.keyboard.press("Escape")
    expect(page.get_by_text("No profile.")).to_be_visible()
    assert managed.kept()["tags"]["baseline"] == []


def test_favourites_and_recents(managed):
    page = managed.page
    alpha, beta = sorted(managed.names())
    page.get_by_label(f"Favourite {beta}").click()
    expect(page.get_by_label(f"Favourite {beta}")).to_have_attribute("aria-pressed", "true")
    assert managed.kept()["favourites"] == {beta: True}
    for name in (beta, alpha):
        page.get_by_role("link", name=name, exact=True).click()
        page.wait_for_selector(".timeline")
        managed.settle()
        page.locator(".home").click()
        page.get_by_role("button", name="Actions").wait_for()
    managed.place("Recent")
    expect(page.locator("tr[data-profile]")).to_have_count(2)
    conftest.wait_for(lambda: managed.names() == [alpha, beta], "the newest first")
    page.reload()
    managed.place("Favourites")
    expect(page.locator("tr[data-profile]")).to_have_count(1)
    assert managed.names() == [beta] and set(managed.kept()["recents"]) == {alpha, beta}
    page.get_by_label(f"Favourite {beta}").click()
    expect(page.get_by_text("No profile.")).to_be_visible()
    assert "favourites" not in managed.kept()


def test_links_are_copied(managed, context):
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    managed.check("alpha", "beta")
    managed.act("Copy link")
    expect(managed.page.get_by_role("status")).to_have_text("2 links are copied.")
    links = managed.page.evaluate("navigator.clipboard.readText()").split("\n")
    assert sorted(links) == sorted(f"{managed.base}/#/profile/{name}" for name in managed.names())


def test_profiles_are_deleted(managed):
    page = managed.page
    alpha, beta = sorted(managed.names())
    path = managed.get(f"profiles/{beta}")["path"]
    page.get_by_label(f"Favourite {beta}").click()
    managed.check("alpha")
    managed.act("Pin")
    expect(managed.row("alpha").get_by_text("pinned")).to_be_visible()
    managed.check("beta")
    managed.act("Delete")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("listitem")).to_have_count(2)
    # Nothing happens without a yes.
    dialog.get_by_role("button", name="Cancel").click()
    assert len(managed.get("profiles")["profiles"]) == 2
    managed.act("Delete")
    dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(dialog.get_by_role("listitem").filter(has_text=alpha)).to_contain_text("is pinned")
    expect(dialog.get_by_role("listitem").filter(has_text=beta)).to_contain_text("deleted")
    dialog.get_by_role("button", name="Close", exact=True).last.click()
    expect(page.locator("tr[data-profile]")).to_have_count(1)
    assert [p["name"] for p in managed.get("profiles")["profiles"]] == [alpha]
    assert not (managed.store / path).exists() and not (managed.store / "raw" / "captures" / "beta").exists()
    assert "favourites" not in managed.kept()
    managed.act("Unpin")
    expect(managed.row("alpha").get_by_text("pinned")).to_have_count(0)
    managed.act("Delete")
    dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text("No profile.")).to_be_visible()
    assert managed.get("profiles")["profiles"] == []


def test_a_profile_is_processed_again(managed):
    managed.check("beta")
    before = managed.get("profiles?text=beta")["profiles"][0]["finished_ns"]
    managed.act("Process again")
    conftest.wait_for(lambda: managed.get("profiles?text=beta")["profiles"][0].get("finished_ns", 0) > before, "it is not made again")
    # The row follows by itself.
    expect(managed.row("beta").locator(".state")).to_have_text("ready", timeout=20000)


def test_keys_are_enough(managed):
    page = managed.page
    page.get_by_label("Select all").focus()
    page.keyboard.press("Space")
    expect(page.get_by_text("2 selected")).to_be_visible()
    page.get_by_role("button", name="Actions").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector(".timeline >> nth=1")
    assert "#/compare/" in page.url


def test_search_sort_and_pages(context, tmp_path):
    """Of a catalogue with many rows, a page at a time."""
    store = tmp_path / "store"
    store.mkdir()
    filler = subprocess.Popen([BIN / "api-server", "--data-path", store, "--captures", "90"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    filler.stdout.readline()
    filler.communicate()
    process, base = start(store, "--no-work")
    managed = Managed(context.new_page(), base, store)
    asked = []
    managed.page.on("request", lambda request: asked.append(request.url))
    try:
        managed.show()
        page = managed.page
        rows = page.locator("tr[data-profile]")
        expect(rows).to_have_count(50)
        seen = managed.names()
        for _ in range(3):
            page.get_by_role("button", name="Next").click()
            conftest.wait_for(lambda: managed.names() and managed.names()[0] not in seen, "the next page does not come")
            seen += managed.names()
        expect(page.get_by_role("button", name="Next")).to_be_disabled()
        all_rows = managed.get("profiles?limit=1000")["profiles"]
        assert seen == [row["name"] for row in all_rows] and len(seen) == 182
        assert all("limit=50" in url for url in asked if "/profiles?" in url)
        page.get_by_role("button", name="Previous").click()
        conftest.wait_for(lambda: managed.names() == seen[100:150], "the page before does not come")
        page.get_by_role("button", name="Profile", exact=True).click()
        by_name = sorted(seen)
        conftest.wait_for(lambda: managed.names() == by_name[:50], "not in order of names")
        page.get_by_role("button", name="Profile ▴").click()
        conftest.wait_for(lambda: managed.names() == by_name[::-1][:50], "not in order of names, the last first")
        one = seen[77]
        page.get_by_label("Filter").fill(one.upper())
        expect(rows).to_have_count(1)
        assert managed.names() == [one]
        page.get_by_label("Filter").fill("")
        page.get_by_label("State").select_option("failed")
        wanted = sorted((row["name"] for row in all_rows if row["state"] == "failed"), reverse=True)[:50]
        conftest.wait_for(lambda: managed.names() == wanted, "other than those that failed")
        page.get_by_label("State").select_option("")
    finally:
        conftest.stop(process)
    assert managed.errors == []


def log_in(browser, base, store, user):
    made = Managed(browser.new_context(viewport={"width": 1600, "height": 1000}).new_page(), base, store)
    made.page.goto(base)
    made.page.get_by_label("Token").fill(TOKENS[user])
    made.page.get_by_role("button", name="Log in").click()
    made.page.get_by_role("button", name="Actions").wait_for()
    return made


def test_two_users(browser, captures, store, tmp_path):
    """Each has what is theirs; an upload can be deleted by who brought it."""
    (tmp_path / "tokens").write_text("".join(f"{user} {token}\n" for user, token in TOKENS.items()))
    process, base = start(store, "--http-token-file", tmp_path / "tokens")
    try:
        ann, bob = (log_in(browser, base, store, user) for user in ("ann", "bob"))
        alpha, beta = sorted(ann.names())
        ann.page.get_by_label(f"Favourite {alpha}").click()
        bob.page.get_by_label(f"Favourite {beta}").click()
        expect(bob.page.get_by_label(f"Favourite {beta}")).to_have_attribute("aria-pressed", "true")
        for page in (ann.page, bob.page):
            page.reload()
            page.get_by_label(f"Select {alpha}").wait_for()
        for one, name in ((ann, alpha), (bob, beta)):
            one.place("Favourites")
            expect(one.page.locator("tr[data-profile]")).to_have_count(1)
            assert one.names() == [name]
        assert ann.kept("ann")["favourites"] == {alpha: True} and bob.kept("bob")["favourites"] == {beta: True}
        pick(ann, captures / "gamma")
        send(ann)
        expect(ann.page.get_by_role("region", name="Upload without a name").get_by_role("status")).to_have_text("ready", timeout=60000)
        bob.place("All profiles")
        bob.page.reload()
        for one, words in ((bob, "was uploaded by ann"), (ann, None)):
            one.place("All profiles")
            one.check("upload")
            one.act("Delete")
            dialog = one.page.get_by_role("dialog")
            dialog.get_by_role("button", name="Delete", exact=True).click()
            if words:
                expect(dialog.get_by_role("listitem")).to_contain_text(words)
                dialog.get_by_role("button", name="Close", exact=True).last.click()
        expect(ann.page.get_by_text("1 profile is deleted.")).to_be_visible(timeout=20000)
        expect(ann.row("upload")).to_have_count(0)
        assert ann.errors == bob.errors == []
        for page in (ann.page, bob.page):
            page.context.close()
    finally:
        conftest.stop(process)


# What is kept by kymo view: its state folder is a real one here.


@pytest.fixture
def state(profiles, tmp_path):
    """(address, folder of viewer.db)"""
    process, base = conftest.start_view([profiles], tmp_path, tmp_path / "state")
    yield base, tmp_path / "state" / "kymo"
    conftest.stop(process)


def test_kymo_view_keeps_and_changes_nothing(context, browser, state):
    base, folder = state
    made = Managed(context.new_page(), base, folder).show()
    page = made.page
    expect(page.get_by_role("button", name="Upload")).to_be_disabled()
    assert "kymo view" in page.get_by_role("button", name="Upload").get_attribute("title")
    made.check("lossy")
    page.get_by_role("button", name="Actions").click()
    for item in ("Delete", "Pin", "Process again"):
        expect(page.get_by_role("menuitem", name=item)).to_be_disabled()
    page.keyboard.press("Escape")
    page.get_by_label("Favourite lossy").click()
    managed_folder(made, "mine", "lossy")
    # Annotations and layouts of a profile, kept on the server and there for another browser of the same user.
    made.open("lossy")
    low, high = made.range()
    plot = made.plot()
    page.mouse.click(made.x((low + high) / 2), plot["y"] + plot["height"] - 60, button="right")
    marks = conftest.wait_for(lambda: made.kept().get("annotations", {}).get("lossy"), "the annotation is not kept")
    assert len(marks) == 1 and low < marks[0]["ts"] < high
    other = Managed(browser.new_context(viewport={"width": 1600, "height": 1000}).new_page(), base, folder).show()
    other.place("mine")
    expect(other.page.locator("tr[data-profile]")).to_have_count(1)
    expect(other.page.get_by_label("Favourite lossy")).to_have_attribute("aria-pressed", "true")
    other.page.get_by_role("link", name="lossy", exact=True).click()
    other.page.wait_for_selector(".timeline")
    other.settle()
    widget = other.add_widget("Annotations")
    expect(widget.locator("tbody tr")).to_have_count(1)
    assert set(made.kept()) == {"annotations", "favourites", "folders", "recents"}
    assert made.errors == other.errors == []
    other.page.context.close()


def test_a_link_names_a_layout_that_the_server_keeps(context, browser, state):
    base, folder = state
    made = Managed(context.new_page(), base, folder)
    made.open("lossy")
    made.page.get_by_role("button", name="Remove Search").click()
    names = iter(["..", "Device trace", "Mine"])
    asked = []

    def answer(dialog):
        asked.append(dialog.message)
        dialog.accept(next(names) if dialog.type == "prompt" else None)

    made.page.on("dialog", answer)
    for _ in range(3):
        made.page.get_by_role("button", name="Layout:").click()
        made.page.get_by_role("menuitem", name="Save as").click()
    assert ["no name" in asked[1], "always there" in asked[3], len(asked)] == [True, True, 5]
    made.page.get_by_role("button", name="Layout: Mine").wait_for()
    conftest.wait_for(lambda: "Mine" in made.kept().get("layouts", {}), "the layout is not kept")
    assert set(made.kept()["layouts"]) == {"Mine"}
    made.page.wait_for_function("() => location.href.includes('layout=Mine')")
    fresh = browser.new_context(viewport={"width": 1600, "height": 1000})
    other = Managed(fresh.new_page(), base, folder)
    other.page.goto(made.page.url)
    other.page.get_by_role("button", name="Layout: Mine").wait_for()
    assert other.widget("Search").count() == 0
    other.page.goto("about:blank")
    other.page.goto(made.page.url.replace("layout=Mine", "layout=Theirs"))
    expect(other.page.get_by_text("The link’s layout “Theirs” is not among yours.")).to_be_visible()
    # In the tab that is there, as by Back.
    other.page.get_by_role("button", name="Layout:").click()
    other.page.get_by_role("menuitem", name="Device trace").click()
    other.page.wait_for_function("() => location.href.includes('layout=Device')")
    other.page.evaluate("() => { location.hash = location.hash.replace(/layout=[^&]*/, 'layout=Mine'); }")
    other.page.get_by_role("button", name="Layout: Mine").wait_for()
    expect(other.page.get_by_text("is not among yours")).to_have_count(0)
    assert made.errors == other.errors == []
    fresh.close()


def test_marks_of_two_tabs_are_both_kept(context, state):
    base, folder = state
    one, other = (Managed(context.new_page(), base, folder) for _ in range(2))
    marks = lambda: made_marks(one)
    for tab, share, count in ((one, 0.3, 1), (other, 0.5, 2), (one, 0.7, 3)):
        if "lossy" not in tab.page.url:
            for each in (one, other):
                each.open("lossy")
        low, high = tab.range()
        plot = tab.plot()
        tab.page.mouse.click(tab.x(low + share * (high - low)), plot["y"] + plot["height"] - 60, button="right")
        conftest.wait_for(lambda: len(marks()) == count, f"{marks()} are kept, not {count}")
    assert len({mark["id"] for mark in marks()}) == 3


def test_marks_made_without_the_server_are_sent_later(context, state):
    base, folder = state
    one, other = (Managed(context.new_page(), base, folder) for _ in range(2))
    for tab in (one, other):
        tab.open("lossy")
    annotations = "**/api/v1/annotations/**"
    context.route(annotations, lambda route: route.abort())
    for tab, share in ((one, 0.3), (other, 0.6)):
        low, high = tab.range()
        plot = tab.plot()
        tab.page.mouse.click(tab.x(low + share * (high - low)), plot["y"] + plot["height"] - 60, button="right")
        tab.page.wait_for_timeout(600)
    assert made_marks(one) == []
    context.unroute(annotations)
    conftest.wait_for(lambda: len(made_marks(one)) == 2, "the marks are not kept")
    other.page.reload()
    other.page.wait_for_selector(".timeline")
    other.page.wait_for_timeout(1000)
    assert len(made_marks(one)) == 2


def made_marks(viewer):
    return viewer.kept().get("annotations", {}).get("lossy", [])


def test_long_names_of_folders_stay_at_the_left(context, state):
    base, folder = state
    made = Managed(context.new_page(), base, folder).show()
    made.check("lossy")
    managed_folder(made, "x" * 100, "lossy")
    assert made.page.locator(".places").evaluate("e => e.scrollWidth <= e.clientWidth")
    made.page.get_by_role("button", name="New folder").click()
    made.page.get_by_role("dialog").get_by_label("Close").click()
    made.page.get_by_role("button", name="Folder xxx").click()
    expect(made.page.get_by_role("menuitem", name="Delete folder")).to_be_visible()


def managed_folder(viewer, name, profile):
    viewer.act("Move to folder")
    viewer.page.get_by_label("Name of the new folder").fill(name)
    viewer.page.get_by_role("button", name="Move", exact=True).click()
    viewer.page.get_by_role("dialog").wait_for(state="detached")
    assert viewer.kept()["folders"] == {name: [profile]}
