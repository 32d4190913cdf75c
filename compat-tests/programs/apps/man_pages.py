#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Manual pages: they describe the options that programs tell of with --help, and have no others.

usage: man_pages.py (PROGRAM PAGE)...

What describes an option has it in its tag, the line after .TP: an example is not enough. Of a program with
subcommands all their options count, and each of them has to have a part of its own in the page. Hyphens of
options are escaped in a page (\\-\\-help): others look alike, and cannot be copied.
"""

import re
import subprocess
import sys
import unittest
from pathlib import Path

# CLI11 writes this word in capitals from 2.5 on.
SUBCOMMANDS = re.compile(r"^Subcommands:\n((?: .*\n?)+)", re.M | re.I)
OPTION = r"(?<![\w\\-])(?:%s){1,2}[A-Za-z0-9](?:\w|%s(?=\w))*"
IN_HELP = re.compile(OPTION % ("-", "-"))
# Also finds options that are not escaped, which are errors.
IN_PAGE = re.compile(OPTION % (r"\\?-", r"\\?-"))
COMMENT = re.compile(r"(?:^[.'] *)?\\\".*", re.M)
FONT = re.compile(r"\\f(?:\(..|\[.*?\]|.)")
TAG = re.compile(r"^\.TP\b.*\n(.+)", re.M)
PART = re.compile(r"^\.SS +(.+)", re.M)


def help_of(*command):
    done = subprocess.run([*command, "--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0 and IN_HELP.search(done.stdout), (command, done)
    return done.stdout


def subcommands_of(text):
    """A line of the list begins each subcommand. Its description may go on in further lines, which begin
    farther right."""
    if not re.search("^Subcommands:", text, re.M | re.I):
        return []
    found = SUBCOMMANDS.search(text)
    names = re.findall(r"^  (\w+)", found[1], re.M) if found else []
    assert names, "there are subcommands, and it is not told which"
    return names


class ManPages(unittest.TestCase):
    def test_each_describes_the_options_of_its_program_and_no_others(self):
        for program, page in zip(sys.argv[1::2], sys.argv[2::2]):
            with self.subTest(page):
                self.check(program, FONT.sub("", COMMENT.sub("", Path(page).read_text(encoding="utf-8"))))

    def check(self, program, text):
        helps = [help_of(program)]
        subcommands = subcommands_of(helps[0])
        helps += [help_of(program, subcommand) for subcommand in subcommands]
        told = {option.replace("-", "\\-") for help in helps for option in IN_HELP.findall(help)}
        described = set(IN_PAGE.findall("\n".join(TAG.findall(text))))
        self.assertEqual([], sorted(told - described), "options that the page does not describe")
        self.assertEqual([], sorted(set(IN_PAGE.findall(text)) - told), "options that no --help has")
        self.assertLessEqual(set(subcommands), set(PART.findall(text)), "subcommands without a part of the page")


unittest.main(argv=sys.argv[:1])
