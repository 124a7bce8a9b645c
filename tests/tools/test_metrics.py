"""What kymod tells Prometheus, read by Prometheus' own reader; and by promtool where it is installed."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

prometheus_client = pytest.importorskip("prometheus_client.parser")

TOP = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("KYMO_BUILD", TOP / "build"))
JOB = 'train \\ "x"\n'


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("metrics") / "sample.txt"
    subprocess.run([str(BUILD / "daemon" / "test_metrics"), "--write", str(path)], check=True, stdout=subprocess.DEVNULL)
    return path.read_text()


@pytest.fixture(scope="module")
def families(text):
    return {family.name: family for family in prometheus_client.text_string_to_metric_families(text)}


def test_every_family_is_described(families):
    assert len(families) > 30
    for family in families.values():
        assert family.documentation.endswith("."), family.name
        assert family.type in ("counter", "gauge", "histogram"), family.name
        assert re.fullmatch(r"(kymod|process)_[a-z_]+", family.name), family.name


def test_counters_end_in_total(text):
    for name in re.findall(r"^# TYPE (\S+) counter$", text, re.MULTILINE):
        assert name.endswith("_total"), name


def test_labels_come_back(families):
    (sample,) = families["kymod_job_ranks"].samples
    assert sample.labels == {"job_name": JOB} and sample.value == 2
    (sample,) = families["kymod_uplink_up"].samples
    assert sample.labels == {"collector": 'c"1":3002'}


def test_histogram_is_cumulative(families):
    samples = families["kymod_step_latency_seconds"].samples
    buckets = [s for s in samples if s.name.endswith("_bucket")]
    assert [b.value for b in buckets] == sorted(b.value for b in buckets)
    ends = [float(b.labels["le"]) for b in buckets]
    assert ends == sorted(ends) and ends[-1] == float("inf")
    (count,) = [s.value for s in samples if s.name.endswith("_count")]
    assert buckets[-1].value == count == 7


@pytest.mark.skipif(not shutil.which("promtool"), reason="Debian's package prometheus is not installed")
def test_promtool(text):
    run = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
