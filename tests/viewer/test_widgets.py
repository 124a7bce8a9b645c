"""The grid of widgets and the widgets: search, annotations, summaries, box, regions; layouts, links, themes."""

import json
import re

import pytest
from playwright.sync_api import expect

from driver import close_to
from test_timeline import around, matmul

YELLOW, CYAN = "#e0c000", "#00a9c7"


def search(viewer, category, field, match, value):
    widget = viewer.widget("Search")
    widget.get_by_label("Category").select_option(category)
    widget.get_by_label("Field").select_option(field)
    widget.get_by_label("Match").select_option(match)
    widget.get_by_label("Value").fill(value)
    widget.get_by_role("button", name="Submit").click()
    widget.locator(".paging, p.muted, p.error").first.wait_for()
    expect(widget.get_by_text("Searching…")).to_have_count(0, timeout=30000)
    viewer.page.wait_for_timeout(300)
    return widget


def digits(text):
    return int(re.sub(r"[^0-9]", "", text))


@pytest.mark.parametrize(
    "category,field,match,value,sql",
    [
        ("instruction", "opcode", "exact", "MATMUL", "select * from Instruction where opcode = 'MATMUL'"),
        ("instruction", "opcode", "partial", "tensor_", "select * from Instruction where opcode ilike '%tensor\\_%' escape '\\'"),
        ("operator", "operator", "partial", "Softmax", "select * from Instruction where operator ilike '%softmax%'"),
        ("dma", "queue_name", "exact", "qSyncIO0", "select * from DmaPacketAggregated where queue_name = 'qSyncIO0'"),
    ],
)
def test_search_finds_what_the_tables_hold(full, tables, category, field, match, value, sql):
    full.open("attention")
    widget = search(full, category, field, match, value)
    text = widget.locator(".paging span").first.inner_text()
    assert digits(text.split("of")[1]) == len(tables("attention", sql))


def test_matches_have_a_yellow_border_and_the_focused_one_a_cyan_one(full, tables):
    first, second = tables("attention", "select * from Instruction where opcode = 'MATMUL' order by start_ts, id limit 2")
    full.open("attention", **{"from": first["start_ts"] - 300, "to": second["end_ts"] + 300})
    widget = search(full, "instruction", "opcode", "exact", "MATMUL")
    place = lambda event: (f"instruction:{event['timeline_track']}", (event["start_ts"] + event["end_ts"]) / 2, 30)
    assert close_to(full.colors(1, *place(first)), YELLOW)
    widget.get_by_role("button", name="Focus").click()
    full.page.wait_for_timeout(300)
    full.settle()
    assert close_to(full.colors(1, *place(first)), CYAN)
    widget.get_by_role("button", name="Next match").click()
    full.page.wait_for_function(f"() => location.href.includes('Instruction:{second['id']}')")
    full.settle()
    assert close_to(full.colors(1, *place(second)), CYAN)
    assert "Match 2 of" in full.widget("Event Details").inner_text(), "matches are pages of the details"
    widget.get_by_role("button", name="Clear result").click()
    full.page.wait_for_timeout(200)
    assert not close_to(full.colors(1, *place(first)), YELLOW) and not close_to(full.colors(1, *place(second)), CYAN)


def yellow_rows(viewer, track, time, reach=1):
    """Heights at which the overlay is yellow around a time, from the track's upper edge."""
    viewer.show(track)
    box, plot = viewer.label(track).bounding_box(), viewer.plot()
    rows = viewer.page.evaluate(
        """([x, y, w, h]) => {
            const canvas = document.querySelectorAll(".plot canvas")[1];
            const ratio = canvas.width / canvas.clientWidth;
            const [left, top, wide, tall] = [x, y, w, h].map((v) => Math.round(v * ratio));
            const data = canvas.getContext("2d").getImageData(left, top, wide, tall).data;
            const rows = new Set();
            for (let i = 0; i < data.length; i += 4)
                if (data[i + 3] > 200 && data[i] > 180 && data[i + 1] > 140 && data[i + 2] < 60) rows.add(Math.floor(i / 4 / wide / ratio));
            return [...rows];
        }""",
        [viewer.x(time) - plot["x"] - reach, box["y"] - plot["y"], 2 * reach + 1, box["height"]],
    )
    return sorted(rows), box["height"]


def test_dense_matches_are_strips_and_single_ones_stay_apart(full, tables):
    track = "instruction:TensorMatrix(nc0)"
    full.open("attention")
    widget = search(full, "instruction", "opcode", "exact", "MATMUL")
    full.page.wait_for_timeout(400)
    dense = """select timeline_track, start_ts // 2000 * 2000 + 1000 as middle, count(*) n from Instruction where opcode = 'MATMUL' and pcore_idx = 0
               group by 1, 2 order by n desc limit 1"""
    place = tables("attention", dense)[0]
    rows, height = yellow_rows(full, track, place["middle"])
    assert rows and any(row < 3 for row in rows), "an edge above"
    assert not any(0.25 * height < row < 0.45 * height for row in rows), "what is marked stays in sight between the edges"
    assert max(rows) - min(row for row in rows if row > 0.4 * height) >= 4, "the lower edge stands for many"
    widget.get_by_role("button", name="Focus").click()
    full.page.wait_for_timeout(300)
    full.page.keyboard.press("0")
    full.settle()
    first = tables("attention", "select start_ts s from Instruction where opcode = 'MATMUL' order by start_ts, id limit 1")[0]
    assert close_to(full.colors(1, track, first["s"], 5), CYAN)
    widget.get_by_role("button", name="Clear result").click()
    search(full, "instruction", "opcode", "exact", "HALT")
    full.page.wait_for_timeout(400)
    halt = tables("attention", "select timeline_track t, start_ts s from Instruction where opcode = 'HALT' and engine = 'Sync' order by start_ts limit 1")[0]
    rows, height = yellow_rows(full, f"instruction:{halt['t']}", halt["s"], 3)
    assert len(rows) > 0.8 * height, "a border around a match that stands alone"


def test_focus_brings_a_match_into_view(full, tables):
    last = tables("attention", "select * from Instruction where opcode = 'HALT' order by start_ts, id limit 1")[0]
    full.open("attention", **{"from": 1000, "to": 9000})
    widget = search(full, "instruction", "opcode", "exact", "HALT")
    widget.get_by_role("button", name="Focus").click()
    full.page.wait_for_timeout(300)
    full.settle()
    low, high = full.range()
    assert low <= last["start_ts"] and last["end_ts"] <= high


def test_details_page_through_matches_beyond_a_page(full):
    full.open("attention")
    search(full, "instruction", "opcode", "exact", "MATMUL")
    details = full.widget("Event Details")
    for _ in range(21):
        details.get_by_role("button", name="Next ›").click()
        full.page.wait_for_timeout(60)
    full.page.wait_for_timeout(300)
    assert "Match 22 of" in details.inner_text()


def test_search_takes_sql_and_html_as_text(full):
    full.open("attention")
    for value in ("' OR 1=1 --", "<img src=x onerror=alert(1)>", "%", "\\"):
        widget = search(full, "instruction", "opcode", "partial", value)
        assert "Nothing matches" in widget.inner_text()


# --- annotations


def annotate(viewer, *times):
    plot = viewer.plot()
    for time in times:
        viewer.page.mouse.click(viewer.x(time), plot["y"] + plot["height"] - 60, button="right")


def test_annotations_are_set_renamed_compared_and_deleted(full):
    full.open("attention", **{"from": 480000, "to": 620000})
    annotate(full, 500000, 560000)
    widget = full.add_widget("Annotations")
    rows = widget.locator("table.results tbody tr")
    assert rows.count() == 2
    widget.get_by_label("Name", exact=True).nth(1).fill("after <b>")
    first, second = [digits(text) for text in widget.locator("td.number button").all_inner_texts()]
    assert first == pytest.approx(500000, abs=200) and second == pytest.approx(560000, abs=200)
    assert "60" in rows.nth(1).locator("td").nth(4).inner_text()
    assert widget.locator("option").count() == 2  # each names the others only when it is looked at
    widget.get_by_label("Diff vs of Mark 1").focus()
    widget.get_by_label("Diff vs of Mark 1").select_option("after <b>")
    assert rows.nth(0).locator("td").nth(4).inner_text().startswith("-60")
    widget.get_by_label("Zoom to the region of after <b>").check()
    full.settle()
    low, high = full.range()
    assert low < first < second < high and (high - low) < 1.1 * (second - first)
    assert widget.get_by_text("Between Mark 1 and after <b>").is_visible()
    widget.locator("table.fields").first.wait_for()
    full.page.reload()
    full.settle()
    assert rows.count() == 2
    widget.get_by_label("Delete Mark 1").click()
    assert rows.count() == 1


def test_an_annotation_snaps_to_the_closest_event_and_can_be_dragged(full, tables):
    event = matmul(tables)
    full.open("attention", **around(event))
    y = full.y("instruction:TensorMatrix(nc0)")
    full.page.mouse.click(full.x(event["start_ts"]) + 4, y, button="right")
    widget = full.add_widget("Annotations")
    time = lambda: digits(widget.locator("td.number button").first.inner_text())
    assert time() == event["start_ts"]
    y = full.y("instruction:TensorMatrix(nc0)")
    full.page.mouse.move(full.x(event["start_ts"]), y)
    full.page.mouse.down()
    full.page.mouse.move(full.x(event["end_ts"]) - 5, y, steps=5)
    full.page.mouse.up()
    assert time() == event["end_ts"]


def test_annotations_are_saved_loaded_and_exported(full, tmp_path):
    full.open("attention", **{"from": 480000, "to": 620000})
    annotate(full, 500000, 560000)
    widget = full.add_widget("Annotations")
    with full.page.expect_download() as download:
        widget.get_by_role("button", name="Save").click()
    saved = tmp_path / "marks.json"
    download.value.save_as(saved)
    assert len(json.loads(saved.read_text())["annotations"]) == 2
    with full.page.expect_download() as download:
        widget.get_by_role("button", name="Export CSV").click()
    download.value.save_as(tmp_path / "marks.csv")
    assert (tmp_path / "marks.csv").read_text().splitlines()[0] == "name,ts_ns,diff_vs,diff_ns"
    widget.get_by_label("Delete Mark 1").click()
    asked = []
    full.page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.accept() if len(asked) > 1 else dialog.dismiss()))
    for rows in (1, 2):
        widget.get_by_label("File of annotations").set_input_files(saved)
        full.page.wait_for_timeout(200)
        assert widget.locator("table.results tbody tr").count() == rows
    assert asked == ["Replace 1 annotations by 2?"] * 2
    saved.write_text(saved.read_text().replace('"attention"', '"another"'))
    widget.get_by_label("File of annotations").set_input_files(saved)
    full.page.wait_for_timeout(200)
    assert "another profile, another" in asked[2]


# --- summaries and the box


def test_the_selection_summary_follows_the_zoom(full, tables):
    full.open("attention")
    widget = full.widget("Current Selection Summary")
    widget.locator("table.fields").first.wait_for()
    before = widget.inner_text()
    box = full.plot()
    full.page.mouse.move(box["x"] + 500, box["y"] + 200)
    for _ in range(5):
        full.page.mouse.wheel(0, -300)
    full.settle()
    full.page.wait_for_function("(before) => document.querySelector('[data-widget=selection]').innerText !== before && !document.querySelector('.stale')", arg=before)
    assert widget.inner_text() != before


def test_the_overall_summary_has_categories_that_fold(full, tables):
    full.open("attention")
    widget = full.add_widget("Overall Summary")
    widget.locator(".summary-section").first.wait_for()
    sections = widget.locator(".summary-section").evaluate_all("list => list.map(e => e.getAttribute('aria-label'))")
    assert sections[:4] == ["Overview", "Compute", "NeuronCore engines", "Tensor engine"]
    order = [sections.index(title) for title in ("Vector engine", "Sync engine", "Memory", "DMA", "Waits by cause", "Throttling and errors", "Operators with the most time")]
    assert order == sorted(order)
    tensor = widget.get_by_role("region", name="Tensor engine")
    assert tensor.locator("table").count() == 0, "folded at first"
    tensor.get_by_role("button").click()
    counted = tables("attention", "select pcore_idx, count(*) n from Instruction where engine = 'Tensor' group by 1 order by 1")
    rows = tensor.locator("table").first.locator("tbody tr")
    column = tensor.locator("table").first.locator("th").evaluate_all("list => list.findIndex(e => e.title === 'instructions')")
    assert [digits(rows.nth(i).locator("td").nth(column).inner_text()) for i in range(rows.count())] == [row["n"] for row in counted]
    dma = widget.get_by_role("region", name="DMA", exact=True)
    packets = tables("attention", "select count(*) n from DmaPacket")[0]["n"]
    assert digits(dma.locator("tr", has=full.page.locator('th[title="packets"]')).locator("td").inner_text()) == packets
    throttle = tables("attention", "select sum(duration) d from Throttle")[0]["d"]
    assert throttle and "throttled" in widget.get_by_role("region", name="Throttling and errors").locator(".headline").inner_text()
    full.page.reload()
    full.settle()
    again = full.widget("Overall Summary").get_by_role("region", name="Tensor engine")
    again.locator("table").first.wait_for()
    assert full.widget("Current Selection Summary").get_by_role("region", name="Tensor engine").locator("table").count() > 0, "folds hold for all summaries"


def test_box_selection_by_button_and_drag_and_escape(full):
    full.open("attention", **{"from": 100000, "to": 500000})
    widget = full.widget("Box Selection Summary")
    assert widget.count() == 0, "it comes with the first box"
    full.page.locator(".timeline").get_by_role("button", name="Box selection").click()
    start, end = full.y("instruction:Vector(nc0)"), full.y("instruction:GpSimd(nc0)")
    full.page.mouse.move(full.x(200000), start)
    full.page.mouse.down()
    full.page.mouse.move(full.x(300000), end, steps=5)
    full.page.mouse.up()
    widget.locator("table.fields").first.wait_for()
    text = widget.inner_text()
    assert "3 tracks" in text
    low, high = [digits(part) for part in text.split("(")[0].split("–")[:2]]
    assert high - low == pytest.approx(100000, rel=0.02)
    full.page.keyboard.press("Escape")
    assert "Esc clears it" in widget.inner_text()


def test_regions_are_listed_and_lead_to_the_timeline(viewer, tables):
    region = tables("attention", "select min(start_ts) s from Instruction where nki_region_path = 'attend/softmax'")[0]
    viewer.open("attention", **{"from": 1000, "to": 9000})
    widget = viewer.add_widget("Region Highlighter")
    widget.get_by_role("button", name="attend/softmax", exact=True).first.click()
    viewer.settle()
    low, high = viewer.range()
    assert low <= region["s"] <= high
    assert viewer.page.locator(".lane-name", has_text="NKI regions").count() == 1


def test_regions_and_instances_are_compared(full, tables):
    full.open("attention")
    widget = full.add_widget("Region Highlighter")
    widget.get_by_role("button", name="Unfold attend nc0", exact=True).click()
    for name in ("attend #2 nc0", "attend #3 nc0"):
        widget.get_by_role("checkbox", name=f"Compare {name}", exact=True).check()
    compared = widget.get_by_role("region", name="Comparison of regions")
    # The region's first instruction on each engine begins an instance; the simulator's heads of attention are such loops.
    sql = """with r as (select *, least(end_ts, start_ts + coalesce(evt_wait_time_ns, 0)) b, min(pc) over (partition by engine) head
             from Instruction where pcore_idx = 0 and (nki_region_path = 'attend' or starts_with(nki_region_path, 'attend/'))),
             n as (select *, sum((pc = head)::int) over (partition by engine order by start_ts, id) k from r)
             select k, max(end_ts) - min(b) d, sum(b - start_ts)::bigint w, count(*) c from n where k in (2, 3) group by k order by k"""
    second, third = tables("attention", sql)
    cells = lambda figure: compared.locator(f'tr[data-figure="{figure}"] td').all_inner_texts()
    assert digits(cells("instructions")[0]) == second["c"] and digits(cells("instructions")[1].split("\n")[0]) == third["c"]
    share = 100 * (third["d"] - second["d"]) / second["d"]
    assert f"{abs(round(share * 10) / 10):g} %" in cells("duration_ns")[1]
    compared.get_by_label("Base").select_option(index=1)
    back = 100 * (second["d"] - third["d"]) / third["d"]
    assert f"{abs(round(back * 10) / 10):g} %" in cells("duration_ns")[0]
    widget.get_by_role("checkbox", name="Compare attend/softmax nc1", exact=True).check()
    assert "mean of" in compared.locator("thead").inner_text() and compared.locator("thead th").count() == 4
    compared.get_by_role("button", name="Clear").click()
    assert compared.count() == 0


# --- the grid


def test_widgets_are_added_removed_dragged_and_resized(viewer):
    viewer.open("attention")
    page = viewer.page
    widget = viewer.add_widget("Overall Summary")
    assert widget.is_visible()
    before = viewer.widget("Event Details").bounding_box()
    head = viewer.widget("Event Details").locator(".widget-head").bounding_box()
    page.mouse.move(head["x"] + 60, head["y"] + 8)
    page.mouse.down()
    page.mouse.move(head["x"] + 60 - 520, head["y"] + 8, steps=8)
    page.mouse.up()
    after = viewer.widget("Event Details").bounding_box()
    assert after["x"] < before["x"] - 300
    corner = viewer.widget("Search").locator(".widget-corner")
    corner.scroll_into_view_if_needed()
    size = viewer.widget("Search").bounding_box()
    place = corner.bounding_box()
    page.mouse.move(place["x"] + 6, place["y"] + 6)
    page.mouse.down()
    page.mouse.move(place["x"] + 6, place["y"] + 6 + 84, steps=6)
    page.mouse.up()
    assert viewer.widget("Search").bounding_box()["height"] == pytest.approx(size["height"] + 84, abs=15)
    viewer.page.get_by_role("button", name="Remove Search").click()
    assert viewer.widget("Search").count() == 0


def test_layouts_are_saved_and_used_for_other_profiles(viewer):
    viewer.open("attention")
    viewer.page.get_by_role("button", name="Remove Search").click()
    viewer.page.on("dialog", lambda dialog: dialog.accept("Mine"))
    viewer.page.get_by_role("button", name="Layout:").click()
    viewer.page.get_by_role("menuitem", name="Save as").click()
    viewer.page.get_by_role("button", name="Layout: Mine").click()
    viewer.page.get_by_role("menuitem", name="Device trace").click()
    assert viewer.widget("Search").count() == 1
    viewer.open("reduce")
    viewer.page.get_by_role("button", name="Layout:").click()
    viewer.page.get_by_role("menuitem", name="Mine").click()
    assert viewer.widget("Search").count() == 0


def test_a_link_restores_range_selection_and_layout(viewer, context, tables):
    event = matmul(tables)
    viewer.open("attention", **around(event), dma="aggregated")
    viewer.click("instruction:TensorMatrix(nc0)", (event["start_ts"] + event["end_ts"]) / 2)
    viewer.page.wait_for_function("() => location.href.includes('event=')")
    link = viewer.page.url
    other = context.new_page()
    other.goto(link)
    other.wait_for_selector(".details table.fields")
    assert other.locator(".label-text", has_text="qSyncIO0(nc0)").count() == 1
    ends = other.eval_on_selector(".timeline", "e => [Number(e.dataset.from), Number(e.dataset.to)]")
    assert ends == pytest.approx(list(viewer.range()), abs=2)
    assert other.url == link
    other.close()


def test_back_returns_to_where_one_jumped_from(viewer, tables):
    event = matmul(tables)
    viewer.open("attention", **around(event), event=f"Instruction:{event['id']}")
    viewer.page.wait_for_selector(".details table.fields")
    is_at = ("([low, high]) => { const { from, to } = document.querySelector('.timeline').dataset; "
             "return Math.abs(from - low) <= 2 && Math.abs(to - high) <= 2; }")
    first = viewer.range()
    viewer.page.get_by_role("button", name="Fit").click()
    viewer.settle()
    viewer.page.get_by_label("Zoom in").click()  # belongs to the place that was jumped to
    viewer.settle()
    second = viewer.range()
    assert second[1] - second[0] > 5 * (first[1] - first[0])
    viewer.page.wait_for_timeout(900)  # the address follows when the view rests
    viewer.page.go_back()
    viewer.page.wait_for_function(is_at, arg=list(first))
    assert f"event=Instruction:{event['id']}" in viewer.page.url
    viewer.page.go_forward()
    viewer.page.wait_for_function(is_at, arg=list(second))


def test_steps_back_while_a_profile_opens(viewer, tables):
    event = matmul(tables)
    viewer.open("attention", **around(event))
    first = viewer.range()
    viewer.page.get_by_role("button", name="Fit").click()
    viewer.settle()
    viewer.page.evaluate("() => { location.hash = '#/profile/reduce'; }")
    viewer.page.get_by_role("heading", name="reduce").wait_for()
    viewer.settle()
    viewer.page.wait_for_timeout(900)
    viewer.page.evaluate("async () => { history.back(); await new Promise(done => setTimeout(done, 15)); history.back(); }")
    viewer.page.get_by_role("heading", name="attention").wait_for()
    viewer.settle()
    viewer.page.wait_for_timeout(1000)
    assert viewer.range() == pytest.approx(first, abs=2)
    assert f"from={int(first[0])}" in viewer.page.url


def test_what_the_pipeline_warned_of_is_told(viewer, tables):
    told = tables("lossy", "select category, message from Warning")
    assert len(told) > 0
    viewer.open("lossy")
    viewer.page.get_by_role("button", name=f"{len(told)} warning").click()
    shown = viewer.page.locator(".missing li").all_inner_texts()
    assert sorted(shown) == sorted(f"{row['category']} {row['message']}" for row in told)


def test_dark_and_light(viewer):
    viewer.open("attention")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = viewer.page.evaluate(ground)
    viewer.page.get_by_label("Change to dark mode").click()
    dark = viewer.page.evaluate(ground)
    assert light != dark
    viewer.page.reload()
    viewer.settle()
    assert viewer.page.evaluate(ground) == dark


def test_the_list_of_profiles_leads_to_one(viewer):
    viewer.page.goto(viewer.base)
    viewer.page.get_by_role("link", name="attention", exact=True).click()
    viewer.page.wait_for_selector(".timeline")
    assert "attention" in viewer.page.title()
