#!/usr/bin/env python3
"""kymo enable and kymo disable against a service manager on a private bus. usage: test_units.py KYMO HOOK [TEST...]

Runs with the system's Python, which has D-Bus. Exit code 77: it has not, or there is no dbus-daemon."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import dbus  # noqa: F401
    import gi  # noqa: F401
except ImportError as why:
    print(f"skipped: {why}")
    sys.exit(77)
if not shutil.which("dbus-daemon"):
    print("skipped: there is no dbus-daemon")
    sys.exit(77)

HERE = Path(__file__).resolve().parent
KYMO, HOOK = (str(Path(a).resolve()) for a in sys.argv[1:3])
MARK = "# Written by kymo enable"

UNITS = {
    "train.service": {"ActiveState": "active", "Slice": "training.slice"},
    "eval.service": {"Slice": "training-eval.slice", "listed": "file"},
    "other.service": {"Slice": "trainingx.slice"},
    "alias.service": {"Id": "train.service", "Slice": "training.slice", "state": "alias"},
    "jemalloc.service": {"Environment": ["A=b", "LD_PRELOAD=/usr/lib/libjemalloc.so.2 /opt/50%/x.so"]},
    "file.service": {"EnvironmentFiles": ["%DIR%/env*"]},
    "unset.service": {"UnsetEnvironment": ["LD_PRELOAD"]},
    "rooted.service": {"RootDirectory": "/srv/image"},
    "deaf.service": {"RestrictAddressFamilies": [True, ["AF_INET"]]},
    "late.service": {},
    "broken.service": {"ActiveState": "active", "restart": "failed"},
    "stuck.service": {"ActiveState": "active", "restart": "never"},
    "masked.service": {"LoadState": "masked"},
    "node@.service": {"Environment": ["LD_PRELOAD=/usr/lib/libx.so"]},
    "each@.service": {"Environment": ["LD_PRELOAD=/usr/lib/%i.so"]},
    "kymod.service": {"Slice": "training.slice"},
    "training.slice": {},
    "system.slice": {},
    "empty.slice": {},
}


class Bus:
    """A private bus with the service manager on it."""

    def __init__(self, place, which="system"):
        self.dir = place / "units"
        self.dir.mkdir()
        self.place, self.connection = place, None
        self.log = open(place / "log", "w")
        text = json.dumps(UNITS).replace("%DIR%", str(place))
        (place / "units.json").write_text(text)
        self.daemon = subprocess.Popen(
            ["dbus-daemon", "--session", "--nofork", "--print-address=1", f"--address=unix:path={place}/bus"],
            stdout=subprocess.PIPE, stderr=self.log, text=True,
        )
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("DBUS_", "XDG_"))}
        self.env[f"DBUS_{which.upper()}_BUS_ADDRESS"] = self.daemon.stdout.readline().strip()
        self.manager = subprocess.Popen(
            [sys.executable, str(HERE / "fake_systemd.py"), which, str(place / "units.json"), str(self.dir)],
            env=self.env, stdout=subprocess.PIPE, stderr=self.log, text=True,
        )
        if self.manager.stdout.readline() != "ready\n":
            self.close()
            raise RuntimeError("no service manager: " + (place / "log").read_text())
        os.set_blocking(self.manager.stdout.fileno(), False)
        self.connection = dbus.bus.BusConnection(self.daemon_address())

    def daemon_address(self):
        return next(v for k, v in self.env.items() if k.startswith("DBUS_"))

    def reset(self):
        """No drop-ins, and none that the manager remembers."""
        for path in self.dir.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for path in self.place.glob("env*"):
            path.unlink()
        self.connection.call_blocking("org.freedesktop.systemd1", "/org/freedesktop/systemd1",
                                      "org.freedesktop.systemd1.Manager", "Reload", "", ())
        self.calls()

    def calls(self):
        return (self.manager.stdout.read() or "").splitlines()

    def close(self):
        if self.connection:
            self.connection.close()
        for process in (self.manager, self.daemon):
            process.terminate()
            process.wait(10)
            process.stdout.close()
        self.log.close()


class OnBus(unittest.TestCase):
    which = "system"

    @classmethod
    def setUpClass(cls):
        cls.place = Path(tempfile.mkdtemp(prefix="kymo-units."))
        cls.addClassCleanup(shutil.rmtree, cls.place)
        cls.bus = Bus(cls.place, cls.which)
        cls.addClassCleanup(cls.bus.close)
        cls.dir = cls.bus.dir

    def setUp(self):
        self.bus.reset()

    def kymo(self, *args, code=0, says=None, env=None):
        run = subprocess.run([KYMO, *args], env=env or self.bus.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, timeout=60)
        self.assertEqual(run.returncode, code, run.stdout)
        if says:
            self.assertIn(says, run.stdout)
        return run.stdout

    def enable(self, *args, **how):
        return self.kymo("enable", "--unit-dir", str(self.dir), "--hook", HOOK, *args, **how)

    def disable(self, *args, **how):
        return self.kymo("disable", "--unit-dir", str(self.dir), *args, **how)

    def dropin(self, unit):
        file = self.dir / f"{unit}.d" / "50-kymo.conf"
        return file.read_text() if file.exists() else None

    def files(self):
        return sorted(str(p.relative_to(self.dir)) for p in self.dir.rglob("*"))


class Units(OnBus):
    def test_enable_and_disable_leave_no_trace(self):
        self.enable("train", says="train.service: runs without the hook until it starts again")
        text = self.dropin("train.service")
        self.assertTrue(text.startswith(MARK))
        self.assertIn(f'\n[Service]\nEnvironment="LD_PRELOAD={HOOK}"\n', text)
        calls = self.bus.calls()
        self.assertEqual(calls.count("Reload"), 1)
        self.assertFalse([c for c in calls if c.startswith("TryRestart")])
        self.enable("train.service", says="was enabled")
        self.assertEqual(self.bus.calls().count("Reload"), 0)
        self.assertEqual(self.dropin("train.service"), text)
        self.disable("train", says="train.service: disabled")
        self.assertEqual(self.files(), [])
        self.assertEqual(self.bus.calls().count("Reload"), 1)
        self.disable("train", says="nothing to disable")
        self.assertEqual(self.bus.calls().count("Reload"), 0)

    def test_now(self):
        self.enable("--now", "train", says="train.service: restarted")
        self.assertIn("TryRestartUnit train.service replace", self.bus.calls())
        self.disable("--now", "train", says="train.service: restarted")
        self.assertIn("TryRestartUnit train.service replace", self.bus.calls())
        self.enable("--now", "broken", code=1, says="broken.service: the restart ended with: failed")
        self.enable("--now", "--timeout", "1", "stuck", code=1, says="stuck.service: has not restarted within 1 s")
        self.enable("--now", "late")
        self.assertFalse([c for c in self.bus.calls() if c.startswith("TryRestartUnit late")])

    def test_what_the_unit_preloads_stays(self):
        self.enable("jemalloc")
        self.assertIn(f'"LD_PRELOAD=/usr/lib/libjemalloc.so.2:/opt/50%%/x.so:{HOOK}"', self.dropin("jemalloc.service"))
        self.enable("jemalloc", says="was enabled")
        self.enable("jemalloc", "--socket", "/run/other", says="jemalloc.service: enabled")
        text = self.dropin("jemalloc.service")
        self.assertEqual(text.count("libkymo-hook.so"), 1)
        self.assertIn('Environment="KYMO_SOCKET=/run/other"', text)

    def test_units_that_cannot(self):
        (self.place / "env1").write_text("# LD_PRELOAD=no\nX='a\nLD_PRELOAD=no'\n")
        self.enable("file", says="file.service: enabled")
        self.disable("file")
        (self.place / "env2").write_text("A=b\n LD_PRELOAD = /x.so\n")
        for unit, why in [("file", "env2 sets LD_PRELOAD"), ("unset", "UnsetEnvironment="), ("rooted", "a root of its own"),
                          ("deaf", "lacks AF_UNIX")]:
            self.enable(unit, code=1, says=why)
        self.enable("masked", code=1, says="it is masked")
        self.enable("nobody", code=1, says="no such unit")
        self.assertEqual(self.files(), [])

    def test_a_later_dropin_wins(self):
        (self.dir / "late.service.d").mkdir()
        (self.dir / "late.service.d" / "99-own.conf").write_text("[Service]\nEnvironment=LD_PRELOAD=/own.so\n")
        self.enable("late", "train", code=1, says='late.service: LD_PRELOAD is still "/own.so"')
        self.assertEqual(self.files(), ["late.service.d", "late.service.d/99-own.conf", "train.service.d",
                                        "train.service.d/50-kymo.conf"])

    def test_slice(self):
        out = self.enable("training.slice")
        self.assertIn("train.service: enabled through training.slice", out)
        self.assertIn("eval.service: enabled through training.slice", out)
        self.assertIsNone(self.dropin("other.service"))
        self.assertIsNone(self.dropin("kymod.service"))
        self.enable("other")
        self.disable("training.slice")
        self.assertIsNone(self.dropin("train.service"))
        self.assertIsNotNone(self.dropin("other.service"))
        self.disable("--all")
        self.assertEqual(self.files(), [])

    def test_slices_that_are_refused(self):
        self.enable("system.slice", code=1, says="far more than training")
        self.enable("--", "-.slice", code=1, says="far more than training")
        self.enable("empty.slice", code=1, says="no service is in this slice")
        self.enable("none.slice", code=1, says="no such slice")

    def test_template(self):
        self.enable("node@.service")
        self.assertIn(f"/usr/lib/libx.so:{HOOK}", self.dropin("node@.service"))
        self.enable("each@.service", code=1, says="depends on the instance")
        self.enable("each@7", says="each@7.service: enabled")
        self.assertIn(f"/usr/lib/7.so:{HOOK}", self.dropin("each@7.service"))
        self.enable("gone@.service", code=1, says="no such template")

    def test_alias_goes_to_the_unit(self):
        self.enable("alias", says="train.service: enabled")
        self.assertEqual(self.files(), ["train.service.d", "train.service.d/50-kymo.conf"])
        self.disable("alias")
        self.assertEqual(self.files(), [])

    def test_names(self):
        for name in ["../train.service", "train.service/../x.service", "a/b.service", ".service", "@.service", "x y.service",
                     "train.timer", "x" * 260 + ".service", "x" * 300, "..", "", "/etc/systemd/system/train.service"]:
            self.enable("--", name, code=1)
            self.disable("--", name, code=1)
        self.enable("docker-1.scope", code=1, says="a scope has no environment")
        self.enable("kymod", code=1, says="does not profile itself")
        self.assertEqual(self.files(), [])

    def test_files_of_others_stay(self):
        folder = self.dir / "train.service.d"
        folder.mkdir()
        (folder / "50-kymo.conf").write_text("[Service]\nEnvironment=A=b\n")
        self.enable("train", code=1, says="is not of kymo's making")
        self.disable("train", code=1, says="is not of kymo's making")
        self.assertEqual((folder / "50-kymo.conf").read_text(), "[Service]\nEnvironment=A=b\n")
        (folder / "50-kymo.conf").unlink()
        # A directory that was there before stays, even when it is empty.
        self.enable("train")
        self.disable("train")
        self.assertEqual(self.files(), ["train.service.d"])

    def test_refused_reload_is_undone(self):
        self.enable("train")
        before = self.dropin("train.service")
        (self.dir / "refuse-reload").touch()
        self.enable("train", "late", "--socket", "/run/x", code=1, says="Interactive authentication required")
        self.assertEqual(self.dropin("train.service"), before)
        self.assertIsNone(self.dropin("late.service"))
        self.assertFalse((self.dir / "late.service.d").exists())

    def test_hook_and_directory(self):
        writable = self.place / "libkymo-hook.so"
        writable.touch()
        writable.chmod(0o666)
        self.kymo("enable", "--unit-dir", str(self.dir), "--hook", str(writable), "train", code=1, says="may change the hook")
        self.kymo("enable", "--unit-dir", str(self.dir), "--hook", "/no/such", "train", code=1, says="not there")
        self.kymo("enable", "--unit-dir", str(self.dir), "--hook", "/a:b", "train", code=1, says="must be absolute")
        self.kymo("enable", "--unit-dir", "/nowhere", "--hook", HOOK, "train", code=1, says="does not look for units there")

    def test_no_bus(self):
        env = dict(self.bus.env, DBUS_SYSTEM_BUS_ADDRESS=f"unix:path={self.place}/none")
        self.enable("train")
        self.enable("train", code=1, says="the system bus cannot be reached", env=env)
        self.disable("train", code=1, says="the system bus cannot be reached", env=env)
        self.disable("--all", "--no-reload", says="train.service: disabled", env=env)
        self.assertEqual(self.files(), [])


class UserUnits(OnBus):
    """Units of the caller's own manager."""

    which = "session"

    def kymo(self, *args, **how):
        return super().kymo(args[0], "--user", *args[1:], **how)

    def test_own_directories(self):
        env = dict(self.bus.env, XDG_CONFIG_HOME=str(self.place / "config"))
        self.kymo("enable", "--hook", HOOK, "train", env=env, code=1, says="config/systemd/user: systemd does not look for units there")
        self.kymo("enable", "--runtime", "--hook", HOOK, "train", env=env, code=1, says="XDG_RUNTIME_DIR is not set")

    def test_no_trace(self):
        self.enable("train", says="train.service: enabled")
        self.disable("train", says="train.service: disabled")
        self.assertEqual(self.files(), [])
        self.disable("train", code=1, says="the user's bus cannot be reached", env={"HOME": "/nowhere"})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=1)
