# SPDX-License-Identifier: BSD-2-Clause
"""Processes over via_lo in namespaces, under limits, and after they have become another user, as in containers:
containers.py VIP_PINGPONG LIBRARY REFUSING BECOMING

Root makes the namespaces, as a container engine does. Another user first becomes root of a user namespace, in
which there is no second user. docs/PORTING.md, *Containers*, lists the cases that work."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

if os.geteuid() != 0:
    os.execvp("unshare", ["unshare", "--user", "--map-root-user", "--", sys.executable, *sys.argv])

BUILT, LIBRARY, REFUSING, BECOMING = sys.argv[1:]
PATIENCE = 120  # seconds; only a program that hangs takes this long
NOBODY = "65534"
OWN = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--ipc", "--uts", "--"]
READ_ONLY = ["unshare", "--mount", "--", "sh", "-c", 'mount -o remount,bind,ro / && exec "$@"', "sh"]
LIMITED = ["sh", "-c", 'ulimit -l 64 && ulimit -n 64 && exec "$@"', "sh"]
OTHER_NETWORK = ["unshare", "--net", "--"]
OTHER_USER = ["setpriv", "--reuid=" + NOBODY, "--regid=" + NOBODY, "--clear-groups", "--"]


# Copies that other users can run. The build may be below the home of root, which is closed to them.
OPEN = tempfile.TemporaryDirectory()
PINGPONG = shutil.copy(BUILT, OPEN.name)
shutil.copy(LIBRARY, OPEN.name + "/libvipl.so.1")
os.environ["LD_LIBRARY_PATH"] = OPEN.name
os.chmod(OPEN.name, 0o755)


def refusing(calls):
    return [REFUSING, calls]


with open("/proc/self/uid_map", encoding="ascii") as uid_map:
    HAS_USERS = any(int(line.split()[2]) > 1 for line in uid_map)
needs_users = unittest.skipUnless(HAS_USERS, "there is one user only")


class Containers(unittest.TestCase):
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
        self.assertIn("no permitted listener", said, "it says where to look")

    def test_processes_of_two_pid_mount_ipc_and_uts_namespaces_connect(self):
        self.expect_works(OWN, OWN)
        self.expect_works([], OWN)
        self.expect_works(OWN, [])

    def test_a_read_only_root_does_no_harm(self):
        self.expect_works(READ_ONLY, READ_ONLY)

    def test_64_kib_of_locked_memory_and_64_files_suffice(self):
        self.expect_works(LIMITED, LIMITED)

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

    def test_two_networks_do_not_match(self):
        self.expect_no_match([], OTHER_NETWORK)

    def test_calls_that_a_filter_may_refuse_are_done_without(self):
        filtered = refusing("membarrier,mincore,process_vm_readv,process_vm_writev,sched_yield")
        self.expect_works(filtered, filtered)
        self.expect_works([], filtered)
        self.expect_works(filtered, [])

    def test_a_refused_call_is_named_when_the_nic_cannot_be_opened(self):
        for call in "epoll_create1", "getrandom", "memfd_create", "timerfd_create":
            with self.subTest(call):
                done = subprocess.run([*refusing(call), PINGPONG, "--nic=via_lo"], capture_output=True, text=True,
                                      timeout=PATIENCE)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(call + "()", done.stderr)

    def test_a_refused_call_is_named_when_a_peer_cannot_be_accepted(self):
        status, said = self.run_pair(refusing("fstatfs"), [], grace="500")
        self.assertEqual(status, 1, said)
        self.assertIn("fstatfs() or fstat(): Operation not permitted", said)

    def expect_becomes(self, how):
        done = subprocess.run([BECOMING, how], capture_output=True, text=True, timeout=PATIENCE,
                              env={**os.environ, "VIPL_GRACE_MSEC": "5000",
                                   "ASAN_OPTIONS": "detect_leaks=0"})  # that needs /proc
        self.assertEqual(done.returncode, 0, done.stderr)

    @needs_users
    def test_a_server_that_becomes_another_user_waits_as_that_one(self):
        self.expect_becomes("user")
        self.expect_becomes("back")

    @needs_users
    def test_nobody_connects_without_proc(self):
        self.expect_becomes("chroot")
        self.expect_becomes("late")

    def test_what_geteuid_says_does_not_matter(self):
        self.expect_becomes("fake")


unittest.main(argv=sys.argv[:1])
