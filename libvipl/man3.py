#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""man3.py HEADER VERSION DATE DIRECTORY: manual pages (section 3) from the comments of vipl.h.

Each function has one, from the comment in front of its prototype:

    /*
     * VipName - what it does.                       where VIA has it
     *
     * Paragraphs.
     *
     *   VIP_RESULT   when it is returned, maybe in
     *                several lines
     *
     * Whether it blocks, and may be called by several threads.
     */

vipl(3) has the header's first comment behind the licence's, which holds for all of them, and their list. A comment of
another form is an error: no page may lack a part in silence.

DIRECTORY is made if it is not there. Pages of VIPL that are in it already (Vip*.3, vipl.3) are deleted.
"""

import pathlib
import re
import sys
import textwrap

FUNCTION = re.compile(
    r"^/\*\n \* (?P<name>Vip\w+) - (?P<about>.+?)\.?  +(?P<source>\S.*)\n \*\n"
    r"(?P<comment>(?: \*(?: .*)?\n)*?) \*/\n(?P<prototype>[^/]*?;)\n", re.M)
COMMENTS = re.compile(r"/\*.*?\*/", re.S)
DECLARED = re.compile(r"\b(Vip\w+)\s*\(")
CHAPTER = re.compile(r"^/\* =+ \*/\n/\* (\S.*?) +\*/\n/\* =+ \*/\n", re.M)
COMMON = "What holds for every function"
OVERVIEW = re.compile(rf"(?:/\* SPDX-.* \*/\n)?/\*\n((?: \*(?: .*)?\n)*? \* {COMMON}\n(?: \*(?: .*)?\n)*) \*/\n")


class FormError(Exception):
    pass


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join("\\&" + line if line[:1] in ".'" else line for line in text.split("\n"))


def with_names(text):
    """Functions and constants in bold, functions with their section."""
    text = re.sub(r"\b(Vip[A-Z]\w+)", r"\\fB\1\\fR(3)", escape(text))
    return re.sub(r"\b(VIPL?_[A-Z_0-9]+)\b", r"\\fB\1\\fR", text)


def uncommented(text):
    return [line[3:] for line in text.split("\n")]


def is_list(block):
    return block[0].startswith("  ")


def blocks_of(lines):
    """Paragraphs and lists: an empty line is between them, or that lines are indented."""
    block = []
    for line in lines:
        if block and (not line or line.startswith("  ") != is_list(block)):
            yield block
            block = []
        if line:
            block.append(line)
    if block:
        yield block


def entries_of(block):
    """Of a list: words, and what is said of each."""
    entries = []
    for line in textwrap.dedent("\n".join(block)).split("\n"):
        word, _, text = line.partition(" ")
        if word and not text.strip():
            raise FormError(f"nothing is said of {word}")
        if word:
            entries.append((word, text.strip()))
        elif not entries:
            raise FormError(f"an entry of a list has no word: {text.strip()}")
        else:
            entries[-1] = (entries[-1][0], entries[-1][1] + " " + text.strip())
    return entries


def entry(word, text):
    return f".TP\n{word}\n{text}\n"


def block_text(block):
    if is_list(block):
        entries = entries_of(block)
        return "".join(entry(with_names(word), with_names(text)) for word, text in entries)
    return ".PP\n" + with_names("\n".join(block)) + "\n"


def section(title, blocks):
    text = "".join(block_text(block) for block in blocks)
    return f'.SH "{title}"\n' + text.removeprefix(".PP\n")


def head(name, about, release, prototype=""):
    return (f'.TH {name} 3 {release[1]} "libvipl {release[0]}" "VI Provider Library"\n'
            f".SH NAME\n{name} \\- {escape(about)}\n"
            f".SH SYNOPSIS\n.nf\n.B #include <vipl.h>\n{prototype}.fi\n"
            ".PP\nLink with \\fI\\-lvipl\\fR.\n")


def prototype_text(prototype):
    """One parameter a line, as their names are long."""
    start, parameters = re.fullmatch(r"(.*?\()(.*\);)", " ".join(prototype.split())).groups()
    first, *others = escape(parameters).split(", ")
    lines = [escape(start) + first] + [" " * len(start) + other for other in others]
    return ".PP\n" + ",\n".join(f'.B "{line}' for line in lines).replace(",\n", ',"\n') + '"\n'


def page(function, release):
    name = function["name"]
    blocks = list(blocks_of(uncommented(function["comment"])))
    results = [block for block in blocks if re.match(" +VIP_", block[0])]
    *described, threads = [block for block in blocks if block not in results] or [[]]

    if f" {name}(" not in function["prototype"]:
        raise FormError(f"{name}: its prototype is not behind its comment")
    if len(results) != function["prototype"].startswith("VIP_RETURN "):
        raise FormError(f"{name}: a list of what it returns is missing, or one too many")
    if "Thread-safe" not in " ".join(threads) or results and blocks[-2:] != results + [threads]:
        raise FormError(f"{name}: the end is not what it returns, and then what of threads")
    text = head(name, function["about"], release, prototype_text(function["prototype"]))
    if described:
        text += section("DESCRIPTION", described)
    if results:
        text += section("RETURN VALUE", results)
    text += section("BLOCKING AND THREADS", [threads])
    source = function["source"].replace("VIPL:", "VIA 1.0,").replace("Giganet:", "Giganet's VIPL,")
    return text + f'.SH "CONFORMING TO"\n{escape(source)}\n.SH "SEE ALSO"\n.BR vipl (3)\n'


def overview(header, functions, release):
    first_comment = OVERVIEW.match(header)
    if not first_comment:
        raise FormError(f'the first comment has no "{COMMON}", or lines of another form')
    lines = uncommented(first_comment[1])
    common = lines.index(COMMON)
    first = next(i for i, line in enumerate(lines) if not line)  # behind what NAME says
    text = head("vipl", "the VI Provider Library, VIA 1.0", release)
    text += section("DESCRIPTION", blocks_of(lines[first:common]))
    text += section("CONVENTIONS", [["  " + line for line in lines[common + 1:] if line]])
    chapter = None  # that has begun, and no function of it has come
    for found in sorted([*CHAPTER.finditer(header), *functions], key=re.Match.start):
        if found.re is CHAPTER:
            chapter = found[1]
            continue
        if chapter:
            text += f'.SS "{escape(chapter)}"\n'
            chapter = None
        text += entry(with_names(found["name"]), escape(found["about"]))
    text += ('.SH EXAMPLES\nSmall programs with explanations are in apps/examples of the sources, and come with the development '
             'package:\nhello_server and hello_client send each other a message, peers connect as equals, cq_server serves two '
             'clients\nwith one completion queue, rdma_write writes into the memory of its peer, and error_handler hears of a '
             'lost\nconnection.\n')
    return text + '.SH "SEE ALSO"\n.BR vipl (7)\n'


def pages_of(header, release):
    """RELEASE is its version and its date."""
    functions = list(FUNCTION.finditer(header))
    if DECLARED.findall(COMMENTS.sub("", header)) != [f["name"] for f in functions]:
        raise FormError("not each function has one comment of the usual form")
    if "\t" in "".join(COMMENTS.findall(header)):
        raise FormError("there is a tab in a comment")
    pages = {function["name"]: page(function, release) for function in functions}
    pages["vipl"] = overview(header, functions, release)
    return pages


def main():
    if len(sys.argv) != 5:
        sys.exit("usage: man3.py HEADER VERSION DATE DIRECTORY")
    header, release, directory = sys.argv[1], sys.argv[2:4], pathlib.Path(sys.argv[4])
    try:
        pages = pages_of(pathlib.Path(header).read_text(encoding="utf-8"), release)
    except (FormError, OSError, UnicodeError) as error:
        sys.exit(f"man3.py: {header}: {error}")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for old in [*directory.glob("Vip*.3"), *directory.glob("vipl.3")]:
            old.unlink()
        for name, text in pages.items():
            (directory / f"{name}.3").write_text(text, encoding="utf-8")
    except OSError as error:
        sys.exit(f"man3.py: {error}")


if __name__ == "__main__":
    main()
