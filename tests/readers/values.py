"""What a column holds, in a form that is the same whichever reader gave it: rows, nulls, distinct values, and the SHA-256 of all
values in their order. hyparquet_read.mjs says the same in JavaScript.
"""

import hashlib
import math
import struct


def text(value):
    """Exact: numbers with point by their bits, texts with their length."""
    if value is None:
        return "~"
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack(">d", value).hex()
    if isinstance(value, str):
        return f"{len(value.encode())}:{value}"
    return "[" + ",".join(text(v) for v in value) + "]"


def summarise(table):
    """{column: [rows, nulls, distinct, digest]} of a pyarrow table."""
    found = {}
    for name in table.column_names:
        hashed, distinct, nulls = hashlib.sha256(), set(), 0
        for chunk in table[name].chunks:
            texts = [text(v) for v in chunk.to_pylist()]
            hashed.update("".join(t + "\n" for t in texts).encode())
            distinct.update(texts)
            nulls += chunk.null_count
        found[name] = [len(table), nulls, len(distinct), hashed.hexdigest()]
    return found
