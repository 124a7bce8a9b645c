"""Comparison: chosen in the Profile Manager, timelines that move together, figures with deltas."""

import re

import pytest
from playwright.sync_api import expect

from conftest import wait_for


def digits(text):
    return int(re.sub(r"[^0-9]", "", text))


def compare(viewer, *profiles):
    page = viewer.page
    page.goto(viewer.base)
    for name in profiles:
        page.get_by_label(f"Select {name}").check()
    page.get_by_role("button", name="Actions").click()
    page.get_by_role("menuitem", name="Compare profiles").click()
    page.wait_for_function("(n) => document.querySelectorAll('.timeline[data-from]').length === n", arg=len(profiles))
    page.wait_for_timeout(600)
    return page


def ranges(page):
    script = "all => all.map(e => [Number(e.dataset.from), Number(e.dataset.to)])"
    return page.eval_on_selector_all(".timeline", script)


def lengths(tables, *profiles):
    return [tables(name, "select max(end_ts) - 0 as n from Instruction")[0]["n"] for name in profiles]


def wheel(page, place, by):
    box = page.locator("canvas.pointer").nth(place).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 3, box["y"] + box["height"] / 2)
    page.mouse.wheel(0, by)
    page.wait_for_timeout(300)


def extents(page, viewer, *profiles):
    script = "async (name) => (await (await fetch(`api/v1/profiles/${name}/overview`)).json()).extent.to"
    return [page.evaluate(script, name) for name in profiles]


def test_timelines_are_stacked_and_zoom_together(with_operators):
    page = compare(with_operators, "attention", "reduce")
    long = extents(page, with_operators, "attention", "reduce")
    wheel(page, 0, -600)
    first, second = ranges(page)
    assert first[1] - first[0] < long[0] * 0.8
    for edge in (0, 1):
        assert first[edge] / long[0] == pytest.approx(second[edge] / long[1], abs=0.001)
    page.get_by_label("Zoom", exact=True).select_option("absolute")
    wheel(page, 1, -300)
    first, second = ranges(page)
    assert first == pytest.approx(second, abs=1)
    page.get_by_label("Zoom", exact=True).select_option("apart")
    wheel(page, 0, -300)
    assert ranges(page)[1] == second and ranges(page)[0] != first
    page.mouse.move(5, 5)
    page.get_by_label("Range from").fill("25")
    page.get_by_label("Range to").fill("75")
    page.get_by_role("button", name="Synchronize").click()
    page.wait_for_timeout(300)
    for (low, high), length in zip(ranges(page), long):
        assert [low, high] == pytest.approx([length * 0.25, length * 0.75], abs=2)
    page.get_by_label("Range unit").select_option("ns")
    page.get_by_label("Range from").fill("200000")
    page.get_by_label("Range to").fill("400000")
    page.get_by_role("button", name="Synchronize").click()
    page.wait_for_timeout(300)
    assert ranges(page) == [[200000, 400000], [200000, 400000]]
    page.locator(".home").click()
    page.get_by_label("Select attention").wait_for()


def counts(page, panel, wanted):
    """The cells of the row of a figure."""
    region = page.get_by_role("region", name=panel)
    region.locator("tbody tr").first.wait_for()
    row = region.locator("tbody tr", has=page.locator("th, td.operator-name", has_text=re.compile(wanted)))
    return [cell.inner_text() for cell in row.first.locator("td.number").all()]


def test_deltas_are_against_the_chosen_base(with_operators, tables):
    page = compare(with_operators, "attention", "reduce")
    n = [tables(name, "select count(*) n from Instruction")[0]["n"] for name in ("attention", "reduce")]
    first, second = counts(page, "Compare Overall Summary", "^instructions$")
    assert digits(first) == n[0] and digits(second.splitlines()[0]) == n[1]
    assert second.splitlines()[1].startswith("\u2212") and digits(second.splitlines()[1].split("(")[0]) == n[0] - n[1]
    page.get_by_label("Base", exact=True).select_option("reduce")
    first, second = counts(page, "Compare Overall Summary", "^instructions$")
    assert first.splitlines()[1].startswith("+") and digits(first.splitlines()[1].split("(")[0]) == n[0] - n[1]
    assert digits(second) == n[1]
    page.get_by_label("Range from").fill("0")
    page.get_by_label("Range to").fill("50")
    page.get_by_role("button", name="Synchronize").click()
    half = lambda: digits(counts(page, "Compare Current Selection Summary", "^instructions$")[0].splitlines()[0])
    wait_for(lambda: 0 < half() < n[0], "the selection's summary stays", 10)


def test_operators_of_both_are_in_one_tree(with_operators, tables):
    page = compare(with_operators, "attention", "hostile")
    panel = page.get_by_role("region", name="Compare Operator Table")
    panel.locator("tbody tr").first.wait_for()
    panel.get_by_label("Figure").select_option("instructions")
    same = lambda name: tables(name, "select count(*) n from Instruction where starts_with(operator, 'attention/')")[0]["n"]
    numbers = panel.locator('tr[data-path="attention"] td.number')
    expect(numbers).to_contain_text([re.compile("[0-9]")] * 2, timeout=30000)
    cells = numbers.all_inner_texts()
    assert [digits(cells[0]), digits(cells[1].splitlines()[0])] == [same("attention"), same("hostile")]
    panel.get_by_role("button", name="Unfold attention", exact=True).click()
    panel.locator('tr[data-path="attention/Layer[0]"]').wait_for()


def test_noise_and_breakdowns(with_operators, tables):
    """Two captures of one program on the base's side, another program on the other."""
    page = compare(with_operators, "attention", "hostile", "reduce")
    panel = page.get_by_role("region", name="Differences and noise")
    if panel.locator(".error").count():
        pytest.skip("this server does not compare")
    panel.get_by_label("Side of hostile").select_option("0")
    panel.locator("thead th", has_text="mean of 2").wait_for()
    row = panel.locator("tbody tr", has=page.locator("th", has_text=re.compile("^Tensor MATMUL count")))
    value = tables("attention", "select count(*) n from Instruction where engine = 'Tensor' and opcode = 'MATMUL'")[0]["n"]
    assert digits(row.locator("td").first.inner_text()) == value
    panel.get_by_role("tab", name="Throttling").click()
    assert panel.locator("tbody tr").count() > 0


def test_a_profile_that_cannot_be_opened_leaves_the_others(with_operators):
    viewer = with_operators
    page = viewer.page
    page.goto(f"{viewer.base}/#/compare/none-such/attention/reduce?base=none-such")
    page.wait_for_selector(".compare-timeline .timeline")
    assert page.locator(".compare-timeline header a").all_inner_texts() == ["attention", "reduce"]
    assert page.get_by_role("alert").first.inner_text().startswith("none-such: ")
    assert page.get_by_label("Base", exact=True).input_value() == "attention"
    panel = page.get_by_role("region", name="Compare Overall Summary")
    panel.locator("table").wait_for()
    assert [text.split()[0] for text in panel.locator("thead th").all_inner_texts()] == ["Figure", "attention", "reduce"]
    page.get_by_label("Base", exact=True).select_option("reduce")
    assert "base" in panel.locator("thead th", has_text="reduce").inner_text() and "base=reduce" in page.url
