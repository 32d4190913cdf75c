#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What the conformance tests prove, for the program and for the documentation, checked.

usage: requirements.py source OUTPUT        write it as C++, for the program
       requirements.py document PAGE OUTPUT  write PAGE with the table in its place
       requirements.py tests PROGRAM        see whether each test of the program is in the table, and the reverse

The comment above a test ends with its requirement of VIA, in our own words:

    // [level: Function...] One or more sentences.

The functions are those under test; * if the test's parameter is a function. The levels are early (adopter),
functional and full. Each includes the levels before it. An addition is a function that VIA does not have, or a
behaviour that it does not define. The chapter is the beginning of a file's first comment, and the files are in the
order in which CMakeLists.txt lists them.
"""

import argparse
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LEVELS = ["early", "functional", "full", "addition"]  # the last one is not a level of VIA
AT_LEAST = {"early": 34, "functional": 134, "full": 156}  # tests of each level and those before it
PLACE = "<!-- the table -->\n"

# The first level at which a library has to have a function. The additions are Giganet's.
FUNCTIONS = {
    "early": """VipOpenNic VipCloseNic VipQueryNic VipErrorCallback VipCreatePtag VipDestroyPtag VipRegisterMem
        VipDeregisterMem VipCreateVi VipDestroyVi VipQueryVi VipConnectWait VipConnectAccept VipConnectReject
        VipConnectRequest VipDisconnect VipPostSend VipSendDone VipSendWait VipPostRecv VipRecvDone VipRecvWait""",
    "functional": """VipQueryMem VipSetMemAttributes VipSetViAttributes VipConnectPeerRequest VipConnectPeerDone
        VipConnectPeerWait VipSendNotify VipRecvNotify VipCreateCQ VipDestroyCQ VipCQDone VipCQWait VipCQNotify
        VipNSInit VipNSGetHostByName VipNSGetHostByAddr VipNSShutdown""",
    "full": "VipResizeCQ VipQuerySystemManagementInfo",
    "addition": "VipGetUserData VipSetUserData VipAddTagCQ VipRemoveTagCQ VipPostDeferredSends",
}
LEVEL_OF = {name: level for level, names in FUNCTIONS.items() for name in names.split()}

# A test with the comment above it, whose last part is the requirement.
TEST = re.compile(r"((?:^//.*\n)*)^TEST(?:_[FP])?\((\w+), (\w+)\)", re.M)
REQUIREMENT = re.compile(r"(?:^|\n)\[(\w+): ([^\]]+)\]\s((?:.|\n)+\.)$")


class Mistake(Exception):
    pass


class Requirement:
    def __init__(self, chapter, test, comment):
        found = REQUIREMENT.search(re.sub(r"^// ?", "", comment, flags=re.M).rstrip("\n"))
        if not found:
            raise Mistake("%s has no requirement, or none that ends" % test)
        self.chapter, self.test, self.level = chapter, test, found.group(1)
        self.functions, self.sentence = found.group(2).split(), " ".join(found.group(3).split())
        if self.level not in LEVELS:
            raise Mistake("%s: there is no level %r" % (test, self.level))
        for function in self.functions:
            if function != "*" and function not in LEVEL_OF:
                raise Mistake("%s: %s is no function" % (test, function))
            if LEVELS.index(LEVEL_OF.get(function, "early")) > LEVELS.index(self.level):
                raise Mistake("%s is of a higher level than %s" % (function, test))


def read(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return file.read()


def table():
    """Returns the requirements of all tests, in the order of chapters."""
    requirements = []
    for name in re.search(r"set\(tests ([^)]+)\)", read("CMakeLists.txt")).group(1).split():
        text = read(name + ".cpp")
        chapter = re.search(r"\n// ([^.:]+)[.:]", text).group(1)
        for comment, suite, test in TEST.findall(text):
            requirements.append(Requirement(chapter, suite + "." + test, comment))
    return requirements


def included(one, other):
    if "addition" in (one, other):
        return one == other
    return LEVELS.index(one) <= LEVELS.index(other)


def tests_of(requirements, level):
    """Returns the tests of the level and of the levels before it. For an addition it returns only its own."""
    return [r.test for r in requirements if included(r.level, level)]


def title(level):
    return "early adopter" if level == "early" else level


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def tables(functions, requirements):
    """Returns the two tables of runner/requirements.cpp."""
    lines = ["static const std::vector<Function> functionTable = {"]
    lines += ["\t{%s, Level::%s}," % (quoted(name), level.capitalize()) for name, level in functions.items()]
    lines += ["};", "static const std::vector<Requirement> requirementTable = {"]
    for test, level, *texts in requirements:
        lines.append("\t{%s, Level::%s, %s, %s, %s}," % (quoted(test), level.capitalize(), *map(quoted, texts)))
    return "\n".join(lines) + "\n};\n"


def source(requirements):
    return tables(LEVEL_OF, ((r.test, r.level, " ".join(r.functions), r.sentence, r.chapter) for r in requirements))


def document(requirements):
    lines = ["", "| level, with those before | tests | functions |", "| --- | --- | --- |"]
    for level in LEVELS:
        functions = [name for name, of in LEVEL_OF.items() if included(of, level)]
        lines.append("| %s | %d | %d |" % (title(level), len(tests_of(requirements, level)), len(functions)))
    rows = ((r.chapter, r.sentence, title(r.level), "`%s`" % r.test) for r in requirements)
    return "\n".join(lines) + "\n" + chapters(["what a library does", "level", "test"], rows)


def chapters(head, rows):
    """Returns a table for each chapter. A row begins with its chapter and a sentence."""
    lines, chapter = [], None
    for now, sentence, *others in rows:
        if now != chapter:
            chapter = now
            lines += ["", "### " + chapter, "", "| %s |" % " | ".join(head), "|" + " --- |" * len(head)]
        lines.append("| %s |" % " | ".join([sentence.replace("|", "\\|"), *others]))
    return "\n".join(lines) + "\n\n"


def write_document(text, page, output):
    with open(page, encoding="utf-8") as file:
        parts = file.read().split(PLACE)
    if len(parts) != 2:
        raise Mistake("%s does not say where the table goes" % page)
    with open(output, "w", encoding="utf-8") as file:
        file.write(text.join(parts))


def listed(program):
    """Returns the tests of the program, without prefixes and parameters."""
    output = subprocess.run(
        [program, "--gtest_list_tests"], check=True, stdout=subprocess.PIPE, universal_newlines=True
    ).stdout
    tests, suite = set(), None
    for line in output.splitlines():
        name = line.split("#")[0].strip()
        if not line.startswith(" "):
            suite = name.split("/")[-1]
        else:
            tests.add(suite + name.split("/")[0])
    return tests


def check_tests(requirements, program):
    named, used = [r.test for r in requirements], {f for r in requirements for f in r.functions}
    wrong = ["%s is in one of the program and the table" % test for test in sorted(listed(program) ^ set(named))]
    wrong += ["%s is there twice" % test for test in set(named) if named.count(test) > 1]
    wrong += ["%s has no test" % function for function in LEVEL_OF if function not in used]
    for level in LEVELS:
        count = len(tests_of(requirements, level))
        if count < AT_LEAST.get(level, 0):
            wrong.append("only %d tests at level %s" % (count, level))
        print("%s: %d tests" % (title(level), count))
    if wrong:
        raise Mistake("\n".join(wrong))


def run(read, source, document, check_tests, programs):
    """The command line of both tables. The tests are in that many `programs`."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("source").add_argument("output")
    documents = commands.add_parser("document")
    documents.add_argument("page")
    documents.add_argument("output")
    commands.add_parser("tests").add_argument("program", nargs=programs)
    arguments = parser.parse_args()
    try:
        table = read()
        if arguments.command == "source":
            with open(arguments.output, "w", encoding="utf-8") as file:
                file.write(source(table))
        elif arguments.command == "document":
            write_document(document(table), arguments.page, arguments.output)
        else:
            check_tests(table, *arguments.program)
    except Mistake as mistake:
        print("%s: %s" % (os.path.basename(sys.argv[0]), mistake), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(run(table, source, document, check_tests, 1))
