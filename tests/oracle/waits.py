"""When instructions began to work, by Instruction and WaitCause alone: the counter's word, and where that came to its end that of the
record of the met wait."""

from pathlib import Path

import pyarrow.parquet as pq


def beyond_counters(directory):
    """{id of an instruction: its whole wait}, where the counter does not have it and a record does."""
    path = Path(directory) / "WaitCause.parquet"
    rows = pq.read_table(path).to_pylist() if path.exists() else []
    return {r["instruction_id"]: r["wait_ns"] for r in rows if r["saturated"] and not r["lower_bound"]}


def waits_of(directory, rows):
    """Of a frame with rows of Instruction; a wait is no longer than the instruction."""
    whole = rows.id.map(beyond_counters(directory)).astype("Float64")
    waits = whole.fillna(rows.evt_wait_time_ns.astype("Float64")).fillna(0).astype("int64")
    return waits.clip(upper=rows.end_ts - rows.start_ts)
