#!/usr/bin/env python3
"""org.kymo.Daemon1 on a private bus, over jobs and captures that the test steers. usage: test_bus.py BUS_PEER [TEST...]

Runs with the system's Python, which has D-Bus. Exit code 77: it has not, or there is no dbus-daemon."""

import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

try:
    import dbus
    import dbus.mainloop.glib
    from gi.repository import GLib
except ImportError as why:
    print(f"skipped: {why}")
    sys.exit(77)
if not shutil.which("dbus-daemon"):
    print("skipped: there is no dbus-daemon")
    sys.exit(77)

PEER = str(Path(sys.argv[1]).resolve())
POLICY = Path(__file__).resolve().parents[2] / "systemd" / "org.kymo.Daemon1.conf"
NAME, PATH = "org.kymo.Daemon1", "/org/kymo/Daemon1"
dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
# A caller of another user: a process of its own.
CALLER = """
import dbus, sys
bus = dbus.bus.BusConnection(sys.argv[1])
proxy = bus.get_object("org.kymo.Daemon1", "/org/kymo/Daemon1", introspect=False)
try:
    print("version", proxy.Get("org.kymo.Daemon1", "Version", dbus_interface="org.freedesktop.DBus.Properties"))
    print("status", proxy.Status(dbus_interface="org.kymo.Daemon1")["version"])
except dbus.DBusException as e:
    print(e.get_dbus_name(), e.get_dbus_message())
"""


class BusTest(unittest.TestCase):
    group = "daemon"

    def setUp(self):
        self.place = Path(tempfile.mkdtemp(prefix="kymo-bus."))
        self.addCleanup(shutil.rmtree, self.place)
        self.place.chmod(0o755)
        self.address = f"unix:path={self.place}/bus"
        # As the system bus is set up, with our own part.
        (self.place / "bus.conf").write_text(f"""<busconfig><type>system</type><listen>{self.address}</listen>
          <auth>EXTERNAL</auth><policy context="default"><allow user="*"/><deny own="*"/><deny send_type="method_call"/>
          <allow send_type="signal"/><allow send_requested_reply="true" send_type="method_return"/>
          <allow send_requested_reply="true" send_type="error"/><allow receive_type="method_call"/>
          <allow receive_type="method_return"/><allow receive_type="error"/><allow receive_type="signal"/>
          <allow send_destination="org.freedesktop.DBus"/></policy><include>{POLICY}</include></busconfig>""")
        self.log = open(self.place / "log", "w")
        self.addCleanup(self.log.close)
        self.daemon = None
        self.start_bus()
        self.addCleanup(self.stop_bus)
        self.peer = subprocess.Popen([PEER, self.group], env=dict(os.environ, DBUS_SYSTEM_BUS_ADDRESS=self.address),
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, bufsize=0)
        self.said = b""
        self.addCleanup(self.end_peer)
        self.expect("connected")
        self.connect()

    def connect(self):
        self.bus = dbus.bus.BusConnection(self.address)
        self.addCleanup(self.bus.close)
        self.bus.set_exit_on_disconnect(False)
        self.proxy = self.bus.get_object(NAME, PATH)

    def start_bus(self):
        self.daemon = subprocess.Popen(["dbus-daemon", f"--config-file={self.place}/bus.conf", "--nofork", "--print-address=1"],
                                       stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.assertIn("unix:", self.daemon.stdout.readline())

    def stop_bus(self):
        self.daemon.terminate()
        self.daemon.wait(10)
        self.daemon.stdout.close()

    def end_peer(self):
        self.peer.stdin.close()
        self.assertEqual(self.peer.wait(10), 0)
        self.peer.stdout.close()

    def expect(self, text, seconds=10):
        while b"\n" not in self.said:
            ready, _, _ = select.select([self.peer.stdout], [], [], seconds)
            self.assertTrue(ready, f'"{text}" did not come')
            self.said += os.read(self.peer.stdout.fileno(), 65536)
        line, _, self.said = self.said.partition(b"\n")
        line = line.decode()
        self.assertIn(text, line)
        return line

    def tell(self, line):
        self.peer.stdin.write(line.encode() + b"\n")

    def capture(self, **options):
        return self.proxy.Capture(dbus.Dictionary(options, signature="sv"), dbus_interface=NAME)

    def refused(self, name, **options):
        with self.assertRaises(dbus.DBusException) as caught:
            self.capture(**options)
        self.assertEqual(caught.exception.get_dbus_name(), name)
        return caught.exception.get_dbus_message()

    def test_status_and_properties(self):
        status = self.proxy.Status(dbus_interface=NAME)
        self.assertEqual((status["captures"], status["captures_failed"], status["spool_bytes"]), (7, 1, 1000))
        first, second = status["ranks"]
        self.assertEqual((first["job"], first["pid"], first["rank"], first["unit"], first["slice"], list(first["cores"])),
                         ("llama", 42, 3, "train.service", "training.slice", [4, 5]))
        self.assertEqual(first["step"], 2**64 - 1)
        self.assertNotIn("rank", second)
        self.assertEqual(second["unit"], "")
        self.assertEqual(status["collectors"][0]["state"], "up")
        properties = self.proxy.GetAll(NAME, dbus_interface="org.freedesktop.DBus.Properties")
        self.assertEqual((properties["Version"], properties["Captures"], properties["SpoolBytes"]), (status["version"], 7, 1000))

    def test_capture(self):
        ids, note = self.capture()
        self.assertEqual((list(ids), note), (["cap-1", "cap-2"], ""))
        self.expect("ask on-demand job= pid=0 cores=0 mode= step=0 count=0 duration=0 one_in=0 wait=0")
        self.capture(job="some", pid=dbus.UInt32(5), cores=dbus.Array([1, 2, 3], signature="u"), mode="session",
                     step=dbus.UInt64(2**40), count=dbus.UInt32(3), duration_ms=dbus.UInt64(9), ranks_one_in=dbus.UInt32(4),
                     until_sent=True)
        self.expect("ask on-demand job=some pid=5 cores=3 mode=session step=1099511627776 count=3 duration=9 one_in=4 wait=1")
        self.assertEqual(self.capture(job="some")[1], "rank 1 is busy")
        self.assertIn("no rank", self.refused(f"{NAME}.Error.NoSuchRank", job="none"))
        self.refused(f"{NAME}.Error.Busy", job="busy")

    def test_bad_options(self):
        invalid = "org.freedesktop.DBus.Error.InvalidArgs"
        self.assertIn('no option "jobs"', self.refused(invalid, jobs="x"))
        self.assertIn("step", self.refused(invalid, step="7"))
        self.assertIn("cores", self.refused(invalid, cores=dbus.Array([], signature="u")))
        self.assertIn("cores", self.refused(invalid, cores=dbus.Array(range(300), signature="u")))
        self.assertIn("cores", self.refused(invalid, cores="all"))
        with self.assertRaises(dbus.DBusException):
            self.bus.call_blocking(NAME, PATH, NAME, "Capture", "s", ("x",))

    def test_signals_go_to_the_caller(self):
        mine, others = [], []
        other = dbus.bus.BusConnection(self.address)
        self.addCleanup(other.close)
        self.bus.add_signal_receiver(lambda *a: mine.append(a), "CaptureDone", NAME)
        other.add_signal_receiver(lambda *a: others.append(a), "CaptureDone", NAME)
        self.capture()
        self.expect("ask")
        for line in ("done cap-1 running", "done cap-1 spooled", "done cap-2 failed last"):
            self.tell(line)
        self.wait_for(lambda: len(mine) == 2)
        self.assertEqual(mine, [("cap-1", "spooled", "why"), ("cap-2", "failed", "why")])
        mine.clear()
        self.capture(until_sent=True)
        for line in ("done cap-1 spooled", "done cap-1 sent", "done cap-2 sent last"):
            self.tell(line)
        self.wait_for(lambda: len(mine) == 2)
        self.assertEqual([m[1] for m in mine], ["sent", "sent"])
        self.assertEqual(others, [])

    def wait_for(self, condition, seconds=10):
        end = time.monotonic() + seconds
        while not condition() and time.monotonic() < end:
            while GLib.MainContext.default().iteration(False):
                pass
            time.sleep(0.01)
        self.assertTrue(condition())

    def test_too_many_callers(self):
        for _ in range(64):
            self.capture()
        self.refused("org.freedesktop.DBus.Error.LimitsExceeded")
        self.tell("done cap-1 spooled last")
        end = time.monotonic() + 10
        while time.monotonic() < end:
            try:
                self.capture()
                break
            except dbus.DBusException:
                time.sleep(0.01)
        else:
            self.fail("places are not free again")

    def call_as(self, uid, gid, groups=()):
        return subprocess.run([sys.executable, "-c", CALLER, self.address], user=uid, group=gid, extra_groups=list(groups),
                              stdout=subprocess.PIPE, text=True, timeout=20, cwd="/").stdout

    def test_who_may(self):
        if os.getuid() != 0:
            self.skipTest("other users are tried as root only")
        out = self.call_as(65534, 65534)
        self.assertIn("version 0.", out)
        self.assertIn("AccessDenied only root and members of the group daemon may", out)
        self.assertIn("status 0.", self.call_as(65534, 65534, [1]))
        self.assertIn("status 0.", self.call_as(65534, 1))

    def test_the_bus_comes_back(self):
        self.capture()
        self.expect("ask")
        self.stop_bus()
        lines = {self.expect("")[:8], self.expect("")[:8]}
        self.assertEqual(lines, {"unwatch", "waiting:"})
        self.start_bus()
        self.expect("connected", 20)
        self.connect()
        self.assertEqual(self.proxy.Status(dbus_interface=NAME)["captures"], 7)

    def test_the_name_is_taken(self):
        second = subprocess.run([PEER, "-"], env=dict(os.environ, DBUS_SYSTEM_BUS_ADDRESS=self.address), input="quit\n",
                                stdout=subprocess.PIPE, text=True, timeout=20)
        self.assertIn("closed 0", second.stdout)
        third = subprocess.Popen([PEER, "-"], env=dict(os.environ, DBUS_SYSTEM_BUS_ADDRESS=self.address),
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.assertIn("another process has it", third.stdout.readline())
        third.communicate("quit\n", timeout=10)
        self.assertEqual(third.returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=1)
