#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""settings.py SOURCES: checks that vipl.h and vipl(7) have exactly the settings of libvipl's table, with the
same defaults and limits, and that the documents name no other setting."""

import pathlib
import re
import sys
import unittest

SOURCES = pathlib.Path(sys.argv.pop(1))
ROW = re.compile(r'^\t\{"(?P<name>\w+)", (?:"(?P<words>[^"]*)"|NULL), (?P<text>[\w.]+), (?P<number>[&\w.]+), '
                 r"(?P<initial>\w+), (?P<most>[^}]+)\},$", re.M)
TEXT_DEFAULT = re.compile(r'current = \{\.(\w+) = "([^"]*)"\}')
ENTRY = re.compile(r"^\.TP\n\.B (VIPL_\w+)\n(.+); default:? (.+)\.$", re.M)
NAME = re.compile(r"\bVIPL_[A-Z_]+\b")


def read(path):
    return path.read_text(encoding="utf-8")


def table():
    """Returns the settings in config.c: each setting by name, and the text of a manual page about its values."""
    source, = (SOURCES / "libvipl").rglob("config.c")
    text = read(source)
    text_defaults = dict(TEXT_DEFAULT.findall(text))
    found, others = {}, set()
    rows = list(ROW.finditer(text))
    if len(rows) != len(re.findall(r'^\t\{"', text, re.M)) or not rows:
        raise ValueError(f"{source}: a row of the table has another form")
    for row in rows:
        name = "VIPL_" + row["name"]
        if row["text"] == row["number"] == "NULL":
            others.add(name)  # for the test programs
        elif row["words"]:
            words = row["words"].split()
            initial = row["initial"].lower().split("_")[-1]
            default = words[int(initial)] if initial.isdigit() else initial
            found[name] = (" or ".join([", ".join(words[:-1]), words[-1]]), default)
        elif row["text"] != "NULL":
            found[name] = (None, text_defaults.get(row["text"].split(".")[1], "none"))
        else:
            found[name] = (f"0 to {row['most']}", row["initial"])
    return found, others


class Settings(unittest.TestCase):
    def setUp(self):
        self.known, self.others = table()

    def test_the_header_lists_each(self):
        header = read(SOURCES / "include/vipl.h")
        listed = re.search(r"^ \* Settings   ((?:.*\n)*?) \*/", header, re.M)[1]
        self.assertEqual(sorted(NAME.findall(listed)), sorted(self.known))

    def test_the_manual_page_has_each_with_its_default_and_its_limits(self):
        entries = {name: entry for name, *entry in ENTRY.findall(read(SOURCES / "docs/vipl.7"))}
        self.assertEqual(sorted(entries), sorted(self.known))
        for name, (values, default) in self.known.items():
            with self.subTest(name):
                self.assertEqual(entries[name][1], default)
                if values:
                    self.assertTrue(entries[name][0].endswith(values), entries[name][0])

    def test_documents_and_manual_pages_name_no_others(self):
        pages = [*SOURCES.glob("*.md"), *SOURCES.glob("docs/*.md"), *SOURCES.glob("docs/*.7"),
                 *SOURCES.glob("apps/**/*.1")]
        self.assertGreater(len(pages), 10)
        for page in pages:
            names = {name for name in NAME.findall(read(page)) if not name.startswith("VIPL_BUILD_")}
            self.assertLessEqual(names, {*self.known, *self.others}, page)


unittest.main()
