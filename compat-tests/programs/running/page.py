# SPDX-License-Identifier: BSD-2-Clause
"""The commands of docs/RUNNING.md, for the tests that run them."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs/RUNNING.md"


def blocks(chapter):
    """Returns the indented blocks of the chapter, each without its indentation."""
    text = PAGE.read_text(encoding="utf-8").partition("\n## %s\n" % chapter)[2].partition("\n## ")[0]
    found = re.findall(r"(?:^(?: {4}.*)?\n)+", text, re.M)
    return [re.sub("^ {4}", "", block, flags=re.M).strip("\n") + "\n" for block in found if block.strip()]


def steps():
    """Returns the commands of "Two hosts, from nothing" in order, each with where it runs: "both", "node7" or "node8"."""
    found = []
    for block in blocks("Two hosts, from nothing"):
        for part in re.split(r"^(?=# on )", block, flags=re.M)[1:]:
            where, *lines = part.splitlines()
            found += [(re.match("# on (both|node7|node8)", where)[1], re.sub(r" +#.*", "", line)) for line in lines if line]
    return found
