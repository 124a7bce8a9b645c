"""Simulated profiles for the oracles: NEFF, NTFF with its truth, tables. Everything is made by the programs under test."""

from dataclasses import dataclass, field
from pathlib import Path
import os
import shutil
import subprocess

BUILD = Path(os.environ.get("KYMO_BUILD", "build"))
BIN = BUILD / "bin"
INSTANCES = {"trn1": "trn1.32xlarge", "inf2": "inf2.48xlarge", "trn2": "trn2.48xlarge", "trn3": "trn3.48xlarge"}
LIMIT = 300  # seconds for any one program


@dataclass(frozen=True)
class Cell:
    """One profile of the truth matrix."""

    model: str
    arch: str
    lnc: int
    name: str = "plain"
    executions: int = 2
    options: tuple = field(default=())
    dge: int = 1
    small: bool = False  # a small program, for runs of many executions

    def __str__(self):
        return f"{self.model}-{self.arch}-lnc{self.lnc}-{self.name}"


def run(*command, **kwargs):
    """Runs a program to its end; its output belongs to the failure."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=LIMIT, **kwargs)
    assert done.returncode == 0, f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


SMALL = ("--layers", 1, "--hidden", 128, "--batch", 128)


def make_neff(directory, model, arch, lnc, small=False, nki=False):
    """With the program's truth beside it, in a file of the suffix .tsv."""
    path = Path(directory) / f"{model}-{arch}-lnc{lnc}{'-small' if small else ''}{'-nki' if nki else ''}.neff"
    if not path.exists():
        run(BIN / "kymo-sim", "neff", "--model", model, "--arch", arch, "--lnc", lnc, *(SMALL if small else ()),
            *(("--nki",) if nki else ()), "--output", path, "--truth", path.with_suffix(".tsv"))
    return path


def make_ntff(directory, cell):
    """(NTFF, NEFF, truth directory)"""
    neff = make_neff(directory, cell.model, cell.arch, cell.lnc, cell.small, cell.name == "nki")
    ntff = Path(directory) / f"{cell}.ntff"
    truth = Path(directory) / "truth"
    run(BIN / "kymo-sim", "ntff", "--neff", neff, "--instance", INSTANCES[cell.arch], "--lnc", cell.lnc, "--executions",
        cell.executions, "--dge", cell.dge, *cell.options, "--output", ntff, "--truth", truth)
    shutil.copy(neff.with_suffix(".tsv"), truth / ntff.stem / "program.tsv")
    return ntff, neff, truth / ntff.stem


def process(ntff, neffs, output, *options):
    run(BIN / "kymo-process", "--ntff", ntff, *sum((["--neff", n] for n in neffs), []), "--output", output, *options)
    return Path(output)


def make_tables(directory, cell, *options):
    """(tables, truth)"""
    ntff, neff, truth = make_ntff(directory, cell)
    return process(ntff, [neff], Path(directory) / "tables" / str(cell), *options), truth
