# SPDX-License-Identifier: BSD-2-Clause
"""A running vip_faults as a test sees it: its events, with their times by this machine's clock."""

import collections
import itertools
import os
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from promises import limit
from results import record

LEVELS = ("unreliable", "delivery", "reception")
OPERATIONS = ("send", "write", "read")

GLANCE = 0.02  # seconds between two looks at its output
SHOWN = 5000  # characters of the beginning and of the end of its output

Event = collections.namedtuple("Event", "name ms details")


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


class LocalJob:
    """A command on this machine, with the interface of a Job of tools/hosts."""

    def __init__(self, command, env=None):
        self.command = command
        self._output = tempfile.TemporaryFile()
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self._output,
                                         env=dict(os.environ, **(env or {})))
        self._ended = threading.Event()
        self.status = None
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self):
        status = self._process.wait()
        self.status = 128 - status if status < 0 else status
        self._ended.set()

    @property
    def ended(self):
        return self._ended.is_set()

    def wait(self, seconds):
        self._ended.wait(seconds)
        return self.status

    def signal(self, name):
        self._process.send_signal(getattr(signal, "SIG" + name))

    @property
    def out(self):
        return os.pread(self._output.fileno(), 1 << 24, 0).decode(errors="replace")

    @property
    def err(self):
        return ""

    def close(self):
        self._output.close()


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


def shapes():
    """Returns each level with each operation that it has."""
    return [shape for shape in itertools.product(LEVELS, OPERATIONS) if shape != ("unreliable", "read")]


class FaultsTest(unittest.TestCase):
    """A test with self.programs, which it ends."""

    patience = 60  # seconds, for events without a stated time: the machine may be slow
    names = itertools.count()

    def shortDescription(self):
        return None  # the name says it, and a partialmethod has the text of its kind

    def setUp(self):
        self.programs = []

    def end_programs(self):
        for program in self.programs:
            if not program.job.ended:
                program.job.signal("KILL")
                program.job.wait(self.patience)

    def took(self, key, seconds, **how):
        """Records a time, and fails when it is longer than docs/OPERATING.md promises."""
        record(key, max(seconds, 0))
        self.assertLess(seconds, limit(key, **how), key)
