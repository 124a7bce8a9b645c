#!/usr/bin/env python3
"""Checks the subjects of the commits since BASE: `room: imperative`, at most 100 characters. usage: commits.py BASE [TREE]"""

import re
import subprocess
import sys
from pathlib import Path

from tree import ROOT

SUBJECT = re.compile(r"^(?P<room>[a-z][a-z0-9.-]*(/[a-z0-9._-]+)*)(, [a-z][a-z0-9./_-]*)*: (?P<first>[a-z][\w'-]*)")
SUBJECT_MAX = 100
# Words that look like a past or a progressive form and are none.
FINE = {"embed", "feed", "need", "speed", "seed", "shed", "bring", "string", "ring", "exceed", "proceed"}


def problem(subject):
    match = SUBJECT.match(subject)
    if not match:
        return "is not `room: imperative`"
    first = match.group("first")
    if first not in FINE and first.endswith(("ed", "ing")):
        return f'says "{first}" where the imperative belongs'
    if subject.endswith("."):
        return "ends with a dot"
    if len(subject) > SUBJECT_MAX:
        return f"is longer than {SUBJECT_MAX} characters"
    return None


def main():
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    root = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT
    out = subprocess.run(
        ["git", "-C", str(root), "log", "--no-merges", "--format=%h %s", f"{sys.argv[1]}..HEAD"],
        check=True, stdout=subprocess.PIPE, text=True, errors="replace",
    ).stdout
    bad = 0
    for line in out.splitlines():
        commit, _, subject = line.partition(" ")
        what = problem(subject)
        if what:
            bad += 1
            print(f'commit {commit}: "{subject}" {what}')
    print(f"commits: {len(out.splitlines())} looked at, {bad} problems")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
