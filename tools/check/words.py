#!/usr/bin/env python3
"""Checks that files and commit messages name nothing of the workshop: people's machines, package hosts, writing aids.
usage: words.py [--commits BASE] [TREE]"""

import argparse
import hashlib
import re
import subprocess
import sys
from pathlib import Path

from tree import ROOT, links, tracked

# Written so that this file does not trip over itself.
PATTERNS = [
    (re.compile(r"(?<![\w.-])/w[o]rk/"), "a path of one machine"),
    (re.compile(r"p[y]pi\.org|pyth[o]nhosted|npm[j]s\.(?:org|com)|yarnp[k]g\.com"), "a package host"),
    (re.compile(r"(?:deb|security|ftp|snapshot)\.debi[a]n\.org|pr[o]xy\.golang"), "a package host"),
    (re.compile(r"artif[a]ctory|n[e]xus/repository|in[d]ex-url|extra-in[d]ex"), "a package host"),
    (re.compile(r"(?i)c[o]ding (?:assistant|agent)|a[i] (?:assistant|agent)"), "a writing aid"),
    (re.compile(r"(?i)co-auth[o]red-by|gener[a]ted (?:with|by) an? (?:a[i]|assistant)"), "a writing aid"),
    (re.compile(r"(?i)w[o]rktree|this ses[s]ion|previous ses[s]ion|helper ses[s]ion"), "how the work was organised"),
]
# Single words, as the first 12 digits of the SHA-256 of their lower case, for the same reason.
HASHED = {
    "c857d09db23e",
    "c70eca6b0f88",
    "60965168ce76",
    "7d3194f79e64",
    "3ea125d0bff3",
    "57de4cf40144",
    "94a168d2da57",
    "d298391b0743",
}
WORD = re.compile(r"[A-Za-z]{3,16}")
# Other people's words, kept as they came.
EXEMPT = ("tests/vectors/", "tests/fuzz/corpus/", "LICENSE")


def hashed_words(line):
    for word in WORD.findall(line):
        if hashlib.sha256(word.lower().encode()).hexdigest()[:12] in HASHED:
            yield word


def check_text(name, text):
    for number, line in enumerate(text.split("\n"), 1):
        for pattern, what in PATTERNS:
            match = pattern.search(line)
            if match:
                yield f'{name}:{number}: "{match.group(0)}" names {what}'
        for word in hashed_words(line):
            yield f'{name}:{number}: "{word}" names a writing aid'


def check_files(root):
    for name, target in links(root):
        if target.startswith("/"):
            yield f"{name}: a link to {target}, which other machines do not have"
    for name in tracked(root):
        yield from check_text("file name", name)
        if name.startswith(EXEMPT):
            continue
        data = (root / name).read_bytes()
        if b"\0" not in data[:8192]:
            yield from check_text(name, data.decode(errors="replace"))


def check_commits(root, base):
    out = subprocess.run(
        ["git", "-C", str(root), "log", "--format=%h%x00%B%x01", f"{base}..HEAD"],
        check=True, stdout=subprocess.PIPE, text=True, errors="replace",
    ).stdout
    for entry in filter(str.strip, out.split("\x01")):
        commit, message = entry.strip().split("\0", 1)
        yield from check_text(f"commit {commit}", message)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--commits", metavar="BASE")
    parser.add_argument("tree", nargs="?", type=Path, default=ROOT)
    args = parser.parse_args()
    found = list(check_files(args.tree))
    if args.commits:
        found += check_commits(args.tree, args.commits)
    for line in found:
        print(line)
    print(f"words: {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
