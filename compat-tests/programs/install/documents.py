#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""documents.py SOURCES: checks what the documents, the manual pages and the sources say of each other.

The targets of the documents' links exist, files as well as headings, and all files name only documents and chapters that
exist: docs/X.md, *Chapter*. vipl.h and vipl(7) have exactly the settings of libvipl's table, with the same defaults and
limits, and the documents name no other setting. OPERATING.md tells of each code what to do. The version and its date are the same wherever they stand, and each
manual page that man3.py does not make has them."""

import datetime
import pathlib
import re
import sys
import unittest

SOURCES = pathlib.Path(sys.argv.pop(1)).resolve()


def read(path):
    return path.read_text(encoding="utf-8")


# --- links

PAGES = [*SOURCES.glob("*.md"), *SOURCES.glob("docs/*.md")]
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
    headings = HEADING.findall(read(path))
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
    return {re.sub(r"[`*]", "", heading) for heading in HEADING.findall(read(path))}


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
        pages = "".join(map(read, PAGES))
        figures = {path.name for path in (SOURCES / "docs/figures").iterdir()}
        self.assertEqual({name for name in figures if name not in pages}, set())


class Links(unittest.TestCase):
    def test_each_leads_somewhere(self):
        count = 0
        for page in PAGES:
            for file, anchor in LINK.findall(CODE.sub("", read(page))):
                target = page.parent / file if file else page
                with self.subTest(page=page.name, link=file, anchor=anchor):
                    self.assertTrue(target.exists())
                    self.assertTrue(target.resolve().is_relative_to(SOURCES))
                    if anchor:
                        self.assertIn(anchor, anchors(target))
                count += 1
        self.assertGreater(count, 50)


# --- settings

ROW = re.compile(r'^\t\{"(?P<name>\w+)", (?:"(?P<words>[^"]*)"|NULL), (?P<text>[\w.]+), (?P<number>[&\w.]+), '
                 r"(?P<initial>\w+), (?P<most>[^}]+)\},$", re.M)
TEXT_DEFAULT = re.compile(r'current = \{\.(\w+) = "([^"]*)"\}')
ENTRY = re.compile(r"^\.TP\n\.B (VIPL_\w+)\n(.+); default:? (.+)\.$", re.M)
NAME = re.compile(r"\bVIPL_[A-Z_]+\b")


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
        pages = [*PAGES, *SOURCES.glob("docs/*.7"), *SOURCES.glob("apps/**/*.1")]
        self.assertGreater(len(pages), 10)
        for page in pages:
            names = {name for name in NAME.findall(read(page)) if not name.startswith("VIPL_BUILD_")}
            self.assertLessEqual(names, {*self.known, *self.others}, page)


# --- codes

NUMBERED = re.compile(r"^(?:\t|#define )(VIP_\w+?)(?: = |\s+)(0x[0-9a-fA-F]+|\d+)\b(?!\.)", re.M)


class Codes(unittest.TestCase):
    def test_each_that_a_program_can_print_has_a_row(self):
        """VIP_RETURN, VIP_ERROR_CODE and the error bits of a status, with their numbers."""
        header = read(SOURCES / "include/vipl.h")
        kinds = [re.search(r"\{\n((?:\t.*\n)*)\} %s;" % name, header)[1] for name in ("VIP_RETURN", "VIP_ERROR_CODE")]
        bits = "\n".join(re.findall(r"^#define VIP_STATUS_\w+_ERROR .*$", header, re.M))
        codes = [(name, int(value, 0)) for kind in (*kinds, bits) for name, value in NUMBERED.findall(kind) if name != "VIP_SUCCESS"]
        self.assertEqual(len(codes), 17 + 11 + 8)
        rows = read(SOURCES / "docs/OPERATING.md").split("\n## ")[1]
        for name, value in codes:
            with self.subTest(name):
                self.assertIn("`%s`" % name, rows)
                number = hex(value) if "_STATUS_" in name else str(value)
                self.assertRegex(rows, r"`%s`(\*\*)? \(%s\)" % (name, number))


# --- the release

def found(form, path):
    """What the group of the form is where the form first matches in the file."""
    match = re.search(form, read(SOURCES / path), re.M)
    if not match:
        raise AssertionError(f"{path} has nothing like {form}")
    return match[1]


def iso(text, form):
    return datetime.datetime.strptime(text, form).date().isoformat()


class Packages(unittest.TestCase):
    def test_rpms_have_the_data_that_debians_packages_have(self):
        data = {line.partition("usr/share/vipl/")[2] for path in SOURCES.glob("debian/*.install")
                for line in read(path).split() if "usr/share/vipl/" in line}
        spec = read(SOURCES / "packaging/libvipl.spec")
        self.assertEqual(set(re.findall(r"(?m)^%{_datadir}/vipl/(\S+)", spec)), data)


class Release(unittest.TestCase):
    def test_its_version_is_the_same_everywhere(self):
        version = found(r"^project\(libvipl VERSION (\S+)", "CMakeLists.txt")
        self.assertEqual(found(r"^libvipl \((.*?)\)", "debian/changelog"), version)
        self.assertEqual(found(r"^## (.*?),? ", "CHANGELOG.md"), version)
        self.assertEqual(found(r"^Version: *(\S+)", "packaging/libvipl.spec"), version)
        self.assertEqual(found(r"^%changelog\n\*.* - (\S+)-1$", "packaging/libvipl.spec"), version)
        self.assertEqual(found(r"^version: (\S+)$", "CITATION.cff"), version)
        self.assertEqual(found(r"^  version = {(\S+)},$", "docs/papers.bib"), version)

    def test_its_date_is_the_same_everywhere(self):
        date = found(r"^set\(RELEASE_DATE (\S+)\)", "CMakeLists.txt")
        self.assertEqual(iso(found(r"^## .*?, (.*)", "CHANGELOG.md"), "%d %B %Y"), date)
        self.assertEqual(found(r"^date-released: (\S+)$", "CITATION.cff"), date)
        self.assertEqual(iso(found(r"^ -- .*>  \w+, (.*) \d\d:", "debian/changelog"), "%d %b %Y"), date)
        self.assertEqual(iso(found(r"^%changelog\n\* \w+ (\w+ \d+ \d+) ", "packaging/libvipl.spec"), "%b %d %Y"), date)

    def test_each_page_has_both(self):
        pages = [SOURCES / "docs/vipl.7", *SOURCES.glob("apps/*/*.1")]
        self.assertGreater(len(pages), 1)
        for page in pages:
            head = found(r"^\.TH (.*)$", page)
            self.assertRegex(head, r'^[A-Z_]+ [17] @RELEASE_DATE@ "libvipl @PROJECT_VERSION@" "[^"]+"$', page)


unittest.main()
