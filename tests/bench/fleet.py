"""How long questions about a fleet take: the first, for which rows of all profiles are read, and others after it.

usage: fleet.py BUILD [--profiles 2800] [--days 14] [--older] [--queries BIN]

One simulated profile's rows become those of so many others. --older: as collectors made them before there was FleetProfile. --queries:
another build's kymo-query. Prints wall and CPU time, which a busy machine does not stretch, and the memory of the server.
"""

import argparse
import datetime
import json
import os
from pathlib import Path
import sys
import tempfile
import time

import pyarrow as pa
import pyarrow.parquet as pq

from figures import say

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "oracle"))

TABLES = ("FleetProfile", "Summary", "Metadata", "ExecutionInfo", "ThrottleSummary", "LossLedger")
HOSTS, JOBS, RANKS = 40, 7, 64


def with_values(table, values):
    for name, value in values.items():
        place = table.schema.get_field_index(name)
        field = table.schema.field(place)
        table = table.set_column(place, field, pa.array([value] * len(table), field.type))
    return table


def make(directory, count, days, older):
    """A fleet of so many profiles on the days up to today."""
    import fleet_job
    import profiles
    today = datetime.datetime.now(datetime.timezone.utc).date()
    tables, _ = profiles.make_tables(directory, profiles.Cell("mlp", "trn2", 1, small=True, options=("--throttle", "activity_0:6/8@20+30")))
    fleet_job.publish(directory / "seed", tables, "seed", today, job="job", rank=0, host="host", capture="c")
    seeds = {t: pq.read_table(directory / "seed" / t / f"date={today}" / "cluster=west" / "part-seed.parquet", partitioning=None) for t in TABLES[older:]}
    row = {} if older else json.loads(seeds["FleetProfile"]["row"][0].as_py())
    for k in range(count):
        front = {"profile": f"p{k}", "job": f"job{k % JOBS}", "host": f"node{k % HOSTS}", "rank": k % RANKS, "capture_id": f"c{k}"}
        place = Path(f"date={today - datetime.timedelta(days=k % days)}") / f"cluster={'east' if k % 3 else 'west'}"
        for name, table in seeds.items():
            values = {"profile": f"p{k}", "row": json.dumps({**row, **front})} if name == "FleetProfile" else front
            (directory / "fleet" / name / place).mkdir(parents=True, exist_ok=True)
            pq.write_table(with_values(table, values), directory / "fleet" / name / place / f"part-p{k}.parquet", compression="zstd")
    return directory / "fleet"


def cpu_of(server):
    fields = Path(f"/proc/{server.child.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_of(server):
    line = next(line for line in Path(f"/proc/{server.child.pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def ask(server, fleet, name, **params):
    begin, cpu = time.monotonic(), cpu_of(server)
    answer = server.ask(fleet, "fleet", group="rank", **params)
    say(f"fleet_{name}_wall", time.monotonic() - begin, "s")
    say(f"fleet_{name}_cpu", cpu_of(server) - cpu, "s")
    return answer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--profiles", type=int, default=2800)
    parser.add_argument("--days", type=int, default=14)
    parser.add_argument("--older", action="store_true")
    parser.add_argument("--queries", type=Path)
    args = parser.parse_args()
    os.environ["KYMO_BUILD"] = str(args.build.resolve())
    import profiles
    import serve_client
    with tempfile.TemporaryDirectory(prefix="kymo-fleet-", dir=os.environ.get("KYMO_BENCH_DIR")) as work:
        fleet = make(Path(work), args.profiles, args.days, args.older)
        profiles.BIN = args.queries or profiles.BIN
        server = serve_client.Server("--timeout", "600")
        assert ask(server, fleet, "first")["profiles"] == args.profiles
        ask(server, fleet, "second")
        say("fleet_memory", peak_of(server), "MB")
        server.close()
        server = serve_client.Server("--timeout", "600")
        answer = ask(server, fleet, "begun", wait=200)
        say("fleet_begun_read", answer["profiles"], "profiles")
        server.close()


if __name__ == "__main__":
    main()
