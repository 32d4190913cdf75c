# SPDX-License-Identifier: BSD-2-Clause
"""Functions that the check.py files of vip_perf share. They run vip_perf, by itself or with a
server, and read its output.

Each check.py is run as "check.py PROGRAM NIC CASE", and its function test_CASE is the test.
"""
import json
import os
import pty
import re
import select
import socket
import subprocess
import sys
import time

PROGRAM, NIC = sys.argv[1:3]
SECONDS = 100  # for programs that end by themselves
SOON = 8       # for events that must be noticed at once, also on a busy machine


def run_case(module):
    """Runs the test that the arguments name, from a module's globals()."""
    module["test_" + sys.argv[3]]()


def expect(is_so, what, *shown):
    if not is_so:
        sys.exit(": ".join(["FAILED: " + what, " | ".join(map(str, shown))]))


def command(*words):
    return [PROGRAM, *words, "--nic", NIC]


def run(*words, seconds=SECONDS, **more):
    """Runs vip_perf with these arguments. Returns its exit status, output and messages."""
    done = subprocess.run([PROGRAM, *words], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=seconds, **more)
    return done.returncode, done.stdout, done.stderr


def json_of(measurement, *words, where=("--self",), **more):
    """Returns the output of a successful run with --json: a report, or a list of reports."""
    code, out, err = run(measurement, *where, "--nic", NIC, "--json", *words, **more)
    expect(code == 0, "it works", measurement, words, code, err)
    return json.loads(out)


def wait_until(what, is_so, seconds=SOON):
    end = time.monotonic() + seconds
    while not is_so():
        expect(time.monotonic() < end, what, f"not within {seconds} s")
        time.sleep(0.01)


def free_port():
    with socket.socket(socket.AF_INET6) as s:
        s.bind(("::", 0))
        return s.getsockname()[1]


class Server:
    """"vip_perf server" on a port of its own, until the end of the block."""

    def __init__(self, *words):
        self.words = words
        self.said = b""

    def __enter__(self):
        self.process = subprocess.Popen(command("server", "--port", "0", *self.words),
                                        stderr=subprocess.PIPE)
        try:
            said = self.message(SECONDS)
            found = re.fullmatch(r"vip_perf: waits for clients on port (\d+), NIC (.*)", said)
            expect(found and found[2] == NIC, "it says where it waits", said)
            self.port = int(found[1])
        except BaseException:  # also sys.exit()
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def address(self):
        """Returns the client's arguments for the server's address."""
        return ["localhost", "--port", str(self.port)]

    def client(self, *words):
        return command(*words, *self.address())

    def expect_service(self):
        """Checks that the server works, no matter what the former clients did."""
        expect(self.process.poll() is None, "the server lives")
        json_of("scale", "--question", "vis", "--to", "1", where=self.address())

    def message(self, seconds=SOON):
        """Returns the next line of the server that is not a message of the library."""
        while True:
            while b"\n" not in self.said:
                readable, _, _ = select.select([self.process.stderr], [], [], seconds)
                expect(readable, "the server says something")
                piece = os.read(self.process.stderr.fileno(), 4096)
                expect(piece, "the server lives", self.said)
                self.said += piece
            line, _, self.said = self.said.partition(b"\n")
            if b" vipl: " not in line:
                return line.decode(errors="replace")

    def socket(self):
        return socket.create_connection(("localhost", self.port), timeout=SOON)


class Client:
    """A client that prints its progress, so that a test can kill it in the middle."""

    def __init__(self, words, output=subprocess.DEVNULL):
        self.terminal, theirs = pty.openpty()
        self.process = subprocess.Popen(words, stdout=output, stderr=theirs)
        os.close(theirs)
        self.said = ""

    def read(self):
        try:
            piece = os.read(self.terminal, 4096)
        except OSError:  # EIO: the other end of the terminal is closed
            piece = b""
        self.said += piece.decode()
        return bool(piece)

    def await_progress(self, text):
        while text not in self.said:
            expect(self.read(), f"the client gets to \"{text}\"", self.said[-300:])

    def await_end(self):
        while self.read():
            pass
        return self.process.wait(SECONDS)

    def all_progress(self):
        return [line for line in self.said.split("\r\x1b[K") if line]

    def child(self):
        number = self.process.pid
        with open(f"/proc/{number}/task/{number}/children") as children:
            return int(children.read().split()[0])

    def expect_failure_soon(self):
        begin = time.monotonic()
        expect(self.await_end() == 1, "the client fails", self.process.returncode)
        expect(time.monotonic() - begin < SOON, "and soon", time.monotonic() - begin)
        message = self.said.split("\x1b[K")[-1].strip()
        expect(message.startswith("vip_perf: "), "with a message", repr(self.said[-300:]))
        expect("\n" not in message, "and only one", message)
