"""The checks of tools/check must find what they are there for."""

import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
CHECK = TOP / "tools" / "check"


@pytest.fixture
def tree(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for key, value in (("user.name", "t"), ("user.email", "t@example.org")):
        subprocess.run(["git", "-C", str(tmp_path), "config", key, value], check=True)
    (tmp_path / ".clang-format").write_text((TOP / ".clang-format").read_text())
    return tmp_path


def put(tree, name, text):
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def check(script, *args):
    run = subprocess.run(
        [sys.executable, str(CHECK / script), *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert run.returncode in (0, 1), run.stdout
    assert (run.returncode == 0) == (", 0 problems" in run.stdout or ": 0 problems" in run.stdout)
    return run.stdout


def commit(tree, subject):
    subprocess.run(["git", "-C", str(tree), "commit", "-q", "--allow-empty", "-m", subject], check=True)
    return subprocess.run(
        ["git", "-C", str(tree), "rev-parse", "HEAD"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


@pytest.mark.parametrize(
    "name, include, allowed",
    [
        ("base/a.c", "base/a.h", True),
        ("base/a.c", "arch/arch.h", False),
        ("arch/a.c", "base/a.h", True),
        ("arch/a.c", "proto/a.h", False),
        ("formats/ntff/a.c", "arch/arch.h", True),
        ("formats/ntff/a.c", "formats/neff/neff.h", True),
        ("formats/ntff/a.c", "driver-iface/nq/nq.h", False),
        ("pipeline/a.c", "formats/ntff/ntff.h", True),
        ("pipeline/a.c", "driver-iface/nq/nq.h", False),
        ("driver-iface/nq/a.c", "formats/ntff/ntff.h", True),
        ("driver-iface/sim/sim_truth.c", "formats/ntff/ntff.h", False),
        ("driver-iface/sim/sim_truth.c", "arch/arch.h", True),
        ("driver-iface/hook/a.c", "proto/hook.h", True),
        ("driver-iface/hook/a.c", "base/err.h", False),
        ("daemon/a.c", "driver-iface/nq/nq.h", True),
        ("daemon/a.c", "formats/ntff/ntff.h", False),
        ("collector/query/a.c", "formats/schema/schema.h", True),
        ("collector/query/a.c", "formats/ntff/ntff.h", False),
        ("collector/a.c", "pipeline/a.h", False),
        ("tools/a.c", "pipeline/a.h", True),
        ("base/a.c", "cellar/a.h", False),
        ("base/a.c", "a.h", False),
        ("formats/schema/a.c", "schema_gen.h", True),
    ],
)
def test_rooms(tree, name, include, allowed):
    put(tree, name, f'#include "{include}"\n/* #include "tools/in_a_comment.h" */\n')
    assert ("rooms: 0 problems" in check("rooms.py", tree)) == allowed


@pytest.mark.parametrize("name", ["cellar/a.c", "a.c", "viewer/a.c", "cellar/notes.md"])
def test_unknown_rooms(tree, name):
    put(tree, name, "x\n")
    assert "rooms: 1 problems" in check("rooms.py", tree)


@pytest.mark.parametrize(
    "name, line, found",
    [
        ("base/a.c", "    char *p = malloc(3);", True),
        ("base/alloc.c", "    char *p = malloc(3);", False),
        ("base/a.c", "    char *p = kymo_malloc(3);", False),
        ("base/a.c", "    ops->free(p);", False),
        ("base/a.c", "    free(p);", True),
        ("base/a.c", "    /* free(p) */", False),
        ("base/a.c", '    f("free(p)");', False),
        ("base/a.c", "    sprintf(p, q);", True),
        ("base/a.c", "    snprintf(p, 3, q);", False),
        ("base/a.c", "    strcpy(p, q);", True),
        ("base/a.c", "    strtok(p, q);", True),
        ("base/a.c", "    strtok_r(p, q, &r);", False),
        ("base/a.c", "    f(atoi(p));", True),
        ("base/a.c", "    localtime(&t);", True),
        ("pipeline/a.c", "    fd = open(p, 0);", True),
        ("pipeline/a.c", "    fd = kymo_file_open(p, 0, 0, err);", False),
        ("driver-iface/a.c", "    fd = open(p, 0);", False),
        ("base/a.c", "    f(); ", True),
        ("base/a.c", "\tf();", True),
        ("base/a.c", "    f( );", True),
    ],
)
def test_style(tree, name, line, found):
    put(tree, name, "void g(void)\n{\n" + line + "\n}\n")
    assert ("style: 0 problems" in check("style.py", tree)) != found


def test_long_functions_and_files(tree):
    put(tree, "base/a.c", "void g(void)\n{\n" + "    f();\n" * 98 + "}\n")
    out = check("style.py", tree)
    assert "style: 0 problems" in out and "longest 100" in out
    put(tree, "base/a.c", "void g(void)\n{\n" + "    f();\n" * 99 + "}\n")
    assert "a function of 101 lines" in check("style.py", tree)
    put(tree, "base/a.c", "int a;\n" * 801)
    assert "801 lines" in check("style.py", tree)


def test_missing_newline(tree):
    put(tree, "base/a.c", "int a;")
    assert "no newline" in check("style.py", tree)


@pytest.mark.parametrize(
    "text, found",
    [
        ("see /wor" + "k/notes", True),
        ("see ../wor" + "k/notes", False),
        ("from https://pyp" + "i.org/simple", True),
        ("the runtime's session directory", False),
        ("a coding assist" + "ant", True),
        ("written by Cl" + "aude", True),
        ("plain words", False),
    ],
)
def test_words(tree, text, found):
    put(tree, "base/a.c", f"/* {text} */\n")
    assert ("words: 0 problems" in check("words.py", tree)) != found
    put(tree, "base/a.c", "int a;\n")
    base = commit(tree, "base: begin")
    commit(tree, f"base: go on\n\n{text}")
    assert ("words: 0 problems" in check("words.py", "--commits", base, tree)) != found


def test_absolute_links(tree):
    (tree / "base").mkdir()
    (tree / "base" / "a").symlink_to("/etc")
    (tree / "base" / "b").symlink_to("a")
    assert "words: 0 problems" in check("words.py", tree)
    subprocess.run(["git", "-C", str(tree), "add", "-A"], check=True)
    assert "words: 1 problems" in check("words.py", tree)


@pytest.mark.parametrize(
    "subject, fine",
    [
        ("base: add a clock", True),
        ("formats/ntff: read nodes", True),
        ("base, tools: embed the version", True),
        ("Add a clock", False),
        ("base: Add a clock", False),
        ("base: added a clock", False),
        ("base: adding a clock", False),
        ("base: add a clock.", False),
        ("base: add " + "a" * 100, False),
    ],
)
def test_commits(tree, subject, fine):
    base = commit(tree, "base: begin")
    commit(tree, subject)
    assert (", 0 problems" in check("commits.py", base, tree)) == fine


def features(tree, row, test):
    """What the check says of a page with one row and one test."""
    head = "| statement | where | test | state |\n| --- | --- | --- | --- |\n"
    put(tree, "viewer/FEATURES.md", head + f"| Zooms | timeline | {row} | done |\n")
    put(tree, "tests/viewer/test_zoom.py", f"def test_{test}():\n    pass\n")
    return check("features.py", tree)


def test_features(tree):
    assert "features: 0 problems" in features(tree, "the_wheel_zooms", "the_wheel_zooms")
    assert "features: 0 problems" in features(tree, "test_zoom", "the_wheel_zooms")
    assert "there is no the_wheel_zooms" in features(tree, "the_wheel_zooms", "keys_zoom")
    assert "test_keys_zoom stands in no row" in features(tree, "the_wheel_zooms", "keys_zoom")
    assert "Zooms: no test" in features(tree, "", "the_wheel_zooms")
