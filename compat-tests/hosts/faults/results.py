# SPDX-License-Identifier: BSD-2-Clause
"""Keeps measured times in a file, and puts them into their cells of docs/OPERATING.md.

    results.py DOCUMENT FILE...     puts what the files have into the document's cells

A line of a file is KEY TAB SECONDS. In a cell of the document each <!--KEY--> stands before the least and the most
of several runs, with semicolons between.
"""

import collections
import os
import re
import sys

CELL = re.compile(r"<!--([^>]+)-->[^|;]*?(?= *[|;])")


def record(key, seconds):
    """Appends the time to the file $FAULTS_RESULTS, if it is set, and prints it."""
    line = "%s\t%.2f" % (key, seconds)
    print("measured", line, flush=True)
    path = os.environ.get("FAULTS_RESULTS")
    if path:
        with open(path, "a", encoding="ascii") as file:
            file.write(line + "\n")


def in_words(seconds):
    least, most = min(seconds), max(seconds)
    digits = "%.0f s" if most >= 20 else "%.1f s" if most >= 0.1 else "%.2f s"
    texts = list(dict.fromkeys(digits % value for value in (least, most)))
    return texts[0] if len(texts) == 1 else "%s to %s" % (texts[0][:-2], texts[1])


def main(document, paths):
    measured = collections.defaultdict(list)
    for path in paths:
        with open(path, encoding="ascii") as file:
            for line in file:
                key, seconds = line.split("\t")
                measured[key].append(float(seconds))
    with open(document, encoding="utf-8") as file:
        text = file.read()
    cells = set(CELL.findall(text))
    for key in sorted(set(measured) - cells):
        print("%s has no cell for %s" % (document, key), file=sys.stderr)

    def filled(match):
        key = match.group(1)
        return "<!--%s-->%s" % (key, in_words(measured[key])) if key in measured else match.group(0)

    with open(document, "w", encoding="utf-8") as file:
        file.write(CELL.sub(filled, text))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
