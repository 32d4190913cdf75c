#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What programs rely on that VIA does not speak of: habits.txt, for the program and the documentation, checked.

usage: habits.py source OUTPUT             write it as C++, for vip_legacy
       habits.py document PAGE OUTPUT      write PAGE with the table in its place
       habits.py tests LEGACY PROGRAM...   see whether each test that it names is there, in one of the
                                           programs or in CTest's list for the current directory, and whether
                                           each test of LEGACY is named
"""

import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, "habits.txt")
sys.dont_write_bytecode = True  # a build leaves the sources alone
sys.path.insert(0, os.path.join(HERE, "..", "conformance"))

from requirements import Mistake, chapters, listed, run, tables  # noqa: E402

TEST = re.compile(r"\w+(\.\w+)+$")


class Habit:
    def __init__(self, chapter):
        self.chapter, self.sentence, self.tests = chapter, "", []


def table():
    habits, chapter = [], None
    with open(TABLE, encoding="utf-8") as file:
        for line in (line.rstrip("\n") for line in file):
            if not line or line.startswith("#"):
                continue
            if line.startswith("== "):
                chapter = line[3:]
            elif line[0] in " \t":
                habits[-1].tests += line.split()
            else:
                # A sentence may take several lines. The first test ends it.
                if not habits or habits[-1].tests or habits[-1].chapter != chapter:
                    habits.append(Habit(chapter))
                habits[-1].sentence = (habits[-1].sentence + " " + line).strip()
    for habit in habits:
        if not habit.chapter or not habit.tests or not habit.sentence.endswith("."):
            raise Mistake("no chapter, no test, or no end: %s" % habit.sentence)
        for test in habit.tests:
            if not TEST.match(test):
                raise Mistake("%s: no test is called so" % test)
    return habits


def source(habits):
    first = {}  # of the habits of a test
    for habit in habits:
        for test in habit.tests:
            first.setdefault(test, habit)
    return tables({}, ((test, "addition", "", habit.sentence, habit.chapter) for test, habit in first.items()))


def document(habits):
    rows = ((habit.chapter, habit.sentence, ", ".join("`%s`" % test for test in habit.tests)) for habit in habits)
    return chapters(["what programs do", "tests"], rows)


def in_ctest():
    output = subprocess.run(
        ["ctest", "-N"], check=True, stdout=subprocess.PIPE, universal_newlines=True
    ).stdout
    return set(re.findall(r"^ *Test +#\d+: (\S+)$", output, re.M))


def check_tests(habits, legacy, *programs):
    named = {test for habit in habits for test in habit.tests}
    own = listed(legacy)
    there = own.union(in_ctest(), *(listed(program) for program in programs))
    wrong = ["%s is in no entry" % test for test in sorted(own - named)]
    wrong += ["%s is no test" % test for test in sorted(named - there)]
    print("%d habits, %d tests, %d of them here" % (len(habits), len(named), len(own)))
    if wrong:
        raise Mistake("habits.txt:\n" + "\n".join(wrong))


if __name__ == "__main__":
    sys.exit(run(table, source, document, check_tests, "+"))
