"""Profiles of many ranks and the fleet, as kymo-query --serve answers for them, against pandas on the same tables."""

import datetime
import json
import math
import os
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fleet_job
import gather_job
import profiles
import serve_client
from gather_job import Rank, UNIX
from profiles import Cell

TODAY = datetime.date(2026, 11, 30)


def read(directory, table):
    return pd.read_parquet(directory / f"{table}.parquet")


@pytest.fixture(scope="module")
def server():
    s = serve_client.Server("--timeout", "60")
    yield s
    assert s.close() == 0


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    return fleet_job.simulated_job(tmp_path_factory.mktemp("job"))


@pytest.fixture(scope="module")
def answer(job, server):
    parent, members = job
    return server.ask(parent, "ranks", members=fleet_job.members_text(members))


def test_ranks_are_the_members(job, answer):
    parent, members = job
    table, clocks = read(parent, "Member").set_index("profile"), read(parent, "ClockMap").set_index("profile")
    zero = table.first_unix_ns.min()
    assert int(answer["zero_unix_ns"]) == zero and answer["total"] == len(members) == len(answer["ranks"])
    assert answer["one_clock"] is True and answer["collectives"] == len(read(parent, "CollectiveSkew"))
    assert answer["extent"] == {"from": 0, "to": max(table.last_unix_ns.max(), read(parent, "CollectiveSkew").end_ns.max()) - zero}
    for row in answer["ranks"]:
        m, c = table.loc[row["profile"]], clocks.loc[row["profile"]]
        assert [row["rank"], row["host"], row["job"], row["worker"]] == [m["rank"], m.host, "train", m.worker]
        assert [row["from"], row["to"], row["offset_ns"]] == [m.first_unix_ns - zero, m.last_unix_ns - zero, c.offset_ns - zero]
        assert row["drift_ppm"] == pytest.approx(c.drift_ppm) and row["error_ns"] == row["device_error_ns"] == c.device_error_ns
        own = read(parent.parent / row["profile"], "Summary").iloc[0]
        assert row["mfu_percent"] == pytest.approx(own.mfu_estimated_percent) and row["hfu_percent"] == pytest.approx(own.hfu_estimated_percent)
        assert row["total_time"] == pytest.approx(own.total_time)


def test_the_slow_rank_is_the_outlier(job, answer):
    parent, _ = job
    skew, arrivals = read(parent, "CollectiveSkew"), read(parent, "CollectiveArrival")
    counted = skew[skew.significant.fillna(False)]
    assert answer["counted"] == len(counted) and answer["certain"] is True and answer["spread_ns"] == skew.spread_ns.max()
    met = arrivals.merge(counted, left_on="collective_id", right_on="id", suffixes=("", "_s"))
    for row in answer["ranks"]:
        mine = met[met.profile == row["profile"]]
        last = mine[mine.last_profile == row["profile"]]
        chance = 1 / mine.arrived
        score = (len(last) - chance.sum()) / math.sqrt((chance * (1 - chance)).sum())
        assert [row["counted"], row["last_arrivals"], row["caused_wait_ns"]] == [len(mine), len(last), last.spread_ns.sum()]
        assert row["wait_ns"] == arrivals[arrivals.profile == row["profile"]].wait_ns.sum()
        assert row["score"] == pytest.approx(score) and row["expected"] == pytest.approx(chance.sum())
        wanted = score >= 3 and last.spread_ns.sum() >= answer["extent"]["to"] / 1000
        assert row["outlier"] == wanted and (row["why"] is not None) == wanted
    first = answer["ranks"][0]
    assert first["rank"] == 2 and first["outlier"] and answer["outliers"] == 1
    assert f"{first['last_arrivals']} of {first['counted']}" in first["why"]
    assert [r["rank"] for r in answer["ranks"]] == [2, 0, 1, 3]


def test_orders_and_pages(job, server):
    parent, members = job
    ask = lambda **p: [r["rank"] for r in server.ask(parent, "ranks", members=fleet_job.members_text(members), **p)["ranks"]]
    assert ask(sort="rank") == [0, 1, 2, 3] and ask(sort="rank", page=1, size=3) == [3]
    left = lambda **p: server.ask(parent, "ranks", size=3, **p)["left_out"]
    assert [left(page=0), left(page=1), left(page=2)] == [1, 0, 0]
    waits = read(parent, "CollectiveArrival").groupby("profile").wait_ns.sum().sort_values(ascending=False)
    assert [f"train-node7-r{k}" for k in ask(sort="wait")] == list(waits.index)
    for wrong in ({"sort": "x"}, {"size": 257}, {"page": -1}):
        with pytest.raises(serve_client.Failed, match="400"):
            ask(**wrong)
    for op, more in (("ranks", {}), ("skew", {}), ("lanes", {"from_": 0, "to": 1, "width": 1, "names": "[]", "dirs": "[]"})):
        with pytest.raises(serve_client.Failed, match="404"):
            server.ask(members[0], op, **more)


def test_a_member_that_is_gone_costs_its_own_figures(job, server, tmp_path):
    parent, members = job
    bad = tmp_path / "r1"
    bad.mkdir()
    (bad / "Summary.parquet").write_bytes(b"PAR1 no table PAR1")
    text = json.dumps({members[0].name: str(members[0]), members[1].name: str(bad), members[2].name: str(tmp_path / "none"), members[3].name: "x"})
    rows = {r["rank"]: r for r in server.ask(parent, "ranks", members=text)["ranks"]}
    assert rows[0]["mfu_percent"] > 0 and all(rows[k]["mfu_percent"] is None for k in (1, 2, 3))
    unnamed = server.ask(parent, "ranks")
    assert all(r["mfu_percent"] is None for r in unnamed["ranks"]) and unnamed["figures"] is False
    assert server.ask(parent, "ranks", members=text)["figures"] is True


def test_skew_is_the_tables(job, server):
    parent, _ = job
    skew, arrivals = read(parent, "CollectiveSkew"), read(parent, "CollectiveArrival")
    zero = read(parent, "Member").first_unix_ns.min()
    got = server.ask(parent, "skew", size=1000, arrivals=1)
    wanted = skew.sort_values(["spread_ns", "first_arrival_ns", "id"], ascending=[False, True, True])
    assert got["total"] == len(skew) and [r["id"] for r in got["rows"]] == list(wanted.id) and not got["truncated"]
    for row, (_, w) in zip(got["rows"], wanted.iterrows()):
        assert [row["first"], row["last"], row["end"]] == [w.first_arrival_ns - zero, w.last_arrival_ns - zero, w.end_ns - zero]
        assert [row["operation"], row["spread_ns"], row["error_bound_ns"], row["significant"], row["last_profile"], row["last_rank"]] == [
            w.operation, w.spread_ns, w.error_bound_ns, w.significant, w.last_profile, w.last_rank]
        mine = arrivals[arrivals.collective_id == w.id].sort_values(["arrival_ns", "rank"])
        assert [(a["profile"], a["at"] + zero, a["late_ns"], a["wait_ns"]) for a in row["arrivals"]] == list(
            zip(mine.profile, mine.arrival_ns, mine.late_ns, mine.wait_ns))


def test_skew_is_filtered_and_paged(job, server):
    parent, members = job
    skew = read(parent, "CollectiveSkew")
    zero = read(parent, "Member").first_unix_ns.min()
    ids = lambda **p: [r["id"] for r in server.ask(parent, "skew", size=1000, **p)["rows"]]
    assert ids(sort="first") == list(skew.sort_values(["first_arrival_ns", "id"]).id)
    assert sorted(ids(operation="AllGather")) == list(skew[skew.operation == "AllGather"].id)
    assert sorted(ids(last=members[2].name, significant=1)) == list(skew[(skew.last_profile == members[2].name) & skew.significant].id)
    assert ids(id=5) == [5]
    middle = int(skew.first_arrival_ns.iloc[len(skew) // 2] - zero)
    inside = skew[(skew.first_arrival_ns - zero <= middle + 1000) & (skew.end_ns - zero >= middle)]
    assert sorted(ids(from_=middle, to=middle + 1000)) == list(inside.id) and 0 < len(inside) < len(skew)
    pages = [r["id"] for k in range(4) for r in server.ask(parent, "skew", page=k, size=20)["rows"]]
    assert pages == ids()[:80]
    for text in ("' OR 1=1 --", '"; DROP TABLE "Member"', "<b>"):
        assert ids(operation=text) == [] and ids(last=text) == []


def test_arrivals_of_a_long_page_are_cut(job, tmp_path):
    """Before they are put together: 400,000 arrivals would not fit into the memory; those of the first collectives are told."""
    parent, _ = job
    made = tmp_path / "many"
    shutil.copytree(parent, made)
    skew, arrivals = read(parent, "CollectiveSkew"), read(parent, "CollectiveArrival")
    count, each = 800, 500
    pick = lambda table, n: table.take(np.arange(n) % len(table)).reset_index(drop=True)
    many = pick(skew, count).assign(id=range(count), spread_ns=range(count, 0, -1), arrived=each, members=each)
    many.to_parquet(made / "CollectiveSkew.parquet")
    came = pick(arrivals, count * each)
    came["collective_id"], came["arrival_ns"] = np.repeat(range(count), each), came.arrival_ns.min() + np.arange(count * each) % 499
    came.to_parquet(made / "CollectiveArrival.parquet")
    server = serve_client.Server("--timeout", "60", "--memory", "128M")
    got = server.ask(made, "skew", size=1000, arrivals=1)
    assert server.close() == 0
    told = [len(r["arrivals"]) for r in got["rows"]]
    assert got["truncated"] and len(told) == count and sum(told) == 65536
    assert told == [each] * (65536 // each) + [65536 % each] + [0] * (count - 65536 // each - 1)
    times = [a["at"] for a in got["rows"][0]["arrivals"]]
    assert times == sorted(times)


def lanes(server, parent, members, lo, hi, width):
    return server.ask(parent, "lanes", from_=lo, to=hi, width=width, names=json.dumps([m.name for m in members]),
                      dirs=json.dumps([str(m) for m in members]))


def test_lanes_hold_the_arrivals(job, server, answer):
    parent, members = job
    arrivals, skew = read(parent, "CollectiveArrival"), read(parent, "CollectiveSkew").set_index("id")
    zero, end = read(parent, "Member").first_unix_ns.min(), answer["extent"]["to"]
    exact = lanes(server, parent, members, 0, end, 16384)
    tracks = {t["id"]: t for t in exact["tracks"]}
    assert set(tracks) == {f"{kind}:{m.name}" for kind in ("collective", "busy") for m in members}
    for m in members:
        rows = tracks[f"collective:{m.name}"]
        wanted = arrivals[arrivals.profile == m.name].sort_values(["arrival_ns", "collective_id"])
        columns = rows["values"]
        assert list(columns["id"]) == list(wanted.collective_id)
        assert list(columns["start"]) == list(wanted.arrival_ns - zero) and list(columns["end"]) == list(wanted.end_ns - zero)
        assert list(columns["late"]) == list(wanted.late_ns) and list(columns["error"]) == list(wanted.error_bound_ns)
        assert [bool(x) for x in columns["last"]] == [skew.last_profile[k] == m.name for k in wanted.collective_id]
        assert [exact["dict"][k] for k in columns["label"]] == [skew.operation[k] for k in wanted.collective_id]
    few = {t["id"]: t for t in lanes(server, parent, members, 0, end, 10)["tracks"]}
    for m in members:
        wanted = arrivals[arrivals.profile == m.name]
        pixels = (wanted.arrival_ns - zero) // (end // 10)
        columns = few[f"collective:{m.name}"]["values"]
        assert list(columns["count"]) == list(pixels.value_counts().sort_index())
        assert list(columns["late"]) == list(wanted.late_ns.groupby(pixels).max().sort_index())


def test_lanes_hold_how_busy_ranks_are(job, server, answer):
    """The busiest engine's part of each place, from the levels of detail, where the member's clock puts it."""
    parent, members = job
    end, width = answer["extent"]["to"], 50
    tracks = {t["id"]: t["values"] for t in lanes(server, parent, members, 0, end, width)["tracks"]}
    clocks = {r["profile"]: r for r in answer["ranks"]}
    for m in members:
        levels = read(m, "LevelOfDetail")
        levels = levels[levels.kind == "instruction"]
        pixel = end // width
        bucket = max([b for b in levels.bucket_ns if b <= pixel], default=levels.bucket_ns.min())
        step = max(bucket, pixel // bucket * bucket)  # whole buckets, so that none lies in two places
        chosen = levels[levels.bucket_ns == bucket]
        places = chosen.busy_ns.groupby([chosen.start_ts // step, chosen.timeline_track]).sum().unstack(fill_value=0).max(axis=1)
        got = tracks[f"busy:{m.name}"]
        clock = clocks[m.name]
        starts = [clock["offset_ns"] + p * step + int(clock["drift_ppm"] / 1e6 * p * step) for p in places.index]
        kept = [k for k, s in enumerate(starts) if s <= end]
        assert np.allclose(got["start"], [starts[k] for k in kept], atol=1)
        assert np.allclose(got["share"], [min(places.iloc[k] / step, 1) for k in kept])


def test_lanes_of_others(job, server, tmp_path):
    """A member without levels, one that is gone and a name that is none have lanes without rows."""
    parent, members = job
    bare = tmp_path / members[0].name
    shutil.copytree(members[0], bare)
    (bare / "LevelOfDetail.parquet").unlink()
    tracks = {t["id"]: t["n"] for t in lanes(server, parent, [bare, tmp_path / members[1].name, tmp_path / "x'--"], 0, 10**9, 100)["tracks"]}
    assert tracks[f"busy:{members[0].name}"] == tracks[f"busy:{members[1].name}"] == 0 and tracks[f"collective:{members[0].name}"] > 0
    assert tracks["collective:x'--"] == 0
    with pytest.raises(serve_client.Failed, match="400"):
        lanes(server, parent, [], 0, 1, 1)


def test_without_bounds_nothing_is_certain(server, tmp_path):
    """Hosts whose clocks nobody synchronised: the late rank is told, and that it is not certain."""
    ranks = [Rank(k, "ab"[k % 2], 0.0, UNIX, host_error=None) for k in range(4)]
    gather_job.run_job(ranks, steps=20)
    dirs = [gather_job.write_profile(tmp_path / f"r{r.number}", r, 5, 20 * 10**9, r.number) for r in ranks]
    parent = tmp_path / "parent"
    profiles.run(profiles.BIN / "kymo-gather", "--output", parent, *dirs)
    a = server.ask(parent, "ranks")
    assert not a["certain"] and not a["one_clock"] and a["counted"] == a["collectives"] and a["ranks"][0]["rank"] == 2
    assert a["ranks"][0]["outlier"] and "not known" in a["ranks"][0]["why"] and a["ranks"][0]["error_ns"] is None
    assert any(w["category"] == "Clock" for w in a["warnings"])


# The fleet

DAYS = [TODAY - datetime.timedelta(days=k) for k in range(16)]


@pytest.fixture(scope="module")
def new_fleet(tmp_path_factory):
    """Two jobs on three hosts over 16 days; rank 1 of train lost two fifths of its MFU this week."""
    directory = tmp_path_factory.mktemp("fleet")
    tables, _ = profiles.make_tables(directory, Cell("mlp", "trn2", 1, small=True, options=("--throttle", "activity_0:6/8@20+30")))
    made = directory / "fleet"
    for back, day in enumerate(DAYS[::5]):
        for job, rank, host in (("train", 0, "node1"), ("train", 1, "node2"), ("serve", 0, "node3")):
            scale = 0.6 if (job, rank) == ("train", 1) and 5 * back < 7 else 1 + back / 100
            fleet_job.publish(made, tables, f"{job}-{host}-r{rank}-{back}", day, back, "east" if job == "serve" else "west", scale,
                              job=job, rank=rank, host=host, capture=f"c{back}")
    return made


@pytest.fixture(scope="module", params=["whole", "older"])
def fleet(request, new_fleet):
    """As collectors make it now, and as older ones did, without FleetProfile."""
    if request.param == "whole":
        return new_fleet
    older = new_fleet.parent / "older"
    shutil.copytree(new_fleet, older)
    shutil.rmtree(older / "FleetProfile")
    return older


def rows_of(fleet):
    """One row per profile, as the fleet's tables have it."""
    def table(name):
        parts = [(p, pd.read_parquet(p)) for p in sorted((fleet / name).glob("date=*/cluster=*/*.parquet"))]
        return pd.concat([f.assign(day=p.parts[-3][5:], cluster=p.parts[-2][8:]) for p, f in parts])
    s = table("Summary").set_index("profile")
    x, t, lost = table("ExecutionInfo"), table("ThrottleSummary"), table("LossLedger")
    s["step"] = (x.execution_end_ts - x.execution_start_ts).groupby(x.profile).mean()
    t = t[t.throttle_type == "all"]
    s["throttled"] = t.throttle_active_time_percent.groupby(t.profile).mean()
    s["lost"] = lost.lost_records.fillna(0).groupby(lost.profile).sum()
    return s


def figures(rows):
    if not len(rows):
        return None
    weighted = lambda c: (rows[c] * rows.total_time).sum() / rows.total_time.sum()
    return {"profiles": len(rows), "mfu_percent": weighted("mfu_estimated_percent"), "hfu_percent": weighted("hfu_estimated_percent"),
            "time_s": rows.total_time.sum(), "step_ns": rows.step.mean(), "throttled_percent": rows.throttled.mean(), "lost_records": rows.lost.sum()}


def same(got, wanted):
    assert (got is None) == (wanted is None)
    for name, value in (wanted or {}).items():
        assert got[name] == pytest.approx(value, rel=1e-5), name


@pytest.mark.parametrize("group, keys", [("job", ["job"]), ("host", ["host"]), ("rank", ["job", "rank"]), ("cluster", ["cluster"])])
def test_fleet_is_the_tables(fleet, server, group, keys):
    got = server.ask(fleet, "fleet", group=group, to=TODAY, from_=DAYS[15])
    rows = rows_of(fleet)
    assert got["days"] == [str(d) for d in DAYS[::-1]] and got["profiles"] == len(rows) and got["last_day"] == str(TODAY) and got["first_day"] == str(DAYS[15])
    week, before = [str(d) for d in DAYS[:7]], [str(d) for d in DAYS[7:14]]
    groups = dict(list(rows.groupby(keys)))
    assert got["total"] == len(groups) == len(got["rows"])
    for row in got["rows"]:
        mine = groups[tuple(row["key"][k] for k in keys)]
        same(row["this_week"], figures(mine[mine.day.isin(week)]))
        same(row["week_before"], figures(mine[mine.day.isin(before)]))
        for day, one in zip(got["days"], row["days"]):
            same(one, figures(mine[mine.day == day]))
        assert row["delta"]["mfu_percent"] == pytest.approx(row["this_week"]["mfu_percent"] - row["week_before"]["mfu_percent"])
    losses = [r["delta"]["mfu_percent"] for r in got["rows"]]
    assert losses == sorted(losses)
    if group == "rank":
        assert got["rows"][0]["key"] == {"job": "train", "rank": 1} and losses[0] < 0


def test_fleet_is_filtered_and_paged(fleet, server):
    ask = lambda **p: server.ask(fleet, "fleet", to=TODAY, **p)
    assert [r["key"] for r in ask(group="host", job="serve")["rows"]] == [{"host": "node3"}]
    assert {r["key"]["host"] for r in ask(group="host", cluster="west")["rows"]} == {"node1", "node2"}
    assert ask(group="rank", rank=1)["total"] == 1 and ask(instance_type="trn2.48xlarge")["total"] == 2 and ask(text="NODE3")["total"] == 1
    names = [r["name"] for r in ask(group="host", sort="name")["rows"]]
    assert names == ["node1", "node2", "node3"]
    assert [r["name"] for k in range(3) for r in ask(group="host", sort="name", page=k, size=1)["rows"]] == names
    for text in ("' OR 1=1 --", "%", '"'):
        assert ask(job=text)["total"] == 0 and ask(text=text)["total"] == 0
    for wrong in ({"to": "2026-02-30"}, {"to": "x"}, {"from_": "2027-01-01"}, {"from_": "2026-01-01"}, {"group": "profile"}, {"sort": "x"}):
        with pytest.raises(serve_client.Failed, match="400"):
            server.ask(fleet, "fleet", **{"to": TODAY, **wrong})
    empty = server.ask(fleet, "fleet", to="2020-01-31")
    assert empty["rows"] == [] and empty["last_day"] == str(TODAY)


def test_profiles_behind_a_row(fleet, server):
    rows = rows_of(fleet)
    got = server.ask(fleet, "fleet_profiles", to=TODAY, job="train", rank=1, sort="mfu")
    mine = rows[(rows.job == "train") & (rows["rank"] == 1) & rows.day.isin([str(d) for d in DAYS[:14]])].sort_values("mfu_estimated_percent", kind="stable")
    assert got["total"] == len(mine) == len(got["rows"]) and {r["profile"] for r in got["rows"]} == set(mine.index)
    for row in got["rows"]:
        w = mine.loc[row["profile"]]
        assert [row["day"], row["host"], row["cluster"], row["capture_id"], int(row["time_unix_ns"])] == [w.day, w.host, w.cluster, w.capture_id, w.time_unix_ns]
        assert row["mfu_percent"] == pytest.approx(w.mfu_estimated_percent) and row["step_ns"] == pytest.approx(w.step)
    assert [r["mfu_percent"] for r in got["rows"]] == sorted(r["mfu_percent"] for r in got["rows"])
    times = [int(r["time_unix_ns"]) for r in server.ask(fleet, "fleet_profiles", to=TODAY)["rows"]]
    assert times == sorted(times, reverse=True)


def test_a_fleet_with_odd_files(fleet, server, tmp_path):
    """Names that are not the store's are passed over; columns that an older writer had not are null; no rows at all."""
    copy = tmp_path / "fleet"
    shutil.copytree(fleet, copy)
    shutil.rmtree(copy / "FleetProfile", ignore_errors=True)
    (copy / "Summary" / "date=2026-11-30" / "cluster=a'b").mkdir()
    (copy / "Summary" / "date=x").mkdir()
    shutil.copy(next(copy.glob("Summary/date=*/cluster=*/*.parquet")), copy / "Summary" / "date=2026-11-30" / "cluster=a'b" / "part-q.parquet")
    for path in copy.glob("Summary/date=2026-11-30/cluster=*/part-*.parquet"):
        pd.read_parquet(path).drop(columns=["hfu_estimated_percent"]).to_parquet(path)
    for table in ("ExecutionInfo", "ThrottleSummary"):
        shutil.rmtree(copy / table)
    got = server.ask(copy, "fleet", to=TODAY)
    assert got["total"] == 2 and all(r["this_week"]["mfu_percent"] for r in got["rows"])
    assert all(r["days"][-1]["hfu_percent"] is None and r["this_week"]["step_ns"] is None for r in got["rows"])
    bare = tmp_path / "bare"
    bare.mkdir()
    assert server.ask(bare, "fleet")["rows"] == []
    with pytest.raises(serve_client.Failed, match="404"):
        server.ask(tmp_path / "none", "fleet")


def change(fleet, profile, day, mfu):
    """The profile's MFU on a day becomes another, as if it had been made again."""
    for table in ("FleetProfile", "Summary"):
        for path in fleet.glob(f"{table}/date={day}/cluster=*/part-{profile}.parquet"):
            work = fleet.parent / "again.parquet"
            if table == "Summary":
                pd.read_parquet(path).assign(mfu_estimated_percent=mfu).to_parquet(work)
            else:
                shutil.copy(path, work)
                fleet_job.edit_rows(work, mfu=lambda _: mfu)
            os.replace(work, path)


def test_a_fleet_that_changes(fleet, server, tmp_path):
    """What was read is kept; profiles that come, go, or are made again show at the next question, and only they are read."""
    copy = tmp_path / "fleet"
    shutil.copytree(fleet, copy)
    for path in copy.rglob("*"):
        os.utime(path, (1, 1))  # as if nothing had been written to for long
    ask = lambda: server.ask(copy, "fleet", to=TODAY, group="rank")
    first = ask()
    assert first["files"] == first["profiles"] and ask()["files"] == 0 and ask()["rows"] == first["rows"]
    change(copy, "train-node1-r0-0", TODAY, 77.5)
    second = ask()
    train = next(r for r in second["rows"] if r["key"] == {"job": "train", "rank": 0})
    assert second["files"] == 1 and train["days"][-1]["mfu_percent"] == pytest.approx(77.5)
    for one in copy.glob(f"*/date={TODAY}/cluster=*/part-train-node1-r0-0.parquet"):
        one.unlink()
    train = next(r for r in ask()["rows"] if r["key"] == {"job": "train", "rank": 0})
    assert train["days"][-1] is None and train["profiles"] == second["rows"][0]["profiles"] - 1
    shutil.rmtree(copy)
    shutil.copytree(fleet, copy)
    assert ask()["rows"] == server.ask(fleet, "fleet", to=TODAY, group="rank")["rows"]


def test_older_and_newer_rows_side_by_side(fleet, server, tmp_path):
    """Of one profile only the five tables are there, of another a file is no table: that one alone is left out, and told."""
    copy = tmp_path / "fleet"
    shutil.copytree(fleet, copy)
    whole = server.ask(copy, "fleet", to=TODAY, group="rank")["rows"]
    for path in copy.glob(f"FleetProfile/date={TODAY}/cluster=*/part-train-node1-r0-0.parquet"):
        path.unlink()
    mixed = server.ask(copy, "fleet", to=TODAY, group="rank")
    assert mixed["rows"] == whole and mixed["unreadable"] == 0 and mixed["loading"] is None
    table = "FleetProfile" if (copy / "FleetProfile").exists() else "Summary"
    (tmp_path / "bad").write_bytes(b"PAR1 no table PAR1")
    os.replace(tmp_path / "bad", next(copy.glob(f"{table}/date={TODAY}/cluster=*/part-train-node2-r1-0.parquet")))
    got = server.ask(copy, "fleet", to=TODAY, group="rank")
    assert got["unreadable"] == 1 and got["profiles"] == sum(r["profiles"] for r in whole) - 1
    assert [r for r in got["rows"] if r["key"]["rank"] == 0] == [r for r in whole if r["key"]["rank"] == 0]


def many_profiles(fleet, seed, count, days):
    """Rows of so many profiles over the last days, from those of one: what a question reads of each is one small file."""
    row = json.loads(pd.read_parquet(next(seed.glob("FleetProfile/date=*/cluster=*/*.parquet"))).row[0])
    for k in range(count):
        day = TODAY - datetime.timedelta(days=k % days)
        place = fleet / "FleetProfile" / f"date={day}" / "cluster=west"
        place.mkdir(parents=True, exist_ok=True)
        row.update(profile=f"p{k}", job=f"job{k % 7}", rank=k % 8)
        pq.write_table(pa.table({"profile": [f"p{k}"], "row": [json.dumps(row)]}), place / f"part-p{k}.parquet")


def test_a_question_that_does_not_wait(new_fleet, server, tmp_path):
    """The newest days come first; each question tells how far it is, goes on, and the last has all."""
    many = tmp_path / "fleet"
    many_profiles(many, new_fleet, 600, 2)
    told = []
    while not told or told[-1]["loading"]:
        told.append(server.ask(many, "fleet", to=TODAY, group="job", wait=0))
        assert len(told) < 20
    read = [t["loading"]["read"] if t["loading"] else 600 for t in told]
    assert len(told) > 2 and [t["files"] for t in told] == list(np.diff([0, *read]))
    assert told[0]["loading"] == {"read": 256, "of": 600} and told[0]["profiles"] == 256
    first = {day: sum((r["days"][k] or {"profiles": 0})["profiles"] for r in told[0]["rows"]) for k, day in enumerate(told[0]["days"])}
    assert {day: n for day, n in first.items() if n} == {str(TODAY): 256}
    assert told[-1]["profiles"] == 600 and server.ask(many, "fleet_profiles", to=TODAY, wait=0)["loading"] is None
    with pytest.raises(serve_client.Failed, match="400"):
        server.ask(many, "fleet", wait=-1)


def memory_of(server):
    """Of the process, in MiB, without the files that it has mapped."""
    lines = dict(line.split(":") for line in open(f"/proc/{server.child.pid}/status"))
    return int(lines["RssAnon"].split()[0]) / 1024


def test_a_day_that_changes_often_takes_no_more_memory(fleet, tmp_path):
    """Profiles that are made again: neither deleted rows nor what is known of their files piles up. Once all of that was kept, 120 KB of each file."""
    many = tmp_path / "fleet"
    if (fleet / "FleetProfile").exists():
        many_profiles(many, fleet, 150, 1)
    else:
        for path in fleet.glob(f"*/date={TODAY}/cluster=west/part-train-node1-r0-0.parquet"):
            place = many / path.relative_to(fleet).parent
            place.mkdir(parents=True)
            for k in range(150):
                shutil.copy(path, place / f"part-p{k}.parquet")
    server = serve_client.Server("--timeout", "60")
    parts = list(many.glob("*/*/*/*.parquet"))
    sizes = []
    for k in range(6 if (fleet / "FleetProfile").exists() else 2):
        for path in parts:
            os.utime(path, ns=(k, k))
        for place in {path.parent for path in parts}:
            os.utime(place, ns=(k, k))
        got = server.ask(many, "fleet", to=TODAY)
        assert got["files"] == got["profiles"] == 150
        sizes.append(memory_of(server))
    assert server.close() == 0
    assert max(sizes) < 70 and max(sizes[1:]) < sizes[0] + 30, sizes


def test_parents_of_other_days(server, tmp_path):
    """Ranks of one capture on both sides of midnight: the profile of many ranks is the parent of all, whatever is asked for."""
    tables, _ = profiles.make_tables(tmp_path, Cell("mlp", "trn2", 1, small=True))
    parent = tmp_path / "parent"
    parent.mkdir()
    fleet_job.label(tables, 0, request="wish-1")
    pd.read_parquet(tables / "Metadata.parquet").assign(profile_kind="ranks").to_parquet(parent / "Metadata.parquet")
    midnight = [TODAY - datetime.timedelta(days=k) for k in (3, 2)]
    for older in (False, True):
        made = tmp_path / f"fleet-{older}"
        fleet_job.publish(made, tables, "r0", midnight[0], 23, rank=0)
        fleet_job.publish(made, tables, "r1", midnight[1], 0, rank=1)
        fleet_job.publish(made, parent, "both", midnight[0], 23)
        if older:
            shutil.rmtree(made / "FleetProfile")
        parents = lambda **p: {r["profile"]: r["parent"] for r in server.ask(made, "fleet_profiles", **p)["rows"]}
        assert parents(to=TODAY) == {"r0": "both", "r1": "both"}
        assert parents(from_=midnight[1], to=TODAY) == {"r1": "both"} and parents(from_=midnight[0], to=midnight[0]) == {"r0": "both"}
