"""NKI regions and their instances as kymo-query --serve gives them, against instructions read by pyarrow."""

from collections import defaultdict

import pyarrow.parquet as pq
import pytest

import profiles
import serve_client

FIGURES = {"instructions": lambda r: 1, "time_ns": lambda r: r["end_ts"] - work(r), "wait_ns": lambda r: work(r) - r["start_ts"],
           "hardware_flops": lambda r: r["raw_flops"] or 0, "sbuf_read_bytes": lambda r: r["sbuf_read_bytes"] or 0,
           "psum_write_bytes": lambda r: r["psum_write_bytes"] or 0, "vector": lambda r: r["engine"] == "Vector"}


def work(row):
    return min(row["end_ts"], row["start_ts"] + (row["evt_wait_time_ns"] or 0))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return profiles.make_tables(tmp_path_factory.mktemp("regions"), profiles.Cell("attention", "trn2", 2, "nki"))[0]


@pytest.fixture(scope="module")
def server():
    s = serve_client.Server("--timeout", "60")
    yield s
    assert s.close() == 0


@pytest.fixture(scope="module")
def instances(made):
    """{(path, core): {number: rows}}, with nested regions' rows in those around them."""
    groups = defaultdict(list)
    for row in pq.read_table(made / "Instruction.parquet").to_pylist():
        parts = (row["nki_region_path"] or "").split("/")
        for depth in range(1, len(parts) + 1) if parts != [""] else ():
            groups["/".join(parts[:depth]), row["pcore_idx"], row["engine"]].append(row)
    found = defaultdict(lambda: defaultdict(list))
    for (path, core, _), rows in groups.items():
        head, number = min(r["pc"] for r in rows), 0
        for row in sorted(rows, key=lambda r: (r["start_ts"], r["id"])):
            number += row["pc"] == head
            found[path, core][number].append(row)
    return found


def figures(rows):
    return {name: sum(of(row) for row in rows) for name, of in FIGURES.items()}


def known(row):
    """What no instruction of a region says is null in the answer."""
    return {name: row[name] or 0 for name in FIGURES}


def span(rows):
    return min(map(work, rows)), max(r["end_ts"] for r in rows)


def test_regions(made, server, instances):
    answer = server.ask(made, "regions")
    assert not answer["truncated"] and {(r["path"], r["pcore"]) for r in answer["regions"]} == set(instances) != set()
    clock = pq.read_table(made / "Metadata.parquet").to_pylist()[0]
    peak = 2 * clock["tensor_engine_num_rows"] * clock["tensor_engine_num_cols"] * clock["tensor_engine_clock_freq"]
    for row in answer["regions"]:
        want = instances[row["path"], row["pcore"]]
        ends = [span(rows) for rows in want.values()]
        assert row["instances"] == len(want) and row["instance"] is None
        assert row["duration_ns"] == sum(end - start for start, end in ends)
        assert (row["start_ts"], row["end_ts"]) == (min(s for s, _ in ends), max(e for _, e in ends))
        every = [r for rows in want.values() for r in rows]
        assert known(row) == figures(every)
        flops = sum((r["raw_flops"] or 0) - (r["flops_transpose"] or 0) for r in every)
        assert (row["mfu_percent"] or 0) == pytest.approx(100 * flops / (peak * row["duration_ns"]))
        assert row["tensor"] + row["vector"] + row["scalar"] + row["gpsimd"] + row["sync"] == row["instructions"]


def test_instances(made, server, instances):
    for (path, core), want in instances.items():
        rows = server.ask(made, "regions", path=path, pcore=core)["instances"]
        assert [r["instance"] for r in rows] == list(range(1, len(want) + 1)) and {(r["path"], r["pcore"]) for r in rows} == {(path, core)}
        got = {(r["start_ts"], r["end_ts"]): known(r) for r in rows}
        assert got == {span(of): figures(of) for of in want.values()}
        # Heads of attention, each as often as the program ran: none is cut by loops inside it or by what runs in between.
        assert len({r["instructions"] for r in rows}) == 1


@pytest.mark.parametrize("path", ["no/such", "atten", "attend/", "' OR 1=1 --", "%"])
def test_no_such_region(made, server, path):
    assert server.ask(made, "regions", path=path) == {"instances": [], "truncated": False}


@pytest.mark.parametrize("core", ["-1", "x", "99999999999"])
def test_bad_core(made, server, core):
    with pytest.raises(serve_client.Failed) as refused:
        server.ask(made, "regions", pcore=core)
    assert refused.value.status == 400
