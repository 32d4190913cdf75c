# SPDX-License-Identifier: BSD-2-Clause
"""The base of tests with vip_faults on two hosts: it boots them, runs programs on them, and checks that
nothing remains."""

import contextlib
import itertools
import os
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "tools"))
from hosts import Hosts  # noqa: E402
from program import LEVELS, Clock, FaultsTest, Program, shapes  # noqa: E402, F401
from promises import limit  # noqa: E402

# A UC queue pair at the unreliable level takes all packets that come, also twice and late.
DISORDER = "unreliable"
TRIES = 3
PATIENCE = 240  # for events without a stated time: eight programs may take a minute to start


def short(level):
    """Returns the type of the queue pair. Both reliable levels have the same type."""
    return "uc" if level == "unreliable" else "rc"


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
    """Has self.hosts[1] and [2], booted once for the tests of a class."""

    program = None  # the path of vip_faults
    patience = PATIENCE

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
        self.end_programs()
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

    # --- programs

    def start(self, where, role, *flags, env=None, **options):
        """Starts vip_faults on hosts[where]. Its peer is on the other host unless an option names it."""
        words = ["exec", self.program, role, "--nic", "rxe0", *flags]
        if "host" not in options:
            options["host"] = self.hosts[3 - where].ipv4
        for key, value in options.items():
            words += ["--" + key, str(value)]
        program = Program(self.hosts[where].start(" ".join(words), env=env), self.clocks[where])
        self.programs.append(program)
        return program

    def name(self):
        return "f%d" % next(self.names)

    def connect_all(self, shapes, *flags, server=1, wait=True, **options):
        """Starts for each (level, operation) a server on that host and a client on the other one, and
        connects them. Returns {shape: (server, client)}."""
        servers, pairs = {}, {}
        options.setdefault("timeout", 1000 * PATIENCE)
        for shape in shapes:
            name = options.get("name", self.name())
            chosen = dict(options, level=shape[0], operation=shape[1], name=name)
            servers[shape] = self.start(server, "serve", *flags, **chosen), chosen
        for shape, (one, chosen) in servers.items():
            one.wait_for("entering", PATIENCE, call="VipConnectWait")
            one.peer = other = self.start(3 - server, "call", *flags, **chosen)
            other.peer = one
            pairs[shape] = one, other
        if wait:
            for program in itertools.chain(*pairs.values()):
                program.wait_for("connected", PATIENCE)
        return pairs

    def connect(self, *flags, level="delivery", operation="send", **options):
        """Starts and connects one pair."""
        return self.connect_all([(level, operation)], *flags, **options)[level, operation]

    def connect_levels(self, *flags, **options):
        """Returns {level: (server, client)}."""
        pairs = self.connect_all([(level, "send") for level in LEVELS], *flags, **options)
        return {level: pair for (level, _), pair in pairs.items()}

    def works(self, level, operation="send"):
        """Checks that a new connection between the hosts works."""
        for program in self.connect(level=level, operation=operation, messages=50, seconds=PATIENCE):
            self.assertEqual(program.end(PATIENCE), 0, program.text())

    # --- their output

    def told_after(self, key, program, fault, **how):
        """The handler is called for the VI, and soon enough. Returns the seconds since the fault."""
        told = program.wait_for("told", fault + limit(key, **how) - time.monotonic(), state="ERROR")
        after = program.here(told) - fault
        self.took(key, after, **how)
        return after

    def goes_on(self, is_lost):
        """No connection is lost. A host that gets no processor time for seconds looks like a host whose packets
        are lost, so one of several tries has to succeed."""
        for _ in range(TRIES):
            if not is_lost():
                return
        self.fail("a connection is lost each time")

    def returned(self, program, call, seconds, since=0):
        """Returns the result of a call: its code, and the seconds that it took."""
        details = program.wait_for("return", seconds, since, call=call).details
        return details["code"], float(details["took"]) / 1000

    def broke(self, program):
        """Checks that the program ends by itself, without an error, and has released everything."""
        self.assertEqual(program.end(PATIENCE), 3, program.text())
        self.gave_back(program)

    def ended_well(self, program, seconds=PATIENCE):
        self.assertEqual(program.end(seconds), 0, program.text())
        self.gave_back(program)

    def gave_back(self, program):
        # librdmacm keeps one or two files for the next NIC that is opened.
        released = program.events("released")[-1].details
        self.assertLessEqual(int(released["files"]), int(released["before"]) + 3, program.text())
