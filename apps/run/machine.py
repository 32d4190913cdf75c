# SPDX-License-Identifier: BSD-2-Clause
"""What this machine has for VIA programs, which vip_info knows."""

import contextlib
import glob
import json
import os
import re
import subprocess
import sys

from saying import shown

HOME = os.path.dirname(os.path.realpath(sys.modules["__main__"].__file__))
LOOK_LIMIT = 10  # seconds, for vip_info
# The 32-bit libibverbs has drivers of its own: on Debian, on RPM systems, on Arch.
DRIVERS_32 = "/usr/lib/i386-linux-gnu", "/usr/lib", "/usr/lib32"
NO_DRIVERS = "there are no verbs drivers for programs of 32 bits, which will find no RDMA device"
LOOPBACK = "(?:/dev/|/etc/)?via_lo[0-9]*"


def lacks_drivers(elf):
    """Without drivers of their own, programs of 32 bits see no device."""
    if not elf or (elf.bits, elf.machine) != (32, "EM_386"):
        return False
    for path in [path for folder in DRIVERS_32 for path in glob.glob(folder + "/libibverbs/*.so")]:
        with contextlib.suppress(OSError), open(path, "rb") as file:
            if file.read(5) == b"\x7fELF\1":
                return False
    return True


def ask_vip_info(libraries, *options, **environment):
    """Returns the object that it prints, and what it says beside that; nothing where that cannot be understood."""
    environment = {"LD_LIBRARY_PATH": ":".join(libraries.values()),
                   "VIPL_ADDRESS_BYTES": os.environ.get("VIPL_ADDRESS_BYTES", "6"), "VIPL_LOG": "warning,plain", **environment}
    try:
        done = subprocess.run([HOME + "/vip_info", "--json", *options], stdin=subprocess.DEVNULL, capture_output=True,
                              env=environment, check=False, timeout=LOOK_LIMIT)
        return json.loads(done.stdout), done.stderr.decode(errors="surrogateescape")
    except (OSError, subprocess.SubprocessError, ValueError, RecursionError):
        return None, ""


def look(libraries):
    """Returns places for NICs, and problems; nothing where that is not known."""
    found, _ = ask_vip_info(libraries, "--problems")
    try:
        return {"problems": [{key: "\n".join(map(shown, each[key].split("\n"))) for key in ("problem", "about", "remedy")}
                             for each in found["problems"]],
                "candidates": [{key: shown(str(each[key])) for key in ("nic", "device", "port", "interface", "address")}
                               for each in found["candidates"]]}
    except (LookupError, TypeError, AttributeError):
        return None


def opened(name, libraries, nic_map):
    """Returns what VipOpenNic makes of a name, in words, and whether it opens a NIC; nothing where that is not known."""
    found, said = ask_vip_info(libraries, "--nic=" + name, VIPL_NIC_MAP=nic_map)
    why = re.search("^vipl: [a-z]+: (.*)", said, re.M) or re.search("^vip_info: (.*)", said, re.M)
    try:
        for nic in found["nics"]:
            return shown("via_lo" if nic["Name"] == "via_lo" else "RDMA device %(Name)s, %(host)s" % nic), True
        return (shown(why[1]), False) if why else None
    except (LookupError, TypeError):
        return None


def is_loopback(name):
    return bool(re.fullmatch(LOOPBACK, name))
