"""Event Details, dependencies on the timeline and in the tab, the chain of waits."""

import json

import pytest

from driver import close_to
from test_timeline import around, matmul

RED, BLUE, BROWN, GREEN = "#d84830", "#009cfc", "#6c240c", "#3cf09c"


def work(event):
    """A time at which the instruction works, behind its waiting."""
    start = event["start_ts"] + (event.get("evt_wait_time_ns") or 0)
    return (start + event["end_ts"]) / 2


def spanning(*events, share=0.25):
    low = min(event["start_ts"] for event in events)
    high = max(event["end_ts"] for event in events)
    length = max(high - low, 200)
    return {"from": int(low - share * length), "to": int(high + share * length)}


def test_details_hold_every_column(viewer, tables):
    event = matmul(tables)
    viewer.open("attention", **around(event))
    viewer.click("instruction:TensorMatrix(nc0)", work(event))
    viewer.page.wait_for_selector(".details table.fields")
    shown = viewer.page.locator(".details table.fields th").evaluate_all("list => list.map(e => e.title)")
    assert set(event) <= set(shown)
    text = viewer.widget("Event Details").inner_text()
    for name in ("operands", "symbolic_operands", "operator", "bir_id", "hlo_name"):
        assert str(event[name]) in text
    assert f"event=Instruction:{event['id']}" in viewer.page.wait_for_function("() => location.href.includes('event=') && location.href").json_value()


def test_details_step_along_the_track(viewer, tables):
    event = matmul(tables)
    after = tables("attention", "select id from Instruction where timeline_track = 'TensorMatrix(nc0)' and start_ts > ? order by start_ts limit 1", event["start_ts"])[0]
    viewer.open("attention", **around(event), event=f"Instruction:{event['id']}")
    viewer.page.get_by_role("button", name="After it").click()
    viewer.page.wait_for_function(f"() => location.href.includes('Instruction:{after['id']}')")


def test_a_link_without_an_event_selects_nothing(viewer, tables):
    """In the same tab, as by going back or by a link that somebody sent."""
    event = matmul(tables)
    viewer.open("attention", **around(event), event=f"Instruction:{event['id']}")
    viewer.page.wait_for_selector(".details table.fields")
    viewer.page.evaluate("([from, to]) => { location.hash = `#/profile/attention?from=${from}&to=${to}`; }",
                         [event["start_ts"] - 500, event["end_ts"] + 500])
    viewer.page.wait_for_selector(".details table.fields", state="detached")
    viewer.page.wait_for_timeout(1000)  # the page has written its own address by then
    assert "event=" not in viewer.page.url


def test_a_dma_event_highlights_its_starter_in_red(viewer, tables):
    sql = "select * from DmaPacket where pcore_idx = 0 and engine_idx = 0 and packet_aggregation_id >= 0 order by id limit 1"
    first = tables("attention", sql)[0]
    viewer.open("attention", **{"from": first["start_ts"] - 1500, "to": first["end_ts"] + 1500})
    viewer.click("dma_engine:DMA-E0(nc0)", (first["start_ts"] + first["end_ts"]) / 2)
    selected = viewer.page.wait_for_function("() => /event=DmaPacket:(\\d+)/.exec(location.href)?.[1]").json_value()
    sql = """select i.* from DmaPacket p join Flow f on f.out_id = p.packet_aggregation_id and f.out_table = 'dma_block'
             and f.dependency_type = 'DMA_TRIGGER' join Instruction i on i.id = f.in_id where p.id = ?"""
    starter = tables("attention", sql, int(selected))[0]
    viewer.page.wait_for_selector(".details table.fields")
    viewer.page.wait_for_timeout(400)
    assert close_to(viewer.colors(1, f"instruction:{starter['timeline_track']}", work(starter), 6), RED)


def test_the_dependents_of_a_transfer_are_coloured_by_kind(viewer, tables):
    sql = """select a.*, i.start_ts s, i.end_ts e, i.evt_wait_time_ns w, i.timeline_track t from DmaPacketAggregated a
             join Flow f on f.in_id = a.id and f.in_table = 'dma_block' and f.dependency_type = 'FLOW_DEPENDENCE'
             join Instruction i on i.id = f.out_id where a.pcore_idx = 0 order by i.end_ts - a.start_ts limit 1"""
    transfer = tables("attention", sql)[0]
    user = {"start_ts": transfer["s"], "end_ts": transfer["e"], "evt_wait_time_ns": transfer["w"]}
    ends = spanning(transfer, user)
    viewer.open("attention", **ends, dma="aggregated", event=f"DmaPacketAggregated:{transfer['id']}")
    viewer.page.wait_for_selector(".details table.fields")
    viewer.page.wait_for_timeout(400)
    assert close_to(viewer.colors(1, f"instruction:{transfer['t']}", work(user), 6), GREEN)


def test_an_instruction_highlights_its_transfers_in_blue(viewer, tables):
    sql = """select i.*, p.start_ts ps, p.end_ts pe from Instruction i
             join Flow f on f.in_id = i.id and f.in_table = 'instruction' and f.dependency_type = 'DMA_TRIGGER'
             join DmaPacket p on p.packet_aggregation_id = f.out_id and p.engine_idx = 0 and p.pcore_idx = 0
             where i.pcore_idx = 0 order by i.id limit 1"""
    event = tables("attention", sql)[0]
    packet = {"start_ts": event["ps"], "end_ts": event["pe"]}
    viewer.open("attention", **spanning(event, packet), event=f"Instruction:{event['id']}")
    viewer.page.wait_for_selector(".details table.fields")
    viewer.page.wait_for_timeout(400)
    assert close_to(viewer.colors(1, "dma_engine:DMA-E0(nc0)", (event["ps"] + event["pe"]) / 2, 12), BLUE)


@pytest.mark.parametrize("dma", ["engine", "queue", "aggregated"])
def test_transfers_are_where_the_server_says_also_among_many(full, tables, dma):
    sql = """select i.id, a.id transfer, a.queue_name q, p.start_ts s, p.end_ts e from Instruction i
             join Flow f on f.in_id = i.id and f.in_table = 'instruction' and f.dependency_type = 'DMA_TRIGGER'
             join DmaPacketAggregated a on a.id = f.out_id join DmaPacket p on p.packet_aggregation_id = a.id and p.engine_idx = 0
             where i.pcore_idx = 0 and p.pcore_idx = 0 order by i.id desc limit 1"""
    event = tables("attention", sql)[0]
    full.open("attention", dma=dma, event=f"Instruction:{event['id']}")
    full.page.wait_for_selector(".details table.fields")
    full.page.wait_for_timeout(400)
    track = {"engine": "dma_engine:DMA-E0(nc0)", "queue": f"dma_queue:DMA-E0 {event['q']}(nc0)", "aggregated": f"dma_transfer:{event['q']}(nc0)"}[dma]
    assert close_to(full.colors(1, track, (event["s"] + event["e"]) / 2, 3), BLUE), "the whole profile is seen, in buckets"


def test_a_dependency_is_shown_and_gone_to_on_split_tracks(full, tables):
    sql = """select f.out_id, b.id, b.start_ts, b.end_ts, b.evt_wait_time_ns, b.engine, a.start_ts s, a.end_ts e from Flow f join Instruction a on a.id = f.out_id
             join Instruction b on b.id = f.in_id where f.dependency_type = 'FLOW_DEPENDENCE' and f.in_table = 'instruction' and
             f.out_table = 'instruction' and b.executed_by <> 'sequencer' and b.engine = 'GpSimd' and b.pcore_idx = 1 order by 1 limit 1"""
    pair = tables("attention", sql)[0]
    full.open("attention", **spanning(pair, {"start_ts": pair["s"], "end_ts": pair["e"]}), split=1, event=f"Instruction:{pair['out_id']}")
    full.page.get_by_role("tab", name="Dependencies").click()
    full.page.locator("li.card").first.wait_for()
    track = "instruction_split:GpSimd Compute(nc1)"
    assert close_to(full.colors(1, track, work(pair), 6), GREEN)
    full.page.locator(".scroller").evaluate("e => { e.scrollTop = e.scrollHeight; }")
    card = full.page.get_by_role("region", name="Predecessor PCs").locator("li.card", has_text="GpSimd(nc1)").first
    card.get_by_role("button", name="Navigate to dependency").click()
    full.page.wait_for_timeout(600)
    pane, label = full.page.locator(".scroller").bounding_box(), full.label(track).bounding_box()
    assert pane["y"] <= label["y"] and label["y"] + label["height"] <= pane["y"] + pane["height"], "its track is scrolled into sight"


def test_neighbours_in_the_psum_bank_are_brown_and_have_a_bank_badge(viewer, tables):
    sql = """select a.id, b.start_ts, b.end_ts, b.evt_wait_time_ns, b.timeline_track t, b.pc, a.start_ts s, a.end_ts e from Flow f
             join Instruction a on a.id = f.out_id join Instruction b on b.id = f.in_id where f.dependency_type = 'SAME_PSUM_BANK'
             and a.pcore_idx = 0 and not exists (select 1 from Flow g where g.in_id = f.in_id and g.out_id = f.out_id and g.in_table = 'instruction'
             and g.out_table = 'instruction' and g.dependency_type <> 'SAME_PSUM_BANK') order by a.end_ts - b.start_ts limit 1"""
    pair = tables("attention", sql)[0]
    viewer.open("attention", **spanning(pair, {"start_ts": pair["s"], "end_ts": pair["e"]}), event=f"Instruction:{pair['id']}")
    viewer.page.wait_for_selector(".details table.fields")
    viewer.page.wait_for_timeout(400)
    assert close_to(viewer.colors(1, f"instruction:{pair['t']}", work(pair), 8), BROWN)
    viewer.page.get_by_role("tab", name="Dependencies").click()
    before = viewer.page.get_by_role("region", name="Predecessor PCs")
    card = before.locator("li.card", has_text=f"PC {pair['pc']}").filter(has=viewer.page.locator(".badge", has_text="Bank"))
    assert card.count() >= 1


def pairs_of(tables, event, here, there):
    sql = f"select distinct {there}_id from Flow where {here}_id = ? and {here}_table = 'instruction' and {there}_table = 'instruction'"
    return len(tables("attention", sql, event["id"]))


def test_dependency_cards_are_the_edges_of_the_table(viewer, tables):
    event = matmul(tables)
    viewer.open("attention", **around(event), event=f"Instruction:{event['id']}")
    viewer.page.get_by_role("tab", name="Dependencies").click()
    for title, here, there in (("Predecessor PCs", "out", "in"), ("Successor PCs", "in", "out")):
        cards = viewer.page.get_by_role("region", name=title).locator("li.card")
        cards.first.wait_for()
        assert cards.count() == pairs_of(tables, event, here, there)


def test_a_dependency_is_copied_and_followed(viewer, context, tables):
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    event = matmul(tables)
    viewer.open("attention", **around(event), event=f"Instruction:{event['id']}")
    viewer.page.get_by_role("tab", name="Dependencies").click()
    card = viewer.page.get_by_role("region", name="Predecessor PCs").locator("li.card").first
    card.get_by_role("button", name="Copy as JSON").click()
    card.get_by_role("button", name="Copied").wait_for()
    copied = json.loads(viewer.page.evaluate("navigator.clipboard.readText()"))
    row = tables("attention", "select * from Instruction where id = ?", copied["id"])[0]
    assert copied["pc"] == row["pc"] and copied["engine"] == row["engine"] and copied["start_ts"] == row["start_ts"]
    card.get_by_role("button", name="Navigate to dependency").click()
    viewer.page.wait_for_function(f"() => location.href.includes('Instruction:{copied['id']}')")
    viewer.settle()
    low, high = viewer.range()
    assert low <= row["start_ts"] and row["end_ts"] <= high


def test_transfers_are_on_the_timeline_only(viewer, tables):
    sql = "select in_id from Flow where dependency_type = 'DMA_TRIGGER' order by in_id limit 1"
    trigger = tables("attention", sql)[0]["in_id"]
    viewer.open("attention", event=f"Instruction:{trigger}")
    viewer.page.get_by_role("tab", name="Dependencies").click()
    viewer.page.get_by_text("linked DMA transfers are highlighted").wait_for()
    assert "DmaPacketAggregated" not in viewer.widget("Event Details").inner_text()


def test_a_pair_with_two_kinds_shows_the_compilers_and_has_the_other_one_click_away(viewer, tables):
    sql = """select f.out_id, f.in_id from Flow f join Flow g on g.in_id = f.in_id and g.out_id = f.out_id and g.in_table = f.in_table
             and g.out_table = f.out_table where f.dependency_type = 'FLOW_DEPENDENCE' and g.dependency_type = 'SAME_PSUM_BANK'
             and f.in_table = 'instruction' and f.out_table = 'instruction' order by 1 limit 1"""
    pair = tables("attention", sql)[0]
    viewer.open("attention", event=f"Instruction:{pair['out_id']}")
    viewer.page.get_by_role("tab", name="Dependencies").click()
    more = viewer.page.get_by_role("region", name="Predecessor PCs").locator("li.card button[aria-expanded]").first
    more.click()
    card = viewer.page.get_by_role("region", name="Predecessor PCs").locator("li.card", has=viewer.page.locator("[aria-expanded=true]"))
    assert "Flow" in card.locator(".card-head .badge").inner_text()
    assert "Bank" in card.inner_text()


def test_the_chain_of_waits_is_one_click_away(viewer, tables):
    sql = "select * from WaitCause where prior_wait_id is not null order by wait_ns desc limit 1"
    wait = tables("attention", sql)[0]
    viewer.open("attention", event=f"Instruction:{wait['instruction_id']}")
    viewer.page.get_by_role("tab", name="Dependencies").click()
    viewer.page.get_by_role("button", name="Why did this wait?").click()
    steps = viewer.page.locator("ol.chain li")
    steps.first.wait_for()
    assert steps.count() >= 3
    assert wait["engine"] in steps.first.inner_text() and "waited" in steps.first.inner_text()
