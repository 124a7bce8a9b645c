"""Perfetto traces of finished profiles, read with Perfetto's own published proto (PyPI's perfetto; its trace processor is a download
of its own and is not needed): what is on the tracks is what is in the tables, and it follows the rules of track events.
"""

from collections import Counter, defaultdict
from pathlib import Path
import re
import subprocess

from google.protobuf.descriptor import FieldDescriptor
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as published
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import profiles

GOLDEN = Path(__file__).parents[1] / "golden" / "systrace" / "v1"
PROTO = Path(__file__).parents[2] / "proto" / "perfetto.proto"
ALIKE = {"InternedText": ("EventName", "DebugAnnotationName", "InternedString")}
CELLS = (profiles.Cell("mlp", "trn2", 2, executions=1, small=True), profiles.Cell("attention", "trn1", 1, executions=1, small=True))
BEGIN, END, INSTANT, COUNTER = (published.TrackEvent.Type.Value(f"TYPE_{t}") for t in ("SLICE_BEGIN", "SLICE_END", "INSTANT", "COUNTER"))


@pytest.fixture(scope="module", params=CELLS, ids=str)
def tables(request, tmp_path_factory):
    return profiles.make_tables(tmp_path_factory.mktemp("profile"), request.param)[0]


def export(directory, out, *options):
    done = subprocess.run([profiles.BIN / "kymo", "export", directory, "-f", "perfetto", "-o", out, *map(str, options)],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stderr


def rows_of(tables, name):
    return pq.read_table(tables / f"{name}.parquet").to_pylist()


class Trace:
    """What a trace processor makes of the packets: slices by lane, instants, counters, arrows as pairs of event arguments."""

    def __init__(self, path):
        trace = published.Trace()
        trace.ParseFromString(path.read_bytes())
        assert trace.packet[0].sequence_flags == 1 and {p.sequence_flags for p in trace.packet[1:]} <= {2}
        self.tracks, self.slices, self.instants, self.counters = {}, [], [], defaultdict(list)
        names, arg_names, texts = {}, {}, {}
        events = []
        for order, packet in enumerate(trace.packet):
            for item in packet.interned_data.event_names:
                assert item.iid not in names
                names[item.iid] = item.name
            for item in packet.interned_data.debug_annotation_names:
                arg_names[item.iid] = item.name
            for item in packet.interned_data.debug_annotation_string_values:
                texts[item.iid] = item.str.decode()
            if packet.HasField("track_descriptor"):
                d = packet.track_descriptor
                assert d.uuid not in self.tracks and (not d.parent_uuid or d.parent_uuid in self.tracks)
                self.tracks[d.uuid] = d
            elif packet.HasField("track_event"):
                assert packet.track_event.track_uuid in self.tracks
                events.append((packet.timestamp, order, packet.track_event))
        self.resolve = names, arg_names, texts
        self.play(sorted(events, key=lambda e: e[:2]))

    def args_of(self, event):
        names, arg_names, texts = self.resolve
        found = {}
        for a in event.debug_annotations:
            name = a.name or arg_names[a.name_iid]
            kind = a.WhichOneof("value")
            found[name] = texts[a.string_value_iid] if kind == "string_value_iid" else getattr(a, kind)
        return found

    def place_of(self, uuid):
        d = self.tracks[uuid]
        return self.tracks[d.parent_uuid].name, d.name

    def play(self, events):
        names = self.resolve[0]
        open_slices, leaving, self.arrows = {}, {}, []
        self.chains = defaultdict(list)  # flows that pass any number of events
        for ts, _, e in events:
            if e.type == COUNTER:
                self.counters[self.place_of(e.track_uuid)].append((ts, e.double_counter_value))
                continue
            if e.type == END:
                # Lanes never nest, so one slice is open at most, and it is this one.
                one = open_slices.pop(e.track_uuid)
                one["end"] = ts
                self.slices.append(one)
            else:
                one = {"place": self.place_of(e.track_uuid), "name": e.name or names[e.name_iid], "start": ts, "args": self.args_of(e),
                       "table": e.categories[0]}
                if e.type == INSTANT:
                    self.instants.append(one)
                else:
                    assert e.track_uuid not in open_slices
                    open_slices[e.track_uuid] = one
            for flow in e.flow_ids:
                if e.categories[0] == "SystemProfileEvents":
                    self.chains[flow].append(one)
                    continue
                assert flow not in leaving
                leaving[flow] = one
            for flow in e.terminating_flow_ids:
                self.arrows.append((leaving.pop(flow), one))
        assert not open_slices and not leaving


def several_cores(tables):
    return rows_of(tables, "Metadata")[0]["num_physical_cores"] > 1


@pytest.fixture(scope="module")
def trace(tables, tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "p.pftrace"
    assert export(tables, path) == ""
    return Trace(path)


def test_numbers_are_published():
    """Every message, field, number and type of our subset is in the proto that Perfetto publishes."""
    kinds = {"uint64": "UINT64", "uint32": "UINT32", "int64": "INT64", "int32": "INT32", "string": "STRING", "bool": "BOOL",
             "double": "DOUBLE", "fixed64": "FIXED64"}
    message, checked = None, 0
    for line in PROTO.read_text().splitlines():
        if found := re.match(r"(?:message) (\w+) \{", line):
            message = found[1]
        elif found := re.match(r"  (optional|repeated) (\w+) (\w+) = (\d+);", line):
            label, kind, name, number = found[1], found[2], found[3], int(found[4])
            for theirs in ALIKE.get(message, (message,)):
                field = next(f for f in getattr(published, theirs).DESCRIPTOR.fields if f.number == number)
                assert field.name == name or name == "text"
                assert field.is_repeated == (label == "repeated")
                if kind in kinds and name != "text":
                    assert field.type == getattr(FieldDescriptor, f"TYPE_{kinds[kind]}"), (theirs, name)
                checked += 1
        elif found := re.match(r"    ([A-Z_]+) = (\d+);", line):
            enums = [e for m in (published.TracePacket, published.TrackDescriptor, published.TrackEvent) for e in m.DESCRIPTOR.enum_types]
            assert any(v.name == found[1] and v.number == int(found[2]) for e in enums for v in e.values), line
            checked += 1
    assert checked > 40


def test_instructions(tables, trace):
    want = Counter((r["timeline_track"], r["opcode"], r["start_ts"], r["end_ts"], r["id"], r["pc"], r["operands"] or None)
                   for r in rows_of(tables, "Instruction"))
    got = Counter((s["place"][1], s["name"], s["start"], s["end"], s["args"]["id"], s["args"]["pc"], s["args"].get("operands"))
                  for s in trace.slices if s["table"] == "Instruction")
    assert got == want
    assert {s["place"][0] for s in trace.slices if s["table"] == "Instruction"} == {"NeuronCore"}


def test_dma(tables, trace):
    lnc2 = several_cores(tables)
    for table, group, track in (("DmaPacket", "DMA", lambda r: f"DMA-E{r['engine_idx']}"),
                                ("DmaPacketAggregated", "DMA transfers by queue", lambda r: r["queue_name"])):
        core = (lambda r: f"(nc{r['pcore_idx']})") if lnc2 else lambda r: ""
        want = Counter(((group, track(r) + core(r)), r["start_ts"], r["end_ts"], r["id"], r["transfer_bytes"]) for r in rows_of(tables, table))
        got = Counter((s["place"], s["start"], s["end"], s["args"]["id"], s["args"]["transfer_bytes"]) for s in trace.slices if s["table"] == table)
        assert got == want
    want = Counter((f"Host-device DMA-E{r['engine_idx']}", r["start_ts"], r["end_ts"], r["id"]) for r in rows_of(tables, "HostDmaTransfer"))
    assert Counter((s["place"][1], s["start"], s["end"], s["args"]["id"]) for s in trace.slices if s["table"] == "HostDmaTransfer") == want


def check_arrows(tables, trace):
    called = {"Instruction": "instruction", "DmaPacketAggregated": "dma_block", "CcOp": "cc_op"}
    want = Counter((r["in_table"], r["in_id"], r["out_table"], r["out_id"]) for r in rows_of(tables, "Flow"))
    got = Counter((called[a["table"]], a["args"]["id"], called[b["table"]], b["args"]["id"]) for a, b in trace.arrows)
    assert got == want and len(want) > 100
    return {t for edge in want for t in (edge[0], edge[2])}


def test_arrows(tables, trace):
    """Flow's edges, all of them, from cause to effect."""
    assert check_arrows(tables, trace) == {"instruction", "dma_block"}


def test_arrows_of_collectives(tmp_path):
    tables, _ = profiles.make_tables(tmp_path, profiles.Cell("allreduce", "trn2", 1))
    export(tables, tmp_path / "p.pftrace")
    assert check_arrows(tables, Trace(tmp_path / "p.pftrace")) == {"instruction", "dma_block", "cc_op"}


COUNTERS = {
    "Estimated Instant MFU": ("FlopsUsage", "mfu_instant_percent"), "Estimated Cumulative MFU": ("FlopsUsage", "mfu_cumulative_percent"),
    "Estimated Instant HFU": ("FlopsUsage", "hfu_instant_percent"), "Estimated Cumulative HFU": ("FlopsUsage", "hfu_cumulative_percent"),
    "DMA Throughput": ("DmaUsage", "current_throughput"), "HBM Throughput": ("HbmUsage", "current_throughput"),
    "Host-Device DMA Throughput": ("HostDmaUsage", "current_throughput"), "Cumulative DMA Throughput": ("DmaUsage", None),
    "Cumulative HBM Throughput": ("HbmUsage", None), "Cumulative Host-Device DMA Throughput": ("HostDmaUsage", None),
}


@pytest.fixture(scope="module")
def series(tmp_path_factory):
    """A directory with the tables of throughput and utilisation as the schema has them."""
    directory = tmp_path_factory.mktemp("series")
    ts = pa.array([0, 1000, 2000])
    for table in ("DmaUsage", "HbmUsage", "HostDmaUsage"):
        columns = {"timestamp": ts, "current_throughput": pa.array([0.0, 2e9, 0.5e9], pa.float32()),
                   "total_transfer_bytes": pa.array([0, 2000, 2500]), "pcore_idx": pa.array([0, 0, 0])}
        pq.write_table(pa.table(columns), directory / f"{table}.parquet")
    percents = ("mfu_instant_percent", "mfu_cumulative_percent", "hfu_instant_percent", "hfu_cumulative_percent")
    pq.write_table(pa.table({"timestamp": ts, "pcore_idx": pa.array([0, 0, 0]), **{p: pa.array([1.0, 2.0, 3.0], pa.float32()) for p in percents}}),
                   directory / "FlopsUsage.parquet")
    return directory


def test_counters(series, tmp_path):
    """The viewer's ten plots under its names; cumulative throughput is the bytes so far by the time so far."""
    export(series, tmp_path / "p.pftrace")
    got = Trace(tmp_path / "p.pftrace").counters
    assert {name for _, name in got} == set(COUNTERS)
    for (_, name), points in got.items():
        table, column = COUNTERS[name]
        want = [(r["timestamp"], r[column]) for r in rows_of(series, table)] if column else [(1000, 2e9), (2000, 1.25e9)]
        assert points == want, name


def test_range_and_tables(tables, tmp_path):
    starts = sorted(r["start_ts"] for r in rows_of(tables, "Instruction"))
    begin, end = starts[len(starts) // 3], starts[len(starts) // 2]
    export(tables, tmp_path / "r.pftrace", "--start", begin, "--end", end)
    trace = Trace(tmp_path / "r.pftrace")
    want = {r["id"] for r in rows_of(tables, "Instruction") if r["start_ts"] < end and (r["end_ts"] > begin or r["start_ts"] >= begin)}
    assert {s["args"]["id"] for s in trace.slices if s["table"] == "Instruction"} == want and trace.arrows
    export(tables, tmp_path / "t.pftrace", "-t", "Instruction", "SemaphoreUpdate")
    trace = Trace(tmp_path / "t.pftrace")
    assert {s["table"] for s in trace.slices} == {"Instruction"} and {i["table"] for i in trace.instants} == {"SemaphoreUpdate"}
    assert len(trace.instants) == len(rows_of(tables, "SemaphoreUpdate"))
    assert {(a["table"], b["table"]) for a, b in trace.arrows} == {("Instruction", "Instruction")}


def test_limit_of_arrows(tables, tmp_path):
    said = export(tables, tmp_path / "p.pftrace", "--flows", 10)
    assert f"{len(rows_of(tables, 'Flow'))} dependencies, more than --flows 10" in said
    assert not Trace(tmp_path / "p.pftrace").arrows


def test_refusals(tables, tmp_path):
    for options, text in ((("-t", "Summary"), "does not show"), (("-t", "CcOp"), "no table CcOp"),
                          (("-t", "Nope"), "tables there that a trace shows: DmaPacket, ")):
        done = subprocess.run([profiles.BIN / "kymo", "export", tables, "-f", "perfetto", "-o", tmp_path / "p", *options],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and text in done.stderr
    assert not list(tmp_path.iterdir())


def test_system_profile(tmp_path):
    """Spans by thread and by core, flows through all events of their id, samples of processors, host memory and HBM."""
    profiles.run(profiles.BIN / "kymo-process", "--system", GOLDEN, "--output", tmp_path / "t")
    assert export(tmp_path / "t", tmp_path / "p.pftrace") == ""
    trace = Trace(tmp_path / "p.pftrace")
    events = {r["id"]: r for r in rows_of(tmp_path / "t", "SystemProfileEvents")}
    where = {"neuron_rt": "thread 77", "neuron_hw": "nc0", "framework": "thread {thread_id}"}
    drawn = {s["args"]["id"]: s for s in trace.slices + trace.instants}
    assert set(drawn) == set(events)
    for number, r in events.items():
        track = f"i-0123 pid 4711 {r['trace_event_source']} {where[r['trace_event_source']].format(**r)}"
        s = drawn[number]
        assert (s["place"], s["name"], s["start"], s.get("end", s["start"])) == (("System", track), r["name"], r["start_ts"], r["end_ts"])
    want = defaultdict(list)
    for r in sorted(events.values(), key=lambda r: (r["start_ts"], r["id"])):
        for flow in r["flow_id"] or ():
            want[flow].append(r["id"])
    assert sorted(want.values()) == sorted([e["args"]["id"] for e in chain] for chain in trace.chains.values())
    assert any(len(chain) > 1 for chain in want.values())
    counters = {name for group, name in trace.counters if group == "Processors and memory"}
    assert counters == {"CPU 0", "CPU 1", "CPU average", "Host memory", "nd0 HBM 1", "nd0 HBM 1 tensors", "nd0 HBM 1 unknown"}
    points = [(r["timestamp"], r["tensors_bytes"]) for r in rows_of(tmp_path / "t", "SystemProfileHbmUsage")]
    assert trace.counters["Processors and memory", "nd0 HBM 1 tensors"] == points
    said = export(tmp_path / "t", tmp_path / "q.pftrace", "--flows", 2)
    assert f"{sum(len(r['flow_id'] or ()) for r in events.values())} dependencies" in said and not Trace(tmp_path / "q.pftrace").chains
