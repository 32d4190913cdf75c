# SPDX-License-Identifier: BSD-2-Clause
"""Runs vip_stat beside two processes that send each other messages: stat.py VIP_STAT
VIP_PINGPONG"""

import json
import os
import signal
import subprocess
import sys
import time
import unittest

STAT, PINGPONG = sys.argv[1:3]
PATIENCE = 60  # seconds; only a program that hangs takes this long
NOBODY = 65534


def stat(*arguments, **options):
    return subprocess.run([STAT, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE, **options)


def nics_of(process):
    return json.loads(stat("--json", process.pid).stdout)


def eventually(condition):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("this has not become true: %s" % condition.__name__)


class Stat(unittest.TestCase):
    def setUp(self):
        self.processes = []
        self.addCleanup(self.end)
        self.server = self.run_pingpong()
        eventually(lambda: nics_of(self.server))

    def run_pingpong(self, *arguments):
        process = subprocess.Popen([PINGPONG, "--nic=via_lo", *arguments], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        self.processes.append(process)
        return process

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def connect(self):
        """Returns the client, and the VIs of both processes."""
        def vis():
            found = [nic["vis"][0] for process in (client, self.server) for nic in nics_of(process) if nic["vis"]]
            return len(found) == 2 and all(vi["receives"]["done"] for vi in found) and found
        client = self.run_pingpong("--count=2000000000", "localhost")
        return client, eventually(vis)

    def test_a_connected_vi_is_shown_with_its_peer_and_counts(self):
        client, vis = self.connect()
        for vi in vis:
            self.assertEqual((vi["state"], vi["level"], vi["failure"]), ("connected", "reliable delivery", ""))
            self.assertEqual(vi["peer"]["host"], "127.0.0.1")
        before = vis[0]["sends"]["done"]
        eventually(lambda: nics_of(client)[0]["vis"][0]["sends"]["done"] > before)
        self.assertRegex(stat(client.pid).stdout, r"vip_pingpong \(%d\): via_lo, 127.0.0.1, \d+ regions\n" % client.pid)
        self.assertRegex(stat(client.pid).stdout, r"\n  0x\w+ +connected +127.0.0.1 ")

    def test_a_process_that_ends_is_shown_no_more(self):
        self.server.kill()
        self.server.wait()
        self.assertEqual(nics_of(self.server), [])

    def test_a_stopped_process_is_told_of(self):
        self.server.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.server.pid, os.WSTOPPED | os.WNOWAIT)
        answer = stat(self.server.pid)
        self.assertIn("may be stopped", answer.stderr)
        self.assertEqual(answer.returncode, 1)
        self.server.send_signal(signal.SIGCONT)
        eventually(lambda: nics_of(self.server))

    def test_another_user_sees_nothing(self):
        if os.geteuid() != 0:
            self.skipTest("only root can become another user")
        answer = stat("--json", self.server.pid, user=NOBODY, group=NOBODY, extra_groups=[])
        self.assertEqual(json.loads(answer.stdout), [])
        self.assertIn("belong to other users", answer.stderr)
        self.assertEqual(answer.returncode, 1)

    def test_wrong_usage_is_2(self):
        self.assertEqual(stat("x").returncode, 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
