# SPDX-License-Identifier: BSD-2-Clause
"""Faults between two hosts, or on one: a process of the second host ends or is stopped."""

import time
from functools import partialmethod

from program import shapes


class EndsOfProcesses:
    """What a FaultsTest tests."""

    stopped_for = 20  # seconds

    def told(self, key, signal, act, drop=None):
        """Tests all levels at once. `drop`: a packet of each that tells of the end is lost."""
        pairs = self.connect_levels(act=act, seconds=10 * self.patience, rate=50)
        if drop:
            dropped = self.hosts.wire.drop(2, len(pairs), drop)
            self.addCleanup(dropped.end)
        fault = {}
        for level, (_, other) in pairs.items():
            fault[level] = time.monotonic()
            other.job.signal(signal)
        for level, (survivor, other) in pairs.items():
            with self.subTest(key=key, level=level):
                self.told_after(self.key(key, level), survivor, fault[level])
                self.broke(survivor)
                if act != "idle":
                    self.assertTrue(survivor.events("flushed"), survivor.text())
                if signal == "USR1":
                    self.ended_well(other)
        if drop:
            self.assertGreater(dropped.matched, 0, "nothing was lost: this test has shown nothing")
        self.all_work()

    test_kill = partialmethod(told, "kill.sleep", "KILL", act="sleep")
    test_kill_of_who_sends = partialmethod(told, "kill.traffic", "KILL", act="traffic")
    test_disconnect = partialmethod(told, "disconnect.idle", "USR1", act="idle")

    def test_kill_with_a_request_taken(self):
        """The host has the request, and the process that could answer it is gone."""
        pairs = self.hold_requests(server=2)
        fault = {}
        for level, (held, _) in pairs.items():
            fault[level] = time.monotonic()
            held.job.signal("KILL")
        for level, (_, caller) in pairs.items():
            with self.subTest(level=level):
                returned = caller.wait_for("return", self.patience, call="VipConnectRequest")
                self.assertEqual(returned.details["code"], "VIP_NO_MATCH")
                self.took(self.key("kill.request", level), caller.here(returned) - fault[level])

    def test_a_stopped_process_is_waited_for(self):
        """A stopped process is not gone, because its host answers for it."""
        idle = self.connect_levels(act="idle", seconds=10 * self.patience)
        busy = self.connect_all(shapes(), rate=50, seconds=10 * self.patience)
        for _, other in (*idle.values(), *busy.values()):
            other.job.signal("STOP")
        idle["delivery"][0].job.wait(self.stopped_for)  # lets time pass, and nothing may happen
        for shape, (survivor, other) in (*idle.items(), *busy.items()):
            with self.subTest(shape=shape):
                self.assertFalse(survivor.events("told"), survivor.text())
                other.job.signal("CONT")
                other.job.signal("USR1")
                survivor.job.signal("USR1")
                if shape in busy:
                    self.ended_well(survivor)
                    self.ended_well(other)

    def test_again_and_again(self):
        """One survivor and five peers that are killed: the survivor needs no more files and memory for each."""
        options = {"name": self.name(), "seconds": 10 * self.patience, "rate": 200, "timeout": 1000 * self.patience}
        survivor = self.serve(1, "--reconnect", **options)
        for signal in ("KILL", "KILL", "KILL", "KILL", "KILL", "USR1"):
            mark = survivor.mark()
            client = self.start(2, "call", **options)
            survivor.wait_for("connected", self.patience, since=mark)
            client.wait_for("connected", self.patience)
            client.job.signal(signal)
            if signal == "USR1":
                survivor.job.signal(signal)
            survivor.wait_for("disconnected", self.patience, since=mark)
        self.ended_well(client)
        self.ended_well(survivor)
        ends = survivor.events("disconnected")
        self.assertEqual(len({event.details["files"] for event in ends[1:]}), 1, ends)
        self.assertLess(int(ends[-1].details["kib"]) - int(ends[1].details["kib"]), 1000, ends)
