# SPDX-License-Identifier: BSD-2-Clause
"""Programs fail when their standard output is full or closed, and their messages never go there: lost_output.py
VIP_INFO VIP_PINGPONG VIP_RUN VIP_TRACE TRACE VIP_STAT"""

import os
import subprocess
import sys
import unittest

INFO, PINGPONG, RUN, TRACE, KNOWN, STAT = sys.argv[1:7]
PATIENCE = 60  # seconds; only a program that hangs takes this long


def run(redirection, *command):
    return subprocess.run(["sh", "-c", 'exec "$@" ' + redirection, "sh", *command], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=PATIENCE)


class LostOutput(unittest.TestCase):
    def test_lost_output(self):
        for status, program, *many in (
                (1, INFO, "--version", "--help", "--nic=via_lo", "--nic=via_lo --json", "--problems --json"),
                (1, PINGPONG, "--version", "--help"),
                (125, RUN, "--version", "--help", "--check --nic=nic0=via_lo " + INFO),
                (1, TRACE, "--version", "--help", KNOWN),
                (1, STAT, "--version", "--help", "--json")):
            for options in many:
                for redirection in ">/dev/full", ">&-":
                    with self.subTest(redirection=redirection, program=program, options=options):
                        done = run(redirection, program, *options.split())
                        self.assertEqual(status, done.returncode, done.stderr)
                        self.assertRegex(done.stderr, r"\A\w+: cannot write to the standard output.*\n\Z")

    def test_lost_messages(self):
        for redirection in "2>&-", "2>/dev/full":
            with self.subTest(redirection=redirection):
                self.assertEqual((127, ""), self.ends(redirection, RUN, "no-such-program-of-ours"))
                self.assertEqual((125, ""), self.ends(redirection, RUN))
                self.assertEqual((1, ""), self.ends(redirection, TRACE, "no-such-trace-of-ours"))
                self.assertEqual((0, ""), self.ends(redirection, STAT, str(os.getpid())))
                said = run("", INFO, "--version").stdout
                self.assertEqual((0, said), self.ends(redirection, RUN, "--nic=nic0=nothing", INFO, "--version"))

    def ends(self, *words):
        done = run(*words)
        return done.returncode, done.stdout

    def test_pingpong_of_two(self):
        """The server, which prints nothing, does not fail."""
        for redirection in ">/dev/full", ">&-":
            with self.subTest(redirection=redirection):
                server = subprocess.Popen(["sh", "-c", 'exec "$@" ' + redirection, "sh", PINGPONG, "--nic=via_lo"])
                self.addCleanup(server.wait)
                self.addCleanup(server.kill)
                client = run(redirection, PINGPONG, "--nic=via_lo", "--count=20", "localhost")
                self.assertEqual((1, "vip_pingpong: cannot write to the standard output\n"),
                                 (client.returncode, client.stderr))
                self.assertEqual(0, server.wait(PATIENCE))


if __name__ == "__main__":
    os.environ.setdefault("VIPL_GRACE_MSEC", "60000")  # on a busy machine the server may begin late
    unittest.main(argv=sys.argv[:1])
