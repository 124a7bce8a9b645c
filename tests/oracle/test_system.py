"""System profiles: hand-computed values of the golden session, and the truth of simulated runs."""

from pathlib import Path
import os
import shutil
import subprocess

import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest

from profiles import BIN, LIMIT, make_neff, run
from system_truth import compare, compare_events, rows
from truth import read_table, read_tsv

GOLDEN = Path(__file__).parents[1] / "golden" / "systrace" / "v1"
T0 = 1766072156592459482


def process(session, output, *options):
    done = subprocess.run([str(c) for c in (BIN / "kymo-process", "--system", session, "--output", output, *options)],
                          capture_output=True, text=True, timeout=LIMIT)
    return done


def made(session, output, *options):
    done = process(session, output, *options)
    assert done.returncode == 0, done.stderr
    return Path(output)


def verify(tables):
    done = subprocess.run([str(BIN / "kymo"), "verify", str(tables)], capture_output=True, text=True, timeout=LIMIT)
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    return made(GOLDEN, tmp_path_factory.mktemp("golden") / "tables")


def test_events_by_hand(golden):
    found = {r["name"]: r for r in rows(golden, "SystemProfileEvents")}
    spans = {name: (r["start_ts"] - T0, r["end_ts"] - T0, r["trace_event_source"]) for name, r in found.items()}
    assert spans == {
        "aten::mm": (0, 2500, "framework"),
        "dma_mem_alloc": (0, 500, "neuron_rt"),
        "dmem_buf_copyin": (1000, 3000, "neuron_rt"),
        "nrt_execute": (4000, 11000, "neuron_rt"),
        # The reading pairs device 1000009500 with T0 + 10500, so that the device's 6000 is T0 + 7000.
        "nc_exec_running": (7000, 10000, "neuron_hw"),
        "timestamp_sync_point": (10500, 10500, "neuron_hw"),
        "outer": (10518, 14517, "framework"),
        "inñer": (11768, 12518, "framework"),
        "my_event": (12000, 12000, "neuron_rt"),
        "event_60": (13000, 13000, "neuron_rt"),
        "mark": (14518, 14518, "framework"),
    }
    assert found["dmem_buf_copyin"]["transfer_bytes"] == 4096
    assert found["dmem_buf_copyin"]["extra_attributes_json"] == '{"mem_type":"device","size":4096}'
    assert found["nc_exec_running"]["extra_attributes_json"] == \
        '{"exec_id":1,"nc_timestamp_ns":1000006000,"stop_nc_timestamp_ns":1000009000}'
    assert found["my_event"]["extra_attributes_json"] == '{"note":"q\\u0022uote"}'
    assert found["aten::mm"]["flow_id"] == ["seq-12", "flow-44"] and found["aten::mm"]["framework_stream_id"] == "3"
    assert found["nrt_execute"]["flow_id"] == ["3"] == found["nc_exec_running"]["flow_id"]
    assert found["event_60"]["worker_gid"] == 3 and found["event_60"]["extra_attributes_json"] is None
    for name, r in found.items():
        runtime = r["trace_event_source"] != "framework"
        assert (r["nc_idx"], r["pcore_idx"]) == ((0, 2) if runtime else (None, None)), name
        assert r["instance_id"] == "i-0123" and r["process_id"] == 4711 and r["duration_ns"] == r["end_ts"] - r["start_ts"]
        assert r["thread_id"] == (77 if runtime else -1 if name == "mark" else 9)
    starts = [r["start_ts"] for r in rows(golden, "SystemProfileEvents")]
    assert starts == sorted(starts)


def test_small_tables_by_hand(golden):
    assert rows(golden, "SystemProfileMetadata") == [{
        "first_ts": "2025-12-18 15:35:56.592459482 +0000 UTC", "last_ts": "2025-12-18 15:35:57.592459482 +0000 UTC",
        "first_ts_ns": str(T0), "last_ts_ns": str(T0 + 10**9), "ntff_version": 7, "hbm_capacity_bytes": (96 << 30) // 8}]
    cpu = [(r["timestamp"] - T0, r["cpu_id"], r["util_percent"]) for r in rows(golden, "CpuUsage")]
    assert cpu == [(0, "0", 10), (0, "1", 20), (0, "average", 15), (10**9, "0", 30), (10**9, "1", 40), (10**9, "average", 35)]
    assert [(r["used_bytes"], r["used_percent"]) for r in rows(golden, "HostMemUsage")] == [(1000, 25)]
    (hbm,) = rows(golden, "SystemProfileHbmUsage")
    assert (hbm["timestamp"], hbm["total_bytes"], hbm["tensors_bytes"], hbm["unknown_bytes"]) == (T0 + 500, 5120, 4096, 1024)
    assert (hbm["device_idx"], hbm["hbm_idx"]) == (0, 1)
    (partial,) = rows(golden, "PartialEvent")
    assert (partial["kind"], partial["ring"], partial["engine"], partial["side"], partial["ts"], partial["reason"]) == \
        ("system_event", "SYSTEM(nc0)", "tensor_read", "start", T0 + 14000, "open_at_end")
    assert not rows(golden, "DeviceProfileList")


def test_losses_are_told_and_verified(golden):
    ledger = {(r["ring"], r["record_kind"]): r for r in rows(golden, "LossLedger")}
    events = ledger["SYSTEM(nc0)", "event"]
    assert (events["row_records"], events["partial_records"], events["unknown_records"]) == (11, 1, 0)
    assert (ledger["SYSTEM(nc0)", None]["cause"], ledger["SYSTEM(nc0)", None]["lost_records"]) == ("ring_full", 5)
    assert ledger["trace.json", "event"]["other_records"] == 3
    assert any("dropped" in r["message"] for r in rows(golden, "Warning"))
    code, out = verify(golden)
    assert code == 0 and "4 rings: closed" in out and "sum of the classes: holds" in out, out


def test_verify_finds_a_changed_table(golden, tmp_path):
    shutil.copytree(golden, tmp_path / "t")
    path = tmp_path / "t" / "SystemProfileHbmUsage.parquet"
    table = pq.read_table(path)
    pq.write_table(table.set_column(table.column_names.index("total_bytes"), "total_bytes", [[1]]), path)
    code, out = verify(tmp_path / "t")
    assert code == 1 and "violated by 1 of 1" in out
    (tmp_path / "t" / "CpuUsage.parquet").unlink()
    code, out = verify(tmp_path / "t")
    assert code == 1 and "the table's rows differ" in out


@pytest.mark.parametrize("name,table", [("ntrace.pb", "SystemProfileEvents"), ("cpu_util.pb", "CpuUsage"), ("trace.json", None)])
def test_a_damaged_file_costs_only_what_follows(tmp_path, name, table):
    session = tmp_path / "s"
    shutil.copytree(GOLDEN, session)
    data = (session / name).read_bytes()
    (session / name).write_bytes(data[:len(data) // 2])
    tables = made(session, tmp_path / "t")
    assert table is None or 0 < len(rows(tables, table)) < 20
    warnings = [r["message"] for r in rows(tables, "Warning")]
    assert any(f"{name}: offset" in w for w in warnings), warnings
    assert verify(tables)[0] == 3


@pytest.mark.parametrize("name,ring", [("ntrace.pb", "ntrace.pb"), ("cpu_util.pb", "cpu_util.pb"), ("trace_info.pb", None),
                                       ("trace.json", "trace.json")])
def test_an_empty_file_is_a_damaged_one(tmp_path, name, ring):
    """It was made, so something was captured: a profile without it must not look whole."""
    session = tmp_path / "s"
    shutil.copytree(GOLDEN, session)
    (session / name).write_bytes(b"")
    tables = made(session, tmp_path / "t")
    warnings = [r["message"] for r in rows(tables, "Warning")]
    assert any(w.startswith(f"{name} is empty") for w in warnings), warnings
    assert not any(f"there is no {name}: no events" in w for w in warnings)
    lost = [(r["cause"], r["lost_unknown"]) for r in rows(tables, "LossLedger") if r["ring"] == name]
    assert lost == ([("truncated", True)] if ring else [])
    assert verify(tables)[0] == (3 if ring else 0)


def test_refusals(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "ntrace.pb").touch()
    done = process(tmp_path / "empty", tmp_path / "t")
    assert done.returncode == 3 and "holds no trace of the system" in done.stderr and not (tmp_path / "t").exists()
    assert process(GOLDEN, tmp_path / "t", "--ntff", "x").returncode == 2
    assert process(GOLDEN, tmp_path / "t", "--device", "nameless").returncode == 2
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "ntrace.pb").write_bytes(b"\x08\x05\x12\x03abc")
    tables = made(foreign, tmp_path / "f")
    assert any("2 fields that are not known" in r["message"] for r in rows(tables, "Warning"))


def test_splits_and_sandbox_change_nothing(golden, tmp_path):
    split = made(GOLDEN, tmp_path / "t", "--split-rows", 3, "--sandbox")
    assert (split / "SystemProfileEvents_3.parquet").exists()
    assert rows(split, "SystemProfileEvents") == rows(golden, "SystemProfileEvents")


def simulate(directory, arch, instance, lnc, *options, model="mlp", **env):
    neff = make_neff(directory, model, arch, lnc, small=True)
    run(BIN / "kymo-sim", "run", "--instance", instance, "--lnc", lnc, "--steps", 3, "--system", "--neff", neff, "--output",
        directory / "run", "--truth", directory / "truth", *options, env={**os.environ, **{k: str(v) for k, v in env.items()}})
    return sorted((directory / "run" / "captures").glob("*_pid_*/*"))


def truth_of(directory, session):
    pid = session.parent.name.split("_pid_")[1]
    (found,) = (directory / "truth").glob(f"system_pid_{pid}_session_*")
    return found


@pytest.mark.parametrize("arch,instance,lnc,options", [
    ("trn2", "trn2.48xlarge", 2, ("--ranks", "2")),
    ("trn2", "trn2.48xlarge", 1, ("--mode", "session", "--first-core", "5")),
    ("trn2", "trn2.48xlarge", 1, ("--async",)),
])
def test_truth(tmp_path, arch, instance, lnc, options):
    sessions = simulate(tmp_path, arch, instance, lnc, *options, KYMO_SIM_SAMPLE_MS=1)
    assert sessions
    for session in sessions:
        tables = made(session, tmp_path / "tables" / session.parent.name)
        assert compare(tables, truth_of(tmp_path, session), session, lnc) == []
        code, out = verify(tables)
        assert code == 0, out
        events = read_table(tables, "SystemProfileEvents").to_pandas()
        assert (events.end_ts >= events.start_ts).all() and (events.worker_gid.dropna() >= 0).all()
        if "--async" in options:
            check_async(events)


def check_async(events):
    """The framework's request, its submission and its execution are one flow, and share the stream."""
    by_flow = events.explode("flow_id").groupby("flow_id").name.agg(set)
    assert sum({"NeuronExecute", "model_submit", "nc_exec_running"} <= names for names in by_flow) == 3
    assert set(events[events.name == "nc_exec_running"].framework_stream_id) == {"0"}


def test_drifting_clocks_and_old_generations(tmp_path):
    """Trn1's device clock runs off: within one execution the readings still hold."""
    for session in simulate(tmp_path, "trn1", "trn1.32xlarge", 1, "--drift"):
        tables = made(session, tmp_path / "tables")
        events = read_table(tables, "SystemProfileEvents").to_pandas()
        api, device = (events[events.name == n].sort_values("start_ts") for n in ("nrt_execute", "nc_exec_running"))
        assert len(api) == len(device) == 3
        # The device runs while the call lasts, but for what its clock is off over one execution.
        slack = 0.01 * (api.end_ts - api.start_ts).values + 10
        assert (device.start_ts.values >= api.start_ts.values - slack).all()
        assert (device.end_ts.values <= api.end_ts.values + slack).all()


def test_overflow_and_filters(tmp_path):
    (session,) = simulate(tmp_path, "trn2", "trn2.48xlarge", 2, "--steps", 100,
                          NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC=1024)
    tables = made(session, tmp_path / "tables")
    ledger = {(r["ring"], r["record_kind"]): r for r in rows(tables, "LossLedger")}
    lost = ledger["SYSTEM(nc0)", None]
    assert lost["cause"] == "ring_full" and lost["lost_records"] > 0
    assert ledger["SYSTEM(nc0)", "event"]["emitted_records"] == 1024
    assert verify(tables)[0] == 0
    (tmp_path / "b").mkdir()
    (session,) = simulate(tmp_path / "b", "trn2", "trn2.48xlarge", 2, NEURON_RT_INSPECT_EVENT_FILTER_TYPE="hardware,nrt_execute")
    events = read_table(made(session, tmp_path / "b" / "t"), "SystemProfileEvents").to_pandas()
    assert set(events[events.trace_event_source != "framework"].name) == {"nrt_execute", "nc_exec_running", "timestamp_sync_point"}


def test_a_trace_that_begins_later_knows_the_whole(tmp_path):
    """Memory that was taken before is in total_bytes, its class is not known; what was asked of the devices is the truth."""
    sessions = simulate(tmp_path, "trn2", "trn2.48xlarge", 2, "--mode", "session", "--capture-steps", "1")
    (session,) = sessions
    tables, truth = made(session, tmp_path / "t"), truth_of(tmp_path, session)
    assert compare_events(tables, truth) == []
    last = rows(tables, "SystemProfileHbmUsage")[-1]
    assert last["unknown_bytes"] > 0
    held = {r["kind"]: int(r["bytes"]) for r in read_tsv(truth / "memory.tsv")}
    assert last["total_bytes"] == sum(held.values())


def test_kymo_process_links_device_profiles(tmp_path):
    (session,) = simulate(tmp_path, "trn2", "trn2.48xlarge", 2, "--mode", "session")
    run(BIN / "kymo", "process", "-d", session, "--data-path", tmp_path / "store")
    profiles = {p.name.removesuffix("@latest"): p for p in (tmp_path / "store" / "profiles" / "global").iterdir()}
    (system,) = [n for n in profiles if n.endswith("-system")]
    links = rows(profiles[system], "DeviceProfileList")
    assert [r["device_profile_name"] for r in links] == [n for n in profiles if n != system]
    events = str(profiles[system] / "SystemProfileEvents.parquet")
    linked = duckdb.sql(f"""SELECT count(*) FROM '{events}' e JOIN '{profiles[system]}/DeviceProfileList.parquet' d
        ON e.process_id = d.process_id AND e.nc_idx = d.nc_idx WHERE e.name = 'nc_exec_running'""").fetchone()[0]
    assert linked == 3
    # The device profile holds as many executions as the system profile shows.
    device = pd.concat(pq.read_table(f).to_pandas() for f in profiles[links[0]["device_profile_name"]].glob("ExecutionInfo*.parquet"))
    assert len(device) == 3


def test_kymo_process_makes_all_of_a_session(tmp_path):
    """Wherever it goes and whatever form it has, a session's system profile is made beside its device profiles, or left out by name."""
    (session,) = simulate(tmp_path, "trn2", "trn2.48xlarge", 2, "--mode", "session")
    kymo = (BIN / "kymo", "process", "-d", session, "--display-name", "p")
    assert run(*kymo, "-o", tmp_path / "both").split() == [str(tmp_path / "both" / n) for n in ("p", "p-system")]
    assert rows(tmp_path / "both" / "p-system", "SystemProfileEvents") and rows(tmp_path / "both" / "p", "Instruction")
    assert [r["device_profile_name"] for r in rows(tmp_path / "both" / "p-system", "DeviceProfileList")] == ["p"]
    run(*kymo, "-o", tmp_path / "forms", "--output-format", "csv", "perfetto", "summary-json")
    ends = (".csv", ".pftrace", ".summary.json")
    assert sorted(f.name for f in (tmp_path / "forms").iterdir()) == sorted(n + e for n in ("p", "p-system") for e in ends)
    alone = (*kymo, "--ignore-device-profile")
    run(*alone, "-o", tmp_path / "system")
    assert rows(tmp_path / "system", "SystemProfileEvents")
    run(*alone, "-o", tmp_path / "csv", "--output-format", "csv")
    assert (tmp_path / "csv" / "SystemProfileEvents.csv").exists()
    text = run(*kymo, "--output-format", "summary-text")
    assert "System events by time" in text and "Opcodes by active time" in text
    run(*kymo, "-o", tmp_path / "device", "--ignore-system-profile")
    assert rows(tmp_path / "device", "Instruction")
    done = subprocess.run([*kymo, "-o", tmp_path / "device"], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 2 and "names a profile" in done.stderr and not (tmp_path / "device" / "p").exists()


def test_kymo_process_reads_a_stores_captures(tmp_path):
    """Below raw/captures the programs are in raw/neff, once for all."""
    (session,) = simulate(tmp_path, "trn2", "trn2.48xlarge", 2, "--mode", "session")
    run(BIN / "kymo", "import", session, "--data-path", tmp_path / "store")
    captures = tmp_path / "store" / "raw" / "captures"
    (capture,) = captures.iterdir()
    assert not list(capture.glob("**/*.neff"))
    done = subprocess.run([BIN / "kymo", "process", "-d", capture, "-o", tmp_path / "t", "--ignore-system-profile"], capture_output=True,
                          text=True, timeout=LIMIT)
    assert done.returncode == 0 and "NEFF" not in done.stderr, done.stderr
    assert rows(tmp_path / "t", "NeffHeader") and any(r["layer"] for r in rows(tmp_path / "t", "Instruction"))
    done = subprocess.run([BIN / "kymo", "process", "-d", captures, "-o", tmp_path / "u"], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 1 and f"such as {capture}" in done.stderr


def test_names_that_a_spool_has_flattened(golden, tmp_path):
    """Folders become a part of the names: i-0123_pid_4711-17-ntrace.pb stands beside i-0123_pid_4711-17-cpu_util.pb."""
    for f in GOLDEN.iterdir():
        shutil.copy(f, tmp_path / f"i-9_pid_8-17-{f.name}")
    tables = made(tmp_path / "i-9_pid_8-17-cpu_util.pb", tmp_path / "t")
    assert rows(tables, "SystemProfileEvents") == rows(golden, "SystemProfileEvents")
    run(BIN / "kymo", "process", "-d", tmp_path, "--output-file", tmp_path / "u")
    assert rows(tmp_path / "u", "CpuUsage") == rows(golden, "CpuUsage")
    assert process(tmp_path / "nothing", tmp_path / "v").returncode == 1


def test_store_makes_system_profiles(tmp_path):
    """A capture in the store whose manifest lists a system trace has a catalogue row and a profile for it."""
    (session,) = simulate(tmp_path, "trn2", "trn2.48xlarge", 2, "--mode", "session")
    store = tmp_path / "store"
    run(BIN / "kymo", "import", session, "--data-path", store)
    listed = run(BIN / "kymo", "profiles", "--data-path", store)
    profiles = {p.name.removesuffix("@latest"): p for p in (store / "profiles" / "global").iterdir()}
    (system,) = [n for n in profiles if n.endswith("-system")]
    assert len(profiles) == 2 and all(name in listed for name in profiles) and listed.count("ready") == 2
    assert [r["device_profile_name"] for r in rows(profiles[system], "DeviceProfileList")] == [n for n in profiles if n != system]
    assert compare(profiles[system], truth_of(tmp_path, session), session, 2) == []
    assert verify(profiles[system])[0] == 0


def test_bandwidth_of_copies(golden):
    """What the viewer's bandwidth tracks are made of: 4096 bytes in 2000 ns."""
    events = str(golden / "SystemProfileEvents.parquet")
    assert duckdb.sql(f"""SELECT transfer_bytes * 1e9 / duration_ns FROM '{events}' WHERE name = 'dmem_buf_copyin'""").fetchone() == \
        (4096 * 1e9 / 2000,)
