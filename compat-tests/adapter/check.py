# SPDX-License-Identifier: BSD-2-Clause
"""vip_check_adapter with programs that only play: check.py VIP_CHECK_ADAPTER SOURCES

What a report may not tell is replaced; each way to fail has its verdict and its exit status; nothing is left behind."""

import contextlib
import json
import os
import pathlib
import pwd
import re
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unittest
import unittest.mock

PROGRAM, SOURCES = sys.argv[1:3]
sys.dont_write_bytecode = True
sys.path.insert(0, SOURCES)
import facts  # noqa: E402
import other_host  # noqa: E402
import running  # noqa: E402
import steps  # noqa: E402
import strangers  # noqa: E402

PATIENCE = 60  # seconds; only a program that hangs takes this long
HOST, USER = socket.gethostname(), pwd.getpwuid(os.getuid()).pw_name
SECRETS = {"MAC": "0c:42:a1:ab:cd:ef", "GUID": "0c42:a103:00ab:cdef", "IPv4": "10.20.30.40", "IPv6": "fd12:3456:789a::1:2",
           "link-local": "fe80::e42:a1ff:feab:cdef", "IB": "80:00:02:08:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:ab:cd:ef"}
ALL = """for {0}, at {1[IPv4]}:18516, [{1[IPv6]}]:22090 and {1[link-local]}%eth0; {1[MAC]} {1[IB]} node_guid {1[GUID]},
gid:{2} 0x0c42a10300abcdef enx0c42a1abcdef address 0a141e28 user=jane@{0} /home/jane/x"""
GID = "0000:0000:0000:0000:0000:ffff:0a14:1e28"

# Each program says what the variable of its name has, then does what the variable with _DOES has.
PLAYS = """#!/bin/bash
name=${0##*/}
[[ " $* " == *" --serve"* || ${1:-} == server ]] && { echo "plays peers, waits for clients"; exec sleep 1000; }
for word; do [[ $word != --junit=* ]] || echo "$JUNIT" >"${word#*=}"; done
echo "$PRIVATE"
[[ " $* " != *" --peer="* ]] || echo "5 tests had their peer on $PEERS"
[[ $1 != overhead ]] || { echo '{
"rc_send_8B": {"ratio": 1.05, "pairs": 3, "raw_us": 1.0, "vipl_us": 1.05}}'; }
case $name in
    vip_info) echo '{
"nics": [{"nic": "nic0", "Name": "mlx5_7", "host": "10.20.30.40", "ReliabilityLevelSupport": ["reliable delivery"]}],
"problems": '"$([[ " $* " != *" --problems "* ]] && echo '[]' || echo "${PROBLEMS:-[]}")"'}' ;;
    vip_perf) [[ $1 == overhead ]] || echo '{
"series": [{"name": "VIPL", "points": [{"what": "connection", "us_median": 300.0, "bytes": 8, "MBps": 1.5}]}]}' ;;
esac
does=${name}_DOES
eval "${!does}"
"""
JUNIT = """<testsuites><testsuite><testcase classname="A" name="One"/><testcase classname="A" name="Two">%s</testcase>
</testsuite></testsuites>"""
SKIPPED, BROKEN = '<skipped message=""/>', '<failure type="failed" message=""/>'
PROGRAMS = ("vip_info", "vip_conformance", "vip_legacy", "vip_stress", "vip_perf")
SUMMARY = """early adopter                    64      64       0        0             0        0
functional                      467     466       1        0             0        0"""


class Site(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in "bin", "tmp", "out":
            (self.folder / name).mkdir()
        for name in PROGRAMS:
            file = self.folder / "bin" / name
            file.write_text(PLAYS)
            file.chmod(0o755)
        self.program = shutil.copy(PROGRAM, self.folder / "bin")  # where it finds only programs that play

    def environment(self, **more):
        return {**os.environ, "PATH": "%s:/usr/bin:/bin" % (self.folder / "bin"), "TMPDIR": str(self.folder / "tmp"),
                "JUNIT": JUNIT % SKIPPED, "PEERS": "there", "PRIVATE": "nothing", "USER": "jane", **more}

    def run_check(self, *options, **environment):
        """Returns what it prints, and the report, if there is one."""
        done = subprocess.run([self.program, *options], cwd=self.folder / "out", env=self.environment(**environment),
                              capture_output=True, text=True, errors="replace", timeout=PATIENCE, check=False)
        self.status, self.output = done.returncode, done.stdout + done.stderr
        self.assertEqual(os.listdir(self.folder / "tmp"), [], "nothing temporary is left")
        files = list((self.folder / "out").iterdir())
        return json.loads(self.files(files[0])["report.json"]) if files else None

    @staticmethod
    def files(path):
        with tarfile.open(path) as archive:
            return {member.name.partition("/")[2]: archive.extractfile(member).read().decode() for member in archive}

    def statuses(self, report):
        return {step["name"]: step["status"] for step in report["steps"]}


class Verdicts(Site):
    def test_works(self):
        report = self.run_check("-q")
        self.assertEqual(0, self.status, self.output)
        self.assertIn("libvipl works on nic0 (mlx5_7): all 6 steps passed.", self.output)
        self.assertEqual({"ok"}, set(self.statuses(report).values()))
        self.assertIs(report["works"], True)
        self.assertIn("1.05 us, raw verbs 1 (1.05 times)", self.output)

    def test_quick_is_fewer_tests(self):
        quick = " --gtest_filter=" + ":".join("%s.*:*/%s.*" % (suite, suite) for suite in steps.QUICK)
        for options, words in (["-q"], quick), ([], ""):
            self.run_check("-o", "report.tgz", *options)
            command = self.files(self.folder / "out/report.tgz")["conformance.txt"].splitlines()[0]
            self.assertRegex(command, r"^\$ vip_conformance --nic=nic0 --junit=\S+%s$" % re.escape(words))

    def test_the_verdict_names_the_port(self):
        for nic, words in ("mlx5_7:2", "mlx5_7:2 (mlx5_7)"), ("mlx5_7", "mlx5_7"):
            self.run_check("-q", "-o", "report.tgz", "--nic=" + nic)
            self.assertIn("libvipl works on %s: all" % words, self.output)

    def test_a_step_that_fails(self):
        for program, step in ("vip_stress", "stress"), ("vip_perf", "overhead"), ("vip_legacy", "legacy"):
            for does in "exit 1", "kill -SEGV $$":
                with self.subTest(program=program, does=does):
                    report = self.run_check("-q", "-o", "report.tgz", **{program + "_DOES": does})
                    self.assertEqual(1, self.status, self.output)
                    self.assertIn("libvipl DOES NOT WORK on nic0 (mlx5_7): ", self.output)
                    self.assertEqual("FAILED", self.statuses(report)[step])
                    self.assertEqual("ok", self.statuses(report)["conformance"])

    def test_a_test_that_fails_says_what_that_means(self):
        report = self.run_check("-q", JUNIT=JUNIT % BROKEN, PRIVATE=SUMMARY, vip_legacy_DOES="exit 0")
        self.assertEqual(1, self.status, self.output)
        self.assertIn("conformance: 1 of 2 tests failed: A.Two\n      Simple programs work;", self.output)
        self.assertEqual(["A.Two"], report["steps"][1]["figures"]["failed"])

    def test_tests_that_took_too_long_say_so(self):
        self.run_check("-q", JUNIT=JUNIT % '<failure type="took too long" message=""/>')
        self.assertIn("conformance: 1 of 2 tests failed, 1 of them took too long: A.Two\n      It hangs, or the machine is very "
                      "slow: conformance.txt says", self.output)

    def test_a_low_limit_on_memory_is_no_fault_of_the_nics(self):
        low = {"about": "memory", "problem": "the limit on locked memory is low", "remedy": "Raise it:\nulimit -l"}
        near = {"about": "network", "problem": "eth0 and eth1 are interfaces in one subnet", "remedy": "sysctl"}
        self.run_check("-q", PROBLEMS=json.dumps([{**low, "about": "port", "problem": "another port"}, near]))
        self.assertEqual(0, self.status, self.output)
        self.assertIn("delivery; but eth0 and eth1 are interfaces in one subnet\n", self.output)
        self.run_check("-q", "-o", "report.tgz", PROBLEMS=json.dumps([near, low]))
        self.assertEqual(3, self.status, self.output)
        self.assertIn("NOTHING WAS CHECKED: the limit on locked memory is low.\nWhat to do:\n  Raise it:\n  ulimit -l\n",
                      self.output)

    def test_a_full_folder_is_named(self):
        self.run_check("-q", vip_stress_DOES="rm -r $TMPDIR/vip_check_adapter-*")
        self.assertEqual(2, self.status, self.output)
        self.assertIn("(its own files are in %s: see TMPDIR)" % (self.folder / "tmp"), self.output)

    def test_without_figures_or_results_nothing_is_shown(self):
        for more in {"JUNIT": ""}, {"vip_perf_DOES": ":", "broken": "vip_perf"}:
            with self.subTest(more):
                if "broken" in more:
                    (self.folder / "bin/vip_perf").write_text("#!/bin/sh\nexit 0\n")
                self.run_check("-q", "-o", "report.tgz", **more)
                self.assertEqual(1, self.status, self.output)

    def test_what_is_not_installed(self):
        (self.folder / "bin/vip_perf").unlink()
        report = self.run_check("-q")
        self.assertEqual(1, self.status, self.output)
        self.assertIn("It is NOT SHOWN that libvipl works on nic0 (mlx5_7): 2 of 6", self.output)
        self.assertIn("not run: overhead, connect: vip_perf is not installed", self.output)
        self.assertEqual("NOT RUN", self.statuses(report)["connect"])

    def finds(self, *options, nics=(), usable=None, complaint=None, does="exit 1"):
        """Has a check with a vip_info that finds these NICs, and one device. usable: whether that can be used; None: no device."""
        device = {"device": "mlx5_7", "port": 1, "interface": "eth7", "address": SECRETS["IPv4"], "usable": usable}
        problem = {"problem": "mlx5_7 port 1: the port is DOWN", "remedy": "Plug it in.\nOr else."}
        said = {"nics": nics, "candidates": [] if usable is None else [device], "problems": [] if usable else [problem]}
        said = "{\n" + json.dumps(said)[1:] + ("\nvip_info: cannot use NIC x: " + complaint if complaint else "")
        report = self.run_check("-q", "-o", "report.tgz", *options, PRIVATE=said, vip_info_DOES=does)
        self.assertEqual(self.status == 3, "NOTHING WAS CHECKED: " in self.output, self.output)
        self.assertEqual(self.status == 1, "DOES NOT WORK" in self.output, self.output)
        self.assertIs(report["works"], None if self.status == 3 else False)
        return report

    def test_without_an_adapter_nothing_is_checked(self):
        for options, more in (([], {"nics": [{"Name": "via_lo"}], "does": ""}),
                              (["--nic=x"], {"complaint": "VIP_INVALID_PARAMETER (it)"})):
            with self.subTest(options):
                report = self.finds(*options, **more)
                self.assertEqual((3, {"nic": "NO NIC"}), (self.status, self.statuses(report)), self.output)
                self.assertIn("NOTHING WAS CHECKED: no RDMA adapter was found.\nWhat to do:\n  ", self.output)
                self.assertIn("  modprobe rdma_rxe && ", self.files(self.folder / "out/report.tgz")["report.txt"])

    def test_a_nic_that_is_not_there(self):
        self.finds("--nic=mlx5_9", usable=True, complaint="VIP_INVALID_PARAMETER (it)")
        self.assertEqual(3, self.status)
        self.assertIn(": cannot use NIC x: VIP_INVALID_PARAMETER (it).\n", self.output)
        self.assertIn("\nWhat to do:\n  Use --nic=mlx5_7:1, or --nic=mlx5_7@10.", self.output)
        text = self.files(self.folder / "out/report.tgz")["report.txt"]
        self.assertIn("Use --nic=mlx5_7:1, or --nic=mlx5_7@ipv4-", text)
        self.finds("--nic=via_lo", usable=True, nics=[{"Name": "via_lo"}], does="")
        self.assertIn("via_lo is the loopback NIC, and no adapter.\nWhat to do:\n  Use --nic=mlx5_7:1", self.output)

    def test_a_nic_that_cannot_be_used_as_things_are(self):
        for name in "nic0", "mlx5_7", "mlx5_7:1", "eth7@10.1.1.1":
            self.finds("--nic=" + name, usable=False, complaint="VIP_ERROR_RESOURCE (it)")
            self.assertEqual(3, self.status)
            self.assertIn("\nWhat to do:\n  mlx5_7 port 1: the port is DOWN:\n      Plug it in.\n      Or else.\nThe ", self.output)

    def test_a_nic_that_should_work_and_does_not(self):
        for does, complaint in ("exit 1", "VIP_ERROR_RESOURCE (it)"), ("kill -SEGV $$", None), ("exit 0", None):
            report = self.finds(usable=True, complaint=complaint, does=does)
            self.assertEqual((1, {"FAILED", "NOT RUN"}), (self.status, set(self.statuses(report).values())), self.output)
        for usable in None, False:
            self.finds(usable=usable, does="kill -SEGV $$")
            self.assertEqual(1, self.status)

    def test_in_the_build_tree_it_finds_the_programs(self):
        folders = os.pathsep.join(os.path.join(os.path.dirname(PROGRAM), each) for each in
                                  re.search('in "(.*)".split', pathlib.Path(PROGRAM).read_text())[1].split(":"))
        with unittest.mock.patch.dict(os.environ, PATH="/nowhere"):
            self.assertEqual([], [each for each in PROGRAMS if not running.find(each, folders)])
        done = subprocess.run([PROGRAM, "--nic=via_lo", "-o", self.folder / "report.tgz"], env={"PATH": "/usr/bin:/bin"},
                              stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(3, done.returncode, done.stdout)

    def test_reports_of_one_second_have_files_of_their_own(self):
        write_archive = runpy.run_path(PROGRAM)["write_archive"]
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder / "out")
        with unittest.mock.patch("time.strftime", return_value="same"):
            writers = [threading.Thread(target=write_archive, args=(None, {"x": str(i)})) for i in range(8)]
            for each in writers:
                each.start()
            for each in writers:
                each.join()
        files = sorted(os.listdir("."))
        self.assertEqual(["same-%d.tar.gz" % i for i in range(2, 9)] + ["same.tar.gz"], files)
        self.assertEqual(set("01234567"), {self.files(name)["x"] for name in files})
        (self.folder / "out/same.tar.gz").unlink()

    def test_usage(self):
        os.mkfifo(self.folder / "fifo")
        (self.folder / "link").symlink_to("fifo")
        for options in (["--serve", "host"], ["a", "b"], ["--port=70000"], ["-o", "/nowhere/x"], ["-o", "."], ["-o", ""],
                        ["-o", "/proc/x"], ["-o", "../fifo"], ["-o", "../link"], ["-o", "/dev/null/x"], ["-o", "x" * 300],
                        ["a..b"], ["x" * 70], [b"caf\xe9"], [""]):
            with self.subTest(options):
                self.run_check(*options)
                self.assertEqual(2, self.status, self.output)
                self.assertNotIn("[0:", self.output)
        self.assertTrue((self.folder / "fifo").is_fifo())

    def test_the_file_cannot_be_written_at_the_end(self):
        (self.folder / "gone").mkdir()
        self.run_check("-q", "-o", "../gone/report.tgz", vip_stress_DOES="rm -r ../gone")
        self.assertEqual(2, self.status, self.output)
        self.assertIn("libvipl works on nic0 (mlx5_7): all 6 steps passed.", self.output)
        self.assertNotIn("Traceback", self.output)

    def test_bytes_that_are_no_text(self):
        report = self.run_check("-q", "--nic=" + os.fsdecode(b"caf\xe9"), VIPL_TRACE_FILE=b"/tmp/caf\xe9",
                                PRIVATE=b"caf\xe9 \x1b[2J", LC_ALL="C.UTF-8")
        self.assertEqual(0, self.status, self.output)
        self.assertIn("libvipl works on caf\\xe9 (mlx5_7): all 6 steps passed.", self.output)
        self.assertEqual("/tmp/caf\\xe9", report["facts"]["environment"]["VIPL_TRACE_FILE"])
        os.mkdir(os.fsencode(self.folder) + b"/\xe9")
        interface = os.fsencode(self.folder) + b"/root/sys/class/net/\xe9"
        os.makedirs(interface)
        pathlib.Path(os.fsdecode(interface), "address").write_bytes(b"\xe9\n")
        self.assertEqual({"\\xe9": {"address": "\\xe9"}}, strangers.cleaned(facts.collect(self.folder / "root"))["interfaces"])
        self.run_check("-q", "-o", os.fsdecode(b"../\xe9/\xe9.tgz"))
        self.assertEqual(0, self.status, self.output)

    def test_much_output(self):
        self.run_check("-q", vip_stress_DOES="echo first; head -c 3000000 /dev/zero; echo; echo last")
        self.assertEqual(0, self.status, self.output)
        said = self.files(next((self.folder / "out").iterdir()))["stress.txt"]
        self.assertIn("first", said)
        self.assertTrue(said.endswith("last\n"))
        self.assertIn(" bytes are left out ...", said)
        self.assertLess(len(said), 2 * running.MOST_KEPT + 200)

    def test_nested_output(self):
        self.run_check("-q", PRIVATE="{\n\"a\":" + "[" * 100000)
        self.assertNotIn("Traceback", self.output)


class Ends(Site):
    def start(self, *options, **environment):
        process = subprocess.Popen([self.program, *options], cwd=self.folder / "out", env=self.environment(**environment),
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        return process

    def processes(self, program=b""):
        """Returns those that have the environment of this test, and this program."""
        found, mark = [], os.fsencode(str(self.folder))
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                if mark in (path / "environ").read_bytes() and program in (path / "cmdline").read_bytes():
                    found.append(path.name)
        return found

    def test_interrupted(self):
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
            with self.subTest(number):
                process = self.start("-q", vip_stress_DOES="setsid sleep 1000 & setsid setsid sleep 1000 & sleep 1000")
                for line in process.stdout:
                    if line.startswith("[0:") and "stress: " in line:
                        break
                while len(self.processes(b"sleep")) < 3:
                    time.sleep(0.05)
                process.send_signal(number)
                self.assertEqual(128 + number, process.wait(PATIENCE))
                self.assertEqual([], self.processes())
                self.assertEqual([[], []], [os.listdir(self.folder / name) for name in ("tmp", "out")])

    def test_a_time_limit(self):
        output = self.folder / "output"
        self.assertEqual(running.OVER, running.run(["sh", "-c", "sleep 1000 & sleep 1000"], output, 0.3,
                                                   {"MARK": str(self.folder)}))
        self.assertEqual([], self.processes())

    def test_a_second_host_that_does_not_answer(self):
        """It is asked first: nobody waits for the other steps."""
        with socket.create_server(("127.0.0.1", 0)) as silent, unittest.mock.patch.object(other_host, "CONNECT_LIMIT", 0.1):
            number = silent.getsockname()[1]
            with self.assertRaisesRegex(other_host.NoOther, r"127.0.0.1: vip_check_adapter there does not answer \(timed out\)"):
                other_host.reach("127.0.0.1", number, "1")
        report = self.run_check("--port=%d" % number, "127.0.0.1")
        self.assertEqual(1, self.status, self.output)
        self.assertIn('Does "vip_check_adapter --serve" run there', self.output)
        self.assertEqual({"ok", "NOT RUN"}, set(self.statuses(report).values()))

    def serve(self):
        """Returns a process that serves, and ends after the check, and the option with its port."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = "--port=%d" % (free.getsockname()[1] - 4)
        server = self.start("--serve", port, TMPDIR=str(self.folder))
        self.assertIn("waits at TCP ports", server.stdout.readline())
        return server, port

    def test_two_hosts(self):
        server, port = self.serve()
        with socket.create_connection(("127.0.0.1", int(port[7:]))) as stranger:
            stranger.sendall(b"GET / HTTP/1.0\r\n\r\n")
        for nonsense in b"[" * 60000 + b"\n", b"[]\n", b"\xff\n", b'{"is": []}\n', b"1" * 50000 + b"\n", b"x" * (1 << 20):
            with contextlib.suppress(ConnectionError), \
                    socket.create_connection(("127.0.0.1", int(port[7:]))) as stranger:
                stranger.sendall(nonsense)
                while stranger.recv(1000):
                    pass
        report = self.run_check("-q", port, "localhost")
        self.assertEqual(0, self.status, self.output)
        self.assertIn("the check is over", server.communicate(timeout=PATIENCE)[0])
        self.assertEqual(0, server.returncode)
        self.assertEqual({"ok"}, set(self.statuses(report).values()))
        self.assertIn("system", report["other host"])
        self.assertEqual("nic other-host latency-2 conformance-2 legacy-2 bandwidth-2 connect-2".split(),
                         list(self.statuses(report)))
        self.assertEqual([], self.processes())

    def test_no_message_comes_through_between_two_hosts(self):
        server, port = self.serve()
        report = self.run_check("-q", port, "127.0.0.1", vip_perf_DOES="exit 1")
        self.assertEqual(["ok", "ok", "FAILED", *["NOT RUN"] * 4], list(self.statuses(report).values()))
        self.assertIn("With RoCE, UDP port 4791 of both has to be open", self.output)
        self.assertIn("the check is over", server.communicate(timeout=PATIENCE)[0])
        self.assertEqual([], list(self.folder.glob("vip_check_adapter-*")))

    @contextlib.contextmanager
    def host_that_says(self, *lines):
        """Yields its port."""
        def play():
            with contextlib.suppress(OSError):
                connection = listening.accept()[0]
                with connection:
                    connection.sendall(b"\n".join(lines) + b"\n")
                    while connection.recv(1000):
                        pass
        with socket.create_server(("127.0.0.1", 0)) as listening:
            player = threading.Thread(target=play)
            player.start()
            yield listening.getsockname()[1]
            listening.shutdown(socket.SHUT_RDWR)
            player.join()

    def answers(self, *lines):
        """Has a check with a host that says these lines."""
        with self.host_that_says(*lines) as port:
            report = self.run_check("-q", "-o", "report.tgz", "--port=%d" % port, "127.0.0.1",
                                    vip_conformance_DOES="kill $$", vip_legacy_DOES="kill $$", vip_perf_DOES="kill $$")
        self.assertEqual(1, self.status, self.output)
        self.assertNotIn("Traceback", self.output)
        self.assertTrue(self.output.replace("\n", "").isprintable())
        return report

    def test_a_second_host_that_talks_nonsense(self):
        version = subprocess.run([PROGRAM, "--version"], capture_output=True, check=True).stdout.strip()
        greeting = b'{"is": "vip_check_adapter", "version": "%s"}' % version
        told = {"facts": {"devices": {}, "programs": {}}, "names": {"hosts": [], "users": []}, "nic": {}}

        def with_facts(**more):
            return {**told, "facts": {**told["facts"], **more}}
        wrong = [{**told, "names": []}, {**told, "names": {"hosts": [1], "users": []}}, {**told, "facts": "x"}, {**told, "facts": {}},
                 {**told, "nic": 1}, with_facts(devices={"a": 1}), with_facts(devices={"a": {"fw_ver": 1}}), with_facts(programs=[]),
                 with_facts(programs={"rpm": 1}), with_facts(x=float("inf")), with_facts(x="x" * (1 << 20)), {"failed": 1}, []]
        wrong = [json.dumps(each).encode() for each in wrong] + [b"[" * 100000, b"{\"a\":" * 100000, b"\xff", b"x", b"1" * 5000]
        for lines in [[b"[" * 60000], [b"[]"], [b'{"is": "vip_check_adapter", "version": [1]}'], *([greeting, one] for one in wrong)]:
            with self.subTest(lines[-1][:80]), self.host_that_says(*lines) as port, \
                    self.assertRaisesRegex(other_host.NoOther, "talks nonsense"):
                other_host.reach("127.0.0.1", port, version.decode())
        self.answers(greeting, b"x")
        self.assertIn("talks nonsense", self.output)
        self.answers(greeting, b"{}")
        self.answers(b'{"is": "vip_check_adapter", "version": "\\u001b[2J"}')
        self.assertIn("has vip_check_adapter \\x1b[2J, and", self.output)
        self.answers(greeting, b'{"failed": "\\u001b[2J\\ud800%s"}' % (b"x" * 1000))
        self.assertIn("127.0.0.1: \\x1b[2J\\ud800xxx", self.output)
        odd = {**with_facts(a=":" * 40000, b="\ud800", c="peer-7 node9"), "names": {
            "hosts": ["", "1", "ok", "libvipl", "peer-7", "a b", "\ud800"], "users": ["true", "works", "node9"]}}
        report = self.answers(greeting, json.dumps(odd).encode())
        self.assertEqual(("\\ud800", "host-2 user-"), (report["other host"]["b"], report["other host"]["c"][:12]))
        self.assertIn("libvipl DOES NOT WORK on", self.files(self.folder / "out/report.tgz")["report.txt"])
        self.assertIs(report["works"], False)
        self.assertEqual("ok", report["steps"][0]["status"])


class Private(Site):
    def secrets(self):
        everything = ALL.format(HOST, SECRETS, GID)
        forms = [*SECRETS.values(), GID, "0c42a10300abcdef", "0c42a1abcdef", "0a141e28", "jane"]
        return everything, [form.lower() for form in forms] + ([USER] * (USER != "root"))

    def test_nothing_in_the_file(self):
        everything, forms = self.secrets()
        self.run_check("-q", PRIVATE=everything, VIPL_HOSTS="/home/jane/" + SECRETS["MAC"],
                       vip_conformance_DOES="echo 0c42a1777777 comes first", vip_stress_DOES="echo 0c:42:a1:77:77:77; exit 1")
        path = next((self.folder / "out").iterdir())
        raw = subprocess.run(["gzip", "-dc", path], capture_output=True, check=True).stdout.decode().lower()
        for form in [*forms, "0c42a1777777"]:
            self.assertFalse(form in raw, form)
        self.assertIsNone(re.search(r"(?<![a-z0-9_])%s(?![a-z0-9_])" % re.escape(HOST.lower()), raw))
        self.assertIn("host-1", raw)
        self.assertIn("/home/user-", raw)

    def test_a_user_whose_name_is_a_word_of_the_report(self):
        for name in "true", "1", "ok", "status", "system":
            with self.subTest(name):
                report = self.run_check("-q", "-o", "report.tgz", USER=name, LOGNAME=name, PRIVATE="-%s-" % name)
                self.assertIs(report["works"], True)
                self.assertEqual({"ok"}, set(self.statuses(report).values()))
                self.assertIn("system", report["facts"])
                self.assertIn("-user-", self.files(self.folder / "out/report.tgz")["stress.txt"])

    def test_with_names(self):
        everything, _ = self.secrets()
        self.run_check("-q", "--with-names", PRIVATE=everything)
        self.assertIn(everything, self.files(next((self.folder / "out").iterdir()))["stress.txt"])


unittest.main(argv=sys.argv[:1])
