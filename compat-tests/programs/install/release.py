#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""release.py SOURCES: checks that the version and its date are the same wherever they stand, and that each manual
page that man3.py does not make has them."""

import datetime
import pathlib
import re
import sys
import unittest

SOURCES = pathlib.Path(sys.argv.pop(1))


def found(form, path):
    """What the group of the form is where the form first matches in the file."""
    match = re.search(form, (SOURCES / path).read_text(encoding="utf-8"), re.M)
    if not match:
        raise AssertionError(f"{path} has nothing like {form}")
    return match[1]


def iso(text, form):
    return datetime.datetime.strptime(text, form).date().isoformat()


class Release(unittest.TestCase):
    def test_its_version_is_the_same_everywhere(self):
        version = found(r"^project\(libvipl VERSION (\S+)", "CMakeLists.txt")
        self.assertEqual(found(r"^libvipl \((.*?)\)", "debian/changelog"), version)
        self.assertEqual(found(r"^## (.*?),? ", "CHANGELOG.md"), version)
        self.assertEqual(found(r"^Version: *(\S+)", "packaging/libvipl.spec"), version)
        self.assertEqual(found(r"^%changelog\n\*.* - (\S+)-1$", "packaging/libvipl.spec"), version)

    def test_its_date_is_the_same_everywhere(self):
        date = found(r"^set\(RELEASE_DATE (\S+)\)", "CMakeLists.txt")
        self.assertEqual(iso(found(r"^## .*?, (.*)", "CHANGELOG.md"), "%d %B %Y"), date)
        self.assertEqual(iso(found(r"^ -- .*>  \w+, (.*) \d\d:", "debian/changelog"), "%d %b %Y"), date)
        self.assertEqual(iso(found(r"^%changelog\n\* \w+ (\w+ \d+ \d+) ", "packaging/libvipl.spec"), "%b %d %Y"), date)

    def test_each_page_has_both(self):
        pages = [SOURCES / "docs/vipl.7", *SOURCES.glob("apps/*/*.1")]
        self.assertGreater(len(pages), 1)
        for page in pages:
            head = found(r"^\.TH (.*)$", page)
            self.assertRegex(head, r'^[A-Z_]+ [17] @RELEASE_DATE@ "libvipl @PROJECT_VERSION@" "[^"]+"$', page)


unittest.main()
