#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""suite.py VIP_FAULTS TEST...: faults between two hosts. docs/OPERATING.md has the promises and the times that these
tests have measured."""

import contextlib
import os
import sys
import time
import unittest
from functools import partialmethod

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "..", "tools"))
from ends import EndsOfProcesses  # noqa: E402
from hosts import TCP, Hosts, message, tcp_flags  # noqa: E402
from program import LEVELS, Clock, FaultsTest, K, Program, limit, record, shapes, short  # noqa: E402

# A UC queue pair at the unreliable level takes all packets that come, also twice and late.
DISORDER = "unreliable"
TRIES = 3
RELIABLE = ("delivery", "reception")
PATIENCE = 240  # for events without a stated time: eight programs may take a minute to start
LOST_MARGIN = 2  # for a lost packet, which TCP repeats after a second at most


def without_known(complaints):
    """Removes a known warning: soft-RoCE of Linux 6.1 warns when a request that was lost too often is given
    up."""
    found = []
    known = False
    for line in complaints:
        known = "rxe_completer" in line or (known and "Call Trace" in line)
        if not known:
            found.append(line)
    return found


class PairTest(FaultsTest):
    """Its hosts are booted once for the tests of a class."""

    patience = PATIENCE
    more_files = 3  # librdmacm keeps one or two for the next NIC that is opened

    @classmethod
    def setUpClass(cls):
        stack = contextlib.ExitStack()
        cls.addClassCleanup(stack.close)
        cls.hosts = stack.enter_context(Hosts(2, show=sys.stdout))
        cls.clocks = {}
        for host in cls.hosts:
            cls.tell_time(host)

    @classmethod
    def tearDownClass(cls):
        found = without_known(cls.hosts.end_all())
        if found:
            raise AssertionError("the hosts complained:\n" + "\n".join(found))

    @classmethod
    def tell_time(cls, host):
        """Measures by how much the host's clock is ahead of this machine's. Must be called after each boot."""
        clock = cls.clocks[host.number] = Clock()
        ticks = host.start("for i in 1 2 3 4 5 6 7 8; do"
                           " read up _ </proc/uptime; echo event tick ${up/./}0; sleep 0.2; done")
        Program(ticks, clock).end(PATIENCE)

    def tearDown(self):
        self.hosts.wire.join()
        super().tearDown()
        for host in self.hosts:
            if not host.alive:
                self.boot(host)
            host.run("tc qdisc delete dev eth0 root 2>/dev/null")
            self.nothing_left(host)

    def boot(self, host):
        host.boot()
        self.tell_time(host)

    def nothing_left(self, host):
        """Checks that the host's device has no objects of ended programs."""
        show = "for what in qp mr cm_id cq; do rdma resource show $what; done | grep vip_faults"
        end = time.monotonic() + PATIENCE
        while left := host.run(show).out:
            self.assertLess(time.monotonic(), end, "%s still has:\n%s" % (host.name, left))

    def goes_on(self, is_lost):
        """No connection is lost. A host that gets no processor time for seconds looks like a host whose packets
        are lost, so one of several tries has to succeed."""
        for _ in range(TRIES):
            if not is_lost():
                return
        self.fail("a connection is lost each time")


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


class Power(PairTest):
    """The second host loses its power and comes back with the same address."""

    def loses_power(self):
        fault = time.monotonic()
        self.hosts[2].power_off()
        return fault

    def told(self, act, key=None):
        which = [shape for shape in shapes() if act == "traffic" or shape[1] == "send"]
        pairs = self.connect_all(which, act=act, rate=50, seconds=10 * PATIENCE)
        fault = self.loses_power()
        for (level, operation), (survivor, _) in pairs.items():
            with self.subTest(act=act, level=level, operation=operation):
                self.told_after(self.key(key or "power.%s" % act, level), survivor, fault)
                self.broke(survivor)
        self.boot(self.hosts[2])
        self.all_work()

    test_while_idle = partialmethod(told, "idle")
    test_while_the_other_sleeps_in_vip_recv_wait = partialmethod(told, "sleep")
    test_while_the_other_sends = partialmethod(told, "traffic")
    test_right_after_connecting = partialmethod(told, "sleep", "power.new")

    def test_before_the_other_calls_vip_disconnect(self):
        pairs = self.connect_levels(act="idle", seconds=10 * PATIENCE)
        self.loses_power()
        for level, (survivor, _) in pairs.items():
            with self.subTest(level=level):
                survivor.job.signal("USR1")
                code, took = self.returned(survivor, "VipDisconnect", PATIENCE)
                self.assertEqual(code, "VIP_SUCCESS")
                self.took("power.disconnect.%s" % short(level), took)
                self.ended_well(survivor)

    def test_while_the_other_is_in_vip_connect_request(self):
        """The host has the request and has not answered. Its successor answers."""
        pairs = self.hold_requests(server=2)
        fault = self.loses_power()
        self.boot(self.hosts[2])
        for level, (_, caller) in pairs.items():
            with self.subTest(level=level):
                self.answered_at_last(caller, level, caller.name, fault)

    def answered_at_last(self, caller, level, name, fault):
        """The host may be back later than the library has promised to end the call, so the bound counts from then."""
        key = "power.request.%s" % short(level)
        self.serve(2, level=level, name=name, act="idle", seconds=10 * PATIENCE)
        returned = caller.wait_for("return", limit(key), call="VipConnectRequest")
        if returned.details["code"] != "VIP_SUCCESS":  # it has ended, so the program may call it again
            self.assertIn(returned.details["code"], ("VIP_TIMEOUT", "VIP_NOT_REACHABLE", "VIP_NO_MATCH"))
            record(key, caller.here(returned) - fault)
            caller = self.start(1, "call", level=level, name=name, act="idle", seconds=10 * PATIENCE)
        caller.wait_for("connected", PATIENCE)

    def test_while_the_other_is_in_vip_connect_wait(self):
        servers = {level: self.serve(1, level=level, name=self.name(), timeout="infinite") for level in LEVELS}
        self.loses_power()
        self.boot(self.hosts[2])
        for level, server in servers.items():
            with self.subTest(level=level):
                client = self.start(2, "call", level=level, name=server.name, messages=50)
                self.ended_well(client)
                self.ended_well(server)

    def test_before_the_other_calls_vip_connect_accept(self):
        """VipConnectAccept ends, and the server can wait again."""
        servers = {level: server for level, (server, _) in self.hold_requests("--reconnect", seconds=5).items()}
        self.loses_power()
        for level, server in servers.items():
            with self.subTest(level=level):
                server.job.signal("USR1")
                code, took = self.returned(server, "VipConnectAccept", PATIENCE)
                self.assertEqual(code, "VIP_TIMEOUT")
                self.took("power.accept.%s" % short(level), took)
        self.boot(self.hosts[2])
        for level, server in servers.items():
            with self.subTest(level=level, after="its boot"):
                mark = server.mark()
                client = self.start(2, "call", level=level, name=server.name, act="idle", seconds=2)
                if not server.events("holding")[1:]:
                    server.wait_for("holding", PATIENCE, since=mark)
                server.job.signal("USR1")
                self.ended_well(client)

    def test_while_the_other_is_in_vip_connect_peer_wait(self):
        """Tests both kinds of equals: the one that sends the request, which has the lesser discriminator, and the
        one that listens."""
        for mine, theirs in (("a", "b"), ("b", "a")):
            name = self.name()
            waiting = self.start(1, "equal", own=mine + name, name=theirs + name, timeout="infinite", messages=50)
            waiting.wait_for("entering", PATIENCE, call="VipConnectPeerWait")
            self.hosts.wire.cut(2, "from")
            waiting.job.wait(6)  # lets time pass, in which requests get no answer
            self.loses_power()
            self.hosts.wire.join()
            self.boot(self.hosts[2])
            with self.subTest(mine=mine):
                other = self.start(2, "equal", own=theirs + name, name=mine + name, timeout=1000 * PATIENCE,
                                   messages=50)
                back = other.wait_for("entering", PATIENCE, call="VipConnectPeerWait")
                connected = other.wait_for("connected", PATIENCE)
                self.took("power.peer.rc", (connected.ms - back.ms) / 1000)
                self.ended_well(other)
                self.ended_well(waiting)


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
