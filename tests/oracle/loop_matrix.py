"""Jobs of every kind captured by a daemon whose tables end up at a collector, and the whole of it as a resumable run.

    tests/oracle/loop_matrix.py [--log FILE] [--again] [--only TEXT]

runs every cell that the log does not hold for this commit, and appends commit, cell, result, seconds. CI runs some (test_loop.py).
A cell is a function that returns what is wrong. In each the job's output, complaints, exit code and reaction to signals are
compared with those of the same job without kymo.
"""

from functools import partial
from itertools import product
import random
import signal
import subprocess
import sys
import tempfile
import time

from loop_world import World, wait
import loop_faults
import resumable
from profiles import BIN

STEPS, PACE = 24, 200
HALF = 10
RANKS = 2


def differ(job, bare):
    return [] if job == bare else [f"the job's code, output and complaints are {job}; without kymo {bare}"]


def captured(found):
    """What is wrong with captures asked for. Some ranks may be at their end, or have another capture under way."""
    failed = [c for c in found if c[1] != "sent" and "the runtime was closed before" not in c[2]]
    return [f"captures failed: {failed}"] * bool(failed) + ["no captures"] * (not found)


def run_plain(directory, runtime, schedule, lnc, programs, life):
    options = ["--ranks", RANKS, "--steps", STEPS]
    options += ["--linked"] * (runtime == "linked") + ["--async"] * (schedule == "async")
    options += [f"--{life}-at", HALF] if life in ("fork", "exec") else ["--helpers", 6] if life == "helpers" else []
    neffs = ("mlp", "attention", "mlp")[:programs] if programs > 1 else ("mlp",)
    with World(directory, daemon=("--period", 1)) as w:
        w.start()
        bare = w.job("bare", *options, lnc=lnc, neffs=neffs, kymo=False)
        job = w.job("job", *options, "--step-ms", PACE, lnc=lnc, neffs=neffs)
        wrong = []
        for step in (2, HALF + 2) if life in ("fork", "exec") else (2,):
            for rank in range(RANKS):
                job.wait_step(step, rank)
            wrong += captured(w.capture())
        wrong += differ(job.end(), bare.end())
        count, found = w.check()
        least = (4 if life in ("fork", "exec") else 2) + 1
        return wrong + found + [f"{count} profiles"] * (count < least)


def run_two_jobs(directory):
    options = ("--ranks", RANKS, "--steps", STEPS, "--step-ms", PACE)
    with World(directory, daemon=("--period", 1)) as w:
        w.start()
        device = w.start_device()
        bare = w.job("bare", "--ranks", RANKS, "--steps", STEPS, kymo=False)
        jobs = [w.job(f"job{i}", *device, "--first-core", i * RANKS, *options, neffs=(model,))
                for i, model in enumerate(("mlp", "attention"))]
        for job in jobs:
            for rank in range(RANKS):
                job.wait_step(3, rank)
        wrong = captured(w.capture("--cores", "0-1"))
        expected = bare.end()
        for job in jobs:
            wrong += differ(job.end(), expected)
        count, found = w.check()
        cores = {row["vnc"] for row in w.settle()}
        return wrong + found + [f"cores {cores} were captured"] * (cores != {0, 1, 2, 3})


def run_alone(directory):
    """A job whose daemon is not there."""
    options = ("--ranks", RANKS, "--steps", STEPS)
    with World(directory) as w:
        bare = w.job("bare", *options, kymo=False)
        job = w.job("job", *options)
        wrong = differ(job.end(), bare.end())
        return wrong + [f"captured: {list(w.truth.iterdir())}"] * any(w.truth.iterdir())


def run_restarts(directory, times, seed=1):
    """The daemon is stopped and killed under the job, at any time after it has heard of the ranks and asked for a capture."""
    chance = random.Random(seed)
    with World(directory, daemon=("--period", 1, "--jitter", 0.5)) as w:
        w.start()
        job = w.job("job", "--ranks", RANKS, "--steps", 999999, "--step-ms", 20, "--handle-signals")
        for i in range(times):
            w.wait_ranks(RANKS)
            w.kymo("capture", "--socket", w.sockets)
            time.sleep(chance.random() * 0.6)
            code = w.end(w.daemon, signal.SIGKILL if i % 2 else signal.SIGTERM)
            if code not in (0, -signal.SIGKILL):
                return [f"the daemon ended with {code}: {w.log('daemon')[-500:]}"]
            w.start_daemon()
        w.wait_ranks(RANKS)
        is_over = job.is_over()
        w.capture()
        w.kymo("capture", "--socket", w.sockets)
        job.process.terminate()
        code, lines, complaints = job.end()
        wrong = ["the job ended before"] * is_over + [f"code {code}, {complaints}"] * (code != 128 + signal.SIGTERM)
        for rank in range(RANKS):
            steps = [line for line in lines if line.startswith(f"rank {rank} step")]
            want = [f"rank {rank} step {i}: NRT_SUCCESS" for i in range(len(steps))]
            wrong += [f"rank {rank} did other things than its steps"] * (sorted(steps) != sorted(want))
        count, found = w.check(lossless=False)
        return wrong + found + [f"{count} profiles"] * (count < times // 2)


def react(w, number, handled, during, kymo):
    """(exit code, complaints, lines that are no steps, whether the steps are as they must be) of a job that gets a signal."""
    options = ("--steps", 9999, "--step-ms", 20, *["--handle-signals"] * handled)
    job = w.job("job" if kymo else "bare", *options, kymo=kymo)
    job.wait_step(10)
    asked = None
    if kymo and during:
        asked = subprocess.Popen([str(c) for c in (BIN / "kymo", "capture", "--socket", w.sockets, "--wait=60", "--mode", "session",
                                                   "--steps", 9999)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        wait("the session", lambda: any(r["capturing"] for j in w.status()["jobs"] for r in j["ranks"]))
        job.wait_step(job.steps() + 3)
    elif kymo:
        w.capture()
    subprocess.run(["kill", f"-{number}", str(job.rank_pid())], check=True)
    code, lines, complaints = job.end()
    steps = [line for line in job.lines() if " step " in line]
    said = asked.communicate(timeout=120)[0] if asked else ""
    return (code, complaints, [line for line in lines if " step " not in line],
            steps == [f"rank 0 step {i}: NRT_SUCCESS" for i in range(len(steps))]), said


def run_signal(directory, number, handled, during):
    with World(directory, daemon=("--period", 0)) as w:
        w.start()
        bare, _ = react(w, number, handled, during, False)
        job, said = react(w, number, handled, during, True)
        wrong = differ(job, bare)
        if during and ("sent" if handled else "failed") not in said:
            wrong.append(f"the session that was under way: {said}")
        count, found = w.check()
        return wrong + found + [f"{count} profiles"] * (count != (0 if during and not handled else 1))


def run_armed(directory, armed):
    """Captures of a job that always is armed, and of an execution that fails."""
    options = ["--steps", STEPS, *(["--fail-step", STEPS - 1] if armed == "on-failure" else [])]
    with World(directory, daemon=("--period", 0, "--armed", armed)) as w:
        w.start()
        bare = w.job("bare", *options, kymo=False)
        job = w.job("job", *options, "--step-ms", PACE)
        job.wait_step(3)
        wrong = captured(w.capture())
        wrong += differ(job.end(), bare.end())
        count, found = w.check()
        return wrong + found + [f"{count} profiles"] * (count != (2 if armed == "on-failure" else 1))


def cells():
    """{name: what runs it in a directory}"""
    found = {}
    for cell in product(("linked", "dlopen"), ("sync", "async"), (1, 2), (1, 3), ("plain", "fork", "exec", "helpers")):
        runtime, schedule, lnc, programs, life = cell
        found[f"{runtime}-{schedule}-lnc{lnc}-{programs}neff-{life}"] = partial(
            run_plain, runtime=runtime, schedule=schedule, lnc=lnc, programs=programs, life=life)
    for number, handled, during in product((signal.SIGINT, signal.SIGTERM), (True, False), (True, False)):
        name = f"{number.name.lower()}-{'handled' if handled else 'default'}-{'in-session' if during else 'idle'}"
        found[name] = partial(run_signal, number=number.value, handled=handled, during=during)
    for armed in ("continuous", "on-failure"):
        found[f"armed-{armed}"] = partial(run_armed, armed=armed)
    return found | loop_faults.cells() | {"two-jobs": run_two_jobs, "no-daemon": run_alone, "restarts-5": partial(run_restarts, times=5),
                    "restarts-100": partial(run_restarts, times=100)}


def run_cell(name):
    with tempfile.TemporaryDirectory(prefix="kymo-loop-") as directory:
        return cells()[name](directory)


if __name__ == "__main__":
    sys.exit(resumable.main(__doc__, cells(), run_cell, "tests/oracle/loop-matrix-log.tsv", "right", "wrong"))
