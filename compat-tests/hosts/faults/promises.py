# SPDX-License-Identifier: BSD-2-Clause
"""Reads from the table of docs/OPERATING.md after how long a program is told of a fault.

A key such as "power.idle.rc" stands for the row that has <!--power.idle.rc--> in a cell.
"""

import os
import re

PAGE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "..", "docs", "OPERATING.md")
COLUMN = "told after"
MARKER = re.compile(r"<!--([^>]+)-->")
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
