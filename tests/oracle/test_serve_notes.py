"""What the overview says of a profile in words: rows of Warning."""

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import profiles
from profiles import Cell
import serve_client


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return profiles.make_tables(tmp_path_factory.mktemp("notes"), Cell("attention", "trn2", 1, executions=1, small=True))[0]


@pytest.fixture(scope="module")
def server():
    s = serve_client.Server()
    yield s
    assert s.close() == 0


def with_warnings(made, place, rows):
    """A copy of the profile whose Warning has these rows (category, message); None: no such table."""
    shutil.copytree(made, place)
    (place / "Warning.parquet").unlink(missing_ok=True)
    if rows is not None:
        columns = {name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate(("category", "message"))}
        pq.write_table(pa.table(columns), place / "Warning.parquet")
    return place


def test_notes_are_the_rows_of_warning(made, server, tmp_path):
    rows = [("Wrong NEFF", "give the NEFF that was loaded"), ("Lower bounds", "HBM and SBUF bytes are lower bounds"), (None, 'a "text"\n\\ of more lines'),
            ("Lower bounds", None)]
    overview = server.ask(with_warnings(made, tmp_path / "some", rows), "overview")
    assert overview["warnings"] == 4
    wanted = sorted((category or "", message or "") for category, message in rows)
    assert overview["notes"] == [{"category": category, "message": message} for category, message in wanted]
    own = pq.read_table(made / "Warning.parquet").to_pylist() if (made / "Warning.parquet").exists() else []
    overview = server.ask(made, "overview")
    assert overview["warnings"] == len(own)
    assert overview["notes"] == sorted(({"category": w["category"], "message": w["message"]} for w in own), key=lambda w: (w["category"], w["message"]))


@pytest.mark.parametrize("rows", [[], None], ids=["empty", "absent"])
def test_without_warnings(made, server, tmp_path, rows):
    overview = server.ask(with_warnings(made, tmp_path / "none", rows), "overview")
    assert overview["warnings"] == 0 and overview["notes"] == []


def test_notes_are_bounded(made, server, tmp_path):
    """A hundred of them, and no text without end; the count is of all."""
    overview = server.ask(with_warnings(made, tmp_path / "many", [(f"c{i:03}", f"{i:03}" + "ä" * 5000) for i in range(250)]), "overview")
    assert overview["warnings"] == 250
    assert overview["notes"] == [{"category": f"c{i:03}", "message": f"{i:03}" + "ä" * 1997} for i in range(100)]


def test_warnings_that_are_damaged_inside(made, server, tmp_path):
    """The file ends as it should: the profile opens, and says what is wrong."""
    path = with_warnings(made, tmp_path / "damaged", [("a", f"{i} text of a warning") for i in range(1000)]) / "Warning.parquet"
    data = path.read_bytes()
    path.write_bytes(data[:4] + b"\xff" * 500 + data[504:])
    overview = server.ask(path.parent, "overview")
    assert overview["warnings"] == 0 and overview["notes"] == []
    why = [m["why"] for m in overview["missing"] if m["what"] == "Warning"]
    assert len(why) == 1 and why[0] and "/proc" not in why[0]
