"""Some cells of the loop's matrix, two at a time: they wait more than they compute."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import loop_matrix

CELLS = ("dlopen-sync-lnc2-1neff-exec", "linked-async-lnc1-3neff-fork", "two-jobs", "restarts-5", "sigint-handled-in-session",
         "sigterm-default-idle", "no-daemon")


@pytest.fixture(scope="module")
def results():
    with ThreadPoolExecutor(2) as pool:
        yield {name: pool.submit(loop_matrix.run_cell, name) for name in CELLS}


@pytest.mark.parametrize("name", CELLS)
def test_the_loop_is_right(results, name):
    assert results[name].result(timeout=300) == []
