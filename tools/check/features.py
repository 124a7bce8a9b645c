#!/usr/bin/env python3
"""Checks that viewer/FEATURES.md and the page's tests know each other: each row names tests that are there, each test stands in
a row. usage: features.py [TREE]"""

import ast
import re
import sys
from pathlib import Path

from tree import ROOT

# Rows that no test of their own can drive, and why.
WITHOUT = {"Content security policy without inline script or eval": "every test fails on a violation"}


def rows(root):
    """(statement, tests) of each row."""
    for line in (root / "viewer" / "FEATURES.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("|") and len(cells) == 4 and cells[0] != "statement" and not cells[0].startswith("---"):
            yield cells[0].strip("| "), cells[2]


def named_in(folder):
    """{file: names without test_}"""
    made = {}
    for path in sorted(folder.glob("test_*.py")):
        names = [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
        made[path.stem] = [name.removeprefix("test_") for name in names if name.startswith("test_")]
    return made


def check_rows(root):
    tests = root / "tests"
    every = [name for part in ("viewer", "tools") for names in named_in(tests / part).values() for name in names]
    for statement, text in rows(root):
        if WITHOUT.get(statement) == text:
            continue
        words = re.split(r"[,;:]?\s+|[,;:]$", text)
        named = [word for word in words if re.fullmatch(r"[\w/.]+", word) and ("_" in word or "/" in word)]
        if not named:
            yield f"viewer/FEATURES.md: {statement}: no test"
        for word in named:
            places = [root / "viewer" / word, root / word, tests / "unit" / word, tests / "viewer" / f"{word}.py"]
            if not any(path.exists() for path in places) and not any(name.startswith(word) for name in every):
                yield f"viewer/FEATURES.md: {statement}: there is no {word}"


def check_tests(root):
    text = " ".join(tests for _, tests in rows(root))
    words = re.findall(r"[\w/.]+", text)
    whole = {word for word in words if word.startswith("test_") and f"{word}:" not in text}
    for file, names in named_in(root / "tests" / "viewer").items():
        for name in names:
            if file not in whole and not any(word == name or ("_" in word and name.startswith(word)) for word in words):
                yield f"tests/viewer/{file}.py: test_{name} stands in no row of viewer/FEATURES.md"


def main():
    root = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT
    problems = [*check_rows(root), *check_tests(root)]
    for problem in problems:
        print(problem)
    print(f"features: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
