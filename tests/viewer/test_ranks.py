"""Ranks on one clock and the fleet over days: simulated jobs with a slow rank, gathered and published by the product's own programs."""

import datetime
import json
import math
import re
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest

from conftest import BIN, HOSTILE, start_view, stop
from driver import Viewer

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "oracle"))
import fleet_job  # noqa: E402
import profiles as sim  # noqa: E402

TODAY = datetime.datetime.now(datetime.timezone.utc).date()
DAYS = [TODAY - datetime.timedelta(days=back) for back in (0, 3, 8, 11)]
SLOW = 2


MEMBERS = 4200


def make_huge(parent, directory):
    """The parent with more members than the page holds; those that are new have no tables."""
    shutil.copytree(parent, directory)
    members = table(parent, "Member")
    more = members.iloc[[0] * (MEMBERS - len(members))].assign(profile=[f"m{k}" for k in range(len(members), MEMBERS)], rank=range(len(members), MEMBERS))
    pd.concat([members, more]).to_parquet(directory / "Member.parquet")


def make_long(parent, directory):
    """The parent with each collective thrice."""
    shutil.copytree(parent, directory)
    skew = table(parent, "CollectiveSkew")
    pd.concat([skew.assign(id=skew.id + k * len(skew)) for k in range(3)]).to_parquet(directory / "CollectiveSkew.parquet")


def table(directory, name):
    return pd.read_parquet(directory / f"{name}.parquet")


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """(parent, members, fleet): four ranks, of which one is slow; 18 ranks; four days of a fleet in which rank 1 lost MFU this week."""
    sim.BIN = BIN
    folder = tmp_path_factory.mktemp("ranks")
    parent, members = fleet_job.simulated_job(folder)
    many = tmp_path_factory.mktemp("many")
    fleet_job.simulated_job(many, ranks=18, slow="5:8", steps=1, job="wide")
    (many / "profiles").rename(folder / "profiles" / "many")
    make_huge(parent, folder / "profiles" / "many" / "huge-ranks")
    make_long(parent, folder / "profiles" / "many" / "long-ranks")
    fleet = folder / "fleet"
    for back, day in enumerate(DAYS):
        for rank in (0, 1):
            name = members[rank].name if back == 0 else f"train-r{rank}-{back}"
            fleet_job.publish(fleet, members[rank], name, day, scale=0.5 if rank == 1 and back < 2 else 1.0, job="train", rank=rank, host=f"node{rank}",
                              capture=f"c{back}")
    fleet_job.publish(fleet, parent, "train-ranks", TODAY)
    fleet_job.publish(fleet, members[0], "odd", TODAY, cluster="east", job=HOSTILE, rank=0, host="node9", capture="x")
    return parent, members, fleet


@pytest.fixture(scope="module")
def base(job, tmp_path_factory):
    parent, _, fleet = job
    process, address = start_view(["--fleet", fleet, parent.parent, parent.parent / "many"], tmp_path_factory.mktemp("server"))
    yield address
    stop(process)


@pytest.fixture
def page(context, base):
    made = Viewer(context.new_page(), base)
    yield made.page
    assert made.errors == []


def frames(page):
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 100))))")


def settle(page):
    """Until nothing is asked any more, and what came is drawn."""
    frames(page)
    page.wait_for_selector(".ranks-lanes[data-busy=false]")
    frames(page)


def open_ranks(page, base, name="train-ranks", query=""):
    page.goto(f"{base}/#/ranks/{name}{query}")
    page.wait_for_selector(".ranks-lanes[data-from]")
    settle(page)


def seen(page, selector=".ranks-lanes"):
    return tuple(page.eval_on_selector(selector, "e => [Number(e.dataset.from), Number(e.dataset.to)]"))


def x_of(page, time):
    low, high = seen(page)
    box = page.locator(".ranks-plot canvas.pointer").bounding_box()
    return box["x"] + (time - low) / (high - low) * box["width"]


def y_of(page, profile, share=0.45):
    box = page.locator(f"[data-profile='{profile}']").bounding_box()
    return box["y"] + box["height"] * share


def color(page, layer, x, y):
    """What a layer has drawn at a place of the screen."""
    return page.evaluate(
        """([layer, x, y]) => {
            const canvas = document.querySelectorAll(".ranks-plot canvas")[layer];
            const box = canvas.getBoundingClientRect();
            const at = [(x - box.x) * canvas.width / box.width, (y - box.y) * canvas.height / box.height];
            return [...canvas.getContext("2d").getImageData(Math.floor(at[0]), Math.floor(at[1]), 1, 1).data];
        }""",
        [layer, x, y],
    )


def is_text(page, rgba):
    wanted = page.evaluate("() => getComputedStyle(document.querySelector('.ranks-plot canvas')).getPropertyValue('--text').trim()")
    return all(abs(int(wanted[i : i + 2], 16) - value) < 40 for i, value in zip((1, 3, 5), rgba))


def is_amber(rgba):
    red, green, blue, alpha = rgba
    return alpha > 40 and red > 150 and 80 < green < red and blue < green * 0.75


def facts(parent):
    skew, arrivals, members = (table(parent, name) for name in ("CollectiveSkew", "CollectiveArrival", "Member"))
    return skew, arrivals, members, members.first_unix_ns.min()


def number(text):
    """The ns that a text such as 69.94 µs stands for."""
    value, unit = re.match(r"([\d.]+) (ns|µs|ms|s)", text).groups()
    return float(value) * {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}[unit]


def test_the_outlier_stands_at_the_top(page, base, job):
    parent, members, _ = job
    open_ranks(page, base)
    rank = table(parent, "Member").set_index("rank").loc[SLOW]
    card = page.locator(".outlier-card")
    assert card.count() == 1 and card.get_attribute("data-outlier") == str(SLOW)
    assert f"last to {rank.last_arrivals} of {rank.collectives}" in card.inner_text()
    labels = page.locator(".rank-label")
    assert [labels.nth(k).get_attribute("data-rank") for k in range(4)] == ["2", "0", "1", "3"]
    assert "outlier" in labels.first.get_attribute("class")
    clocks = table(parent, "ClockMap").set_index("rank")
    for k, m in enumerate(members):
        text = page.locator(f"[data-profile='{m.name}']").inner_text()
        assert f"{table(m, 'Summary').mfu_estimated_percent[0]:.3g}"[:4] in text and f"± {clocks.device_error_ns[k]} ns" in text
    page.get_by_label("Order of ranks").select_option("rank")
    page.wait_for_timeout(100)
    assert [labels.nth(k).get_attribute("data-rank") for k in range(4)] == ["0", "1", "2", "3"]


def test_arrivals_lie_where_the_tables_have_them(page, base, job):
    """One collective in every lane: the card under the pointer at its time on the common axis."""
    parent, members, _ = job
    skew, arrivals, _, zero = facts(parent)
    worst = skew.loc[skew[skew.members == 4].spread_ns.idxmax()]
    open_ranks(page, base, query=f"?from={worst.first_arrival_ns - zero - 5000}&to={worst.end_ns - zero + 5000}")
    for m in members:
        one = arrivals[(arrivals.collective_id == worst.id) & (arrivals.profile == m.name)].iloc[0]
        page.mouse.move(x_of(page, one.arrival_ns - zero) + 1, y_of(page, m.name))
        card = page.locator(".ranks-card").inner_text()
        values = dict(zip(card.split("\n")[1::2], card.split("\n")[2::2]))
        assert worst.operation in card and values["Collective"] == str(worst.id)
        assert int(re.sub(r"\D", "", values["Came at"])) == one.arrival_ns - zero
        assert number(values["After the first"]) == pytest.approx(one.late_ns, rel=1e-3)
        assert number(values["Waited for the last"]) == pytest.approx(one.wait_ns, rel=1e-3)
        assert f"± {one.error_bound_ns} ns" == values["Times may be off"]
        assert ("came last" in card) == (m.name == worst.last_profile)


def test_error_bounds_are_drawn(page, base, job):
    """As wide as the tables say: at an arrival, and at the cursor in every lane."""
    parent, members, _ = job
    skew, arrivals, _, zero = facts(parent)
    one = arrivals[arrivals.profile == members[SLOW].name].iloc[5]
    at, error = int(one.arrival_ns - zero), int(one.error_bound_ns)
    open_ranks(page, base)
    assert page.get_attribute(".ranks-lanes", "data-whiskers") == "0"
    open_ranks(page, base, query=f"?from={at - 8 * error}&to={at + 8 * error}")
    page.reload()
    settle(page)
    assert int(page.get_attribute(".ranks-lanes", "data-whiskers")) >= 1
    y = y_of(page, members[SLOW].name, 0.44)
    for side in (-1, 1):
        assert is_text(page, color(page, 0, x_of(page, at + side * error * 0.9), y)), side
        assert not is_text(page, color(page, 0, x_of(page, at + side * error * 1.4), y)), side
    page.mouse.move(x_of(page, at + 3 * error), y)
    page.wait_for_timeout(80)
    clocks = table(parent, "ClockMap").set_index("profile").device_error_ns
    for m in members:
        bound = int(clocks[m.name])
        for share, drawn in ((0.8, True), (1.3, False)):
            assert is_amber(color(page, 1, x_of(page, at + 3 * error + share * bound), y_of(page, m.name, 0.9))) == drawn, (m.name, share)


def rows(page):
    return [int(r.get_attribute("data-collective")) for r in page.locator("[data-collective]").all()]


def wait_rows(page, wanted):
    page.wait_for_function(
        "(ids) => JSON.stringify([...document.querySelectorAll('[data-collective]')].map(e => Number(e.dataset.collective))) === JSON.stringify(ids)",
        arg=[int(k) for k in wanted])


def test_collectives_are_sorted_by_spread_and_filtered(page, base, job):
    parent, members, _ = job
    skew, _, _, _ = facts(parent)
    open_ranks(page, base)
    by = lambda columns, up, rows=skew: list(rows.sort_values(columns, ascending=up).id)[:50]
    wait_rows(page, by(["spread_ns", "first_arrival_ns", "id"], [False, True, True]))
    page.get_by_role("button", name="Spread").click()
    wait_rows(page, by(["spread_ns", "first_arrival_ns", "id"], True))
    page.get_by_role("button", name="Came at").click()
    wait_rows(page, by(["first_arrival_ns", "id"], [False, True]))
    page.get_by_label("Operation").select_option("AllGather")
    wait_rows(page, by(["first_arrival_ns", "id"], [False, True], skew[skew.operation == "AllGather"]))
    page.get_by_label("Operation").select_option("")
    page.get_by_role("button", name="Show where it came last").click()
    wait_rows(page, by(["first_arrival_ns", "id"], [False, True], skew[(skew.last_profile == members[SLOW].name) & skew.significant]))


def test_a_collective_is_zoomed_to(page, base, job):
    parent, _, _ = job
    skew, arrivals, _, zero = facts(parent)
    worst = skew.loc[skew.spread_ns.idxmax()]
    open_ranks(page, base)
    page.locator(f"[data-collective='{worst.id}'] button").click()
    page.wait_for_selector("[data-arrival]")
    settle(page)
    low, high = seen(page)
    assert low < worst.first_arrival_ns - zero and worst.end_ns - zero < high
    assert (high - low) == pytest.approx((worst.end_ns - worst.first_arrival_ns) / 0.6, rel=0.01)
    mine = arrivals[arrivals.collective_id == worst.id].sort_values("arrival_ns")
    got = page.locator("[data-arrival]").all()
    assert [r.get_attribute("data-arrival") for r in got] == list(mine.profile)
    for row, (_, one) in zip(got, mine.iterrows()):
        cells = row.locator("td").all_inner_texts()
        assert cells[0] == f"Rank {one['rank']}" and cells[1] == one.host
        assert [number(cells[2]), number(cells[3])] == pytest.approx([one.late_ns, one.wait_ns], rel=1e-3, abs=0.01)
        assert ("last" in (row.get_attribute("class") or "")) == (one.profile == worst.last_profile)
    page.wait_for_function("(id) => location.hash.includes(`collective=${id}`)", arg=int(worst.id))
    address = page.url
    page.get_by_role("button", name="Clear").click()
    assert page.locator("[data-arrival]").count() == 0
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("[data-arrival]")
    settle(page)
    assert seen(page) == pytest.approx((low, high), abs=2)


def test_a_click_in_a_lane_chooses(page, base, job):
    parent, members, _ = job
    skew, arrivals, _, zero = facts(parent)
    one = arrivals[(arrivals.profile == members[0].name)].sort_values("wait_ns").iloc[-1]
    open_ranks(page, base, query=f"?from={one.arrival_ns - zero - 30000}&to={one.end_ns - zero + 30000}")
    before = seen(page)
    page.mouse.click(x_of(page, (one.arrival_ns + one.wait_ns / 2) - zero), y_of(page, members[0].name))
    page.wait_for_selector("[data-arrival]")
    assert page.locator(".ranks-arrivals h2").inner_text().endswith(f" {one.collective_id}") and seen(page) == before
    page.locator(".ranks-plot canvas.pointer").press("Escape")
    page.wait_for_function("() => !document.querySelector('[data-arrival]')")


def test_pan_and_zoom(page, base):
    open_ranks(page, base)
    low, high = seen(page)
    box = page.locator(".ranks-plot canvas.pointer").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 60)
    at = low + (high - low) / 4
    page.mouse.wheel(0, -400)
    settle(page)
    a, b = seen(page)
    assert b - a == pytest.approx((high - low) * math.exp(-0.64), rel=0.01) and at == pytest.approx(a + (b - a) / 4, rel=0.01)
    page.locator(".ranks-plot canvas.pointer").press("d")
    settle(page)
    assert seen(page)[0] == pytest.approx(a + 0.12 * (b - a), rel=0.01)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60, steps=3)
    page.mouse.up()
    settle(page)
    assert seen(page)[0] == pytest.approx(a + 0.12 * (b - a) - 0.25 * (b - a), rel=0.02)
    page.get_by_role("button", name="Fit").click()
    settle(page)
    assert seen(page)[1] - seen(page)[0] > (high - low) * 0.9


def test_an_unfolded_rank_moves_with_the_lanes(page, base, job):
    """Its own tracks on its own axis, tied by the clock of the tables, both ways."""
    parent, members, _ = job
    clock = table(parent, "ClockMap").set_index("profile").loc[members[1].name]
    zero = table(parent, "Member").first_unix_ns.min()
    own = lambda t: (t - (clock.offset_ns - zero)) / (1 + clock.drift_ppm / 1e6)
    open_ranks(page, base, query="?from=200000&to=500000")
    page.get_by_role("button", name="Timeline of Rank 1").click()
    page.wait_for_selector(".timeline[data-busy=false]")
    page.wait_for_timeout(300)
    assert page.locator("[data-track^='instruction:']").count() >= 5
    assert seen(page, ".timeline") == pytest.approx([own(t) for t in seen(page)], abs=2)
    page.locator(".ranks-plot canvas.pointer").press("w")
    settle(page)
    assert seen(page)[1] - seen(page)[0] == pytest.approx(300000 / 1.35, rel=0.01)
    assert seen(page, ".timeline") == pytest.approx([own(t) for t in seen(page)], abs=2)
    box = page.locator(".timeline canvas.pointer").bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 120)
    page.mouse.wheel(0, 300)
    settle(page)
    assert seen(page, ".timeline") == pytest.approx([own(t) for t in seen(page)], abs=2)
    assert box["x"] == pytest.approx(page.locator(".ranks-plot canvas.pointer").bounding_box()["x"], abs=2)
    page.locator("[data-unfolded]").get_by_role("button", name="Close").click()
    assert page.locator(".timeline").count() == 0


def test_many_ranks_are_asked_for_as_they_are_seen(page, base):
    asked = []
    page.on("request", lambda request: "ranks/lanes" in request.url and asked.append(request.url.split("profiles=")[1].split(",")))
    page.set_viewport_size({"width": 1300, "height": 420})
    open_ranks(page, base, "wide-ranks")
    first = {name for names in asked for name in names}
    assert 3 < len(first) < 18 and page.locator(".outlier-card").get_attribute("data-outlier") == "5"
    assert int(page.get_attribute(".ranks-lanes", "data-lanes")) == len(first)
    page.eval_on_selector(".ranks-scroller", "e => { e.scrollTop = e.scrollHeight; }")
    settle(page)
    everything = {name for names in asked for name in names}
    assert len(everything) > len(first) and page.locator("[data-rank='17']").count() == 1


def test_ranks_beyond_what_the_page_holds_are_told(page, base):
    open_ranks(page, base, "huge-ranks")
    left = page.locator("[data-left-out]")
    assert left.get_attribute("data-left-out") == str(MEMBERS - 4096) and f"{MEMBERS - 4096} of 4,200 ranks are left out" in left.inner_text().replace("\u2009", ",")
    assert page.locator(".outlier-card").get_attribute("data-outlier") == str(SLOW)


def test_a_page_of_collectives_is_of_its_window(page, base):
    """Another window begins with the first page of its collectives."""
    open_ranks(page, base, "long-ranks")
    place = page.locator(".ranks-skew .toolbar").last
    skew = lambda message: "/skew?" in message.url
    with page.expect_response(skew):
        page.get_by_label("In view").check()
    with page.expect_response(lambda answer: skew(answer) and "page=1" in answer.url):
        page.locator(".ranks-skew").get_by_role("button", name="Next").click()
    assert place.inner_text().startswith("51 –")
    with page.expect_request(skew) as asked:
        page.locator(".ranks-plot canvas.pointer").press("d")
    assert "page=0" in asked.value.url and place.inner_text().startswith("1 –")


def test_no_profile_of_many_ranks(page, base, job):
    page.goto(f"{base}/#/ranks/{job[1][0].name}")
    page.wait_for_selector("p.error")
    assert "no profile of many ranks" in page.locator("p.error").inner_text()


def test_pages_of_one_profile_lead_to_the_ranks(page, base):
    """Timeline and summary are of one profile's events, of which that of all ranks has none."""
    for kind in ("profile", "summary"):
        page.goto("about:blank")
        page.goto(f"{base}/#/{kind}/train-ranks")
        page.wait_for_selector(".ranks-lanes canvas")
        assert "#/ranks/train-ranks" in page.url


def test_the_list_leads_to_ranks_and_fleet(page, base):
    page.goto(base)
    page.get_by_role("link", name="train-ranks", exact=True).click()
    page.wait_for_selector(".ranks-lanes[data-from]")
    page.goto(base)
    page.get_by_role("link", name="Fleet", exact=True).click()
    page.wait_for_selector("table.fleet")


def test_the_list_shows_who_lost(page, base, job):
    """Greatest losses first, with a plot each; a click shows that row of the fleet."""
    rows = summaries(job[2])
    rows = rows[rows.job == "train"]
    page.goto(base)
    page.wait_for_selector(".glance [data-lost]")
    first = str(TODAY - datetime.timedelta(days=6))
    ranks = {f"train rank {rank}": mean(mine[mine.day >= first]) - mean(mine[mine.day < first]) for rank, mine in rows.groupby("rank")}
    wanted = sorted((name for name, delta in ranks.items() if delta < -1e-6), key=ranks.get)
    got = page.locator(".glance [data-lost^='train rank']")
    assert [r.get_attribute("data-lost") for r in got.all()][: len(wanted)] == wanted and wanted[0] == "train rank 1"
    text = got.first.locator(".worse").inner_text()
    assert float(text.replace("−", "-")) == pytest.approx(ranks["train rank 1"], rel=5e-3)
    assert got.first.locator("circle").count() == len(set(rows[rows["rank"] == 1].day))
    got.first.click()
    page.wait_for_selector("tr[data-group='train rank 1']")
    assert page.locator("tr[data-group]").count() == 1


# The fleet


def summaries(fleet):
    parts = [(p, pd.read_parquet(p)) for p in sorted((fleet / "Summary").glob("date=*/cluster=*/*.parquet"))]
    return pd.concat([f.assign(day=p.parts[-3][5:], cluster=p.parts[-2][8:]) for p, f in parts])


def mean(rows):
    return (rows.mfu_estimated_percent * rows.total_time).sum() / rows.total_time.sum() if len(rows) else None


def open_fleet(page, base, query=""):
    page.goto(f"{base}/#/fleet{query}")
    page.wait_for_selector(".fleet-page[aria-busy=false]")
    page.wait_for_selector("table.fleet")


def test_who_lost_mfu_stands_first(page, base, job):
    rows = summaries(job[2])
    open_fleet(page, base, "?group=rank")
    got = page.locator("tr[data-group]")
    assert got.first.get_attribute("data-group") == "train rank 1"
    week, before = [(str(TODAY - datetime.timedelta(days=first)), str(TODAY - datetime.timedelta(days=last))) for first, last in ((6, 0), (13, 7))]
    for rank in (0, 1):
        mine = rows[(rows.job == "train") & (rows["rank"] == rank)]
        row = page.locator(f"tr[data-group='train rank {rank}']")
        dots = {d.get_attribute("data-day"): float(d.get_attribute("data-value")) for d in row.locator("circle").all()}
        assert dots == pytest.approx({day: mean(mine[mine.day == day]) for day in sorted(set(mine.day))})
        now, then = mean(mine[mine.day.between(*week)]), mean(mine[mine.day.between(*before)])
        assert float(row.locator("[data-delta]").first.get_attribute("data-delta")) == pytest.approx(now - then, abs=1e-6)
        cells = row.locator("td").all_inner_texts()
        assert [float(cells[3].split()[0]), float(cells[4].split()[0])] == pytest.approx([now, then], rel=5e-3)
        assert cells[1] == str(len(mine))
    # From the least to the greatest delta; without one, as who came only this week, last.
    deltas = [r.locator("[data-delta]").first.get_attribute("data-delta") for r in got.all()[:-1]]
    assert [float(d) for d in deltas] == sorted(float(d) for d in deltas) and "–" in got.last.locator("td").nth(5).inner_text()


def test_typing_and_back(page, base):
    """What is typed is in the address at once: Back within the debounce is not undone by it, and Forward finds it again."""
    open_fleet(page, base)
    page.get_by_role("button", name="Host", exact=True).click()
    page.wait_for_selector("tr[data-group='node1']")
    asked = []
    page.on("request", lambda request: "fleet?" in request.url and asked.append(request.url))
    box = page.get_by_label("Filter")
    box.press_sequentially("node9")
    page.go_back()
    page.wait_for_timeout(600)
    assert page.url.endswith("#/fleet?group=host") and box.input_value() == "" and page.locator("tr[data-group]").count() == 3
    page.go_forward()
    page.wait_for_function("() => document.querySelectorAll('tr[data-group]').length === 1")
    assert box.input_value() == "node9" and page.url.endswith("group=host&text=node9")
    assert not any("text=n&" in url or "text=node&" in url for url in asked)
    page.wait_for_timeout(1100)
    box.press("Backspace")  # another burst, another step
    page.wait_for_function("() => document.querySelectorAll('tr[data-group]').length === 3")
    page.go_back()
    page.wait_for_function("() => document.querySelectorAll('tr[data-group]').length === 1")
    assert box.input_value() == "node9"
    page.go_back()
    page.wait_for_function("() => document.querySelectorAll('tr[data-group]').length === 3")
    page.go_back()
    page.wait_for_selector("tr[data-group='train']")


def test_reading_many_profiles_is_told(context, job, tmp_path):
    """As rows come the table grows; the page says how many profiles have been read, and of one that cannot be, that it is left out."""
    path = next((job[2] / "FleetProfile").glob(f"date={TODAY}/cluster=west/part-train-node7-r0.parquet"))
    seed = json.loads(pd.read_parquet(path).row[0])
    for k in range(600):
        day = TODAY - datetime.timedelta(days=k // 200)
        place = tmp_path / "fleet" / "FleetProfile" / f"date={day}" / "cluster=west"
        place.mkdir(parents=True, exist_ok=True)
        row = {**seed, "profile": f"p{k}", "job": f"job{k // 200}"}
        pd.DataFrame({"profile": [f"p{k}"], "row": [json.dumps(row)]}).to_parquet(place / f"part-p{k}.parquet")
    (place / "part-bad.parquet").write_bytes(b"PAR1 no table PAR1")
    work = tmp_path / "server"
    work.mkdir()
    process, address = start_view(["--fleet", tmp_path / "fleet", job[0]], work)
    page = Viewer(context.new_page(), address).page
    # An impatient page: each answer has one portion.
    page.route("**/api/v1/fleet?**", lambda route: route.continue_(url=re.sub(r"wait=\d+", "wait=0", route.request.url)))
    page.add_init_script("""addEventListener('DOMContentLoaded', () => { window.told = []; new MutationObserver(() => {
        const bar = document.querySelector('.fleet-loading progress');
        if (bar) window.told.push([bar.value, bar.max, document.querySelectorAll('tr[data-group]').length]);
    }).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true }); });""")
    page.goto(f"{address}/#/fleet")
    page.wait_for_selector(".fleet-page[aria-busy=false]")
    told = page.evaluate("() => window.told")
    assert told and told[0][1] == 601 and told[0][0] < told[-1][0] < 601 and 1 <= told[0][2] < 3
    assert page.locator(".fleet-loading").count() == 0 and page.locator("tr[data-group]").count() == 3
    assert "1 profiles are left out" in page.locator(".amber-text").inner_text()
    stop(process)


def test_from_a_row_to_its_profiles(page, base, job):
    rows = summaries(job[2])
    open_fleet(page, base)
    page.get_by_role("button", name="Profiles of train", exact=True).click()
    page.wait_for_selector("tr[data-profile]")
    mine = rows[rows.job == "train"].sort_values("mfu_estimated_percent")
    names = [r.get_attribute("data-profile") for r in page.locator("tr[data-profile]").all()]
    assert set(names) == set(mine.profile) and len(names) == len(mine)
    shown = [float(r.locator("td").nth(5).inner_text().split()[0]) for r in page.locator("tr[data-profile]").all()]
    assert shown == pytest.approx(list(mine.mfu_estimated_percent), rel=5e-3)
    name = job[1][1].name
    page.locator(f"tr[data-profile='{name}']").get_by_role("link", name="Ranks").click()
    page.wait_for_selector(".ranks-lanes[data-from]")
    page.go_back()
    page.get_by_role("button", name="Profiles of train", exact=True).click()
    page.get_by_role("link", name=name).click()
    page.wait_for_selector(".timeline[data-from]")


def test_fleet_is_grouped_and_filtered(page, base):
    open_fleet(page, base)
    names = lambda: [r.get_attribute("data-group") for r in page.locator("tr[data-group]").all()]
    assert set(names()) == {"train", HOSTILE}
    page.get_by_role("button", name="Host", exact=True).click()
    page.wait_for_selector("tr[data-group='node9']")
    assert set(names()) == {"node0", "node1", "node9"}
    page.get_by_label("Filter").fill("NODE1")
    page.wait_for_function("() => document.querySelectorAll('tr[data-group]').length === 1")
    assert names() == ["node1"]
    open_fleet(page, base)
    page.locator("tr[data-group='train']").get_by_role("link", name="by rank").click()
    page.wait_for_selector("tr[data-group='train rank 0']")
    assert set(names()) == {"train rank 0", "train rank 1"}
    page.get_by_role("button", name="job train").click()
    page.wait_for_function("() => document.querySelectorAll('tr[data-group]').length === 3")


def test_a_week_without_captures(page, base):
    page.goto(f"{base}/#/fleet?to=2020-01-31")
    page.get_by_role("button", name=f"Show the week that ends {TODAY}").click()
    page.wait_for_selector("tr[data-group='train']")


def test_without_a_fleet(page, viewer):
    page.goto(f"{viewer.base}/#/fleet")
    page.wait_for_selector("p.error")
    assert "--fleet" in page.locator("p.error").inner_text()
