#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""layers.py SOURCES OBJECTS: checks that libvipl's folders are layers, and that no files call each other in a circle.

SOURCES is libvipl/. OBJECTS is a file that lists its object files. An arrow runs from a file to another one that it
calls (by the symbols of the object files) or includes. It must not run to a higher folder: a device reports to the
layers above it by the functions of device.h alone.
"""
import collections
import graphlib
import pathlib
import re
import subprocess
import sys

DEVICES = ["rdma", "loopback"]
ORDER = [["base"], ["trace"], DEVICES, ["core"], ["connect"], ["service"], ["api"]]  # from below
BETWEEN = ["cq_look.h", "device.h", "span.h"]
RANK = {folder: rank for rank, folders in enumerate(ORDER) for folder in folders}

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def symbols(objects):
    """Returns the file that defines each symbol, and the symbols that each file needs."""
    defined, wanted = {}, collections.defaultdict(set)
    for path in sorted(objects.read_text().split("\n")):
        name = "/".join(path.split("/")[-2:]).removesuffix(".o")  # core/cq.c
        output = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
        for line in output.splitlines():
            kind, symbol = line.split()[-2:]
            if kind == "U":
                wanted[name].add(symbol)
            elif kind.isupper():
                defined[symbol] = name
    return defined, wanted


def reports(sources):
    """Returns the functions that devices may call though they are defined above them."""
    text = (sources / "device.h").read_text()
    return set(re.findall(r"\b(\w+)\(", text[text.index("A device reports by these functions"):]))


def calls(sources, objects):
    defined, wanted = symbols(objects)
    up = reports(sources)
    for name, names in sorted(wanted.items()):
        for symbol in sorted(names):
            other = defined.get(symbol)
            if other and other != name and not (folder(name) in DEVICES and symbol in up):
                yield name, other, symbol


def includes(sources):
    for path in sorted(sources.rglob("*.[ch]")):
        for name in INCLUDE.findall(path.read_text()):
            other = path.parent / name if (path.parent / name).exists() else sources / name
            if other.exists():
                yield str(path.relative_to(sources)), str(other.relative_to(sources)), "#include"


def folder(name):
    return name.split("/")[0]


def is_up(name, other):
    """Says whether an arrow runs up. The headers of BETWEEN are below the devices and above the rest."""
    if name in BETWEEN:
        return other not in BETWEEN and RANK[folder(other)] >= RANK["rdma"]
    if other in BETWEEN:
        return RANK[folder(name)] < RANK["rdma"]
    if folder(name) == folder(other):
        return False
    return RANK[folder(other)] >= RANK[folder(name)]


def circle(arrows):
    """Returns files that call each other in a circle, if there are any."""
    try:
        graphlib.TopologicalSorter(arrows).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


def main():
    sources, objects = (pathlib.Path(argument) for argument in sys.argv[1:3])
    called = list(calls(sources, objects))
    assert len(called) > 200, "the object files are not those of the library: %d" % len(called)
    wrong = ["%s -> %s: %s" % arrow for arrow in [*called, *includes(sources)] if is_up(*arrow[:2])]
    arrows = collections.defaultdict(set)
    for name, other, _ in called:
        arrows[name].add(other)
    if found := circle(arrows):
        wrong.append("a circle: " + " ".join(found))
    print("%d arrows" % sum(map(len, arrows.values())))
    sys.exit("\n".join(wrong) if wrong else 0)


main()
