# SPDX-License-Identifier: BSD-2-Clause
"""The base of tests with vip_faults on two hosts: it boots them, and checks that nothing remains."""

import contextlib
import os
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "tools"))
from hosts import Hosts  # noqa: E402
from program import Clock, FaultsTest, Program  # noqa: E402

# A UC queue pair at the unreliable level takes all packets that come, also twice and late.
DISORDER = "unreliable"
TRIES = 3
PATIENCE = 240  # for events without a stated time: eight programs may take a minute to start


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
        while True:
            last = time.monotonic() > end
            left = host.run(show).out
            if not left:
                return
            if last:
                self.fail("%s still has:\n%s" % (host.name, left))

    def goes_on(self, is_lost):
        """No connection is lost. A host that gets no processor time for seconds looks like a host whose packets
        are lost, so one of several tries has to succeed."""
        for _ in range(TRIES):
            if not is_lost():
                return
        self.fail("a connection is lost each time")
