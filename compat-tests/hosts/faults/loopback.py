#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""loopback.py VIP_FAULTS TEST...: runs pairs of vip_faults over via_lo. The tests show that its checker
works, and check the rules of docs/OPERATING.md for a peer on the same machine."""

import sys
import unittest
from functools import partialmethod

sys.dont_write_bytecode = True
from ends import EndsOfProcesses  # noqa: E402
from program import Clock, FaultsTest, LocalHost, shapes  # noqa: E402


class Loopback(FaultsTest):
    nic = "via_lo"
    hosts = {1: LocalHost(), 2: LocalHost()}
    clocks = {1: Clock()}
    clocks[2] = clocks[1]


class Traffic(Loopback):
    def test_everything_comes(self):
        for (level, operation), pair in self.connect_all(shapes(), seconds=0.5).items():
            with self.subTest(level=level, operation=operation):
                for program in pair:
                    self.ended_well(program)
                    self.assertGreater(program.number("ended", "sent"), 0)
                self.everything_came(*pair, level)

    def test_equals_again_and_again(self):
        names = self.name(), self.name()
        both = [self.start(1, "equal", own=own, name=name, times=5, messages=10, seconds=self.patience)
                for own, name in (names, names[::-1])]
        for program in both:
            self.ended_well(program)
            self.assertEqual([event.details["sent"] for event in program.events("ended")], 5 * ["10"])


class Checker(Loopback):
    """If a program reports no error, that is a result only if it finds errors."""

    def test_spoilt_messages(self):
        for how in "byte", "twice", "missing":
            for level, operation in shapes():
                if how == "missing" and level == "unreliable":
                    continue  # it is no error
                with self.subTest(how=how, level=level, operation=operation):
                    options = {"name": self.name(), "level": level, "operation": operation}
                    server = self.serve(1, **options)
                    self.start(2, "call", spoil=how, **options)
                    self.assertEqual(server.end(self.patience), 1, server.text())
                    self.assertEqual(len(server.events("wrong")), 1)


class Ends(Loopback, EndsOfProcesses):
    stopped_for = 2

    def key(self, key, level):
        return {"kill.sleep": "lo.kill", "kill.traffic": "lo.kill", "disconnect.idle": "lo.disconnect",
                "kill.request": "lo.kill.request"}.get(key, key)

    test_kill_of_who_is_idle = partialmethod(EndsOfProcesses.told, "lo.kill", "KILL", act="idle")

    def test_kill_of_who_requests(self):
        """The host has taken the request, and then nobody is there who would be connected."""
        for level, (held, caller) in self.hold_requests().items():
            with self.subTest(level=level):
                caller.job.signal("KILL")
                caller.job.wait(self.patience)
                held.job.signal("USR1")
                code, _ = self.returned(held, "VipConnectAccept", self.patience)
                self.assertEqual(code, "VIP_TIMEOUT")
                self.broke(held)


if __name__ == "__main__":
    Loopback.program = sys.argv.pop(1)
    unittest.main(verbosity=2)
