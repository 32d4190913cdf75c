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


class Mistake(Exception):
    pass


def help_of(*command):
    done = subprocess.run(
        [*command, "--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30
    )
    if done.returncode or not IN_HELP.search(done.stdout):
        raise Mistake("%s --help: status %d, or no options" % (" ".join(command), done.returncode))
    return done.stdout


def subcommands_of(text):
    """A line of the list begins each subcommand. Its description may go on in further lines, which begin
    farther right."""
    if not re.search("^Subcommands:", text, re.M | re.I):
        return []
    found = SUBCOMMANDS.search(text)
    names = re.findall(r"^  (\w+)", found[1], re.M) if found else []
    if not names:
        raise Mistake("there are subcommands, and it is not told which")
    return names


def check(program, page):
    with open(page, encoding="utf-8") as file:
        text = FONT.sub("", COMMENT.sub("", file.read()))
    helps = [help_of(program)]
    subcommands = subcommands_of(helps[0])
    helps += [help_of(program, subcommand) for subcommand in subcommands]
    told = {option.replace("-", "\\-") for help in helps for option in IN_HELP.findall(help)}
    written = set(IN_PAGE.findall(text))
    described = set(IN_PAGE.findall("\n".join(TAG.findall(text))))
    wrong = ["it does not describe " + option for option in sorted(told - described)]
    wrong += ["no --help has its " + option for option in sorted(written - told)]
    wrong += ["it has no part " + name for name in subcommands if name not in PART.findall(text)]
    print("%s: %d options, %d subcommands" % (page, len(told), len(subcommands)))
    return wrong


failed = 0
for program, page in zip(sys.argv[1::2], sys.argv[2::2]):
    try:
        wrong = check(program, page)
    except (Mistake, OSError, ValueError, subprocess.SubprocessError) as error:
        wrong = [str(error)]
    for sentence in wrong:
        print("FAILED: %s: %s" % (page, sentence))
        failed = 1
sys.exit(failed)
