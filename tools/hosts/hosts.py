# SPDX-License-Identifier: BSD-2-Clause
"""Hosts: guests on one wire, from their start to their end; and what can be done with each."""

import itertools
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from .guest import ANSWER_LIMIT, Guest, GuestDied, GuestError, NoStart, environment
from .job import Job
from .wire import Wire

SETUP = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "setup")
IPV4, IPV6 = "10.9.9.", "fd00:9:9::"  # and the host's number


class TimeIsOver(GuestError):
    """A command took longer than it was given."""


class Host:
    """hosts[1], hosts[2] and so on."""

    def __init__(self, hosts, number, mtu, memory):
        self.number, self.name = number, "host%d" % number
        self.ipv4, self.ipv6 = IPV4 + str(number), IPV6 + str(number)
        self.mtu = mtu
        self._hosts, self._memory = hosts, memory
        self._directory = os.path.join(hosts.directory, self.name)
        os.mkdir(self._directory)
        self._guest = None
        self._off = True  # as it was told to be
        self._jobs = {}
        self._numbers = itertools.count(1)
        self._complaints = []  # of earlier boots

    # --- commands

    def start(self, command, env=None, show=True):
        """Starts a command, in the current directory, and returns its Job.

        command: a line for the shell, or a list of words; env: more of the environment; show: whether its output is
        shown, where that is.
        """
        if not isinstance(command, str):
            command = shlex.join(command)
        job = Job(self, str(next(self._numbers)), self._directory, command, show)
        with open("%s/%s.command" % (self._directory, job.name), "w", encoding="utf-8") as file:
            file.write(environment())
            file.write("PATH=$PATH:/usr/sbin:/sbin\n")
            file.writelines("export %s=%s\n" % (name, shlex.quote(str(value))) for name, value in (env or {}).items())
            file.write("cd %s || exit\n%s\n" % (shlex.quote(os.getcwd()), command))
        self._tell(job, "run " + job.name)
        return job

    def run(self, command, seconds=60, env=None, show=True):
        """Runs a command to its end, and returns its Job, whatever its status is."""
        job = self.start(command, env, show)
        job.wait(seconds)
        if not job.ended:
            job.signal("KILL")
            raise TimeIsOver("%s: killed after %s seconds: %s\n%s%s" % (self.name, seconds, command, job.out, job.err))
        if job.status is None:
            raise GuestDied("%s died under: %s" % (self.name, command))
        return job

    def signal(self, job, name, seconds=ANSWER_LIMIT):
        """What Job.signal() does."""
        request = Job(self, str(next(self._numbers)), self._directory, "kill -s " + name, show=False)
        self._tell(request, "signal %s %s %s" % (request.name, job.name, name))
        if request.wait(seconds) is None:
            raise GuestDied("%s does not answer" % self.name)
        return request.status == 0

    def _tell(self, job, line):
        """The agent says when that is done, or the host dies."""
        self._jobs[job.name] = job
        try:
            self._guest.tell(line)
        except GuestDied:
            job.note_end(None)
            raise

    def _must(self, command, seconds=60):
        job = self.run(command, seconds)
        if job.status:
            raise GuestError("%s: status %d of: %s\n%s" % (self.name, job.status, command, job.err))

    # --- its network, its power

    def netem(self, what):
        """What tc-netem(8) does to all that it sends: "loss 5%", "delay 10ms 5ms", "duplicate 1%"."""
        self._hosts.say("%s: netem %s" % (self.name, what))
        self._must("tc qdisc replace dev eth0 root netem " + what)

    def clear_netem(self):
        self._hosts.say("%s: netem ends" % self.name)
        self._must("tc qdisc delete dev eth0 root")

    def link(self, state):
        """The network interface "down", or "up"; its addresses stay."""
        self._hosts.say("%s: link %s" % (self.name, state))
        self._must("ip link set eth0 " + state)

    def power_off(self):
        """At once, as if its plug had been pulled. Its jobs end without a status."""
        self._hosts.say("%s: power off" % self.name)
        self._off = True
        self._guest.power_off()

    def boot(self):
        """Again, after power_off() or its death: the same address, nothing running."""
        self.begin_boot()
        self.finish_boot()

    def begin_boot(self):
        settings = {"NUMBER": self.number, "HOSTS": len(self._hosts), "IPV4": IPV4, "IPV6": IPV6, "MTU": self.mtu,
                    "MAC": "52:54:00:09:09:%02x" % self.number}
        self.end()
        for name in os.listdir(self._directory):  # these numbers mean other processes after the boot
            if name.endswith(".process"):
                os.unlink(os.path.join(self._directory, name))
        self._complaints = self.complaints()
        self._off = False
        self._guest = Guest(self.name, self._directory, self._hosts.wire.attach(self.number), settings, self._memory,
                            self._answered, self._died)

    def finish_boot(self):
        self._hosts.say("%s: ready after %.1f seconds" % (self.name, self._guest.wait_until_ready()))

    @property
    def alive(self):
        return self._guest is not None and self._guest.alive

    @property
    def died(self):
        """Without having been told to."""
        return not self._off and not self.alive

    def complaints(self):
        """Lines of its kernel's log that say that something is wrong, but for those while it boots."""
        return self._complaints + (self._guest.complaints() if self._guest else [])

    # --- what the guest says, on a thread of its own

    def _answered(self, words):
        done, name, status = words
        if done != "done":
            raise ValueError
        self._jobs[name].note_end(int(status))

    def _died(self):
        for job in list(self._jobs.values()):
            if not job.ended:
                job.note_end(None)

    # --- for Hosts

    def jobs(self):
        return list(self._jobs.values())

    def end(self):
        if self._guest:
            self._off = True
            self._guest.power_off()

    def end_jobs_and_device(self):
        """What was wrong in this, in words."""
        try:
            for job in self.jobs():
                if not job.ended:
                    job.signal("KILL")
            self._must("timeout 120 rdma link delete rxe0", 150)
        except GuestError as error:
            return ["rxe0 cannot be removed: %s" % error]
        return []


class Hosts:
    """with Hosts(2) as hosts: boots them, and ends them afterwards; hosts[1] is the first.

    count:  how many
    mtu:    of all, or a list with that of each
    memory: of each
    show:   a file for what they do and write, with host and time; None for nowhere

    While it is open SIGTERM and SIGHUP end this program as exit() does, so that nothing is left of it.
    """

    def __init__(self, count=2, mtu=1500, memory="1G", show=None):
        mtus = [mtu] * count if isinstance(mtu, int) else list(mtu)
        if len(mtus) != count:
            raise ValueError("%d hosts, and an MTU for %d" % (count, len(mtus)))
        self._show = show
        self._began = time.monotonic()
        self._printing = threading.Lock()
        self._closing = threading.Event()
        self._mtus, self._memory = mtus, memory
        self._handlers = {}
        self.wire, self._printer, self._hosts = None, None, []

    def __enter__(self):
        if subprocess.run([SETUP, "guest"], stdout=sys.stderr, stdin=subprocess.DEVNULL).returncode:
            raise NoStart("there is nothing to make guests with")
        self.directory = tempfile.mkdtemp(prefix="with-hosts.", dir="/tmp")
        try:
            if threading.current_thread() is threading.main_thread():
                for number in (signal.SIGTERM, signal.SIGHUP):
                    self._handlers[number] = signal.signal(number, self._exit_by_signal)
            self.wire = Wire(self.say)
            self._hosts = [Host(self, number, mtu, self._memory) for number, mtu in enumerate(self._mtus, 1)]
            self._printer = threading.Thread(target=self._print_output, name="output", daemon=True)
            self._printer.start()
            for host in self:
                host.begin_boot()
            for host in self:
                host.finish_boot()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        handled = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, *self._handlers)} \
            if self._handlers else {}
        if self.wire:
            self.wire.close()  # before the hosts end, or it would say that they leave it
        for host in self._hosts:
            host.end()
        self._closing.set()
        if self._printer and self._printer.ident:
            self._printer.join()
        shutil.rmtree(self.directory, ignore_errors=True)
        for number, handler in {**handled, **self._handlers}.items():
            signal.signal(number, handler)

    @staticmethod
    def _exit_by_signal(number, _):
        sys.exit(128 + number)

    def __len__(self):
        return len(self._mtus)

    def __iter__(self):
        return iter(self._hosts)

    def __getitem__(self, number):
        if not 1 <= number <= len(self._hosts):
            raise IndexError("hosts are 1 to %d, not %s" % (len(self._hosts), number))
        return self._hosts[number - 1]

    def say(self, text):
        """A line where output is shown."""
        if self._show:
            with self._printing:
                print("%8.3f %s" % (time.monotonic() - self._began, text), file=self._show, flush=True)

    def complaints(self):
        """Of all kernels, each line with its host."""
        return ["%s: %s" % (host.name, line) for host in self for line in host.complaints()]

    def end_all(self):
        """Ends what still runs, and removes the devices. Returns what was wrong with the hosts until then."""
        found = []
        for host in self:
            if host.alive:
                found += ["%s: %s" % (host.name, line) for line in host.end_jobs_and_device()]
        return found + self.complaints()

    # --- the thread that shows what they write

    def _print_output(self):
        shown = {}
        while True:
            closing = self._closing.wait(0.05)
            for host in self:
                for job in host.jobs():
                    for what in ("out", "err"):
                        self._print_lines(host, job, what, shown, closing)
            if closing:
                return

    def _print_lines(self, host, job, what, shown, all_of_it):
        ended = job.ended or all_of_it  # looked at before its output is
        key = (host.number, job.name, what)
        if not self._show or not job.show or shown.get(key) == "all":
            return
        data = job.read(what, shown.get(key, 0))
        end = len(data) if ended else data.rfind(b"\n") + 1
        for line in data[:end].decode(errors="replace").splitlines():
            self.say("%s| %s" % (host.name, line))
        shown[key] = "all" if ended else shown.get(key, 0) + end
