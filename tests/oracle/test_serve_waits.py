"""Waits beyond what the hardware's counter holds: all figures of kymo-query --serve rest on WaitCause there, of kymo's own files, of
tables written by others, and without WaitCause on what was counted."""

import json
import shutil
import types

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import profiles
from profiles import Cell
import serve_client
import test_serve
import test_serve_ops
from test_serve import CANONICAL, SETTINGS, SOURCES, events_of, read, server  # pylint: disable=unused-import
from waits import beyond_counters, waits_of

SUMS = {"LevelOfDetail", "WindowSums", "WaitSums"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    directory = tmp_path_factory.mktemp("waits")
    own, _ = profiles.make_tables(directory, Cell("allreduce", "trn2", 2, "straggler", executions=1, options=("--slow-rank", "1:100")))
    rewritten, counted = directory / "rewritten", directory / "counted"
    rewritten.mkdir()
    for path in own.glob("*.parquet"):
        if path.stem not in SUMS:
            pq.write_table(pq.read_table(path), rewritten / path.name, compression="snappy", row_group_size=1000)
    shutil.copytree(rewritten, counted, ignore=shutil.ignore_patterns("WaitCause.parquet", "ActiveTime.parquet"))
    return {"own": own, "rewritten": rewritten, "counted": counted}


@pytest.fixture(scope="module", params=["own", "rewritten", "counted"])
def case(request, made, server):
    directory = made[request.param]

    def ask(op, **params):
        return server.ask(directory, op, **params)

    ask.directory, ask.own = directory, request.param != "counted"
    ask.overview = ask("overview")
    ask.events = {kind: events_of(directory, kind) for kind in SOURCES}
    return ask


@pytest.mark.parametrize("version", ["1.1.0", "1.1.9", "0.9", "", None, "x"])
def test_sums_of_an_older_program_are_not_used(made, server, tmp_path, version):
    """They had what was counted. Newer ones are used, whatever they say."""
    def spoiled(name, version):
        place = shutil.copytree(made["own"], tmp_path / name)
        for table, change in (("WindowSums", {"wait_ns": 7}), ("Metadata", {"kymo_schema_version": version})):
            rows = pq.read_table(place / f"{table}.parquet")
            for column, value in change.items():
                field = rows.schema.field(column)
                rows = rows.set_column(rows.schema.get_field_index(column), field.with_nullable(True), pa.array([value] * len(rows), field.type))
            pq.write_table(rows, place / f"{table}.parquet")
        return place

    def summary(place):
        extent = server.ask(place, "overview")["extent"]
        return server.ask(place, "summary", from_=extent["from"], to=extent["to"] + 1)

    assert summary(spoiled("old", version)) == summary(made["own"])
    assert summary(spoiled("new", "1.2.0")) != summary(made["own"])
    assert summary(spoiled("later", "1.10.3")) != summary(made["own"])


def test_there_are_such_waits(case):
    """Otherwise nothing here tells anything."""
    rows = read(case.directory, "Instruction")
    more = waits_of(case.directory, rows) - rows.evt_wait_time_ns.fillna(0).astype("int64")
    assert more.min() == 0 and ((more > 0).sum() > 10) == case.own and len(beyond_counters(case.directory)) == (more > 0).sum()


@pytest.mark.parametrize("settings", SETTINGS[:2], ids=str)
def test_timeline(case, settings):
    test_serve.test_timeline(case, settings)


def test_summary(case):
    test_serve_ops.test_summary(case)


def test_operators(case):
    test_serve_ops.test_operators(case)


@pytest.mark.parametrize("kind", ["instruction", "instruction_split"])
def test_boxes(case, kind):
    """All tracks of a kind, and one by one."""
    every, peak = test_serve_ops.instructions_of(case), test_serve_ops.peak_of(case)
    events = case.events[kind]
    events = events[~events.track.str.startswith("instruction_split:TensorMatrix")]  # there is one such track, of the other kind
    tracks, track_of = sorted(set(events.track)), events.set_index("id").track
    every = every[every.id.isin(events.id)]
    for lo, hi in test_serve_ops.some_windows(case)[1:]:
        for box in [tracks] + [[t] for t in tracks]:
            rows = test_serve_ops.within(every, lo, hi)
            rows = rows[track_of[rows.id].isin(box).to_numpy()]
            answer = case("summary", from_=lo, to=hi, tracks=",".join(box))
            test_serve_ops.check_engines(answer, rows, lo, hi, peak)
            active = {t["track"]: t["active_ns"] for t in answer["tracks"]}
            for track in box:
                own = rows[(track_of[rows.id] == track).to_numpy()]
                assert active.get(track.split(":")[1], 0) == test_serve_ops.covered(own.begin, own.end_ts, lo, hi)


def test_engines_wait_as_wait_cause_says(case):
    """Where a counter came to its end; otherwise the two are told by different clocks."""
    extent = case.overview["extent"]
    answer = case("summary", from_=extent["from"], to=extent["to"] + 1)
    want = read(case.directory, "Instruction")
    want = want.assign(wait=waits_of(case.directory, want)).groupby(["engine", "pcore_idx"]).wait.sum().to_dict()
    assert {(e["engine"], e["pcore"]): e["wait_ns"] for e in answer["engines"]} == want
    if case.own:
        (told,) = duckdb.sql(f"SELECT sum(wait_ns) FROM '{case.directory}/WaitCause.parquet'").fetchone()
        rows = len(read(case.directory, "WaitCause"))
        assert sum(w["wait_ns"] for w in answer["waits"]) == told and abs(sum(want.values()) - told) <= 3 * rows


def compare(server, directory):
    return server.ask(directory, "compare", dirs=json.dumps([[str(directory)], [str(directory)]]), names='[["a"], ["b"]]')


def busy_of(answer, part):
    return {r["key"]: r["sides"][0]["values"][0] for r in answer[part] if r["field"] == "busy_ns"}


def test_comparison(case, server):
    answer, rows = compare(server, case.directory), test_serve_ops.instructions_of(case)
    rows["busy"] = rows.end_ts - rows.begin
    assert busy_of(answer, "opcodes") == {f"{e} {o}": b for (e, o), b in rows.groupby(["engine", "opcode"]).busy.sum().items()}
    assert busy_of(answer, "operators") == rows[rows.operator != ""].groupby("operator").busy.sum().to_dict()


def test_opcode_summary_has_the_same_work(made, server):
    """The comparison adds up what the table covers: no more, and the same where no two of an opcode run at once."""
    busy, apart = busy_of(compare(server, made["own"]), "opcodes"), 0
    table = {(CANONICAL[r.engine], r.opcode): r.active_time_ns for r in read(made["own"], "OpcodeSummary").itertuples()}
    rows = test_serve_ops.instructions_of(types.SimpleNamespace(directory=made["own"]))
    for (engine, opcode), group in rows.groupby(["engine", "opcode"]):
        spans = sorted(zip(group.begin, group.end_ts))
        alone = all(end <= begin for (_, end), (begin, _) in zip(spans, spans[1:]))
        apart += alone
        told, wanted = busy[f"{engine} {opcode}"], table.pop((engine, opcode))
        assert told == wanted if alone else told >= wanted, (engine, opcode)
    assert apart > 5 and not table


def test_engines_are_active_as_active_time_says(made, server):
    extent = server.ask(made["own"], "overview")["extent"]
    active = read(made["own"], "ActiveTime")
    active = active.assign(ns=active.end_ts - active.start_ts, engine=active.engine.map(CANONICAL)).groupby(["engine", "pcore_idx"]).ns.sum().to_dict()
    tracks = ",".join(sorted(set(events_of(made["own"], "instruction").track)))
    for box in ({}, {"tracks": tracks}):
        for directory in (made["own"], made["rewritten"]):
            answer = server.ask(directory, "summary", from_=extent["from"], to=extent["to"] + 1, **box)
            assert {(e["engine"], e["pcore"]): e["active_ns"] for e in answer["engines"]} == active
