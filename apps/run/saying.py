# SPDX-License-Identifier: BSD-2-Clause
"""What vip_run says, and how it fails."""

import contextlib
import os

# As in env(1), nice(1) and timeout(1). Otherwise the status is the program's.
OURS, CANNOT_RUN, NOT_FOUND = 125, 126, 127


class Failure(Exception):
    """An exit status and a sentence."""


def complain(sentence):
    """Where standard error is closed, print() would write to the standard output."""
    with contextlib.suppress(OSError):
        os.write(2, os.fsencode("vip_run: " + sentence + "\n"))


def shown(name):
    """Of a name that somebody else may have chosen, a terminal gets no bytes that it would obey."""
    return "".join(each if each.isprintable() else "".join("\\x%02x" % byte for byte in os.fsencode(each))
                   for each in name)


def say(*lines):
    """Where the standard output is closed, print() would say nothing of it."""
    try:
        with open(1, "w", closefd=False, errors="surrogateescape") as output:
            print(*lines, sep="\n", file=output)
    except OSError as error:
        raise Failure(OURS, "cannot write to the standard output: " + error.strerror) from None
