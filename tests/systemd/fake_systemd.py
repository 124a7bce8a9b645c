#!/usr/bin/env python3
"""A service manager on a private bus: as much of org.freedesktop.systemd1 as kymo calls, over a directory of drop-ins.

usage: fake_systemd.py system|session UNITS.json UNIT_DIR
UNITS.json: {"train.service": {"Environment": [...], "Slice": "...", ...}, ...}; what is missing has systemd's default.
Drop-ins count after Reload, as with systemd. Each call is a line of standard output.
"""

import json
import re
import sys
from pathlib import Path

import dbus
import dbus.mainloop.glib
import dbus.service
from gi.repository import GLib

NAME = "org.freedesktop.systemd1"
ROOT = "/org/freedesktop/systemd1"
PROPERTIES = "org.freedesktop.DBus.Properties"


def strings(items):
    return dbus.Array(items, signature="s")


def escaped(name):
    return "".join(c if c.isalnum() else f"_{ord(c):02x}" for c in name)


class Error(dbus.DBusException):
    def __init__(self, name, text):
        super().__init__(text, name=name)


class Unit(dbus.service.Object):
    def __init__(self, bus, manager, name):
        super().__init__(bus, f"{ROOT}/unit/{escaped(name)}")
        self.manager, self.name = manager, name

    def value(self, key):
        known = self.manager.units.get(self.name, {"LoadState": "not-found"})
        defaults = {
            "Id": known.get("Id", self.name), "LoadState": "loaded", "ActiveState": "inactive", "Slice": "system.slice",
            "RootDirectory": "", "RootImage": "",
        }
        if key == "Environment":
            return strings(self.manager.environment(known.get("Id", self.name)))
        if key == "UnsetEnvironment":
            return strings(known.get(key, []))
        if key == "EnvironmentFiles":
            return dbus.Array([dbus.Struct((f, False)) for f in known.get(key, [])], signature="(sb)")
        if key == "RestrictAddressFamilies":
            allow, families = known.get(key, (False, []))
            return dbus.Struct((allow, strings(families)))
        return known.get(key, defaults[key])

    @dbus.service.method(PROPERTIES, in_signature="ss", out_signature="v")
    def Get(self, _interface, key):
        return self.value(key)


class Manager(dbus.service.Object):
    def __init__(self, bus, units, unit_dir):
        super().__init__(bus, ROOT)
        self.bus, self.units, self.dir, self.objects = bus, units, Path(unit_dir), {}
        self.dropins, self.jobs = {}, 0
        self.read_dropins()

    def read_dropins(self):
        self.dropins = {}
        for unit in self.dir.glob("*.d"):
            found = []
            for file in sorted(unit.glob("*.conf")):
                for value in re.findall(r'^Environment="?([^"\n]*)"?$', file.read_text(), re.MULTILINE):
                    found.append(value.replace("%%", "%"))
            self.dropins[unit.name[:-2]] = found

    def environment(self, name):
        template = re.sub(r"@.*\.", "@.", name)
        values = {}
        for item in self.units.get(name, self.units.get(template, {})).get("Environment", []) + self.dropins.get(template, []) \
                + (self.dropins.get(name, []) if name != template else []):
            key, _, value = item.partition("=")
            values[key] = value.replace("%i", name.partition("@")[2].rpartition(".")[0])
        return [f"{k}={v}" for k, v in values.items()]

    def log(self, *words):
        print(*words, flush=True)

    @dbus.service.method(f"{NAME}.Manager", in_signature="s", out_signature="o")
    def LoadUnit(self, name):
        self.log("LoadUnit", name)
        if not re.fullmatch(r"[A-Za-z0-9:_.\\@-]+\.(service|slice)", name) or name.startswith("@") or "@." in name:
            raise Error("org.freedesktop.DBus.Error.InvalidArgs", f"Unit name {name} is not valid.")
        template = re.sub(r"@.*\.", "@.", name)
        if template != name and template in self.units:
            self.units.setdefault(name, {k: v for k, v in self.units[template].items()})
        if name not in self.objects:
            self.objects[name] = Unit(self.bus, self, name)
        return dbus.ObjectPath(f"{ROOT}/unit/{escaped(name)}")

    @dbus.service.method(f"{NAME}.Manager", in_signature="asas", out_signature="a(ssssssouso)")
    def ListUnitsByPatterns(self, _states, _patterns):
        return dbus.Array([(n, "", "loaded", u.get("ActiveState", "inactive"), "", "", "/", 0, "", "/")
                           for n, u in self.units.items() if n.endswith(".service") and u.get("listed", "unit") == "unit"
                           and "@." not in n], signature="(ssssssouso)")

    @dbus.service.method(f"{NAME}.Manager", in_signature="asas", out_signature="a(ss)")
    def ListUnitFilesByPatterns(self, _states, _patterns):
        return dbus.Array([(f"/usr/lib/systemd/system/{n}", u.get("state", "static"))
                           for n, u in self.units.items() if n.endswith(".service")], signature="(ss)")

    @dbus.service.method(f"{NAME}.Manager")
    def Reload(self):
        self.log("Reload")
        if (self.dir / "refuse-reload").exists():
            raise Error("org.freedesktop.DBus.Error.InteractiveAuthorizationRequired", "Interactive authentication required.")
        self.read_dropins()

    @dbus.service.method(f"{NAME}.Manager")
    def Subscribe(self):
        self.log("Subscribe")

    @dbus.service.method(f"{NAME}.Manager", in_signature="ss", out_signature="o")
    def TryRestartUnit(self, name, mode):
        self.log("TryRestartUnit", name, mode)
        self.jobs += 1
        number, job = self.jobs, f"{ROOT}/job/{self.jobs}"
        result = self.units[name].get("restart", "done")
        # Somebody else's job first: it is not the one that is waited for.
        GLib.timeout_add(10, lambda: self.JobRemoved(9999, f"{ROOT}/job/9999", name, "failed"))
        if result != "never":
            GLib.timeout_add(20, lambda: self.JobRemoved(number, job, name, result))
        return dbus.ObjectPath(job)

    @dbus.service.signal(f"{NAME}.Manager", signature="uoss")
    def JobRemoved(self, number, job, unit, result):
        return False

    @dbus.service.method(PROPERTIES, in_signature="ss", out_signature="v")
    def Get(self, _interface, key):
        return strings({"UnitPath": ["/usr/lib/systemd/system", str(self.dir)], "Environment": ["LANG=C"]}[key])


def main():
    dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
    bus = dbus.SystemBus() if sys.argv[1] == "system" else dbus.SessionBus()
    manager = Manager(bus, json.loads(Path(sys.argv[2]).read_text()), sys.argv[3])
    owned = dbus.service.BusName(NAME, bus)
    manager.log("ready")
    GLib.MainLoop().run()
    del owned


main()
