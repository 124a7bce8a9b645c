"""Large members of a packed NEFF: what nobody needs takes no memory, what is needed is read."""

import gzip
import io
import os
import re
import struct
import subprocess
import tarfile

import profiles

MIB = 1 << 20


class Zeros(io.RawIOBase):
    def __init__(self, n):
        self.left = n

    def read(self, n=-1):
        n = min(n, self.left) if n >= 0 else self.left
        self.left -= n
        return bytes(n)


def repack(source, target, grown=None, extra=0):
    """The NEFF with zeros behind one of its members (a suffix of its name), and a member more."""
    head, body = bytearray(source.read_bytes()[:1024]), source.read_bytes()[1024:]
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1) as out, tarfile.open(fileobj=io.BytesIO(body)) as old, \
            tarfile.open(fileobj=out, mode="w|") as new:
        for m in old:
            data = old.extractfile(m).read() if m.isfile() else b""
            if grown and m.name.endswith(grown[0]):
                data, grown = data + bytes(grown[1]), None
            m.size = len(data)
            new.addfile(m, io.BytesIO(data))
        m = tarfile.TarInfo("unneeded.npy")
        m.size = extra
        new.addfile(m, Zeros(extra))
    assert not grown
    struct.pack_into("<Q", head, 16, len(packed.getvalue()))
    target.write_bytes(bytes(head) + packed.getvalue())
    return target


def inspect(neff):
    """(what kymo neff inspect says, the most memory that it took in MiB)"""
    with subprocess.Popen([profiles.BIN / "kymo", "neff", "inspect", neff], stdout=subprocess.PIPE, text=True) as child:
        said = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return said, usage.ru_maxrss / 1024


def test_large_members(tmp_path):
    neff = profiles.make_neff(tmp_path, "mlp", "trn2", 1, small=True)
    said, usual = inspect(neff)
    more, most = inspect(repack(neff, tmp_path / "big.neff", extra=1024 * MIB))
    assert most < usual + 64 and f"{1024 * MIB}  unneeded.npy" in more
    whole, _ = inspect(repack(neff, tmp_path / "long.neff", grown=("sg00/PE.bin", 80 * MIB)))
    count = [int(re.search(r"instructions (\d+) +\(sg00/PE.bin", text)[1]) for text in (said, whole)]
    assert count[1] == count[0] + 80 * MIB // 64
