# SPDX-License-Identifier: BSD-2-Clause
"""Processes over via_lo in namespaces, under limits, and after they have become another user, as in containers:
containers.py VIP_PINGPONG LIBRARY REFUSING PUPPET

Root makes the namespaces, as a container engine does. Another user first becomes root of a user namespace, in
which there is no second user. docs/RUNNING.md, *Containers*, lists the cases that work."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
from functools import partialmethod

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.dont_write_bytecode = True  # tests leave the sources alone
from puppet import OPEN, Puppet, connect  # noqa: E402

if os.geteuid() != 0:
    os.execvp("unshare", ["unshare", "--user", "--map-root-user", "--", sys.executable, *sys.argv])

BUILT, LIBRARY, REFUSING, PUPPET = sys.argv[1:]
PATIENCE = 120  # seconds; only a program that hangs takes this long
NOBODY = "65534"
TIMEOUT = 4  # VIP_RETURN
PLACES = 4  # of a user's processes that wait for a discriminator
OWN = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--ipc", "--uts", "--"]
READ_ONLY = ["unshare", "--mount", "--", "sh", "-c", 'mount -o remount,bind,ro / && exec "$@"', "sh"]
LIMITED = ["sh", "-c", 'ulimit -l 64 && ulimit -n 64 && exec "$@"', "sh"]
OTHER_NETWORK = ["unshare", "--net", "--"]
OTHER_USER = ["setpriv", "--reuid=" + NOBODY, "--regid=" + NOBODY, "--clear-groups", "--"]


# Copies that other users can run. The build may be below the home of root, which is closed to them.
PUBLIC = tempfile.TemporaryDirectory()
PINGPONG = shutil.copy(BUILT, PUBLIC.name)
shutil.copy(LIBRARY, PUBLIC.name + "/libvipl.so.1")
os.environ["LD_LIBRARY_PATH"] = PUBLIC.name
os.chmod(PUBLIC.name, 0o755)


with open("/proc/self/uid_map", encoding="ascii") as uid_map:
    HAS_USERS = any(int(line.split()[2]) > 1 for line in uid_map)
needs_users = unittest.skipUnless(HAS_USERS, "there is one user only")


class Containers(unittest.TestCase):
    def shortDescription(self):
        return None  # the name says it, and a partialmethod has the text of its kind

    def run_pair(self, server, client, users=("", ""), grace="60000"):
        """Returns the client's exit status, which is 0 only if all bytes are right, and the output of both."""
        def command(prefix, *arguments):
            return [*prefix, PINGPONG, "--nic=via_lo", *arguments]

        def environment(user):
            return {**os.environ, "VIPL_GRACE_MSEC": grace, "VIPL_LO_USERS": user, "VIPL_LOG": "debug"}

        with tempfile.TemporaryFile("w+") as output:
            waiting = subprocess.Popen(command(server), stdout=output, stderr=output, env=environment(users[0]))
            try:
                done = subprocess.run(command(client, "--count=200", "--size=100000", "localhost"),
                                      capture_output=True, text=True, timeout=PATIENCE, env=environment(users[1]))
            finally:
                waiting.terminate()
                waiting.wait()
            output.seek(0)
            return done.returncode, done.stdout + done.stderr + output.read()

    def expect_works(self, server, client, users=("", "")):
        status, said = self.run_pair(server, client, users)
        self.assertEqual(status, 0, said)

    def expect_no_match(self, server, client):
        status, said = self.run_pair(server, client, grace="500")
        self.assertEqual(status, 1, said)
        self.assertIn("VIP_NO_MATCH", said)
        self.assertRegex(said, "no permitted listener for discriminator vip_pingpong[ ,]", "it says for what")

    def test_processes_of_two_pid_mount_ipc_and_uts_namespaces_connect(self):
        self.expect_works(OWN, OWN)
        self.expect_works([], OWN)
        self.expect_works(OWN, [])

    test_a_read_only_root_does_no_harm = partialmethod(expect_works, READ_ONLY, READ_ONLY)
    test_64_kib_of_locked_memory_and_64_files_suffice = partialmethod(expect_works, LIMITED, LIMITED)

    @needs_users
    def test_a_user_without_rights_suffices(self):
        self.expect_works(OTHER_USER, OTHER_USER)

    @needs_users
    def test_two_users_connect_if_each_names_the_other(self):
        self.expect_works([], OTHER_USER, users=(NOBODY, "0"))

    @needs_users
    def test_two_users_do_not_match_otherwise(self):
        self.expect_no_match([], OTHER_USER)

    @needs_users
    def test_users_that_their_namespaces_do_not_map_are_not_one_user(self):
        def unmapped(user):
            return ["setpriv", "--reuid=" + user, "--regid=" + user, "--clear-groups", "--", "unshare", "--user", "--"]
        status, said = self.run_pair(unmapped("3000"), unmapped("3001"), grace="500")
        self.assertEqual(status, 1, said)
        self.assertIn("VIP_NO_MATCH", said)
        self.assertIn("does not map", said)

    def test_in_a_user_namespace_the_number_counts_that_the_server_has_there(self):
        def user(number):
            return ["unshare", "--user", "--map-user=" + number, "--"]
        status, said = self.run_pair(user("4242"), user("77"), grace="500")
        self.assertEqual(status, 1, said)
        self.assertIn("but user 4242 listens", said)
        self.expect_works(user("4242"), user("77"), users=("", "4242"))

    test_two_networks_do_not_match = partialmethod(expect_no_match, [], OTHER_NETWORK)

    def test_only_addresses_of_this_machine_mean_the_nic_where_sockets_take_any(self):
        addresses = [("10.5.5.5", "10.5.5.5/24"), ("10.5.5.6", "10.5.5.6/24"), ("fd00::5", "fd00::5/64"), ("fe80::5", "fe80::5/64")]
        network = ["unshare", "--net", "--", "sh", "-ec", "ip link set lo up; ip route add local 10.6.0.0/24 dev lo"]
        network[-1] += "".join("; ip address add %s dev lo" % with_length for _, with_length in addresses)
        network[-1] += "; ip route add default dev lo"
        network[-1] += "".join("; echo 1 >/proc/sys/net/%s/ip_nonlocal_bind" % family for family in ("ipv4", "ipv6"))
        network[-1] += '; exec "$@"'
        asks = [PINGPONG, "--nic=via_lo", "--count=1"]
        environment = {**os.environ, "VIPL_GRACE_MSEC": "0", "VIPL_ADDRESS_BYTES": "16"}
        for address, is_own in [*((address, True) for address, _ in addresses), ("127.9.9.9", True), ("10.6.0.9", True),
                                ("10.77.77.77", False), ("10.5.5.7", False), ("10.5.5.255", False), ("224.0.0.1", False),
                                ("255.255.255.255", False), ("fd00::6", False), ("fe80::6", False)]:
            with self.subTest(address):
                done = subprocess.run([*network, "sh", *asks, address], capture_output=True, text=True, timeout=PATIENCE,
                                      env=environment)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("VIP_NO_MATCH" if is_own else "VIP_NOT_REACHABLE", done.stderr)

    def test_calls_that_a_filter_may_refuse_are_done_without(self):
        filtered = [REFUSING, "mincore,process_vm_readv,process_vm_writev,sched_yield"]
        self.expect_works(filtered, filtered)
        self.expect_works([], filtered)
        self.expect_works(filtered, [])

    def ends(self):
        """Returns two processes that can connect."""
        for role in "server", "client":
            puppet = Puppet([PUPPET], VIPL_GRACE_MSEC="5000", ASAN_OPTIONS="detect_leaks=0")  # that needs /proc
            self.addCleanup(puppet.process.communicate)
            yield puppet.do("at = address 'becoming %d" % os.getpid(), "from = room", "told = room")

    def expect_no_request(self, server, msec):
        self.assertEqual(server.code("VipConnectWait NIC at %d from told &request" % msec), TIMEOUT)

    def become(self, puppet, *commands):
        for command in (*commands, "setgid " + NOBODY, "setuid " + NOBODY):
            self.assertEqual(puppet.code(command), 0, command)

    @needs_users
    def test_a_server_that_becomes_another_user_waits_as_that_one(self):
        server, client = self.ends()
        server.do(OPEN, "make_vi")
        self.expect_no_request(server, 0)
        self.become(server)
        self.become(client)
        client.do(OPEN, "make_vi")
        connect(server, client)

    @needs_users
    def test_a_server_is_root_again_that_found_no_place_as_another_user(self):
        server, client = self.ends()
        for place in range(PLACES):
            taken = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.addCleanup(taken.close)
            taken.bind("\0vipl-%s-%s-%d" % (NOBODY, (b"becoming %d" % os.getpid()).hex(), place))
        server.do(OPEN, "make_vi")
        self.expect_no_request(server, 0)
        server.do("seteuid " + NOBODY)
        self.expect_no_request(server, 100)
        server.do("seteuid 0")
        client.do(OPEN, "make_vi")
        connect(server, client)

    @needs_users
    def test_nobody_connects_without_proc(self):
        with tempfile.TemporaryDirectory() as directory:
            for late in False, True:
                server, client = self.ends()
                for puppet in server, client:
                    if not late:
                        puppet.do(OPEN, "make_vi")
                    self.become(puppet, "chroot '" + directory, "chdir '/")
                    if late:
                        puppet.do(OPEN, "make_vi")
                connect(server, client)

    def test_what_geteuid_says_does_not_matter(self):
        server, client = (puppet.do("pretend 4711", OPEN, "make_vi") for puppet in self.ends())
        connect(server, client)


unittest.main(argv=sys.argv[:1])
