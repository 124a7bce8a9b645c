"""FEATURES.md says the truth of its tests: each row names tests that are there, each test of the page is named by a row."""

import ast
import re

from conftest import HERE, TOP

VIEWER = TOP / "viewer"
# Rows that no test of their own can drive, and why.
WITHOUT = {"Content security policy without inline script or eval": "every test fails on a violation"}


def rows():
    """(statement, tests, state) of each row."""
    for line in (VIEWER / "FEATURES.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("|") and len(cells) == 4 and cells[0] != "statement" and not cells[0].startswith("---"):
            yield cells[0].strip("| "), cells[2], cells[3]


def named_in(folder):
    """{file: names without test_}"""
    made = {}
    for path in sorted(folder.glob("test_*.py")):
        names = [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
        made[path.stem] = [name.removeprefix("test_") for name in names if name.startswith("test_")]
    return made


def test_each_row_names_tests_that_are_there():
    every = [name for folder in (HERE, TOP / "tests" / "tools") for names in named_in(folder).values() for name in names]
    wrong = []
    for statement, tests, _ in rows():
        if statement in WITHOUT:
            assert tests == WITHOUT[statement]
            continue
        named = [word for word in re.split(r"[,;:]?\s+|[,;:]$", tests) if re.fullmatch(r"[\w/.]+", word) and ("_" in word or "/" in word)]
        if not named:
            wrong.append(f"{statement}: no test")
        for word in named:
            places = [VIEWER / word, TOP / word, TOP / "tests" / "unit" / word, HERE / f"{word}.py"]
            if not any(path.exists() for path in places) and not any(name.startswith(word) for name in every):
                wrong.append(f"{statement}: {word}")
    assert not wrong, "\n".join(wrong)


def test_each_test_of_the_page_stands_in_a_row():
    text = " ".join(tests for _, tests, _ in rows())
    words = re.findall(r"[\w/.]+", text)
    whole = {word for word in words if word.startswith("test_") and f"{word}:" not in text}
    missing = [
        f"{file}: {name}"
        for file, names in named_in(HERE).items()
        for name in names
        if file not in {*whole, "test_features"} and not any(word == name or ("_" in word and name.startswith(word)) for word in words)
    ]
    assert not missing, "\n".join(missing)
