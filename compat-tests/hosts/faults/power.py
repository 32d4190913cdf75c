# SPDX-License-Identifier: BSD-2-Clause
"""Faults between two hosts: one loses its power."""

import time
from functools import partialmethod

from pairs import PATIENCE, PairTest
from program import LEVELS, shapes, short
from results import limit, record


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
