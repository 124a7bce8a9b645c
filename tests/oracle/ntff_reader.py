"""A second reader of NTFF, written from formats/ntff/FORMAT.md and proto/ntff.proto alone; standard library only.

    python3 tests/oracle/ntff_reader.py FILE          prints all that the file holds as JSON

    profile = read("x.ntff")                          Refused, with offset and reason, where FORMAT.md says so
    for ring in profile.rings:
        for record in ring.records(): ...             one dict per 16 bytes

It shares no code with kymo's reader and must not: its worth is that the two were written apart.
"""

from collections import namedtuple
from pathlib import Path
import json
import re
import struct
import sys

PROTO = Path(__file__).resolve().parents[2] / "proto" / "ntff.proto"

MAGIC = b"\x89KYMONTF"
HEADER_SIZE = 128
HEADER = struct.Struct("<8sIIQQQQQQII52sI")
RECORD = struct.Struct("<IIQ")
RECORD_SIZE = 16
SLOT_SIZE = 64
PROTOBUF_MAX = 256 << 20
PATCH_OFFSET_MAX = 1 << 30
IMAGE_MAX = 1 << 30
RINGS_MAX = 1024
PIECES_MAX = 1 << 20
FLAG_NO_RECORDS = 1

PATCH_INSERT, PATCH_MODIFY, PATCH_DELETE = 0, 1, 2
SECTION_MAIN, SECTION_FUNCTION = 2, 3

# ring number: (name, trace_type, block_type)
RINGS = {
    0: ("INSTRUCTION", 0, 0),
    1: ("EVENT", 1, 0),
    2: ("ERROR", 2, 0),
    3: ("INFER_STATUS", 0, 0),
    4: ("DMA", 4, 1),
    5: ("THROTTLE", 5, 0),
    6: ("CC_CORE_INSTRUCTION", 0, 2),
    7: ("CC_CORE_EVENT", 1, 2),
    8: ("CC_CORE_ERROR", 2, 2),
    9: ("H2D_DMA", 4, 1),
}


class Refused(Exception):
    """A file that a reader refuses."""

    def __init__(self, offset, reason):
        super().__init__(f"offset {offset}: {reason}")
        self.offset = offset
        self.reason = reason


# --- CRC32C ---


def _crc_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return tuple(table)


_CRC = _crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    table = _CRC
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


# --- protobuf: the schema ---

Field = namedtuple("Field", "name number type repeated oneof")
REPEATED = object()  # default of a repeated field: a list of its own for each message
VARINT_TYPES = {"uint32", "uint64", "bool"}
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
WIRE_NAMES = {VARINT: "varint", FIXED64: "fixed64", BYTES: "length-delimited", FIXED32: "fixed32"}


class Schema:
    """Messages and enums of one .proto file."""

    def __init__(self, text):
        self.enums = {}  # name: {number: name}
        self.messages = {}  # name: {field number: Field}
        text = re.sub(r"//[^\n]*", "", text)
        self._tokens = re.findall(r'"[^"]*"|\w+(?:\.\w+)*|[{}=;]', text)
        self._at = 0
        while self._at < len(self._tokens):
            what = self._next()
            if what == "enum":
                name = self._next()
                self.enums[name] = self._enum()
            elif what == "message":
                name = self._next()
                self.messages[name] = self._message()
            else:  # syntax, package
                while self._next() != ";":
                    pass
        self.wires = {}  # name: {field number: wire type}
        self.defaults = {}  # name: {field name: value}
        for name, message in self.messages.items():
            self.wires[name] = {field.number: wire_of(self, field) for field in message.values()}
            self.defaults[name] = {field.name: self._default(field) for field in message.values()}

    def _default(self, field):
        if field.repeated:
            return REPEATED
        if field.oneof is not None or field.type in self.messages:
            return None
        return {"string": "", "bytes": b"", "double": 0.0, "bool": False}.get(field.type, 0)

    def _next(self):
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _expect(self, want):
        token = self._next()
        if token != want:
            raise ValueError(f"proto: {token} where {want} was expected")

    def _enum(self):
        self._expect("{")
        values = {}
        while (name := self._next()) != "}":
            self._expect("=")
            values[int(self._next())] = name
            self._expect(";")
        return values

    def _message(self):
        self._expect("{")
        fields = {}
        oneof = None
        while True:
            word = self._next()
            if word == "}":
                if oneof is None:
                    return fields
                oneof = None
                continue
            if word == "oneof":
                oneof = self._next()
                self._expect("{")
                continue
            repeated = word == "repeated"
            kind = self._next() if repeated else word
            name = self._next()
            self._expect("=")
            number = int(self._next())
            self._expect(";")
            fields[number] = Field(name, number, kind, repeated, oneof)


def wire_of(schema, field):
    if field.type in VARINT_TYPES or field.type in schema.enums:
        wire = VARINT
    elif field.type == "double":
        wire = FIXED64
    elif field.type in ("string", "bytes") or field.type in schema.messages:
        wire = BYTES
    else:
        raise ValueError(f"proto: type {field.type} of {field.name}")
    if field.repeated and field.type not in schema.messages:
        if wire != VARINT:
            raise ValueError(f"proto: {field.name}: repeated {field.type} is not decoded here")
        return BYTES  # packed
    return wire


_schema = None


def schema():
    global _schema
    if _schema is None:
        _schema = Schema(PROTO.read_text())
    return _schema


# --- protobuf: the wire ---

Unknown = namedtuple("Unknown", "number wire value")


class Message(dict):
    """Fields by name. Scalars outside a oneof and repeated fields always have a value; messages and members of a oneof are None
    where the file does not have them."""

    __slots__ = ("kind", "unknown")

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.unknown = []

    def __missing__(self, name):
        value = schema().defaults[self.kind][name]
        if value is REPEATED:
            value = self[name] = []
        return value


def varint(data, at, end):
    """(value, place behind it)"""
    if at < end and data[at] < 0x80:
        return data[at], at + 1
    value = shift = 0
    start = at
    while True:
        if at >= end:
            raise Refused(start, "protobuf: a varint ends early")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift >= 70:
            raise Refused(start, "protobuf: a varint of more than ten bytes")


def wire_fields(data, at, end):
    """(number, wire type, value) of each field; length-delimited ones have (begin, end) as their value."""
    while at < end:
        start = at
        tag, at = varint(data, at, end)
        number, wire = tag >> 3, tag & 7
        if number == 0 or number >= 1 << 29:
            raise Refused(start, f"protobuf: field number {number}")
        if wire == VARINT:
            value, at = varint(data, at, end)
        elif wire == FIXED64 or wire == FIXED32:
            size = 8 if wire == FIXED64 else 4
            if size > end - at:
                raise Refused(start, "protobuf: a fixed field ends early")
            value = int.from_bytes(data[at : at + size], "little")
            at += size
        elif wire == BYTES:
            length, at = varint(data, at, end)
            if length > end - at:
                raise Refused(start, "protobuf: a field is longer than what it is in")
            value = (at, at + length)
            at += length
        else:
            raise Refused(start, f"protobuf: wire type {wire}")
        yield number, wire, value


def parse_into(message, data, at, end):
    types = schema()
    fields = types.messages[message.kind]
    wires = types.wires[message.kind]
    for number, wire, value in wire_fields(data, at, end):
        field = fields.get(number)
        packable = field is not None and field.repeated and field.type not in types.messages
        if number in wires and wires[number] != wire and not (packable and wire == VARINT):
            raise Refused(at, f"protobuf: field {number} has another wire type than the schema's")
        if number not in wires:
            if wire == BYTES:
                value = bytes(data[value[0] : value[1]])
            message.unknown.append(Unknown(number, wire, value))
            continue
        if field.type in types.messages:
            if field.repeated:
                inner = Message(field.type)
                message[field.name].append(inner)
            else:
                inner = message[field.name]
                if inner is None:
                    inner = Message(field.type)
            parse_into(inner, data, *value)
            value = inner
        elif field.repeated and wire == VARINT:
            message[field.name].append(value)
        elif field.repeated:
            at_value, end_value = value
            while at_value < end_value:
                one, at_value = varint(data, at_value, end_value)
                message[field.name].append(one)
        elif field.type == "bytes":
            value = bytes(data[value[0] : value[1]])
        elif field.type == "string":
            value = bytes(data[value[0] : value[1]]).decode("utf-8", "surrogateescape")
        elif field.type == "double":
            value = struct.unpack("<d", value.to_bytes(8, "little"))[0]
        elif field.type == "bool":
            value = value != 0
        elif field.type in types.enums:
            value &= 0xFFFFFFFF
            value -= (value & 0x80000000) << 1
        elif field.type == "uint32":
            value &= 0xFFFFFFFF
        if field.repeated:
            continue
        if field.oneof is not None:
            for other in fields.values():
                if other.oneof == field.oneof and other.name != field.name:
                    message.pop(other.name, None)
        message[field.name] = value


def plain(message):
    """A message as what JSON can hold: enums by name, bytes as hex."""
    types = schema()
    out = {}
    for field in types.messages[message.kind].values():
        value = message[field.name]
        if value is None:
            continue
        if field.repeated:
            value = [plain(v) for v in value] if field.type in types.messages else list(value)
        elif field.type in types.messages:
            value = plain(value)
        elif field.type in types.enums:
            value = types.enums[field.type].get(value, value)
        elif field.type == "bytes":
            value = value.hex()
        out[field.name] = value
    if message.unknown:
        out["unknown_fields"] = [
            {"field": u.number, "wire": WIRE_NAMES[u.wire], "value": u.value.hex() if u.wire == BYTES else u.value}
            for u in message.unknown
        ]
    return out


# --- records ---

ENGINES = ("Tensor", "Scalar", "GpSimd", "Vector", "Sync")
TPB_ERRORS = ("fp_underflow", "nan", "inf", "fp_overflow", "memory", "fake", "semaphore", "event", "psum_collision",
              "sequencer_nonfatal", "sequencer_fatal")
DMA_KINDS = {1: "m2s_start", 2: "m2s_end", 3: "m2s_completion", 4: "s2m_start", 5: "s2m_end", 6: "s2m_completion",
             8: "axi_request", 9: "axi_request", 10: "axi_response", 11: "axi_response", 12: "apb_request", 13: "apb_request"}


def _start(r, low, high):
    r.update(record="start", pc=low & 0xFFFFF, hint=low >> 20, soft_reset=high & 0xFFFF, event_wait_cycles=high >> 16)


def _end(r, low, high):
    r.update(record="end", pc=low & 0xFFFFF, hint=low >> 20, crc_in=high & 0xFFFF, crc_out=high >> 16)


def _explicit(r, low, high):
    hint = low >> 20
    if hint != 1:
        r.update(record="explicit", pc=low & 0xFFFFF, hint=hint, soft_reset=high & 0xFFFF, extended_hint=high >> 16)
        return
    r.update(record="dge", pc=low & 0xFFFFF, hint=hint, dma_engines=high & 0xFFFF,
             packets_per_engine=high >> 16 & 0xFFF or 4096, pc_from_last_start=bool(high >> 30 & 1), group=high >> 31)


def _event_semaphore(r, low, high):
    r.update(record="event_semaphore", id=low & 0xFF, is_semaphore=bool(low >> 8 & 1), double_set_or_clear=bool(low >> 9 & 1),
             update_mode=low >> 16, value=high)


def _dma(r, low, high):
    kind = high & 0xF
    r.update(record="dma", dma_kind=kind, dma=DMA_KINDS.get(kind))
    if kind in (8, 9):
        r.update(arid=high >> 4 & 0x1F, address=low | (high >> 9) << 24)
    elif kind in (10, 11):
        r.update(rid=high >> 4 & 0x1F)
    elif kind in (12, 13):
        r.update(address=low | (high >> 4 & 0xFF) << 24)
    else:
        r.update(queue=high >> 4 & 0xF)
        if kind in (2, 5):
            r.update(byte_count=low)


def _error(r, low, high):
    n_type = low >> 3 & 1
    block = low >> 8 & 0x3FF if n_type else low >> 4 & 0x3FF
    r.update(record="error", group=low & 7, n_type=n_type, block_id=block)
    r["word" if n_type else "cause"] = high


def _tpb_error(r, low, high):
    error = low & 0xFF
    r.update(record="tpb_error", error_id=error, error=TPB_ERRORS[error] if error < len(TPB_ERRORS) else None,
             metadata=low >> 8 | high << 16)


def _raw(name):
    def decode(r, low, high):
        r.update(record=name, low=low, high=high)

    return decode


def _decoders():
    table = [(_raw("unknown"), None)] * 32
    table[0x02] = (_dma, None)
    table[0x03] = (_error, None)
    for e, name in enumerate(ENGINES):
        for k, decode in enumerate((_start, _end, _explicit, _event_semaphore)):
            table[4 + 4 * e + k] = (decode, name)
    table[0x1B] = (_event_semaphore, "AXI")
    table[0x1E] = (_raw("ham"), None)
    table[0x1F] = (_tpb_error, None)
    return table


DECODERS = _decoders()


def decode_record(word, high, timestamp):
    """Any 16 bytes, as their two words and their time, as a dict."""
    kind = word >> 24 & 0x1F
    decode, engine = DECODERS[kind]
    r = {"type": kind, "timestamp": timestamp, "sw": word >> 29 & 1, "hw": word >> 30 & 1, "phase": word >> 31}
    if engine is not None:
        r["engine"] = engine
    decode(r, word & 0xFFFFFF, high)
    return r


# --- the file ---


def _align(n):
    return -(-n // 64) * 64


class Image:
    """One engine's instruction image."""

    def __init__(self, data, graph, info, base):
        self.graph = graph
        self.info = info
        self.engine = info["nc_engine_type"]
        inline = info["instructions"]
        at = base + info["instructions_offset"]
        self.bytes = memoryview(inline) if inline else data[at : at + info["instructions_size"]]

    @property
    def slots(self):
        return len(self.bytes) // SLOT_SIZE

    def walk(self):
        """For each slot (section kind, compiler record, changed); the record is None where the compiler made none."""
        out = [(None, None, False)] * self.slots
        sections = self.info["sections"]
        firsts = {(s["section"], s["first"]) for s in sections}
        for section in sections:
            kind = section["section"]
            first = section["first"]
            end = first + section["count"]
            if kind not in (SECTION_MAIN, SECTION_FUNCTION):
                out[first:end] = [(kind, None, False)] * (end - first)
                continue
            source, slot = section["compiler_first"], first
            for p in self.graph["patch_info"]:
                place = p["offset"] // SLOT_SIZE
                if p["nc_engine_type"] != self.engine or p["section"] != kind or place < first:
                    continue
                at_end = place == end and p["type"] == PATCH_DELETE and (kind, end) not in firsts
                if place >= end and not at_end:
                    continue
                while slot < place:
                    out[slot] = (kind, source, False)
                    slot, source = slot + 1, source + 1
                if p["type"] == PATCH_DELETE:
                    source += p["count"]
                    continue
                for _ in range(min(p["count"], end - slot)):  # a patch that says more slots than there are has no more
                    inserted = p["type"] == PATCH_INSERT
                    out[slot] = (kind, None, False) if inserted else (kind, source, True)
                    slot, source = slot + 1, source if inserted else source + 1
            while slot < end:
                out[slot] = (kind, source, False)
                slot, source = slot + 1, source + 1
        return out


class Ring:
    """One ring's records, its pieces joined."""

    def __init__(self, data, base, key):
        self._data = data
        self._base = base
        self.kind, self.nc_idx, self.engine_index = key
        self.name = RINGS[self.kind][0]
        self.pieces = []

    @property
    def last(self):
        return self.pieces[-1]

    @property
    def buffer_size(self):
        return self.last["buffer_size"]

    @property
    def emitted(self):
        return self.last["emitted"]

    @property
    def dropped(self):
        return self.last["dropped"]

    @property
    def stored(self):
        return sum(p["size"] for p in self.pieces) // RECORD_SIZE

    @property
    def verifiable(self):
        return self.emitted is not None and self.dropped is not None and self.emitted == self.dropped + self.stored

    def offsets(self):
        """Place in the file of each record."""
        for p in self.pieces:
            at = self._base + p["offset"]
            yield from range(at, at + p["size"], RECORD_SIZE)

    def words(self):
        """(first word, second word, time) of each record, undecoded."""
        for p in self.pieces:
            at = self._base + p["offset"]
            yield from RECORD.iter_unpack(self._data[at : at + p["size"]])

    def records(self):
        for word, high, timestamp in self.words():
            yield decode_record(word, high, timestamp)


class Profile:
    """One NTFF that is not refused. `state` is "empty" for a file of 0 bytes, which has nothing else."""

    def __init__(self, data):
        self.data = memoryview(data)
        self.header = None
        self.info = None
        self.images = []
        self.rings = []
        self.state = "kymo" if len(data) else "empty"
        if not len(data):
            return
        self._read_header()
        self._read_bases()
        self._read_protobuf()
        self._check_info()
        self._read_images()
        self._read_rings()

    def _read_header(self):
        data = self.data
        if len(data) < HEADER_SIZE:
            raise Refused(len(data), "shorter than the header")
        fields = HEADER.unpack(data[:HEADER_SIZE])
        names = ("magic", "header_version", "ntff_version", "protobuf_size", "instruction_base", "instruction_size",
                 "notification_base", "notification_size", "file_size", "protobuf_crc32c", "flags", "zero", "header_crc32c")
        h = self.header = dict(zip(names, fields))
        if h["magic"] != MAGIC:
            raise Refused(0, "a foreign header")
        if h["header_version"] != 1:
            raise Refused(8, f"header version {h['header_version']}")
        if h["header_crc32c"] != crc32c(data[:0x7C]):
            raise Refused(0x7C, "the header's CRC is wrong")
        if any(h["zero"]):
            raise Refused(0x48, "a byte that should be zero")
        if h["flags"] & ~FLAG_NO_RECORDS:
            raise Refused(0x44, "a flag that should be zero")
        del h["zero"]

    def _read_bases(self):
        h = self.header
        if h["protobuf_size"] > PROTOBUF_MAX:
            raise Refused(0x10, "a protobuf of more than 256 MiB")
        if h["instruction_base"] != _align(HEADER_SIZE + h["protobuf_size"]):
            raise Refused(0x18, "instruction_base is not what the sizes give")
        if h["notification_base"] != _align(h["instruction_base"] + h["instruction_size"]):
            raise Refused(0x28, "notification_base is not what the sizes give")
        if h["file_size"] != h["notification_base"] + h["notification_size"]:
            raise Refused(0x38, "file_size is not what the sizes give")
        if len(self.data) != h["file_size"]:
            raise Refused(min(len(self.data), h["file_size"]), "truncated, or trailing data")

    def _read_protobuf(self):
        h = self.header
        end = HEADER_SIZE + h["protobuf_size"]
        if crc32c(self.data[HEADER_SIZE:end]) != h["protobuf_crc32c"]:
            raise Refused(HEADER_SIZE, "the protobuf's CRC is wrong")
        self.info = Message("ntff_info")
        parse_into(self.info, self.data, HEADER_SIZE, end)
        gaps = ((end, h["instruction_base"]), (h["instruction_base"] + h["instruction_size"], h["notification_base"]))
        for begin, end in gaps:
            if any(self.data[begin:end]):
                raise Refused(begin, "bytes between sections that are not zero")

    def _check_info(self):
        info = self.info
        if info["ntff_version"] != self.header["ntff_version"]:
            raise Refused(HEADER_SIZE, "ntff_version differs from the header's")
        if info["lnc_size"] not in (1, 2):
            raise Refused(HEADER_SIZE, f"lnc_size {info['lnc_size']}")
        for graph in self.graphs():
            self._check_core(graph["nc_idx"], "a graph")
        for execution in info["execution_timeline"]:
            if execution["neff_node"] >= len(info["neff_nodes"]):
                raise Refused(HEADER_SIZE, "an execution of a NEFF that is not there")

    def _check_core(self, nc_idx, what):
        start = self.info["start_nc"]
        if not start <= nc_idx <= start + self.info["lnc_size"] - 1:
            raise Refused(HEADER_SIZE, f"nc_idx {nc_idx} of {what}")

    def graphs(self):
        """The graphs in walk order."""
        for node in self.info["neff_nodes"]:
            nd_node = node["nd_node"]
            if nd_node is not None:
                yield from nd_node["graphs"]

    def _place(self, offset, size, before, section, what):
        """A blob inside its section, behind the one before. Returns its end."""
        if offset + size > self.header[section + "_size"]:
            raise Refused(self.header[section + "_base"] + offset, f"{what} outside its section")
        if offset < before:
            raise Refused(self.header[section + "_base"] + offset, f"{what} overlaps the one before")
        return offset + size

    def _read_images(self):
        end = 0
        types = schema().enums
        for graph in self.graphs():
            for info in graph["instruction_info"]:
                inline, size = len(info["instructions"]), info["instructions_size"]
                if info["nc_engine_type"] not in types["nc_engine_type"]:
                    raise Refused(HEADER_SIZE, "an image of an unknown engine")
                if inline and size:
                    raise Refused(HEADER_SIZE, "an image both inline and a blob")
                if (inline or size) % SLOT_SIZE:
                    raise Refused(HEADER_SIZE, "an image that is no multiple of 64 bytes")
                if (inline or size) > IMAGE_MAX:
                    raise Refused(HEADER_SIZE, "an image of more than 1 GiB")
                for section in info["sections"]:
                    if section["section"] not in types["image_section"]:
                        raise Refused(HEADER_SIZE, "a section of an unknown kind")
                    if section["first"] + section["count"] > (inline or size) // SLOT_SIZE:
                        raise Refused(HEADER_SIZE, "a section outside its image")
                # "Entries of size 0 have a place too": those of inline images are such entries.
                end = self._place(info["instructions_offset"], size, end, "instruction", "an image")
                self.images.append(Image(self.data, graph, info, self.header["instruction_base"]))
            for patch in graph["patch_info"]:
                if patch["nc_engine_type"] not in types["nc_engine_type"]:
                    raise Refused(HEADER_SIZE, "a patch of an unknown engine")
                if patch["type"] not in types["instruction_patch_type"]:
                    raise Refused(HEADER_SIZE, "a patch of an unknown type")
                if patch["section"] not in types["image_section"]:
                    raise Refused(HEADER_SIZE, "a patch of an unknown section")
                if patch["offset"] % SLOT_SIZE or patch["offset"] > PATCH_OFFSET_MAX:
                    raise Refused(HEADER_SIZE, "a patch at an offset that is no multiple of 64 or above 2^30")

    def _read_rings(self):
        h = self.header
        rings = {}
        end = 0
        pieces = [t for g in self.graphs() for t in g["traces"]] + self.info["session_notifications"]
        if len(pieces) > PIECES_MAX:
            raise Refused(HEADER_SIZE, f"{len(pieces)} pieces of rings")
        for info in pieces:
            if info["ring"] not in RINGS:
                raise Refused(HEADER_SIZE, f"ring {info['ring']}")
            if (info["trace_type"], info["block_type"]) != RINGS[info["ring"]][1:]:
                raise Refused(HEADER_SIZE, "trace_type or block_type is not the ring's")
            if info["engine_index"] > 255:
                raise Refused(HEADER_SIZE, f"engine_index {info['engine_index']}")
            if info["size"] % RECORD_SIZE:
                raise Refused(HEADER_SIZE, "a ring that is no multiple of 16 bytes")
            self._check_core(info["nc_idx"], "a ring")
            end = self._place(info["offset"], info["size"], end, "notification", "a ring")
            key = (info["ring"], info["nc_idx"], info["engine_index"])
            if key not in rings:
                rings[key] = Ring(self.data, h["notification_base"], key)
            rings[key].pieces.append(info)
            if len(rings) > RINGS_MAX:
                raise Refused(HEADER_SIZE, "more rings than a file may have")
        self.rings = list(rings.values())
        records = any(r.stored for r in self.rings)
        if records == bool(h["flags"] & FLAG_NO_RECORDS):
            raise Refused(0x44, "bit 0 of the flags contradicts the records")


def read(path):
    return Profile(Path(path).read_bytes())


# --- the program ---


def _dump(profile, out):
    def put(key, value, last=False):
        out.write(f"{json.dumps(key)}:{json.dumps(value)}{'' if last else ','}\n")

    out.write("{\n")
    put("state", profile.state, profile.header is None)
    if profile.header is not None:
        put("header", {k: v for k, v in profile.header.items() if k != "magic"})
        put("ntff_info", plain(profile.info))
        put("images", [{"graph": i.graph["name"], "nc_idx": i.graph["nc_idx"], "engine": ENGINES[i.engine], "size": len(i.bytes),
                        "compiler_records": [source for _, source, _ in i.walk()]} for i in profile.images])
        out.write('"rings":[')
        for n, r in enumerate(profile.rings):
            ring = {"ring": r.name, "nc_idx": r.nc_idx, "engine_index": r.engine_index, "buffer_size": r.buffer_size,
                    "stored": r.stored, "emitted": r.emitted, "dropped": r.dropped, "verifiable": r.verifiable}
            out.write(("," if n else "") + "\n" + json.dumps(ring)[:-1] + ', "records":[')
            for k, record in enumerate(r.records()):
                out.write(("," if k else "") + "\n" + json.dumps(record))
            out.write("]}")
        out.write("]\n")
    out.write("}\n")


def main(arguments):
    if len(arguments) != 1:
        print("usage: ntff_reader.py FILE", file=sys.stderr)
        return 2
    try:
        profile = read(arguments[0])
    except (Refused, OSError) as e:
        print(f"{arguments[0]}: {e}", file=sys.stderr)
        return 1
    _dump(profile, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
