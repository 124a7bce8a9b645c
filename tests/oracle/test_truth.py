"""Tables equal the simulator's truth: one cell per generation, and the ways to lose records."""

import pytest

import matrix
import profiles
import truth

CELLS = ("mlp-trn1-lnc1-drift", "attention-inf2-lnc1-plain", "mlp-trn2-lnc2-plain", "attention-trn3-lnc1-plain",
         "mlp-trn2-lnc1-all-tiny", "attention-trn2-lnc1-h2d-tiny", "mlp-trn2-lnc1-h2d-off", "attention-trn1-lnc1-fail",
         "mlp-trn2-lnc1-no-dge", "mlp-trn2-lnc2-throttle", "attention-trn1-lnc1-notices",
         "attention-trn2-lnc2-nki", "allreduce-trn1-lnc1-drift", "allreduce-trn2-lnc2-cc-rank", "allreduce-trn3-lnc1-cc-late")


@pytest.fixture(scope="session")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("truth")


@pytest.mark.parametrize("name", CELLS)
def test_tables_equal_the_truth(directory, name):
    assert truth.compare(*profiles.make_tables(directory, matrix.find(name))) == []


@pytest.mark.parametrize("name", CELLS)
def test_the_loss_equation_closes(directory, name):
    tables = directory / "tables" / name
    if not tables.exists():
        profiles.make_tables(directory, matrix.find(name))
    assert "violated" not in profiles.run(profiles.BIN / "kymo", "verify", tables)


def test_the_comparison_notices_a_difference(directory):
    """A truth with one changed time, one missing event and one other opcode must not compare equal."""
    tables, true = profiles.make_tables(directory, matrix.find("attention-trn2-lnc1-plain"))
    path = true / "instructions.tsv"
    lines = path.read_text().splitlines()
    head = lines[0].split("\t")
    for change in ("time", "missing", "opcode"):
        edited = list(lines)
        row = edited[100].split("\t")
        if change == "time":
            row[head.index("end_ps")] = str(int(row[head.index("end_ps")]) + 1000)
        if change == "opcode":
            row[head.index("opcode")] = "IOTA"
        edited[100] = "\t".join(row)
        if change == "missing":
            del edited[100]
        path.write_text("\n".join(edited) + "\n")
        assert truth.compare(tables, true) != [], change
    path.write_text("\n".join(lines) + "\n")
    assert truth.compare(tables, true) == []
