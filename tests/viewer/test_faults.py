"""What the page does when the server is slow, busy, breaks off or goes: shown with the stand-in."""

import json
import time
import urllib.request

from conftest import wait_for


def post(base, faults):
    request = urllib.request.Request(f"{base}/faults", data=json.dumps(faults).encode(), method="POST")
    urllib.request.urlopen(request)


def requests(base):
    with urllib.request.urlopen(f"{base}/requests") as response:
        return json.load(response)


def forget(base):
    urllib.request.urlopen(urllib.request.Request(f"{base}/requests", method="DELETE"))


def test_an_older_window_is_given_up_for_a_newer_one(faulty, double):
    faulty.open("lossy")
    forget(double)
    post(double, [{"path": "timeline.*groups=engine", "delay": 20, "times": 1}])
    for ends in ((1000000, 2000000), (200000, 210000)):
        faulty.page.goto(f"{double}/#/profile/lossy?from={ends[0]}&to={ends[1]}")
        faulty.page.wait_for_timeout(400)
    faulty.settle()
    assert abs(faulty.range()[0] - 200000) < 2
    wait_for(lambda: any(entry["gone"] for entry in requests(double)), "the older request goes on", 5)


def test_a_closed_tab_stops_its_queries(faulty, double, context):
    forget(double)
    post(double, [{"path": "timeline", "delay": 30, "times": 9}])
    page = context.new_page()
    page.goto(f"{double}/#/profile/attention")
    wait_for(lambda: any("timeline" in entry["path"] for entry in requests(double)), "nothing is asked", 10)
    page.close()
    wait_for(lambda: any(entry["gone"] for entry in requests(double) if "timeline" in entry["path"]), "its queries go on", 5)


def test_one_slow_answer_holds_up_nothing_else(faulty, double):
    post(double, [{"path": "groups=dma", "delay": 8, "times": 1}])
    begin = time.monotonic()
    faulty.page.goto(f"{double}/#/profile/attention?from=150000&to=160000")
    faulty.page.wait_for_function("() => Number(document.querySelector('.timeline')?.dataset.wide) > 20", timeout=6000)
    assert time.monotonic() - begin < 6


def test_a_busy_server_is_asked_again(faulty, double):
    post(double, [{"path": "groups=engine", "status": 503, "times": 2}])
    faulty.open("attention")
    assert sum(faulty.drawn()) > 100
    assert faulty.page.locator(".trouble").count() == 0


def test_a_failing_or_broken_answer_is_said_and_the_page_goes_on(faulty, double):
    faulty.open("lossy")
    post(double, [{"path": "timeline.*groups=engine", "status": 504, "message": "the query took too long", "times": 1}])
    faulty.page.goto(f"{double}/#/profile/lossy?from=400000&to=900000")
    faulty.page.get_by_text("the query took too long").wait_for()
    post(double, [{"path": "events/", "break": True, "times": 2}])
    faulty.page.goto(f"{double}/#/profile/attention?from=150000&to=160000&event=Instruction:125")
    faulty.page.locator(".details .error").first.wait_for()
    faulty.page.goto(f"{double}/#/profile/attention?from=150000&to=160000&event=Instruction:126")
    faulty.page.locator(".details table.fields").first.wait_for()


def test_a_profile_that_is_not_there(faulty, double):
    faulty.page.goto(f"{double}/#/profile/gone")
    faulty.page.get_by_text("no such profile").wait_for()
    faulty.page.goto(f"{double}/#/profile/attention")
    faulty.page.wait_for_selector(".timeline")
