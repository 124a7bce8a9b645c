"""Flow and WaitCause of random programs equal what brute force finds, and what the simulator's model knows."""

from collections import Counter
import pathlib

import duckdb
import pytest

import flow_reference
from ntff_reader import read
import profiles
import truth

# Generation, LNC, seeds: small programs, for the reference looks at every pair.
PROGRAMS = (("trn1", 1, (0, 1)), ("trn2", 1, (3, 4)), ("trn2", 2, (7, 8)), ("trn3", 2, (9,)))
CASES = [(arch, lnc, seed) for arch, lnc, seeds in PROGRAMS for seed in seeds]


def make(directory, arch, lnc, seed, *options):
    """(profile with its truth, NEFF)"""
    neff = pathlib.Path(directory) / f"random-{seed}.neff"
    ntff = neff.with_suffix(".ntff")
    profiles.run(profiles.BIN / "flow_programs", arch, lnc, seed, neff)
    profiles.run(profiles.BIN / "kymo-sim", "ntff", "--neff", neff, "--instance", profiles.INSTANCES[arch], "--lnc", lnc,
                 "--executions", 2, "--dge", 1, *options, "--output", ntff, "--truth", neff.parent / "truth")
    tables = profiles.process(ntff, [neff], neff.with_suffix(""))
    return truth.Profile(tables, neff.parent / "truth" / ntff.stem), neff


def compare(p, neff):
    """Differences between Flow and the reference."""
    events, run = truth.Events(p), flow_reference.Run(p)
    static = flow_reference.compiler_edges(run, flow_reference.read_debug(neff)) + flow_reference.psum_edges(run)
    edges = [(kind, ("instructions", earlier), later) for kind, earlier, later in static] + flow_reference.semaphore_edges(run)
    want = Counter((kind, events.true(*earlier), events.true("instructions", later)) for kind, earlier, later in edges)
    got = Counter()
    for r in truth.rows_of(p.tables, "Flow"):
        data = r["in_table"] != "instruction" and r["dependency_type"].endswith("_DEPENDENCE")
        if r["out_table"] == "instruction" and not data:
            got[r["dependency_type"], events.found(r["in_table"], r["in_id"]), events.found("instruction", r["out_id"])] += 1
    for kind in sorted({k for k, _, _ in want} | {k for k, _, _ in got}):
        one = lambda edges: [e for e in edges.elements() if e[0] == kind]
        p.differ(kind, one(want), one(got))
    return p.differences


@pytest.mark.parametrize("arch, lnc, seed", CASES)
def test_random_programs_have_the_edges_of_brute_force(tmp_path, arch, lnc, seed):
    p, neff = make(tmp_path, arch, lnc, seed)
    assert compare(p, neff) == []
    assert truth.compare(p.tables, p.truth) == []
    assert bool(truth.rows_of(p.tables, "CcOp")) == bool(seed % 2)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    p, _ = make(tmp_path_factory.mktemp("flow"), "trn2", 2, 7)
    con = duckdb.connect()
    for path in p.tables.glob("*.parquet"):
        con.execute(f"CREATE VIEW \"{path.stem}\" AS SELECT * FROM read_parquet('{path}')")
    return con


def test_ids_are_rows_and_gaps_lie_between_them(tables):
    assert tables.execute("""
        WITH event AS (SELECT 'instruction' AS name, id, start_ts, end_ts FROM Instruction
                       UNION ALL SELECT 'dma_block', id, start_ts, end_ts FROM DmaPacketAggregated
                       UNION ALL SELECT 'cc_op', id, start_ts, end_ts FROM CcOp)
        SELECT count(*), count(a.id), count(b.id), count(*) FILTER (f.gap_time = b.start_ts - a.end_ts)
        FROM Flow f LEFT JOIN event a ON a.name = f.in_table AND a.id = f.in_id
                    LEFT JOIN event b ON b.name = f.out_table AND b.id = f.out_id""").fetchone() == (
        (tables.execute("SELECT count(*) FROM Flow").fetchone()[0],) * 4)


def test_edges_stay_on_their_core(tables):
    assert tables.execute("""
        SELECT count(*) FROM Flow f JOIN Instruction a ON f.in_table = 'instruction' AND a.id = f.in_id
        JOIN Instruction b ON f.out_table = 'instruction' AND b.id = f.out_id WHERE a.pcore_idx <> b.pcore_idx""").fetchone() == (0,)


@pytest.mark.parametrize("table", ("dma_block", "cc_op"))
def test_users_of_a_transfer_are_those_of_its_trigger(tables, table):
    users = tables.execute(f"""
        SELECT in_id, out_id, dependency_type FROM Flow
        WHERE in_table = '{table}' AND dependency_type LIKE '%_DEPENDENCE' ORDER BY ALL""").fetchall()
    assert users == tables.execute(f"""
        SELECT t.out_id, f.out_id, f.dependency_type FROM Flow f
        JOIN Flow t ON t.dependency_type = 'DMA_TRIGGER' AND t.out_table = '{table}' AND t.in_id = f.in_id
        WHERE f.in_table = 'instruction' AND f.dependency_type IN ('FLOW_DEPENDENCE', 'ANTI_DEPENDENCE', 'OUTPUT_DEPENDENCE')
        ORDER BY ALL""").fetchall()
    assert users


def test_a_chain_of_waits_leads_back_in_time(tables):
    last = tables.execute("SELECT max(instruction_id) FROM WaitCause WHERE prior_wait_id IS NOT NULL").fetchone()[0]
    chain = tables.execute(f"""
        WITH RECURSIVE chain AS (
          SELECT 0 AS step, * FROM WaitCause WHERE instruction_id = {last}
          UNION ALL
          SELECT step + 1, w.* FROM chain c JOIN WaitCause w ON w.instruction_id = c.prior_wait_id WHERE step < 1000)
        SELECT end_ts, prior_wait_id FROM chain ORDER BY step""").fetchall()
    assert 2 < len(chain) < 1000
    assert [e for e, _ in chain] == sorted((e for e, _ in chain), reverse=True)


def test_writes_to_the_other_core_are_edges(tmp_path):
    """The all-reduce model's cores meet by WRITEs to each other's semaphores."""
    tables, true = profiles.make_tables(tmp_path, profiles.Cell("allreduce", "trn2", 2))
    p = truth.Profile(tables, true)
    truth.check_flow(p)
    truth.check_wait_causes(p)
    assert p.differences == []
    con = duckdb.connect()
    read = lambda name: f"read_parquet('{tables}/{name}.parquet')"
    assert con.execute(f"""
        SELECT count(*) FROM {read("Flow")} f JOIN {read("Instruction")} a ON f.in_table = 'instruction' AND a.id = f.in_id
        JOIN {read("Instruction")} b ON f.out_table = 'instruction' AND b.id = f.out_id
        WHERE a.pcore_idx <> b.pcore_idx AND f.dependency_type = 'SEMAPHORE' AND a.opcode = 'WRITE'""").fetchone()[0] > 0


@pytest.mark.parametrize("slow", (0, 1))
def test_executions_are_told_apart_by_clocks_that_run_off(tmp_path, slow):
    """The timeline's times are raw ones of Sync's clock: corrected, they have each execution's instructions between them, and
    what semaphores were is forgotten before the first of these, not among them."""
    cell = profiles.Cell("allreduce", "trn1", 1, "drift", 3, ("--drift", "--slow-rank", f"{slow}:100"))
    ntff, neff, true = profiles.make_ntff(tmp_path, cell)
    file = read(ntff)
    clock = next(file.graphs())["timestamp_info"]["tpb_sp"]
    begin = clock["init_timestamp"]
    right = lambda raw: begin + (raw - begin) * clock["expected_timestamp_inc"] // clock["actual_timestamp_inc"]
    p = truth.Profile(profiles.process(ntff, [neff], tmp_path / "tables"), true)
    spans = [(right(e["start_ps"]), right(e["end_ps"])) for e in file.info["execution_timeline"]]
    assert len(spans) == 3 and clock["expected_timestamp_inc"] != clock["actual_timestamp_inc"]
    slack = 10  # ps: by how much two clocks that show whole ticks may differ
    for r in p.true("instructions"):
        start, end = spans[int(r["execution"])]
        assert start - slack <= int(r["start_ps"]) <= int(r["end_ps"]) <= end + slack
    truth.check_flow(p)
    truth.check_wait_causes(p)
    assert p.differences == []


@pytest.mark.parametrize("arch, lnc", (("trn1", 1), ("trn2", 2)))
def test_waits_for_collectives_name_them(tmp_path, arch, lnc):
    """Each collective has its trigger before it and those behind it that waited for its end; their waits cost what they took."""
    tables, true = profiles.make_tables(tmp_path, profiles.Cell("allreduce", arch, lnc))
    assert truth.compare(tables, true) == []
    con = duckdb.connect()
    for path in tables.glob("*.parquet"):
        con.execute(f"CREATE VIEW \"{path.stem}\" AS SELECT * FROM read_parquet('{path}')")
    one = lambda query: con.execute(query).fetchone()
    (ops, triggers, waited), = con.execute("""
        SELECT count(*), count(*) FILTER ((SELECT count(*) FROM Flow WHERE out_table = 'cc_op' AND out_id = c.id) = 1),
               count(*) FILTER (id IN (SELECT in_id FROM Flow WHERE in_table = 'cc_op' AND dependency_type = 'SEMAPHORE')) FROM CcOp c""").fetchall()
    assert ops == triggers and ops // 2 < waited <= ops
    waits, behind, prior, late = one("""
        SELECT count(*), count(*) FILTER (w.update_ts = c.end_ts), count(prior_wait_id),
               count(*) FILTER (w.end_ts < c.end_ts) FROM WaitCause w JOIN CcOp c ON w.in_table = 'cc_op' AND c.id = w.in_id""")
    assert 0 < waits and (behind, prior, late) == (waits, waits, 0)
    assert one("SELECT count(*) FROM WaitCause WHERE unknown_reason = 'writer_not_known'") == (0,)
    crossed, known = one("""
        SELECT count(*), count(w.prior_wait_id) FROM WaitCause w JOIN Instruction a ON a.id = w.instruction_id
        JOIN Instruction b ON w.in_table = 'instruction' AND b.id = w.in_id WHERE a.pcore_idx <> b.pcore_idx""")
    assert crossed == known and bool(crossed) == (lnc == 2)  # a chain of waits leads over cores


def test_waits_and_their_counter_differ_by_what_is_cut(tables):
    """The counter has whole cycles and both times whole ns: never more, and less by less than 2 ns and a cycle (pipeline/README.md)."""
    (least, most, n), = tables.execute("SELECT min(d), max(d), count(*) FROM (SELECT w.wait_ns - i.evt_wait_time_ns AS d FROM WaitCause w "
                                       "JOIN Instruction i ON i.id = w.instruction_id WHERE NOT w.saturated)").fetchall()
    assert n > 20 and 0 <= least and most <= 3
