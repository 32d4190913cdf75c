# SPDX-License-Identifier: BSD-2-Clause
"""vip_faults as a test sees it: its events, with their times by this machine's clock, and pairs of it; and the table of
docs/OPERATING.md, which says after how long a program is told of a fault. There a key such as "power.idle.rc" stands for the
row that has <!--power.idle.rc--> in a cell."""

import collections
import contextlib
import itertools
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

LEVELS = ("unreliable", "delivery", "reception")
OPERATIONS = ("send", "write", "read")

GLANCE = 0.02  # seconds between two looks at its output
SHOWN = 5000  # characters of the beginning and of the end of its output

PAGE = Path(__file__).resolve().parents[3] / "docs/OPERATING.md"
COLUMN = "told after"
MARKER = re.compile(r"<!--([^>]+)-->")
TIME = re.compile(r"\b(?:K|\d+(?:\.\d+)?)(?: \+ \d+)?\b")
K = 7  # seconds, the default of VIPL_KEEPALIVE_SEC
# The hosts are emulated, and share two busy processors: K + 3 was once 15.2 s under a load of 24.
MARGIN = 8

Event = collections.namedtuple("Event", "name ms details")


def table():
    """Returns [(key, the cell that says after how long)]."""
    found, column = [], None
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if COLUMN in cells:
            column = cells.index(COLUMN)
        found += [(key, cells[column]) for key in MARKER.findall(line)]
    return found


def largest_time(cell):
    """Returns the seconds. The cell must have a time."""
    times = TIME.findall(cell.replace("at once", "0"))
    return max(sum(K if term == "K" else float(term) for term in time.split(" + ")) for time in times)


def within(key):
    return largest_time(dict(table())[key])


def limit(key, promise=None, margin=MARGIN):
    """Returns the seconds that a test allows. It passes the promise where the cell says "the call's own time".

    For "at once" this is K: who was told before that has been told, and has not found out by silence.
    """
    promise = within(key) if promise is None else promise
    return promise + margin if promise else K


def record(key, seconds):
    print("measured %s\t%.2f" % (key, seconds), flush=True)


def parsed(line):
    """Returns the Event of a line, or None."""
    words = line.split()
    if len(words) < 3 or words[0] != "event":
        return None
    return Event(words[1], float(words[2]), dict(word.split("=", 1) for word in words[3:] if "=" in word))


class Clock:
    """The clock of the programs' host. An event is seen some time after it happened; the least delay gives the
    difference."""

    def __init__(self):
        self._ahead = float("inf")

    def note(self, ms):
        self._ahead = min(self._ahead, time.monotonic() - ms / 1000)

    def here(self, ms):
        """Returns that time as time.monotonic() of this machine."""
        return ms / 1000 + self._ahead


class LocalHost:
    """This machine, with the interface of a Host of tools/hosts."""

    name = ipv4 = "localhost"

    def start(self, command):
        return LocalJob(command)


class LocalJob:
    """A command on this machine, with the interface of a Job of tools/hosts."""

    def __init__(self, command):
        self.command = command
        self._output = tempfile.TemporaryFile()
        self._process = subprocess.Popen(command, shell=True, stdin=subprocess.DEVNULL, stdout=self._output)

    @property
    def status(self):
        status = self._process.poll()
        return 128 - status if status and status < 0 else status

    @property
    def ended(self):
        return self.status is not None

    def wait(self, seconds):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self.status

    def signal(self, name):
        self._process.send_signal(getattr(signal, "SIG" + name))

    @property
    def out(self):
        return os.pread(self._output.fileno(), 1 << 24, 0).decode(errors="replace")

    err = ""


class Program:
    def __init__(self, job, clock):
        self.job, self.clock = job, clock
        self.peer = None  # another Program
        self._events, self._read = [], 0

    def look(self):
        """Returns all its events so far."""
        ended = self.job.ended
        text = self.job.out
        end = len(text) if ended else text.rfind("\n") + 1
        for line in text[self._read:end].splitlines():
            event = parsed(line)
            if event:
                self.clock.note(event.ms)
                self._events.append(event)
        self._read = max(self._read, end)
        return self._events

    def events(self, name, since=0, **details):
        """Returns the events of that name with these details, from the number `since` on."""
        return [event for event in self.look()[since:]
                if event.name == name and details.items() <= event.details.items()]

    def wait_for(self, name, seconds, since=0, **details):
        """Returns the first such event. Fails when it does not come within that time or the program ends without
        it."""
        end = time.monotonic() + seconds
        while True:
            last_look = self.job.ended or time.monotonic() > end
            found = self.events(name, since, **details)
            if found:
                return found[0]
            if last_look:
                raise AssertionError("no %s %s of %s, which %s; its events:\n%s" % (
                    name, details or "", self.job.command,
                    "has ended with %s" % self.job.status if self.job.ended else "goes on", self.text()))
            time.sleep(GLANCE)

    def mark(self):
        """Returns the number for `since`: it selects the events from here on."""
        return len(self.look())

    def end(self, seconds):
        """Returns its exit status. Fails when it does not end within that time."""
        limit = time.monotonic() + seconds
        while not self.job.ended and time.monotonic() < limit:
            self.look()
            time.sleep(GLANCE)
        if not self.job.ended:
            self.job.signal("KILL")
            raise AssertionError("%s has not ended within %s seconds; its events:\n%s"
                                 % (self.job.command, seconds, self.text()))
        self.look()
        return self.job.status

    def here(self, event):
        """Returns the time of the event as time.monotonic() of this machine."""
        return self.clock.here(event.ms)

    def said(self):
        text = self.job.out + self.job.err
        if len(text) <= 2 * SHOWN:
            return text
        return text[:SHOWN] + "\n[...]\n" + text[-SHOWN:]

    def text(self):
        """Returns its output and its peer's; of a long output the beginning and the end."""
        return self.said() + ("\nits peer:\n" + self.peer.said() if self.peer else "")

    def number(self, event_name, key):
        """Returns a number from the last such event."""
        return int(self.events(event_name)[-1].details[key])


def short(level):
    """Returns the type of the queue pair. Both reliable levels have the same type."""
    return "uc" if level == "unreliable" else "rc"


def shapes():
    """Returns each level with each operation that it has."""
    return [shape for shape in itertools.product(LEVELS, OPERATIONS) if shape != ("unreliable", "read")]


class FaultsTest(unittest.TestCase):
    """A test with programs of self.hosts[1] and [2], which it ends."""

    program = None  # the path of vip_faults
    nic = "rxe0"
    patience = 60  # seconds, for events without a stated time: the machine may be slow
    more_files = 0  # that may be open when a program has released everything
    hosts = clocks = {}
    names = itertools.count()

    def shortDescription(self):
        return None  # the name says it, and a partialmethod has the text of its kind

    def setUp(self):
        self.programs = []

    def tearDown(self):
        for program in self.programs:
            if not program.job.ended:
                program.job.signal("KILL")
                program.job.wait(self.patience)

    # --- programs

    def name(self):
        return "f%d" % next(self.names)

    def start(self, where, role, *flags, **options):
        """Starts vip_faults on hosts[where]. Its peer is on the other host unless an option names it."""
        words = ["exec", self.program, role, "--nic", self.nic, *flags]
        options.setdefault("host", self.hosts[3 - where].ipv4)
        for key, value in options.items():
            words += ["--" + key, str(value)]
        program = Program(self.hosts[where].start(" ".join(words)), self.clocks[where])
        program.name = options.get("name")  # the discriminator
        self.programs.append(program)
        return program

    def serve(self, where, *flags, **options):
        """Starts a server, which waits when this returns."""
        server = self.start(where, "serve", *flags, **options)
        server.wait_for("entering", self.patience, call="VipConnectWait")
        return server

    def connect_all(self, shapes, *flags, server=1, wait=True, **options):
        """Starts for each (level, operation) a server on that host and a client on the other one, and
        connects them. Returns {shape: (server, client)}."""
        servers, pairs = {}, {}
        options.setdefault("timeout", 1000 * self.patience)
        for shape in shapes:
            chosen = {"name": self.name(), **options, "level": shape[0], "operation": shape[1]}
            servers[shape] = self.start(server, "serve", *flags, **chosen), chosen
        for shape, (one, chosen) in servers.items():
            one.wait_for("entering", self.patience, call="VipConnectWait")
            one.peer = other = self.start(3 - server, "call", *flags, **chosen)
            other.peer = one
            pairs[shape] = one, other
        if wait:
            for program in itertools.chain(*pairs.values()):
                program.wait_for("connected", self.patience)
        return pairs

    def connect(self, *flags, level="delivery", operation="send", **options):
        """Starts and connects one pair."""
        return self.connect_all([(level, operation)], *flags, **options)[level, operation]

    def connect_levels(self, *flags, **options):
        """Returns {level: (server, client)}."""
        pairs = self.connect_all([(level, "send") for level in LEVELS], *flags, **options)
        return {level: pair for (level, _), pair in pairs.items()}

    def hold_requests(self, *flags, **options):
        """Returns {level: (server, client)}: the server has the request and does not answer it."""
        pairs = self.connect_levels(*flags, wait=False, act="hold", timeout="infinite", **options)
        for held, _ in pairs.values():
            held.wait_for("holding", self.patience)
        return pairs

    def works(self, level):
        """Checks that a new connection between the hosts works."""
        for program in self.connect(level=level, messages=50, seconds=self.patience):
            self.ended_well(program)

    def all_work(self):
        for level in LEVELS:
            with self.subTest(level=level, after="the fault"):
                self.works(level)

    # --- their output

    def key(self, key, level):
        """Returns the row of the table for connections of that level."""
        return "%s.%s" % (key, short(level))

    def took(self, key, seconds, **how):
        """Records a time, and fails when it is longer than docs/OPERATING.md promises."""
        record(key, max(seconds, 0))
        self.assertLess(seconds, limit(key, **how), key)

    def told_after(self, key, program, fault, **how):
        """The handler is called for the VI, and soon enough."""
        told = program.wait_for("told", fault + limit(key, **how) - time.monotonic(), state="ERROR")
        self.took(key, program.here(told) - fault, **how)

    def returned(self, program, call, seconds):
        """Returns the result of a call: its code, and the seconds that it took."""
        details = program.wait_for("return", seconds, call=call).details
        return details["code"], float(details["took"]) / 1000

    def ended_well(self, program, seconds=None, status=0):
        """Checks that the program ends by itself, and has released everything."""
        self.assertEqual(program.end(seconds or self.patience), status, program.text())
        released = program.events("released")[-1].details
        self.assertLessEqual(int(released["files"]), int(released["before"]) + self.more_files, program.text())

    def broke(self, program):
        """The same, after a connection that broke."""
        self.ended_well(program, status=3)

    def all_break(self, key, programs, fault, **subtest):
        """The same for {level: program}, each of which is told soon enough."""
        for level, program in programs.items():
            with self.subTest(key=key, level=level, **subtest):
                self.told_after(self.key(key, level), program, fault)
                self.broke(program)

    def everything_came(self, one, other, level):
        for program, peer in ((one, other), (other, one)):
            sent, received = peer.number("ended", "sent"), program.number("ended", "received")
            self.assertEqual(received + program.number("ended", "missing"), sent)
            if level != "unreliable":
                self.assertEqual(received, sent)
