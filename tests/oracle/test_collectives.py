"""Collectives: several ranks of one job that meet, the records of their CC-cores, and what becomes of damaged ones."""

from collections import Counter
import random
import signal
import subprocess
import time

import duckdb
import pytest

from ntff_reader import read
import profiles
import truth

KINDS = ("AllReduce", "AllGather", "ReduceScatter")


def job(directory, neff, *options, ranks=4, check=True, **kwargs):
    command = [profiles.BIN / "kymo-sim", "run", "--neff", neff, "--ranks", ranks, "--output", directory, "--truth",
               directory / "truth", *options]
    if not check:
        return subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=profiles.LIMIT, **kwargs)
    return profiles.run(*command, **kwargs)


@pytest.fixture(scope="module")
def neffs(tmp_path_factory):
    directory = tmp_path_factory.mktemp("neffs")

    def make(arch, lnc):
        path = directory / f"{arch}-lnc{lnc}.neff"
        profiles.run(profiles.BIN / "kymo-sim", "neff", "--model", "allreduce", "--arch", arch, "--lnc", lnc, "--hidden", 256,
                     "--output", path)
        return path

    return {(arch, lnc): make(arch, lnc) for arch, lnc in (("trn1", 1), ("trn2", 1), ("trn2", 2))}


def tables_of(directory, neff):
    """Of each rank: its CcOp rows, and its truth, after the tables were found equal to it."""
    ranks = {}
    for path in sorted((directory / "truth").iterdir()):
        facts = {r["key"]: r["value"] for r in truth.read_tsv(path / "profile.tsv")}
        ntff = next(p for p in directory.glob("captures/**/*.ntff") if str(p).endswith(facts["path"][-60:]))
        tables = profiles.process(ntff, [neff], directory / "tables" / path.name)
        assert truth.compare(tables, path) == []
        assert "violated" not in profiles.run(profiles.BIN / "kymo", "verify", tables)
        rows = truth.rows_of(tables, "CcOp")
        ranks[rows[0]["rank"]] = (rows, truth.read_tsv(path / "cc_ops.tsv"))
    return ranks


@pytest.mark.parametrize("arch,lnc,instance", [("trn1", 1, "trn1.32xlarge"), ("trn2", 2, "trn2.48xlarge")])
def test_ranks_of_a_job_meet(tmp_path, neffs, arch, lnc, instance):
    """The same collective has the same key on each rank, begins when its rank is there, and ends together."""
    neff = neffs[arch, lnc]
    job(tmp_path, neff, "--instance", instance, "--lnc", lnc, "--steps", 2, "--mode", "session", "--slow-rank", "2:16")
    ranks = tables_of(tmp_path, neff)
    assert sorted(ranks) == [0, 1, 2, 3]
    key = lambda r: (r["stream_index"], r["invocation"], r["op_id"], r["operation"], r["replica_group"])
    keys = [sorted(key(r) for r in rows) for rows, _ in ranks.values()]
    assert keys[0] == keys[1] == keys[2] == keys[3]
    assert {r["operation"] for r in ranks[0][0]} == set(KINDS)
    last = []
    for op in ranks[0][1]:
        group = [i for i in next(g for g in eval(op["replica_group"]) if 0 in g)]
        same = lambda r: (r["stream_index"], r["invocation"]) == (op["stream_index"], op["invocation"])
        members = {i: next(r for r in ranks[i][1] if same(r)) for i in group}
        if arch != "trn1":  # its ranks are on devices with clocks of their own
            arrivals = {i: int(r["start_ps"]) for i, r in members.items()}
            ends = [int(r["end_ps"]) for r in members.values()]
            assert max(arrivals.values()) < min(ends)
            if len(group) == 4:
                last.append(max(arrivals, key=arrivals.get))
                assert max(ends) - min(ends) < 3_000_000  # ps
    assert arch == "trn1" or max(set(last), key=last.count) == 2  # the slow rank comes last most often


def test_the_last_rank_is_a_join_away_from_a_wait(tmp_path, neffs):
    """WaitCause names the collective that was waited for, the joint tables who came to it last."""
    neff = neffs["trn2", 2]
    job(tmp_path, neff, "--instance", "trn2.48xlarge", "--lnc", 2, "--steps", 2, "--mode", "session", "--slow-rank", "2:16")
    tables_of(tmp_path, neff)
    members = sorted((tmp_path / "tables").iterdir())
    profiles.run(profiles.BIN / "kymo-gather", "--output", tmp_path / "parent", *members)
    read = lambda directory, name: f"read_parquet('{directory}/{name}.parquet')"
    slow, waits = Counter(), 0
    for m in members:
        (ops,) = duckdb.sql(f"SELECT count(*) FROM {read(m, 'WaitCause')} WHERE in_table = 'cc_op'").fetchone()
        got = duckdb.sql(f"""
            SELECT w.instruction_id, w.cost_ns, a.wait_ns, s.last_rank, s.last_profile, c.start_ts = a.start_ts
            FROM {read(m, 'WaitCause')} w
            JOIN {read(tmp_path / 'parent', 'CollectiveArrival')} a ON w.in_table = 'cc_op' AND a.cc_op_id = w.in_id AND a.profile = '{m.name}'
            JOIN {read(tmp_path / 'parent', 'CollectiveSkew')} s ON s.id = a.collective_id
            JOIN {read(m, 'CcOp')} c ON c.id = w.in_id""").fetchall()
        assert len(got) == ops > 0 and all(same for *_, same in got)
        slow.update(profile for *_, profile, _ in got)
        waits += ops
    assert slow.most_common(1)[0][1] > waits // 2
    last = next(m for m in members if m.name == slow.most_common(1)[0][0])
    assert truth.rows_of(last, "CcOp")[0]["rank"] == 2


def test_the_same_run_again(tmp_path, neffs):
    """Where ranks share no host-device DMA engine, real time plays no part."""
    runs = []
    for n in range(2):
        out = tmp_path / str(n)
        job(out, neffs["trn2", 2], "--instance", "trn2.48xlarge", "--steps", 2, "--mode", "session")
        runs.append({p.name: (p / "cc_instructions.tsv").read_text() for p in sorted((out / "truth").iterdir())})
    assert runs[0] == runs[1]


def test_a_rank_without_peers_ends(tmp_path, neffs):
    """One rank is killed: the others say so in bounded time instead of waiting for ever."""
    command = [profiles.BIN / "kymo-sim", "run", "--neff", neffs["trn2", 1], "--instance", "trn2.48xlarge", "--lnc", 1, "--ranks", 4,
               "--steps", 100000, "--step-ms", 20, "--mode", "none", "--output", tmp_path, "--pids", tmp_path / "pids"]
    env = dict(profiles.os.environ, NEURON_RT_EXEC_TIMEOUT="1")
    run = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    until = time.monotonic() + 30
    while not ((tmp_path / "pids").exists() and (tmp_path / "pids").read_text().count("\n") == 4):
        assert time.monotonic() < until and run.poll() is None
        time.sleep(0.05)
    victim = dict(line.split() for line in (tmp_path / "pids").read_text().splitlines())["3"]
    time.sleep(0.3)
    profiles.os.kill(int(victim), signal.SIGKILL)
    text, _ = run.communicate(timeout=60)
    assert run.returncode != 0
    assert "3 of 4 were there" in text
    assert "NRT_TIMEOUT" in text


def test_who_fails_frees_the_others(tmp_path, neffs):
    done = job(tmp_path, neffs["trn2", 1], "--instance", "trn2.48xlarge", "--lnc", 1, "--steps", 2, "--fail-step", 1, check=False)
    assert done.returncode == 3
    assert done.stdout.count("step 1: NRT_EXEC_HW_ERR_COLLECTIVES") == 3
    assert done.stdout.count("step 1: NRT_EXEC_COMPLETED_WITH_ERR") == 1


def test_as_many_ranks_as_the_program_wants(tmp_path, neffs):
    done = job(tmp_path, neffs["trn2", 1], "--instance", "trn2.48xlarge", "--lnc", 1, "--steps", 1, ranks=2, check=False)
    assert done.returncode == 1
    assert "collectives over 4 ranks, the job has 2" in done.stderr


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    directory = tmp_path_factory.mktemp("capture")
    cell = profiles.Cell("allreduce", "trn2", 2, "plain", 2)
    return directory, *profiles.make_ntff(directory, cell)


def test_the_second_reader_sees_the_same_collectives(capture):
    """Notices and instructions read by FORMAT.md's drawing, ops by cc_op_info: what the truth has."""
    _, ntff, _, true = capture
    profile = read(ntff)
    graph = next(g for g in profile.graphs() if g["cc_op_info"])
    ops = graph["cc_op_info"]["ops"]
    streams = {c: s["stream_index"] for s in graph["stream_info"] for c in s["cc_core_id"]}
    begins, ends, instrs = [], [], []
    for ring in profile.rings:
        if ring.name != "CC_CORE_INSTRUCTION":
            continue
        for r in ring.records():
            if r["record"] == "explicit" and r["extended_hint"] in (7, 8):
                place, number = r["pc"] >> 10, (r["pc"] & 0x3FF) << 16 | r["soft_reset"]
                row = (ring.engine_index, streams[ring.engine_index], ops[place]["op_id"], number, r["timestamp"])
                (begins if r["extended_hint"] == 7 else ends).append(row)
            elif r["record"] == "start":
                instrs.append((ring.engine_index, r["pc"], r["event_wait_cycles"], r["timestamp"]))
    rows = truth.read_tsv(true / "cc_ops.tsv")
    key = lambda r, side: (int(r["core_idx"]), int(r["stream_index"]), int(r["op_id"]), int(r["invocation"]), int(r[side]))
    assert sorted(begins) == sorted(key(r, "start_ps") for r in rows)
    assert sorted(ends) == sorted(key(r, "end_ps") for r in rows)
    assert sorted(instrs) == sorted((int(r["core_idx"]), int(r["pc"]), int(r["wait_cycles"]), int(r["start_ps"]))
                                    for r in truth.read_tsv(true / "cc_instructions.tsv"))


def places(ntff, name):
    """Byte offsets in the file of all records of the first ring of a kind that has some."""
    ring = next(r for r in read(ntff).rings if r.name == name and r.stored)
    return list(ring.offsets())


def test_a_loss_inside_a_collective(tmp_path, capture):
    """Marks between a begin and its end: they are one all the same, since both name it. Without the end it is partial."""
    _, ntff, neff, true = capture
    data = bytearray(ntff.read_bytes())
    at = places(ntff, "CC_CORE_INSTRUCTION")
    notices = [o for o in at if data[o + 3] & 0x1F == 0x16]
    begin, end = notices[0], notices[1]
    between = [o for o in at if begin < o < end]
    data[between[3] + 3] |= 0x40  # later records were lost
    data[between[4] + 3] |= 0x20  # earlier records were lost
    (tmp_path / "marked.ntff").write_bytes(data)
    marked = profiles.process(tmp_path / "marked.ntff", [neff], tmp_path / "marked")
    whole = len(truth.read_tsv(true / "cc_ops.tsv"))
    assert len(truth.rows_of(marked, "CcOp")) == whole
    data[end + 3] = data[end + 3] & 0xE0 | 0x01  # a type that nobody knows
    (tmp_path / "cut.ntff").write_bytes(data)
    cut = profiles.process(tmp_path / "cut.ntff", [neff], tmp_path / "cut")
    assert len(truth.rows_of(cut, "CcOp")) == whole - 1
    partial = [r for r in truth.rows_of(cut, "PartialEvent") if r["kind"] == "collective"]
    assert [(r["side"], r["reason"]) for r in partial] == [("start", "lost_after")]
    assert "violated" not in profiles.run(profiles.BIN / "kymo", "verify", cut)


def test_damaged_records_are_accounted_for(tmp_path, capture):
    """Random bytes in the CC-cores' rings: no crash, and each record is a row, partial, known or unknown."""
    _, ntff, neff, _ = capture
    chance = random.Random(4)
    original = ntff.read_bytes()
    at = places(ntff, "CC_CORE_INSTRUCTION") + places(ntff, "CC_CORE_EVENT")
    for n in range(3):
        data = bytearray(original)
        for o in chance.sample(at, 40):
            length = chance.choice((1, 4, 8, 16))
            data[o : o + length] = chance.randbytes(length)
        (tmp_path / "damaged.ntff").write_bytes(data)
        tables = profiles.process(tmp_path / "damaged.ntff", [neff], tmp_path / f"tables{n}")
        assert "violated" not in profiles.run(profiles.BIN / "kymo", "verify", tables), f"seed {n}"


def test_without_the_neff(tmp_path, capture):
    """Kind, sizes and bandwidth come from the trace; groups and triggers do not, and a Warning says so."""
    _, ntff, _, true = capture
    tables = profiles.process(ntff, [], tmp_path / "tables")
    rows = truth.rows_of(tables, "CcOp")
    want = truth.read_tsv(true / "cc_ops.tsv")
    assert [(r["operation"], r["algorithm"], r["dtype"], r["input_size"], r["output_size"]) for r in rows] == [
        (r["operation"], r["algorithm"], r["dtype"], int(r["input_size"]), int(r["output_size"])) for r in want]
    assert {(r["trigger_engine"], r["trigger_start_ts"], r["replica_group"]) for r in rows} == {("", None, None)}
    assert all(r["bus_bandwidth"] > 0 for r in rows)
    assert any("CcOp.trigger_engine" in r["message"] for r in truth.rows_of(tables, "Warning"))
