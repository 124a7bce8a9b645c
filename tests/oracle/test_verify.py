"""kymo verify: closed with counters, unverifiable without, open where a loss has no number. Exit codes 0, 3, 1; 4 when nothing
can be read."""

import struct
import subprocess

import pytest

import profiles
from ntff_reader import crc32c
from profiles import BIN, Cell


@pytest.fixture(scope="session")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("verify")


def verify(tables):
    done = subprocess.run([BIN / "kymo", "verify", tables], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout


def tables_of(directory, name, executions, *options):
    return profiles.make_tables(directory, Cell("mlp", "trn2", 1, name, executions, options, 1, True))[0]


def rings(out):
    return {line.split()[0]: line for line in out.splitlines()[1:-1]}


def test_closed(directory):
    code, out = verify(tables_of(directory, "counted", 2))
    assert code == 0
    assert out.splitlines()[-1].endswith(": closed")


def test_losses_with_a_number_close(directory):
    code, out = verify(tables_of(directory, "lossy", 80, "--buffer", "INSTRUCTION=1"))
    assert code == 0
    assert int(rings(out)["INSTRUCTION(nc0)"].split()[6]) > 0


def test_without_counters_nothing_is_claimed(directory):
    code, out = verify(tables_of(directory, "uncounted", 2, "--no-counters"))
    assert code == 3
    assert all("unverifiable" in line for line in rings(out).values())
    assert out.splitlines()[-1].endswith(": unverifiable")


def test_a_loss_without_a_number_stays_open(directory):
    tables = tables_of(directory, "uncounted-lossy", 80, "--no-counters", "--buffer", "INSTRUCTION=1")
    code, out = verify(tables)
    assert code == 3
    assert "closed" not in out
    lost = profiles.run(BIN / "kymo", "query", tables, "--format", "csv",
                        "SELECT lost_unknown, lost_records FROM LossLedger WHERE ring = 'INSTRUCTION(nc0)' AND lost_unknown")
    assert lost.splitlines()[1:] and all(line == "true," for line in lost.splitlines()[1:])


def test_missing_rows_are_noticed(directory, tmp_path):
    """Tables without one Instruction row, everything else as it was."""
    import shutil

    import pyarrow.parquet as pq

    tables = tmp_path / "edited"
    shutil.copytree(tables_of(directory, "edited", 2), tables)
    path = tables / "Instruction.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    code, out = verify(tables)
    assert code == 1
    assert "violated" in rings(out)["INSTRUCTION(nc0)"]


def test_unreadable_is_no_violation(tmp_path):
    assert verify(tmp_path)[0] == 4
    assert verify(tmp_path / "absent")[0] == 4
    (tmp_path / "LossLedger.parquet").write_bytes(b"PAR1 this is none")
    assert verify(tmp_path)[0] == 4


def lower_counter(path, tag=b"\x80\x3f"):
    """Makes an `emitted` (field 1008) one less, in place: its ring then stores more than it emitted. The file stays whole."""
    data = bytearray(path.read_bytes())
    size, = struct.unpack_from("<Q", data, 0x10)
    at = data.find(tag, 128)
    while data[at + 2] & 0x7F in (0, 1):
        at = data.find(tag, at + 1)
        assert 0 < at < 128 + size, "no counter found"
    data[at + 2] -= 1
    struct.pack_into("<I", data, 0x40, crc32c(data[128:128 + size]))
    struct.pack_into("<I", data, 0x7C, crc32c(data[:0x7C]))
    path.write_bytes(data)


def test_contradicting_counters_are_told_and_prove_nothing(directory):
    ntff, neff, _ = profiles.make_ntff(directory, Cell("mlp", "trn2", 1, "contradicting", 2, (), 1, True))
    lower_counter(ntff)
    tables = profiles.process(ntff, [neff], directory / "tables" / "contradicting")
    code, out = verify(tables)
    assert code == 3
    assert [line for line in rings(out).values() if "unverifiable" in line]
    assert out.splitlines()[-1].endswith(": unverifiable")
    told = profiles.run(BIN / "kymo", "query", tables, "--format", "csv",
                        "SELECT count(*) FROM Warning WHERE message LIKE '%contradict the stored records%'")
    assert int(told.splitlines()[1]) >= 1
    causes = profiles.run(BIN / "kymo", "query", tables, "--format", "csv",
                          "SELECT count(*) FROM LossLedger WHERE cause = 'counters_contradict'")
    assert int(causes.splitlines()[1]) >= 1
