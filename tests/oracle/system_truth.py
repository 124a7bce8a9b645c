"""Compares the tables of a system profile with the truth that the device process wrote (driver-iface/sim/TRUTH.md)."""

from collections import Counter
from pathlib import Path
import json

from truth import read_table, read_tsv

# What the model calls a deed, and the event that tells of it.
EVENTS = {"execute": "nrt_execute", "device_exec": "nc_exec_running", "copyin": "dmem_buf_copyin", "copyout": "dmem_buf_copyout",
          "load": "model_load", "alloc": "tensor_alloc", "free": "tensor_free", "submit": "model_submit"}
COPY_NS = 2000  # the host's part of a copy, before the transfer begins
TOLERANCE_NS = 1  # a device's time is moved to the host's by a pair of readings, each of them cut to ns
CODE = ["tensor_instructions_bytes", "scalar_instructions_bytes", "gpsimd_instructions_bytes", "vector_instructions_bytes",
        "sync_instructions_bytes"]
CLASSES = {"model_code": CODE, "constants": ["weights_bytes"], "tensors": ["tensors_bytes"],
           "notifications": ["profiler_buffers_bytes"], "runtime_memory": ["generic_bytes"], "dma_rings": ["dma_rings_runtime_bytes"]}


def rows(directory, name):
    table = read_table(directory, name)
    return table.to_pylist() if table is not None else []


def true_events(truth):
    wanted = Counter()
    for deed in read_tsv(truth / "system.tsv"):
        start, end, name = int(deed["start_ns"]), int(deed["end_ns"]), EVENTS.get(deed["kind"])
        if deed["kind"] in ("copyin", "copyout"):
            start += COPY_NS
        if deed["kind"] in ("alloc", "free"):
            start = end
        if name:
            wanted[name, start, end, int(deed["bytes"]) if "copy" in deed["kind"] else None] += 1
    return wanted


def near(found, wanted, name):
    """Pairs hardware events with true ones, in order of time."""
    a = sorted((k[1], k[2]) for k in found.elements() if k[0] == name)
    b = sorted((k[1], k[2]) for k in wanted.elements() if k[0] == name)
    return len(a) == len(b) and all(abs(x[0] - y[0]) <= TOLERANCE_NS and abs(x[1] - y[1]) <= TOLERANCE_NS for x, y in zip(a, b))


def compare_events(tables, truth, tolerance=TOLERANCE_NS):
    wanted = true_events(truth)
    found = Counter((r["name"], r["start_ts"], r["end_ts"], r["transfer_bytes"]) for r in rows(tables, "SystemProfileEvents")
                    if r["name"] in EVENTS.values())
    differences = []
    if not near(found, wanted, "nc_exec_running"):
        differences.append("nc_exec_running differs from device_exec")
    for counter in (wanted, found):
        for key in [k for k in counter if k[0] == "nc_exec_running"]:
            del counter[key]
    if wanted != found:
        differences.append(f"events: missing {list((wanted - found).items())[:4]}, too many {list((found - wanted).items())[:4]}")
    return differences


def hbm_of(vnc, lnc, stacks, pcores):
    return vnc * lnc // pcores, vnc * lnc % pcores * stacks // pcores


def compare_memory(tables, truth, lnc, stacks=4, pcores=8):
    """After the last event of each moment, each HBM holds what the model says."""
    states, now, found = {}, {}, {}
    for row in read_tsv(truth / "memory.tsv"):
        place = hbm_of(int(row["vnc"]), lnc, stacks, pcores)
        now[place, row["vnc"], row["kind"]] = int(row["bytes"])
        state = Counter()
        for (where, _, kind), size in now.items():
            if where == place:
                state[kind] += size
        states[place, int(row["ts_ns"])] = +state
    for r in rows(tables, "SystemProfileHbmUsage"):
        state = Counter({kind: sum(r[c] for c in columns) for kind, columns in CLASSES.items()})
        found[(r["device_idx"], r["hbm_idx"]), r["timestamp"]] = +state
        if r["total_bytes"] != sum(v for k, v in r.items() if k.endswith("_bytes") and k != "total_bytes"):
            return [f"total_bytes of {r} is not the sum"]
    missing = [k for k, v in states.items() if found.get(k) != v]
    return [f"memory: {len(missing)} of {len(states)} states differ: {missing[0]} {states[missing[0]]} "
            f"{found.get(missing[0])}"] if missing or len(found) != len(states) else []


def compare_samples(tables, truth):
    cpus, memory = {}, {}
    for row in read_tsv(truth / "host.tsv"):
        values = [float(v) for v in row["cpu_percent"].split(",")]
        ts = int(row["ts_ns"])
        cpus.update({(ts, str(i)): v for i, v in enumerate(values)})
        cpus[ts, "average"] = sum(values) / len(values)
        memory[ts] = (int(row["used_bytes"]), 100 * int(row["used_bytes"]) / int(row["capacity_bytes"]))
    found = {(r["timestamp"], r["cpu_id"]): r["util_percent"] for r in rows(tables, "CpuUsage")}
    differences = []
    if found.keys() != cpus.keys() or any(abs(found[k] - v) > 1e-4 for k, v in cpus.items()):
        differences.append("CpuUsage differs")
    found = {r["timestamp"]: (r["used_bytes"], r["used_percent"]) for r in rows(tables, "HostMemUsage")}
    if found.keys() != memory.keys() or any(found[k][0] != v[0] or abs(found[k][1] - v[1]) > 1e-4 for k, v in memory.items()):
        differences.append("HostMemUsage differs")
    return differences


def compare_framework(tables, session):
    """trace.json is text that Python reads by itself."""
    path = Path(session) / "trace.json"
    wanted = Counter()
    if path.exists():
        # Times as text: a double has too few digits for ns of a Unix time.
        for e in json.loads(path.read_text(), parse_float=str, parse_int=str)["traceEvents"]:
            if e["ph"] == "X":
                ns = [int(us) * 1000 + int(f.ljust(3, "0")) for us, f in (e["ts"].split("."), e["dur"].split("."))]
                wanted[e["name"], ns[0], ns[0] + ns[1], int(e["pid"]), int(e["tid"])] += 1
    found = Counter((r["name"], r["start_ts"], r["end_ts"], r["process_id"], r["thread_id"])
                    for r in rows(tables, "SystemProfileEvents") if r["trace_event_source"] == "framework")
    return [] if wanted == found else [f"framework: {wanted - found} missing, {found - wanted} too many"]


def compare(tables, truth, session, lnc):
    return (compare_events(tables, truth) + compare_memory(tables, truth, lnc) + compare_samples(tables, truth)
            + compare_framework(tables, session))
