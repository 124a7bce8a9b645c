"""kymo-gather on jobs whose truth is known: offsets, skews, last arrivers, what is missing, and what is not certain."""

from pathlib import Path
import subprocess

import duckdb
import pytest

import gather_job
import profiles
from gather_job import Rank, UNIX

SPAN = 20 * 10**9
SCHEMA = Path(__file__).parents[2] / "formats" / "schema" / "schema.tsv"


def gather(output, *arguments, sandbox=True):
    profiles.run(profiles.BIN / "kymo-gather", "--output", output, *(["--sandbox"] if sandbox else []), *arguments)
    return output


def rows(directory, table, columns="*", rest=""):
    return duckdb.sql(f"SELECT {columns} FROM read_parquet('{directory / (table + '.parquet')}') {rest}").fetchall()


def make_ranks(**kwargs):
    """Two hosts, of which the second is 30 us ahead; devices run off their hosts by up to 80 ppm."""
    hosts = ("a", "a", "b", "b")
    drifts = (0.0, 35e-6, -80e-6, 12e-6)
    return [Rank(k, hosts[k], drifts[k], UNIX + 10**9 * k, host_off=30_000 if hosts[k] == "b" else 0, **kwargs) for k in range(4)]


def write_all(directory, ranks, syncs=5):
    return [gather_job.write_profile(directory / f"r{r.number}@latest", r, syncs, SPAN, r.number) for r in ranks]


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    directory = tmp_path_factory.mktemp("job")
    ranks = make_ranks()
    truth = gather_job.run_job(ranks, steps=20)
    return ranks, truth, gather(directory / "parent", *write_all(directory, ranks))


def test_offsets_and_drifts_are_within_their_bounds(job):
    ranks, _, parent = job
    got = rows(parent, "ClockMap", "offset_ns, drift_ppm, device_error_ns, error_bound_ns, method, contradict", "ORDER BY rank")
    for r, (offset, drift, near, far, method, contradict) in zip(ranks, got, strict=True):
        assert method == "line" and not contradict
        assert abs(drift - r.drift * 1e6) < 0.2
        for ts in (0, SPAN // 2, SPAN):
            host = r.zero_unix + ts + r.drift * ts
            assert abs(offset + ts + drift * 1e-6 * ts - host) <= near
        assert near < 5 * gather_job.SYNC_ERROR and far == near + 50_000


def test_slow_rank_comes_last(job):
    ranks, truth, parent = job
    got = rows(parent, "CollectiveSkew", "spread_ns, last_rank, error_bound_ns, significant, consistent, members, arrived,"
               "last_arrival_ns, end_ns, transfer_ns, op_id, invocation, replica_group, missing_workers", "ORDER BY id")
    assert len(got) == len(truth)
    for (step, op, arrivals, end), g in zip(truth, got):
        spread, last, bound, significant, consistent, members, arrived, last_at, end_at, transfer, op_id, place, group, missing = g
        assert abs(spread - (max(arrivals) - min(arrivals))) <= bound
        assert (last, significant, consistent, members, arrived, missing) == (2, True, True, 4, 4, None)
        assert (op_id, place, group) == (op, step, "[0, 1, 2, 3]")
        assert abs(last_at - max(arrivals)) <= bound and abs(end_at - end) <= bound and abs(transfer - 200_000) <= bound
    members = rows(parent, "Member", "rank, worker, collectives, last_arrivals, caused_wait_ns", "ORDER BY rank")
    assert [m[:4] for m in members] == [(0, 0, 60, 0), (1, 1, 60, 0), (2, 2, 60, 60), (3, 3, 60, 0)]
    assert members[2][4] == sum(g[0] for g in got)


def test_arrivals_are_within_their_bounds(job):
    ranks, truth, parent = job
    got = rows(parent, "CollectiveArrival", "collective_id, rank, arrival_ns, error_bound_ns, wait_ns, late_ns", "ORDER BY ALL")
    assert len(got) == 4 * len(truth)
    for collective, rank, arrival, bound, wait, late in got:
        arrivals = truth[collective][2]
        assert abs(arrival - arrivals[rank]) <= bound
        assert wait >= 0 and late >= 0


def test_every_arrival_waits_for_the_last(job):
    _, _, parent = job
    skew, arrival = (f"read_parquet('{parent / name}.parquet')" for name in ("CollectiveSkew", "CollectiveArrival"))
    wrong = duckdb.sql(f"SELECT count(*) FROM {skew} s JOIN {arrival} a ON a.collective_id = s.id"
                       " WHERE wait_ns + late_ns <> spread_ns OR arrival_ns + wait_ns <> last_arrival_ns").fetchone()[0]
    assert wrong == 0


def test_small_skews_are_marked(tmp_path):
    """20 us late, and hosts whose clocks are good to 50 us each: not significant; on one host it is."""
    ranks = make_ranks()
    gather_job.run_job(ranks, steps=3, late=20_000)
    parent = gather(tmp_path / "far", *write_all(tmp_path / "p", ranks))
    assert all(s is False for s, in rows(parent, "CollectiveSkew", "significant"))
    near = [Rank(k, "a", 0.0, UNIX) for k in range(4)]
    gather_job.run_job(near, steps=3, late=70_000)
    parent = gather(tmp_path / "near", *write_all(tmp_path / "q", near))
    assert all(s is True and last == 2 for s, last in rows(parent, "CollectiveSkew", "significant, last_rank"))


def test_unsynchronised_hosts_have_no_bound(tmp_path):
    ranks = make_ranks(host_error=None)
    gather_job.run_job(ranks, steps=2)
    parent = gather(tmp_path / "parent", *write_all(tmp_path / "p", ranks))
    assert all(row == (None, None) for row in rows(parent, "CollectiveSkew", "error_bound_ns, significant"))
    assert any("not synchronised" in text for text, in rows(parent, "Warning", "message"))


def test_missing_members_and_collectives(tmp_path):
    """Rank 3 failed; rank 1 lost its last all-reduce; a directory holds no profile."""
    ranks = make_ranks()
    truth = gather_job.run_job(ranks, steps=4)
    ranks[1].ops.pop()
    dirs = write_all(tmp_path / "p", ranks)
    junk = tmp_path / "junk@latest"
    junk.mkdir()
    (junk / "Metadata.parquet").write_bytes(b"PAR1 but no table PAR1")
    members = tmp_path / "members"
    members.write_text("".join(f"ready\tr{k}\t{dirs[k]}\t\n" for k in range(3)) + f"failed\tr3\t\tthe file is cut\nready\tjunk\t{junk}\t\n")
    parent = gather(tmp_path / "parent", "--members", members)
    states = dict(rows(parent, "Member", "profile, state"))
    assert states == {"r0": "ready", "r1": "ready", "r2": "ready", "r3": "failed", "junk": "unreadable"}
    got = rows(parent, "CollectiveSkew", "arrived, missing_workers, members", "ORDER BY id")
    assert got == [(3, "[3]", 4)] * (len(truth) - 1) + [(2, "[1, 3]", 4)]
    texts = "\n".join(text for text, in rows(parent, "Warning", "message"))
    assert "r3 is failed: the file is cut" in texts and "junk is unreadable" in texts
    assert "lack arrivals of workers 1, 3" in texts and "4 ranks, and 3 of them" in texts


def test_different_programs_meet(tmp_path):
    """MPMD: rank 0 and 1 run one NEFF, 2 and 3 another whose operations have other numbers; pairs and all of them meet."""
    ranks = make_ranks()
    for r in ranks:
        r.neff = ("a" if r.number < 2 else "b") * 32
        r.ops = []
    now = UNIX + 5 * 10**9
    pairs = "[[0, 1], [2, 3]]"
    for step in range(5):
        for r in ranks:
            at = now + r.number * 200_000
            r.ops.append((at, now + 10**6, 7 if r.number < 2 else 3, "AllReduce", 64, "[[0, 1, 2, 3]]"))
            r.ops.append((at + 2 * 10**6, now + 4 * 10**6, 8 if r.number < 2 else 4, "AllGather", 32, pairs))
        now += 10**7
    parent = gather(tmp_path / "parent", *write_all(tmp_path / "p", ranks))
    got = duckdb.sql(f"SELECT operation, replica_group, count(*), min(arrived), max(arrived), min(last_rank), max(last_rank), min(op_id)"
                     f" FROM read_parquet('{parent}/CollectiveSkew.parquet') GROUP BY ALL ORDER BY ALL").fetchall()
    assert got == [("AllGather", "[0, 1]", 5, 2, 2, 1, 1, 8), ("AllGather", "[2, 3]", 5, 2, 2, 3, 3, 4),
                   ("AllReduce", "[0, 1, 2, 3]", 5, 4, 4, 3, 3, None)]


def test_members_that_begin_an_execution_later(tmp_path):
    """Rank 1 missed the first of four executions; its collectives are those of the others' second to fourth."""
    ranks = make_ranks()
    gather_job.run_job(ranks, steps=4)
    ranks[1].ops = ranks[1].ops[3:]
    ranks[1].first_execution = 1
    dirs = write_all(tmp_path / "p", ranks)
    for r, d in zip(ranks, dirs):
        gather_job.write(d, "ExecutionInfo", {"execution_index": list(range(3 if r.number == 1 else 4))})
    parent = gather(tmp_path / "parent", *dirs)
    got = rows(parent, "CollectiveSkew", "arrived, consistent, last_rank", "ORDER BY id")
    assert got == [(3, True, 2)] * 3 + [(4, True, 2)] * 9


def test_without_a_clock(tmp_path):
    ranks = make_ranks()
    gather_job.run_job(ranks, steps=2)
    dirs = [gather_job.write_profile(tmp_path / f"r{r.number}", r, 0 if r.number == 2 else 5, SPAN, 1) for r in ranks]
    parent = gather(tmp_path / "parent", *dirs)
    assert rows(parent, "ClockMap", "method, offset_ns, error_bound_ns", "WHERE rank = 2") == [("none", None, None)]
    assert all(last != 2 and arrived == 4 for last, arrived in rows(parent, "CollectiveSkew", "last_rank, arrived"))


def test_nothing_is_half_there(tmp_path):
    """Another result is exchanged; a place with somebody's files is left alone."""
    ranks = make_ranks()
    gather_job.run_job(ranks, steps=1)
    dirs = write_all(tmp_path / "p", ranks)
    parent = gather(tmp_path / "parent", *dirs[:2])
    assert len(rows(parent, "Member")) == 2
    gather(tmp_path / "parent", *dirs)
    assert len(rows(parent, "Member")) == 4
    assert sorted(p.name for p in tmp_path.iterdir()) == ["p", "parent"]
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "thesis.txt").write_text("mine")
    done = subprocess.run([profiles.BIN / "kymo-gather", "--output", kept, *dirs], capture_output=True, text=True)
    assert done.returncode == 1 and "not replaced" in done.stderr and (kept / "thesis.txt").exists()


def test_fleet_rows_of_a_profile(tmp_path):
    cell = profiles.Cell("mlp", "trn2", 1, small=True)
    tables, _ = profiles.make_tables(tmp_path, cell)
    out = gather(tmp_path / "fleet", "--fleet", "--name", "p1", "--job", "train", "--host", "h", "--rank", "3", "--capture", "c",
                 "--time", str(UNIX), tables)
    for table in ("Summary", "Metadata", "OpcodeSummary", "Warning", "LossLedger", "NeffHeader"):
        front = rows(out, table, "DISTINCT profile, job, host, rank, capture_id, time_unix_ns")
        assert front == [("p1", "train", "h", 3, "c", UNIX)]
        names = [c for c in rows(tables, table, "COLUMNS(*)", "LIMIT 0") or duckdb.sql(f"SELECT * FROM '{tables / table}.parquet'").columns]
        fleet = duckdb.sql(f"SELECT * FROM '{out / table}.parquet'").columns
        assert fleet[:6] == ["profile", "job", "host", "rank", "capture_id", "time_unix_ns"]
        assert set(names) <= set(fleet) and len(set(fleet)) == len(fleet)
        assert len(rows(out, table)) == len(rows(tables, table))
    assert not (out / "Instruction.parquet").exists()
    (n, wait, cost), = rows(tables, "WaitCause", "count(*), sum(wait_ns), sum(cost_ns)")
    assert rows(out, "WaitCauseSummary", "sum(waits), sum(wait_ns), sum(cost_ns)") == [(n, wait, cost)]
    assert all(cause for cause, in rows(out, "WaitCauseSummary", "cause", "WHERE in_table IS NOT NULL"))


@pytest.mark.skipif("CcOp\tinvocation\t" not in SCHEMA.read_text(), reason="the schema has no such column")
def test_counts_of_the_device_match_what_was_lost(tmp_path):
    """Rank 1 lost collectives in the middle; the device's own count and rank tell which they were."""
    ranks = make_ranks()
    truth = gather_job.run_job(ranks, steps=6)
    dirs = write_all(tmp_path / "p", ranks)
    for r, d in zip(ranks, dirs):
        table = gather_job.pq.read_table(d / "CcOp.parquet")
        table = table.append_column("invocation", gather_job.pa.array(range(100, 100 + len(table))))
        table = table.append_column("rank", gather_job.pa.array([r.number] * len(table)))
        gather_job.pq.write_table(table.take([i for i in range(len(table)) if r.number != 1 or not 4 <= i < 10]), d / "CcOp.parquet")
    parent = gather(tmp_path / "parent", *dirs)
    got = rows(parent, "CollectiveSkew", "invocation, arrived, consistent", "ORDER BY id")
    assert got == [(100 + i, 3 if 4 <= i < 10 else 4, True) for i in range(len(truth))]


@pytest.mark.skipif("CcOp\tinvocation\t" not in SCHEMA.read_text(), reason="the schema has no such column")
def test_simulated_job_with_a_slow_rank(tmp_path):
    """Four ranks of an all-reduce step on one device, one of them four times slower, through kymo-sim and kymo-process."""
    import truth
    neff = tmp_path / "step.neff"
    profiles.run(profiles.BIN / "kymo-sim", "neff", "--model", "allreduce", "--arch", "trn2", "--lnc", 2, "--hidden", 256, "--output", neff)
    profiles.run(profiles.BIN / "kymo-sim", "run", "--neff", neff, "--ranks", 4, "--output", tmp_path, "--truth", tmp_path / "truth",
                 "--instance", "trn2.48xlarge", "--lnc", 2, "--steps", 2, "--mode", "session", "--slow-rank", "2:4")
    dirs, true = [], {}
    for path in sorted((tmp_path / "truth").iterdir()):
        facts = {r["key"]: r["value"] for r in truth.read_tsv(path / "profile.tsv")}
        ntff = next(p for p in tmp_path.glob("captures/**/*.ntff") if str(p).endswith(facts["path"][-60:]))
        dirs.append(profiles.process(ntff, [neff], tmp_path / "tables" / path.name))
        rank = rows(dirs[-1], "CcOp", "min(rank)")[0][0]
        for op in truth.read_tsv(path / "cc_ops.tsv"):
            key = int(op["op_id"]), int(op["invocation"])
            true.setdefault(key, {})[rank] = int(op["start_ps"]) / 1000
    parent = gather(tmp_path / "parent", *dirs)
    got = rows(parent, "CollectiveSkew", "op_id, invocation, replica_group, arrived, spread_ns, error_bound_ns, significant, consistent,"
               " last_profile", "ORDER BY id")
    assert got and all(arrived == len(eval(group)) for _, _, group, arrived, *_ in got)
    workers = dict(rows(parent, "Member", "profile, worker"))
    slow = 0
    for op, place, group, _, spread, bound, significant, consistent, last in got:
        arrivals = {r: true[op, place][r] for r in eval(group)}
        assert abs(spread - (max(arrivals.values()) - min(arrivals.values()))) <= bound and consistent
        if significant and 2 in arrivals:
            slow += workers[last] == 2 == max(arrivals, key=arrivals.get)
    assert slow > 0


def test_absurd_numbers_cost_one_member(tmp_path):
    """A member whose numbers are as large as can be takes nothing from the others."""
    ranks = make_ranks()
    truth = gather_job.run_job(ranks, steps=2)
    dirs = write_all(tmp_path / "p", ranks)
    huge = 2**63 - 1
    for table, columns in (("CcOp", ("start_ts", "end_ts", "op_id", "num_elements")), ("ClockSync", ("ts", "host_unix_ns", "error_bound_ns")),
                           ("Metadata", ("rank", "first_execution", "host_clock_error_ns", "last_hw_timestamp", "world_size"))):
        for k, value in ((1, huge), (3, -huge - 1)):
            path = dirs[k] / f"{table}.parquet"
            old = gather_job.pq.read_table(path)
            for c in columns:
                old = old.set_column(old.column_names.index(c), c, gather_job.pa.array([value] * len(old)))
            gather_job.pq.write_table(old, path)
    parent = gather(tmp_path / "parent", *dirs)
    got = rows(parent, "CollectiveSkew", "arrived, last_rank, consistent", "WHERE replica_group <> 'all' ORDER BY id")
    assert got == [(2, 2, True)] * len(truth)
    assert len(rows(parent, "Member")) == 4


def refused(tmp_path, *arguments):
    done = subprocess.run([profiles.BIN / "kymo", "gather", "--output", tmp_path / "parent", *arguments], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 1 and not (tmp_path / "parent").exists()
    return done.stderr


def test_a_member_counts_once(tmp_path):
    """Under whatever name it is given again."""
    ranks = make_ranks()[:2]
    gather_job.run_job(ranks, steps=1)
    a, b = write_all(tmp_path, ranks)
    (tmp_path / "link").symlink_to(a)
    (tmp_path / "members").write_text(f"ready\tr0\t{a}\t\n")
    for again in ((a,), (f"{a}/",), (tmp_path / "link",), ("--members", tmp_path / "members")):
        assert "a member is given twice" in refused(tmp_path, a, b, *again)


def test_who_is_left_out_is_told(tmp_path):
    """A shell's pattern: two ranks, a directory that is no profile, and the job's system profile."""
    ranks = make_ranks()[:2]
    gather_job.run_job(ranks, steps=1)
    dirs = write_all(tmp_path, ranks)
    (tmp_path / "junk\x1b[2J").mkdir()
    system = tmp_path / "job-system"
    golden = Path(__file__).parents[1] / "golden" / "systrace" / "v1"
    profiles.run(profiles.BIN / "kymo-process", "--system", golden, "--output", system)
    done = subprocess.run([profiles.BIN / "kymo", "gather", "--output", tmp_path / "parent", *dirs, tmp_path / "junk\x1b[2J", system],
                          capture_output=True, text=True, timeout=60)
    lines = done.stderr.splitlines()
    assert done.returncode == 0 and len(lines) == 2 and "\x1b" not in done.stderr
    assert f"{system} is a system profile" in lines[0] and "junk\\x1b[2J cannot be read and is left out: no Metadata" in lines[1]
    assert sorted(state for state, in rows(tmp_path / "parent", "Member", "state")) == ["ready", "ready", "unreadable"]
    (tmp_path / "none").mkdir()
    assert "none of 0 members" in refused(tmp_path / "none", system)


def test_without_a_usable_member(tmp_path):
    (tmp_path / "empty").mkdir()
    assert "none of 2 members has tables that can be read; empty: " in refused(tmp_path, tmp_path / "empty", tmp_path / "absent")
    (tmp_path / "members").write_text("failed\tr0\t\tno NTFF\n")
    assert "none of 1 members has tables that can be read; r0: no NTFF" in refused(tmp_path, "--members", tmp_path / "members")
