#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""man3_forms.py SOURCES: checks that each function has its manual page, and that libvipl/man3.py
refuses a comment of vipl.h if a page would lack a part of it."""

import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # tests leave the sources alone
SOURCES = pathlib.Path(sys.argv.pop(1))
spec = importlib.util.spec_from_file_location("man3", SOURCES / "libvipl/man3.py")
man3 = importlib.util.module_from_spec(spec)
spec.loader.exec_module(man3)

RELEASE = "1.2", "2001-02-03"
HEADER = (SOURCES / "include/vipl.h").read_text(encoding="utf-8")
FIRST = f"""/*
 * vipl.h - about it,
 * in two lines.
 *
 * What it is.
 *
 * {man3.COMMON}
 *
 * Lengths    In bytes.
 */

/* ======== */
/* Chapter  */
/* ======== */

"""
COMMENT = """/*
 * VipOne - do one.     VIPL: some chapter
 *
 * Calls VipTwo, -1 times.
 *
 *   VIP_SUCCESS   done, or
 *                 done before
 *   VIP_NOT_DONE  not
 *
 * Does not block.  Thread-safe.
 */
"""
PROTOTYPE = "VIP_RETURN VipOne(VIP_VI_HANDLE Vi, VIP_ULONG Two);\n"


def page_of(text):
    return man3.pages_of(FIRST + text, RELEASE)["VipOne"]


class Pages(unittest.TestCase):
    def test_each_function_has_one(self):
        names = re.findall(r"^ *(Vip\w+);", (SOURCES / "libvipl/vipl.map").read_text(), re.M)
        pages = man3.pages_of(HEADER, RELEASE)
        self.assertEqual(sorted(pages), sorted(names + ["vipl"]))
        for name in names:
            self.assertIn(f"\\fB{name}\\fR(3)\n", pages["vipl"])

    def test_a_page_has_all_that_the_comment_says(self):
        text = page_of(COMMENT + PROTOTYPE)
        for part in ('.TH VipOne 3 2001-02-03 "libvipl 1.2" ', "VipOne \\- do one\n",
                     '.B "VIP_RETURN VipOne(VIP_VI_HANDLE Vi,"\n',
                     '.B "                  VIP_ULONG Two);"\n', "\\fBVipTwo\\fR(3), \\-1 times.\n",
                     ".TP\n\\fBVIP_SUCCESS\\fR\ndone, or done before\n",
                     ".TP\n\\fBVIP_NOT_DONE\\fR\nnot\n", "Does not block.  Thread\\-safe.\n",
                     "VIA 1.0, some chapter\n"):
            self.assertIn(part, text)

    def test_the_overview_has_what_holds_for_all(self):
        text = man3.pages_of(FIRST + COMMENT + PROTOTYPE, RELEASE)["vipl"]
        for part in ("What it is.\n", ".TP\nLengths\nIn bytes.\n", '.SS "Chapter"\n',
                     ".TP\n\\fBVipOne\\fR(3)\ndo one\n"):
            self.assertIn(part, text)
        self.assertNotIn("in two lines", text)

    def test_lines_that_begin_like_requests_are_text(self):
        comment = COMMENT.replace("Calls VipTwo", ".TH\n * and")
        self.assertIn("\n\\&.TH\n", page_of(comment + PROTOTYPE))

    def test_other_forms_are_errors(self):
        colon = COMMENT.replace("VipOne - do", "VipOne: do")
        more = COMMENT.replace(" *\n * Does", " *\n * More.\n *\n * Does")
        for what, text in (
                ("no comment", PROTOTYPE),
                ("another way to declare", "extern int *\nVipTwo(void);\n" + COMMENT + PROTOTYPE),
                ("a comment inside", COMMENT + PROTOTYPE.replace("VipOne", "/* out */ VipOne")),
                ("a tab", COMMENT.replace("Calls", "\tCalls") + PROTOTYPE),
                ("no blank behind a star", COMMENT.replace(" * Calls", " *Calls") + PROTOTYPE),
                ("a list whose first line has no word", COMMENT.replace(
                    "  VIP_SUCCESS", "      VIP_SUCCESS") + PROTOTYPE),
                ("a result of which nothing is said", COMMENT.replace("NOT_DONE  not", "NOT_DONE")
                 + PROTOTYPE),
                ("a comment of another form", colon + PROTOTYPE),
                ("of another function", COMMENT + PROTOTYPE.replace("VipOne", "VipTwo")),
                ("nothing of threads", COMMENT.replace("  Thread-safe.", "") + PROTOTYPE),
                ("an empty one", re.sub(r"(?<=some chapter\n)(.*\n)+", " *\n */\n", COMMENT)
                 + PROTOTYPE),
                ("no results", re.sub(r" \*   .*\n", "", COMMENT) + PROTOTYPE),
                ("results of none", COMMENT + PROTOTYPE.replace("VIP_RETURN", "void")),
                ("text behind the results", more + PROTOTYPE)):
            with self.subTest(what), self.assertRaises(man3.FormError):
                page_of(text)

    def test_other_forms_of_the_first_comment_are_errors(self):
        for what, first in (
                ("not what holds for all", FIRST.replace(man3.COMMON, "What else")),
                ("that in another comment", FIRST.replace(f" *\n * {man3.COMMON}",
                                                          f" */\n\n/*\n * {man3.COMMON}")),
                ("no blank behind a star", FIRST.replace(" * What it is", " *What it is")),
                ("something before it", "int one;\n" + FIRST)):
            with self.subTest(what), self.assertRaises(man3.FormError):
                man3.pages_of(first + COMMENT + PROTOTYPE, RELEASE)

    def test_pages_of_before_are_taken_away_and_nothing_else(self):
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            for there in "VipZero.3", "malloc.3":
                (directory / there).write_text("")
            subprocess.run([sys.executable, SOURCES / "libvipl/man3.py",
                            SOURCES / "include/vipl.h", *RELEASE, name], check=True)
            self.assertFalse((directory / "VipZero.3").exists())
            self.assertTrue((directory / "malloc.3").exists())
            self.assertTrue((directory / "VipPostSend.3").stat().st_size)


unittest.main()
