"""SQL over profiles and comparisons of captures, as kymo-query --serve answers them, against pandas on the same tables."""

import json
import os
import shutil
import statistics
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import profiles
from profiles import Cell
import serve_client
from waits import waits_of


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two captures of one program, and a third whose instructions take twice as long."""
    folder = tmp_path_factory.mktemp("sql")
    first, _ = profiles.make_tables(folder, Cell("attention", "trn2", 1, executions=2))
    second = folder / "second"
    shutil.copytree(first, second)
    slow = folder / "slow"
    shutil.copytree(first, slow)
    stretch(second, 1.01)
    stretch(slow, 2)
    stretch_more = folder / "slow2"
    shutil.copytree(slow, stretch_more)
    return first, second, slow, stretch_more


def stretch(directory, by):
    path = directory / "Instruction.parquet"
    table = pq.read_table(path).to_pandas()
    table["end_ts"] = table.start_ts + ((table.end_ts - table.start_ts) * by).astype("int64")
    pq.write_table(pa.Table.from_pandas(table, preserve_index=False), path)


@pytest.fixture(scope="module")
def server():
    s = serve_client.Server("--timeout", "60")
    yield s
    assert s.close() == 0


def sql(server, text, *dirs, **params):
    return server.ask(dirs[0], "sql", sql=text, dirs=json.dumps([str(d) for d in dirs]), names=json.dumps([f"n{i}" for i in range(len(dirs))]),
                      **params)


def test_rows_and_types(made, server):
    a = sql(server, "SELECT 1 AS i, 2.5 AS d, 'x' AS t, true AS b, NULL AS n, [1, 2] AS l, 9007199254740993 AS w, 'nan'::DOUBLE AS f,"
            " DATE '2020-01-01' AS day, sum(range)::HUGEINT AS h FROM range(3)", made[0])
    assert [c["name"] for c in a["columns"]] == ["i", "d", "t", "b", "n", "l", "w", "f", "day", "h"]
    assert [c["type"] for c in a["columns"]][:4] == ["INTEGER", "DECIMAL(2,1)", "VARCHAR", "BOOLEAN"]
    assert a["rows"] == [[1, 2.5, "x", True, None, "[1, 2]", 9007199254740993, None, "2020-01-01", 3]]
    assert a["truncated"] is False and a["profiles"] == [{"schema": "main", "profile": "n0"}]


INT64 = 2**63 - 1


@pytest.mark.parametrize("value,type_,wanted", [
    ("170141183460469231731687303715884105727::HUGEINT", "HUGEINT", "170141183460469231731687303715884105727"),
    ("(-170141183460469231731687303715884105728)::HUGEINT", "HUGEINT", "-170141183460469231731687303715884105728"),
    (f"{INT64}::HUGEINT", "HUGEINT", INT64), (f"{INT64 + 1}::HUGEINT", "HUGEINT", str(INT64 + 1)), (f"({-INT64 - 1})::HUGEINT", "HUGEINT", -INT64 - 1),
    ("18446744073709551615::UBIGINT", "UBIGINT", "18446744073709551615"), ("7::UBIGINT", "UBIGINT", 7),
    ("340282366920938463463374607431768211455::UHUGEINT", "UHUGEINT", "340282366920938463463374607431768211455"), ("7::UHUGEINT", "UHUGEINT", 7),
    ("12345678901234567.89::decimal(20,2)", "DECIMAL(20,2)", "12345678901234567.89"), ("1.5::decimal(20,2)", "DECIMAL(20,2)", "1.50"),
    ("2.5", "DECIMAL(2,1)", 2.5), ("0.1::decimal(1,1)", "DECIMAL(1,1)", 0.1), ("(-0.25)::decimal(2,2)", "DECIMAL(2,2)", -0.25), ("1234567890123.45::decimal(15,2)", "DECIMAL(15,2)", 1234567890123.45), ("(-3)::decimal(4,0)", "DECIMAL(4,0)", -3),
    ("1.5::decimal", "DECIMAL(18,3)", "1.500"), ("9007199254740993", "BIGINT", 9007199254740993), (f"({-INT64 - 1})::BIGINT", "BIGINT", -INT64 - 1),
    ("0.1::DOUBLE", "DOUBLE", 0.1), ("1e300", "DOUBLE", 1e300), ("'inf'::DOUBLE", "DOUBLE", None), ("0.25::FLOAT", "FLOAT", 0.25), ("5::UTINYINT", "UTINYINT", 5),
    ("'1'", "VARCHAR", "1"), ("'true'::BOOLEAN", "BOOLEAN", True), ("[1, 2]", "INTEGER[]", "[1, 2]"), ("[1.5]", "DECIMAL(2,1)[]", "[1.5]"),
    ("{'a': 1, 'b': [2]}", "STRUCT(a INTEGER, b INTEGER[])", "{'a': 1, 'b': [2]}"), ("MAP {'k': 1.5}", "MAP(VARCHAR, DECIMAL(2,1))", "{k=1.5}"),
    ("[1, 2]::INTEGER[2]", "INTEGER[2]", "[1, 2]"), ("DATE '2020-01-01'", "DATE", "2020-01-01"), ("INTERVAL 1 DAY", "INTERVAL", "1 day"), ("'a'::ENUM('a', 'b')", "ENUM", "a"),
])
def test_values_are_exact(made, server, value, type_, wanted):
    """Alone, and beside a column that DuckDB has to print, which prints all others too."""
    for more, rest in (("", []), (", DATE '2020-01-01'", ["2020-01-01"])):
        a = sql(server, f"SELECT {value} AS v{more}", made[0])
        assert a["columns"][0] == {"name": "v", "type": type_}
        assert a["rows"] == [[wanted, *rest]] and type(a["rows"][0][0]) is type(wanted)


@pytest.mark.parametrize("text,columns,rows", [
    (";select 1", ["INTEGER"], [[1]]), (";;select 1 ; ;", ["INTEGER"], [[1]]), ("-- a; b\n /* ; */ select 1 -- end ;", ["INTEGER"], [[1]]),
    (";select 1.25::decimal(30,2) -- end", ["DECIMAL(30,2)"], [["1.25"]]), ("select DATE '2020-01-01' AS d; /* end", None, None),
    (";/* ; */select DATE '2020-01-01', ';' ; -- end", ["DATE", "VARCHAR"], [["2020-01-01", ";"]]), ("VALUES (1, 'a')", ["INTEGER", "VARCHAR"], [[1, "a"]]),
    ("WITH x AS (SELECT 1.5 AS a) FROM x", ["DECIMAL(2,1)"], [[1.5]]), ("SELECT 1 AS a, 2.5 AS a", ["INTEGER", "DECIMAL(2,1)"], [[1, 2.5]]),
])
def test_semicolons_and_comments_do_not_matter(made, server, text, columns, rows):
    if rows is None:
        with pytest.raises(serve_client.Failed, match="^400"):
            sql(server, text, made[0])
        return
    a = sql(server, text, made[0])
    assert [c["type"] for c in a["columns"]] == columns and a["rows"] == rows


def test_what_is_told_about_tables_has_types(made, server):
    for text in ("DESCRIBE Instruction", ";DESCRIBE Instruction;", "SHOW TABLES", "SUMMARIZE Summary", "EXPLAIN SELECT 1", "SHOW ALL TABLES"):
        a = sql(server, text, made[0])
        assert a["rows"]
        for i, column in enumerate(a["columns"]):
            values = [row[i] for row in a["rows"] if row[i] is not None]
            kinds = {"VARCHAR": str, "BIGINT": int, "BOOLEAN": bool}
            assert all(type(v) is kinds.get(column["type"], type(v)) for v in values), (text, column)
            assert column["type"] != "DOUBLE" or not any(isinstance(v, str) for v in values)


def test_pivot(made, server):
    view = pq.read_table(made[0] / "Instruction.parquet").to_pandas()
    wanted = view.groupby(["engine", "opcode"]).size()
    for text in ("PIVOT Instruction ON opcode USING count(*) GROUP BY engine", ";SELECT * FROM (PIVOT Instruction ON opcode USING count(*) GROUP BY engine) -- end",
                 "WITH p AS (PIVOT Instruction ON opcode USING count(*) GROUP BY engine) FROM p",
                 "PIVOT_WIDER Instruction ON opcode USING count(*) GROUP BY engine",
                 "SELECT *, 1.5::decimal(20,2) AS x FROM (PIVOT Instruction ON opcode USING count(*) GROUP BY engine)"):
        a = sql(server, text, made[0])
        names = [c["name"] for c in a["columns"]]
        assert names[0] == "engine" and a["columns"][1]["type"] == "BIGINT"
        got = {(row[0], name): value for row in a["rows"] for name, value in zip(names[1:], row[1:]) if value and name != "x"}
        assert got == wanted.to_dict(), text
    first = sorted(view.opcode.unique())[0]
    a = sql(server, f"PIVOT Instruction ON opcode IN ('{first}') USING count(*) GROUP BY engine", made[0])
    assert [c["name"] for c in a["columns"]] == ["engine", first]
    for text in ("PIVOT Instruction ON opcode USING count(*); SELECT 1", "SELECT 1; PIVOT Instruction ON opcode USING count(*)",
                 "CREATE TABLE \"pivot\"(a INT); SELECT 1", "SELECT 'PIVOT'; SELECT 2", "CREATE TYPE x AS ENUM('a'); FROM (PIVOT Instruction ON opcode USING count(*))"):
        with pytest.raises(serve_client.Failed, match="only statements that read" if text.startswith("CREATE") else "one at a time"):
            sql(server, text, made[0])
    with pytest.raises(serve_client.Failed, match="^400"):
        sql(server, "PIVOT (SELECT range AS a FROM range(20000)) ON a USING count(*)", made[0])


@pytest.mark.parametrize("text", ["PRAGMA version", "pragma database_list", "; -- x\n PRAGMA table_info('Instruction')", "PRAGMA enable_profiling", "PRAGMA disable_progress_bar",
                                  "PRAGMA memory_limit='1GB'", "CALL duckdb_tables()"])
def test_pragmas_are_refused(made, server, text):
    with pytest.raises(serve_client.Failed, match="^400 only statements that read are run here"):
        sql(server, text, made[0])


@pytest.mark.parametrize("name", ["enum", "pg_clas", "duckdb_table", "columnz", "tablez", "sqlite_maste", "databases_list"])
def test_hints_name_only_tables_of_profiles(made, server, name):
    with pytest.raises(serve_client.Failed) as e:
        sql(server, f"SELECT * FROM {name}", made[0])
    hint = [line for line in str(e.value).split("\n") if "Did you mean" in line]
    assert f"Table with name {name} does not exist" in str(e.value) and f"FROM {name}" in str(e.value)
    assert not any(own in line for line in hint for own in ("pg_", "duckdb_", "sqlite_", "pragma_", "information_schema")), hint


def test_tables_and_limits(made, server):
    count = pq.read_table(made[0] / "Instruction.parquet").num_rows
    assert sql(server, 'SELECT count(*) FROM "Instruction"', made[0])["rows"] == [[count]]
    a = sql(server, 'SELECT id FROM "Instruction" ORDER BY id', made[0], limit=7)
    assert len(a["rows"]) == 7 and a["truncated"] and a["columns"] == [{"name": "id", "type": "BIGINT"}]
    assert len(sql(server, 'SELECT id FROM "Instruction"', made[0])["rows"]) == min(count, 1000)
    a = sql(server, "SELECT repeat('x', 1000000) FROM range(100)", made[0])
    assert a["truncated"] and 10 < len(a["rows"]) < 100
    assert sql(server, 'DESCRIBE "Instruction"', made[0])["rows"][0][0]
    assert sql(server, "SELECT count(*) FROM information_schema.columns WHERE table_name = 'Instruction'", made[0])["rows"][0][0] > 20


def test_several_profiles(made, server):
    a = sql(server, 'SELECT (SELECT sum(end_ts - start_ts) FROM "Instruction"), (SELECT sum(end_ts - start_ts) FROM p1."Instruction"),'
            ' (SELECT sum(end_ts - start_ts) FROM p2."Instruction")', made[0], made[2])
    assert a["rows"][0][0] == a["rows"][0][1] and a["rows"][0][2] == 2 * a["rows"][0][0]


@pytest.mark.parametrize("text", [
    "", "SELECT 1; SELECT 2", "CREATE TABLE t(a INT)", "INSTALL httpfs", "ATTACH '/tmp/x.db'", "COPY (SELECT 1) TO '/tmp/kymo-test-out.csv'",
    "SET enable_external_access=true", "SELECT * FROM '/etc/passwd'", "SELECT * FROM glob('/etc/*')", "SELECT * FROM read_text('/proc/self/environ')",
    "SELECT * FROM read_text('https://example.com/')", "SELECT 1) t; DROP VIEW \"Instruction\"; --", "EXPLAIN ANALYZE COPY (SELECT 1) TO '/tmp/kymo-test-out.csv'",
    "SELECT '\ud800'", "DELETE FROM \"Instruction\"", "SELECT getenv('HOME')",
])
def test_refused(made, server, text):
    with pytest.raises(serve_client.Failed) as e:
        sql(server, text, made[0])
    assert e.value.status == 400 and not os.path.exists("/tmp/kymo-test-out.csv")


def test_no_way_out_of_the_directory(made, server):
    (made[0].parent / "secret.txt").write_text("secret")
    # All descriptors that the directory may have, in one statement each.
    for places in ([f"/proc/self/fd/{n}/../secret.txt" for n in range(3, 40)], [f"/proc/self/fd/{n}/{made[1].name}/../../secret.txt" for n in range(3, 40)],
                   [str(made[0].parent / "secret.txt")], [f"{made[0]}/../secret.txt"]):
        calls = " UNION ALL ".join(f"SELECT content FROM read_text('{p}')" for p in places)
        with pytest.raises(serve_client.Failed):
            sql(server, calls, made[0])
    # And one by one where it surely is.
    for n in range(9, 12):
        with pytest.raises(serve_client.Failed):
            sql(server, f"SELECT content FROM read_text('/proc/self/fd/{n}/../secret.txt')", made[0])


def test_deep_statements_do_no_harm(made, server):
    for text in ("SELECT " + "(" * 30000 + "1" + ")" * 30000, "SELECT " + "-" * 3 + "1" + "+1" * 15000, "SELECT " + "[" * 5000 + "]" * 5000):
        try:
            sql(server, text, made[0])
        except serve_client.Failed as e:
            assert e.status in (400, 504)
    assert sql(server, "SELECT 1", made[0])["rows"] == [[1]]


def test_too_much_memory_is_refused(made, server):
    with pytest.raises(serve_client.Failed) as e:
        sql(server, "SELECT count(*) FROM (SELECT DISTINCT range FROM range(1000000000))", made[0])
    assert e.value.status in (400, 504)


def test_cancel_ends_it(made, server):
    number = server.begin(made[0], "sql", sql="SELECT count(*) FROM range(10000000000) a, range(1000) b WHERE a.range % 7 = b.range % 3",
                          dirs=json.dumps([str(made[0])]), names='["a"]')
    time.sleep(0.5)
    begun = time.monotonic()
    server.send(serve_client.CANCEL, number)
    with pytest.raises(serve_client.Failed) as e:
        server.finish(number)
    assert e.value.status == 499 and time.monotonic() - begun < 3


@pytest.mark.parametrize("params", [
    {"limit": 0}, {"limit": 10001}, {"limit": "9" * 30}, {"limit": "1; DROP"}, {"dirs": "[]"}, {"dirs": "x"}, {"dirs": "[1]"}, {"dirs": '["etc"]'},
    {"dirs": json.dumps(["/tmp"] * 9)},
])
def test_bad_parameters(made, server, params):
    with pytest.raises(serve_client.Failed) as e:
        server.ask(made[0], "sql", **{"sql": "SELECT 1", "dirs": json.dumps([str(made[0])]), "names": "[]", **params})
    assert e.value.status == 400


def test_profile_that_is_gone(made, server, tmp_path):
    gone = tmp_path / "gone"
    for op, dirs in (("sql", [str(gone)]), ("compare", [[str(made[0])], [str(gone)]])):
        with pytest.raises(serve_client.Failed) as e:
            server.ask(made[0], op, sql="SELECT 1", dirs=json.dumps(dirs), names="[]")
        assert e.value.status == 404


# Comparison

def compare(server, *sides):
    names = [[d.name for d in side] for side in sides]
    return server.ask(sides[0][0], "compare", dirs=json.dumps([[str(d) for d in side] for side in sides]), names=json.dumps(names))


def busy(directory, key):
    rows = pq.read_table(directory / "Instruction.parquet").to_pandas()
    rows["busy"] = rows.end_ts - rows.start_ts - waits_of(directory, rows)
    return rows.groupby(key).busy.sum().to_dict()


def test_compare_counts_what_the_tables_hold(made, server):
    first, second, slow, slow2 = made
    a = compare(server, [first, second], [slow, slow2])
    assert a["sides"] == [{"base": True, "profiles": [first.name, "second"]}, {"base": False, "profiles": ["slow", "slow2"]}]
    assert a["truncated"] == [] and {r["key"] for r in a["summary"]} >= {"total_time", "dma_transfer_count"}
    rows = {r["key"]: r for r in a["opcodes"] if r["field"] == "busy_ns"}
    want = [busy(d, ["engine", "opcode"]) for d in made]
    assert set(rows) == {f"{e} {o}" for e, o in want[0]}
    for (engine, opcode), value in want[0].items():
        row = rows[f"{engine} {opcode}"]
        values = [w[engine, opcode] for w in want]
        assert row["sides"][0]["values"] == values[:2] and row["sides"][1]["values"] == values[2:]
        assert row["sides"][0]["mean"] == pytest.approx(statistics.mean(values[:2]))
        delta = row["deltas"][1]
        spread = max(abs(values[0] - values[1]), abs(values[2] - values[3]))
        assert row["deltas"][0] is None and delta["spread"] == spread
        by = statistics.mean(values[2:]) - statistics.mean(values[:2])
        assert delta["abs"] == pytest.approx(by) and delta["differs"] == (abs(by) > spread)
    assert any(r["deltas"][1]["differs"] for r in rows.values())
    counts = [r for r in a["operators"] if r["field"] == "count"]
    assert counts and all(r["deltas"][1]["abs"] == 0 and r["deltas"][1]["differs"] is False for r in counts)
    order = [max(r["sides"][0]["max"], r["sides"][1]["max"]) for r in a["operators"] if r["field"] == "busy_ns"]
    assert order == sorted(order, reverse=True)


def test_one_capture_has_no_spread(made, server):
    a = compare(server, [made[0]], [made[2]], [made[0]])
    for row in a["operators"] + a["opcodes"] + a["summary"]:
        assert len(row["deltas"]) == 3 and row["deltas"][1]["spread"] is None and row["deltas"][1]["differs"] is None
        assert row["deltas"][2]["abs"] == 0


@pytest.mark.parametrize("dirs", ["[]", '[["/tmp"]]', '[["/tmp"], []]', '["/tmp", "/tmp"]', '[[1], [2]]', json.dumps([["/tmp"] * 16, ["/tmp"]])])
def test_bad_sides(made, server, dirs):
    with pytest.raises(serve_client.Failed) as e:
        server.ask(made[0], "compare", dirs=dirs, names="[]")
    assert e.value.status == 400


def test_tables_that_the_text_does_not_name_are_there_too(made, server):
    """Only tables named in a statement are opened at first: no statement may notice."""
    count = sql(server, 'SELECT count(*) FROM "Instruction"', made[0])["rows"]
    hidden = ("SELECT count(*) FROM query_table('Instr' || 'uction')", "SELECT count(*) FROM inSTRUCTION", "WITH x AS (FROM query_table('Instr' || 'uction')) SELECT count(*) FROM x",
              "SELECT count(*) /* Flow */ FROM main.\"Instruction\"", "SELECT (SELECT count(*) FROM p2.\"Instruction\") * 0 + count(*) FROM p1.\"Instruction\"")
    for text in hidden:
        dirs = made if "p2" in text else made[:1]
        assert sql(server, text, *dirs)["rows"] == count, text
    names = {row[0] for row in sql(server, "SELECT view_name FROM duckdb_views() WHERE NOT internal", made[0])["rows"]}
    assert {row[0] for row in sql(server, "SHOW TABLES", made[0])["rows"]} == names and {"Instruction", "Flow", "CcOp"} <= names
    with pytest.raises(serve_client.Failed, match="Did you mean.*Instruction"):
        sql(server, "SELECT * FROM Instructoin", made[0])


@pytest.mark.parametrize("also", ["", ", DATE '2020-01-01'"], ids=["alone", "beside"])
@pytest.mark.parametrize("text,value", [("[1, 2]", "[1, 2]"), ("['a', NULL, 'b, c']", '["a", null, "b, c"]'), ("[['a'], ['b']]", '[["a"], ["b"]]'),
                                        ("[0.1::FLOAT, 2]", "[0.1, 2]"), ("0.1::FLOAT", 0.1), ("16777216::FLOAT", 16777216.0), ("3.4028235e38::FLOAT", 3.4028235e38),
                                        ("1e-45::FLOAT", 1.4013e-45), ("0.1::DOUBLE", 0.1), ("1.1::FLOAT::DOUBLE", 1.100000023841858)])
def test_values_are_the_same_beside_others(made, server, text, value, also):
    """Dates are printed by DuckDB, which prints lists in another way. A FLOAT has the digits that tell it from others."""
    assert sql(server, f"SELECT {text} AS v{also}", made[0])["rows"][0][0] == value


def test_columns_of_one_name(made, server):
    a = sql(server, "SELECT 1 AS a, 2 AS a, DATE '2020-01-01' AS \"q\"\"q\", [3] AS a ORDER BY 1", made[0])
    assert [c["name"] for c in a["columns"]] == ["a", "a", 'q"q', "a"] and a["rows"] == [[1, 2, "2020-01-01", "[3]"]]


@pytest.mark.parametrize("text", ["INSERT INTO Instruction VALUES (1)", "COPY Instruction TO 'x'", "delete from CcOp", "/* a */ Update CcOp SET id = 1", "TRUNCATE CcOp",
                                  "MERGE INTO CcOp USING Flow ON true WHEN MATCHED THEN DELETE", "ATTACH 'x'", "LOAD httpfs", "EXPORT DATABASE 'x'", "EXECUTE x", "BEGIN"])
def test_statements_that_change_something(made, server, text):
    with pytest.raises(serve_client.Failed, match=r"^400 only statements that read are run here \(SELECT, DESCRIBE, SHOW, EXPLAIN\)$"):
        sql(server, text, made[0])


def test_an_error_shows_the_statement_as_it_was_written(made, server):
    with pytest.raises(serve_client.Failed) as e:
        sql(server, "SELECT DATE '2020-01-01',\n  'x'::INT", made[0])
    assert "LINE 2:   'x'::INT" in str(e.value)


def test_a_row_that_no_answer_holds(made, server):
    with pytest.raises(serve_client.Failed, match="^400 the first row has 20000016 bytes; an answer holds 16777216$"):
        sql(server, "SELECT repeat('x', 20000000)", made[0])
    a = sql(server, "SELECT repeat('x', 10000000) FROM range(3)", made[0])
    assert a["truncated"] and [len(row[0]) for row in a["rows"]] == [10000000]
