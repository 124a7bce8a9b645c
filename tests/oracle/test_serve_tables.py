"""Directories as people have them: tables that cannot be read, and files whose names have another case."""

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import profiles
from profiles import Cell
import serve_client

CUT = "is no Parquet file, or was cut off"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return profiles.make_tables(tmp_path_factory.mktemp("tables"), Cell("attention", "trn2", 1, executions=1, small=True))[0]


@pytest.fixture(scope="module")
def server():
    s = serve_client.Server()
    yield s
    assert s.close() == 0


@pytest.fixture(scope="module")
def whole(made, server):
    return server.ask(made, "overview")


@pytest.fixture
def place(made, tmp_path):
    return shutil.copytree(made, tmp_path / "profile")


def sql(server, text, *dirs):
    return server.ask(dirs[0], "sql", sql=text, dirs=json.dumps([str(d) for d in dirs]), names=json.dumps([d.name for d in dirs]))


def refused(server, place, op, **params):
    with pytest.raises(serve_client.Failed) as e:
        server.ask(place, op, **params)
    text = str(e.value)
    assert not any(part in text for part in ("/proc/", "\\x", "CREATE VIEW", "\n")), text
    return text


def cut(path, n):
    data = path.read_bytes()[:n]
    path.unlink()  # it may be a link to the original
    path.write_bytes(data)


def footer_of_nonsense(path, n):
    """Ends as Parquet does, so that only reading it tells."""
    cut(path, 2000)
    path.write_bytes(path.read_bytes() + b"\xff" * n + n.to_bytes(4, "little") + b"PAR1")


@pytest.mark.parametrize("table,n", [("DmaPacket", 5000), ("Summary", 0), ("Metadata", 7), ("LevelOfDetail", 300), ("WindowSums", 100), ("Flow", 100),
                                     ("FlopsUsage", 50), ("SbufUsage", 5), ("Warning", 0), ("DmaPacketAggregated", 4000)])
def test_a_profile_opens_without_a_table_that_was_cut_off(server, place, whole, table, n):
    if not (place / f"{table}.parquet").exists():
        pq.write_table(pa.table({"x": [1]}), place / f"{table}.parquet")
    cut(place / f"{table}.parquet", n)
    overview = server.ask(place, "overview")
    assert {"what": table, "why": f"{table}.parquet: {CUT}"} in overview["missing"]
    assert not any(m["why"].startswith(f"There is no table {table}") for m in overview["missing"])
    assert overview["tables"] == {name: rows for name, rows in whole["tables"].items() if name != table}
    to = overview["extent"]["to"]
    if table != "LevelOfDetail":
        assert overview["own_levels"]
    tracks = server.ask(place, "timeline", from_=0, to=to, width=500)["tracks"]
    assert any(t["n"] for t in tracks if t["id"].startswith("instruction"))
    assert not any(t["n"] for t in tracks if t["id"].startswith("dma_engine") and table == "DmaPacket")
    assert server.ask(place, "summary", from_=0, to=to)["instructions"] == whole["tables"]["Instruction"]
    server.ask(place, "series", from_=0, to=to, width=100)
    server.ask(place, "bands", from_=0, to=to)
    server.ask(place, "operators", from_=0, to=to)
    server.ask(place, "event", table="Instruction", id=5)
    server.ask(place, "dependencies", table="Instruction", id=5)
    # SQL over what is there works, and what is not says why.
    assert sql(server, "SELECT count(*) FROM Instruction", place)["rows"] == [[whole["tables"]["Instruction"]]]
    with pytest.raises(serve_client.Failed, match=f"400 {table}.parquet: {CUT}$"):
        sql(server, f"SELECT count(*) FROM {table.lower()}", place)
    with pytest.raises(serve_client.Failed, match=f"400 {table}.parquet: {CUT}$"):
        sql(server, f"SELECT count(*) FROM query_table('{table[:3]}' || '{table[3:]}')", place)
    names = {row[0] for row in sql(server, "SHOW TABLES", place)["rows"]}
    assert "Instruction" in names and table not in names


def test_a_part_that_was_cut_off(server, place, whole):
    """Rows of the other parts alone would look like all of them."""
    table = pq.read_table(place / "DmaPacket.parquet")
    (place / "DmaPacket.parquet").unlink()
    pq.write_table(table.slice(0, 100), place / "DmaPacket_0.parquet")
    pq.write_table(table.slice(100), place / "DmaPacket_1.parquet")
    assert server.ask(place, "overview")["tables"] == whole["tables"]
    cut(place / "DmaPacket_1.parquet", 500)
    (place / "other").touch()  # the directory changes
    overview = server.ask(place, "overview")
    assert {"what": "DmaPacket", "why": f"DmaPacket_1.parquet: {CUT}"} in overview["missing"] and "DmaPacket" not in overview["tables"]


@pytest.mark.parametrize("spoil", [lambda p: footer_of_nonsense(p, 100), lambda p: (p.unlink(), p.mkdir()), lambda p: (p.unlink(), p.symlink_to("nothing"))],
                         ids=["nonsense", "folder", "dangling"])
def test_other_files_that_are_no_tables(server, place, whole, spoil):
    spoil(place / "DmaPacket.parquet")
    overview = server.ask(place, "overview")
    why = next(m["why"] for m in overview["missing"] if m["what"] == "DmaPacket")
    assert why.startswith("DmaPacket.parquet: ") and "/proc" not in why and "\n" not in why and "CREATE" not in why
    assert overview["tables"] == {name: rows for name, rows in whole["tables"].items() if name != "DmaPacket"}


@pytest.mark.parametrize("n", [0, 5000])
def test_without_instructions_there_is_a_clear_error(server, made, place, n):
    cut(place / "Instruction.parquet", n)
    assert refused(server, place, "overview") == f"500 Instruction.parquet: {CUT}"
    assert refused(server, place, "timeline", from_=0, to=10, width=5) == f"500 Instruction.parquet: {CUT}"
    shutil.copy(made / "Instruction.parquet", place)
    footer_of_nonsense(place / "Instruction.parquet", 60)
    (place / "other").touch()
    with pytest.raises(serve_client.Failed, match=r"^500 Instruction.parquet: cannot be read: [^/\n]*$"):
        server.ask(place, "overview")
    assert sql(server, "SELECT count(*) FROM Summary", place)["rows"] == [[1]]


def test_all_but_instructions_cut_off(server, place, whole):
    for path in place.glob("*.parquet"):
        if path.stem != "Instruction":
            cut(path, 10)
    overview = server.ask(place, "overview")
    assert overview["tables"] == {"Instruction": whole["tables"]["Instruction"]} and overview["summary"] is None and overview["settings"] is None
    assert len([m for m in overview["missing"] if m["why"].endswith(CUT)]) >= len(whole["tables"]) - 1


def lower(path):
    return path.name.lower()


@pytest.mark.parametrize("rename", [lower, lambda p: p.name.upper(), lambda p: f"{p.stem}.PARQUET", lambda p: p.name.swapcase()], ids=["lower", "upper", "suffix", "swap"])
def test_names_of_another_case(server, place, whole, rename):
    for path in sorted(place.glob("*.parquet")):
        path.rename(place / rename(path))
    pq.write_table(pa.table({"x": [1]}), place / "Foo.parquet")
    overview = server.ask(place, "overview")
    assert overview == whole
    to = overview["extent"]["to"]
    assert sum(t["n"] for t in server.ask(place, "timeline", from_=0, to=to, width=500)["tracks"]) > 100
    assert any(t["n"] for t in server.ask(place, "series", from_=0, to=to, width=100)["tracks"])
    assert sql(server, 'SELECT (SELECT count(*) FROM "Instruction"), (SELECT x FROM foo)', place)["rows"] == [[whole["tables"]["Instruction"], 1]]


def test_names_that_differ_only_by_case(server, place, whole):
    """The schema's own spelling wins; of others the first."""
    table = pq.read_table(place / "DmaPacket.parquet")
    pq.write_table(table.slice(0, 7), place / "dmapacket.parquet")
    pq.write_table(table.slice(0, 3), place / "DMAPACKET.parquet")
    for name, value in (("foo", 1), ("Foo", 2), ("FOO", 3)):
        pq.write_table(pa.table({"x": [value]}), place / f"{name}.parquet")
    assert server.ask(place, "overview") == whole
    assert sql(server, "SELECT count(*), (SELECT x FROM foo) FROM DmaPacket", place)["rows"] == [[whole["tables"]["DmaPacket"], 3]]
    (place / "DmaPacket.parquet").unlink()
    assert server.ask(place, "overview")["tables"]["DmaPacket"] == 3


def rewritten(place, table, change):
    rows = change(pq.read_table(place / f"{table}.parquet"))
    (place / f"{table}.parquet").unlink()
    pq.write_table(rows, place / f"{table}.parquet")


@pytest.mark.parametrize("change,says", [
    (lambda t: t.drop_columns(["end_ts"]), "has no column end_ts"),
    (lambda t: t.drop_columns(["start_ts"]), "has no column start_ts"),
    (lambda t: t.set_column(t.schema.get_field_index("start_ts"), "start_ts", t["start_ts"].cast(pa.timestamp("ns"))),
     "the column start_ts is of type TIMESTAMP_NS, where numbers belong"),
], ids=["no end", "no start", "datetime"])
def test_instructions_without_usable_times(server, place, change, says):
    """Nothing can be shown of them, and figures that other tables have of them would not fit."""
    rewritten(place, "Instruction", change)
    with pytest.raises(serve_client.Failed, match=f"^500 Instruction.parquet: {says}$") as e:
        server.ask(place, "overview")
    assert e.value.code == "unreadable"


def test_times_of_other_types(server, place, whole):
    rewritten(place, "Instruction", lambda t: t.set_column(t.schema.get_field_index("start_ts"), "start_ts", t["start_ts"].cast(pa.string())))
    assert server.ask(place, "overview")["extent"] == whole["extent"]


@pytest.mark.parametrize("table,kept", [("Instruction", 0), ("Instruction", 100), ("DmaPacket", 50), ("WaitCause", 3), ("HostDmaTransfer", 1)])
def test_sums_of_other_rows_are_not_used(server, place, whole, table, kept):
    """A table was replaced: what is told of it is what it has, not what the sums were made of."""
    rewritten(place, table, lambda t: t.slice(0, kept))
    window = {"from_": 0, "to": whole["extent"]["to"] + 1}
    answer = server.ask(place, "summary", **window)
    missing = {m["what"] for m in server.ask(place, "overview")["missing"]}
    assert ("instructions" in missing) == (table == "Instruction" and kept == 0)
    for name in ("WindowSums", "WaitSums", "LevelOfDetail"):
        (place / f"{name}.parquet").unlink()
    without = server.ask(place, "summary", **window)
    for part in ("instructions", "opcodes", "waits", "dma", "host_dma", "queues"):
        assert answer.get(part) == without.get(part), part
    if table == "Instruction":
        assert answer["instructions"] == kept
    if table == "DmaPacket":
        assert answer["dma"]["packets"] == kept


def test_without_a_table_of_instructions(server, place):
    (place / "Instruction.parquet").unlink()
    missing = {m["what"]: m["why"] for m in server.ask(place, "overview")["missing"]}
    assert missing["instructions"].startswith("There is no table Instruction") and "split" not in missing
