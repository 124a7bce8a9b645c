"""hyparquet, which viewers in a browser read Parquet with, sees in every table what pyarrow sees. Two files of each table; all of them, and
Spark, are tests/readers/check.py."""

from collections import defaultdict
from pathlib import Path
import shutil
import subprocess
import sys

import pytest

READERS = Path(__file__).parents[1] / "readers"
sys.path.insert(0, str(READERS))
import check  # noqa: E402


@pytest.fixture(scope="module")
def installed():
    if not shutil.which("npm"):
        pytest.skip("no npm")
    wanted = READERS / "package-lock.json"
    got = READERS / "node_modules" / ".package-lock.json"
    if not got.exists() or got.stat().st_mtime < wanted.stat().st_mtime:
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--prefix", READERS], check=True, capture_output=True, timeout=180)


def test_every_table(installed, all_profiles):
    by_table = defaultdict(list)
    for path in check.files_of(all_profiles):
        by_table[path.stem].append(path)
    paths = [path for files in by_table.values() for path in sorted(files, key=lambda p: p.stat().st_size)[:2]]
    wanted = check.pyarrow_says(paths)
    said, _ = check.hyparquet_says(paths)
    assert len(by_table) > 60 and check.differences(said, wanted) == []
