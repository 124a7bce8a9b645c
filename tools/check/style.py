#!/usr/bin/env python3
"""Checks sizes, banned functions and layout of C files. usage: style.py [TREE]"""

import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from tree import ROOT, is_c, is_generated, tracked, without_comments

FUNCTION_MAX = 100
FILE_MAX = 800
TEXT_SUFFIXES = (".c", ".h", ".py", ".sh", ".cmake", ".proto", ".md", ".txt", ".json", ".tsv", ".ts", ".css", ".html")

ALLOCATION = "malloc calloc realloc reallocarray free strdup strndup asprintf vasprintf aligned_alloc posix_memalign"
UNSAFE = (
    "strtok sprintf vsprintf strcpy stpcpy strcat strncpy strncat gets atoi atol atoll atof localtime gmtime ctime "
    "asctime alloca mktemp tmpnam system popen strerror_r"
)
FILE_CALLS = "fopen open openat creat rename unlink fsync fdatasync pread pwrite"

# (names, where they are banned, where they are allowed, what to use instead)
BANNED = [
    (ALLOCATION.split(), None, {"base/alloc.c"}, "base/alloc.h"),
    (UNSAFE.split(), None, set(), "a bounded or reentrant function"),
    (FILE_CALLS.split(), ("arch/", "formats/", "pipeline/", "collector/"), set(), "base/file.h"),
]


def banned_patterns():
    for names, rooms, allowed_in, instead in BANNED:
        # Neither a member (ops->open), nor part of a longer name, nor a member's declaration ((*open)(...)).
        pattern = re.compile(r"(?<![\w.>])(" + "|".join(names) + r")[ \t]*\(")
        yield pattern, rooms, allowed_in, instead


PATTERNS = list(banned_patterns())


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def check_banned(name, code):
    for pattern, rooms, allowed_in, instead in PATTERNS:
        if name in allowed_in or (rooms and not name.startswith(rooms)):
            continue
        for match in pattern.finditer(code):
            yield f"{name}:{line_of(code, match.start())}: {match.group(1)} is banned; use {instead}"


def function_lengths(code):
    """(first line, number of lines) of each function: from the brace in column 0 to its closing one."""
    start = None
    for number, line in enumerate(code.split("\n"), 1):
        if line.rstrip() == "{":
            start = number
        elif start is not None and line.startswith("}"):
            yield start, number - start + 1
            start = None


def check_text(name, text):
    for number, line in enumerate(text.split("\n"), 1):
        if line != line.rstrip():
            yield f"{name}:{number}: space at the end of the line"
        if is_c(name) and "\t" in line:
            yield f"{name}:{number}: tab"
    if text and not text.endswith("\n"):
        yield f"{name}: no newline at the end"


def check_size(name, text):
    if name.endswith((".c", ".h", ".py", ".sh", ".cmake")) and text.count("\n") > FILE_MAX:
        yield f"{name}: {text.count(chr(10))} lines, more than {FILE_MAX}"


def check_format(root, names):
    if not shutil.which("clang-format"):
        yield "clang-format is missing: run tools/install-deps.sh --test"
        return
    step = 50
    for i in range(0, len(names), step):
        run = subprocess.run(
            ["clang-format", "--dry-run", "--style=file", *names[i : i + step]],
            cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )
        hits = re.findall(r"^([^\s:]+):(\d+):\d+: warning: code should be clang-formatted", run.stdout, re.MULTILINE)
        for name in dict.fromkeys(name for name, _ in hits):
            yield f"{name}: run clang-format -i on it"
        if run.returncode and not hits:
            yield f"clang-format failed: {run.stdout[:300]}"


def problems(root, lengths):
    formatted = []
    for name in tracked(root):
        # Vectors, corpora and golden files are data, kept as they came.
        if name.startswith(("tests/vectors/", "tests/fuzz/corpus/", "tests/golden/")) or not name.endswith(TEXT_SUFFIXES):
            continue
        text = (root / name).read_text(errors="replace")
        if is_c(name) and is_generated(text):
            continue
        yield from check_text(name, text)
        yield from check_size(name, text)
        if not is_c(name):
            continue
        formatted.append(name)
        code = without_comments(text)
        yield from check_banned(name, code)
        for line, length in function_lengths(code):
            lengths.append(length)
            if length > FUNCTION_MAX:
                yield f"{name}:{line}: a function of {length} lines, more than {FUNCTION_MAX}"
    yield from check_format(root, formatted)


def main():
    root = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT
    lengths = []
    found = list(problems(root, lengths))
    for line in found:
        print(line)
    if lengths:
        lengths.sort()
        print(
            f"style: {len(lengths)} functions, lines: median {statistics.median(lengths):g}, "
            f"90 % {lengths[len(lengths) * 9 // 10]}, longest {lengths[-1]}"
        )
    print(f"style: {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
