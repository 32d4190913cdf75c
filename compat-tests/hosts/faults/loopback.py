#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""loopback.py VIP_FAULTS TEST...: runs pairs of vip_faults over via_lo. The tests show that its checker
works, and check the rules of docs/OPERATING.md for a peer on the same machine."""

import os
import sys
import time
import unittest
from functools import partialmethod

sys.dont_write_bytecode = True
from program import LEVELS, Clock, FaultsTest, LocalJob, Program, shapes  # noqa: E402

PATIENCE = FaultsTest.patience


class Loopback(FaultsTest):
    def setUp(self):
        super().setUp()
        self.name = "%d.%d" % (os.getpid(), next(self.names))
        self.clock = Clock()

    def tearDown(self):
        self.end_programs()
        for program in self.programs:
            program.job.close()

    def start(self, role, *options, **more):
        words = [FAULTS, role, "--nic", "via_lo", "--name", self.name, *options]
        for key, value in more.items():
            words += ["--" + key, str(value)]
        program = Program(LocalJob(words), self.clock)
        self.programs.append(program)
        return program

    def pair(self, *options, **more):
        server = self.start("serve", *options, **more)
        server.wait_for("entering", PATIENCE, call="VipConnectWait")
        client = self.start("call", *options, **more)
        return server, client

    def ended_well(self, *programs):
        for program in programs:
            self.assertEqual(program.end(PATIENCE), 0, program.text())
            released = program.events("released")[-1].details
            self.assertEqual(released["files"], released["before"], "files are open that were not before")


class Traffic(Loopback):
    def test_everything_comes(self):
        for level, operation in shapes():
            with self.subTest(level=level, operation=operation):
                server, client = self.pair(level=level, operation=operation, seconds=0.5)
                self.ended_well(server, client)
                for program, peer in ((server, client), (client, server)):
                    self.assertGreater(program.number("ended", "sent"), 0)
                    self.assertEqual(program.number("ended", "received") + program.number("ended", "missing"),
                                     peer.number("ended", "sent"))

    def test_equals(self):
        one = self.start("equal", own="left", seconds=0.5)
        other = Program(LocalJob([FAULTS, "equal", "--nic", "via_lo", "--name", "left", "--own", self.name,
                                  "--seconds", "0.5"]), self.clock)
        self.programs.append(other)
        self.ended_well(one, other)

    def test_messages_have_a_limit(self):
        server, client = self.pair(messages=100, seconds=PATIENCE)
        self.ended_well(server, client)
        self.assertEqual(client.number("ended", "sent"), 100)


class Checker(Loopback):
    """If a program reports no error, that is a result only if it finds errors."""

    def spoilt(self, how, level, operation):
        server = self.start("serve", level=level, operation=operation)
        server.wait_for("entering", PATIENCE, call="VipConnectWait")
        self.start("call", level=level, operation=operation, spoil=how)
        self.assertEqual(server.end(PATIENCE), 1, server.text())
        return server.events("wrong")

    def test_wrong_byte(self):
        for level, operation in shapes():
            with self.subTest(level=level, operation=operation):
                self.assertEqual(len(self.spoilt("byte", level, operation)), 1)

    def test_twice(self):
        for level, operation in shapes():
            with self.subTest(level=level, operation=operation):
                self.assertEqual(len(self.spoilt("twice", level, operation)), 1)

    def test_missing(self):
        for level, operation in shapes():
            if level != "unreliable":
                with self.subTest(level=level, operation=operation):
                    self.assertEqual(len(self.spoilt("missing", level, operation)), 1)


class Ends(Loopback):
    def told(self, key, act, signal):
        for level in LEVELS:
            with self.subTest(level=level):
                server, client = self.pair(level=level, act=act, seconds=PATIENCE)
                server.wait_for("connected", PATIENCE)
                client.wait_for("connected", PATIENCE)
                fault = time.monotonic()
                client.job.signal(signal)
                self.took(key, server.here(server.wait_for("told", PATIENCE, code="CONN_LOST")) - fault)
                if act != "idle":
                    server.wait_for("flushed", PATIENCE)
                self.assertEqual(server.end(PATIENCE), 3, server.text())
                released = server.events("released")[-1].details
                self.assertEqual(released["files"], released["before"])

    test_kill_of_a_peer_that_sleeps = partialmethod(told, "lo.kill", "sleep", "KILL")
    test_kill_of_a_peer_that_is_idle = partialmethod(told, "lo.kill", "idle", "KILL")
    test_kill_of_a_peer_that_sends = partialmethod(told, "lo.kill", "traffic", "KILL")
    test_disconnect = partialmethod(told, "lo.disconnect", "idle", "USR1")

    def test_reconnect(self):
        server = self.start("serve", "--reconnect", seconds=PATIENCE)
        for _ in range(5):
            mark = server.mark()
            client = self.start("call", seconds=PATIENCE)
            server.wait_for("connected", PATIENCE, since=mark)
            client.wait_for("connected", PATIENCE)
            client.job.signal("KILL")
            server.wait_for("broken", PATIENCE, since=mark)
        mark = server.mark()
        client = self.start("call", seconds=0.5)
        server.wait_for("connected", PATIENCE, since=mark)
        server.job.signal("USR1")
        self.ended_well(server, client)
        files = {event.details["files"] for event in server.events("disconnected")[1:]}
        self.assertEqual(len(files), 1, "after each connection other files are open: %s" % files)

    def test_a_stopped_peer_is_waited_for(self):
        for level in LEVELS:
            with self.subTest(level=level):
                server, client = self.pair(level=level, seconds=PATIENCE)
                client.wait_for("connected", PATIENCE)
                client.job.signal("STOP")
                server.job.wait(2)  # lets time pass, and nothing may happen
                self.assertFalse(server.events("told"))
                client.job.signal("CONT")
                client.job.signal("USR1")
                server.job.signal("USR1")
                self.ended_well(server, client)

    def test_kill_of_who_requests(self):
        server = self.start("serve", "--reconnect", act="hold")
        server.wait_for("entering", PATIENCE, call="VipConnectWait")
        client = self.start("call", timeout="infinite")
        server.wait_for("holding", PATIENCE)
        client.job.signal("KILL")
        client.job.wait(PATIENCE)
        server.job.signal("USR1")
        returned = server.wait_for("return", PATIENCE, call="VipConnectAccept")
        self.assertEqual(returned.details["code"], "VIP_TIMEOUT")

    def test_kill_of_who_is_asked(self):
        server = self.start("serve", act="hold")
        server.wait_for("entering", PATIENCE, call="VipConnectWait")
        client = self.start("call", timeout="infinite")
        server.wait_for("holding", PATIENCE)
        fault = time.monotonic()
        server.job.signal("KILL")
        returned = client.wait_for("return", PATIENCE, call="VipConnectRequest")
        self.assertEqual(returned.details["code"], "VIP_NO_MATCH")
        self.took("lo.kill.request", client.here(returned) - fault)


if __name__ == "__main__":
    FAULTS = sys.argv.pop(1)
    unittest.main(verbosity=2)
