#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What the conformance tests prove: requirements.txt, for the program, for the documentation, checked.

usage: requirements.py source OUTPUT        write it as C++, for the program
       requirements.py document PAGE OUTPUT  write PAGE with the table in its place
       requirements.py tests PROGRAM        see whether each test has its entry, and each entry its test
"""

import argparse
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, "requirements.txt")
LEVELS = ["early", "functional", "full", "addition"]  # the last one is not a level of VIA
IDENTIFIERS = ["EarlyAdopter", "Functional", "Full", "Addition"]
TITLES = ["early adopter", "functional", "full", "addition"]
AT_LEAST = {"early": 34, "functional": 134, "full": 156}  # tests of each level and those before it
PLACE = "<!-- the table -->\n"

FUNCTION = re.compile(r"(Vip\w+) (\w+)$")
TEST = re.compile(r"(\w+\.\w+) (\w+) (.+)$")


class Mistake(Exception):
    pass


class Requirement:
    def __init__(self, chapter, test, level, functions):
        self.chapter, self.test, self.level, self.functions = chapter, test, level, functions
        self.sentence = ""


class Table:
    def __init__(self, path):
        self.chapters, self.functions, self.tests = [], {}, {}
        last = None
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                try:
                    last = self.take(line.rstrip("\n"), last)
                except Mistake as mistake:
                    raise Mistake("%s:%d: %s" % (os.path.basename(path), number, mistake))
        for requirement in self.tests.values():
            if not requirement.sentence.endswith("."):
                raise Mistake("%s: no sentence, or none that ends" % requirement.test)

    def take(self, line, last):
        if not line or line.startswith("#"):
            return last
        if line.startswith("== "):
            self.chapters.append(line[3:])
            return None
        if line[0] in " \t":
            if not last:
                raise Mistake("a sentence without a test")
            last.sentence = (last.sentence + " " + line.strip()).strip()
            return last
        function, test = FUNCTION.match(line), TEST.match(line)
        if function:
            self.add_function(*function.groups())
            return None
        if test:
            return self.add_test(*test.groups())
        raise Mistake("neither a chapter, a function, a test nor a sentence")

    def add_function(self, name, level):
        if level not in LEVELS:
            raise Mistake("there is no level %r" % level)
        if name in self.functions:
            raise Mistake("%s is here twice" % name)
        self.functions[name] = level

    def add_test(self, name, level, functions):
        if level not in LEVELS:
            raise Mistake("there is no level %r" % level)
        if not self.chapters:
            raise Mistake("a test before the first chapter")
        if name in self.tests:
            raise Mistake("%s is here twice" % name)
        for function in functions.split():
            if function == "*":
                continue
            if function not in self.functions:
                raise Mistake("%s is no function" % function)
            if LEVELS.index(self.functions[function]) > LEVELS.index(level):
                raise Mistake("%s is of a higher level than %s" % (function, name))
        self.tests[name] = Requirement(self.chapters[-1], name, level, functions.split())
        return self.tests[name]

    def tests_of(self, level):
        """Returns the tests of the level and of the levels before it. For an addition it returns only
        its own."""
        return [r.test for r in self.tests.values() if included(r.level, level)]

    def functions_of(self, level):
        return [name for name, of in self.functions.items() if included(of, level)]


def included(one, other):
    if "addition" in (one, other):
        return one == other
    return LEVELS.index(one) <= LEVELS.index(other)


def title(level):
    return TITLES[LEVELS.index(level)]


def identifier(level):
    return IDENTIFIERS[LEVELS.index(level)]


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def source(table):
    lines = ["// Made from requirements.txt by requirements.py."]
    for name, level in table.functions.items():
        lines.append("VIA_FUNCTION(%s, %s)" % (name, identifier(level)))
    for r in table.tests.values():
        lines.append(
            "VIA_REQUIREMENT(%s, %s, %s, %s, %s)"
            % (
                quoted(r.test),
                identifier(r.level),
                quoted(" ".join(r.functions)),
                quoted(r.sentence),
                quoted(r.chapter),
            )
        )
    return "\n".join(lines) + "\n"


def document(table):
    lines = ["", "| level, with those before | tests | functions |", "| --- | --- | --- |"]
    for level in LEVELS:
        tests, functions = table.tests_of(level), table.functions_of(level)
        if tests:
            lines.append("| %s | %d | %d |" % (title(level), len(tests), len(functions)))
    for chapter in table.chapters:
        lines += ["", "### " + chapter, "", "| what a library does | level | test |", "| --- | --- | --- |"]
        for r in table.tests.values():
            if r.chapter == chapter:
                sentence = r.sentence.replace("|", "\\|")
                lines.append("| %s | %s | `%s` |" % (sentence, title(r.level), r.test))
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


def check_tests(table, program):
    tests = listed(program)
    wrong = ["%s has no entry" % test for test in sorted(tests - set(table.tests))]
    wrong += ["%s is no test" % test for test in table.tests if test not in tests]
    used = {f for r in table.tests.values() for f in r.functions}
    wrong += ["%s has no test" % f for f in table.functions if f not in used]
    for level in LEVELS:
        count = len(table.tests_of(level))
        if count < AT_LEAST.get(level, 0):
            wrong.append("only %d tests at level %s" % (count, level))
        print("%s: %d tests" % (title(level), count))
    if wrong:
        raise Mistake("requirements.txt:\n" + "\n".join(wrong))


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
    sys.exit(run(lambda: Table(TABLE), source, document, check_tests, 1))
