"""Which columns really hold something: over profiles that together have all activity that the simulator can make."""

import hashlib
import os

import duckdb

import gather_job
import matrix
import profiles
from profiles import Cell

# Together these show whatever kymo fills. A part that fills a table adds the cell that makes it.
CELLS = (
    Cell("mlp", "trn2", 2, "coverage", executions=2),
    Cell("attention", "trn2", 2, "coverage", executions=1),
    Cell("mlp", "trn1", 1, "coverage", executions=2),
    Cell("attention", "trn1", 1, "coverage-lost", executions=40, options=("--buffer", "INSTRUCTION=1")),
    Cell("attention", "trn3", 2, "coverage-no-dge", executions=1, dge=0, small=True),
    Cell("attention", "trn2", 1, "nki", executions=1, small=True),
    Cell("allreduce", "trn2", 2, "coverage-collectives", executions=2),
    Cell("mlp", "trn2", 2, "coverage-throttle", executions=3, options=matrix.THROTTLE, small=True),
    Cell("mlp", "trn2", 2, "coverage-notices", executions=2, options=matrix.NOTICES, small=True),
    Cell("mlp", "trn2", 1, "coverage-old", executions=1, options=("--driver", "2.30.9"), small=True),
)


def field(number, value):
    """One field of a protobuf message: a whole number, or bytes."""
    def varint(n):
        return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def manifest(ntff):
    """What a daemon writes beside a capture, with everything that tables take from it (proto/manifest.proto)."""
    data = ntff.read_bytes()
    file = field(1, ntff.name) + field(2, 1) + field(3, len(data)) + field(4, hashlib.sha256(data).digest())
    clock = field(1, 1) + field(2, gather_job.UNIX) + field(3, 5 * 10**9) + field(4, 100) + field(5, 50_000) + field(6, 1)
    label = field(1, "world_size") + field(2, "4")
    return b"".join(field(n, v) for n, v in ((1, 1), (2, "capture"), (3, "job"), (4, 1), (5, "host"), (6, "boot"), (7, "model"), (8, "periodic"),
                                             (9, 17), (10, 2), (11, gather_job.UNIX), (12, gather_job.UNIX + 10**9), (14, file), (21, label),
                                             (22, clock), (23, "request")))


def make_captured(directory, cell):
    """A profile of a capture with its manifest."""
    ntff, neff, _ = profiles.make_ntff(directory, cell)
    path = directory / "manifest.pb"
    path.write_bytes(manifest(ntff))
    return profiles.process(ntff, [neff], directory / "tables", "--manifest", path, "--name", "captured")


def make_parent(directory, lossy):
    """A multi-rank profile of four ranks, one of which failed, and of one with losses."""
    hosts, drifts = ("a", "a", "b", "b"), (0.0, 35e-6, -80e-6, 12e-6)
    ranks = [gather_job.Rank(k, hosts[k], drifts[k], gather_job.UNIX + 10**9 * k, host_off=0) for k in range(4)]
    gather_job.run_job(ranks, steps=4)
    dirs = [gather_job.write_profile(directory / f"r{r.number}@latest", r, 5, 20 * 10**9, r.number) for r in ranks]
    members = directory / "members"
    members.write_text("".join(f"ready\tr{k}\t{dirs[k]}\t\n" for k in range(3)) +
                       f"failed\tr3\t\tthe file is cut\nready\tlossy\t{lossy}\t\n")
    profiles.run(profiles.BIN / "kymo-gather", "--output", directory / "parent", "--members", members)
    return directory / "parent"


def make_fleet(directory, tables):
    profiles.run(profiles.BIN / "kymo-gather", "--output", directory, "--fleet", "--name", "p", "--job", "job", "--host", "h", "--rank", 3,
                 "--capture", "c", "--time", gather_job.UNIX, tables)
    return directory


def make(directory):
    """All of the profiles' directories."""
    made = []
    for k, cell in enumerate(CELLS):
        (directory / str(k)).mkdir()
        made.append(profiles.make_tables(directory / str(k), cell, "--name", f"profile-{k}", "-F", "enable-memory-viewer=1")[0])
    for name in ("captured", "ranks"):
        (directory / name).mkdir()
    made.append(make_captured(directory / "captured", Cell("mlp", "trn2", 1, executions=2, small=True)))
    lossy = made[[cell.name for cell in CELLS].index("coverage-lost")]
    made.append(make_parent(directory / "ranks", lossy))
    made += make_systems(directory, "model") + make_systems(directory, "session", "--async")
    # The runtime's ring overflows: what it held in memory before is told by totals alone.
    made += make_systems(directory, "session", "--steps", 80, name="full", events=1024)
    return made + [make_fleet(directory / f"fleet-{k}", made[k]) for k in range(len(CELLS))]


def make_systems(directory, mode, *options, name=None, events=None):
    """System profiles of a simulated job, and the device profiles that they link; events: most that the runtime keeps."""
    neff = profiles.make_neff(directory, "mlp", "trn2", 2, small=True)
    work = directory / f"system-{name or mode}"
    limit = {"NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC": str(events)} if events else {}
    profiles.run(profiles.BIN / "kymo-sim", "run", "--instance", "trn2.48xlarge", "--lnc", 2, "--system", "--mode", mode,
                 *(options if "--steps" in options else ("--steps", 2, *options)), "--neff", neff, "--output", work, env=os.environ | limit)
    for session in (work / "captures").glob("*_pid_*/*"):
        profiles.run(profiles.BIN / "kymo", "process", "-d", session, "--data-path", work)
    return sorted((work / "profiles" / "global").iterdir())


def says_something(column, kind, empty):
    """SQL: a value that is neither null nor what a required column holds for lack of inputs."""
    if kind.endswith("[]"):
        return f'len("{column}") > 0'
    if kind == "VARCHAR":
        return f"\"{column}\" NOT IN ('', '{empty}')" if empty else f"\"{column}\" <> ''"
    if kind == "BOOLEAN":
        return f'"{column}" IS NOT NULL'
    return f'"{column}" <> {empty}' if empty not in ("", "[]") else f'"{column}" IS NOT NULL'


def columns_that_say_something(directories, empties):
    """{"Table.column"}; empties: "Table.column" to the schema's empty value, "" where it is optional."""
    found = set()
    for directory in directories:
        for path in sorted(directory.glob("*.parquet")):
            table = path.stem
            with duckdb.connect() as db:
                kinds = {name: kind for name, kind, *_ in db.sql(f"DESCRIBE SELECT * FROM '{path}'").fetchall()}
                tests = [f"bool_or({says_something(c, k, empties.get(f'{table}.{c}', ''))})" for c, k in kinds.items()]
                answers = db.sql(f"SELECT {', '.join(tests)} FROM '{path}'").fetchone()
            found |= {f"{table}.{c}" for c, answer in zip(kinds, answers) if answer}
    return found
