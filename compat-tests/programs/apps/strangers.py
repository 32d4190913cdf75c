# SPDX-License-Identifier: BSD-2-Clause
"""Processes of another user, and then of the same one, send what takes hours to close to a process that has a NIC open:
strangers.py PUPPET REFUSING VERSION [TEST]..., as root. It prints the longest time that a call waited for the NIC's lock."""

import os
import select
import subprocess
import sys
import tempfile
import time
import unittest
from functools import partialmethod

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.dont_write_bytecode = True  # tests leave the sources alone
from puppet import OPEN, Puppet  # noqa: E402

PUPPET, REFUSING, VERSION, *NAMES = sys.argv[1:]
PATIENCE = 60  # seconds; each attack has minutes
NOBODY = 65534

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "attacks.py"), encoding="ascii") as attacks:
    ATTACKS = attacks.read()  # another user may be unable to read it where it is
assert os.geteuid() == 0, "this needs root, to be two users"


def line_of(process):
    if not select.select([process.stdout], [], [], PATIENCE)[0]:
        raise AssertionError("no answer for %d seconds" % PATIENCE)
    return process.stdout.readline().decode().strip()


class Attacked(unittest.TestCase):
    kernel = []

    def shortDescription(self):
        return None  # the name says it, and a partialmethod has the text of its kind

    def setUp(self):
        """A process that rejects whoever comes to "besieged", requests "impostor" again and again, and makes VIs."""
        self.besieged = Puppet([*self.kernel, PUPPET], VIPL_GRACE_MSEC="50")
        self.addCleanup(self.besieged.process.communicate)
        self.addCleanup(self.besieged.process.kill)
        self.besieged.do(OPEN, "at = address 'besieged 0", "from = room", "own = address 'requester 0",
                         "other = address 'impostor 0", "told = room", "make_vi", "mine = behind VI 0")
        self.threads = [self.besieged.result("thread 1000000000 * " + command)
                        for command in ("pass_vi", "reject_one at from", "VipConnectRequest mine own other 100 told")]
        self.wait_for_lock()

    def wait_for_lock(self):
        """Returns the longest time in milliseconds that making a VI has taken, for which the NIC's lock is needed."""
        longest = 0
        for _ in range(3):
            begun = time.monotonic()
            self.besieged.do("pass_vi")
            longest = max(longest, 1000 * (time.monotonic() - begun))
        return longest

    def attacker(self, kind, user, what):
        process = subprocess.Popen(["/usr/bin/python3", "-c", ATTACKS, kind, VERSION, what], user=user, group=user,
                                   extra_groups=[], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def begin(self, kind, user, what):
        attacker = self.attacker(kind, user, what)
        self.assertEqual(line_of(attacker), "done")
        longest = self.wait_for_lock()
        if user == NOBODY:
            self.assertEqual(line_of(self.attacker("ask", 0, "")), "done")
        print("%s of %s as user %d%s: %.1f ms" % (kind, "files of FUSE" if "/" in what else what, user, " before 6.16" * bool(self.kernel),
                                                max(longest, self.wait_for_lock())), flush=True)
        # Its NIC is closed while all that was sent is there.
        self.besieged.do("stop", *("pthread_join %d 0" % thread for thread in self.threads))
        self.assertEqual(self.besieged.code("VipCloseNic NIC"), 0)

    def attack(self, kind, user, what="lingering"):
        self.begin(kind, user, what)
        self.besieged.end()

    def attack_with_files(self, kind, user):
        """Of a file system that takes what is written, and never answers when it shall be flushed."""
        directory = tempfile.mkdtemp()
        os.chmod(directory, 0o755)
        self.addCleanup(os.rmdir, directory)
        server = self.attacker("fuse", 0, directory)
        self.addCleanup(subprocess.run, ["umount", "--lazy", directory], check=False)
        if line_of(server) != "done":
            self.skipTest("no file systems of programs here")
        self.begin(kind, user, directory)
        server.kill()  # the kernel lets no process end that waits for such a file
        self.besieged.end()

    test_the_status_socket = partialmethod(attack, "status", NOBODY)
    test_the_status_socket_by_the_same_user = partialmethod(attack, "status", 0)
    test_the_status_socket_with_files = partialmethod(attack_with_files, "status", NOBODY)


class Strangers(Attacked):
    test_rendezvous = partialmethod(Attacked.attack, "rendezvous", NOBODY)
    test_rendezvous_by_the_same_user = partialmethod(Attacked.attack, "rendezvous", 0)
    test_rendezvous_with_sockets_in_sockets = partialmethod(Attacked.attack, "rendezvous", NOBODY, "nested")
    test_requests_by_the_same_user = partialmethod(Attacked.attack, "request", 0)
    test_impostors = partialmethod(Attacked.attack, "impostor", NOBODY)
    test_impostors_of_the_same_user = partialmethod(Attacked.attack, "impostor", 0)
    test_floods = partialmethod(Attacked.attack, "flood", NOBODY)
    test_rendezvous_with_files = partialmethod(Attacked.attack_with_files, "rendezvous", NOBODY)
    test_rendezvous_with_files_by_the_same_user = partialmethod(Attacked.attack_with_files, "rendezvous", 0)
    test_requests_with_files_by_the_same_user = partialmethod(Attacked.attack_with_files, "request", 0)
    test_impostors_with_files_of_the_same_user = partialmethod(Attacked.attack_with_files, "impostor", 0)


class StrangersBefore616(Attacked):
    """Where Linux lets others send descriptors to status sockets."""
    kernel = [REFUSING, "passrights"]


del Attacked
unittest.main(argv=[*sys.argv[:1], *NAMES], verbosity=2)
