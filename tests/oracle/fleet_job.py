"""Ranks and fleets for the viewer's questions: jobs that kymo-sim ran, gathered by kymo-gather, and rows of a fleet over days."""

import datetime
import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import profiles

HOUR = 3600 * 10**9


def label(directory, rank, **labels):
    """What a capture's manifest would have told of a directory of tables."""
    path = directory / "Metadata.parquet"
    table = pq.read_table(path)
    for name, value in {"rank": rank, "job": "train", "request": "c-1", **labels}.items():
        column = pa.array([value], table.schema.field(name).type)
        table = table.set_column(table.schema.get_field_index(name), name, column)
    pq.write_table(table, path)


def simulated_job(directory, ranks=4, slow="2:20", steps=2, job="train"):
    """(parent, members): ranks of one all-reduce program that ran together, one of them slow."""
    directory = Path(directory)
    neff = directory / "step.neff"
    profiles.run(profiles.BIN / "kymo-sim", "neff", "--model", "allreduce", "--arch", "trn2", "--lnc", 1, "--ranks", ranks, "--hidden", 256,
                 "--output", neff)
    profiles.run(profiles.BIN / "kymo-sim", "run", "--neff", neff, "--ranks", ranks, "--instance", "trn2.48xlarge", "--lnc", 1, "--steps", steps,
                 "--mode", "session", "--slow-rank", slow, "--output", directory / "run")
    members = []
    for ntff in sorted((directory / "run").glob("captures/**/*.ntff"), key=lambda p: int(p.name.split("_")[2])):
        rank = int(ntff.name.split("_")[2])
        members.append(profiles.process(ntff, [neff], directory / "profiles" / f"{job}-node7-r{rank}"))
        label(members[-1], rank, job=job)
    parent = directory / "profiles" / f"{job}-ranks"
    profiles.run(profiles.BIN / "kymo-gather", "--output", parent, "--name", parent.name, *members)
    return parent, members


def edit_rows(path, **changes):
    """The rows of a FleetProfile, each value by its function."""
    table = pq.read_table(path, partitioning=None)
    rows = [json.loads(text) for text in table["row"].to_pylist()]
    for row in rows:
        row.update({name: change(row[name]) for name, change in changes.items()})
    pq.write_table(pa.table({"profile": table["profile"], "row": [json.dumps(row) for row in rows]}), path)


def publish(fleet, tables, name, day, hour=0, cluster="west", scale=1.0, **front):
    """Rows of one profile in their places, as collector/fleet_store.c puts them. scale: of its MFU and HFU."""
    time = int(datetime.datetime.combine(day, datetime.time(), datetime.timezone.utc).timestamp()) * 10**9 + hour * HOUR
    work = fleet.parent / f"work-{name}"
    options = [x for key, value in {**front, "time": time}.items() for x in (f"--{key}", value)]
    profiles.run(profiles.BIN / "kymo-gather", "--fleet", "--output", work, "--name", name, *options, tables)
    for path in sorted(work.glob("*.parquet")):
        if path.stem == "Summary" and scale != 1.0:
            table = pq.read_table(path)
            for column in ("mfu_estimated_percent", "hfu_estimated_percent"):
                field = table.schema.get_field_index(column)
                table = table.set_column(field, column, pa.array([v * scale for v in table[column].to_pylist()], table.schema.field(field).type))
            pq.write_table(table, path)
        if path.stem == "FleetProfile" and scale != 1.0:
            edit_rows(path, mfu=lambda v: v * scale, hfu=lambda v: v * scale)
        place = fleet / path.stem / f"date={day}" / f"cluster={cluster}"
        place.mkdir(parents=True, exist_ok=True)
        os.replace(path, place / f"part-{name}.parquet")
    shutil.rmtree(work)


def members_text(directories):
    return json.dumps({d.name: str(d) for d in directories})
