# SPDX-License-Identifier: BSD-2-Clause
"""A command that runs on a host, or ran there."""

import threading
import time

GLANCE = 0.05  # seconds between two looks at what it has written


class Job:
    """What Host.start() and Host.run() return."""

    def __init__(self, host, name, directory, command, show):
        self.host, self.name, self.command, self.show = host, name, command, show
        self.status = None  # its exit status; None while it runs, and when its host died before it
        self.began = time.monotonic()
        self._directory = directory
        self._ended = threading.Event()

    @property
    def out(self):
        """What it has written to its standard output until now."""
        return self.read("out").decode(errors="replace")

    @property
    def err(self):
        """What it has written to its standard error until now."""
        return self.read("err").decode(errors="replace")

    @property
    def ended(self):
        """Also when its host died."""
        return self._ended.is_set()

    def wait(self, seconds):
        """Its exit status (128 and a signal's number when that ended it), or None: it goes on, or its host died."""
        self._ended.wait(seconds)
        return self.status

    def wait_for(self, text, seconds):
        """Whether it writes this within that time; it may have done so already."""
        end = time.monotonic() + seconds
        while True:
            last_look = self.ended or time.monotonic() > end
            if text in self.out or text in self.err:
                return True
            if last_look:
                return False
            self._ended.wait(GLANCE)

    def signal(self, name, seconds=30):
        """Sends a signal, such as "KILL", to the command and what it has started; whether anything of it was there."""
        return self.host.signal(self, name, seconds)

    def __repr__(self):
        return "%s: %s" % (self.host.name, self.command)

    # --- for the host

    def read(self, what, offset=0):
        try:
            with open("%s/%s.%s" % (self._directory, self.name, what), "rb") as file:
                file.seek(offset)
                return file.read()
        except FileNotFoundError:
            return b""

    def note_end(self, status):
        self.status = status
        self._ended.set()
