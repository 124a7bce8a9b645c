"""Some cells of the loop's matrix, three at a time: they wait more than they compute."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import loop_matrix
import resumable

CELLS = ("dlopen-sync-lnc2-1neff-exec", "linked-async-lnc1-3neff-fork", "two-jobs", "restarts-5", "sigint-handled-in-session",
         "sigterm-default-idle", "no-daemon", "full-spool-stop", "full-host")


@pytest.fixture(scope="module")
def results():
    with ThreadPoolExecutor(3) as pool:
        yield {name: pool.submit(loop_matrix.run_cell, name) for name in CELLS}


@pytest.mark.parametrize("name", CELLS)
def test_the_loop_is_right(results, name):
    try:
        wrong = results[name].result(timeout=300)
    except resumable.Skipped as why:
        pytest.skip(str(why))
    assert wrong == []
