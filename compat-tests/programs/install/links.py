#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""links.py SOURCES: checks that the targets of the documents' links exist, files as well as headings, and that all
files, sources and manual pages too, name only documents and chapters that exist: docs/X.md, *Chapter*."""

import pathlib
import re
import sys
import unittest

SOURCES = pathlib.Path(sys.argv.pop(1)).resolve()
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ +(.*?) *$", re.M)
# A document, perhaps as a link, and perhaps a chapter of it.
REFERENCE = re.compile(r"(?<![\w./-])(?:\[)?((?:\.\./|docs/)?[A-Z][A-Z_]+\.md)(?:\]\([^)]*\))?(?:,\s\*([^*]+)\*)?")
FOLDERS = ("apps", "compat-tests", "debian", "docs", "include", "libvipl", "packaging", "tools", ".")
TEXTS = {"", ".1", ".7", ".c", ".cpp", ".h", ".in", ".md", ".py", ".sh", ".spec", ".txt"}
CODE = re.compile(r"^```.*?^```$|^(?: {4}|\t)[^\n]*$|`[^`\n]*`", re.M | re.S)


def anchors(path):
    """Returns GitHub's anchors of the headings: small letters, hyphens for blanks, and no other
    signs."""
    headings = HEADING.findall(path.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def texts():
    """Yields each file of the sources that people read, and its text as one line."""
    for folder in FOLDERS:
        for path in (SOURCES / folder).glob("*" if folder == "." else "**/*"):
            parts = path.relative_to(SOURCES).parts
            if path.suffix in TEXTS and path.is_file() and not {"corpus", "build"} & set(parts):
                text = path.read_text(encoding="utf-8", errors="replace")
                # A reference may go on in the next line of a comment, or of a string.
                yield path, re.sub(r'"?\n[ \t]*(?:(?:\*|#|//)(?!\*)[ \t]+)?"?', " ", text)


def documents(path, name):
    """Returns the documents that the name may mean in this file."""
    return [folder / name for folder in (SOURCES, SOURCES / "docs", path.parent) if (folder / name).is_file()]


def chapters(path):
    return {re.sub(r"[`*]", "", heading) for heading in HEADING.findall(path.read_text(encoding="utf-8"))}


class References(unittest.TestCase):
    def test_each_names_a_document_and_a_chapter(self):
        named, of_chapters = 0, 0
        for path, text in texts():
            for name, chapter in REFERENCE.findall(text):
                with self.subTest(path=str(path.relative_to(SOURCES)), document=name, chapter=chapter):
                    found = documents(path, name)
                    self.assertTrue(found, "no such document")
                    if chapter:
                        self.assertTrue(any(chapter in chapters(one) for one in found), "no such chapter")
                named, of_chapters = named + 1, of_chapters + bool(chapter)
        self.assertGreater(named, 80)
        self.assertGreater(of_chapters, 10)


class Figures(unittest.TestCase):
    def test_each_is_in_a_document(self):
        pages = "".join(path.read_text(encoding="utf-8") for path in (*SOURCES.glob("*.md"), *SOURCES.glob("docs/*.md")))
        figures = {path.name for path in (SOURCES / "docs/figures").iterdir()}
        self.assertEqual({name for name in figures if name not in pages}, set())


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
