"""Directories of the same layout that others wrote: other encodings and compression, tables in parts, engine names in lower case,
without our own tables and columns, and without those that a vendor's tool leaves out. Served by kymo view."""

import re

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conftest import start_view, stop
from driver import Viewer
from test_timeline import around

# Tables and columns that kymo adds to the layout.
OWN_TABLES = {"PartialEvent", "LossLedger", "HostDmaTransfer", "HostDmaUsage", "FlopsUsage", "TimelineWarning", "LevelOfDetail", "WaitCause", "ClockSync", "WindowSums",
              "WaitSums"}
OWN_COLUMNS = ["psum_read_banks", "psum_write_banks", "symbolic_operands", "executed_by", "operator", "nki_region", "nki_region_path", "timeline_track"]
# What a profile is still one with.
NEEDED = {"Metadata", "Summary", "Instruction", "DmaPacket", "DmaPacketAggregated"}
IN_PARTS = {"Instruction", "DmaPacket"}


def by_pyarrow(source, target):
    for path in source.glob("*.parquet"):
        if path.stem in OWN_TABLES:
            continue
        table = pq.read_table(path)
        if path.stem == "Instruction":
            table = table.drop_columns(OWN_COLUMNS)
            lower = pa.array([name.lower() for name in table["engine"].to_pylist()])
            table = table.set_column(table.schema.get_field_index("engine"), "engine", lower)
        # Narrow and signed where ours is wide, or the other way round.
        if "pcore_idx" in table.column_names:
            table = table.set_column(table.schema.get_field_index("pcore_idx"), "pcore_idx", table["pcore_idx"].cast(pa.int32()))
        options = {"compression": "gzip", "use_dictionary": False, "data_page_version": "2.0", "row_group_size": 2500, "write_statistics": False}
        options["column_encoding"] = {f.name: "DELTA_BINARY_PACKED" for f in table.schema if pa.types.is_integer(f.type) and f.type.bit_width >= 32}
        parts = 3 if path.stem in IN_PARTS else 1
        size = -(-table.num_rows // parts)
        for i in range(parts):
            name = f"{path.stem}_{i}" if parts > 1 else path.stem
            pq.write_table(table.slice(i * size, size), target / f"{name}.parquet", **options)


def by_duckdb(source, target):
    db = duckdb.connect()
    for name in sorted(NEEDED):
        columns = "*"
        if name == "Instruction":
            columns = f"* exclude ({', '.join(OWN_COLUMNS)}) replace (lower(engine) as engine, pcore_idx::bigint as pcore_idx)"
        for i in range(2 if name in IN_PARTS else 1):
            part, where = (f"{name}_{i}", f"where id % 2 = {i}") if name in IN_PARTS else (name, "")
            db.execute(
                f"""copy (select {columns} from '{source / name}.parquet' {where}) to '{target / part}.parquet'
                (format parquet, compression zstd, parquet_version v2, row_group_size 4096)"""
            )


WRITERS = {"pyarrow": by_pyarrow, "duckdb": by_duckdb}


@pytest.fixture(scope="module")
def vendor_server(profiles, tmp_path_factory):
    folder = tmp_path_factory.mktemp("vendor")
    for name, write in WRITERS.items():
        (folder / name).mkdir()
        write(profiles / "attention", folder / name)
    process, base = start_view([folder], tmp_path_factory.mktemp("vendor-server"))
    yield base
    stop(process)


@pytest.fixture(params=list(WRITERS))
def foreign(request, context, vendor_server):
    made = Viewer(context.new_page(), vendor_server)
    made.profile = request.param
    yield made
    assert made.errors == []


def an_event(tables):
    """What our own tables say; the columns that are not in the other ones are not looked at."""
    return tables("attention", "select * from Instruction where opcode = 'MATMUL' and pcore_idx = 0 order by start_ts limit 1 offset 40")[0]


def test_the_list_has_both(context, vendor_server):
    page = context.new_page()
    page.goto(vendor_server)
    for name in WRITERS:
        page.get_by_role("link", name=name).first.wait_for()


def test_engines_have_their_proper_names(foreign):
    foreign.open(foreign.profile)
    shown = foreign.labels()
    for engine in ("Tensor", "TensorMatrix", "Vector", "Scalar", "GpSimd", "Sync"):
        assert {f"{engine}(nc0)", f"{engine}(nc1)"} <= set(shown)
    assert "DMA-E0(nc1)" in shown and sum(foreign.drawn()) > 100


def test_events_of_every_part_are_hovered(foreign, tables):
    # The parts of a table are one: its first, middle and last events, wherever they were put.
    sql = "select * from Instruction where timeline_track = 'Vector(nc0)' and duration_ns > 20 order by start_ts, id"
    rows = tables("attention", sql)
    for event in (rows[0], rows[len(rows) // 2], rows[len(rows) // 2 + 1], rows[-1]):
        foreign.open(foreign.profile, **around(event))
        foreign.hover("instruction:Vector(nc0)", (event["start_ts"] + event["end_ts"]) / 2)
        card = foreign.card().replace("\u2009", "")
        assert f"{event['start_ts']} ns – {event['end_ts']} ns" in card and event["opcode"] in card


def test_details_hold_what_the_row_has(foreign, tables):
    event = an_event(tables)
    foreign.open(foreign.profile, **around(event), event=f"Instruction:{event['id']}")
    foreign.page.wait_for_selector(".details table.fields")
    shown = foreign.page.locator(".details table.fields th").evaluate_all("list => list.map(e => e.title)")
    assert set(event) - set(OWN_COLUMNS) <= set(shown)
    text = foreign.widget("Event Details").inner_text()
    assert str(event["operands"]) in text and str(event["hlo_name"]) in text


def test_dependencies_are_those_of_the_table_or_none(foreign, tables):
    event = an_event(tables)
    foreign.open(foreign.profile, **around(event), event=f"Instruction:{event['id']}")
    foreign.page.get_by_role("tab", name="Dependencies").click()
    region = foreign.page.get_by_role("region", name="Predecessor PCs")
    region.wait_for()
    foreign.page.wait_for_timeout(500)
    sql = "select distinct in_id from Flow where out_id = ? and out_table = 'instruction' and in_table = 'instruction'"
    wanted = len(tables("attention", sql, event["id"])) if foreign.profile == "pyarrow" else 0
    assert region.locator("li.card").count() == wanted


def test_a_table_that_is_not_there_is_said_on_its_track(foreign):
    foreign.open(foreign.profile)
    absent = foreign.page.locator(".label.absent", has_text=re.compile("^Host-[Dd]evice DMA"))
    assert absent.count() >= 1 and len(absent.first.get_attribute("title")) > 20


def test_no_event_vanishes_without_levels_of_detail(foreign, tables):
    last = tables("attention", "select max(end_ts) as e from Instruction")[0]["e"]
    foreign.open(foreign.profile, **{"from": 0, "to": last})
    # Somewhere on the track of each engine that worked there is a colour beside the background's and the grid's.
    for engine in ("TensorMatrix", "Vector", "Scalar", "GpSimd", "Sync"):
        track = f"instruction:{engine}(nc0)"
        event = tables("attention", "select * from Instruction where timeline_track = ? order by duration_ns desc, id limit 1", f"{engine}(nc0)")
        if event:
            middle = (event[0]["start_ts"] + event[0]["end_ts"]) / 2
            assert len(foreign.colors(0, track, middle, 30)) > 2, track
