"""Profiles that users remove and pin, on a collector of its own with simulated captures."""

import os
from pathlib import Path
import shutil
import time

import pytest

from api_server import BUILD
from test_api import call
from test_collector_http import BIN, Collector, run

ANN, BOB = "ann-has-a-token-1", "bob-has-a-token-1"


def bearer(token):
    return {"Authorization": "Bearer " + token}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A store with one capture of two cores, and one of one core."""
    made = tmp_path_factory.mktemp("manage")
    for name, cores in (("two", 2), ("one", 1)):
        capture = made / name
        capture.mkdir()
        run(BIN / "kymo-sim", "neff", "--model", "mlp", "--arch", "trn2", "--layers", "1", "--lnc", "1", "--output", capture / "m.neff")
        for core in range(cores):
            run(BIN / "kymo-sim", "ntff", "--neff", capture / "m.neff", "--instance", "trn2.48xlarge", "--lnc", "1", "--vnc", core,
                "--output", capture / f"p_vnc_{core}.ntff")
        run(BIN / "kymo", "import", "--reserve", "1M", "--data-path", made / "store", capture)
    return made


@pytest.fixture
def store(folder, tmp_path):
    """A copy to spoil."""
    shutil.copytree(folder / "store", tmp_path / "store")
    return tmp_path / "store"


def profiles(server, **headers):
    return call(server, "GET", "/api/v1/profiles?sort=name", headers=headers)[1]["profiles"]


def settled(server):
    """Until nothing is being made, the rows of the fleet included."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        rows = profiles(server)
        if all(r["state"] in ("ready", "failed") and r.get("fleet") in (None, "ready", "failed") for r in rows):
            return rows
        time.sleep(0.1)
    raise TimeoutError(rows)


def parts(store, name):
    return [p for p in (store / "fleet").rglob(f"part-{name}.parquet")]


def test_what_is_removed_is_gone(store):
    with Collector(store) as server:
        rows = settled(server)
        assert len(rows) == 3
        two = [r for r in rows if sum(r["capture"] == o["capture"] for o in rows) == 2]
        (one,) = [r for r in rows if r not in two]
        raw = store / "raw" / "captures"
        has_fleet = (BUILD / "bin" / "kymo-gather").exists()
        for row in rows:
            assert Path(row["path"]).is_dir() and (raw / row["capture"]).is_dir()
            assert bool(parts(store, row["name"])) == has_fleet
        for number, row in enumerate(two):
            assert call(server, "DELETE", "/api/v1/profiles/" + row["name"]) == (200, {"deleted": True})
            assert not Path(row["path"]).exists() and parts(store, row["name"]) == []
            assert call(server, "DELETE", "/api/v1/profiles/" + row["name"])[0] == 404
            assert call(server, "GET", f"/api/v1/profiles/{row['name']}/overview")[0] == 404
            # The files of the capture are needed to make the other one again.
            assert (raw / row["capture"]).exists() == (number == 0)
            assert call(server, "GET", "/api/v1/captures/" + row["capture"])[0] == (200 if number == 0 else 404)
        assert [r["name"] for r in profiles(server)] == [one["name"]]
        assert Path(one["path"]).is_dir() and (raw / one["capture"]).is_dir() and len(os.listdir(store / "raw" / "neff")) >= 1
        assert not any((store / "raw" / "incoming").iterdir())
        assert call(server, "GET", "/api/v1/status")[1]["profiles"]["ready"] == 1
    with Collector(store) as server:
        assert [r["name"] for r in profiles(server)] == [one["name"]]


def test_what_is_pinned_stays(store):
    with Collector(store) as server:
        name = settled(server)[0]["name"]
        target = "/api/v1/profiles/" + name
        assert call(server, "PUT", target + "/pin", {"pinned": True}) == (200, {"pinned": True})
        assert call(server, "GET", target)[1]["pinned"] is True
        status, data = call(server, "DELETE", target)
        assert status == 409 and "pinned" in data["error"]["message"] and Path(profiles(server)[0]["path"]).is_dir()
        for body in ({"pinned": 1}, {"pined": True}, {"pinned": "yes"}):
            assert call(server, "PUT", target + "/pin", body)[0] == 400
        assert call(server, "PUT", "/api/v1/profiles/none/pin", {"pinned": True})[0] == 404
    with Collector(store) as server:
        assert call(server, "DELETE", target)[0] == 409
        assert call(server, "PUT", target + "/pin", {"pinned": False}) == (200, {"pinned": False})
        assert "pinned" not in call(server, "GET", target)[1]
        assert call(server, "DELETE", target)[0] == 200


def test_what_is_being_made_is_not_removed(store):
    with Collector(store) as server:
        names = [r["name"] for r in settled(server)]
        assert call(server, "POST", f"/api/v1/profiles/{names[0]}/reprocess")[0] == 202
        seen = set()
        end = time.monotonic() + 60
        while time.monotonic() < end:
            status, data = call(server, "DELETE", "/api/v1/profiles/" + names[0])
            seen.add(status)
            if status == 200:
                break
            assert status in (409, 503), data
            time.sleep(0.01)
        assert 200 in seen
        assert not (store / "profiles" / "global" / f"{names[0]}@latest").exists()
        time.sleep(1.5)
        # Nothing that was under way brings it back.
        assert not (store / "profiles" / "global" / f"{names[0]}@latest").exists() and parts(store, names[0]) == []
        assert names[0] not in [r["name"] for r in profiles(server)]


def test_names_that_are_none(store):
    with Collector(store) as server:
        settled(server)
        for name in ("..%2F..%2Fcatalog.db", "x" * 300, "%27%20OR%201=1", "a%2Fb", "@latest"):
            assert call(server, "DELETE", "/api/v1/profiles/" + name)[0] in (400, 404)
            assert call(server, "PUT", f"/api/v1/profiles/{name}/pin", {"pinned": True})[0] in (400, 404)
        assert len(profiles(server)) == 3 and (store / "catalog.db").exists()


def test_only_from_its_own_page(store, tmp_path):
    (tmp_path / "tokens").write_text(f"ann {ANN}\nbob {BOB}\n")
    with Collector(store, "--http-token-file", tmp_path / "tokens") as server:
        name = profiles(server, **bearer(ANN))[0]["name"]
        target = "/api/v1/profiles/" + name
        assert server.request("DELETE", target)[0] == 401
        status, headers, _ = server.request("POST", "/login", "token=" + ANN, {"Content-Type": "application/x-www-form-urlencoded"})
        assert status == 303
        cookie = headers["Set-Cookie"].split(";")[0]
        for more in ({}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            assert server.request("DELETE", target, headers={"Cookie": cookie, **more})[0] == 403
            assert server.request("PUT", target + "/pin", {"pinned": True}, {"Cookie": cookie, **more})[0] == 403
        own = {"Cookie": cookie, "Origin": f"http://127.0.0.1:{server.port}"}
        assert server.request("GET", "/api/v1/user", headers=own)[2] == {"user": "ann", "login": True, "manages": True}
        end = time.monotonic() + 30
        while (status := server.request("DELETE", target, headers=own)[0]) == 503 and time.monotonic() < end:
            time.sleep(0.1)
        assert status == 200
