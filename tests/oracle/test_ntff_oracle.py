"""kymo's NTFF reader, seen through `kymo ntff inspect`, against the second reader in ntff_reader.py.

Every file of the tests that is an NTFF, simulated profiles, and files made here: one per refusal of formats/ntff/FORMAT.md, and
records of all types with random bits.
"""

from pathlib import Path
import copy
import json
import random
import re
import struct
import subprocess
import sys

import pytest

import ntff_reader as ntff
from profiles import BIN, INSTANCES, LIMIT, run

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = sorted((ROOT / "tests/golden/ntff").glob("*.ntff"))
CORPUS = sorted(p for p in (ROOT / "tests/fuzz/corpus/ntff").iterdir() if p.is_file())


# --- the two readers ---


def inspect(path, *options):
    """What kymo says of a file; None where it refuses it or calls it foreign."""
    done = subprocess.run([BIN / "kymo", "ntff", "inspect", path, "--json", *options], capture_output=True, timeout=LIMIT)
    assert done.returncode in (0, 1), f"{path}: exit {done.returncode}\n{done.stderr.decode()}"
    said = json.loads(done.stdout.decode("utf-8", "surrogateescape"))
    if done.returncode == 1:
        assert "error" in said, path
        return None
    return None if said["state"] == "foreign" else said


def read(path):
    try:
        return ntff.read(path)
    except ntff.Refused:
        return None


def check_header(c, py):
    want = {k: v for k, v in py.header.items() if k not in ("magic", "flags", "header_crc32c")}
    want["protobuf_crc32c"] = f"0x{want['protobuf_crc32c']:08x}"
    want["no_records"] = bool(py.header["flags"] & 1)
    assert c == want


def check_bytes(c, value, where):
    """Bytes are hex; long ones are cut short and say their length."""
    cut = re.fullmatch(r"([0-9a-f]*)\.\.\. \((\d+) bytes\)", c)
    if cut is None:
        assert c == value.hex(), where
    else:
        assert int(cut[2]) == len(value) and cut[1] and value.hex().startswith(cut[1]), where


def check_unknown(c, unknown, where):
    assert len(c) == len(unknown), where
    for said, field in zip(c, unknown):
        assert (said["field"], said["wire"]) == (field.number, ntff.WIRE_NAMES[field.wire]), where
        if field.wire == ntff.BYTES:
            assert said["length"] == len(field.value), where
        else:
            assert said["value"] == field.value, where


def shown(text):
    """Text with its bytes that are no UTF-8 as U+FFFD; how many of those stand for a run of such bytes is not compared."""
    return re.sub("\ufffd+", "\ufffd", text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def check_message(c, message, where):
    """kymo leaves out what the file does not have, and repeated fields without an entry."""
    types = ntff.schema()
    seen = {"unknown_fields"}
    check_unknown(c.get("unknown_fields", []), message.unknown, where)
    for field in types.messages[message.kind].values():
        at = f"{where}.{field.name}"
        value = message[field.name]
        seen.add(field.name)
        if value is None or value == []:
            assert field.name not in c, at
            continue
        assert field.name in c, at
        said = c[field.name]
        if field.repeated and field.type not in types.messages:
            assert said == value, at
        elif field.repeated:
            assert len(said) == len(value), at
            for n, (one, other) in enumerate(zip(said, value)):
                check_message(one, other, f"{at}[{n}]")
        elif field.type in types.messages:
            check_message(said, value, at)
        elif field.type == "bytes":
            check_bytes(said, value, at)
        elif field.type in types.enums:
            assert said == types.enums[field.type].get(value, value), at
        elif field.type == "string":
            assert shown(said) == shown(value), at
        else:
            assert said == value, at
    assert set(c) <= seen, where


def ring_kind(name):
    return re.sub(r"(-E?\d+)?(\(nc\d+\))?$", "", name)


def expected_record(index, offset, r):
    """A record of ntff_reader.py in kymo's words, hexadecimal ones as numbers."""
    want = {"index": index, "offset": offset, "ts_ps": r["timestamp"], "type": r["type"], "phase": r["phase"]}
    if r["sw"]:
        want["sw_overflow"] = True
    if r["hw"]:
        want["hw_overflow"] = True
    if "engine" in r:
        want["engine"] = r["engine"]
    what = r["record"]
    if what in ("start", "end", "explicit", "dge"):
        want.update(pc=r["pc"], hint=r["hint"])
    if what == "start":
        want.update(kind="instruction_start", soft_reset=r["soft_reset"], event_wait_cycles=r["event_wait_cycles"])
    elif what == "end":
        want.update(kind="instruction_end", crc_in=r["crc_in"], crc_out=r["crc_out"])
    elif what == "explicit":
        want.update(kind="explicit", soft_reset=r["soft_reset"], extended_hint=r["extended_hint"])
    elif what == "dge":
        want.update(kind="dge_metadata", dma_engines=r["dma_engines"], engine_group=r["group"],
                    packets_per_engine=r["packets_per_engine"], pc_from_last_start=r["pc_from_last_start"])
    elif what == "event_semaphore":
        want.update(kind="event_semaphore", what="semaphore" if r["is_semaphore"] else "event", id=r["id"],
                    update_mode=r["update_mode"], value=r["value"], double=r["double_set_or_clear"])
    elif what == "dma":
        want.update(kind="dma", dma=r["dma"], dma_kind=r["dma_kind"], queue=r.get("queue", 0), bytes=r.get("byte_count", 0),
                    axi_id=r.get("arid", r.get("rid", 0)), address=r.get("address", 0))
    elif what == "error":
        want.update(group=r["group"], block_id=r["block_id"], kind="error", cause=r["word" if r["n_type"] else "cause"])
        want["class"] = "warning" if r["n_type"] else "interrupt"
    elif what == "tpb_error":
        want.update(kind="tpb_error", error_id=r["error_id"], error=r["error"], metadata=r["metadata"])
    else:
        want.update(kind=what, low=r["low"], high=r["high"])
    return want


HEX = ("type", "crc_in", "crc_out", "dma_engines", "address", "cause", "metadata", "low", "high")
DERIVED = ("operation", "timing")  # of update_mode; FORMAT.md does not say how


def check_records(records, ring, where):
    count = 0
    for offset, r in zip(ring.offsets(), ring.records()):
        c = records[count]
        for name in HEX:
            if name in c:
                c[name] = int(c[name], 16)
        if r["record"] == "event_semaphore":
            for name in DERIVED:
                del c[name]
        want = expected_record(count, offset, r)
        assert c == want, f"{where} record {count}"
        count += 1
    assert len(records) == count == ring.stored, where


class Totals:
    """What a ring's summary says, counted from its records."""

    def __init__(self, ring):
        self.types, self.dma_kinds = {}, {}
        self.sw = self.hw = self.phases = self.backwards = 0
        times = []
        before = None
        for word, high, timestamp in ring.words():
            kind = word >> 24 & 0x1F
            self.types[kind] = self.types.get(kind, 0) + 1
            if kind == 2:
                self.dma_kinds[high & 15] = self.dma_kinds.get(high & 15, 0) + 1
            self.sw += word >> 29 & 1
            self.hw += word >> 30 & 1
            if before is not None:
                self.phases += before != word >> 31
                self.backwards += timestamp < times[-1]
            before = word >> 31
            times.append(timestamp)
        self.time = {"first": times[0], "last": times[-1], "min": min(times), "max": max(times), "backwards": self.backwards}


def check_ring(c, ring, where):
    got = (ring_kind(c["ring"]), c["nc_idx"], c["engine_index"], c["stored"], c["buffer_size"])
    assert got == (ring.name, ring.nc_idx, ring.engine_index, ring.stored, ring.buffer_size), where
    if ring.verifiable:
        assert (c["emitted"], c["dropped"], c["equation"]) == (ring.emitted, ring.dropped, "emitted = stored + dropped"), where
    else:
        assert c["equation"].startswith("unverifiable"), where
        assert c.get("emitted", ring.emitted) == ring.emitted and c.get("dropped", ring.dropped) == ring.dropped, where
    if not ring.stored:
        assert not c.get("records") and "types" not in c, where
        return
    totals = Totals(ring)
    assert {int(k, 16): n for k, n in c["types"].items()} == totals.types, where
    assert {int(k.split(":")[0]): n for k, n in c.get("dma_kinds", {}).items()} == totals.dma_kinds, where
    assert c["time_ps"] == totals.time, where
    marks = {"software_queue_full": totals.sw, "hardware_buffer_full": totals.hw, "phase_changes": totals.phases}
    assert c["marks"] == marks, where
    check_records(c["records"], ring, where)


def agree(path):
    """Both readers on one file. Returns whether they accept it."""
    c, py = inspect(path, "--records"), read(path)
    assert (c is None) == (py is None), f"{path}: kymo {'refuses' if c is None else 'accepts'} it, ntff_reader.py does not agree"
    if c is None:
        return False
    assert c["state"] == py.state
    if py.state == "empty":
        return True
    check_header(c["header"], py)
    check_message(c["ntff_info"], py.info, "ntff_info")
    assert len(c["rings"]) == len(py.rings)
    for said, ring in zip(c["rings"], py.rings):
        check_ring(said, ring, said["ring"])
    return True


# --- files made here ---


def put_varint(n):
    n &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def put_field(number, wire, value):
    tag = put_varint(number << 3 | wire)
    if wire == ntff.VARINT:
        return tag + put_varint(value)
    if wire == ntff.BYTES:
        return tag + put_varint(len(value)) + value
    return tag + value.to_bytes(8 if wire == ntff.FIXED64 else 4, "little")


def encode(message):
    types = ntff.schema()
    out = []
    for field in types.messages[message.kind].values():
        value = message[field.name]
        if value is None:
            continue
        wire = ntff.wire_of(types, field)
        for one in value if field.repeated else [value]:
            if field.type in types.messages:
                one = encode(one)
            elif field.type == "string":
                one = one.encode("utf-8", "surrogateescape")
            elif field.type == "double":
                one = struct.unpack("<Q", struct.pack("<d", one))[0]
            if one or field.oneof or field.type in types.messages:
                out.append(put_field(field.number, wire, int(one) if wire == ntff.VARINT else one))
    out += [put_field(u.number, u.wire, u.value) for u in message.unknown]
    return b"".join(out)


def seal(header):
    """A header dict as bytes, with its CRC."""
    fields = [header[k] for k in ("header_version", "ntff_version", "protobuf_size", "instruction_base", "instruction_size",
                                  "notification_base", "notification_size", "file_size", "protobuf_crc32c", "flags")]
    data = ntff.HEADER.pack(ntff.MAGIC, *fields, header.get("zero", b""), 0)
    return data[:0x7C] + struct.pack("<I", ntff.crc32c(data[:0x7C]))


class Sample:
    """The golden model profile in parts, to be changed and put together again."""

    def __init__(self, name="v1-model"):
        profile = ntff.read(ROOT / f"tests/golden/ntff/{name}.ntff")
        h = profile.header
        self.info = copy.deepcopy(profile.info)
        self.images = bytearray(profile.data[h["instruction_base"] : h["instruction_base"] + h["instruction_size"]])
        self.records = bytearray(profile.data[h["notification_base"] :])
        self.protobuf = None  # instead of info
        self.header = {}  # fields that are not what the parts give
        self.flags = h["flags"]
        self.gap = b"\0"
        self.tail = b""

    @property
    def graph(self):
        return self.info["neff_nodes"][0]["nd_node"]["graphs"][0]

    @property
    def image(self):
        return self.graph["instruction_info"][0]

    @property
    def rings(self):
        return self.graph["traces"]

    @property
    def patch(self):
        return self.graph["patch_info"][0]

    def build(self):
        protobuf = encode(self.info) if self.protobuf is None else self.protobuf
        h = {"header_version": 1, "ntff_version": 7, "flags": self.flags, "protobuf_size": len(protobuf)}
        h["instruction_base"] = -(-(128 + len(protobuf)) // 64) * 64
        h["instruction_size"] = len(self.images)
        h["notification_base"] = -(-(h["instruction_base"] + len(self.images)) // 64) * 64
        h["notification_size"] = len(self.records)
        h["file_size"] = h["notification_base"] + len(self.records)
        h["protobuf_crc32c"] = ntff.crc32c(protobuf)
        out = protobuf.ljust(h["instruction_base"] - 128, self.gap) + bytes(self.images)
        out = out.ljust(h["notification_base"] - 128, self.gap) + bytes(self.records)
        return seal(h | self.header) + out + self.tail


def at(place, **values):
    """A change: of the message that `place` finds in a sample, these fields."""

    def change(s):
        place(s).update(values)

    return change


def header(**values):
    return lambda s: s.header.update(values)


def changed(name, value):
    return lambda s: setattr(s, name, value)


def image(n, **values):
    return at(lambda s: s.graph["instruction_info"][n], **values)


def ring(n, **values):
    return at(lambda s: s.rings[n], **values)


def info(**values):
    return at(lambda s: s.info, **values)


def patch(**values):
    return at(lambda s: s.patch, **values)


def section(**values):
    return at(lambda s: s.image["sections"][1], **values)


def new(kind, **values):
    message = ntff.Message(kind)
    message.update(values)
    return message


def execution(neff_node):
    return info(execution_timeline=[new("execution_info", neff_node=neff_node, start_ps=5, end_ps=2**64 - 1)])


def idle(s):
    for r in s.rings:
        r.update(offset=0, size=0)
    s.records.clear()


def session_rings(s):
    s.info["session_notifications"] = s.rings[:]
    s.rings.clear()


def pieces(s):
    """The first ring in four pieces, one of them empty, with other rings between them."""
    first, rest = s.rings[0], s.rings[1:]
    parts = []
    for offset, size in ((0, 160), (160, 0), (160, 16), (176, 464)):
        part = copy.deepcopy(first)
        part.update(offset=offset, size=size, buffer_size=64 * len(parts), emitted=len(parts), dropped=77)
        parts.append(part)
    parts[-1].update(buffer_size=4096, emitted=45, dropped=5)
    event = rest[0]
    event.update(offset=640, size=80, emitted=1)
    behind = copy.deepcopy(event)
    behind.update(offset=720, size=80, emitted=35)
    again = copy.deepcopy(first)
    again.update(offset=640, size=0, emitted=40, dropped=0)
    s.graph["traces"] = parts[:4] + [again, event, behind] + rest[1:]


def many_rings(count):
    """`count` rings in all, those added of no bytes."""

    def change(s):
        names = [(ring, n) for ring in (6, 7, 8, 9, 4) for n in range(256)]
        have = {(r["ring"], r["engine_index"]) for r in s.rings}
        for kind, n in [name for name in names if name not in have][: count - len(s.rings)]:
            trace_type, block_type = ntff.RINGS[kind][1:]
            s.rings.append(new("trace_info", ring=kind, trace_type=trace_type, block_type=block_type, nc_idx=2, engine_index=n,
                               offset=len(s.records)))
        assert len(s.rings) == count

    return change


def gap_between_blobs(s):
    s.records[640:640] = b"gap!"
    for r in s.rings[1:]:
        r["offset"] += 4


def unaligned_protobuf(s):
    s.header["instruction_base"] = -(-(128 + len(encode(s.info))) // 64) * 64 + 64


# One line of "What a reader refuses" each, and of what it must not refuse.
REFUSED = {
    "known number of another wire type": lambda s: setattr(
        s, "protobuf", encode(s.info) + put_field(1004, ntff.BYTES, b"abc")),
    "patch behind the image": patch(offset=1 << 40),
    "section of an unknown kind": section(section=9),
    "header version 0": header(header_version=0),
    "header version 2": header(header_version=2),
    "header byte": header(zero=bytes(51) + b"\1"),
    "header's first zero byte": header(zero=b"\x80"),
    "flag 1": header(flags=2),
    "flag 31": header(flags=1 << 31),
    "instruction base low": header(instruction_base=1152),
    "instruction base high": unaligned_protobuf,
    "notification base": lambda s: s.header.update(notification_base=1 << 40),
    "file size low": header(file_size=4000),
    "file size high": header(file_size=1 << 63),
    "protobuf size huge": header(protobuf_size=2**64 - 64, instruction_base=64),
    "protobuf above its limit": header(protobuf_size=(256 << 20) + 1),
    "instruction size huge": header(instruction_size=2**64 - 64),
    "notification size huge": header(notification_size=2**64 - 1),
    "trailing data": changed("tail", b"\0"),
    "trailing block": changed("tail", bytes(64)),
    "protobuf CRC": header(protobuf_crc32c=1),
    "no protobuf": changed("protobuf", b""),
    "protobuf of varint without end": changed("protobuf", b"\xc0\x3e\xff"),
    "protobuf of a long varint": changed("protobuf", b"\xc0\x3e" + b"\xff" * 10 + b"\1"),
    "protobuf that ends in a field": lambda s: setattr(s, "protobuf", encode(s.info)[:-1]),
    "field longer than its message": lambda s: setattr(s, "protobuf", encode(s.info) + b"\xda\x3f\x7f"),
    "field number 2^29": lambda s: setattr(s, "protobuf", encode(s.info) + put_varint(1 << 32) + b"\1"),
    "field number 0": lambda s: setattr(s, "protobuf", encode(s.info) + b"\0\1"),
    "wire type 6": lambda s: setattr(s, "protobuf", encode(s.info) + put_varint(2000 << 3 | 6) + b"\1"),
    "gaps not zero": changed("gap", b"\1"),
    "ntff_version 6 of the header": header(ntff_version=6),
    "ntff_version 8 of the protobuf": info(ntff_version=8),
    "ntff_version absent": info(ntff_version=0),
    "lnc_size 0": info(lnc_size=0),
    "lnc_size 3": info(lnc_size=3),
    "lnc_size 2^31": info(lnc_size=1 << 31),
    "graph before the core": info(start_nc=3),
    "graph behind the core": info(start_nc=1),
    "graph behind the core, 2": info(start_nc=0, lnc_size=2),
    "cores across 2^32": info(start_nc=2**32 - 1, lnc_size=2),
    "ring before the core": ring(3, nc_idx=1),
    "ring behind the core": ring(3, nc_idx=3),
    "ring of core 2^32-1": ring(3, nc_idx=2**32 - 1),
    "session ring behind the core": lambda s: (session_rings(s), s.info["session_notifications"][2].update(nc_idx=9)),
    "execution of NEFF 1": execution(1),
    "execution of NEFF 2^32-1": execution(2**32 - 1),
    "image engine 5": image(0, nc_engine_type=5),
    "image engine -1": image(0, nc_engine_type=-1),
    "image inline and blob": image(0, instructions=bytes(64)),
    "inline of 65 bytes": image(1, instructions=bytes(257)),
    "blob of 65 bytes": image(2, instructions_size=191),
    "section one slot too long": at(lambda s: s.image["sections"][2], count=2),
    "section behind the image": at(lambda s: s.image["sections"][2], first=7, count=0),
    "section across 2^32": section(first=2**32 - 1, count=2),
    "section of an inline image": at(lambda s: s.graph["instruction_info"][1]["sections"][1], count=4),
    "image behind its section": image(2, instructions_offset=448),
    "image across 2^64": image(2, instructions_offset=2**64 - 64),
    "image on the one before": image(2, instructions_offset=320),
    "image blobs falling": lambda s: (s.image.update(instructions_offset=192), image(2, instructions_offset=0)(s)),
    "patch engine": patch(nc_engine_type=5),
    "patch type": patch(type=3),
    "patch type -1": patch(type=-1),
    "patch section": patch(section=4),
    "patch offset": patch(offset=96),
    "patch offset huge": patch(offset=2**64 - 1),
    "ring kind 10": ring(0, ring=10),
    "ring kind -1": ring(0, ring=-1),
    "trace type": ring(0, trace_type=1),
    "trace type unknown": ring(0, trace_type=6),
    "trace type explicit": ring(0, trace_type=3),
    "block type": ring(0, block_type=1),
    "block type of a CC-core": ring(6, block_type=0),
    "engine index 256": ring(9, engine_index=256),
    "engine index 2^32-1": ring(9, engine_index=2**32 - 1),
    "ring of 15 bytes": lambda s: (ring(9, size=351)(s), s.records.pop()),
    "ring behind its section": ring(9, size=368),
    "ring across 2^64": ring(9, offset=2**64 - 16),
    "ring on the one before": ring(1, offset=624),
    "ring across the one before": ring(2, offset=656, size=16),
    "ring blobs falling": ring(9, offset=0, size=16),
    "empty ring before the one before": ring(9, offset=0, size=0),
    "empty ring behind its section": ring(9, offset=4096, size=0),
    "session ring on a graph's": lambda s: s.info["session_notifications"].append(copy.deepcopy(s.rings[-1])),
    "1,025 rings": many_rings(1025),
    "no-record flag with records": changed("flags", 1),
    "no records without the flag": idle,
}

ACCEPTED = {
    "nothing": lambda s: None,
    "other ntff_version": lambda s: (header(ntff_version=2)(s), info(ntff_version=2)(s)),
    "start_nc 2^32-1": lambda s: (info(start_nc=2**32 - 1)(s), at(lambda s: s.graph, nc_idx=2**32 - 1)(s),
                                  [r.update(nc_idx=2**32 - 1) for r in s.rings]),
    "second of two cores": info(start_nc=1, lnc_size=2),
    "execution of NEFF 0": execution(0),
    "session rings": session_rings,
    "NEFF of a host": lambda s: s.info["neff_nodes"].append(new("neff_node_info", cpu_node=new("cpu_node_info"), field_5=b"\0")),
    "NEFF of no kind": lambda s: s.info["neff_nodes"].append(new("neff_node_info", runtime_latency=1e300)),
    "pieces": pieces,
    "gap between blobs": gap_between_blobs,
    "no records": lambda s: (idle(s), setattr(s, "flags", 1)),
    "bytes of no ring": lambda s: (idle(s), setattr(s, "flags", 1), setattr(s, "records", bytearray(b"\xff" * 100))),
    "bytes of no image": lambda s: s.images.extend(b"\xaa" * 70),
    "image without bytes": image(2, instructions_size=0, sections=[]),
    "section of no slots at the end": section(first=6, count=0),
    "sections over each other": section(first=0, count=6),
    "patch of 2^32-1 slots": patch(count=2**32 - 1),
    "patch of another engine": patch(nc_engine_type=3),
    "block type of an image": image(0, block_type=77, engine_index=900),
    "engine index of an instruction ring": ring(0, engine_index=255),
    "counter without the other": lambda s: s.rings[0].pop("dropped"),
    "counters at 2^64-1": ring(0, emitted=2**64 - 1, dropped=2**64 - 41),
    "counters whose sum passes 2^64": ring(0, emitted=39, dropped=2**64 - 1),
    "counters of an empty ring": lambda s: s.rings.append(
        new("trace_info", ring=9, trace_type=4, block_type=1, nc_idx=2, engine_index=4, offset=len(s.records), emitted=0,
            dropped=0)),
    "1,024 rings": many_rings(1024),
    "unknown enum values": lambda s: (info(mode=9, host_dma=-5)(s), at(lambda s: s.graph["dma_queue_usage"][0], queue_type=5)(s)),
    "unknown fields": lambda s: (s.info.unknown.append(ntff.Unknown(2999, ntff.VARINT, 2**64 - 1)),
                                 s.rings[0].unknown.append(ntff.Unknown(7, ntff.FIXED64, 12345)),
                                 s.patch.unknown.append(ntff.Unknown((1 << 29) - 1, ntff.BYTES, b"\xff\0text")),
                                 s.image.unknown.append(ntff.Unknown(9, ntff.FIXED32, 2**32 - 1))),
    "fields twice": lambda s: setattr(
        s, "protobuf", put_field(1004, 0, 1) + put_field(8, 2, put_field(1000, 0, 9)) + encode(s.info)),
    "32-bit fields of 64 bits": lambda s: setattr(
        s, "protobuf", encode(s.info) + put_field(1006, 0, 0xABCDEF0000000005) + put_field(1010, 0, 1 << 32 | 2)),
    "bool of 2": lambda s: setattr(s, "protobuf", encode(s.info) + put_field(1018, 0, 1 << 40)),
    "varint of ten bytes": lambda s: setattr(
        s, "protobuf", encode(s.info) + put_varint(1004 << 3) + b"\x81" + b"\x80" * 8 + b"\0"),
    "text": info(hostname='a"\\\n\t\x01é', instance_type=""),
}


def build(tmp_path, sample):
    path = tmp_path / "made.ntff"
    path.write_bytes(sample.build())
    return path


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, tmp_path):
    sample = Sample()
    REFUSED[name](sample)
    path = build(tmp_path, sample)
    assert read(path) is None
    assert inspect(path) is None


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name, tmp_path):
    sample = Sample()
    ACCEPTED[name](sample)
    path = build(tmp_path, sample)
    assert read(path) is not None
    assert agree(path)


def test_too_many_pieces(tmp_path):
    """One piece more than a file may have, all of one ring and without bytes."""
    sample = Sample()
    idle(sample)
    sample.flags = 1
    sample.rings.clear()
    sample.graph["nc_idx"] = 0
    node = encode(sample.graph) + put_field(6, ntff.BYTES, b"") * ((1 << 20) + 1)
    # The text is there for the limit of memory, which may be a multiple of the size.
    sample.info.update(neff_nodes=[], start_nc=0, hostname="x" * (8 << 20))
    node = put_field(4, ntff.BYTES, put_field(1, ntff.BYTES, node))
    sample.protobuf = encode(sample.info) + put_field(1011, ntff.BYTES, node)
    path = build(tmp_path, sample)
    assert read(path) is None
    command = [BIN / "kymo", "ntff", "inspect", path, "INSTRUCTION(nc0)"]
    assert subprocess.run(command, stdout=subprocess.DEVNULL, timeout=LIMIT).returncode == 1


def test_oneof_last_wins(tmp_path):
    sample = Sample()
    node = encode(sample.info["neff_nodes"][0])
    sample.info["neff_nodes"].clear()
    sample.protobuf = encode(sample.info) + put_field(1011, 2, put_field(6, 2, b"") + put_field(3, 2, b"") + node)
    assert agree(build(tmp_path, sample))


@pytest.mark.parametrize("seed", range(4))
def test_random_records(seed, tmp_path):
    """Every type with bits at random, in rings of all kinds."""
    rng = random.Random(seed)
    sample = Sample()
    size = 0
    sample.records.clear()
    for r in sample.rings:
        count = rng.randrange(1, 800)
        r.update(offset=size, size=16 * count)
        size += 16 * count
        for n in range(count):
            word = rng.getrandbits(32)
            if rng.random() < 0.4:  # DGE: explicit with hint 1
                word = word & ~(0xF << 20) | 1 << 20
            high = rng.choice((rng.getrandbits(32), 0, 0xFFFFFFFF, 1 << rng.randrange(32)))
            sample.records += ntff.RECORD.pack(word, high, rng.choice((rng.getrandbits(64), rng.getrandbits(40))))
    assert agree(build(tmp_path, sample))


@pytest.mark.parametrize("kind", range(32))
def test_each_bit_of_a_type(kind, tmp_path):
    """For each type each bit of the two words alone set and alone clear; for DMA with each kind, for explicit with each hint."""
    sample = Sample()
    sample.graph["traces"] = sample.rings[:1]
    sample.records.clear()
    for base in range(16):
        for bit in range(56):
            bits = 1 << bit
            for value in (bits, ~bits & (1 << 56) - 1):
                low, high = value & 0xFFFFFF, value >> 24
                if kind == 2:
                    high = high & ~15 | base
                elif base:
                    low = low & ~(15 << 20) | base << 20
                sample.records += ntff.RECORD.pack(low | kind << 24 | (bit & 7) << 29, high, 1000 * bit + base)
    sample.rings[0].update(size=len(sample.records))
    assert agree(build(tmp_path, sample))


@pytest.mark.parametrize("name", ["v1-model", "v1-session", "v1-unknown"])
def test_flipped_protobuf(name, tmp_path):
    """Bytes of the protobuf changed, with CRCs that fit."""
    rng = random.Random(name)
    original = encode(Sample(name).info)
    accepted, failures = 0, []
    for _ in range(60):
        sample = Sample(name)
        data = bytearray(original)
        n = rng.randrange(len(data))
        data[n] = rng.choice((data[n] ^ 1 << rng.randrange(8), rng.randrange(256)))
        sample.protobuf = bytes(data)
        try:
            accepted += agree(build(tmp_path, sample))
        except AssertionError as e:
            failures.append(f"byte {n} of the protobuf {original[n]:02x} to {data[n]:02x}: {e}")
    assert not failures, "\n".join(failures)
    assert accepted


# --- the tests' files ---


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.name)
def test_golden(path):
    assert agree(path) == (path.name != "v1-foreign.ntff")


@pytest.mark.parametrize("path", CORPUS, ids=lambda p: p.name)
def test_corpus(path):
    agree(path)


# --- simulated profiles ---

SIMULATED = {
    "trn1-drift": ([("mlp", "trn1", 1, "--layers", 1)], 1, ["--drift"]),
    "inf2": ([("mlp", "inf2", 1, "--layers", 1)], 1, ["--drift", "--vnc", 3]),
    "trn2-lnc1": ([("attention", "trn2", 1)], 2, ["--dge", 1]),
    "trn2-lnc2": ([("mlp", "trn2", 2)], 1, ["--dge", 1, "--vnc", 5]),
    "trn3-fail": ([("attention", "trn3", 2, "--layers", 2)], 2, ["--dge", 1, "--fail"]),
    "full-rings": ([("mlp", "trn1", 1, "--layers", 1, "--batch", 512, "--repeat", 14)], 1,
                   ["--drift", "--buffer", "INSTRUCTION=1", "--buffer", "EVENT=1", "--buffer", "DMA=1", "--buffer", "H2D_DMA=0"]),
    "collectives": ([("allreduce", "trn1", 1, "--layers", 1)], 1, ["--drift", "--rank", 2]),
    "session": ([("mlp", "trn2", 2, "--layers", 1), ("attention", "trn2", 2, "--layers", 1)], 2, ["--dge", 1]),
}


def make_profile(directory, name):
    programs, executions, options = SIMULATED[name]
    neffs = []
    for n, (model, arch, lnc, *more) in enumerate(programs):
        neffs += ["--neff", directory / f"{n}.neff"]
        run(BIN / "kymo-sim", "neff", "--model", model, "--arch", arch, "--lnc", lnc, *more, "--output", neffs[-1])
    path = directory / f"{name}.ntff"
    run(BIN / "kymo-sim", "ntff", *neffs, "--instance", INSTANCES[programs[0][1]], "--lnc", programs[0][2], "--executions",
        executions, *options, "--output", path)
    return path


@pytest.mark.parametrize("name", SIMULATED)
def test_simulated(name, tmp_path):
    path = make_profile(tmp_path, name)
    assert agree(path)
    profile = ntff.read(path)
    assert any(r.stored for r in profile.rings) and profile.images
    assert all(r.verifiable for r in profile.rings)
    if name == "full-rings":
        assert any(r.dropped for r in profile.rings)
    if name == "session":
        assert len(profile.info["neff_nodes"]) == 2 and profile.info["session_notifications"]
    for one in profile.images:
        sources = [source for _, source, _ in one.walk() if source is not None]
        assert sources == sorted(set(sources))
    if name == "trn2-lnc2":  # the argument RING shows that ring alone, as among all
        every = inspect(path, "--records")["rings"]
        for want in every[:: len(every) // 5]:
            assert inspect(path, want["ring"], "--records")["rings"] == [want]


# --- the walk from image slots to compiler records ---


def walk(sections, patches, slots):
    sections = [new("image_section_info", section=k, first=f, count=c, compiler_first=s) for k, f, c, s in sections]
    patches = [new("instruction_patch_info", type=t, section=k, offset=64 * at, count=c) for t, k, at, c in patches]
    details = new("engine_instruction_info", instructions=bytes(64 * slots), sections=sections)
    image = ntff.Image(memoryview(b""), new("subgraph_info", patch_info=patches), details, 0)
    return [f"{source}{'!' if is_changed else ''}" if source is not None else "-" for _, source, is_changed in image.walk()]


MAIN, FUNCTION = ntff.SECTION_MAIN, ntff.SECTION_FUNCTION


def test_walk():
    sections = [(0, 0, 1, 0), (MAIN, 1, 4, 0), (1, 5, 1, 0)]
    assert walk(sections, [], 6) == "- 0 1 2 3 -".split()
    patches = [(ntff.PATCH_INSERT, MAIN, 2, 1), (ntff.PATCH_MODIFY, MAIN, 3, 1), (ntff.PATCH_DELETE, MAIN, 4, 2)]
    assert walk(sections, patches, 6) == "- 0 - 1! 4 -".split()
    assert walk(sections, [(ntff.PATCH_DELETE, MAIN, 5, 2), (ntff.PATCH_INSERT, MAIN, 5, 1)], 6) == "- 0 1 2 3 -".split()


def test_walk_of_functions():
    sections = [(MAIN, 0, 2, 0), (FUNCTION, 2, 2, 7), (FUNCTION, 4, 2, 9)]
    assert walk(sections, [], 6) == "0 1 7 8 9 10".split()
    # A deletion at the border belongs to the section that begins there.
    assert walk(sections, [(ntff.PATCH_DELETE, FUNCTION, 4, 3)], 6) == "0 1 7 8 12 13".split()
    assert walk(sections, [(ntff.PATCH_DELETE, MAIN, 2, 3), (ntff.PATCH_INSERT, FUNCTION, 2, 1)], 6) == "0 1 - 7 9 10".split()


def test_program():
    """ntff_reader.py as a program."""
    model = ROOT / "tests/golden/ntff/v1-model.ntff"
    done = subprocess.run([sys.executable, ntff.__file__, model], capture_output=True, text=True, timeout=LIMIT)
    said = json.loads(done.stdout)
    assert done.returncode == 0 and sum(len(r["records"]) for r in said["rings"]) == 154
    assert said["images"][0]["compiler_records"] == [None, 0, None, 1, 4, None]
    foreign = model.with_name("v1-foreign.ntff")
    done = subprocess.run([sys.executable, ntff.__file__, foreign], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 1 and "foreign" in done.stderr


def test_crc():
    assert ntff.crc32c(b"123456789") == 0xE3069283
