"""Small tables: names, types and dates, with and without the NEFF."""

import duckdb
import pytest

import profiles
from profiles import Cell


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    directory = tmp_path_factory.mktemp("reference")
    ntff, neff, _ = profiles.make_ntff(directory, Cell("mlp", "trn2", 1, small=True))
    return {True: profiles.process(ntff, [neff], directory / "with"), False: profiles.process(ntff, [], directory / "without")}


def rows(directory, table, columns):
    return duckdb.sql(f"SELECT {columns} FROM read_parquet('{directory / (table + '.parquet')}')").fetchall()


@pytest.mark.parametrize("neff", (True, False))
def test_first_time_is_wall_clock_time(made, neff):
    """The simulator pairs its first picosecond with 2026-01-01; the hardware's time stays the device's."""
    (first, last, hardware), = rows(made[neff], "Metadata", "first_ts, last_ts, first_hw_timestamp")
    assert first.startswith("2026-01-01 00:00:00") and last.startswith("2026-01-01 00:00:00.")
    assert hardware < 10**12


def test_header_knows_name_and_uuid_without_the_neff(made):
    with_neff, = rows(made[True], "NeffHeader", "network_name, uuid")
    without, = rows(made[False], "NeffHeader", "network_name, uuid, hash")
    assert without == (*with_neff, None)


def test_queue_types_are_the_same_words(made):
    """Only a data queue that loads weights is called otherwise than in DmaPacket."""
    types = dict(rows(made[True], "DmaQueuesInfo", "DISTINCT name, type"))
    packets = dict(rows(made[True], "DmaPacket", "DISTINCT queue_name, queue_type"))
    assert types["qScalarWeights0"] == "weights" and types["qVectorSpillReload0"] == "data"
    assert {name: "data" if types[name] == "weights" else types[name] for name in packets} == packets


@pytest.mark.parametrize("arch, error", (("trn2", 1001), ("trn1", 1002)))
def test_clock_sync_is_the_pair_of_the_trace(tmp_path, arch, error):
    """The simulator reads both clocks when the capture begins, to 1 us; flooring adds 1 ns, Trn1's correction another."""
    ntff, neff, truth = profiles.make_ntff(tmp_path, Cell("mlp", arch, 1, small=True))
    tables = profiles.process(ntff, [neff], tmp_path / "tables")
    first_ps = int(dict(line.split("\t") for line in (truth / "profile.tsv").read_text().splitlines()[1:])["first_ps"])
    (ts, host, bound, source, pcore), = rows(tables, "ClockSync", "ts, host_unix_ns, error_bound_ns, source, pcore_idx")
    assert (host, bound, source, pcore) == (1767225600 * 10**9, error, "sync_point", 0)
    (kind, capture), = rows(tables, "Metadata", "profile_kind, capture_id")
    assert (kind, capture) == ("device", None)
    assert -(first_ps // 1000) <= ts <= 0
