"""What the check.py of vip_perf share: running it, by itself or with a server, and what it prints.

Each of them is run as "check.py PROGRAM NIC CASE", and its function test_CASE is the test.
"""
import json
import os
import select
import socket
import subprocess
import sys
import time

PROGRAM, NIC = sys.argv[1:3]
SECONDS = 100  # for whatever has to end by itself
SOON = 8       # for what has to be noticed at once, also on a busy machine


def run_case(module):
    """Of a module's globals(), the test that is asked for."""
    module["test_" + sys.argv[3]]()


def expect(is_so, what, *shown):
    if not is_so:
        sys.exit(": ".join(["FAILED: " + what, " | ".join(map(str, shown))]))


def command(*words):
    return [PROGRAM, *words, "--nic", NIC]


def run(*words, seconds=SECONDS, **more):
    """Of arguments as they are; its exit status, output and messages."""
    done = subprocess.run([PROGRAM, *words], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=seconds, **more)
    return done.returncode, done.stdout, done.stderr


def json_of(measurement, *words, where=("--self",), **more):
    """What a run that works prints with --json: a report, or a list of them."""
    code, out, err = run(measurement, *where, "--nic", NIC, "--json", *words, **more)
    expect(code == 0, "it works", measurement, words, code, err)
    return json.loads(out)


def expect_usage_error(*words):
    code, out, err = run(*words)
    expect(code == 2 and out == "" and err != "", "a usage error", words, code, out, err)


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

    def __init__(self, *words, messages=subprocess.PIPE):
        self.port = free_port()
        self.words = words
        self.messages = messages

    def __enter__(self):
        self.process = subprocess.Popen(command("server", "--port", str(self.port), *self.words),
                                        stderr=self.messages)
        self.said = b""
        if self.process.stderr:
            said = self.message(SECONDS)
            expect(f"port {self.port}, NIC {NIC}" in said, "it says where it waits", said)
            expect(self.is_listening(), "and does")
        else:
            wait_until("the server listens", self.is_listening, SECONDS)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def is_listening(self):
        # Not by connecting, which would be a client.
        with open("/proc/net/tcp6") as table:
            return any(line.split()[1].endswith(f":{self.port:04X}") and line.split()[3] == "0A"
                       for line in table)

    def address(self):
        """The client's arguments that say where it is."""
        return ["localhost", "--port", str(self.port)]

    def client(self, *words):
        return command(*words, *self.address())

    def expect_service(self):
        """Even though whoever came before was what he was."""
        expect(self.process.poll() is None, "the server lives")
        json_of("scale", "--question", "vis", "--to", "1", where=self.address())

    def expect_end(self):
        """Of one with --once."""
        expect(self.process.wait(SECONDS) == 0, "the server ends well", self.process.returncode)

    def message(self, seconds=SOON):
        """The next line that the server says."""
        while b"\n" not in self.said:
            readable, _, _ = select.select([self.process.stderr], [], [], seconds)
            expect(readable, "the server says something")
            self.said += os.read(self.process.stderr.fileno(), 4096)
        line, _, self.said = self.said.partition(b"\n")
        return line.decode()

    def socket(self):
        return socket.create_connection(("localhost", self.port), timeout=SOON)
