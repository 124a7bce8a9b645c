"""Reads packed answers (collector/query/SERVE.md), from the bytes alone."""

import json
import struct

import numpy as np

TYPES = {"i64": "<i8", "f64": "<f8", "u32": "<u4", "u8": "u1"}


def decode(data):
    """The header; each track's columns become arrays under "values", label and color as texts too under "texts"."""
    assert data[:4] == b"KYB1"
    (length,) = struct.unpack_from("<I", data, 4)
    head = json.loads(data[8 : 8 + length])
    begin = (8 + length + 7) & ~7
    assert not any(data[8 + length : begin])
    assert head["dict"][0] == "" and len(set(head["dict"])) == len(head["dict"])
    end = begin
    for track in head["tracks"]:
        track["values"], track["texts"] = {}, {}
        for column in track["columns"]:
            at = begin + column["offset"]
            assert at % 8 == 0
            values = np.frombuffer(data, dtype=TYPES[column["type"]], count=track["n"], offset=at)
            end = max(end, at + ((values.nbytes + 7) & ~7))
            track["values"][column["name"]] = values
            if column["name"] in ("label", "color"):
                track["texts"][column["name"]] = [head["dict"][v] for v in values]
    assert end == len(data), "bytes behind the last column"
    return head
