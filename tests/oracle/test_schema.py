"""kymo schema: an OpenAPI document, a Markdown reference and a coverage report, all of what schema.tsv says, and all true."""

from collections import defaultdict
from pathlib import Path
import csv
import subprocess

from openapi_spec_validator import validate
import jsonschema
import pyarrow.parquet as pq
import pytest
import yaml

import coverage_profiles
import profiles

SCHEMA = Path(__file__).parents[2] / "formats" / "schema"


def read_tsv(name):
    with open(SCHEMA / name, newline="") as f:
        return list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))


COLUMNS = defaultdict(list)
for _row in read_tsv("schema.tsv"):
    COLUMNS[_row["table"]].append(_row)
NAMES = {f"{table}.{row['field']}" for table, rows in COLUMNS.items() for row in rows}


def schema(*options):
    return profiles.run(profiles.BIN / "kymo", "schema", *options)


@pytest.fixture(scope="module")
def document():
    return yaml.safe_load(schema("--format", "yaml"))


def test_yaml_is_openapi(document):
    validate(document)
    assert document["openapi"].startswith("3.0") and document["info"]["version"] == "7.4.0"


def test_yaml_is_the_schema(document):
    tables = document["components"]["schemas"]
    assert list(tables) == [t["table"] for t in read_tsv("tables.tsv")]
    for name, rows in COLUMNS.items():
        assert list(tables[name]["properties"]) == [r["field"] for r in rows]
        assert tables[name].get("required", []) == [r["field"] for r in rows if r["required"] == "1"]
        for row in rows:
            got = tables[name]["properties"][row["field"]]
            kind = got["items"] if row["type"] == "array" else got
            assert got["type"] == row["type"] and got["description"] == row["description"]
            assert kind.get("format", kind["type"] if row["type"] == "array" else "") == row["format"]
            known = row["enum_values"].split(",") if row["enum_values"] else []
            # What a required column holds for lack of inputs is a value too.
            empty = row["empty"].strip('"')
            known += [empty] if known and row["required"] == "1" and empty not in known else []
            assert got.get("enum", []) == ([int(v) for v in known] if row["type"] == "integer" else known)
            assert got.get("x-unit", "") == row["unit"]
            assert got.get("x-kymo-own", False) == (row["own"] == "1")


def test_rows_are_of_the_document(document, all_profiles):
    """Rows of written tables are objects as the document describes them; an optional column that is null is absent."""
    for path in sorted(all_profiles[0].glob("*.parquet")):
        validator = jsonschema.Draft4Validator(document["components"]["schemas"][path.stem])
        for row in pq.read_table(path).slice(0, 20).to_pylist():
            validator.validate({k: v for k, v in row.items() if v is not None})


def test_list_and_markdown():
    lines = [line.split("\t") for line in schema().splitlines()]
    assert {line[0] for line in lines} == NAMES and len(lines) == len(NAMES)
    text = schema("--format", "markdown")
    for table, rows in COLUMNS.items():
        assert f"\n## {table}" in text
        for row in rows:
            assert f"\n| `{row['field']}` | " in text
    # Nothing breaks a row of a table.
    assert all(line.replace("\\|", "").count("|") == 6 for line in text.splitlines() if line.startswith("|"))
    one = schema("--format", "yaml", "CcOp", "Flow")
    assert list(yaml.safe_load(one)["components"]["schemas"]) == ["CcOp", "Flow"]


def test_refusals():
    for options, code, text in ((("Nothing",), 1, "no table Nothing"), (("--format", "xml"), 2, "xml")):
        done = subprocess.run([profiles.BIN / "kymo", "schema", *options], capture_output=True, text=True, timeout=60)
        assert done.returncode == code and text in done.stderr and not done.stdout


def coverage():
    """Table.column to (filled, text), as kymo prints it."""
    found = {}
    for line in schema("--coverage").splitlines():
        name, text = line.split("\t")
        state, text = text.split(": ", 1)
        assert state in ("filled", "empty") and name not in found
        found[name] = state == "filled", text
    return found


def test_coverage_is_complete():
    """Every column once, each with what it is filled from or why it is empty; every row of coverage.tsv is about something."""
    told = coverage()
    assert set(told) == NAMES
    missing = [name for name, (_, text) in told.items() if "coverage.tsv" in text or not text.strip()]
    assert not missing, f"formats/schema/coverage.tsv lacks these columns: {missing}"
    rows = [row["name"] for row in read_tsv("coverage.tsv")]
    assert len(rows) == len(set(rows))
    stray = [name for name in rows if name not in NAMES]
    assert not stray, f"formats/schema/coverage.tsv names what is not in schema.tsv: {stray}"


def test_coverage_is_column_by_column():
    """A text is of its column: within a table each stands once, and over tables only columns of one name share one."""
    by_text, alike = defaultdict(list), []
    for name, (_, text) in coverage().items():
        by_text[text].append(name.split("."))
    for text, names in by_text.items():
        tables, columns = {table for table, _ in names}, {column for _, column in names}
        if len(tables) < len(names) or len(columns) > 1:
            alike.append((text, [".".join(name) for name in names]))
    assert not alike, f"formats/schema/coverage.tsv says the same of different columns: {alike}"
    # Columns whose words are about themselves name another thing than their own name.
    bare = [name for name, (_, text) in coverage().items() if text.strip() == name.split(".")[1]]
    assert not bare and max(map(len, by_text.values())) <= 8


def test_coverage_is_true(all_profiles):
    """A column said to be filled says something in some profile; one said to be empty says nothing in any."""
    empties = {f"{t}.{r['field']}": "" if r["empty"] in ('""', "[]") else r["empty"] for t, rows in COLUMNS.items() for r in rows}
    found = coverage_profiles.columns_that_say_something(all_profiles, empties)
    told = coverage()
    wrong = [f"{name}: coverage.tsv says it is filled, but no profile of coverage_profiles.py has a value: say why it is empty, "
             "or add the profile that fills it" for name, (filled, _) in told.items() if filled and name not in found]
    wrong += [f"{name}: coverage.tsv says it is empty, but profiles have values: say what it is filled from"
              for name, (filled, _) in told.items() if not filled and name in found]
    assert not wrong, "formats/schema/coverage.tsv is not true:\n" + "\n".join(wrong)
