#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks that tests find their promises in the table of docs/OPERATING.md, without a host."""

import ast
import os
import re
import sys
import unittest

sys.dont_write_bytecode = True
import program  # noqa: E402

HERE = os.path.dirname(os.path.realpath(__file__))
KEY = re.compile(r"[a-z][a-z_0-9%]*(\.[A-Za-z%]+)+")  # as a test writes it, with %s and %d


def keys_of_tests():
    """Returns the keys that the tests have, each as a regular expression for those of the table."""
    found = set()
    for name in ("suite.py", "ends.py", "loopback.py"):
        with open(os.path.join(HERE, name), encoding="utf-8") as file:
            nodes = list(ast.walk(ast.parse(file.read())))
        words = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        found |= {word for word in words if KEY.fullmatch(word)}
    return {word.replace(".", r"\.").replace("%d", r"\d+").replace("%s", "[A-Za-z]+") + r"(\.[ru]c)?"
            for word in found}


class Table(unittest.TestCase):
    def test_times(self):
        for cell, seconds in (("K", 7), ("K + 3, when the network is back at the latest", 10),
                              ("at once then", 0), ("3, at once where the system knows it", 3),
                              ("RC 2, UC K + 3", 10),
                              ("9 + 5 (fixed)", 14), ("the grace time (`VIPL_GRACE_MSEC`, 5)", 5),
                              ("1 at most: 0.5 to 0.7 (fixed)", 1)):
            with self.subTest(cell=cell):
                self.assertEqual(seconds, program.largest_time(cell))
        self.assertRaises(ValueError, program.largest_time, "the call's own time")

    def test_each_key_of_a_test_has_a_row_and_each_row_a_test(self):
        for key, cell in program.table():
            with self.subTest(key=key):
                if cell != "the call's own time":
                    program.largest_time(cell)
        self.assertEqual((10, 0), (program.within("power.idle.rc"), program.within("lo.kill")))
        rows = [key for key, _ in program.table()]
        self.assertEqual(len(rows), len(set(rows)))
        tests = keys_of_tests()
        self.assertEqual([], [test for test in tests if not any(re.fullmatch(test, row) for row in rows)])
        self.assertEqual([], [row for row in rows if not any(re.fullmatch(test, row) for test in tests)])


if __name__ == "__main__":
    unittest.main(verbosity=2)
