# SPDX-License-Identifier: BSD-2-Clause
"""Processes of another user, and then of the same one, send what takes hours to close to a process that has a NIC open:
strangers.py BESIEGED VERSION, as root. It prints the longest time that a call waited for the NIC's lock."""

import os
import select
import subprocess
import sys
import unittest

BESIEGED, VERSION = sys.argv[1:]
PATIENCE = 30  # seconds; each attack has minutes
NOBODY = 65534

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "attacks.py"), encoding="ascii") as attacks:
    ATTACKS = attacks.read()  # another user may be unable to read it where it is
assert os.geteuid() == 0, "this needs root, to be two users"


def line_of(process):
    if not select.select([process.stdout], [], [], PATIENCE)[0]:
        raise AssertionError("no answer for %d seconds" % PATIENCE)
    return process.stdout.readline().decode().strip()


class Strangers(unittest.TestCase):
    def start(self, command, **options):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)

        def end():
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
        self.addCleanup(end)
        return process

    def setUp(self):
        self.besieged = self.start([BESIEGED, "via_lo"], env={**os.environ, "VIPL_GRACE_MSEC": "50"})
        self.assertEqual(line_of(self.besieged), "ready")
        self.wait_for_lock()

    def wait_for_lock(self):
        self.besieged.stdin.write(b"\n")
        self.besieged.stdin.flush()
        return int(line_of(self.besieged))

    def attack(self, kind, user):
        attacker = self.start(["/usr/bin/python3", "-c", ATTACKS, kind, VERSION], user=user, group=user, extra_groups=[])
        self.assertEqual(line_of(attacker), "done")
        longest = self.wait_for_lock()
        print("%s as user %d: %d ms" % (kind, user, max(longest, self.wait_for_lock())), flush=True)
        self.besieged.stdin.close()  # its NIC is closed while all that was sent is there
        self.assertEqual(self.besieged.wait(PATIENCE), 0)

    def test_bells(self):
        self.attack("bell", NOBODY)

    def test_bells_by_the_same_user(self):
        self.attack("bell", 0)

    def test_the_status_socket(self):
        self.attack("status", NOBODY)

    def test_the_status_socket_by_the_same_user(self):
        self.attack("status", 0)

    def test_rendezvous(self):
        self.attack("rendezvous", NOBODY)

    def test_rendezvous_by_the_same_user(self):
        self.attack("rendezvous", 0)

    def test_requests_by_the_same_user(self):
        self.attack("hello", 0)

    def test_impostors(self):
        self.attack("impostor", NOBODY)

    def test_impostors_of_the_same_user(self):
        self.attack("impostor", 0)


unittest.main(argv=sys.argv[:1])
