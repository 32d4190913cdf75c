#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests of VIPL_TRACE and vip_trace.

usage: check.py CASE PROGRAM VIP_TRACE   what the trace of a program has in it
       check.py conformance VIP_CONFORMANCE VIP_TRACE
       check.py summary|gap_summary|damaged_summary|no_summary VIP_TRACE
"""

import difflib
import os
import pathlib
import re
import resource
import signal
import stat
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.dont_write_bytecode = True  # tests leave the sources alone
from puppet import OPEN, Puppet  # noqa: E402

LINE = re.compile(r"(\d+\.\d{9}) (\d+) ([>={}~]) (\w+) (\w+|-) (\d+|-)((?: \w+=[\x21-\x7e]*)*)$")
HEADER = HERE.parents[2] / "include/vipl.h"
POSTS = OPEN, "make_vi", "post 1000"
ATTRIBUTES = "level=delivery mtu=4096 tag=0x0 write=0 read=0"


class Trace:
    def __init__(self, path, broken=0):
        text = pathlib.Path(path).read_text(encoding="ascii")
        assert text.endswith("\n") and "\0" not in text
        lines = [line for line in text.split("\n") if line]
        self.remarks = [line for line in lines if line.startswith("#")]
        self.lines = []
        for line in lines:
            if not line.startswith("#"):
                match = LINE.match(line)
                if broken and line.endswith(" ..."):  # a part, of which the next remark tells
                    broken -= 1
                    continue
                assert match, "what is this: %r" % line
                self.lines.append(match.groups())
        self.threads = list(dict.fromkeys(line[1] for line in self.lines))
        header = self.remarks[0]
        assert header.startswith("# vipl-trace 1 "), header
        self.header = dict(word.split("=", 1) for word in header.split()[3:])

    def of_thread(self, thread):
        """Returns the thread's lines as in the file. They must be in the order of time."""
        lines = [line for line in self.lines if line[1] == thread]
        times = [float(line[0]) for line in lines]
        assert times == sorted(times)
        return lines

    def numbers(self):
        """Returns the numbers of the posts by VI, which say whether one is missing."""
        found = {}
        for line in self.lines:
            if line[2:4] == ("=", "VipPostSend"):
                values = dict(word.split("=") for word in line[6].split())
                found.setdefault(values["vi"], []).append(int(values["imm"], 16))
        return found

    def lost(self):
        lost = [remark for remark in self.remarks if "lost" in remark]
        return sum(int(re.fullmatch(r"# lost=(\d+) lines", remark)[1]) for remark in lost)

    def count(self, function, event="="):
        return len([line for line in self.lines if line[2] == event and line[3] == function])


class Run(Puppet):
    """One run of the puppet. `name` is the value of VIPL_TRACE, in a directory of the test."""

    def __init__(self, program, *commands, name="trace", under=(), **environment):
        self.scratch = tempfile.TemporaryDirectory(prefix="vipl-trace.")
        self.directory = self.scratch.name
        self.path = os.path.join(self.directory, name)
        hosts = os.path.join(self.directory, "hosts")
        with open(hosts, "w", encoding="ascii") as file:
            file.write("localhost 127.0.0.1\n")
        super().__init__([*under, program, *commands], VIPL_TRACE=self.path, VIPL_HOSTS=hosts, **environment)

    def end(self, status=0):
        self.err = super().end(status)
        return self

    def warnings(self):
        return [line[line.index("vipl: "):] for line in self.err.splitlines() if " vipl: " in line]

    def files(self):
        return sorted(name for name in os.listdir(self.directory) if name != "hosts")

    def trace_fd(self, suffix=""):
        """The library's descriptor of the trace; `suffix`: of its name in /proc."""
        directory = pathlib.Path("/proc/%d/fd" % self.pid)
        found, = [fd for fd in directory.iterdir() if os.readlink(fd) == self.path + suffix]
        return found

    def limit(self, resource_kind, soft):
        """Returns the limit before."""
        before, most = resource.prlimit(self.pid, resource_kind)
        resource.prlimit(self.pid, resource_kind, (soft, most))
        return before


def functions():
    text = re.sub(r"/\*.*?\*/", " ", HEADER.read_text(encoding="ascii"), flags=re.S)
    return re.findall(r"\b(Vip\w+)\s*\(", text)


def same(found, expected, what):
    difference = list(difflib.unified_diff(expected, found, "expected", "found", lineterm=""))
    assert not difference, what + ":\n" + "\n".join(difference)


def calls_of(path):
    """Yields the commands of calls.txt, each with the lines that the trace has to have of it: those of its thread; and
    without a command what the library's thread writes."""
    for line in path.read_text(encoding="ascii").splitlines():
        if line[:1] in "{}=":
            yield None, [line] * bool(line)
        elif line and line[0] != "#":
            command, _, told = line.partition(" => ")
            function = command.removeprefix("thread ").split()[0]
            result, _, words = told.replace("LIKE", ATTRIBUTES).partition(" ")
            before, waits, behind = words.partition(" |")
            begun = ["> %s - %s" % (function, before.replace("~", ""))] * bool(waits)
            before = re.sub(" ~\\S+", "", before)
            yield command, begun + ["= %s %s %s%s" % (function, result, before, behind)] * bool(told)


def case_calls(program, _):
    """The trace has every function and every handler, with arguments and results, in order, by
    thread."""
    run = Run(program)
    own, others, last = [], [], []
    for command, lines in calls_of(HERE / "calls.txt"):
        if command:
            run.do(command)
        if not command:
            last += lines
        elif command.startswith("thread "):
            others += [*lines, ""]
        else:
            own += lines
    names = {value: name for name, value in run.values().items() if name.isupper() and value != "0" and name != "PID"}
    run.end()
    trace = Trace(run.path)
    found = []
    for thread in trace.threads:
        for _, _, event, function, result, _, values in trace.of_thread(thread):
            values = re.sub(r"(?<==)0x\w+(?= |$)", lambda match: names.get(match[0], match[0]), values)
            found.append("%s %s %s%s" % (event, function, result, values.replace("\\x20%d" % run.pid, "\\x20PID")))
        found.append("")
    same(found, [*own, "", *last, "", *others], "the lines of each thread")
    for function in functions():
        assert trace.count(function), "%s is not traced" % function
    for function in ("VipErrorCallback", "VipSendNotify", "VipRecvNotify", "VipCQNotify"):
        assert trace.count(function, "{") == trace.count(function, "}") > 0, function
    assert trace.threads[0] == trace.header["pid"] == str(run.pid)
    assert trace.header["program"] == os.path.realpath(program)
    assert trace.header["bits"] in ("32", "64") and trace.header["library"]
    assert trace.remarks[1:] == ["# nic=0x100001 device=via_lo address=127.0.0.1"]
    assert stat.S_IMODE(os.stat(run.path).st_mode) == 0o600
    assert not run.warnings()


def case_polls(program, _):
    """Polls are counted. The queue's next line has the count, and so has a line at each million and
    at the end."""
    run = Run(program).do(OPEN)
    for _ in range(600):  # the places of old handles are used again
        run.do("make_vi", "VipSendDone VI &done", "VipDestroyVi VI")
    values = run.do("VipCreateCQ NIC 8 &CQ", "make_vi", "receive = room", "VipPostRecv VI receive 0",
                    "1000005 * VipRecvDone VI &done", "VipRecvWait VI 0 &done", "3 * VipSendDone VI &done", "post 1",
                    "7 * VipCQDone CQ &which &queue").values()
    run.end()
    trace = Trace(run.path)
    vi, cq = values["VI"], values["CQ"]
    assert trace.count("VipRecvDone") == trace.count("VipCQDone") == 0
    assert trace.count("VipSendDone") == 1
    told = [(line[2], line[3], line[6]) for line in trace.lines
            if "polls=" in line[6] or "empty=" in line[6]]
    of_others = [line for line in told if line[2].endswith(" empty=1")]
    assert len({line[2] for line in of_others}) == 600
    told = [line for line in told if line not in of_others]
    assert told == [
        ("~", "VipRecvDone", " vi=%s polls=1000000" % vi),
        (">", "VipRecvWait", " vi=%s timeout=0 polls=5" % vi),
        ("=", "VipPostSend", told[2][2]),
        ("~", "VipCQDone", " cq=%s polls=7" % cq),
    ], told
    assert told[2][2].startswith(" vi=%s desc=" % vi) and told[2][2].endswith(" empty=3")


def case_threads(program, _):
    """Each thread writes all its calls, in order. At the end there are the counts of polls."""
    run = Run(program, OPEN, "threads").end()
    trace = Trace(run.path)
    assert len(trace.threads) == 5
    assert len([line for line in trace.lines if line[6].endswith(" polls=11")]) == 4
    for thread in trace.threads[1:]:
        assert len({line[6].split()[0] for line in trace.of_thread(thread)
                    if line[3] == "VipPostSend"}) == 1
    assert list(trace.numbers().values()) == 4 * [list(range(1500))]


def case_forks(program, _):
    """A child has a file of its own, with its process number in the name. It does not tell of its parent's polls."""
    for pattern, names in ("trace", ("trace", "trace.%d")), ("%p.trace", ("%d.trace", "%d.trace")):
        run = Run(program, OPEN, "make_vi", "post 1", name=pattern).do("VipSendDone VI &done")
        pid = run.result("child")
        run.do("post 1000").end()
        names = [name % number if "%" in name else name for name, number in zip(names, (run.pid, pid))]
        assert run.files() == sorted(names)
        parent, child = (Trace(os.path.join(run.directory, name)) for name in names)
        assert parent.header["pid"] == str(run.pid) and child.header["pid"] == str(pid)
        assert child.header["parent"] == str(run.pid)
        assert parent.threads == [str(run.pid)] and child.threads == [str(pid)]
        assert parent.count("VipPostSend") == 1001 and parent.count("VipQueryNic") == 0
        assert child.count("VipPostSend") == 1000 and child.count("VipQueryNic") == 1
        assert child.lines[0][3:5] == ("VipQueryNic", "VIP_INVALID_PARAMETER")
        assert child.count("VipSendDone", "~") == 0
        assert not run.warnings()


def case_full(program, vip_trace):
    """The lines that find no room are counted, and the trace goes on when there is some."""
    # The trace's directory is a file system of 64 KiB, half of which is taken.
    alone = ["unshare", "--mount"] + (["--user", "--map-root-user"] if os.geteuid() else [])
    disk = 'd=${VIPL_TRACE%/*} && mount -t tmpfs -o size=64k none "$d" && head -c 32768 /dev/zero >"$d/taken" && exec "$@"'
    run = Run(program, under=[*alone, "sh", "-c", disk, "sh"]).do(OPEN, "make_vi", "post 1000")
    path = "/proc/%d/root%s" % (run.pid, run.path)  # the disk is one of this process
    os.unlink(os.path.dirname(path) + "/taken")
    run.do("make_vi", "post 100")
    trace = Trace(path, broken=1)
    done = subprocess.run([vip_trace, path], text=True, capture_output=True)
    run.end()
    assert 100 < trace.lost() and len(trace.lines) + trace.lost() == 4 + 2 * 1100, trace.lost()
    assert list(trace.numbers().values())[1] == list(range(100))
    assert set(run.warnings()) == {"vipl: warning: VIPL_TRACE: lines are lost: "
                                   "No space left on device"}
    assert "\n%d lines were lost, " % trace.lost() in done.stdout, done.stdout


def case_limited(program, _):
    """So are those above a limit on the size of files, which do not end the program."""
    run = Run(program).do(OPEN)
    run.limit(resource.RLIMIT_FSIZE, 150000)
    run.do("threads")
    run.limit(resource.RLIMIT_FSIZE, 250000)
    run.do("make_vi", "post 100").end()
    trace = Trace(run.path)
    assert len(trace.lines) + trace.lost() == 2 + 4 * (2 + 2 * 1500) + 4 + 1 + 2 * 100
    assert list(trace.numbers().values())[-1] == list(range(100))
    assert set(run.warnings()) == {"vipl: warning: VIPL_TRACE: lines are lost: File too large"}
    length = pathlib.Path(run.path).read_text(encoding="ascii").index("# lost=")
    assert 149000 < length <= 150000, length


def case_closes(program, _):
    """A program's file that has got the descriptor number of the trace is not written to."""
    run = Run(program, VIPL_TRACE_MIB="1").do(OPEN)
    fd = int(run.trace_fd().name)
    run.do("close %d" % fd)
    mine = pathlib.Path(run.directory, "mine")
    mine.write_text("mine", encoding="ascii")
    assert run.result("open '%s %d" % (mine, os.O_RDWR)) == fd
    run.do("make_vi", "post 6000").end()  # more than one file has room for
    assert mine.read_text(encoding="ascii") == "mine"
    assert len(Trace(run.path).lines) == 2
    assert set(run.warnings()) == {"vipl: warning: VIPL_TRACE: lines are lost: Bad file descriptor",
                                   "vipl: warning: VIPL_TRACE: the last %d lines are lost"
                                   % (1 + 2 * 6000)}, run.warnings()


def case_standard_closed(program, _):
    """What a program writes to a standard output or error that it does not have is not in the
    trace."""
    closing = ("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh")
    run = Run(program, OPEN, "write 0 'lost 4", "write 1 'lost 4", "write 2 'lost 4", "make_vi", "post 1000", under=closing).end()
    trace = Trace(run.path)
    assert trace.count("VipPostSend") == trace.count("VipSendDone") == 1000


def case_overflows(program, vip_trace):
    """A trace at its limit has the last lines in two files, without a gap: by a process that has no descriptor left, is in
    another directory, has several threads, and is killed."""
    run = Run(program, VIPL_TRACE_MIB="1").do(OPEN, "make_vi")
    usual = run.limit(resource.RLIMIT_NOFILE, 3)
    run.do("post 3000")
    run.limit(resource.RLIMIT_NOFILE, usual)
    run.do("chdir '/", "post 6000")
    assert 520000 < os.stat(run.path + ".old").st_size <= 524288 >= os.stat(run.path).st_size
    run.do("threads")
    run.process.kill()
    run.end(-signal.SIGKILL)
    assert run.files() == ["trace", "trace.old"]
    old, new = Trace(run.path + ".old"), Trace(run.path)
    assert int(new.header["part"]) == int(old.header["part"]) + 1 > 3, old.header
    for vi, posted in new.numbers().items():
        posted = old.numbers().get(vi, []) + posted
        assert posted == list(range(posted[0], 1500)), (vi, posted)
    done = subprocess.run([vip_trace, run.path, run.path + ".old"], text=True, capture_output=True)
    print(done.stdout, done.stderr)
    lines = len(old.lines) + len(new.lines)
    assert done.stdout.count("\n%d lines of " % lines) == done.stdout.count(" threads in ") == 1
    assert "\nIt was cut: " in done.stdout


def case_renamed(program, vip_trace):
    """Where another file has its name, the trace begins anew, and the other file stays as it is."""
    run = Run(program, VIPL_TRACE_MIB="1").do(OPEN)
    os.unlink(run.path)
    fd = run.trace_fd(" (deleted)")
    pathlib.Path(run.path).write_text("mine\n", encoding="ascii")
    run.do("make_vi", "post 6000")
    assert 100 < os.stat(fd).st_size <= 524288
    run.end()
    assert run.files() == ["trace"] and not run.warnings()
    assert pathlib.Path(run.path).read_text(encoding="ascii") == "mine\n"


def case_unwritable(program, _):
    run = Run(program, OPEN, name="no/such/directory").end()
    assert run.files() == []
    assert run.warnings() == ["vipl: warning: VIPL_TRACE: no trace is written: %s: "
                              "No such file or directory" % run.path]


def case_not_a_file(program, _):
    """Nothing is written into a file of another kind or another user, nor through a link."""
    with tempfile.TemporaryDirectory() as scratch:
        link, pipe, mine, others = (os.path.join(scratch, name) for name in ("l", "p", "m", "o"))
        pathlib.Path(mine).write_text("mine")
        os.chmod(mine, 0o644)
        pathlib.Path(others).write_text("others'")
        os.symlink(mine, link)
        os.mkfifo(pipe)
        if not os.geteuid():
            os.chown(others, 65534, 65534)
        for name in ["/dev/null", link, pipe] + ([] if os.geteuid() else [others]):
            run = Run(program, *POSTS, name=name).end()
            assert run.warnings() == ["vipl: warning: VIPL_TRACE: no trace is written: %s: "
                                      "not a regular file of this user's" % name], run.warnings()
        assert pathlib.Path(mine).read_text() == "mine"
        Run(program, *POSTS, name=mine).end()
        assert Trace(mine).count("VipPostSend") == 1000, "an older file is overwritten"
        assert stat.S_IMODE(os.stat(mine).st_mode) == 0o600
        assert pathlib.Path(others).read_text() == "others'"


def case_same_file(program, _):
    """When two processes have one name, the second writes to another file, and the first's file
    stays whole."""
    first = Run(program).do(OPEN)
    second = Run(program, *POSTS, name=first.path).end()
    other = "%s.%d" % (first.path, second.pid)
    first.do("make_vi", "post 1").end()
    assert second.warnings() == ["vipl: warning: VIPL_TRACE: another process is writing %s, "
                                 "this one writes %s" % (first.path, other)]
    assert Trace(first.path).header["pid"] == str(first.pid)
    assert Trace(first.path).count("VipPostSend") == 1
    assert Trace(other).count("VipPostSend") == 1000


def case_conformance(suite, vip_trace):
    """Each line of any call is well-formed, and vip_trace can read it.

    The suites do not depend on time, because tracing takes time when the disk is busy.
    """
    suites = "Handle NullPointer Arguments Bounds AnyCall Descriptor DescriptorError ForeignMemory Giganet Fork"
    tests = "--gtest_filter=" + ":".join("%s.*:*/%s.*" % (name, name) for name in suites.split())
    with tempfile.TemporaryDirectory(prefix="vipl-trace.") as directory:
        environment = dict(os.environ, VIPL_TRACE=os.path.join(directory, "%p"))
        status = subprocess.run([suite, "--nic=via_lo", tests], env=environment).returncode
        assert status == 0, status
        traces = [os.path.join(directory, name) for name in os.listdir(directory)]
        lines = sum(len(Trace(path).lines) for path in traces)
        assert len(traces) > 1 and lines > 1000, (len(traces), lines)
        done = subprocess.run([vip_trace] + traces, stdout=subprocess.PIPE, text=True)
        assert done.returncode == 0 and "could not be read" not in done.stdout


def summary_of(vip_trace, *lines, files=1):
    """Returns what vip_trace says of a trace of these lines, which it takes so many times."""
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "trace")
        pathlib.Path(path).write_text("\n".join((*lines, "")), encoding="ascii")
        done = subprocess.run([vip_trace, *files * [path]], text=True, capture_output=True)
    print(done.stdout, done.stderr)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


def case_summary(vip_trace):
    """Checks the exact summary of a trace that has every kind of line."""
    done = subprocess.run([vip_trace, "--long=0.5", HERE / "known.trace"], text=True,
                          capture_output=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    same(done.stdout.splitlines(), (HERE / "known.summary").read_text(encoding="ascii").splitlines(), "the summary")


def case_gap_summary(vip_trace):
    """Lost lines may have ended any call or descriptor."""
    post = "%d.000000000 7 = VipPostRecv VIP_SUCCESS 100 vi=0x2 desc=0x%x0 mem=0x1 segs=0 bytes=0"
    done = "%d.000000000 7 = VipRecvDone VIP_SUCCESS 100 vi=0x2 desc=0x%x0 status=0x1 bytes=0"
    waits = "%d.000000000 %d > VipRecvWait - - vi=0x2 timeout=infinite"
    told = summary_of(vip_trace, "# vipl-trace 1 library=0 pid=1", post % (1, 1), post % (1, 2),
                      waits % (1, 7), waits % (1, 8), "", "# lost=5 lines", done % (10, 4),
                      post % (12, 6), done % (13, 6), post % (14, 4), "# lost=0 lines",
                      waits % (15, 7))
    assert "\n5 lines were lost, " in told
    unfinished = told.split("Begun and not returned")[1].split("never done")[0]
    lines = [line.split()[:3] for line in unfinished.splitlines()[2:4]]
    assert lines == [["0.000000", "8", "VipRecvWait"], ["14.000000", "7", "VipRecvWait"]], lines
    told = summary_of(vip_trace, "# vipl-trace 1 library=0 pid=1", post % (1, 1), "# lost=5 lines",
                      post % (2, 3))
    assert [line.split()[4] for line in told.split("never done")[1].splitlines()[2:]] == ["0x30"]


def case_damaged_summary(vip_trace):
    """A line that is damaged is counted and not used. A trace of remarks has a summary, too."""
    lines = (HERE / "known.trace").read_text(encoding="ascii").splitlines()
    post = "100.300000000 4711 = VipPostSend VIP_SUCCESS 10"
    for damaged in ("# lost=", "# lost=1 line", "# lost=1x lines", post + " vi=0x ...",
                    "# nic=0x10000", "# nic=0x1 device=", post[:30], post + "0" * 19 + " vi=0x1", post + " polls=",
                    post + " empty=1x", "1" * 5000 + post[3:] + " vi=0x1", post + " status=0x"):
        told = summary_of(vip_trace, lines[0], lines[3], damaged, files=2)
        assert told.count("\n1 lines of 1 threads in ") == 2, damaged
        assert told.count("\n1 lines could not be read\n") == 2, damaged
    told = summary_of(vip_trace, "# vipl-trace 1 library=0 pid=1 part=" + "9" * 5000, "# a remark")
    assert "a remark" in told.splitlines()


def case_no_summary(vip_trace):
    """Files that are no trace, or have another format, are refused with a message."""
    with tempfile.TemporaryDirectory() as scratch:
        other = os.path.join(scratch, "other")
        pathlib.Path(other).write_text("# vipl-trace 2 library=9\n", encoding="ascii")
        for path, reason in ((HERE / "check.py", "no trace of libvipl"), (other, "format 2"),
                             (os.path.join(scratch, "none"), "No such file")):
            done = subprocess.run([vip_trace, path], text=True, capture_output=True)
            assert done.returncode == 1 and not done.stdout, done.stdout
            assert done.stderr.startswith("vip_trace: %s: " % path) and reason in done.stderr
    assert subprocess.run([vip_trace], capture_output=True).returncode == 2


if len(sys.argv) < 3 or "case_" + sys.argv[1] not in globals():
    sys.exit(__doc__)
globals()["case_" + sys.argv[1]](*sys.argv[2:])
