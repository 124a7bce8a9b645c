#!/usr/bin/env python3
"""Checks the one-way dependencies between rooms by what each file includes. usage: rooms.py [TREE]"""

import re
import sys
from pathlib import Path

from tree import ROOT, is_c, tracked, without_comments

ALL = {"base", "arch", "proto", "formats", "driver-iface", "pipeline", "daemon", "collector", "tools", "tests"}

# What files of a room may include besides their own room. The longest matching path decides.
MAY_USE = {
    "base": set(),
    "arch": {"base"},
    "proto": {"base"},
    "formats": {"base", "arch", "proto"},
    "driver-iface": {"base", "arch", "proto", "formats"},
    "pipeline": {"base", "arch", "proto", "formats"},
    "daemon": {"base", "arch", "proto", "driver-iface"},
    "collector": {"base", "proto", "formats/schema", "formats/csv", "formats/parquet_read"},
    "tools": ALL,
    "tests": ALL,
}
# The hook lives in other people's processes: it knows the fixed structures and nothing else, not even base.
ONLY = {"driver-iface/hook": {"driver-iface/hook", "proto/hook.h"}}
# Folders without C of ours.
OTHER_FOLDERS = {".ci", "cmake", "systemd", "viewer", "docs", "third_party"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)


def below(path, folder):
    return path == folder or path.startswith(folder + "/")


def allowed(name, included):
    for folder, only in ONLY.items():
        if below(name, folder):
            return any(below(included, path) for path in only)
    room = name.split("/")[0]
    if included.split("/")[0] == room:
        return True
    return any(below(included, path) for path in MAY_USE[room])


def check_file(root, name):
    text = (root / name).read_text(errors="replace")
    is_truth = name.startswith("driver-iface/sim/") and "truth" in Path(name).name
    for included in INCLUDE.findall(without_comments(text, keep_literals=True)):
        room = included.split("/")[0]
        if "/" not in included:
            # Generated headers of the own room; anything else would depend on where the compiler looks first.
            if not included.endswith(("_gen.h", ".skel.h")):
                yield f'{name}: "{included}" names no room; write the path from the top'
        elif room not in MAY_USE:
            yield f'{name}: "{included}": there is no room "{room}"'
        elif not allowed(name, included):
            yield f'{name}: may not include "{included}"'
        elif is_truth and room == "formats":
            yield f'{name}: truth comes from the model\'s state, not through "{included}"'


def problems(root):
    for name in tracked(root):
        room = name.split("/")[0]
        if "/" not in name:
            if is_c(name):
                yield f"{name}: C files live in rooms"
        elif room not in MAY_USE and room not in OTHER_FOLDERS:
            yield f'{name}: there is no room "{room}"'
        elif is_c(name) and room in OTHER_FOLDERS:
            yield f'{name}: no C of ours lives in "{room}"'
        elif is_c(name):
            yield from check_file(root, name)


def main():
    root = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT
    found = list(problems(root))
    for line in found:
        print(line)
    print(f"rooms: {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
