# SPDX-License-Identifier: BSD-2-Clause
"""A virtual machine: QEMU with the kernel of tools/with-rxe, on this machine's own files, which stay as they are.

The agent in it takes commands by a virtual serial port, and leaves what they write in a directory that both see.
"""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "libvipl")
BOOT_LIMIT = 180  # seconds
ANSWER_LIMIT = 60
SHARE = "/run/with-hosts"  # in the guest

# The environment that commands are given, as tools/with-rxe does it.
PASSED_ON = re.compile(r"(VIPL|CTEST|GTEST)_.*|(A|L|T|UB)SAN_OPTIONS|PATH|LD_LIBRARY_PATH|TERM")
# What the kernel writes when something went wrong, or RDMA objects leaked.
COMPLAINT = re.compile(
    r"BUG: |WARNING: |Oops|Call Trace|general protection fault|Kernel panic|blocked for more than"
    r"|(rdma_rxe|rxe[0-9_]|infiniband).*(not released|still|leak)|restrack|refcount")


class GuestError(Exception):
    pass


class NoStart(GuestError):
    """A guest did not start."""


class GuestDied(GuestError):
    """A guest is not there any more, or does not answer."""


def environment():
    """That of this process, as lines for a shell."""
    return "".join("export %s=%s\n" % (name, shlex.quote(value)) for name, value in sorted(os.environ.items())
                   if PASSED_ON.fullmatch(name))


def writable_directories():
    """Directories that look writable in the guest: what is written there is lost at its end."""
    here = "/" + os.getcwd().split("/")[1]
    wanted = {"/etc", "/home", "/opt", "/root", "/srv", "/tmp", "/usr", "/var", here} - {"/"}
    return sorted(name for name in wanted if os.path.isdir(name) and not os.path.islink(name))


def has_kvm():
    """KVM works only where the processor offers it, whatever /dev/kvm says."""
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        offered = re.search(r"^flags.* (vmx|svm)( |$)", file.read(), re.M)
    return bool(offered) and os.access("/dev/kvm", os.R_OK | os.W_OK)


class Guest:
    """One boot of a machine, from its start to its end."""

    def __init__(self, name, directory, wire_end, settings, memory, answered, died):
        """directory: seen by both; wire_end: the socket of its network card; settings: for the agent.

        answered(words) is called for what the agent says, died() when it is gone, both by a thread of ours. What
        answered() does not understand is a LookupError or a ValueError there, and the guest counts as gone.
        """
        self.name = name
        self._directory = directory
        self._answered, self._died = answered, died
        self._ready, self._gone = threading.Event(), threading.Event()
        self._is_off = self._leaves = False
        self._nonsense = []  # the line that nobody understood
        os.makedirs(os.path.join(directory, "skip"), exist_ok=True)
        for program in ("systemd-tmpfiles", "udevadm"):  # as with-rxe: virtme-ng runs them, and no guest needs them
            link = os.path.join(directory, "skip", program)
            if not os.path.islink(link):
                os.symlink("/bin/true", link)
        for file_name in ("agent", "commands"):
            shutil.copy(os.path.join(HERE, file_name), directory)
        with open(os.path.join(directory, "settings"), "w", encoding="utf-8") as file:
            file.writelines("%s=%s\n" % (key, shlex.quote(str(value))) for key, value in settings.items())
        self._console = os.path.join(directory, "console")
        self._console_at_start = self._console_size()
        self._began = time.monotonic()
        self._control, theirs = socket.socketpair()
        try:
            self._start(wire_end, theirs, settings["MAC"], memory)
        finally:
            theirs.close()
            wire_end.close()
        threading.Thread(target=self._listen, name=name, daemon=True).start()

    def _start(self, wire_end, control, mac, memory):
        with open(os.path.join(CACHE, "kernel", "version"), encoding="ascii") as file:
            kernel = os.path.join(CACHE, "kernel", "boot", "vmlinuz-" + file.read().strip())
        unpacked = os.path.join(CACHE, "kernel", "boot", "vmlinux")
        skip = os.path.join(self._directory, "skip")
        command = ["virtme-run", "--kimg", kernel, "--mods", "auto", "--force-9p", "--user", "root",
                   "--name", self.name, "--cpus", "1", "--memory", memory, "--disable-monitor",
                   "--shell", SHARE + "/agent", "--rwdir", "%s=%s" % (SHARE, self._directory)]
        # tsc=unstable: on a busy machine the kernel may measure this clock's rate wrongly, and the guest's time then
        # runs several times too fast. It takes another clock.
        # no_timer_check: on a busy machine the kernel's check of the timer may find none, and the kernel panics.
        # earlyprintk: what the kernel says before it has its console, where wait_until_ready() finds it.
        for option in ("PATH=%s:/bin:/sbin:/usr/bin:/usr/sbin" % skip, "tsc=unstable", "no_timer_check",
                       "earlyprintk=ttyS0", "oops=panic", "panic=-1", "loglevel=5", "net.ifnames=0"):
            command += ["--kopt", option]
        if not has_kvm():
            command.append("--disable-kvm")
        command += ["--overlay-rwdir=" + name for name in writable_directories()]
        qemu = ["-no-reboot",
                "-netdev", "stream,id=wire,addr.type=fd,addr.str=%d" % wire_end.fileno(),
                "-device", "virtio-net-pci,netdev=wire,mac=" + mac,
                "-chardev", "socket,id=agent,fd=%d" % control.fileno(),
                "-device", "virtio-serial-pci,id=agent-bus",
                "-device", "virtserialport,bus=agent-bus.0,chardev=agent,name=agent"]
        if os.path.exists(unpacked):
            qemu += ["-kernel", unpacked]
        command += ["--qemu-opt=" + option for option in qemu]
        path = os.path.join(CACHE, "venv", "bin") + ":" + os.environ.get("PATH", os.defpath)
        with open(self._console, "ab") as console, open(self._console + ".tty", "ab") as terminal:
            # In a session of its own: a terminal's Ctrl-C is not for it.
            self._process = subprocess.Popen(
                command, env=dict(os.environ, PATH=path), stdin=subprocess.DEVNULL, stdout=terminal, stderr=console,
                pass_fds=(wire_end.fileno(), control.fileno()), start_new_session=True)

    def wait_until_ready(self):
        """Returns the seconds that it took."""
        self._ready.wait(max(0, self._began + BOOT_LIMIT - time.monotonic()))
        if not self._ready.is_set() or self._gone.is_set():
            raise NoStart("%s did not start within %d seconds; the end of its console:\n%s"
                          % (self.name, time.monotonic() - self._began, self.console_end()))
        self._console_at_start = self._console_size()  # what the kernel wrote before is not about us
        return time.monotonic() - self._began

    def _listen(self):
        with self._control.makefile("r", encoding="utf-8", errors="replace") as lines:
            try:
                for line in lines:
                    words = line.split()
                    if words == ["ready"]:
                        self._ready.set()
                    elif words and line.endswith("\n"):  # else it died while it wrote
                        self._answered(words)
            except OSError:
                pass
            except (LookupError, ValueError):
                self._nonsense.append("its agent said %r" % line.strip())
                self._control.shutdown(socket.SHUT_RDWR)  # nothing is told any more, and the guest ends by itself
        self._leaves = True
        self._died()
        self._gone.set()
        self._ready.set()

    @property
    def alive(self):
        """If it is not, its jobs have ended."""
        if self._leaves:
            self._gone.wait()
        return not self._leaves

    def tell(self, line):
        """A line for the agent."""
        try:
            self._control.sendall((line + "\n").encode())
        except OSError:
            raise GuestDied("%s is not there any more; the end of its console:\n%s"
                            % (self.name, self.console_end())) from None

    def power_off(self):
        """At once, as if its plug had been pulled; nothing if that was done."""
        if self._is_off:
            return
        self._is_off = True
        # QEMU is in the group of virtme-run. That number is theirs until virtme-run has been waited for.
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._gone.wait(ANSWER_LIMIT)  # QEMU's end of the socket has been closed
        self._control.close()

    def _console_size(self):
        return os.path.getsize(self._console) if os.path.exists(self._console) else 0

    def console_end(self, lines=30):
        text = []
        for path in (self._console + ".tty", self._console):
            with open(path, encoding="utf-8", errors="replace") as file:
                text += file.read().replace("\r", "").splitlines()[-lines:]
        return "\n".join(text + self._nonsense)

    def complaints(self):
        """Lines of the kernel's since it was ready, as the console had them: so also of one that died. And nonsense
        of the agent's."""
        with open(self._console, "rb") as file:
            file.seek(self._console_at_start)
            lines = file.read().decode(errors="replace").splitlines()
        return [line.strip() for line in lines if COMPLAINT.search(line)] + self._nonsense
