"""The SQL page and the summary page's plots, whose questions it shows."""

import csv
import io
import re

import pytest


def sql_page(viewer, profile="attention"):
    viewer.page.goto(f"{viewer.base}/#/sql/{profile}")
    viewer.page.get_by_role("button", name="Columns of Instruction", exact=True).wait_for()
    return viewer.page


def run(page, sql):
    page.get_by_label("SQL", exact=True).fill(sql)
    page.get_by_role("button", name="Run").click()
    page.wait_for_function("() => document.querySelector('.sql-main .toolbar .primary:not(:disabled)')")
    page.locator(".sql-result, .sql-error").first.wait_for()
    page.wait_for_timeout(100)


def cells(page):
    return [[cell.inner_text() for cell in row.locator("td").all()] for row in page.locator(".sql-result tbody tr").all()]


def test_an_answer_is_what_the_tables_hold_and_is_copied_as_csv(with_sql, context, tables):
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = sql_page(with_sql)
    sql = "select engine, count(*) as n, min(start_ts) as first_ts from Instruction group by engine order by n desc, engine"
    run(page, sql)
    expected = [[str(value) for value in row.values()] for row in tables("attention", sql)]
    assert cells(page) == expected
    page.get_by_role("button", name="Copy as CSV").click()
    page.get_by_role("button", name="Copied").wait_for()
    copied = list(csv.reader(io.StringIO(page.evaluate("navigator.clipboard.readText()"))))
    assert copied == [["engine", "n", "first_ts"], *expected]


def test_the_schema_stands_beside_and_gives_names(with_sql, tables):
    page = sql_page(with_sql)
    page.get_by_label("Filter tables and columns").fill("psum_read_banks")
    schema = page.get_by_role("region", name="Schema")
    assert schema.get_by_role("button", name="psum_read_banks").count() == 1
    page.get_by_label("Filter tables and columns").fill("")
    area = page.get_by_label("SQL", exact=True)
    area.fill("select count(*) from ")
    schema.get_by_role("button", name="DmaPacket", exact=True).click()
    assert area.input_value() == "select count(*) from DmaPacket"
    area.press("Control+Enter")
    page.locator(".sql-result tbody tr").first.wait_for()
    assert cells(page) == [[str(tables("attention", "select count(*) n from DmaPacket")[0]["n"])]]


def test_every_digit_and_any_bracket(with_sql):
    page = sql_page(with_sql)
    run(page, "select 1796065618381022814 as n, '[[[[[[[[[[{{{{{{{{\\\"[' as t, [[1],[2],[3],[4],[5],[6]][2][1] as l")
    assert cells(page) == [["1796065618381022814", '[[[[[[[[[[{{{{{{{{\\"[', "2"]]


def test_faults_limits_and_hostile_text(with_sql):
    page = sql_page(with_sql, "hostile")
    run(page, "selekt 1")
    assert "selekt" in page.locator(".sql-error").inner_text()
    page.get_by_label("Rows at most").select_option("100")
    run(page, "select id from Instruction order by id")
    assert "100 rows, cut at the limit" in page.get_by_role("status").inner_text()
    run(page, "select distinct operator from Instruction where operator like '<img%'")
    assert cells(page)[0][0].startswith("<img src=x onerror=")
    assert page.title() == "SQL – kymo"


@pytest.mark.parametrize("profile", ["attention", "reduce"])
def test_plots_show_the_tables_and_lead_to_their_questions(with_sql, tables, profile):
    page = with_sql.page
    page.goto(f"{with_sql.base}/#/summary/{profile}")
    panel = page.get_by_role("region", name="DMA per engine")
    panel.locator("[data-bar]").first.wait_for()
    bars = {bar.get_attribute("data-bar"): float(bar.get_attribute("data-value")) for bar in panel.locator("[data-bar]").all()}
    cores = len(tables(profile, "select distinct pcore_idx from DmaPacket"))
    for row in tables(profile, "select engine_idx e, pcore_idx c, sum(transfer_bytes) b from DmaPacket group by all"):
        name = f"DMA-E{row['e']}" + (f"(nc{row['c']})" if cores > 1 else "")
        assert bars[name] == row["b"]
    flops = page.get_by_role("region", name="FLOPs by engine")
    flops.locator("[data-bar]").first.wait_for()
    drawn = sum(float(bar.get_attribute("data-value")) for bar in flops.locator("[data-bar]").all())
    assert drawn == tables(profile, "select sum(raw_flops) f from Instruction")[0]["f"]
    bandwidth = page.get_by_role("region", name="Memory bandwidth")
    assert bandwidth.locator("path").first.get_attribute("d").startswith("M")
    panel.get_by_role("link", name="Query").click()
    page.locator(".sql-result tbody tr").first.wait_for()
    assert "from DmaPacket" in page.get_by_label("SQL", exact=True).input_value()
    assert len(cells(page)) == len(bars)


def test_collectives_are_plotted_or_said_to_be_absent(with_sql, tables):
    page = with_sql.page
    page.goto(f"{with_sql.base}/#/summary/reduce")
    panel = page.get_by_role("region", name="Collectives")
    panel.locator("[data-bar]").first.wait_for()
    drawn = sorted(float(bar.get_attribute("data-value")) for bar in panel.locator("[data-bar]").all())
    sql = "select sum(duration_ns) t from CcOp group by operation, greatest(input_size, output_size)"
    assert drawn == sorted(float(row["t"]) for row in tables("reduce", sql))
    page.goto(f"{with_sql.base}/#/summary/attention")
    panel.get_by_text("no table CcOp").wait_for()


def test_the_bandwidth_plotted_is_all_bytes_of_the_table(with_sql, tables):
    """The question behind the plot, asked again: rates by stretches add up to what the table counted."""
    page = with_sql.page
    page.goto(f"{with_sql.base}/#/summary/attention")
    page.get_by_role("region", name="Memory bandwidth").get_by_role("link", name="Query").click()
    page.locator(".sql-result tbody tr").first.wait_for()
    sql = page.get_by_label("SQL", exact=True).input_value()
    width = int(re.search(r"stretch of (\d+) ns", sql).group(1))
    script = """async (sql) => {
        const body = JSON.stringify({ profile: "attention", sql, limit: 10000 });
        const headers = { "content-type": "application/json" };
        return (await (await fetch("api/v1/sql", { method: "POST", headers, body })).json()).rows;
    }"""
    rows = page.evaluate(script, sql)
    for row in tables("attention", "select pcore_idx c, max(total_transfer_bytes) b from HbmUsage group by 1"):
        drawn = sum(rate for core, _, rate in rows if core == row["c"]) * width / 1e9
        assert drawn == pytest.approx(row["b"], rel=1e-6)
