#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""links.py SOURCES: checks that the targets of the documents' links exist, files as well as
headings."""

import pathlib
import re
import sys
import unittest

SOURCES = pathlib.Path(sys.argv.pop(1)).resolve()
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ +(.*?) *$", re.M)
CODE = re.compile(r"^```.*?^```$|^(?: {4}|\t)[^\n]*$|`[^`\n]*`", re.M | re.S)


def anchors(path):
    """Returns GitHub's anchors of the headings: small letters, hyphens for blanks, and no other
    signs."""
    headings = HEADING.findall(path.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


class Links(unittest.TestCase):
    def test_each_leads_somewhere(self):
        count = 0
        for page in [*SOURCES.glob("*.md"), *SOURCES.glob("docs/*.md")]:
            for file, anchor in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
                target = page.parent / file if file else page
                with self.subTest(page=page.name, link=file, anchor=anchor):
                    self.assertTrue(target.exists())
                    self.assertTrue(target.resolve().is_relative_to(SOURCES))
                    if anchor:
                        self.assertIn(anchor, anchors(target))
                count += 1
        self.assertGreater(count, 50)


unittest.main()
