"""The timeline: tracks, settings, zoom and pan, arranging, hover card, bands, absent tracks."""

import re

import pytest
from playwright.sync_api import expect

from driver import close_to

DMA_NAMES = ["Non-aggregated and group by engine", "Non-aggregated", "Aggregated"]


def matmul(tables, core=0):
    sql = """select * from Instruction where opcode = 'MATMUL' and pcore_idx = ? and symbolic_operands is not null
             order by start_ts limit 1 offset 40"""
    return tables("attention", sql, core)[0]


def around(event, share=12):
    length = max((event["end_ts"] - event["start_ts"]) * share, 400)
    middle = (event["start_ts"] + event["end_ts"]) // 2
    return {"from": middle - length, "to": middle + length}


def test_engine_tracks_have_the_names_of_the_seed(viewer):
    viewer.open("attention")
    shown = viewer.labels()
    for core in ("nc0", "nc1"):
        for engine in ("Tensor", "TensorMatrix", "Vector", "Scalar", "GpSimd", "Sync"):
            assert f"{engine}({core})" in shown
    viewer.open("reduce")
    assert {"Tensor", "TensorMatrix", "Vector", "Scalar", "GpSimd", "Sync"} <= set(viewer.labels())


def test_series_tracks_have_the_names_of_the_seed(viewer):
    viewer.open("attention")
    shown = {label.split("(nc")[0] for label in viewer.labels()}
    for name in ("MFU", "HFU"):
        assert {f"Estimated Instant {name}", f"Estimated Cumulative {name}"} <= shown
    for name in ("DMA Throughput", "HBM Throughput", "Host-Device DMA Throughput"):
        assert {name, f"Cumulative {name}"} <= shown
    assert {"SBUF in use", "PSUM in use", "Pending DMA"} <= shown


def settings(viewer):
    viewer.page.get_by_role("button", name="Settings").click()
    return viewer.page.get_by_role("dialog", name="Device Timeline settings")


def test_sequencer_and_compute_are_separated_by_the_switch(viewer, tables):
    viewer.open("attention")
    dialog = settings(viewer)
    dialog.get_by_label("Separate Sequencer and Compute Engine Timelines").check()
    viewer.page.keyboard.press("Escape")
    viewer.settle()
    shown = viewer.labels()
    assert "Vector(nc0)" not in shown and "TensorMatrix(nc0)" in shown
    assert {"Vector Sequencer(nc0)", "Vector Compute(nc0)", "Tensor Sequencer(nc0)", "Tensor Compute(nc0)"} <= set(shown)
    row = tables("attention", "select * from Instruction where engine = 'Vector' and executed_by = 'sequencer' and opcode = 'WRITE' and pcore_idx = 0 order by id limit 1")
    if row:
        viewer.open("attention", **around(row[0]), split=1)
        viewer.hover(viewer.id_of("Vector Sequencer(nc0)"), row[0]["end_ts"] - 1)
        assert "WRITE" in viewer.card()


def test_dma_aggregation_has_three_modes(viewer, tables):
    viewer.open("attention")
    assert "DMA-E0(nc1)" in viewer.labels()
    for i, (name, label) in enumerate(zip(DMA_NAMES, ("DMA-E0(nc1)", "DMA-E0 qSyncIO0(nc1)", "qSyncIO0(nc1)"))):
        dialog = settings(viewer)
        choice = dialog.get_by_role("radio").nth(i)
        assert dialog.locator("label.switch").nth(i).inner_text().startswith(name)
        choice.check()
        viewer.page.keyboard.press("Escape")
        viewer.settle()
        shown = viewer.labels()
        assert label in shown
        assert ("qSyncIO0(nc1)" in shown) == (name == "Aggregated")
    transfer = tables("attention", "select * from DmaPacketAggregated where queue_name = 'qSyncIO0' and pcore_idx = 1 order by id limit 1")[0]
    viewer.open("attention", **around(transfer, 3), dma="aggregated")
    viewer.hover("dma_transfer:qSyncIO0(nc1)", (transfer["start_ts"] + transfer["end_ts"]) / 2)
    assert "qSyncIO0" in viewer.card()


def test_wheel_zooms_where_the_pointer_is(viewer):
    viewer.open("attention")
    box = viewer.plot()
    at = box["x"] + box["width"] * 0.3
    viewer.page.mouse.move(at, box["y"] + 300)
    low, high = viewer.range()
    before = low + 0.3 * (high - low)
    for _ in range(4):
        viewer.page.mouse.wheel(0, -240)
        viewer.page.wait_for_timeout(40)
    viewer.settle()
    low, high = viewer.range()
    assert high - low < 0.4e6
    assert low + 0.3 * (high - low) == pytest.approx(before, abs=(high - low) / 400)


def test_shift_wheel_and_axis_drag_pan(viewer):
    viewer.open("attention", **{"from": 400000, "to": 600000})
    box = viewer.plot()
    viewer.page.mouse.move(box["x"] + 500, box["y"] + 300)
    viewer.page.keyboard.down("Shift")
    viewer.page.mouse.wheel(0, 300)
    viewer.page.keyboard.up("Shift")
    viewer.settle()
    low, high = viewer.range()
    assert low > 410000 and high - low == pytest.approx(200000, rel=1e-6)
    viewer.page.mouse.move(box["x"] + 800, box["y"] + 10)
    viewer.page.mouse.down()
    viewer.page.mouse.move(box["x"] + 400, box["y"] + 10, steps=4)
    viewer.page.mouse.up()
    viewer.settle()
    assert viewer.range()[0] == pytest.approx(low + 400 / box["width"] * 200000, rel=1e-3)


@pytest.mark.parametrize("right,left", [("d", "a"), ("ArrowRight", "ArrowLeft")])
def test_keys_pan_by_steps_that_fit_the_zoom(viewer, right, left):
    steps = []
    for low, high in ((400000, 600000), (500000, 510000)):
        viewer.open("attention", **{"from": low, "to": high})
        viewer.page.locator("canvas.pointer").focus()
        viewer.page.keyboard.press(right)
        viewer.settle()
        moved = viewer.range()[0] - low
        assert moved > 0
        steps.append(moved / (high - low))
        viewer.page.keyboard.press(left)
        viewer.settle()
        assert viewer.range()[0] == pytest.approx(low, abs=1)
    assert steps[0] == pytest.approx(steps[1], rel=1e-3)


def test_keys_zoom(viewer):
    viewer.open("attention", **{"from": 400000, "to": 600000})
    viewer.page.locator("canvas.pointer").focus()
    viewer.page.keyboard.press("w")
    viewer.settle()
    low, high = viewer.range()
    assert high - low < 200000 and (low + high) / 2 == pytest.approx(500000, abs=2)
    viewer.page.keyboard.press("s")
    viewer.settle()
    low, high = viewer.range()
    assert high - low == pytest.approx(200000, rel=1e-3)


def test_hover_shows_what_the_tables_hold(viewer, tables):
    event = matmul(tables)
    viewer.open("attention", **around(event))
    viewer.hover("instruction:TensorMatrix(nc0)", (event["start_ts"] + event["end_ts"]) / 2)
    viewer.page.wait_for_selector("text=Symbolic Operands")
    card = viewer.card().replace("\u2009", "")
    assert card.startswith("MATMUL")
    assert f"{event['start_ts']} ns" in card and f"{event['end_ts']} ns" in card
    assert event["operands"] in card and event["symbolic_operands"] in card
    assert " › ".join(event["operator"].split("/")) in card
    border = viewer.page.locator(".pointer-border").bounding_box()
    for time, side in ((event["start_ts"], border["x"]), (event["end_ts"], border["x"] + border["width"])):
        assert abs(viewer.x(time) - side) < 4
    viewer.page.mouse.move(0, 0)
    expect(viewer.page.locator(".pointer-border")).to_be_hidden()


def test_no_event_vanishes_when_zoomed_out(viewer, tables):
    """The shortest instruction that stands alone is still drawn when the whole profile is on the screen."""
    sql = """select * from (select *, lag(end_ts) over w ended, lead(start_ts) over w follows from Instruction
             where engine = 'Sync' and pcore_idx = 0 window w as (order by start_ts))
             where opcode = 'DMA_DIRECT2D' and start_ts > 0 order by duration_ns limit 1"""
    event = tables("attention", sql)[0]
    viewer.open("attention")
    ground = viewer.colors(0, "instruction:Sync(nc0)", 580000)
    assert viewer.colors(0, "instruction:Sync(nc0)", event["start_ts"], 2) - ground


def test_the_same_operator_has_the_same_colour_everywhere(viewer, tables):
    sql = """select engine, timeline_track t, max_by(start_ts + coalesce(evt_wait_time_ns, 0), duration_ns - coalesce(evt_wait_time_ns, 0)) s,
             max_by(end_ts, duration_ns - coalesce(evt_wait_time_ns, 0)) e from Instruction
             where operator = 'attention/Layer[0]/Softmax/divide' and opcode <> 'EVENT_SEMAPHORE' group by all having e - s > 40"""
    found = tables("attention", sql)
    assert len({row["engine"] for row in found}) > 1
    shared = None
    for row in found:
        middle = (row["s"] + row["e"]) // 2
        viewer.open("attention", **{"from": middle - 300, "to": middle + 300})
        colors = viewer.colors(0, f"instruction:{row['t']}", middle, 0)
        shared = colors if shared is None else shared & colors
    assert any(max(color) - min(color) > 20 for color in shared), "a colour that is no grey, on every track"


def test_an_event_of_a_hidden_track_says_so_and_shows_it(viewer, tables):
    event = tables("attention", "select id from Instruction where engine = 'GpSimd' and pcore_idx = 0 order by start_ts limit 1")[0]
    viewer.open("attention", event=f"Instruction:{event['id']}")
    details = viewer.widget("Event Details")
    details.locator("table.fields").first.wait_for()
    assert details.locator(".track-hidden").count() == 0
    label = viewer.label("instruction:GpSimd(nc0)")
    label.hover()
    label.get_by_label("Hide GpSimd(nc0)").click()
    expect(details.locator(".track-hidden")).to_contain_text("Its track is hidden.")
    details.get_by_role("button", name="Show it").click()
    expect(details.locator(".track-hidden")).to_have_count(0)
    assert "GpSimd(nc0)" in viewer.labels()


def test_tracks_are_pinned_hidden_resized_and_moved_and_stay_so(viewer):
    viewer.open("attention")
    page = viewer.page
    label = viewer.label("instruction:Scalar(nc0)")
    label.hover()
    label.get_by_label("Pin Scalar(nc0)").click()
    assert page.locator(".pinned-labels .label-text").all_inner_texts() == ["Scalar(nc0)"]
    label = viewer.label("instruction:GpSimd(nc0)")
    label.hover()
    label.get_by_label("Hide GpSimd(nc0)").click()
    assert "GpSimd(nc0)" not in viewer.labels()
    edge = viewer.label("instruction:Vector(nc0)").bounding_box()
    page.mouse.move(edge["x"] + 60, edge["y"] + edge["height"] - 1)
    page.mouse.down()
    page.mouse.move(edge["x"] + 60, edge["y"] + edge["height"] + 39, steps=4)
    page.mouse.up()
    source = viewer.label("instruction:Sync(nc0)").bounding_box()
    target = viewer.label("instruction:Tensor(nc0)").bounding_box()
    page.mouse.move(source["x"] + 60, source["y"] + 8)
    page.mouse.down()
    page.mouse.move(target["x"] + 60, target["y"] + 8, steps=6)
    page.mouse.up()

    def check():
        shown = viewer.labels()
        assert shown.index("Sync(nc0)") < shown.index("Tensor(nc0)")
        assert "GpSimd(nc0)" not in shown and shown[0] == "Scalar(nc0)"
        assert viewer.label("instruction:Vector(nc0)").bounding_box()["height"] == pytest.approx(64, abs=2)

    check()
    page.locator("canvas.pointer").focus()
    for key in ("w", "w", "w", "d", "s"):
        page.keyboard.press(key)
        viewer.settle()
    check()
    page.reload()
    viewer.settle()
    check()
    page.get_by_role("button", name="Tracks").click()
    page.get_by_role("button", name="Back to the original order").click()
    page.keyboard.press("Escape")
    assert "GpSimd(nc0)" in viewer.labels()


def test_small_dma_band_is_amber_and_says_what_to_do(viewer, tables):
    warning = tables("lossy", "select * from TimelineWarning where kind = 'small_dma_transfers' order by start_ts limit 1")[0]
    viewer.open("lossy")
    name = viewer.page.locator(".lane-name", has_text="Small DMA transfers")
    box = name.bounding_box()
    x = viewer.x((warning["start_ts"] + warning["end_ts"]) / 2)
    viewer.page.mouse.move(x - 2, box["y"] + 7)
    viewer.page.mouse.move(x, box["y"] + 7)
    card = viewer.card().replace("\u2009", "")
    assert card.startswith("Small DMA transfers")
    assert warning["details"] in card
    assert f"{warning['start_ts']} ns – {warning['end_ts']} ns" in card
    assert "Duration" in card
    script = """([x, y]) => [...document.querySelector(".plot canvas").getContext("2d").getImageData(x, y, 1, 1).data]"""
    plot = viewer.plot()
    red, green, blue, _ = viewer.page.evaluate(script, [round(x - plot["x"]), round(box["y"] + 7 - plot["y"])])
    assert red > blue + 40 and green > blue + 20, "amber"


def test_lost_records_are_marked_on_the_rings_own_track(viewer, tables):
    loss = tables("lossy", "select * from LossLedger where lost_records > 0 and ring like 'DMA-E1(%' limit 1")[0]
    viewer.open("lossy")
    inside = viewer.colors(0, "dma_engine:DMA-E1", (loss["first_ts"] + loss["last_ts"]) / 2, 12)
    assert any(red > green + 25 and red > blue + 25 for red, green, blue in inside), "hatched in red"


def test_a_track_without_trace_says_why(viewer, tables):
    viewer.open("lossy")
    absent = viewer.page.locator(".label.absent", has_text="Host-device DMA")
    assert absent.count() >= 1
    assert "odd core" in absent.first.get_attribute("title")


def test_help_has_the_dependency_legend(viewer):
    viewer.open("attention")
    viewer.page.get_by_role("button", name="Help").click()
    dialog = viewer.page.get_by_role("dialog", name="Device Timeline Help")
    text = dialog.inner_text()
    for name in ("Same PSUM Bank", "Flow", "Anti", "Output", "DMA transfer", "Started the transfer"):
        assert name in text
    brown = dialog.locator("tr", has_text="Same PSUM Bank").locator(".swatch").evaluate("e => getComputedStyle(e).backgroundColor")
    assert brown == "rgb(108, 36, 12)"


def test_a_colour_can_be_chosen(viewer, tables):
    event = matmul(tables)
    viewer.open("attention", **around(event))
    viewer.page.get_by_role("button", name="Colours").click()
    viewer.page.get_by_label(f"Colour of {event['operator']}").fill("#ff00ff")
    viewer.page.keyboard.press("Escape")
    viewer.page.wait_for_timeout(200)
    middle = (event["start_ts"] + event["end_ts"]) / 2
    assert close_to(viewer.colors(0, "instruction:TensorMatrix(nc0)", middle), "#ff00ff", 2)


def test_names_that_are_html_are_only_text(viewer, tables):
    event = tables("hostile", "select * from Instruction where opcode = 'MATMUL' and pcore_idx = 0 order by start_ts limit 1 offset 5")[0]
    viewer.open("hostile", **around(event))
    viewer.hover("instruction:TensorMatrix(nc0)", (event["start_ts"] + event["end_ts"]) / 2)
    viewer.page.wait_for_selector("text=Symbolic Operands")
    assert "<img src=x" in viewer.card()
    viewer.click("instruction:TensorMatrix(nc0)", (event["start_ts"] + event["end_ts"]) / 2)
    viewer.page.wait_for_selector(".details table.fields")
    assert "<script>alert(1)</script>" in viewer.widget("Event Details").inner_text()
    assert "owned" not in viewer.page.title()
    assert viewer.page.locator(".details img, .hover-card img").count() == 0


def test_plots_show_the_values_of_the_tables(viewer, tables):
    sql = """select * from (select timestamp t, value v, lead(timestamp) over (order by timestamp) e from PendingDma where pcore_idx = 0)
             where e - t between 40 and 4000 and v > 0 order by t limit 1 offset 20"""
    sample = tables("attention", sql)[0]
    middle = (sample["t"] + sample["e"]) / 2
    length = (sample["e"] - sample["t"]) * 8
    viewer.open("attention", **{"from": int(middle - length), "to": int(middle + length)})
    viewer.hover(viewer.id_of("Pending DMA(nc0)"), middle)
    assert viewer.card().split("\n")[-1] == str(sample["v"])


def test_a_host_device_transfer_is_hovered(viewer, tables):
    transfer = tables("attention", "select * from HostDmaTransfer order by duration_ns desc, id limit 1")[0]
    viewer.open("attention", **around(transfer))
    viewer.hover(f"host_dma:Host-device DMA-E{transfer['engine_idx']}", (transfer["start_ts"] + transfer["end_ts"]) / 2)
    card = viewer.card().replace("\u2009", "")
    assert f"{transfer['start_ts']} ns – {transfer['end_ts']} ns" in card and "Bytes" in card


def test_a_collective_is_hovered(viewer, tables):
    op = tables("reduce", "select * from CcOp order by duration_ns desc, id limit 1")[0]
    viewer.open("reduce", **around(op))
    viewer.hover(f"collective:CC stream {op['stream_id']}", (op["start_ts"] + op["end_ts"]) / 2)
    assert viewer.card().startswith(op["operation"])


def test_keys_step_along_a_track(viewer, tables):
    event = matmul(tables)
    sql = "select id from Instruction where timeline_track = 'TensorMatrix(nc0)' and start_ts > ? order by start_ts limit 1"
    after = tables("attention", sql, event["start_ts"])[0]
    viewer.open("attention", **around(event), event=f"Instruction:{event['id']}")
    viewer.page.wait_for_selector(".details table.fields")
    viewer.page.locator("canvas.pointer").focus()
    viewer.page.keyboard.press("n")
    viewer.page.wait_for_function(f"() => location.href.includes('Instruction:{after['id']}')")


def test_the_hover_card_follows_what_moves_below_the_pointer(viewer, tables):
    event = matmul(tables)
    viewer.open("attention", **around(event))
    viewer.hover("instruction:TensorMatrix(nc0)", (event["start_ts"] + event["end_ts"]) / 2)
    assert viewer.card().startswith("MATMUL")
    viewer.page.evaluate("document.querySelector('.scroller').scrollTop += 400")
    viewer.page.wait_for_timeout(200)
    assert viewer.page.locator(".hover-card", has_text="TensorMatrix(nc0)").count() == 0


def pressed(viewer, key, event):
    """Presses a key; that event is selected then, in view, and told of."""
    viewer.page.keyboard.press(key)
    viewer.page.wait_for_function(f"() => /event=Instruction:{event['id']}(&|$)/.test(location.href)")
    told = viewer.page.get_by_role("status", name="Selected event")
    expect(told).to_contain_text(f"{event['opcode']} on {event['timeline_track']}, from")
    viewer.settle()
    low, high = viewer.range()
    assert low <= event["start_ts"] and event["end_ts"] <= high


def test_a_track_is_chosen_and_walked_by_keys(viewer, tables):
    order = "select * from Instruction where timeline_track = 'TensorMatrix(nc0)' order by start_ts {0}, id {0} limit 2"
    first, second = tables("attention", order.format("asc"))
    last, before = tables("attention", order.format("desc"))
    viewer.open("attention")
    page = viewer.page
    tensor, matrix = viewer.label("instruction:Tensor(nc0)"), viewer.label("instruction:TensorMatrix(nc0)")
    for _ in range(40):
        page.keyboard.press("Tab")
        if tensor.evaluate("e => e === document.activeElement"):
            break
    expect(tensor).to_be_focused()
    assert tensor.evaluate("e => getComputedStyle(e).outlineStyle") == "solid", "the focus is seen"
    page.keyboard.press("ArrowDown")
    expect(matrix).to_be_focused()
    count = tables("attention", "select count(*) n from Instruction where timeline_track = 'TensorMatrix(nc0)'")[0]["n"]
    assert re.sub(r"\D", "", matrix.get_attribute("aria-label").split(",")[1]) == str(count)
    pressed(viewer, "End", last)
    pressed(viewer, "p", before)
    pressed(viewer, "Home", first)
    pressed(viewer, "n", second)
    expect(matrix).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(tensor).to_be_focused()
    page.keyboard.press("ArrowDown")
    # One Tab stop for all tracks, behind it the chosen one's own buttons, then the plot.
    for _ in range(4):
        page.keyboard.press("Tab")
        if viewer.page.locator("canvas.pointer").evaluate("e => e === document.activeElement"):
            break
    expect(viewer.page.locator("canvas.pointer")).to_be_focused()
    pressed(viewer, "End", last)


def test_enter_on_a_track_selects_the_first_event_in_view(viewer, tables):
    viewer.open("attention", **{"from": 700000, "to": 720000})
    sql = "select * from Instruction where timeline_track = 'Scalar(nc1)' and start_ts >= 700000 order by start_ts, id limit 1"
    viewer.label("instruction:Scalar(nc1)").focus()
    pressed(viewer, "Enter", tables("attention", sql)[0])
