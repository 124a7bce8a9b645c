"""Search, summaries, operators and CSV of kymo-query --serve, against pandas on the same tables, of kymo's directories and of others."""

import io
import shutil

import duckdb
import numpy as np
import pandas as pd
import pytest

import profiles
import serve_client
from test_serve import CANONICAL, case, inside, made, read, server, windows  # pylint: disable=unused-import
from waits import waits_of

PEAK_COLUMNS = ["tensor_engine_num_rows", "tensor_engine_num_cols", "tensor_engine_clock_freq"]


def instructions_of(case):
    rows = read(case.directory, "Instruction").sort_values(["start_ts", "id"], kind="stable").reset_index(drop=True)
    rows["engine"] = [CANONICAL[e.lower()] for e in rows.engine]
    names = [c for c in ("operator", "layer", "hlo_name") if c in rows]
    rows["operator"] = rows[names].bfill(axis=1).iloc[:, 0].fillna("")
    rows["begin"] = rows.start_ts + waits_of(case.directory, rows)
    return rows


def within(rows, lo, hi):
    return rows[(rows.start_ts < hi) & ((rows.end_ts > lo) | (rows.start_ts >= lo))]


def covered(begins, ends, lo, hi):
    total, reach = 0, lo
    for b, e in sorted(zip(begins.clip(lo, hi), ends.clip(lo, hi))):
        total += max(0, e - max(b, reach))
        reach = max(reach, e)
    return total


def figures(rows, lo, hi):
    busy = rows.end_ts.clip(upper=hi) - rows.begin.clip(lower=lo)
    share = (busy.clip(lower=0) / (rows.end_ts - rows.begin)).fillna((rows.start_ts >= lo).astype(float))
    return {
        "instructions": len(rows), "time_ns": int((rows.end_ts.clip(upper=hi) - rows.start_ts.clip(lower=lo)).sum()),
        "wait_ns": int((rows.begin.clip(upper=hi) - rows.start_ts.clip(lower=lo)).clip(lower=0).sum()),
        "active_ns": covered(rows.begin, rows.end_ts, lo, hi), "flops": (share * rows.raw_flops.astype(float)).sum(),
        "moved": (share * rows.flops_transpose.astype(float)).sum(),
    }


def some_windows(case):
    extent = case.overview["extent"]
    return [(lo, hi) for lo, hi, _ in list(windows(extent))[2:5]]


def peak_of(case):
    row = read(case.directory, "Metadata").iloc[0]
    return 2 * np.prod([float(row[c]) for c in PEAK_COLUMNS])


# Search

SEARCHES = [("operator", "operator", "partial", "DOT"), ("operator", "hlo_name", "exact", "dot.20"), ("instruction", "opcode", "exact", "MATMUL"),
            ("instruction", "opcode", "exact", "matmul"), ("instruction", "pc", "exact", "5"), ("instruction", "pc", "exact", "05"),
            ("instruction", "pc", "partial", "7"), ("instruction", "operands", "partial", "' or 1=1 --"), ("dma", "queue_name", "partial", "sync"),
            ("dma", "id", "exact", "12"), ("dma", "variable", "partial", "%_")]


def matches(case, category, field, match, value):
    rows = instructions_of(case) if category != "dma" else read(case.directory, "DmaPacketAggregated").sort_values(["start_ts", "id"])
    if field not in rows:
        return rows[:0]
    if field == "operator":
        rows = rows[rows.operator != ""]
    rows = rows[rows[field].notna()]
    texts = rows[field].astype("int64").astype(str) if pd.api.types.is_numeric_dtype(rows[field]) else rows[field].astype(str)
    return rows[[t == value if match == "exact" else value.lower() in t.lower() for t in texts]]


@pytest.mark.parametrize("category,field,match,value", SEARCHES)
def test_search(case, category, field, match, value):
    wanted = matches(case, category, field, match, value)
    kind = "dma_transfer" if category == "dma" else "instruction"
    tracks = case.events[kind].set_index("id").track
    for page, size in ((0, 20), (3, 7), (10**6, 20)):
        answer = case("search", category=category, field=field, match=match, value=value, page=page, size=size)
        assert (answer["total"], answer["more"], answer["page"], answer["size"]) == (len(wanted), False, page, size)
        rows = wanted.iloc[page * size : (page + 1) * size]
        assert [h["id"] for h in answer["hits"]] == rows.id.to_list()
        for hit, row in zip(answer["hits"], rows.itertuples()):
            assert (hit["start_ts"], hit["end_ts"], hit["track"]) == (row.start_ts, row.end_ts, tracks[row.id])
            assert hit["table"] == ("DmaPacketAggregated" if category == "dma" else "Instruction")
            assert value.lower() in hit["value"].lower() and hit["pcore"] == row.pcore_idx
            assert hit["label"] == (row.opcode if category != "dma" else row.variable or row.queue_name)


@pytest.mark.parametrize("category,field,match,value", [SEARCHES[0], SEARCHES[2], SEARCHES[8]])
def test_marks(case, category, field, match, value):
    found = set(matches(case, category, field, match, value).id)
    kinds = ["dma_transfer", "dma_engine", "dma_queue"] if category == "dma" else ["instruction", "instruction_split"]
    for lo, hi, width in list(windows(case.overview["extent"]))[1:5:2]:
        answer = case("search", category=category, field=field, match=match, value=value, marks=1, from_=lo, to=hi, width=width)
        got = {t["id"]: t["values"] for t in answer["tracks"]}
        pixel = max(1, (hi - lo) // width)
        wanted = {}
        for kind in kinds:
            events = inside(case.events[kind], lo, hi)
            if not len(events):
                continue
            keys = events.packet_aggregation_id if kind in ("dma_engine", "dma_queue") else events.id
            events = events[[k in found for k in keys]]
            if kind == "instruction_split":
                events = events[~events.track.str.contains("TensorMatrix")]
            wanted.update(dict(list(events.groupby("track"))))
        assert set(got) == set(wanted)
        for track, events in wanted.items():
            marks = list(zip(got[track]["start"].tolist(), got[track]["end"].tolist()))
            wide = events[events.end_ts - events.start_ts >= pixel]
            assert set(zip(wide.start_ts, wide.end_ts)) <= set(marks)
            assert len(marks) <= len(wide) + (hi - lo) // pixel + 2 and len(marks) <= len(events)
            assert {s for s, _ in marks} <= set(events.start_ts) and {e for _, e in marks} <= set(events.end_ts)
            starts, ends = np.array(sorted(marks)).T
            reach = np.maximum.accumulate(ends)[np.searchsorted(starts, events.start_ts, "right") - 1]
            assert (reach >= events.end_ts).all()


@pytest.mark.parametrize("params", [{"category": "x", "field": "opcode"}, {"category": "dma", "field": "opcode"}, {"category": "instruction", "field": '"'},
                                    {"category": "instruction"}, {"category": "instruction", "field": "pc", "size": 1001},
                                    {"category": "instruction", "field": "pc", "match": "like"}], ids=str)
def test_search_refuses(case, params):
    with pytest.raises(serve_client.Failed) as refused:
        case("search", value="x", **params)
    assert refused.value.status == 400


# Summary


def check_flops(told, wanted, could):
    if not wanted["flops"]:
        assert not told["hardware_flops"] and not told["mfu_percent"]
        return
    assert told["hardware_flops"] == pytest.approx(wanted["flops"], abs=1)
    assert told["hfu_percent"] == pytest.approx(100 * wanted["flops"] / could)
    assert told["mfu_percent"] == pytest.approx(100 * (wanted["flops"] - wanted["moved"]) / could)


def check_engines(answer, rows, lo, hi, peak):
    groups = {k: figures(g, lo, hi) for k, g in rows.groupby(["engine", "pcore_idx"])}
    assert {(e["engine"], e["pcore"]) for e in answer["engines"]} == set(groups)
    for told in answer["engines"]:
        wanted = groups[told["engine"], told["pcore"]]
        assert {k: told[k] for k in ("instructions", "time_ns", "wait_ns", "active_ns")} == {k: wanted[k] for k in ("instructions", "time_ns", "wait_ns", "active_ns")}
        assert told["active_percent"] == pytest.approx(100 * wanted["active_ns"] / (hi - lo))
        check_flops(told, wanted, peak * (hi - lo))


def test_summary(case):
    every, packets, transfers = instructions_of(case), read(case.directory, "DmaPacket"), read(case.directory, "DmaPacketAggregated")
    waits = read(case.directory, "WaitCause")
    for lo, hi in some_windows(case):
        answer = case("summary", from_=lo, to=hi)
        rows = within(every, lo, hi)
        whole = figures(rows, lo, hi)
        assert (answer["duration_ns"], answer["instructions"]) == (hi - lo, len(rows))
        check_flops(answer["flops"], whole, peak_of(case) * (hi - lo))
        check_engines(answer, rows, lo, hi, peak_of(case))
        begun = rows[rows.start_ts >= lo]
        for column in ("hbm_read_bytes", "sbuf_write_bytes", "psum_read_bytes", "spill_save_bytes"):
            assert (answer["memory"][column] or 0) == begun[column].sum(), column
        for name, keys in (("opcodes", ["engine", "opcode"]), ("operators", ["operator"])):
            groups = rows.groupby(keys if len(keys) > 1 else keys[0]).apply(lambda g: figures(g, lo, hi)["time_ns"], include_groups=False)
            told = {tuple(r[k] for k in keys): r["time_ns"] for r in answer[name]}
            assert len(told) == min(20, len(groups)), name
            if not told:
                continue
            assert all(groups[k if len(keys) > 1 else k[0]] == v for k, v in told.items())
            assert min(told.values()) >= (sorted(groups, reverse=True) + [0] * 20)[19]
        p = within(packets, lo, hi)
        assert answer["dma"]["packets"] == len(p)
        assert answer["dma"]["packet_bytes"] == p[p.start_ts >= lo].transfer_bytes.sum()
        assert answer["dma"]["active_ns"] == covered(p.start_ts, p.end_ts, lo, hi)
        t = within(transfers, lo, hi)
        queues = t[t.start_ts >= lo].groupby(["queue_name", "pcore_idx"]).transfer_bytes.sum()
        assert all(queues.get((q["queue"], q["pcore"]), 0) == q["transfer_bytes"] for q in answer["queues"])
        assert ("waits" in answer) == case.own
        if case.own:
            kinds = within(waits, lo, hi).groupby("dependency_type").size().to_dict()
            assert {w["dependency_type"]: w["count"] for w in answer["waits"]} == kinds
            h = within(read(case.directory, "HostDmaTransfer"), lo, hi)
            assert answer["host_dma"]["transfers"] == len(h)


def test_summary_of_the_whole_is_that_of_the_table(case):
    extent, table = case.overview["extent"], read(case.directory, "Summary").iloc[0]
    answer = case("summary", from_=extent["from"], to=extent["to"] + 1)
    assert answer["flops"]["hardware_flops"] == table.hardware_flops
    assert answer["flops"]["transpose_flops"] == table.transpose_flops
    assert answer["memory"]["hbm_read_bytes"] <= table.hbm_read_bytes
    assert sum(e["instructions"] for e in answer["engines"] if e["engine"] == "Vector") == table.vector_engine_instruction_count


def test_summary_of_a_box(case):
    every = instructions_of(case)
    joined = case.events["instruction"].set_index("id").track
    for lo, hi in some_windows(case)[1:]:
        ids = ["instruction:Vector(nc0)", "instruction:TensorMatrix(nc1)", "dma_engine:DMA-E3(nc0)"]
        answer = case("summary", from_=lo, to=hi, tracks=",".join(ids))
        rows = within(every, lo, hi)
        rows = rows[joined[rows.id].isin(ids).to_numpy()]
        assert answer["instructions"] == len(rows)
        check_engines(answer, rows, lo, hi, peak_of(case))
        packets = within(case.events["dma_engine"], lo, hi)
        packets = packets[packets.track == ids[2]]
        assert answer["dma"]["packets"] == len(packets) and answer["events"] == len(rows) + len(packets)
        assert answer["dma"]["active_ns"] == covered(packets.start_ts, packets.end_ts, lo, hi)
        assert not {"queues", "host_dma", "throttling"} & set(answer)
        told = {t["track"]: t for t in answer["tracks"]}
        for track in ids:
            kind, label = track.split(":")
            events = within(case.events[kind], lo, hi)
            events = events[events.track == track]
            assert told.get(label, {"events": 0})["events"] == len(events)
            if len(events):
                begin = events.start_ts + (events.wait if "wait" in events else 0)
                assert told[label]["active_ns"] == covered(begin, events.end_ts, lo, hi)
    nothing = case("summary", from_=0, to=1000, tracks="instruction:none")
    assert nothing["instructions"] == 0 and nothing["tracks"] == []
    if case.own:
        split = case("summary", from_=0, to=10**9, tracks="instruction_split:Vector Compute(nc0)")
        assert split["instructions"] == len(every[(every.engine == "Vector") & (every.executed_by == "compute") & (every.pcore_idx == 0)])


# Operators


def level(rows, path):
    """The rows below a path, by the kind and name of the child that they are in."""
    rows = rows[(rows.operator == path) | rows.operator.str.startswith(path + "/")] if path else rows
    left = rows.operator.str[len(path) + 1 if path else 0 :]
    own = (rows.operator == path) & bool(path)
    kind = np.where(rows.operator == "", "none", np.where(own, "hlo", "framework"))
    name = np.where(own, rows.hlo_name.fillna(""), left.str.split("/").str[0])
    return dict(list(rows.assign(kind=kind, name=np.where(kind == "none", "no operator", name)).groupby(["kind", "name"])))


def check_operators(case, told, groups, lo, hi):
    peak = peak_of(case)
    assert {(r["kind"], r["name"]) for r in told} == set(groups)
    for row in told:
        rows = groups[row["kind"], row["name"]]
        wanted = figures(rows, lo, hi)
        for name in ("instructions", "time_ns", "wait_ns", "active_ns"):
            assert row[name] == wanted[name], (row["name"], name)
        assert (row["start_ts"], row["end_ts"]) == (rows.start_ts.min(), rows.end_ts.max())
        check_flops(row, wanted, peak * wanted["active_ns"] * rows.pcore_idx.nunique())
        for engine in CANONICAL:
            assert row[engine] == (rows.engine == CANONICAL[engine]).sum()
        assert (row["hbm_read_bytes"] or 0) == rows[rows.start_ts >= lo].hbm_read_bytes.sum()


def test_operators(case):
    every, extent = instructions_of(case), case.overview["extent"]
    for lo, hi in [(None, None), some_windows(case)[1]]:
        window = {} if lo is None else {"from_": lo, "to": hi}
        lo, hi = (extent["from"], extent["to"] + 1) if lo is None else (lo, hi)
        rows = within(every, lo, hi)
        left = [None]
        for depth in range(6):
            deeper = []
            for parent in left[:2]:
                answer = case("operators", **window, **({"parent": parent["id"]} if parent else {}))
                assert answer["total"] == len(answer["rows"]) and not answer["truncated"]
                starts = [r["start_ts"] for r in answer["rows"]]
                assert starts == sorted(starts)
                if parent and parent["kind"] in ("hlo", "none"):
                    below = rows[(rows.operator == parent["path"]) & (rows.hlo_name.fillna("") == (parent["hlo"] or ""))]
                    groups = {("opcode", f"{e} {o}"): g for (e, o), g in below.groupby(["engine", "opcode"])}
                    assert not any(r["expandable"] for r in answer["rows"])
                else:
                    groups = level(rows, parent["path"] if parent else "")
                check_operators(case, answer["rows"], groups, lo, hi)
                deeper += [r for r in answer["rows"] if r["expandable"]]
            left = deeper
        assert not left


def test_operators_are_sorted_filtered_and_paged(case):
    layer = next(r for r in case("operators")["rows"] if r["kind"] == "framework")
    layer = max(case("operators", parent=layer["id"])["rows"], key=lambda r: r["instructions"])
    every = case("operators", parent=layer["id"])["rows"]
    for column in ("mfu_percent", "name"):
        for sign in ("", "-"):
            rows = case("operators", parent=layer["id"], sort=sign + column)["rows"]
            known = [r[column] for r in rows if r[column] is not None]
            assert known == sorted(known, reverse=bool(sign))
            assert [r[column] is None for r in rows] == sorted(r[column] is None for r in rows)
            pages = [case("operators", parent=layer["id"], sort=sign + column, page=p, size=4) for p in range(3)]
            assert [r["id"] for p in pages for r in p["rows"]][: len(rows)] == [r["id"] for r in rows][:12]
    found = case("operators", parent=layer["id"], filter="TRANSPOSE")["rows"]
    assert found and {r["id"] for r in found} < {r["id"] for r in every}
    assert all(r == next(e for e in every if e["id"] == r["id"]) for r in found), "figures stay whole"
    assert case("operators", filter="no such name")["rows"] == []
    assert case("operators", parent="framework:' or 1=1 --")["rows"] == []
    for bad in ({"parent": "x"}, {"sort": "id; drop"}, {"size": 0}, {"from_": 5}):
        with pytest.raises(serve_client.Failed) as refused:
            case("operators", **bad)
        assert refused.value.status == 400


# CSV


def csv_of(case, table, lo, hi, **params):
    text = case("export", tables=table, from_=lo, to=hi, **params)
    return text, pd.read_csv(io.StringIO(text), low_memory=False)


@pytest.mark.parametrize("table", ["Instruction", "DmaPacketAggregated", "DmaPacket", "SemaphoreUpdate"])
def test_export(case, table):
    rows = read(case.directory, table)
    times = ("timestamp", "timestamp") if table == "SemaphoreUpdate" else ("start_ts", "end_ts")
    for lo, hi in some_windows(case)[:2]:
        wanted = rows[(rows[times[0]] < hi) & ((rows[times[1]] > lo) | (rows[times[0]] >= lo))]
        text, every = csv_of(case, table, lo, hi, mode="complete")
        assert every.columns[0] == "timeline_track" and list(every.columns).count("timeline_track") == 1
        assert list(every.columns[1:]) == [c for c in rows.columns if c != "timeline_track"]
        assert text.count("\r\n") == len(every) + 1
        assert sorted(every[times[0]]) == sorted(wanted[times[0]])
        if table != "SemaphoreUpdate":
            assert sorted(every.id) == sorted(wanted.id) and sorted(every.duration_ns) == sorted(wanted.duration_ns)
        _, sampled = csv_of(case, table, lo, hi, width=50)
        assert sampled.columns[-1] == "events_in_sample" and sampled.events_in_sample.sum() == len(wanted)
        assert (sampled.groupby("timeline_track").size() <= 50).all()
        assert sampled[times[0]].is_monotonic_increasing


@pytest.mark.parametrize("table", ["DmaPacket", "Instruction"])
def test_export_is_that_of_the_program(case, tmp_path, table):
    """Which reads all columns of all rows; of instructions, the server reads those of the chosen rows only."""
    lo, hi = some_windows(case)[1]
    for params, options in (({"mode": "complete"}, []), ({"width": 300}, ["--sample", "300"])):
        directory = tmp_path / "-".join(params)
        profiles.run(profiles.BIN / "kymo", "export", case.directory, "-f", "csv", "-o", directory, "--start", lo, "--end", hi, "-t", table, *options)
        wanted = (directory / f"{table}.csv").read_bytes().decode()
        assert case("export", tables=table, from_=lo, to=hi, **params) == wanted


def test_export_of_a_table_in_any_order(tmp_path, server, made):
    rows = duckdb.connect()
    target = tmp_path / "shuffled"
    target.mkdir()
    source = made["foreign"] / "DmaPacket_*.parquet"
    shutil.copy(made["foreign"] / "Metadata.parquet", target)
    rows.execute(f"copy (select * from '{source}' order by hash(id)) to '{target}/DmaPacket.parquet'")
    whole = {"from_": 0, "to": 10**9, "tables": "DmaPacket", "width": 40}
    got, wanted = (pd.read_csv(io.StringIO(server.ask(d, "export", **whole)), low_memory=False) for d in (target, made["foreign"]))
    columns = ["timeline_track", "start_ts", "duration_ns", "events_in_sample"]
    assert got.start_ts.is_monotonic_increasing and sorted(got[columns].itertuples(index=False)) == sorted(wanted[columns].itertuples(index=False))


def test_export_refuses(case):
    for params, status in (({}, 400), ({"tables": "Instruction,DmaPacket"}, 400), ({"tables": "Nothing"}, 404), ({"tables": 'x" limit 1 --'}, 404),
                           ({"tables": "Metadata"}, 400), ({"tables": "Instruction", "mode": "all"}, 400)):
        with pytest.raises(serve_client.Failed) as refused:
            case("export", from_=0, to=10, width=5, **params)
        assert refused.value.status == status, params
    with pytest.raises(serve_client.Failed):
        case("export", tables="Instruction", from_=0, to=10)
