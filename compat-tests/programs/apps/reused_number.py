# SPDX-License-Identifier: BSD-2-Clause
"""A peer of via_lo dies, and another process gets its number. Whatever is sent to the peer after that reaches nobody's
memory, nothing is read from it, and no send succeeds. The peer's child, which has its socket, hides the death:
reused_number.py PUPPET proc|no-proc

It runs with a /proc of its own namespace, by which the library opens the peer's memory, and with one that does not
know the processes. It needs a kernel that lets it make namespaces for processes, as root or as an ordinary user."""

import mmap
import os
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.dont_write_bytecode = True  # tests leave the sources alone
from puppet import OPEN, Puppet, connect  # noqa: E402

PUPPET, HAS_PROC = sys.argv[1], sys.argv[2] == "proc"
if len(sys.argv) == 3:  # as the first process of a namespace: all others end with it
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    os.execvp("unshare", ["unshare", *user, "--pid", "--fork", "--kill-child", "--mount", "--", sys.executable, *sys.argv,
                          "inside"])

SUCCESS, TIMEOUT = 0, 4  # VIP_RETURN
UNRELIABLE, DELIVERY, RECEPTION = 1, 2, 4
SEND, WRITE, READ = 0, 1, 2
LENGTH = 1 << 16
MAP_FIXED = 0x10
subprocess.run(["mount", "-t", "proc", "proc", "/proc"], check=True)
LAST_NUMBER = os.open("/proc/sys/kernel/ns_last_pid", os.O_WRONLY)
if not HAS_PROC:
    subprocess.run(["mount", "-t", "tmpfs", "none", "/proc"], check=True)


def place_of(puppet):
    """Where each process has the memory that is written to."""
    return 0x610000000000 if puppet.result("behind 0xffffffff 1") else 0x51000000


class ReusedNumber(unittest.TestCase):
    def start(self, letter):
        """Returns a process whose memory at the place is full of that letter."""
        puppet = Puppet([PUPPET])
        self.addCleanup(puppet.process.communicate)
        protection, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self.place = place_of(puppet)
        puppet.do("mmap %d %d %d %d 0xffffffff 0" % (self.place, LENGTH, protection, flags | MAP_FIXED),
                  "copy = malloc %d" % LENGTH, "memset copy %d %d" % (ord(letter), LENGTH),
                  "memset %d %d %d" % (self.place, ord(letter), LENGTH))
        return puppet

    def is_unchanged(self, puppet):
        return puppet.code("memcmp %d copy %d" % (self.place, LENGTH)) == 0

    def connected(self, level):
        """Returns two processes that are connected. The first one has posted receives for all of its memory."""
        peer, sender = self.start("p"), self.start("s")
        for puppet in peer, sender:
            puppet.do("allow %d %d %d" % (level, LENGTH, level != UNRELIABLE), OPEN, "make_vi", "told = room", "from = room",
                      "at = address 'reused %d" % peer.pid,
                      "VipRegisterMem NIC %d %d rights &MEMORY" % (self.place, LENGTH))
        for name in "first", "second":
            peer.do("%s = describe %d MEMORY %d 0" % (name, self.place, LENGTH), "VipRegisterMem NIC %s 256 0 &own" % name)
            self.assertEqual(peer.code("VipPostRecv VI %s own" % name), SUCCESS)
        connect(peer, sender)
        return peer, sender

    def victim_of_number(self, number):
        """Returns a process that has this number, and has never used the library."""
        os.pwrite(LAST_NUMBER, b"%d" % (number - 1), 0)
        victim = self.start("v")
        self.assertEqual(victim.pid, number, "another process has got the number")
        return victim

    def reaches_nobody(self, level, operation, length):
        peer, sender = self.connected(level)
        sender.do("d = describe %d MEMORY 100 0" % self.place, "VipRegisterMem NIC d 256 0 &own")
        self.assertEqual(sender.code("VipPostSend VI d own"), SUCCESS)  # both ends know each other well
        self.assertEqual(sender.code("VipSendWait VI 20000 &done"), SUCCESS)
        sender.do("d = describe %d MEMORY %d %d" % (self.place, length, operation), "VipRegisterMem NIC d 256 0 &own")
        if operation != SEND:
            sender.do("aim d %d %s" % (self.place, peer.values()["MEMORY"]))
        child = peer.result("stay")  # it has the sockets
        self.addCleanup(os.kill, child, signal.SIGKILL)
        sender.begin("stopped VipPostSend VI d own")
        os.waitid(os.P_PID, sender.pid, os.WSTOPPED)
        peer.process.kill()
        peer.process.wait()
        victim = self.victim_of_number(peer.pid)
        os.kill(sender.pid, signal.SIGCONT)
        found = sender.code()
        if found == SUCCESS:
            found = sender.code("VipSendWait VI 20000 &done")  # long: only a send that is lost takes it
        self.assertNotIn(found, (SUCCESS, TIMEOUT))
        self.assertTrue(self.is_unchanged(sender), "memory of another process was read")
        self.assertTrue(self.is_unchanged(victim), "memory of a process that has the dead peer's number was written")

    def test_all(self):
        for test in ((DELIVERY, SEND, 60000), (RECEPTION, SEND, 8), (UNRELIABLE, SEND, 60000), (DELIVERY, WRITE, 8),
                     (DELIVERY, WRITE, 60000), (UNRELIABLE, WRITE, 60000), (DELIVERY, READ, 8), (DELIVERY, READ, 60000)):
            with self.subTest(level=test[0], operation=test[1], length=test[2]):
                self.reaches_nobody(*test)


unittest.main(argv=sys.argv[:1])
