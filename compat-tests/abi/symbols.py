#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks what the shared library shows to the dynamic linker.

The functions declared in vipl.h, the names in the version script, and the symbols that the library
exports have to be the same, each with the version that the script gives it as its default: VIPL_1.N
for what 1.N has added. The soname has to be libvipl.so.1, and nothing may be needed from elsewhere
than the C library, libibverbs and librdmacm. The static library has the same functions and no other global name.

usage: symbols.py [--nm NM] [--readelf READELF] HEADER MAP LIBRARY STATIC
"""

import argparse
import os
import re
import subprocess
import sys

VERSION = r"VIPL_1\.\d+"
SONAME = "libvipl.so.1"

# The libraries that libvipl may need, and the symbol versions of these.
LIBRARIES = r"(libc|libpthread|libdl|librt|ld-linux[\w-]*|libibverbs|librdmacm|libgcc_s)\.so\.\d+$"
VERSIONS = r"(GLIBC_|IBVERBS_|RDMACM_|GCC_)"

# Programs have functions of their own with these names. They replace the C library's.
OWNED_BY_PROGRAMS = (
    r"(sem_\w+|accept|bind|close|connect|error|flock|gettid|glob|index|listen|log|open|poll|post|read|recv|recvmsg|select|send|sendmsg|sendto"
    r"|shutdown|signal|socket|time|wait|warn|write)$"
)

# What these make stays behind when a process is killed.
OUTLIVES_PROCESSES = r"(shm_open|mk\w*temps?|tmpfile|mkfifo|mknod|sem_open|mq_open|shmget|semget|msgget)(64)?$"

problems = []
problem = problems.append


def output(*command):
    environment = dict(os.environ, LC_ALL="C")
    return subprocess.run(
        command, check=True, stdout=subprocess.PIPE, universal_newlines=True, env=environment
    ).stdout


def without_comments(path):
    with open(path, encoding="utf-8") as file:
        return re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S)


def declared(path):
    """Returns the functions that the header declares, in its order."""
    return re.findall(r"\b(Vip\w+)\s*\(", without_comments(path))


def mapped(path):
    """Returns the names in the version script, in its order, with the version of each."""
    names = {}
    nodes = re.findall(r"([\w.]+)\s*\{(.*?)\}\s*([\w.]*)\s*;", without_comments(path), flags=re.S)
    before = ""
    for version, content, inherited in nodes:
        local = "" if before else r"local:\s*\*\s*;\s*"
        match = re.fullmatch(r"\s*global:\s*((?:\w+;\s*)+)" + local, content)
        if not match or inherited != before or not re.fullmatch(VERSION, version):
            problem("%s in the map is not made of plain global names, or does not follow %s" % (version, before or "nothing"))
            continue
        for name in re.findall(r"\w+", match.group(1)):
            if name in names:
                problem("%s is twice in the map" % name)
            names[name] = version
        before = version
    return names


def exported(nm, library):
    """Returns the functions that the library exports, with their versions. Reports what is wrong with them."""
    names = {}
    for line in output(nm, "-D", "--defined-only", "--with-symbol-versions", library).splitlines():
        kind, symbol = line.split()[-2:]
        name, at, version = symbol.partition("@")
        if kind == "A" and re.fullmatch(VERSION, name):
            continue  # the version itself
        if kind != "T":
            problem("%s is exported as type %s, not as a function" % (name, kind))
        if not at or not version.startswith("@"):
            problem("%s is exported without a default version" % symbol)
        if name in names:
            problem("%s is exported twice" % name)
        names[name] = version.lstrip("@")
    return names


def compare(first, names, second, others):
    for name in sorted(set(names) - set(others)):
        problem("%s is in %s and not in %s" % (name, first, second))
    for name in sorted(set(others) - set(names)):
        problem("%s is in %s and not in %s" % (name, second, first))


def check_dynamic_section(readelf, library):
    text = output(readelf, "-dW", library)
    sonames = re.findall(r"\(SONAME\)\s.*\[(.*)\]", text)
    if sonames != [SONAME]:
        problem("the soname is %s, not %s" % (sonames, SONAME))
    needed = re.findall(r"\(NEEDED\)\s.*\[(.*)\]", text)
    for name in needed:
        if not re.match(LIBRARIES, name):
            problem("the library needs %s" % name)
    for tag in ("TEXTREL", "RPATH", "RUNPATH"):
        if "(%s)" % tag in text:
            problem("the library has %s" % tag)


def check_call(name):
    if re.match(OWNED_BY_PROGRAMS, name):
        problem("the library calls %s, which programs define for themselves" % name)
    if re.match(OUTLIVES_PROCESSES, name):
        problem("the library calls %s, and what that makes outlives a process that is killed" % name)


def check_static(nm, library, api):
    symbols = [line.split()[-2:] for line in output(nm, "-g", library).splitlines() if " " in line]
    for kind, name in symbols:
        if kind == "U":
            check_call(name)
    compare("the map", api, "the static library", [name for kind, name in symbols if kind == "T"])
    for kind, name in symbols:
        if kind not in "UTwv":
            problem("%s is global in the static library" % name)


def check_undefined(nm, library):
    lines = output(nm, "-D", "--undefined-only", "--with-symbol-versions", library).splitlines()
    for line in lines:
        kind, symbol = line.split()[-2:]
        name, _, version = symbol.partition("@")
        check_call(name)
        if re.match(VERSIONS, version.lstrip("@")) or kind in "wv":
            continue
        problem("%s is undefined, and not from the C library or the RDMA libraries" % symbol)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--readelf", default="readelf")
    parser.add_argument("header")
    parser.add_argument("map")
    parser.add_argument("library")
    parser.add_argument("static")
    arguments = parser.parse_args()

    header = declared(arguments.header)
    script = mapped(arguments.map)
    library = exported(arguments.nm, arguments.library)
    for where, names in (("the header", header), ("the map", script), ("the library", library)):
        if not names:
            problem("no function found in %s" % where)
    compare("the header", header, "the map", script)
    compare("the map", script, "the library", library)
    for name in sorted(set(script) & set(library)):
        if script[name] != library[name]:
            problem("%s has the version %s in the map and %s in the library" % (name, script[name], library[name]))
    if set(header) == set(script) and sorted(header, key=script.get) != sorted(script, key=script.get):
        problem("the map is not in the header's order")

    check_dynamic_section(arguments.readelf, arguments.library)
    check_undefined(arguments.nm, arguments.library)
    check_static(arguments.nm, arguments.static, script)

    for text in problems:
        print("symbols: " + text, file=sys.stderr)
    if not problems:
        print("%d functions, all exported with the versions of the map" % len(library))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
