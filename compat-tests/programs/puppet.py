# SPDX-License-Identifier: BSD-2-Clause
"""A running puppet.c, which does what a test tells it to."""

import os
import subprocess
import time

OPEN = "VipOpenNic 'via_lo &NIC"


class Puppet:
    def __init__(self, command, **environment):
        self.process = subprocess.Popen(command, env=dict(os.environ, **environment), text=True, bufsize=1,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.pid = self.process.pid

    def begin(self, command):
        self.process.stdin.write(command + "\n")

    def answer(self):
        words = self.process.stdout.readline().strip()
        assert words, self.process.communicate()
        return words

    def do(self, *commands):
        for command in commands:
            self.result(command)
        return self

    def result(self, command):
        self.begin(command)
        return int(self.answer(), 16)

    def code(self, command=None):
        """Returns the VIP_RETURN of the command, or of the one that has begun."""
        if command:
            self.begin(command)
        return int(self.answer(), 16) & 0xffffffff

    def values(self):
        self.begin("values")
        return dict(word.split("=") for word in self.answer().split())

    def end(self, status=0):
        """Returns what it has written to its standard error."""
        out, err = self.process.communicate()
        print(out, err)
        assert self.process.returncode == status, self.process.returncode
        return err


def connect(server, client):
    """Connects their VIs. Both call the server's address "at"."""
    client.begin("VipConnectRequest VI at at 30000 told")
    codes = [server.code("VipConnectWait NIC at 30000 from told &request"), server.code("VipConnectAccept request VI")]
    assert codes + [client.code()] == [0, 0, 0], codes


def eventually(condition, what="what is waited for does not come", seconds=60):
    """Returns what the condition returns when that is true."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
    return found
