"""A browser without a cookie follows a link to a server that wants a token: it logs in, and is where the link leads."""

import json
import os
import re
import subprocess
import urllib.request

import pytest

from conftest import BIN, PROFILES, run, stop, wait_for
from driver import Viewer

TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """(address, name of a profile)"""
    folder = tmp_path_factory.mktemp("login")
    capture = folder / "capture"
    capture.mkdir()
    neff_args, ntff_args = PROFILES["reduce"]
    run(BIN / "kymo-sim", "neff", *neff_args, "--arch", "trn2.48xlarge", "--output", capture / "m.neff")
    run(BIN / "kymo-sim", "ntff", "--neff", capture / "m.neff", "--output", capture / "p_vnc_0.ntff", *ntff_args)
    run(BIN / "kymo", "import", "--reserve", "1M", "--data-path", folder / "store", capture)
    (folder / "token").write_text(f"ann {TOKEN}\n")
    os.chmod(folder / "token", 0o600)
    command = [BIN / "kymo-collector", "--data-path", folder / "store", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--reserve", "1M",
               "--http-token-file", folder / "token"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = re.search(r"HTTP port (\d+)", process.stdout.readline())[1]
        base = f"http://127.0.0.1:{port}"

        def ready():
            request = urllib.request.Request(f"{base}/api/v1/profiles", headers={"Authorization": f"Bearer {TOKEN}"})
            with urllib.request.urlopen(request) as response:
                return [row["name"] for row in json.load(response)["profiles"] if row["state"] == "ready"]

        yield base, wait_for(ready, "no profile is ready", 60)[0]
    finally:
        stop(process)
        process.stdout.close()


def log_in(page, token):
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()


def test_a_link_survives_the_login(guarded, context):
    base, name = guarded
    viewer = Viewer(context.new_page(), base)
    page = viewer.page
    page.goto(f"{base}/#/profile/{name}?from=100000&to=200000&event=Instruction:0")
    log_in(page, "wrong-token-of-some-length")
    page.get_by_role("alert").filter(has_text="This token is not known here").wait_for()
    log_in(page, TOKEN)
    page.wait_for_selector(".timeline")
    viewer.settle()
    assert [round(end) for end in viewer.range()] == [100000, 200000]
    page.wait_for_selector(".details table.fields")
    assert "event=Instruction:0" in page.url and "from=100000" in page.url
    assert viewer.errors == []


def test_a_link_from_elsewhere_goes_on_with_the_login_that_is_there(guarded, context):
    base, name = guarded
    page = context.new_page()
    page.goto(base)
    log_in(page, TOKEN)
    page.get_by_role("link", name=name).first.wait_for()
    # Another site's link: the cookie does not come with it.
    page.goto("data:text/html,<a href='%s'>a link</a>" % f"{base}/%23/profile/{name}?from=100000%26to=200000")
    page.get_by_role("link", name="a link").click()
    page.get_by_role("button", name="Go on").click()
    page.wait_for_selector(".timeline")
    assert "from=100000&to=200000" in page.url


def test_a_login_that_ends_is_asked_for_again_and_leads_back(guarded, context):
    base, name = guarded
    viewer = Viewer(context.new_page(), base)
    viewer.page.goto(base)
    log_in(viewer.page, TOKEN)
    viewer.page.get_by_role("link", name=name).first.wait_for()
    viewer.open(name, **{"from": 100000, "to": 200000})
    context.clear_cookies()
    viewer.page.keyboard.press("w")
    viewer.page.get_by_label("Token").wait_for()
    log_in(viewer.page, TOKEN)
    viewer.page.wait_for_selector(".timeline")
    viewer.settle()
    low, high = viewer.range()
    assert 100000 <= low < high <= 200000
