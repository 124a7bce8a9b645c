"""What a collector made of the captures that hooks took, against what truly happened."""

from pathlib import Path
import json
import re
import subprocess

import truth

LIMIT = 120  # seconds for any one program


def hook_id(capture):
    """A hook numbers captures of failures by itself; the daemon adds what makes that one of the fleet."""
    return re.sub(r"^(onfail-\d+-\d+-\d+)-[0-9a-f]+$", r"\1", capture)


def true_profiles(folder):
    """{(capture id, NTFF): its truth}, of the profiles that hooks had written."""
    found = {}
    for facts in Path(folder).glob("*/profile.tsv"):
        path = {row["key"]: row["value"] for row in truth.read_tsv(facts)}["path"]
        match = re.search(r"/([\w.-]+)\.part/(.+)$", path)
        if match:
            # A session's files lie in folders of the runtime's own, which are part of their names in a capture.
            key = match[1], match[2].replace("/", "-")
            assert key not in found, f"{path}: written twice"
            found[key] = facts.parent
    return found


def profiles(bin, data):
    """All profiles of captures that a store holds, as `kymo profiles --json` tells it; not what was made of several."""
    done = subprocess.run([Path(bin) / "kymo", "profiles", "--data-path", data, "--json"], capture_output=True, text=True,
                          timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    return [row for row in json.loads(done.stdout)["profiles"] if row["kind"] == "device"]


def verify(bin, tables):
    """The last word of `kymo verify`."""
    done = subprocess.run([Path(bin) / "kymo", "verify", tables], capture_output=True, text=True, timeout=LIMIT)
    return (done.stdout.strip().splitlines() or [done.stderr.strip()])[-1]


def check_profile(bin, row, true):
    """What is wrong with one profile."""
    name = row["name"]
    if row["state"] != "ready":
        return [f"{name} is {row['state']}: {row.get('reason')}"]
    last = verify(bin, row["path"])
    wrong = [] if last.endswith(": closed") else [f"{name}: {last}"]
    if true is None:
        return wrong + [f"{name}: no truth of {row['capture']} {row['file']}"]
    return wrong + [f"{name}: {difference}" for difference in truth.compare(row["path"], true)]


def check(bin, data, folder):
    """(number of profiles, what is wrong with them). None is there twice."""
    rows, true, wrong = profiles(bin, data), true_profiles(folder), []
    keys = [(hook_id(row["capture"]), row["file"]) for row in rows]
    wrong += [f"{' '.join(key)} is there {keys.count(key)} times" for key in sorted(set(keys)) if keys.count(key) > 1]
    for row, key in zip(rows, keys):
        wrong += check_profile(bin, row, true.get(key))
    return len(rows), wrong
