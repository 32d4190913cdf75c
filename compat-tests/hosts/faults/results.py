# SPDX-License-Identifier: BSD-2-Clause
"""The table of docs/OPERATING.md: after how long a program is told of a fault, and what was measured.

    results.py DOCUMENT FILE...     puts the times of the files into the document's cells

A key such as "power.idle.rc" stands for the row that has <!--power.idle.rc--> in a cell. A line of a file is KEY TAB
SECONDS. In a cell of the document each <!--KEY--> stands before the least and the most of several runs, with semicolons
between.
"""

import collections
import os
import re
import sys

PAGE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "..", "docs", "OPERATING.md")
COLUMN = "told after"
MARKER = re.compile(r"<!--([^>]+)-->")
CELL = re.compile(r"<!--([^>]+)-->[^|;]*?(?= *[|;])")
TIME = re.compile(r"\b(?:K|\d+(?:\.\d+)?)(?: \+ \d+)?\b")
K = 7  # seconds, the default of VIPL_KEEPALIVE_SEC
# The hosts are emulated, and share two busy processors: K + 3 was once 15.2 s under a load of 24.
MARGIN = 8


def table():
    """Returns [(key, the cell that says after how long)]."""
    found, column = [], None
    with open(PAGE, encoding="utf-8") as file:
        for line in file:
            cells = [cell.strip() for cell in line.split("|")]
            if COLUMN in cells:
                column = cells.index(COLUMN)
            found += [(key, cells[column]) for key in MARKER.findall(line)]
    return found


def seconds(cell):
    """Returns the largest time in the cell. The cell must have one."""
    times = TIME.findall(cell.replace("at once", "0"))
    return max(sum(K if term == "K" else float(term) for term in time.split(" + ")) for time in times)


def within(key):
    return seconds(dict(table())[key])


def limit(key, promise=None, margin=MARGIN):
    """Returns the seconds that a test allows. It passes the promise where the cell says "the call's own time".

    For "at once" this is K: who was told before that has been told, and has not found out by silence.
    """
    promise = within(key) if promise is None else promise
    return promise + margin if promise else K


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
    digits = "%.0f" if most >= 20 else "%.1f" if most >= 0.1 else "%.2f"
    return "–".join(dict.fromkeys(digits % value for value in (least, most)))


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
