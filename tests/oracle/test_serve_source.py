"""Source files as kymo-query --serve gives them, against the tables; and names of files that would lead elsewhere."""

import json
import re

import pyarrow.parquet as pq
import pytest

import profiles
from profiles import Cell
import serve_client


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    return profiles.make_tables(folder, Cell("attention", "trn2", 2, executions=1))[0]


@pytest.fixture(scope="module")
def server():
    s = serve_client.Server("--timeout", "60")
    yield s
    assert s.close() == 0


def places(directory):
    """(file, line) to instructions: their own locations and all frames of their stacks, from the tables alone."""
    read = lambda name: pq.read_table(directory / f"{name}.parquet").to_pylist() if (directory / f"{name}.parquet").exists() else []
    functions = {r["id"]: r for r in read("StackFrameFileLocation")}
    names = {r["id"]: r["name"] for r in read("StackFrameFileName")}
    frames = {r["id"]: r for r in read("StackFrame")}
    kernel = {(r["kernel_instruction_name"], r["pcore_idx"]): r for r in read("KernelInstructions")}
    stack = {(r["stack_frame_id"], r["pcore_idx"]): r for r in read("KernelStackFrames")}
    found = {}
    for row in read("Instruction"):
        mine = set()
        for column in ("nki_source_location", "bir_debug_info_source_location"):
            match = re.fullmatch(r"(.+):(\d+)", row[column] or "")
            if match:
                mine.add((match[1], int(match[2])))
        for frame in re.findall(r"\d+", row["stack_frame_ids"] or ""):
            if frame in frames:
                location = functions[str(frames[frame]["file_location_id"])]
                mine.add((names[str(location["file_name_id"])], location["line_number"]))
        for core in {row["pcore_idx"], None}:
            at = kernel.get((row["kernel_instruction_name"], core))
            frame = at and stack.get((at["stack_frame_id"], at["pcore_idx"]))
            while frame:
                mine.add((frame["file_path"], frame["line_number"]))
                frame = stack.get((frame["parent_stack_frame_id"], frame["pcore_idx"]))
        for place in mine:
            found.setdefault(place, []).append(row)
    return found


def test_lines_are_those_of_the_tables(made, server):
    want = places(made)
    assert want
    files = {f["file"]: f for f in server.ask(made, "source")["files"]}
    assert set(files) >= {file for file, _ in want} and not any(f["available"] for f in files.values())
    for file in {file for file, _ in want}:
        got = server.ask(made, "source_lines", file=file)["lines"]
        assert {r["line"] for r in got} == {line for f, line in want if f == file}
        for row in got:
            rows = want[file, row["line"]]
            first = min(rows, key=lambda r: r["start_ts"])
            assert row["instructions"] == len(rows)
            assert row["time_ns"] == sum(r["end_ts"] - r["start_ts"] for r in rows)
            assert row["tensor_elements"] == sum(r["tensor_elements"] or 0 for r in rows)
            assert row["first"]["start_ts"] == first["start_ts"] and row["first"]["table"] == "Instruction"
        ids = {r["id"] for (f, _), rows in want.items() if f == file for r in rows}
        assert files[file]["instructions"] == len(ids)


def test_events_of_lines(made, server):
    want = places(made)
    extent = server.ask(made, "overview")["extent"]
    (file, line), rows = max(want.items(), key=lambda item: len(item[1]))
    packed = server.ask(made, "source_events", file=file, lines=str(line), from_=0, to=extent["to"] + 1, width=16384)
    starts = {int(s) for t in packed["tracks"] if t["id"].startswith("instruction:") for s in t["values"]["start"]}
    assert starts <= {r["start_ts"] for r in rows} and min(starts) == min(r["start_ts"] for r in rows)


@pytest.mark.parametrize("lines", ["", "x", "1-", "-1", "3-1", "1-99999999", "1,,2", "1;2", "9" * 40, "1 OR 1=1"])
def test_bad_lines(made, server, lines):
    with pytest.raises(serve_client.Failed) as e:
        server.ask(made, "source_events", file="x", lines=lines, from_=0, to=10, width=10)
    assert e.value.status == 400


def test_texts_and_names_that_lead_elsewhere(made, server, tmp_path):
    files = server.ask(made, "source")["files"]
    listed = {f["kind"]: f["file"] for f in files}
    for kind, file in listed.items():
        root = tmp_path / kind
        place = root / "x" / file.lstrip("/").split("/")[-1]
        place.parent.mkdir(parents=True)
        root_name = "framework_root" if kind == "framework" else "nki_root"
        # Only below the root, and only by ends of the name.
        with pytest.raises(serve_client.Failed) as e:
            server.ask(made, "source", file=file, **{root_name: root})
        assert e.value.status == 404
        (root / place.name).write_bytes(b"line one\n\xff<script>\n")
        got = server.ask(made, "source", file=file, **{root_name: root})
        assert got == {"file": file, "text": "line one\n?<script>\n"}
        assert any(f["available"] for f in server.ask(made, "source", **{root_name: root})["files"])
        (root / place.name).write_bytes(b"a\0b")
        with pytest.raises(serve_client.Failed, match="no text"):
            server.ask(made, "source", file=file, **{root_name: root})
        (root / place.name).write_bytes(b"x" * (4 << 20) + b"y")
        with pytest.raises(serve_client.Failed, match="too long"):
            server.ask(made, "source", file=file, **{root_name: root})
        (root / place.name).unlink()
        (tmp_path / "secret").write_text("secret")
        (root / place.name).symlink_to(tmp_path / "secret")
        with pytest.raises(serve_client.Failed):
            server.ask(made, "source", file=file, **{root_name: root})
        (root / place.name).unlink()
        (root / place.name).mkdir()
        with pytest.raises(serve_client.Failed):
            server.ask(made, "source", file=file, **{root_name: root})
    for name in ("../secret", "/etc/passwd", "..", "", "/", "x/../../secret", "'; DROP TABLE k.source_places; --", "a" * 5000, "secret"):
        for op in ("source", "source_lines"):
            with pytest.raises(serve_client.Failed) as e:
                server.ask(made, op, file=name, nki_root=tmp_path, framework_root=tmp_path)
            assert e.value.status == 404


def test_a_name_in_the_tables_that_leads_elsewhere(made, server, tmp_path):
    """The tables are not to be trusted either."""
    import pyarrow as pa
    import shutil
    directory = tmp_path / "profile"
    shutil.copytree(made, directory)
    table = pq.read_table(directory / "Instruction.parquet")
    names = ["../secret:1", "/../secret:2", f"{tmp_path}/secret:3", "x/../../secret:4", "proc/self/environ:5", "/etc/passwd:6"]
    at = table.schema.get_field_index("nki_source_location")
    values = [names[i % len(names)] for i in range(table.num_rows)]
    pq.write_table(table.set_column(at, table.schema.field(at), pa.array(values)), directory / "Instruction.parquet")
    (tmp_path / "secret").write_text("secret")
    root = tmp_path / "root"
    root.mkdir()
    files = [f["file"] for f in server.ask(directory, "source", nki_root=root)["files"]]
    for name in names:
        assert name[:-2] in files
        with pytest.raises(serve_client.Failed) as e:
            server.ask(directory, "source", file=name[:-2], nki_root=root)
        assert e.value.status == 404
