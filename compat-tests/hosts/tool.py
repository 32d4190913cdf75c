#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""tool.py wire|hosts|arguments|home|kernels|elsewhere: tests what of tools/with-hosts, with-rxe and setup needs no guest."""

import contextlib
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True  # tests leave the sources alone
TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools")
sys.path.insert(0, TOOLS)
from hosts import GuestDied, Hosts, Wire, message  # noqa: E402
from hosts.wire import BACKLOG, frames_of, whole_frames  # noqa: E402

SECONDS = 30  # for any event


def write(path, text, mode=0o644):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def on_the_wire(*frames):
    return b"".join(struct.pack("!I", len(frame)) + frame for frame in frames)


class Guest:
    """Acts as QEMU does at its end of the wire."""

    def __init__(self, wire, number):
        self.end = wire.attach(number)
        self.end.settimeout(SECONDS)

    def send(self, *frames):
        self.end.sendall(on_the_wire(*frames))

    def receive(self, count):
        data = b""
        while whole_frames(data)[1] < count:
            data += self.end.recv(65536)
        return [frame[4:] for frame in frames_of(data)]


class WireTest(unittest.TestCase):
    def setUp(self):
        self.said = []
        self.wire = Wire(self.said.append)
        self.addCleanup(self.wire.close)
        self.one, self.two, self.three = (self.guest(number) for number in (1, 2, 3))

    def guest(self, number):
        guest = Guest(self.wire, number)
        self.addCleanup(guest.end.close)
        return guest

    def expect_only(self, frames, *guests):
        """The guests get these frames, and nothing before them."""
        for guest in guests:
            self.assertEqual(frames, guest.receive(len(frames)))

    def until(self, is_so, what):
        end = time.monotonic() + SECONDS
        while not is_so():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.01)

    def test_frames_go_to_all_others(self):
        self.one.send(b"a", b"", b"b" * 9000)
        self.expect_only([b"a", b"", b"b" * 9000], self.two, self.three)
        self.two.send(b"c")
        self.expect_only([b"c"], self.one, self.three)
        self.assertEqual(3, self.wire.counters(1).sent)

    def test_a_frame_in_pieces_goes_on_when_it_is_whole(self):
        for byte in on_the_wire(b"piecemeal", b"x"):
            self.one.end.sendall(bytes([byte]))
        self.expect_only([b"piecemeal", b"x"], self.two, self.three)

    def test_cuts(self):
        """Frames that a guest sends while the wire is cut are lost. Later frames arrive."""
        for host, direction, reached in (1, "from", ()), (2, "to", (self.three,)), (None, "both", ()):
            with self.subTest(host=host, direction=direction):
                self.wire.cut(host, direction)
                counted = host if direction == "to" else 1
                before = self.wire.counters(counted).cut
                self.one.send(b"gone", b"gone")
                self.until(lambda: self.wire.counters(counted).cut == before + 2, "frames are counted that were cut")
                self.expect_only([b"gone", b"gone"], *reached)
                if direction == "from":
                    self.two.send(b"through")
                    self.expect_only([b"through"], self.one, self.three)
                self.wire.join(host)
                self.one.send(b"back")
                self.expect_only([b"back"], self.two, self.three)
        self.assertRaises(ValueError, self.wire.cut, 1, "sideways")

    def test_drops_the_next_that_match_and_no_more(self):
        drop, other = self.wire.drop(1, 2, {0: b"no", 3: 0x21}), self.wire.drop(1, 1, {0: b"yes"})
        self.assertFalse(drop.wait(0))
        self.one.send(b"no ! 1", b"yes 1", b"yes 2", b"no ? 2", b"no ! 3", b"no", b"no ! 4")
        self.two.send(b"no ! 5")
        self.assertTrue(drop.wait(SECONDS) and other.wait(SECONDS))
        self.assertEqual((2, 1), (drop.matched, other.matched))
        self.expect_only([b"yes 2", b"no ? 2", b"no", b"no ! 4"], self.two)
        self.expect_only([b"no ! 5"], self.one)
        self.assertEqual(3, self.wire.counters(1).matched)

    def test_watches_for_frames_and_lets_them_go_on(self):
        watch, drop = self.wire.watch(1, 2, {0: b"a"}), self.wire.drop(1, 1, {0: b"a"})
        self.one.send(b"a1", b"b")
        self.expect_only([b"b"], self.two, self.three)
        self.assertFalse(watch.wait(0))
        self.one.send(b"a2", b"a3")
        self.expect_only([b"a2", b"a3"], self.two, self.three)
        self.assertTrue(watch.wait(SECONDS))

    def test_knows_messages_over_tcp(self):
        def segment(code):
            frame = bytearray(66 + 128)
            frame[12:14], frame[23], frame[46], frame[66:70], frame[71] = b"\x08\x00", 6, 0x80, b"VIPL", code
            return bytes(frame)
        drop = self.wire.drop(1, 1, message("ACCEPT"))
        self.one.send(segment(1), segment(4), segment(4))
        self.assertTrue(drop.wait(SECONDS))
        self.expect_only([segment(1), segment(4)], self.two, self.three)

    def test_who_does_not_read_loses_frames_and_holds_nobody_up(self):
        frame, count = b"x" * 60000, 3 * BACKLOG // 60000
        for number in range(count):
            self.one.send(frame)
            self.expect_only([frame], self.two)
            self.assertLessEqual(self.wire.counters(3).lost, number)
        lost = self.wire.counters(3).lost
        self.assertGreater(lost, count // 3)
        self.expect_only([frame] * (count - lost), self.three)
        self.one.send(b"last")
        self.expect_only([b"last"], self.two, self.three)

    def test_a_guest_comes_back(self):
        self.two.end.close()
        self.one.send(b"gone")
        self.expect_only([b"gone"], self.three)
        self.until(lambda: self.said, "it is said that a guest has left")
        self.assertIn("host2 is off", self.said[0])
        again = self.guest(2)
        self.one.send(b"here")
        self.expect_only([b"here"], again, self.three)

    def test_nonsense_is_no_frame(self):
        self.one.send(b"sense")
        self.one.end.sendall(b"\xff\xff\xff\xff")
        self.expect_only([b"sense"], self.two, self.three)
        self.two.send(b"fine")
        self.expect_only([b"fine"], self.three)
        self.until(lambda: self.said, "it is said that a guest is cut off")
        self.assertEqual(["wire: host1 is off, after 1 sent, 0 cut, 0 matched, 0 lost: a frame of 4294967295 bytes"],
                         self.said)

    def test_a_new_end_takes_the_place_of_the_old_one(self):
        again = self.guest(1)
        with self.assertRaises(OSError):
            while self.one.end.recv(1) != b"":
                pass
            raise ConnectionResetError
        again.send(b"new")
        self.expect_only([b"new"], self.two, self.three)


# Stands in for virtme-run: a process of this machine, whose child holds QEMU's sockets. It runs the commands.
MACHINE = r"""#!/bin/bash
[[ $* =~ --rwdir\ [^=]*=([^ ]*).*addr.str=([0-9]+).*id=agent,fd=([0-9]+) ]]
share=${BASH_REMATCH[1]} wire=${BASH_REMATCH[2]} agent=${BASH_REMATCH[3]}
PATH=$share/first:$PATH
. "$share/commands"
tail --pid=$PPID -f /dev/null &
exec 3<&"$agent" {agent}<&- {wire}<&- # these are not for the commands
echo ready >&3
take_commands
"""


class HostsTest(unittest.TestCase):
    """Hosts whose guests are not there."""

    def setUp(self):
        cache = self.enterContext(tempfile.TemporaryDirectory())
        write(cache + "/kernel/version", "0\n")
        write(cache + "/venv/bin/virtme-run", MACHINE, 0o700)
        self.enterContext(mock.patch("hosts.guest.CACHE", cache))
        self.enterContext(mock.patch("hosts.hosts.SETUP", "true"))
        self.hosts = self.enterContext(Hosts(2))

    def idle(self, host):
        """Starts a job of one process, which ends with this one at the latest."""
        return host.start("exec tail --pid=%d -f /dev/null" % os.getpid())

    def test_a_signal_waits_for_the_process_to_lead_its_session(self):
        """This setsid waits until send_signal has looked for the process once, and sleeps."""
        first, host = self.hosts.directory + "/host1/first/", self.hosts[1]
        write(first + "setsid", "#!/bin/sh\nPATH=/usr/bin:/bin\necho waits\n"
              "until [ -e %sslept ]; do sleep 0.01; done\nexec setsid \"$@\"\n" % first, 0o700)
        write(first + "sleep", "#!/bin/sh\n: >%sslept\nexec /bin/sleep \"$@\"\n" % first, 0o700)
        job = self.idle(host)
        self.assertTrue(job.wait_for("waits", SECONDS))
        self.assertTrue(job.signal("KILL"))
        self.assertEqual(128 + 9, job.wait(SECONDS))

    def test_an_answer_that_comes_late_is_not_taken_for_another(self):
        host = self.hosts[1]
        jobs = [self.idle(host), self.idle(host)]
        with contextlib.suppress(GuestDied):
            jobs[0].signal("KILL", seconds=0)
        jobs[0].wait(SECONDS)
        self.assertFalse(jobs[0].signal("KILL"))
        self.assertTrue(jobs[1].signal("KILL"))

    def test_nonsense_of_an_agent_is_a_complaint_and_the_end_of_its_host(self):
        for host, command, nonsense in ((self.hosts[1], "dance", "no command: dance"),
                                        (self.hosts[2], "run 99", "done 99 127")):
            job = self.idle(host)
            host._guest.tell(command)
            self.assertIsNone(job.wait(SECONDS))
            self.assertTrue(job.ended and host.died)
            self.assertEqual(["its agent said '%s'" % nonsense], host.complaints())
            with self.assertRaisesRegex(GuestDied, "said '%s'" % nonsense):
                host.start("true")

    def test_jobs_end_before_their_host_has_gone(self):
        host, seen = self.hosts[1], []
        host._guest._died = lambda: seen.append(host._guest._gone.is_set())
        host.power_off()
        self.assertEqual([False], seen)

    def test_power_off_ends_qemu_and_nothing_else(self):
        other = subprocess.Popen(["sleep", "infinity"], start_new_session=True)
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        write(self.hosts.directory + "/host1/qemu.pid", str(other.pid))
        with mock.patch("hosts.guest.ANSWER_LIMIT", SECONDS):
            self.hosts[1].power_off()
        self.assertFalse(self.hosts[1].alive)
        self.assertIsNone(other.poll())

    def test_a_host_boots_again(self):
        host = self.hosts[1]
        job = self.idle(host)
        host._guest.tell("dance")
        job.wait(SECONDS)
        host.boot()
        self.assertEqual(0, host.run("true", SECONDS).status)
        self.assertEqual(["its agent said 'no command: dance'"], host.complaints())


# with-hosts with hosts that only end it, and say what its alarm is.
TERMINATED = """
import runpy, signal, sys
class Hosts:
    def __init__(self, *_, **__): pass
    def __enter__(self): return self
    def __iter__(self): yield self
    def start(self, command): sys.exit(128 + signal.SIGTERM)
    def __exit__(self, *_): print(signal.alarm(0), "seconds left")
with_hosts = runpy.run_path(sys.argv[1])
sys.argv[1:] = ["--time-limit", "500", "true", "true"]
with_hosts["run"].__globals__["Hosts"] = Hosts
with_hosts["main"]()
"""


def run(*words, **how):
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False, **how)


class ArgumentsTest(unittest.TestCase):
    def test_what_is_asked_for_wrongly(self):
        for words, reason in (("", "usage"), ("true", "two commands"), ("--nothing true true", "unrecognized"),
                              ("--mtu 0 true true", "--mtu"), ("--mtu 1500, true true", "--mtu"),
                              ("--mtu 1279 true true", "1280"), ("--mtu 9001 true true", "9000"),
                              ("--mtu 1500,1500,1500 true true", "2 hosts, and an MTU for 3"),
                              ("--time-limit soon true true", "positive"), ("--time-limit 2147483648 true true", "at most"),
                              ("--memory 1 true true", "512M"), ("--hosts 3 true true", "for scenarios"),
                              ("--hosts 33 --scenario " + __file__, "32 hosts"),
                              ("--scenario /nowhere.py", "there is no scenario /nowhere.py")):
            with self.subTest(words):
                done = run(TOOLS + "/with-hosts", *words.split())
                self.assertEqual((2, ""), (done.returncode, done.stdout), done.stderr)
                self.assertIn(reason, done.stderr)

    def test_no_time_limit_while_it_cleans_up(self):
        """The first command ends with-hosts by SIGTERM."""
        done = run(sys.executable, "-c", TERMINATED, TOOLS + "/with-hosts")
        self.assertEqual((128 + 15, "0 seconds left\n", ""), (done.returncode, done.stdout, done.stderr))


class HomeTest(unittest.TestCase):
    """Without HOME the tools take the user's home directory from the list of users."""

    def run_without_home(self, *words):
        environment = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME")}
        return run(*words, env=environment)

    def test_setup(self):
        done = self.run_without_home("bash", TOOLS + "/setup", "--help")
        self.assertEqual((0, ""), (done.returncode, done.stderr))

    def test_with_rxe(self):
        """This setup has no guest."""
        directory = self.enterContext(tempfile.TemporaryDirectory())
        shutil.copy(TOOLS + "/with-rxe", directory)
        write(directory + "/setup", "#!/bin/sh\necho no guest >&2\nexit 1\n", 0o700)
        done = self.run_without_home("bash", directory + "/with-rxe", "--kernel", __file__, "true")
        self.assertEqual((98, "no guest\n"), (done.returncode, done.stderr))


# Stand for apt: what Debian, or Ubuntu, offers lies in $PACKAGES.
APT_CACHE = """#!/bin/sh
for word; do
    case $word in
        linux-image-amd64 | linux-image-generic) cat "$PACKAGES/$word" ;;
        linux-image-*) dpkg-deb --field "$PACKAGES/$word"_1_amd64.deb ;;
    esac
done
"""
APT_GET = """#!/bin/sh
for word; do
    case $word in
        indextargets) echo "file:$PACKAGES/debian/" ;;
        update) [ ! -e "$PACKAGES/unreachable" ] || { echo "E: no server" >&2; exit 100; } ;;
        linux-*) cp "$PACKAGES/$word"_1_amd64.deb . || exit 100 ;;
    esac
done
"""


class KernelsTest(unittest.TestCase):
    """Debian's kernel is in one package, or, since Linux 7.2, in three with an empty one that needs them. Ubuntu's modules are in
    packages of their own, one of which the metapackage alone needs."""

    WHOLE = {"linux-image-6-amd64": ("boot/vmlinuz-6-amd64", "lib/modules/6-amd64/kernel/a.ko")}
    SPLIT = {"linux-image-7+deb-amd64": (), "linux-base-7+deb-amd64": ("usr/lib/modules/7+deb-amd64/modules.order",),
             "linux-binary-7+deb-amd64": ("usr/lib/modules/7+deb-amd64/vmlinuz",),
             "linux-modules-7+deb-amd64": ("usr/lib/modules/7+deb-amd64/kernel/a.ko",)}
    UBUNTU = {"linux-image-6-45-generic": ("boot/vmlinuz-6-45-generic",),
              "linux-modules-6-45-generic": ("lib/modules/6-45-generic/kernel/b.ko",),
              "linux-modules-extra-6-45-generic": ("lib/modules/6-45-generic/kernel/a.ko",)}
    ALL = (WHOLE, "6-amd64"), (SPLIT, "7+deb-amd64"), (UBUNTU, "6-45-generic")

    def setUp(self):
        self.root = self.enterContext(tempfile.TemporaryDirectory())
        for name, text in ("apt-cache", APT_CACHE), ("apt-get", APT_GET), ("depmod", "#!/bin/sh\n"), ("dpkg-query", ""):
            self.write("bin/" + name, text or "#!/bin/sh\nfor word; do echo \"$word:amd64 installed\"; done\n", 0o755)
        self.write("cache/libvipl/venv/complete-1.42", "")
        self.write("cache/libvipl/venv/bin/python", "#!/bin/sh\n", 0o755)

    def write(self, name, text, mode=0o644):
        write(os.path.join(self.root, name), text, mode)

    def package(self, name, files, depends, version="1"):
        self.write("tree/DEBIAN/control", "Package: %s\nVersion: %s\nArchitecture: amd64\nMaintainer: nobody\n"
                   "Description: none\nDepends: %s\n" % (name, version, depends))
        for file in files:
            self.write("tree/" + file, "")
        os.makedirs(self.root + "/offer", exist_ok=True)
        done = run("dpkg-deb", "--build", self.root + "/tree", "%s/offer/%s_%s_amd64.deb" % (self.root, name, version))
        self.assertEqual(0, done.returncode, done.stderr)
        shutil.rmtree(self.root + "/tree")

    def offer(self, packages, leaves_out=()):
        names = list(packages)
        extra = ["%s (= 1)" % name for name in names if "-extra-" in name]
        for name in names:
            depends = ", ".join("%s (= 1)" % part for part in names[1:] if "-extra-" not in part) if name == names[0] else "kmod"
            if name not in leaves_out:
                self.package(name, packages[name], "initramfs-tools | dracut, " + depends if depends else "kmod")
        metapackage = "linux-image-generic" if extra else "linux-image-amd64"
        self.write("offer/" + metapackage, "Package: %s\nDepends: %s\n" % (
            metapackage, ", ".join(["linux-base-amd64 (= 1)", "%s (= 1)" % names[0], *extra])))
        return "%s/offer/%s_1_amd64.deb" % (self.root, names[0])

    def setup(self, *words):
        return run("bash", TOOLS + "/setup", *words, env=dict(
            os.environ, PATH=self.root + "/bin:" + os.environ["PATH"], PACKAGES=self.root + "/offer",
            XDG_CACHE_HOME=self.root + "/cache"))

    def expect_kernel(self, directory, version):
        for name in "version", "boot/vmlinuz-" + version, "lib/modules/%s/kernel/a.ko" % version:
            self.assertTrue(os.path.exists(os.path.join(directory, name)), name)

    def test_the_system_s(self):
        for packages, version in self.ALL:
            with self.subTest(version):
                self.offer(packages)
                done = self.setup("guest")
                self.assertEqual(0, done.returncode, done.stderr)
                self.expect_kernel(self.root + "/cache/libvipl/kernel", version)
                shutil.rmtree(self.root + "/cache/libvipl/kernel")
                shutil.rmtree(self.root + "/offer")

    def test_of_a_file(self):
        for packages, version in self.ALL:
            with self.subTest(version):
                done = self.setup("kernel", self.offer(packages))
                self.assertEqual(0, done.returncode, done.stderr)
                self.expect_kernel(done.stdout.strip(), version)

    def test_of_a_file_whose_parts_are_not_there(self):
        file = self.offer(self.SPLIT, leaves_out=["linux-binary-7+deb-amd64"])
        self.package("linux-binary-7+deb-amd64", self.SPLIT["linux-binary-7+deb-amd64"], "kmod", "2")  # of another version
        done = self.setup("kernel", file)
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertIn("linux-binary-7+deb-amd64_", done.stderr)

    def test_the_newest(self):
        self.offer(self.SPLIT)
        self.write("offer/debian/dists/stable/Release", "Suite: stable\nCodename: later\n")
        done = self.setup("kernel", "newest")
        self.assertEqual(0, done.returncode, done.stderr)
        self.expect_kernel(done.stdout.strip(), "7+deb-amd64")
        self.assertIn("Suites: sid later-backports\n", Path(self.root, "cache/libvipl/apt/debian.sources").read_text())
        shutil.rmtree(self.root + "/offer")
        done = self.setup("kernel", "newest")  # within a day nobody is asked
        self.assertEqual(0, done.returncode, done.stderr)

    def test_the_newest_where_it_cannot_be_had(self):
        for release, unreachable in (False, False), (True, True), (True, False):
            with self.subTest(release=release, unreachable=unreachable):
                self.write("offer/linux-image-amd64", "")
                if release:
                    self.write("offer/debian/dists/stable/Release", "Codename: later\n")
                if unreachable:
                    self.write("offer/unreachable", "")
                done = self.setup("kernel", "newest")
                self.assertEqual((1, ""), (done.returncode, done.stdout))
                self.assertIn("there is no way to the newest kernel: ", done.stderr)
                shutil.rmtree(self.root + "/offer")


class ElsewhereTest(unittest.TestCase):
    """Without apt-get setup goes on with what is there, and names the packages of what is not."""

    def setup_without(self, *programs):
        """All programs of this machine are there but these and apt-get. Nothing is written outside of a directory of its own."""
        root = self.enterContext(tempfile.TemporaryDirectory())
        os.mkdir(root + "/bin")
        for directory in "/usr/bin", "/usr/sbin":
            for name in os.listdir(directory):
                if name not in {"apt-get", *programs} and not os.path.lexists(os.path.join(root, "bin", name)):
                    os.symlink(os.path.join(directory, name), os.path.join(root, "bin", name))
        return run("bash", TOOLS + "/setup", "build", env=dict(os.environ, PATH=root + "/bin", XDG_CACHE_HOME=root + "/cache"))

    def test_what_only_tests_need_is_missing(self):
        done = self.setup_without("abidiff")
        self.assertEqual((0, ""), (done.returncode, done.stdout))
        self.assertRegex(done.stderr, "(?m)^Fedora, Rocky: dnf install.* libabigail")

    def test_what_building_needs_is_missing(self):
        done = self.setup_without("ninja")
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertRegex(done.stderr, "(?m)^openSUSE: *zypper install.* ninja")
        self.assertNotIn("cmake", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], sys.argv[1].capitalize() + "Test"])
