# SPDX-License-Identifier: BSD-2-Clause
"""The facts of a host that matter for RDMA: system, kernel, driver, firmware, ports, GIDs, limits. They come from files that
every Linux has, and from programs where they are installed."""

import contextlib
import getpass
import os
import pathlib
import platform
import pwd
import resource
import shutil
import socket
import subprocess
import tempfile
import time

import running
import strangers

TOOL_LIMIT = 10  # seconds
TOOLS_LIMIT = 150  # of all of them together, however many interfaces there are: later ones are left out
MOST_GIDS = 64
# What is asked where it is installed. None of them is needed.
TOOLS = ("vip_info", "rdma link show", "rdma system show", "ip -details address show", "ibv_devinfo -v", "lspci -nn -d ::0200",
         "lspci -nn -d ::0207",
         "dpkg-query -W libvipl1 vipl-tools vipl-conformance rdma-core libibverbs1 librdmacm1 ibverbs-providers",
         "rpm -q libvipl rdma-core libibverbs librdmacm", "systemd-detect-virt", "getenforce", "nproc")
SETTINGS = ("proc/sys/vm/max_map_count", "proc/sys/kernel/threads-max", "proc/sys/fs/nr_open",
            "proc/sys/net/ipv4/ip_local_port_range", "proc/sys/net/ipv4/conf/all/arp_ignore",
            "proc/sys/net/ipv4/conf/all/arp_announce", "proc/sys/net/ipv4/conf/all/rp_filter",
            "proc/sys/kernel/yama/ptrace_scope", "sys/kernel/mm/transparent_hugepage/enabled",
            "sys/module/ib_core/parameters/netns_mode")
LIMITS = {"locked memory (ulimit -l)": resource.RLIMIT_MEMLOCK, "files (ulimit -n)": resource.RLIMIT_NOFILE,
          "processes (ulimit -u)": resource.RLIMIT_NPROC, "address space (ulimit -v)": resource.RLIMIT_AS}
BOOT_OPTIONS = ("iommu", "intel_iommu", "amd_iommu", "pci", "mitigations", "isolcpus", "nohz_full", "hugepages",
                "default_hugepagesz")
OF_DEVICE = ("fw_ver", "hca_type", "board_id", "hw_rev", "node_desc", "node_type", "node_guid", "sys_image_guid",
             "parent", "device/vendor", "device/device", "device/subsystem_vendor", "device/subsystem_device",
             "device/numa_node", "device/current_link_speed", "device/current_link_width", "device/sriov_numvfs")
OF_PORT = ("state", "phys_state", "rate", "link_layer", "lid", "lid_mask_count", "sm_lid", "sm_sl", "cap_mask")
OF_INTERFACE = ("address", "mtu", "operstate", "speed", "type", "ifindex", "duplex")


def text_of(path):
    """Returns the file's text, or None: many files of /sys exist and cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="backslashreplace").strip()
    except OSError:
        return None


def texts_of(folder, names):
    found = {name: text_of(folder / name) for name in names}
    return {name: text for name, text in found.items() if text}


def entries(folder):
    with contextlib.suppress(OSError):
        return sorted(folder.iterdir())
    return []


def collect(root=pathlib.Path("/")):
    """root: tests have another one."""
    devices = {entry.name: device(root, entry) for entry in entries(root / "sys/class/infiniband")}
    interfaces = {entry.name: texts_of(entry, OF_INTERFACE) for entry in entries(root / "sys/class/net")
                  if entry.name != "lo"}
    return {
        "system": system(root),
        "devices": devices,
        "interfaces": interfaces,
        "files": {str(entry): "%o" % (entry.stat().st_mode & 0o777) for entry in entries(root / "dev/infiniband")},
        "limits": {name: limit(number) for name, number in LIMITS.items()},
        "cgroup": cgroup(root),
        "settings": texts_of(root, SETTINGS),
        "boot options": [word for word in (text_of(root / "proc/cmdline") or "").split()
                         if word.split("=")[0] in BOOT_OPTIONS],
        "environment": {name: value for name, value in sorted(os.environ.items())
                        if name.startswith(("VIPL_", "IBV_", "RDMAV_", "MLX5_"))},
        "programs": tools(devices),
    }


def system(root):
    release = dict(line.split("=", 1) for line in (text_of(root / "etc/os-release") or "").splitlines() if "=" in line)
    info = text_of(root / "proc/cpuinfo") or ""
    models = [line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith("model name")]
    memory = (text_of(root / "proc/meminfo") or "").splitlines()
    return {"system": release.get("PRETTY_NAME", "").strip('"'), "kernel": platform.release(),
            "build": text_of(root / "proc/sys/kernel/version"), "machine": platform.machine(),
            "processor": models[0] if models else None, "processors": os.cpu_count(),
            "memory": memory[0].split(":")[1].strip() if memory else None, "is root": os.geteuid() == 0,
            "glibc": " ".join(platform.libc_ver()), "python": platform.python_version()}


def device(root, folder):
    found = texts_of(folder, OF_DEVICE)
    driver = folder / "device/driver"
    name = driver.resolve().name if driver.exists() else "rdma_rxe" if is_soft(folder) else None
    found["driver"] = name
    found["module"] = texts_of(root / "sys/module" / name, ("version", "srcversion")) if name else {}
    found["ports"] = {entry.name: port(entry) for entry in entries(folder / "ports")}
    return found


def is_soft(folder):
    """Soft-RoCE alone tells the interface below it in this way."""
    return (folder / "parent").exists() and not (folder / "device").exists()


def port(folder):
    found = texts_of(folder, OF_PORT)
    found["gids"] = []
    for entry in sorted(entries(folder / "gids"), key=lambda entry: int(entry.name))[:MOST_GIDS]:
        gid = text_of(entry)
        if gid and gid.replace(":", "").strip("0"):
            kind, interface = (text_of(folder / "gid_attrs" / what / entry.name) for what in ("types", "ndevs"))
            found["gids"].append({"index": int(entry.name), "gid": gid, "type": kind, "interface": interface})
    found["pkeys"] = sorted({text_of(entry) or "" for entry in entries(folder / "pkeys")} - {"", "0x0000"})
    return found


def limit(number):
    return " of ".join("unlimited" if value == resource.RLIM_INFINITY else str(value)
                       for value in resource.getrlimit(number))


def cgroup(root):
    """Returns what limits RDMA and memory, of the process's cgroup and those above it."""
    own = [line[3:] for line in (text_of(root / "proc/self/cgroup") or "").splitlines() if line.startswith("0::")]
    found = {}
    for path in own:
        folder = root / "sys/fs/cgroup" / path.lstrip("/")
        for each in (folder, *folder.parents):
            for name, text in texts_of(each, ("rdma.max", "memory.max", "pids.max")).items():
                if text != "max":
                    found.setdefault(name, text)
            if each.name == "cgroup":
                break
    return found


def tools(devices):
    found = {}
    asked = [*TOOLS, *("ethtool -i " + name for name in sorted(interfaces_of(devices)))]
    end = time.monotonic() + TOOLS_LIMIT
    for line in asked:
        words = line.split()
        program = shutil.which(words[0], path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        if not program or time.monotonic() > end:
            continue
        said = output_of([program, *words[1:]])
        if said.strip():
            found[line] = said.rstrip()[:strangers.MOST_TEXT]
    return found


def output_of(command):
    with contextlib.suppress(OSError, subprocess.SubprocessError), tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder, "output")
        if running.run(command, output, TOOL_LIMIT) not in (running.OVER, running.STUCK):
            return output.read_text(encoding="utf-8", errors="backslashreplace")
    return ""


def interfaces_of(devices):
    return {gid["interface"] for one in devices.values() for port in one["ports"].values() for gid in port["gids"]
            if gid["interface"]}


def error_counters(root=pathlib.Path("/")):
    """Returns the counters of all ports that tell of errors and of repetitions."""
    found = {}
    for file in root.glob("sys/class/infiniband/*/ports/*/*counters/*"):
        text = text_of(file)
        is_error = any(word in file.name for word in ("err", "retr", "drop", "discard", "timeout", "seq", "rnr", "down"))
        if is_error and text and text.isdigit():
            found["%s port %s %s" % (file.parts[-5], file.parts[-3], file.name)] = int(text)
    return found


def names():
    """Returns the names of this host and of who runs this, which a report does not tell."""
    hosts = {socket.gethostname(), platform.node()}
    users = {os.environ.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER")}
    with contextlib.suppress(OSError, subprocess.SubprocessError):  # asks the name service
        hosts.add(subprocess.run(["hostname", "-f"], capture_output=True, text=True, timeout=TOOL_LIMIT,
                                 errors="surrogateescape", check=False).stdout.strip())
    with contextlib.suppress(KeyError):
        users.add(pwd.getpwuid(os.getuid()).pw_name)
    with contextlib.suppress(OSError, KeyError):
        users.add(getpass.getuser())
    return {"hosts": sorted(hosts - {""}), "users": sorted(users - {""})}


def versions(found):
    """Returns the versions among the facts. They may look like addresses."""
    words = [one.get("fw_ver", "") for one in found["devices"].values()]
    for tool, text in found["programs"].items():
        if tool.startswith(("dpkg", "rpm", "ethtool")):
            words += text.split()
    return [word for word in words if word]
