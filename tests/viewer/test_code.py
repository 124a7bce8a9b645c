"""The Code Viewer: text, decorations, and links both ways between lines and events."""

import re

from driver import close_to

ACCENT = "#2f6fb3"
FILE = "/opt/model/attention.py"


def digits(text):
    return int(re.sub(r"[^0-9]", "", text))


def code(viewer, file=FILE):
    widget = viewer.add_widget("Code Viewer")
    widget.locator(".code-line").first.wait_for()
    if file:
        widget.get_by_label("File").select_option(file)
        widget.page.wait_for_timeout(500)
    return widget


def line(widget, number):
    return widget.locator(f'.code-line[data-line="{number}"]')


def reach(widget, number):
    """Only lines in sight are drawn."""
    widget.scroll_into_view_if_needed()
    widget.locator(".code-lines").evaluate("(e, top) => { e.scrollTop = top; }", (number - 5) * 18)
    line(widget, number).wait_for()
    return line(widget, number)


def event_of(tables, number, engine="Vector"):
    sql = f"select * from Instruction where bir_debug_info_source_location = '{FILE}:{number}' order by engine = '{engine}' desc, start_ts, id limit 1"
    return tables("attention", sql)[0]


def lit(viewer, event, wanted=True):
    """Waits until it is so: the marks come when the server has found them."""
    viewer.page.evaluate("scrollTo(0, 0)")
    place = (f"instruction:{event['timeline_track']}", (event["start_ts"] + event["end_ts"]) / 2, 40)
    for _ in range(50):
        if close_to(viewer.colors(1, *place), ACCENT) == wanted:
            return True
        viewer.page.wait_for_timeout(150)
    return False


def test_lines_are_text_with_their_figures(with_source, tables):
    viewer = with_source
    viewer.open("attention")
    widget = code(viewer)
    assert "<b>9</b>" in reach(widget, 9).inner_text()
    counted = tables(
        "attention",
        f"select split_part(bir_debug_info_source_location, ':', 2)::int line, count(*) n from Instruction where starts_with(bir_debug_info_source_location, '{FILE}:') group by 1",
    )
    widget.get_by_label("Decoration").select_option("instructions")
    for entry in counted:
        assert digits(reach(widget, entry["line"]).locator(".code-value").inner_text()) >= entry["n"]
    assert reach(widget, 9).locator(".code-value").count() == 0


def test_lines_highlight_their_events(with_source, tables):
    viewer = with_source
    first, second = event_of(tables, 31), event_of(tables, 32)
    viewer.open("attention", **{"from": min(first["start_ts"], second["start_ts"]) - 500, "to": max(first["end_ts"], second["end_ts"]) + 500})
    widget = code(viewer)
    reach(widget, 31).click()
    assert lit(viewer, first)
    reach(widget, 31)
    line(widget, 33).click(modifiers=["Shift"])
    assert widget.get_by_text("3 lines").is_visible()
    assert lit(viewer, first) and lit(viewer, second)
    widget.get_by_role("button", name="Clear", exact=True).click()
    assert lit(viewer, first, False)


def test_an_event_marks_its_line_and_ctrl_click_scrolls_to_it(with_source, tables):
    viewer = with_source
    sql = "select * from Instruction where starts_with(nki_source_location, '/opt/model/attention_nki.py:') order by start_ts, id limit 1"
    event = tables("attention", sql)[0]
    number = int(event["nki_source_location"].split(":")[1])
    around = {"from": event["start_ts"] - 300, "to": event["end_ts"] + 300}
    middle = (event["start_ts"] + event["end_ts"]) / 2
    viewer.open("attention", **around)
    widget = code(viewer, "/opt/model/attention_nki.py")
    viewer.page.evaluate("scrollTo(0, 0)")
    viewer.click(f"instruction:{event['timeline_track']}", middle)
    viewer.page.wait_for_timeout(700)
    assert line(widget, number).count() == 0 or "selected" in line(widget, number).get_attribute("class")
    viewer.page.evaluate("scrollTo(0, 0)")
    viewer.page.keyboard.down("Control")
    viewer.click(f"instruction:{event['timeline_track']}", middle)
    viewer.page.keyboard.up("Control")
    viewer.page.wait_for_timeout(700)
    assert "selected" in line(widget, number).get_attribute("class")
    pane, place = widget.locator(".code-lines").bounding_box(), line(widget, number).bounding_box()
    assert pane["y"] <= place["y"] <= pane["y"] + pane["height"] - 10, "the line is scrolled into sight"


def test_ctrl_click_opens_the_code_viewer_where_there_is_none(with_source, tables):
    viewer = with_source
    event = event_of(tables, 20)
    viewer.open("attention", **{"from": event["start_ts"] - 300, "to": event["end_ts"] + 300})
    viewer.page.keyboard.down("Control")
    viewer.click(f"instruction:{event['timeline_track']}", (event["start_ts"] + event["end_ts"]) / 2)
    viewer.page.keyboard.up("Control")
    widget = viewer.widget("Code Viewer")
    widget.locator(".code-line.selected").first.wait_for()
    assert widget.locator(".code-line.selected").get_attribute("data-line") == "20"


def test_a_source_line_in_the_details_opens_the_code_viewer_at_it(with_source, tables):
    viewer = with_source
    event = event_of(tables, 31)
    viewer.open("attention", **{"from": event["start_ts"] - 300, "to": event["end_ts"] + 300}, event=f"Instruction:{event['id']}")
    entry = viewer.widget("Event Details").locator(".sources li", has_text=f"{FILE}:31").first
    entry.get_by_role("button").click()
    widget = viewer.widget("Code Viewer")
    widget.locator('.code-line.chosen[data-line="31"]').wait_for()
    pane, place = widget.locator(".code-lines").bounding_box(), line(widget, 31).bounding_box()
    assert pane["y"] <= place["y"] <= pane["y"] + pane["height"] - 10, "the line is scrolled into sight"
    assert "lit" in entry.get_attribute("class") and lit(viewer, event)
    reach(widget, 9).click()
    viewer.page.wait_for_function("() => !document.querySelector('.sources li.lit')")
    reach(widget, 31).click()
    viewer.page.locator(".sources li.lit").first.wait_for()
