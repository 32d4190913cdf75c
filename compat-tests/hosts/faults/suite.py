#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""suite.py VIP_FAULTS TEST...: faults between two hosts. docs/OPERATING.md has the promises and the times that these
tests have measured."""

import sys
import time
import unittest
from functools import partialmethod

sys.dont_write_bytecode = True
from ends import EndsOfProcesses  # noqa: E402
from pairs import DISORDER, PATIENCE, PairTest  # noqa: E402
from power import Power  # noqa: E402, F401
from program import LEVELS, shapes, short  # noqa: E402
from results import K  # noqa: E402
from hosts import TCP, message, tcp_flags  # noqa: E402

RELIABLE = ("delivery", "reception")
LOST_MARGIN = 2  # for a lost packet, which TCP repeats after a second at most


class Lossy(PairTest):
    """A network that loses, duplicates, and reorders packets."""

    def lossy(self, netem, disorder=False):
        """Checks that there is no error and that everything arrives, perhaps by another connection. Returns whether
        a connection was lost."""
        # docs/OPERATING.md says so: at this level late packets come late, and duplicates come twice. A late write may
        # change memory, so a program cannot check it.
        disordered = [shape for shape in shapes() if disorder and shape[0] == DISORDER]
        unordered = [shape for shape in disordered if shape[1] == "send"]
        for host in self.hosts:
            host.netem(netem)
        options = {"wait": False, "seconds": 8, "rate": 100, "timeout": 60000}
        pairs = self.connect_all([shape for shape in shapes() if shape not in disordered], "--reconnect", **options)
        pairs.update(self.connect_all(unordered, "--reconnect", "--unordered", **options))
        broken = False
        for (level, operation), pair in pairs.items():
            with self.subTest(netem=netem, level=level, operation=operation):
                for program in pair:
                    self.ended_well(program, 3 * PATIENCE)
                    broken |= bool(program.events("broken"))
                self.everything_came(*pair, level)
        return broken

    def test_loss_of_1_percent(self):
        self.assertFalse(self.lossy("loss 1%"))

    def test_loss_of_5_percent(self):
        self.goes_on(lambda: self.lossy("loss 5%"))

    test_loss_of_20_percent = partialmethod(lossy, "loss 20%")

    def test_reordering(self):
        self.assertFalse(self.lossy("delay 5ms reorder 95%", disorder=True))  # 5 % overtake others

    def test_duplication(self):
        self.assertFalse(self.lossy("duplicate 10%", disorder=True))


class Outage(PairTest):
    """The network is cut for a while. The hosts' interfaces stay up."""

    def outage(self, seconds, pairs):
        """Cuts the network, and returns the time when it did."""
        fault = time.monotonic()
        self.hosts.wire.cut()
        end = fault + seconds
        while time.monotonic() < end:  # lets time pass during the fault, and notes the times of events
            for program in pairs:
                program.look()
            time.sleep(0.02)
        self.hosts.wire.join()
        return fault

    def silent(self, act, seconds, lives):
        pairs = self.connect_levels(act=act, seconds=10 * PATIENCE)
        fault = self.outage(seconds, sum(pairs.values(), ()))
        for level, pair in pairs.items():
            with self.subTest(act=act, outage=seconds, level=level):
                if lives:
                    self.lived(pair)
                    continue
                for program in pair:
                    self.all_break("outage%d.%s" % (seconds, act), {level: program}, fault)
                self.works(level)

    def lived(self, pair):
        """The pair is still connected both ways: when one side disconnects, the other side gets only that error."""
        for program in pair:
            program.look()
            self.assertFalse(program.events("told"), program.text())
        pair[0].job.signal("USR1" if "--act idle" in pair[0].job.command else "KILL")
        pair[1].wait_for("told", PATIENCE, code="CONN_LOST")

    def busy(self, seconds, lost):
        """The connections of the levels `lost` are lost on both sides, and Unreliable goes on otherwise. Returns
        whether another connection was lost."""
        pairs = self.connect_all(shapes(), "--reconnect", seconds=10 * PATIENCE, rate=50, timeout=5000)
        fault = self.outage(seconds, sum(pairs.values(), ()))
        others = []
        for (level, operation), pair in pairs.items():
            with self.subTest(outage=seconds, level=level, operation=operation):
                self.went_on(pair)
                if level in lost:
                    self.was_lost(pair, level, operation, "outage%d.busy.%s" % (seconds, short(level)), fault)
                elif level == "unreliable":
                    self.assertFalse(self.breaks(pair), "a short outage has ended the connection")
                else:
                    others += self.breaks(pair)
        return bool(others)

    def breaks(self, pair):
        return sum((program.events("broken") for program in pair), [])

    def went_on(self, pair):
        """By the same connection or another one."""
        for program in pair:
            self.is_connected_at_last(program)
        for program in pair:
            program.job.signal("USR1")
        for program in pair:
            self.ended_well(program, 3 * PATIENCE)

    def was_lost(self, pair, level, operation, key, fault):
        broken = [program.events("broken") for program in pair]
        self.assertTrue(broken[0] and broken[1], "the outage has not ended the connection on both sides")
        for program in pair:
            self.told_after(key, program, fault)
        if level == "reception" and operation != "read":
            self.what_was_done_is_there(broken[0][0], broken[1][0])
            self.what_was_done_is_there(broken[1][0], broken[0][0])

    def is_connected_at_last(self, program):
        end = time.monotonic() + 3 * PATIENCE
        while len(program.events("connected")) <= len(program.events("broken")):
            self.assertLess(time.monotonic(), end, program.text())
            self.assertFalse(program.job.ended, program.text())
            time.sleep(0.1)

    def what_was_done_is_there(self, sender, target):
        """The sends that were done have arrived. Both events belong to the first connection that broke."""
        there = max(int(target.details["received"]), int(target.details["stored"]))
        self.assertGreaterEqual(there, int(sender.details["done"]))

    def test_reads_under_way(self):
        """After reads were cut off, a new connection of the same VIs works."""
        shapes = [(level, "read") for level in RELIABLE] * 3
        pairs = [self.connect("--reconnect", level=level, operation=operation, seconds=10 * PATIENCE, rate=200,
                              largest=200000, timeout=5000) for level, operation in shapes]
        fault = self.outage(60, sum(pairs, ()))
        for (level, operation), pair in zip(shapes, pairs):
            with self.subTest(level=level):
                self.went_on(pair)
                self.was_lost(pair, level, operation, "outage60.busy.rc", fault)

    def test_1_second_idle(self):
        self.silent("idle", 1, lives=True)
        self.silent("sleep", 1, lives=True)

    def test_5_seconds_idle(self):
        self.silent("idle", 5, lives=True)
        self.silent("sleep", 5, lives=True)

    def test_5_seconds_and_a_disconnect(self):
        """The disconnect of one side does not get through, and arrives when the network is back."""
        pairs = self.connect_levels(act="idle", seconds=10 * PATIENCE)
        self.hosts.wire.cut()
        for one, _ in pairs.values():
            one.job.signal("USR1")
            self.ended_well(one)
        fault = self.outage(5, sum(pairs.values(), ()))
        self.all_break("outage5.disconnect", {level: other for level, (_, other) in pairs.items()}, fault)

    test_60_seconds_idle = partialmethod(silent, "idle", 60, lives=False)
    test_60_seconds_asleep = partialmethod(silent, "sleep", 60, lives=False)

    def test_1_second_busy(self):
        self.goes_on(lambda: self.busy(1, lost=()))

    def test_5_seconds_busy(self):
        self.goes_on(lambda: self.busy(5, lost=()))

    test_60_seconds_busy = partialmethod(busy, 60, lost=LEVELS)


class Link(PairTest):
    """The second host's interface is set down and up again."""

    def test_down(self):
        pairs = self.connect_levels(act="sleep", seconds=10 * PATIENCE)
        fault = time.monotonic()
        self.hosts[2].link("down")
        for end in 0, 1:
            self.all_break("link.down", {level: pair[end] for level, pair in pairs.items()}, fault, end=end)
        self.hosts[2].link("up")
        # docs/OPERATING.md gives the reason: soft-RoCE no longer receives packets.
        self.assertEqual(self.hosts[2].run("rdma link delete rxe0 && rdma link add rxe0 type rxe netdev eth0").status, 0)
        self.all_work()


class Ends(PairTest, EndsOfProcesses):
    test_kill_and_its_news_is_lost = partialmethod(EndsOfProcesses.told, "kill_lost.sleep", "KILL", act="sleep",
                                                   drop=tcp_flags(0x11))
    test_disconnect_and_its_news_is_lost = partialmethod(EndsOfProcesses.told, "disconnect_lost.idle", "USR1", act="idle",
                                                         drop=message("DISCONNECT"))


class Connect(PairTest):
    """Connecting while a message is lost or to a host that does not exist; and a device that is removed."""

    def lost(self, key, match, sender, call):
        """The side that notices the loss is in that call."""
        for level in LEVELS:
            with self.subTest(lost=key, level=level):
                drop = self.hosts.wire.drop(sender, 1, match)
                pair = self.connect(level=level, act="idle", seconds=10 * PATIENCE)
                self.assertEqual(drop.matched, 1, "nothing was lost: this test has shown nothing")
                code, took = self.returned(pair[0 if call == "VipConnectAccept" else 1], call, PATIENCE)
                self.assertEqual(code, "VIP_SUCCESS")
                self.took("lost.%s" % key, took, margin=LOST_MARGIN)
                self.lives(pair[1], pair[0])

    def lives(self, one, other):
        one.job.signal("USR1")
        self.ended_well(one)
        other.wait_for("told", PATIENCE, code="CONN_LOST")
        self.broke(other)

    test_lost_syn = partialmethod(lost, "SYN", tcp_flags(0x02), 2, "VipConnectRequest")
    test_lost_request = partialmethod(lost, "REQUEST", message("REQUEST"), 2, "VipConnectRequest")
    test_lost_accept = partialmethod(lost, "ACCEPT", message("ACCEPT"), 1, "VipConnectRequest")
    test_lost_confirm = partialmethod(lost, "CONFIRM", message("CONFIRM"), 2, "VipConnectAccept")

    def refused(self, key, code, timeout, promise=None, **options):
        for level in LEVELS:
            with self.subTest(case=key, level=level):
                caller = self.start(1, "call", level=level, timeout=timeout, **options)
                found, took = self.returned(caller, "VipConnectRequest", PATIENCE)
                self.assertEqual(found, code)
                self.took(key, took, promise=promise)
                if promise:
                    self.assertGreater(took, promise - 0.1)
                self.broke(caller)

    test_host_that_does_not_exist = partialmethod(refused, "nobody.host", "VIP_NOT_REACHABLE", timeout=30000, host="10.9.9.77")
    test_host_without_a_route = partialmethod(refused, "nobody.route", "VIP_NOT_REACHABLE", timeout=30000, host="192.0.2.1")

    def test_behind_a_firewall(self):
        """No TCP gets through."""
        dropped = [self.hosts.wire.drop(host, 1000000, TCP) for host in (1, 2)]
        try:
            self.refused("nobody.tcp", "VIP_TIMEOUT", timeout=5000, promise=5)
        finally:
            for one in dropped:
                one.end()
        self.works("delivery")

    def test_host_without_soft_roce(self):
        self.hosts[2].run("rdma link delete rxe0")
        try:
            self.refused("nobody.device", "VIP_NO_MATCH", timeout=30000)
        finally:
            self.hosts[2].run("rdma link add rxe0 type rxe netdev eth0")
        self.works("delivery")

    def test_device_that_is_deleted(self):
        """The device is deleted under programs that sleep, are idle, and are busy. The command waits until they have
        closed the NIC."""
        pairs = [(level, act, pair) for act in ("sleep", "idle", "traffic")
                 for level, pair in self.connect_levels(act=act, rate=50, seconds=10 * PATIENCE).items()]
        fault = time.monotonic()
        delete = self.hosts[2].start("rdma link delete rxe0")
        try:
            for level, act, (survivor, victim) in pairs:
                with self.subTest(level=level, act=act):
                    # Silence cannot tell of this, so K is no limit, and nine programs have to see it.
                    self.told_after("device.here.%s" % short(level), victim, fault, promise=K)
                    self.told_after("device.there.%s" % short(level), survivor, fault, promise=K)
                    self.assertEqual(victim.end(PATIENCE), 3, victim.text())
                    self.broke(survivor)
            self.assertEqual(delete.wait(PATIENCE), 0, "rdma link delete does not end")
            self.assertTrue(all(victim.events("told", code="CATASTROPHIC") for _, _, (_, victim) in pairs))
        finally:
            self.hosts[2].run("rdma link add rxe0 type rxe netdev eth0")
        self.all_work()


if __name__ == "__main__":
    PairTest.program = sys.argv.pop(1)
    unittest.main(verbosity=2)
