# SPDX-License-Identifier: BSD-2-Clause
"""vip_run --check: would the program run, and find its NICs? If not, why?"""

import contextlib
import os
import re
import resource
import subprocess

import machine
from saying import complain, say, shown

READY, NOT_READY = 0, 1
LINKER_LIMIT = 10  # seconds
MOST_READ = 64 << 20  # bytes of a program
MOST_NAMED = 8
LEAST_FILES = 64
# Where a program has the name of a NIC as a text, or a format that makes such names.
HELD = re.compile((r"(?<![ -~])((?:nic|VINIC|/dev/via_eth|/dev/clanvi|\\\\[.]\\VI)(?:[0-9]+|%%[du])|VINIC|%s)\0"
                   % machine.LOOPBACK).encode())
# The name of a VIPL library that a program loads.
LOADED = re.compile(rb"(?<![\w.-])(?:lib)?(?:gni)?vipl\.so")
BUILT_IN = "it has VIPL functions of its own, which vip_run does not replace"
NO_SIGN = "nothing shows that it or one of its libraries uses VIPL"
SCRIPT = "this is a script: check the programs that it runs, too"
# Where a script sets or unsets a variable by which libvipl is found, in shell or another language.
SETS = re.compile(r"(?:(?<![\w${])(LD_LIBRARY_PATH|LD_PRELOAD)[\"'\]})]*\s*=(?!=)|"
                  r"\b(?:setenv|unset|unsetenv)\s+(LD_LIBRARY_PATH|LD_PRELOAD)\b)\s*[\"']?(.*)")
# The names of GNU's dynamic linkers: ld-linux.so.2, ld-linux-x86-64.so.2, ld64.so.2, ld.so.1 and the like.
GNU_LINKER = re.compile(r"(/usr)?/lib(32|64|x32)?(/[\w-]+)?/ld(-linux[\w-]*|64)?\.so\.\d+")


def few_of(names):
    return ", ".join(map(shown, names[:MOST_NAMED])) + ", ..." * (len(names) > MOST_NAMED)


def is_gnus(linker):
    """Whether a dynamic linker is GNU's, perhaps by another name."""
    return bool(GNU_LINKER.fullmatch(linker) or GNU_LINKER.fullmatch(os.path.realpath(linker)))


def trace(path, elf, environment):
    """Returns what GNU's dynamic linker says, which runs nothing of the program but its auditors. Another linker might run all
    of it, so this asks none."""
    if not is_gnus(elf.interpreter) or elf.has_auditors:
        return ""
    tracing = {"LC_ALL": "C", "LD_TRACE_LOADED_OBJECTS": "1", "LD_WARN": "yes", "LD_BIND_NOW": "yes"}
    try:
        done = subprocess.run([elf.interpreter, path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="surrogateescape",
                              env={**environment, **tracing}, timeout=LINKER_LIMIT, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return "error while loading: %s" % error
    return done.stdout + "\nerror while loading: killed by signal %d" % -done.returncode * (done.returncode < 0)


def lacks_of_file(said, elf):
    """Returns what the dynamic linker did not find."""
    missing = re.findall(r"^\t(.+) => not found", said, re.M)
    functions = [name for name in re.findall(r"^undefined symbol: (\S+)", said, re.M)
                 if not missing or name.startswith("Vip")]  # others may be in what is missing
    others = [line for line in said.splitlines()
              if re.search("^[^\t].* not found|vipl-preload.so.* cannot be preloaded|error while loading", line)]
    if missing:
        complain("note: is one of them a VIPL library, of another name than vip_run knows? Make a link of that name, in a "
                 "directory of LD_LIBRARY_PATH, to the libvipl.so.1 of %d bits. Others come with packages for such programs"
                 % elf.bits)
    found = ("missing libraries", missing), ("functions that no library has", functions), ("the dynamic linker says", others)
    return ["%s: %s" % (words, few_of(names)) for words, names in found if names]


def lacks_of_script(path, preload):
    """Says where the script puts other directories before libvipl's, or forgets libvipl's."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            lines = file.read(MOST_READ).split("\n")
    except OSError as error:
        yield "it cannot be read: %s" % error.strerror
        return
    runs = re.match(r"#![ \t]*([^ \t\0]+)", lines[0])  # to Linux a carriage return is a part of the name
    if runs and not (os.path.isfile(runs[1]) and os.access(runs[1], os.X_OK)):
        yield "there is no %s, which has to run it" % shown(runs[1])
    for number, line in enumerate(lines, 1):
        sets = None if line.lstrip().startswith("#") else SETS.search(line)
        keeps = sets and re.search(r"\$\{?%s\b" % (sets[1] or sets[2]), sets[3])
        if sets and not (keeps and (preload or not keeps.start())):
            yield "its line %d changes %s: %s" % (number, sets[1] or sets[2], "try --preload" if keeps else
                                                  "put vip_run before the programs in it")


def low_limits():
    locked, files = (resource.getrlimit(each)[0] for each in (resource.RLIMIT_MEMLOCK, resource.RLIMIT_NOFILE))
    say("limits: locked memory (ulimit -l) %s, files (ulimit -n) %d"
        % ("unlimited" if locked == resource.RLIM_INFINITY else "%d KiB" % (locked >> 10), files))
    return ["only %d files may be open (ulimit -n), and each connection takes one" % files] * (0 <= files < LEAST_FILES)


def read(path):
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return file.read(MOST_READ)
    return b""


def doubt(elf, text, said, preload):
    """Returns why a program that can run may not use libvipl, or None. `said`: what the dynamic linker has said."""
    if not elf:
        return SCRIPT
    if elf.imports_vipl or LOADED.search(text) or LOADED.search(said.encode(errors="replace")):
        return None
    if b"VipOpenNic" in text:
        return None if elf.loads else BUILT_IN
    for library in [] if preload else re.findall(r"^\t.* => (/.+) \(0x", said, re.M):
        within = read(library)
        if b"VipOpenNic" in within:
            return None if LOADED.search(within) else "%s uses VIPL: try --preload" % shown(library)
    return None if preload else NO_SIGN


def names_held(text):
    """Returns the names of NICs in the program. Of a format, "nic%d", this is the first name that it makes."""
    found = [match[1].decode() for match in HELD.finditer(text)]
    return list(dict.fromkeys(re.sub("%[du]$", "1" if "VI%" in name else "0", name) for name in found))


def print_numbered(candidates, others):
    """Prints which NICs nic0, nic1 and so on are. The old names with the same number mean the same."""
    nics = {}
    for each in candidates:
        if each["nic"]:
            place = "RDMA device %(device)s port %(port)s, %(interface)s" % each
            nics.setdefault(each["nic"], [place]).append(each["address"])
    if not nics:
        nics["nic0"] = ["none of the RDMA devices can be used" if candidates else "via_lo, as there is no RDMA device"]
    for name, words in nics.items():
        if name not in others:
            say("%s: %s" % (name, ", ".join(words)))


def bad_names(held, mapped, libraries, nic_map):
    """Prints what each name means that is mapped or in the program, and returns those that open no NIC. A program tries its
    names in turn, so one of them that opens is enough."""
    wanted = held[:MOST_NAMED] or list(mapped) or ["nic0"]
    means = {name: machine.opened(name, libraries, nic_map) for name in dict.fromkeys([*mapped, *wanted])}
    means = {name: meaning for name, meaning in means.items() if meaning}  # else vip_info does not tell
    for name, (words, _) in means.items():
        if held or mapped:
            say("%s%s: %s" % (shown(name), ", in the program" * (name in held), words))
    bad = [name for name, (_, opens) in means.items() if not opens]
    some_open = any(name not in bad for name in wanted if name in means)
    return ["%s: %s" % (shown(name), means[name][0]) for name in bad if name in mapped or not some_open]


def lacks_of_machine(elf, held, libraries, nic_map):
    """Returns what the machine lacks, and whether it has RDMA devices, or the program needs none."""
    mapped = dict(entry.split("=", 1) for entry in reversed(nic_map.split(",")) if "=" in entry)  # the first of a name counts
    is_local = all(machine.is_loopback(mapped.get(name, name)) for name in held or list(mapped) or ["nic0"])
    looked = None if is_local else machine.look(libraries)
    candidates, problems = (looked["candidates"], looked["problems"]) if looked else ([], [])
    if looked:
        print_numbered(candidates, {*mapped, *held})
    lacks = bad_names(held, mapped, libraries, nic_map)
    if not is_local and machine.lacks_drivers(elf):
        complain("note: %s (Debian: apt-get install ibverbs-providers:i386; RPM systems: libibverbs.i686)" % machine.NO_DRIVERS)
        lacks += [machine.NO_DRIVERS] * bool(candidates)
    for each in problems:
        complain("note: %(problem)s\n%(remedy)s" % each)
        lacks += [each["problem"]] * (each["about"] == "memory" and bool(candidates))
    return lacks, is_local or not looked or bool(candidates)


def judge(path, elf, is_script, libraries, directory, environment, preload, lacks):
    """Prints how the program would be run, and the verdict. `lacks` has what is known to be missing. Returns the exit status."""
    kind = "a script" if is_script else "damaged"
    if elf:
        kind = "%d bits, %s with VIPL" % (elf.bits, "linked" if elf.imports_vipl else "not linked")
    say("program: %s, %s" % (shown(path), kind),
        *("%s=%s" % (variable, shown(environment[variable])) for variable in ("LD_LIBRARY_PATH", "LD_PRELOAD", "VIPL_NIC_MAP")
          if variable in environment))
    said, text = "", read(path) if elf else b""
    if directory and elf.interpreter and os.access(elf.interpreter, os.X_OK):
        said = trace(path, elf, environment)
        for each in said, trace(directory + "/libvipl.so.1", elf, environment):
            lacks += [one for one in lacks_of_file(each, elf) if one not in lacks]
        lacks += ["it has auditors (DT_AUDIT, DT_DEPAUDIT), which would run if its libraries were looked for"] * elf.has_auditors
    if is_script:
        lacks += lacks_of_script(path, preload)
    lacks += low_limits()
    more, has_rdma = lacks_of_machine(elf, names_held(text), libraries, environment.get("VIPL_NIC_MAP", ""))
    lacks += more
    if lacks:
        say("not ready: " + "; ".join(lacks))
        return NOT_READY
    remarks = [doubt(elf, text, said, preload), None if has_rdma else "for this machine only: there is no RDMA device"]
    if elf and not is_gnus(elf.interpreter):
        remarks.append("its libraries were not looked for, as %s is not GNU's dynamic linker" % shown(elf.interpreter))
    say(", but ".join(["ready", "; ".join(filter(None, remarks))]).removesuffix(", but "))
    return READY
