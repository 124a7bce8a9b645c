"""Tables whose files begin and end as they should and are damaged between: the rest of a profile stays usable, and the answers name the file."""

import json
import random
import shutil
import struct
import subprocess

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import profiles
from profiles import Cell
import serve_client

TABLES = ("ActiveTime", "CcInstruction", "CcOp", "DmaPacket", "DmaPacketAggregated", "FlopsUsage", "Flow", "HostDmaTransfer", "LevelOfDetail", "Metadata",
          "OpcodeSummary", "SemaphoreUpdate", "Summary", "WaitCause", "WaitSums", "WindowSums")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return profiles.make_tables(tmp_path_factory.mktemp("damage"), Cell("allreduce", "trn2", 1, executions=1, small=True))[0]


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


def damage(path, seed):
    """All values of the file, or stretches of them, are overwritten; the footer is whole."""
    data = bytearray(path.read_bytes())
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    rng = random.Random(f"{path.name} {seed}")
    if seed == 0:
        data[4:end] = b"\xff" * (end - 4)
    else:
        for _ in range(20):
            at = rng.randrange(4, end)
            n = min(end - at, rng.randrange(1, 40))
            data[at:at + n] = rng.randbytes(n)
    path.unlink()
    path.write_bytes(data)


def questions(to):
    window = {"from_": 0, "to": to}
    yield "overview", {}
    yield "timeline", {**window, "width": 300}
    yield "summary", window
    yield "series", {**window, "width": 100}
    yield "bands", window
    yield "operators", window
    yield "search", {"category": "instruction", "field": "opcode", "match": "contains", "value": "ACT"}
    for table in ("Instruction", "CcOp", "DmaPacketAggregated", "HostDmaTransfer"):
        yield "event", {"table": table, "id": 5}
        yield "dependencies", {"table": table, "id": 5}
        yield "why", {"table": table, "id": 5}


def ask_all(server, place, to):
    """What is wrong with the answers, by operation and table."""
    wrong = {}
    for op, params in questions(to):
        try:
            server.ask(place, op, **params)
        except serve_client.Failed as e:
            wrong[op, params.get("table")] = str(e)
    return wrong


@pytest.fixture(scope="module")
def wrong_anyway(made, server, whole):
    return ask_all(server, made, whole["extent"]["to"])


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("table", TABLES)
def test_a_profile_without_a_table_that_is_damaged_inside(server, place, whole, wrong_anyway, table, seed):
    damage(place / f"{table}.parquet", seed)
    wrong = ask_all(server, place, whole["extent"]["to"])
    # Events of the table are not there; everything else is as it was.
    assert {key: text for key, text in wrong.items() if key[1] != table} == {key: text for key, text in wrong_anyway.items() if key[1] != table}
    assert all(text.startswith(f"500 {table}.parquet: cannot be read: column ") for key, text in wrong.items() if text != wrong_anyway.get(key)), wrong
    overview = server.ask(place, "overview")
    why = [m["why"] for m in overview["missing"] if m["what"] == table]
    # Where nobody asked for what was hit, nobody has looked.
    if why or (seed == 0 and table not in ("ActiveTime", "OpcodeSummary")):
        assert len(why) == 1 and why[0].startswith(f"{table}.parquet: cannot be read: column ") and "/proc" not in why[0] and "\n" not in why[0]
        assert overview["tables"] == {name: rows for name, rows in whole["tables"].items() if name != table}
        with pytest.raises(serve_client.Failed, match=f"^500 {table}.parquet: cannot be read: column "):
            server.ask(place, "export", tables=table, mode="complete", from_=0, to=10)


def sql(server, text, *places):
    return server.ask(places[0], "sql", sql=text, dirs=json.dumps([str(p) for p in places]), names=json.dumps([p.name for p in places]))


def test_statements_over_a_damaged_table(server, made, place, whole):
    """The error names the file, and is the file's fault; what is the statement's fault stays so."""
    damage(place / "CcOp.parquet", 0)
    says = "CcOp.parquet: cannot be read: column start_ts: "
    with pytest.raises(serve_client.Failed, match=f"^500 {says}"):
        sql(server, "SELECT max(start_ts) FROM ccop", place)
    with pytest.raises(serve_client.Failed, match=f"^500 p2: {says}"):
        sql(server, "SELECT max(start_ts) FROM p2.CcOp", made, place)
    with pytest.raises(serve_client.Failed, match="^400 Invalid Input Error"):
        sql(server, "SELECT strptime(opcode, '%d') FROM Instruction", place)
    assert sql(server, "SELECT count(*) FROM Instruction", place)["rows"] == [[whole["tables"]["Instruction"]]]


def test_instructions_that_are_damaged_in_places(server, place, whole):
    """What needs them says why it cannot; the rest goes on, without other tables that are damaged."""
    to = whole["extent"]["to"]
    damage(place / "Instruction.parquet", 0)
    damage(place / "CcOp.parquet", 0)
    says = "^500 Instruction.parquet: cannot be read: column start_ts: "
    for _ in range(2):
        with pytest.raises(serve_client.Failed, match=says) as e:
            server.ask(place, "event", table="Instruction", id=5)
        assert e.value.code == "unreadable"
    missing = [m["what"] for m in server.ask(place, "overview")["missing"]]
    assert "CcOp" in missing and "Instruction" not in missing
    server.ask(place, "series", from_=0, to=to, width=100)
    server.ask(place, "bands", from_=0, to=to)


def test_a_damaged_table_is_found_by_many_at_once(server, place, whole):
    """Every answer is one that it would be of the mended directory."""
    damage(place / "WaitSums.parquet", 1)
    damage(place / "HostDmaTransfer.parquet", 1)
    to = whole["extent"]["to"]
    asked = {server.begin(place, op, from_=0, to=to, width=50) for op in ("summary", "timeline", "bands", "overview") * 2}
    while asked:
        kind, number, payload = server.frame()
        if kind == serve_client.DATA:
            server.send(serve_client.CREDIT, number, struct.pack("<I", len(payload)))
        elif kind == serve_client.END:
            assert payload == b"{}"
            asked.remove(number)
    assert {"WaitSums", "HostDmaTransfer"} <= {m["what"] for m in server.ask(place, "overview")["missing"]}


def test_a_table_that_was_replaced_is_read_again(server, made, place, whole):
    damage(place / "CcOp.parquet", 0)
    assert "CcOp" in {m["what"] for m in server.ask(place, "overview")["missing"]}
    shutil.copy(made / "CcOp.parquet", place / "new")
    (place / "new").rename(place / "CcOp.parquet")
    assert server.ask(place, "overview") == whole


def test_the_command_line_names_a_damaged_file(place):
    damage(place / "CcOp.parquet", 0)
    for command, code in ((["query", place, "SELECT max(start_ts) FROM CcOp"], 1), (["verify", place], 4)):
        done = subprocess.run([profiles.BIN / "kymo", *command], capture_output=True, text=True, timeout=60)
        assert done.returncode == code
        assert f"{place}/CcOp.parquet: cannot be read: column start_ts: " in done.stderr


def test_answers_tell_what_they_do_without(server, made, place, whole):
    """An overview that was read before does not know of it."""
    def heads(directory, op, **params):
        number, found = server.begin(directory, op, **params), []
        while True:
            kind, _, payload = server.frame()
            if kind == serve_client.DATA:
                server.send(serve_client.CREDIT, number, struct.pack("<I", len(payload)))
            elif kind == serve_client.HEAD:
                found.append(json.loads(payload))
            else:
                return found

    window = {"from_": 0, "to": whole["extent"]["to"]}
    assert server.ask(place, "overview") == whole and "left_out" not in heads(place, "bands", **window)[0]
    damage(place / "HostDmaTransfer.parquet", 0)
    damage(place / "WaitSums.parquet", 0)
    assert heads(place, "timeline", **window, width=300)[0]["left_out"] == "HostDmaTransfer,WaitSums"
    assert heads(place, "bands", **window)[0]["left_out"] == "HostDmaTransfer,WaitSums"
    assert "left_out" not in heads(made, "bands", **window)[0]


def test_a_table_is_damaged_after_another(server, place, whole):
    """It is looked again when files have changed, also where some tables are left out already."""
    window = {"from_": 0, "to": whole["extent"]["to"]}
    for n, table in enumerate(("CcOp", "WaitSums", "HostDmaTransfer"), 1):
        end = (place / f"{table}.parquet").stat().st_size
        data = bytearray((place / f"{table}.parquet").read_bytes())
        footer = int.from_bytes(data[-8:-4], "little")
        with open(place / f"{table}.parquet", "r+b") as file:  # in its place: the directory does not change
            file.seek(4)
            file.write(b"\xff" * (end - 12 - footer))
        server.ask(place, "timeline", **window, width=300)
        server.ask(place, "summary", **window)
        assert len([m for m in server.ask(place, "overview")["missing"] if "cannot be read" in m["why"]]) == n


def in_place(path, data):
    with open(path, "r+b") as file:
        file.write(data)


def test_a_table_that_was_mended_in_its_place_is_read_again(server, made, place, whole):
    damage(place / "CcOp.parquet", 0)
    assert "CcOp" in {m["what"] for m in server.ask(place, "overview")["missing"]}
    in_place(place / "CcOp.parquet", (made / "CcOp.parquet").read_bytes())
    assert server.ask(place, "overview") == whole


def test_what_cannot_be_opened_is_not_looked_through_each_time(made, place):
    """The second answer is that of the first, at once; a file that changes is looked at again."""
    server = serve_client.Server()
    # Without other tables, instructions are what an opening reads.
    for path in place.glob("*.parquet"):
        if path.stem != "Instruction":
            path.unlink()
    damage(place / "Instruction.parquet", 0)
    says = "^500 Instruction.parquet: cannot be read: column "
    for _ in range(3):
        with pytest.raises(serve_client.Failed, match=says):
            server.ask(place, "overview")
    in_place(place / "Instruction.parquet", (made / "Instruction.parquet").read_bytes())
    assert server.ask(place, "overview")["tables"]["Instruction"] > 0
    assert server.close() == 0


def test_a_comparison_tells_what_it_is_without(server, made, place):
    damage(place / "Throttle.parquet" if (place / "Throttle.parquet").exists() else place / "OpcodeSummary.parquet", 0)
    damage(place / "Summary.parquet", 0)
    dirs, names = [[str(made)], [str(place)]], [["good"], ["bad"]]
    answer = server.ask(made, "compare", dirs=json.dumps(dirs), names=json.dumps(names))
    assert len(answer["left_out"]) == 1 and answer["left_out"][0]["profile"] == "bad"
    assert "Summary" in answer["left_out"][0]["tables"].split(",")
    assert server.ask(made, "compare", dirs=json.dumps([[str(made)], [str(made)]]), names=json.dumps(names))["left_out"] == []


def test_the_details_of_an_event_of_a_table_that_was_cut_off(server, place):
    """Why is known: nothing else is read to find out, and nothing else is said."""
    damage(place / "Instruction.parquet", 1)
    data = (place / "CcOp.parquet").read_bytes()
    (place / "CcOp.parquet").unlink()
    (place / "CcOp.parquet").write_bytes(data[:100])
    for _ in range(2):
        with pytest.raises(serve_client.Failed, match="^500 CcOp.parquet: is no Parquet file, or was cut off$") as e:
            server.ask(place, "event", table="CcOp", id=0)
        assert e.value.code == "unreadable"


def test_a_warning_with_a_nul(server, place):
    pq.write_table(pa.table({"category": ["a\0b"], "message": ["c\0"]}), place / "new")
    (place / "new").rename(place / "Warning.parquet")
    assert server.ask(place, "overview")["notes"] == [{"category": "a b", "message": "c "}]


def test_waits_in_parts_of_different_columns(server, place, whole):
    """No file is damaged, and all together they cannot be read: the profile opens without knowing of waits."""
    table = pq.read_table(place / "WaitCause.parquet")
    (place / "WaitCause.parquet").unlink()
    pq.write_table(table, place / "WaitCause_0.parquet")
    pq.write_table(table.rename_columns([f"x{i}" for i in range(table.num_columns)]), place / "WaitCause_1.parquet")
    assert server.ask(place, "overview")["extent"] == whole["extent"]
