"""The Operator Table: lazily unfolded, sorted, filtered; a click shows an operator's events."""

import re

from driver import close_to

YELLOW = "#e0c000"
SOFTMAX = "attention/Layer[0]/Softmax"


def digits(text):
    return int(re.sub(r"[^0-9]", "", text))


def table(viewer):
    widget = viewer.add_widget("Operator Table")
    widget.locator("tr[data-path]").first.wait_for()
    return widget


def row(widget, path):
    return widget.locator(f'tr[data-kind="framework"][data-path="{path}"]')


def unfold(widget, *paths):
    for path in paths:
        row(widget, path).get_by_role("button", name=f"Unfold {path}", exact=True).click()
        row(widget, path).get_by_role("button", name=f"Fold {path}", exact=True).wait_for()
        widget.locator(f'tr[data-path^="{path}/"]').first.wait_for()


def values(widget, column):
    titles = [button.get_attribute("title") for button in widget.locator("thead button").all()]
    place = titles.index(column)
    return [line.locator("td").nth(place).inner_text() for line in widget.locator("tbody tr").all()]


def test_operators_unfold_lazily_with_the_tables_figures(with_operators, tables):
    viewer = with_operators
    asked = []
    viewer.page.on("request", lambda request: asked.append(request.url) if "/operators" in request.url else None)
    viewer.open("attention")
    widget = table(viewer)
    assert not any("parent=" in url for url in asked), "only the top is asked for"
    unfold(widget, "attention", "attention/Layer[0]", SOFTMAX)
    assert sum("parent=" in url for url in asked) == 3
    counted = tables("attention", "select operator o, count(*) n from Instruction where operator is not null group by 1")
    titles = [button.get_attribute("title") for button in widget.locator("thead button").all()]
    place = titles.index("instructions")
    for path in ("attention", "attention/Layer[0]", SOFTMAX, f"{SOFTMAX}/divide"):
        expected = sum(r["n"] for r in counted if r["o"] == path or r["o"].startswith(path + "/"))
        assert digits(row(widget, path).locator("td").nth(place).inner_text()) == expected, path


def test_operators_unfold_to_their_opcodes(with_operators, tables):
    """Through HLO instructions, and from an opcode to its events: the ids go through the server's addresses."""
    viewer = with_operators
    viewer.open("attention")
    widget = table(viewer)
    unfold(widget, "attention", "attention/Layer[0]", SOFTMAX)
    path = f"{SOFTMAX}/divide"
    row(widget, path).get_by_role("button", name=f"Unfold {path}", exact=True).click()
    hlo = widget.locator(f'tr[data-kind="hlo"][data-path="{path}"]').first
    hlo.get_by_role("button", name="Unfold").click()
    opcodes = widget.locator(f'tr[data-kind="opcode"][data-path="{path}"]')
    opcodes.first.wait_for()
    place = [button.get_attribute("title") for button in widget.locator("thead button").all()].index("instructions")
    count = lambda line: digits(line.locator("td").nth(place).inner_text())
    sql = f"select count(*) n from Instruction where operator = '{path}' group by engine, opcode"
    shown = [count(line) for line in opcodes.all()]
    assert sorted(shown) == sorted(r["n"] for r in tables("attention", sql)) and sum(shown) == count(hlo)
    first = count(opcodes.first)
    opcodes.first.get_by_title("show its events").click()
    search = viewer.widget("Search")
    search.locator(".paging").first.wait_for()
    assert digits(search.locator(".paging span").first.inner_text().split("of")[1]) == first


def test_operators_are_sorted_and_filtered(with_operators):
    viewer = with_operators
    viewer.open("attention")
    widget = table(viewer)
    unfold(widget, "attention", "attention/Layer[0]")
    head = widget.get_by_role("button", name="instructions", exact=False).first
    place = widget.locator("thead button").evaluate_all("all => all.map((b) => b.title)").index("instructions")
    lines = widget.locator('tbody tr[data-path^="attention/Layer[0]/"]')
    counts = lambda: [digits(text) for text in lines.evaluate_all("(all, n) => all.map((line) => line.cells[n].innerText)", place)]
    head.click()
    viewer.page.wait_for_timeout(300)
    down = counts()
    assert len(down) > 5 and down == sorted(down, reverse=True)
    head.click()
    viewer.page.wait_for_timeout(300)
    assert counts() == sorted(down)
    widget.get_by_label("Filter operators").fill("softmax")
    row(widget, "attention/Layer[0]/Query").wait_for(state="detached")
    assert row(widget, SOFTMAX).is_visible()


def test_a_click_shows_the_operators_events_on_the_timeline(with_operators, tables):
    viewer = with_operators
    event = tables("attention", f"select * from Instruction where operator = '{SOFTMAX}/divide' and engine = 'Vector' order by start_ts limit 1")[0]
    viewer.open("attention", **{"from": event["start_ts"] - 400, "to": event["end_ts"] + 400})
    place = (f"instruction:{event['timeline_track']}", (event["start_ts"] + event["end_ts"]) / 2, 40)
    assert not close_to(viewer.colors(1, *place), YELLOW)
    widget = table(viewer)
    unfold(widget, "attention", "attention/Layer[0]")
    row(widget, SOFTMAX).get_by_title("show its events").click()
    search = viewer.widget("Search")
    search.locator(".paging").first.wait_for()
    total = tables("attention", f"select count(*) n from Instruction where starts_with(operator, '{SOFTMAX}/')")[0]["n"]
    assert digits(search.locator(".paging span").first.inner_text().split("of")[1]) == total
    viewer.page.evaluate("scrollTo(0, 0)")
    viewer.page.wait_for_timeout(600)
    assert close_to(viewer.colors(1, *place), YELLOW)
    widget.get_by_role("button", name="Clear highlight").click()
    viewer.page.wait_for_timeout(400)
    viewer.page.evaluate("scrollTo(0, 0)")
    assert not close_to(viewer.colors(1, *place), YELLOW)


def test_names_of_operators_are_only_text(with_operators):
    viewer = with_operators
    viewer.open("hostile")
    widget = table(viewer)
    assert "<img src=x" in widget.inner_text()
    assert viewer.page.title() == "hostile – kymo"
