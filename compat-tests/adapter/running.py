# SPDX-License-Identifier: BSD-2-Clause
"""Runs programs: each within a time limit, none of which is left behind, and however much they say."""

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LOOK = 0.1  # seconds
TOLD_EVERY = 30
END_LIMIT = 10  # seconds until a killed process is gone: one that waits for a broken driver stays
OVER, STUCK = "over", "stuck"
MOST_KEPT = 256 << 10  # bytes, of the beginning of the output, and of its end
PIPE = 1 << 16  # bytes

LIBC = ctypes.CDLL(None)


def adopt():
    """From now on what a program leaves running becomes a child of this process, and end_all() finds it."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_this():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def find(program, folders):
    """Returns the path of one of libvipl's programs: of those of this build or installation, or wherever the shell finds it."""
    return shutil.which(program, path=folders) or shutil.which(program)


class Ends:
    """Of what it is given, it keeps the beginning and the end."""

    def __init__(self):
        self._first, self._last, self._left_out = bytearray(), bytearray(), 0

    def put(self, data):
        room = MOST_KEPT - len(self._first)
        self._first += data[:room]
        self._last += data[room:]
        if len(self._last) > 2 * MOST_KEPT:
            self._cut()

    def _cut(self):
        more = max(0, len(self._last) - MOST_KEPT)
        del self._last[:more]
        self._left_out += more

    def kept(self):
        self._cut()
        words = b"\n... %d bytes are left out ...\n" % self._left_out if self._left_out else b""
        return bytes(self._first + words + self._last)


def popen(command, output, environment):
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                            env={**os.environ, "LC_ALL": "C", **(environment or {})}, start_new_session=True,
                            preexec_fn=end_with_this)


def start(command, output):
    with open(output, "ab") as file:
        return popen(command, file, None)


def run(command, output, limit, environment=None, tell=None):
    """Returns the exit status; OVER when the program was ended after `limit` seconds, or STUCK when it could not be. Calls
    tell(seconds) now and then."""
    said, process = Ends(), popen(command, subprocess.PIPE, environment)
    with process.stdout:
        os.set_blocking(process.stdout.fileno(), False)
        status = follow(process, said, limit, tell)
        gone = end(process)
        read(process, said, 0)
    with open(output, "ab") as file:
        file.write(said.kept())
    return status if gone else STUCK


def follow(process, said, limit, tell):
    began = told = time.monotonic()
    status = None
    while status is None:
        if not read(process, said, LOOK):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LOOK)
        status = process.poll()
        now = time.monotonic()
        if status is None and now - began > limit:
            status = OVER
        elif tell and now - told > TOLD_EVERY:
            told = now
            tell(now - began)
    return status


def read(process, said, limit):
    """Reads at most what a pipe holds: others may have it, too, and go on. Returns whether more may come."""
    if select.select([process.stdout], [], [], limit)[0]:
        data = os.read(process.stdout.fileno(), PIPE)
        said.put(data)
        return bool(data)
    return True


def end(process):
    """Ends a program, and what it has started in its session. Returns whether all of it is gone."""
    deadline = time.monotonic() + END_LIMIT
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(END_LIMIT)
    while process.returncode is not None and time.monotonic() < deadline:
        try:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-process.pid, os.WNOHANG)  # those that it has left to this process
            os.killpg(process.pid, 0)
        except (ProcessLookupError, PermissionError):
            return True
        time.sleep(LOOK / 10)
    return False


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
