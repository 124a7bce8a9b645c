"""A job of several ranks for kymo-gather, made of its truth: clocks that run off, one rank that is slow, collectives that end
together once the last has come. Profiles have the tables and columns that kymo-process writes, and nothing else."""

from dataclasses import dataclass, field
from pathlib import Path
import random

import pyarrow as pa
import pyarrow.parquet as pq

UNIX = 1_700_000_000 * 10**9
SYNC_ERROR = 1000


@dataclass
class Rank:
    """host = unix + (1 + drift) * ts, exactly; what the runtime reads is off by up to the error."""

    number: int
    host: str
    drift: float
    zero_unix: int
    host_off: int = 0  # of the host's clock from UTC
    host_error: int | None = 50_000
    neff: str = "a" * 32
    first_execution: int = 0
    ops: list = field(default_factory=list)  # (start, end) in true time, op_id, operation, elements, group

    def axis(self, true_ns):
        return round((true_ns + self.host_off - self.zero_unix) / (1 + self.drift))


def write(directory, table, columns, types=None):
    directory.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), directory / f"{table}.parquet")


def write_profile(directory, rank, syncs, span, seed):
    rng = random.Random(seed)
    directory = Path(directory)
    last = span
    write(directory, "Metadata", {
        "profile_schema_version": ["7.4.0"], "first_hw_timestamp": [10**9], "last_hw_timestamp": [10**9 + last],
        "first_ts": ["2023-11-14 22:13:20+00:00"], "num_physical_cores": [1], "instance_type": ["trn2.48xlarge"],
        "rank": [rank.number], "vnc": [0], "host": [rank.host], "boot_id": [f"boot-{rank.host}"], "job": ["train"],
        "capture_id": [f"c-{rank.number}"], "request": ["c-1"], "world_size": [4], "first_execution": [rank.first_execution],
        "host_clock_error_ns": pa.array([rank.host_error], pa.int64()),
        "host_clock_synchronised": [rank.host_error is not None]})
    write(directory, "NeffHeader", {"uuid": [rank.neff]})
    if syncs:
        at = [round(k * span / max(1, syncs - 1)) for k in range(syncs)]
        write(directory, "ClockSync", {
            "ts": at, "host_unix_ns": [rank.zero_unix + t + round(rank.drift * t) + rng.randint(-SYNC_ERROR, SYNC_ERROR) for t in at],
            "error_bound_ns": [SYNC_ERROR + 1] * syncs, "source": ["sync_point"] * syncs})
    if rank.ops:
        ops = sorted(rank.ops)
        write(directory, "CcOp", {
            "start_ts": [rank.axis(o[0]) for o in ops], "end_ts": [rank.axis(o[1]) for o in ops], "operation": [o[3] for o in ops],
            "op_id": [o[2] for o in ops], "id": list(range(len(ops))), "stream_id": [0] * len(ops), "replica_group": [o[5] for o in ops],
            "num_elements": [o[4] for o in ops], "dtype": ["bf16"] * len(ops)})
    return directory


def run_job(ranks, steps, slow=2, late=3_000_000, group="[[0, 1, 2, 3]]", seed=1):
    """All ranks compute, meet in three all-reduces per step, and go on when the last has come. True times."""
    rng = random.Random(seed)
    now = UNIX + 5 * 10**9
    truth = []
    for step in range(steps):
        for op in range(3):
            arrivals = [now + 1_000_000 + rng.randint(0, 50_000) + (late if r.number == slow else 0) for r in ranks]
            end = max(arrivals) + 200_000
            for r, arrival in zip(ranks, arrivals):
                r.ops.append((arrival, end, op, "AllReduce", 1024 << op, group))
            truth.append((step, op, arrivals, end))
            now = end
    return truth
