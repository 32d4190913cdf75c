# SPDX-License-Identifier: BSD-2-Clause
"""Runs programs: each within a time limit, none of which is left behind."""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LOOK = 0.1  # seconds
TOLD_EVERY = 30
END_LIMIT = 10  # seconds until a killed process is gone: one that waits for a broken driver stays
OVER, STUCK = "over", "stuck"

LIBC = ctypes.CDLL(None)


def adopt():
    """From now on what a program leaves running becomes a child of this process, and end_all() finds it."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_this():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def find(program, home):
    """Returns the path of one of libvipl's programs: beside this one, or wherever the shell finds it."""
    return shutil.which(program, path=home) or shutil.which(program)


def start(command, output, environment=None):
    with open(output, "ab") as file:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                                env={**os.environ, "LC_ALL": "C", **(environment or {})}, start_new_session=True,
                                preexec_fn=end_with_this)


def run(command, output, limit, environment=None, tell=None):
    """Returns the exit status; OVER when the program was ended after `limit` seconds, or STUCK when it could not be. Calls
    tell(seconds) now and then."""
    began = told = time.monotonic()
    process = start(command, output, environment)
    status = None
    while status is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = process.wait(LOOK)
        now = time.monotonic()
        if status is None and now - began > limit:
            status = OVER
        elif tell and now - told > TOLD_EVERY:
            told = now
            tell(now - began)
    return status if end(process) else STUCK


def end(process):
    """Ends a program, and what it has started. Returns whether it is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(END_LIMIT)
    return process.returncode is not None


def children():
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, IndexError):
            with open("/proc/%s/stat" % name, "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            if int(fields[1]) == os.getpid():
                found.append(int(name))
    return found


def end_all():
    """Ends all children, and their children, which then are ours. Returns those that stay."""
    deadline = time.monotonic() + END_LIMIT
    left = children()
    while left and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(LOOK / 10)
        left = children()
    return left
