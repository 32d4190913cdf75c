# SPDX-License-Identifier: BSD-2-Clause
"""Runs vip_stat beside two processes that send each other messages: stat.py VIP_STAT
VIP_PINGPONG PUPPET"""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.dont_write_bytecode = True  # tests leave the sources alone
from attacks import lingering  # noqa: E402
from puppet import OPEN, Puppet, eventually  # noqa: E402

STAT, PINGPONG, PUPPET = sys.argv[1:4]
PATIENCE = 60  # seconds; only a program that hangs takes this long
NOBODY = 65534
NAME = "\0vipl-status-%d-" % os.getpid()  # all processes of a network namespace share the names


def stat(*arguments, under=()):
    return subprocess.run([*under, STAT, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE)


def nics_of(process):
    return json.loads(stat("--json", process.pid).stdout)


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

    def test_what_a_server_waits_for_is_shown_in_words_or_digits(self):
        server = Puppet([PUPPET], VIPL_GRACE_MSEC="0").do(
            OPEN, "words = address 'stat-hello", "bytes = address '\x01\x7fx", "from = room", "told = room")
        threads = [server.result("thread VipConnectWait NIC %s INFINITE from told &request" % each) for each in ("words", "bytes")]
        eventually(lambda: sorted(nics_of(server)[0]["waits_for"]) == [b"\x01\x7fx".hex(), b"stat-hello".hex()])
        self.assertRegex(stat(server.pid).stdout, "\n  waits for clients of: (stat-hello, 017f78|017f78, stat-hello)\n")
        server.code("VipCloseNic NIC")
        server.do(*("pthread_join %d 0" % thread for thread in threads))
        server.end()

    def test_a_server_that_no_longer_waits_is_shown_without(self):
        server = Puppet([PUPPET]).do(OPEN, "at = address 'stat-once", "from = room", "told = room")
        server.code("VipConnectWait NIC at 1 from told &request")
        self.assertEqual(nics_of(server)[0]["waits_for"], [])  # though its NIC listens on for some time
        server.end()

    def test_a_process_that_ends_is_shown_no_more(self):
        self.server.kill()
        self.server.wait()
        self.assertEqual(nics_of(self.server), [])

    def test_a_stopped_process_is_told_of(self):
        self.server.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.server.pid, os.WSTOPPED | os.WNOWAIT)
        for _ in range(3):  # at last the NIC has the most readers that it serves
            answer = stat(self.server.pid)
            self.assertIn("vip_stat: 1 NIC without an answer, of vip_pingpong (%d), which is stopped" % self.server.pid,
                          answer.stderr)
            self.assertEqual(answer.returncode, 1)
        self.server.send_signal(signal.SIGCONT)
        eventually(lambda: nics_of(self.server))

    def test_that_no_nic_is_open_is_said(self):
        answer = stat(os.getpid())
        self.assertEqual((answer.returncode, answer.stdout), (0, ""))
        self.assertIn("no such process of this network namespace has a NIC open", answer.stderr)

    def test_a_closed_nic_is_shown_no_more_while_a_forked_child_lives(self):
        parent = Puppet([PUPPET]).do(OPEN)
        child = parent.result("stay")
        self.assertEqual(parent.code("VipCloseNic NIC"), 0)
        self.assertIn("no such process", stat(parent.pid).stderr)
        os.kill(child, signal.SIGKILL)
        parent.end()

    def test_a_nic_with_too_many_readers_is_told_of_to_those_who_ask_for_its_process(self):
        with socket.socket(socket.AF_UNIX) as listener, contextlib.ExitStack() as readers:
            listener.bind(NAME + "full")
            listener.listen(0)
            with contextlib.suppress(BlockingIOError):
                while True:
                    reader = readers.enter_context(socket.socket(socket.AF_UNIX))
                    reader.setblocking(False)
                    reader.connect(listener.getsockname())
            answer = stat(os.getpid())
            self.assertIn("1 NIC without an answer, of python3 (%d)\n" % os.getpid(), answer.stderr)
            self.assertEqual(answer.returncode, 1)
            self.assertEqual(stat(self.server.pid).stderr, "")

    def test_another_user_sees_nothing(self):
        if os.geteuid() != 0:
            self.skipTest("only root can become another user")
        with tempfile.TemporaryDirectory() as directory:  # the build may be where another user cannot read
            os.chmod(directory, 0o755)
            answer = subprocess.run([shutil.copy(STAT, directory), "--json", str(self.server.pid)], capture_output=True,
                                    text=True, timeout=PATIENCE, user=NOBODY, group=NOBODY, extra_groups=[])
        self.assertEqual(json.loads(answer.stdout), [])
        self.assertIn("of other users", answer.stderr)
        self.assertEqual(answer.returncode, 1)

    def other_nic(self, name, program, **how):
        """Runs a program whose socket `nic` has the name of a NIC."""
        begin = ("import ctypes, fcntl, os, socket, sys, threading; nic = socket.socket(socket.AF_UNIX); nic.bind(%a); "
                 "nic.listen(8)\n" % (NAME + name))
        process = subprocess.Popen(["/usr/bin/python3", "-c", begin + program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   **how)
        self.processes.append(process)
        for stream in process.stdin, process.stdout:
            self.addCleanup(stream.close)
        return process

    def answered_by(self, send):
        """What vip_stat says when another program has taken a name, and sends this to each reader."""
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(NAME + "stranger")
            listener.listen(8)

            def answer():
                reader, _ = listener.accept()
                with reader:
                    send(reader)
            thread = threading.Thread(target=answer, daemon=True)
            thread.start()
            said = stat(self.server.pid, os.getpid())
            thread.join(PATIENCE)
        self.assertIn("vip_pingpong (%d): via_lo" % self.server.pid, said.stdout)
        self.assertEqual(said.returncode, 0)
        return said

    def sealed(self, text, size=None):
        """Returns a file with this answer, which is made longer if there is a size."""
        file = os.memfd_create("answer", os.MFD_ALLOW_SEALING)
        self.addCleanup(os.close, file)
        os.write(file, text)
        os.truncate(file, size or len(text))
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
        return file

    def test_answers_of_strangers_are_left_out(self):
        zero = os.open("/dev/zero", os.O_RDONLY)
        self.addCleanup(os.close, zero)
        whole = b'{"nic": "x", "host": "", "regions": 1, "requests": 0, "failed": false}\n'
        for file in (zero, os.memfd_create("not sealed"), self.sealed(b""), self.sealed(b"[" * 100000),
                     self.sealed(b'{"nic": "via_lo"}'), self.sealed(b"\xff"), self.sealed(whole.replace(b"1", b"1e999")),
                     self.sealed(whole, 1 << 40), self.sealed(whole + b'["%s"]' % (b"x" * 100000))):
            said = self.answered_by(lambda reader: socket.send_fds(reader, [b"x"], [file]))
            self.assertIn("1 NIC without an answer that can be read", said.stderr)
        said = self.answered_by(lambda reader: reader.send(b"x"))
        self.assertIn("1 NIC without an answer that can be read", said.stderr)

    def test_a_stranger_takes_no_other_process_and_sends_no_control_characters(self):
        file = self.sealed(b'{"pid": 1, "program": "init", "nic": "\\u001b[2J", "host": "", "regions": 1,'
                           b' "requests": 0, "failed": false}')
        said = self.answered_by(lambda reader: socket.send_fds(reader, [b"x"], [file]))
        self.assertNotIn("\x1b", said.stdout)
        self.assertNotIn("init (1)", said.stdout)
        self.assertIn("(%d): ?[2J" % os.getpid(), said.stdout)

    def test_a_file_that_nobody_can_close_stops_nothing(self):
        for others in [], [self.sealed(b"{}")]:
            file = lingering().detach()

            def answer(reader):
                socket.send_fds(reader, [b"x"], [*others, file])
                os.close(file)  # so that the one under way is the last
            said = self.answered_by(answer)
            self.assertIn("1 NIC without an answer that can be read", said.stderr)

    def test_what_another_user_says_is_shown_as_his(self):
        if os.geteuid() != 0:
            self.skipTest("only root can become another user")
        process = self.other_nic(
            "other", "file = os.memfd_create('answer', os.MFD_ALLOW_SEALING); "
            "os.write(file, b'{\"nic\": \"x\", \"host\": \"\", \"regions\": 1, \"requests\": 0, \"failed\": false, "
            "\"user\": 0}'); fcntl.fcntl(file, fcntl.F_ADD_SEALS, 14); print(flush=True)\n"
            "while True: socket.send_fds(nic.accept()[0], [b'x'], [file])", user=NOBODY, group=NOBODY, extra_groups=[])
        process.stdout.readline()
        self.assertIn("(%d of nobody): x" % process.pid, stat(process.pid).stdout)
        self.assertEqual(nics_of(process)[0]["user"], NOBODY)
        self.assertIn("vip_pingpong (%d): via_lo" % self.server.pid, stat().stdout)

    def test_more_nics_than_file_descriptors_are_shown(self):
        file = self.sealed(b'{"nic": "x", "host": "", "regions": 0, "requests": 0, "failed": false}')

        def answer(listener):
            with contextlib.suppress(OSError):  # shutdown() ends accept()
                while True:
                    reader, _ = listener.accept()
                    with reader:
                        socket.send_fds(reader, [b"x"], [file])
        for number in range(100):
            listener = socket.socket(socket.AF_UNIX)
            self.addCleanup(listener.close)
            listener.bind(NAME + str(number))
            listener.listen(8)
            thread = threading.Thread(target=answer, args=(listener,))
            thread.start()
            self.addCleanup(thread.join)
            self.addCleanup(listener.shutdown, socket.SHUT_RDWR)
        for limit in "ulimit -S -n 64", "ulimit -n 64":
            def all_answer():  # in time
                said = stat("--json", os.getpid(), under=["sh", "-c", limit + ' && exec "$@"', "sh"])
                return (len(json.loads(said.stdout)), said.stderr) == (100, "")
            eventually(all_answer)

    def test_the_socket_that_a_child_has_of_a_dead_parent_is_no_nic(self):
        parent = self.other_nic("dead", "os.fork() and os._exit(0); print(flush=True); sys.stdin.read()")
        parent.stdout.readline()
        for flag in os.WNOWAIT, 0:  # its parent has not waited for it yet, and has
            os.waitid(os.P_PID, parent.pid, os.WEXITED | flag)
            self.assertIn("no such process", stat(parent.pid).stderr)

    def test_a_process_whose_main_thread_has_ended_has_its_nic(self):
        process = self.other_nic(
            "threads", "ctypes.CDLL(None).prctl(1, 9); "  # it is killed when this process ends
            "threading.Thread(target=lambda: [nic.accept()[0].send(b'x') for _ in iter(int, 1)]).start(); "
            "ctypes.CDLL(None).pthread_exit(None)")

        def main_thread_has_ended():
            with open("/proc/%d/stat" % process.pid, encoding="ascii") as file:
                return ") Z " in file.read()
        eventually(main_thread_has_ended)
        self.assertIn("1 NIC without an answer that can be read", stat(process.pid).stderr)

    def test_wrong_usage_is_2(self):
        self.assertEqual(stat("x").returncode, 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
