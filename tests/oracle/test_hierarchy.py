"""What people do with the compiler's layers: where the time of an operator went, which source line an instruction has, and what is
left when a layer is not there. That the tables are right is a matter of the truth matrix (truth.py, hierarchy.py)."""

from glob import glob
from pathlib import Path
import hashlib
import io
import tarfile

import pandas as pd
import pyarrow.parquet as pq
import pytest

import hierarchy
import matrix
import profiles
import truth

NKI = matrix.find("attention-trn3-lnc1-nki")
HEADER = 1024


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    directory = tmp_path_factory.mktemp("hierarchy")
    ntff, neff, true = profiles.make_ntff(directory, NKI)
    return directory, ntff, neff, true


@pytest.fixture(scope="module")
def tables(made):
    directory, ntff, neff, _ = made
    return profiles.process(ntff, [neff], directory / "tables")


def strip(neff, path, *parts):
    """The NEFF without the members whose names have one of these in them; header and hash as they belong."""
    data = Path(neff).read_bytes()
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(data[HEADER:]), mode="r:gz") as old, tarfile.open(fileobj=out, mode="w:gz") as new:
        for member in old.getmembers():
            if not any(part in member.name for part in parts):
                new.addfile(member, old.extractfile(member))
    header = bytearray(data[:HEADER])
    header[16:24] = len(out.getvalue()).to_bytes(8, "little")
    header[0xAC:0xBC] = hashlib.md5(out.getvalue()).digest()
    path.write_bytes(bytes(header) + out.getvalue())
    return path


def read(directory, table):
    got = truth.read_table(directory, table)
    return None if got is None else got.to_pandas()


def test_share_of_instructions_with_a_source_line(made, tables):
    """Every instruction of the compiler's has one; those of the kernel have the kernel's line too."""
    p = truth.Profile(tables, made[3])
    share = hierarchy.attribution(p)
    rows = read(tables, "Instruction")
    compiled = rows[rows.raw_bir_id.notna()]
    assert compiled.bir_debug_info_source_location.notna().all()
    assert share["all"] == pytest.approx(len(compiled) / len(rows)) and share["Tensor"] > 0.85
    kernel = rows[rows.kernel_instruction_name.notna()]
    assert kernel.nki_source_location.notna().all() and 0.3 < len(kernel) / len(compiled) < 1
    assert set(kernel.nki_region.dropna()) == {"attend", "softmax", "normalize"}
    assert set(kernel.nki_region_path.dropna()) == {"attend", "attend/softmax", "attend/softmax/normalize"}


def test_columns_join(tables):
    """Instruction's keys are found in each table, and bytes are the same by instruction and by layer."""
    rows = read(tables, "Instruction")
    for table, key in (("BirInstruction", "raw_bir_id"), ("PenguinInstruction", "raw_penguin_id"), ("HloInstruction", "raw_hlo_id"),
                       ("FrameworkInstruction", "raw_framework_id")):
        layer = read(tables, table)
        assert set(rows[key].dropna()) == set(layer[key]), table
        for column in ("hbm_read_bytes", "hbm_write_bytes", "sbuf_read_bytes", "sbuf_write_bytes"):
            want = rows[rows[key].notna()].groupby(key)[column].sum()
            assert (layer.groupby(key)[column].sum() - want).abs().max() == 0, (table, column)
    nodes = read(tables, "FrameworkNode").set_index("path")
    root = nodes[nodes.parent_name == ""]
    assert len(root) == 1 and root.hbm_read_bytes.iloc[0] == read(tables, "FrameworkInstruction").hbm_read_bytes.sum()
    assert set(read(tables, "KernelInstructions").kernel_instruction_name) >= set(rows.kernel_instruction_name.dropna())


def test_the_glob_of_seed_003(made):
    directory, ntff, neff, _ = made
    profiles.process(ntff, [neff], directory / "my-profile@latest", "--split-rows", 20)
    assert len(glob(f"{directory}/my-profile@latest/BirInstruction*.parquet")) > 2
    df = pd.concat(
        (pd.read_parquet(path) for path in glob(f"{directory}/my-profile@latest/BirInstruction*.parquet")),
        ignore_index=True,
    )
    whole = pq.read_table(directory / "tables" / "BirInstruction.parquet").to_pandas() if (directory / "tables").exists() else None
    assert whole is None or sorted(df.raw_bir_id) == sorted(whole.raw_bir_id)


LACKING = {
    "framework": (("debug_info_framework",), {"FrameworkInstruction", "FrameworkNode"}, {"layer"}),
    "HLO": (("debug_info_hlo", "debug_info_framework"), {"HloInstruction", "FrameworkInstruction", "FrameworkNode"}, {"layer", "hlo_name", "hlo_attrs"}),
    "BIR": (("debug_info",), {"BirInstruction", "PenguinInstruction", "HloInstruction", "FrameworkInstruction", "FrameworkNode",
                              "StackFrame", "KernelStackFrames"}, {"bir_instruction_name", "operator", "nki_region", "stack_frame_ids"}),
}


@pytest.mark.parametrize("layer", LACKING)
def test_a_layer_that_lacks_is_told_once(made, tables, layer):
    directory, ntff, neff, _ = made
    parts, gone, empty = LACKING[layer]
    stripped = strip(neff, directory / f"without-{layer}.neff", *parts)
    got = profiles.process(ntff, [stripped], directory / f"without-{layer}")
    names = {p.stem for p in Path(tables).glob("*.parquet")} - {p.stem for p in got.glob("*.parquet")}
    assert gone <= names
    rows, whole = read(got, "Instruction"), read(tables, "Instruction")
    assert (rows.start_ts == whole.start_ts).all() and (rows.opcode == whole.opcode).all()
    for column in empty:
        assert rows[column].isna().all(), column
    if layer == "framework":
        assert (rows.operator.dropna() == rows.hlo_name.dropna()).all() and rows.operator.notna().any()
    told = [m for m in read(got, "Warning").message if f"the {layer} layer" in m]
    assert len(told) == 1 and ("compile" in told[0])


def test_long_lists_are_coarsened_and_told(made):
    """More runs than spans are kept: the sums stay, the gaps go, and a Warning says so."""
    directory, *_ = made
    ntff, neff, true = profiles.make_ntff(directory, profiles.Cell("attention", "trn2", 1, "many", 300, (), 1, True))
    got = profiles.process(ntff, [neff], directory / "many")
    assert any("the nearest were joined" in m for m in read(got, "Warning").message)
    assert max(len(v) for v in read(got, "BirInstruction").element_count_per_interval) <= hierarchy.SPANS_MAX
    p = truth.Profile(got, true)
    hierarchy.check(p)
    assert p.differences == []
