"""The cells of the truth matrix, and the whole of it as a resumable run.

    tests/oracle/matrix.py [--log FILE] [--again] [--only TEXT] [--part K/N]

runs every cell that the log does not hold for this commit, and appends commit, cell, result, seconds. CI runs one cell per
generation (test_truth.py).
"""

import sys
import tempfile

from profiles import Cell, make_tables
import resumable
import truth

LNC = {"trn1": (1,), "inf2": (1,), "trn2": (1, 2), "trn3": (1, 2)}
MODELS = ("mlp", "attention", "allreduce")

THROTTLE = ("--throttle", "activity_0:1/4@5+30", "activity_1:6/8@0+1.5~4", "unknown:200/255@10+17.25#0", "activity_0:3/8@2+7#0")
NOTICES = ("--notice", "nan@1~3", "inf@4.5", "sequencer_fatal@11", "sequencer_nonfatal@2", "semaphore@5", "event@6", "warning@7~5",
           "interrupt@8#0", "custom-0@9", "custom-7@10~8", "custom-15@3", "--throttle", "activity_0:7/8@1+100000")

# name, executions, options, DGE notices, small program
VARIANTS = (
    ("plain", 2, (), 1, False),
    ("no-dge", 2, (), 0, False),
    ("h2d-off", 1, ("--buffer", "H2D_DMA=0"), 1, True),
    ("h2d-tiny", 700, ("--buffer", "H2D_DMA=1"), 1, True),
    ("instruction-tiny", 80, ("--buffer", "INSTRUCTION=1"), 1, True),
    ("event-tiny", 100, ("--buffer", "EVENT=1"), 1, True),
    ("dma-tiny", 180, ("--buffer", "DMA=1"), 1, True),
    ("all-tiny", 180, ("--buffer", "INSTRUCTION=1", "--buffer", "EVENT=1", "--buffer", "DMA=1", "--buffer", "H2D_DMA=1"), 1, True),
    ("old-driver", 1, ("--driver", "2.30.9"), 1, True),
    ("odd-core", 1, ("--vnc", "1"), 1, True),
    ("fail", 3, ("--fail",), 1, False),
    ("throttle", 3, THROTTLE, 1, True),
    ("notices", 2, NOTICES, 1, True),
    ("seed", 2, ("--seed", "4711"), 1, True),
    ("nki", 2, (), 1, False),
    # Collectives: another rank than the first, a rank that is late, and rings that fill.
    ("cc-rank", 2, ("--rank", "3", "--slow-rank", "1:3"), 1, False),
    ("cc-late", 2, ("--rank", "1", "--slow-rank", "1:3"), 1, False),
    # Everybody waits for longer than a start record can count.
    ("cc-straggler", 2, ("--slow-rank", "1:100", *THROTTLE), 1, False),
    ("cc-untold", 300, ("--slow-rank", "1:100", "--buffer", "EVENT=1"), 1, True),
    ("cc-tiny", 1450, ("--buffer", "CC_CORE_INSTRUCTION=1", "--buffer", "CC_CORE_EVENT=1"), 1, True),
    ("cc-instruction-tiny", 200, ("--buffer", "INSTRUCTION=1"), 1, True),
)
DRIFT = (
    ("drift", 2, ("--drift",), 1, False),
    # Waits for a late rank make a run long, and clocks drift the further apart.
    ("cc-drift", 3, ("--drift", "--slow-rank", "1:100", *THROTTLE), 1, False),
)


def applies(name, model):
    """Which program fills which ring soonest: attention's is short and copies much, the MLP's does the rest."""
    if name.startswith("cc-"):
        return model == "allreduce"
    if name == "h2d-tiny":
        return model == "attention"
    if name == "nki":
        return model == "attention"
    return not name.endswith("-tiny") or model == "mlp"


def cells():
    for arch, lncs in LNC.items():
        for lnc in lncs:
            for model in MODELS:
                for name, *rest in VARIANTS + (DRIFT if arch in ("trn1", "inf2") else ()):
                    if applies(name, model):
                        yield Cell(model, arch, lnc, name, *rest)


def find(text):
    return next(c for c in cells() if str(c) == text)


def run_cell(cell):
    with tempfile.TemporaryDirectory(prefix="kymo-matrix-") as directory:
        return truth.compare(*make_tables(directory, cell))


if __name__ == "__main__":
    sys.exit(resumable.main(__doc__, cells(), run_cell, "tests/oracle/matrix-log.tsv", "equal", "different"))
