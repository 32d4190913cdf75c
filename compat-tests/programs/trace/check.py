#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests of VIPL_TRACE and vip_trace.

usage: check.py CASE PROGRAM VIPL_H       what the trace of a program has in it
       check.py conformance VIP_CONFORMANCE VIP_TRACE
       check.py entries DIRECTORY VIPL_H  each function has its line, in these sources
       check.py summary|cut_summary|damaged_summary|callless_summary|no_summary VIP_TRACE
                DIRECTORY

VIPL_TEST_UNDER: a command that runs the program.
"""

import difflib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

LINE = re.compile(r"(\d+\.\d{9}) (\d+) ([>={}~]) (\w+) (\w+|-) (\d+|-)((?: \w+=[\x21-\x7e]*)*)$")
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


class Trace:
    def __init__(self, path):
        with open(path, encoding="ascii") as file:
            text = file.read()
        assert text.endswith("\n") and "\0" not in text
        lines = [line for line in text.split("\n") if line]
        self.remarks = [line for line in lines if line.startswith("#")]
        self.lines = []
        for line in lines:
            if not line.startswith("#"):
                match = LINE.match(line)
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

    def count(self, function, event="="):
        return len([line for line in self.lines if line[2] == event and line[3] == function])


class Run:
    """One run of the program. `name` is the value of VIPL_TRACE, in a directory of the test."""

    def __init__(self, program, what, name="trace", under=(), **environment):
        self.scratch = tempfile.TemporaryDirectory(prefix="vipl-trace.")
        self.directory = self.scratch.name
        self.path = os.path.join(self.directory, name)
        hosts = os.path.join(self.directory, "hosts")
        with open(hosts, "w", encoding="ascii") as file:
            file.write("localhost 127.0.0.1\n")
        environment = dict(os.environ, VIPL_TRACE=self.path, VIPL_HOSTS=hosts, **environment)
        under = [*under, *os.environ.get("VIPL_TEST_UNDER", "").split()]
        self.process = subprocess.Popen(under + [program, what], env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self.pid = self.process.pid

    def end(self, status=0):
        self.out, self.err = self.process.communicate()
        print(self.out, self.err)
        assert self.process.returncode == status, self.process.returncode
        self.names = dict(line.split() for line in self.out.splitlines())
        return self

    def warnings(self):
        return [line for line in self.err.splitlines() if line.startswith("vipl: ")]

    def files(self):
        return sorted(name for name in os.listdir(self.directory) if name != "hosts")


def functions(header):
    with open(header, encoding="ascii") as file:
        text = re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S)
    return re.findall(r"\b(Vip\w+)\s*\(", text)


def same(found, expected, what):
    difference = list(difflib.unified_diff(expected, found, "expected", "found", lineterm=""))
    assert not difference, what + ":\n" + "\n".join(difference)


def expected_lines(name):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name)) as file:
        return file.read().splitlines()


@case
def calls(program, header):
    """The trace has every function and every handler, with arguments and results, in order, by
    thread."""
    run = Run(program, "calls").end()
    trace = Trace(run.path)
    found = []
    for thread in trace.threads:
        for _, _, event, function, result, _, values in trace.of_thread(thread):
            for name, value in run.names.items():
                values = re.sub(r"=%s( |$)" % value, r"=%s\1" % name, values)
            values = re.sub(r"\b(desc=)0x\w{6,}( mem=\w+)$", r"\1MISALIGNED\2", values)
            values = re.sub(r"\b(desc=)0x\w{6,}( op=0x0 error=)", r"\1MISALIGNED\2", values)
            values = values.replace("\\x20%d" % run.pid, "\\x20PID")
            found.append("%s %s %s%s" % (event, function, result, values))
        found.append("")
    same(found, expected_lines("calls.expected"), "the lines of each thread")
    for function in functions(header):
        assert trace.count(function), "%s is not traced" % function
    for function in ("VipErrorCallback", "VipSendNotify", "VipRecvNotify", "VipCQNotify"):
        assert trace.count(function, "{") == trace.count(function, "}") > 0, function
    assert trace.threads[0] == trace.header["pid"] == str(run.pid)
    assert trace.header["program"] == os.path.realpath(program)
    assert trace.header["bits"] in ("32", "64") and trace.header["library"]
    assert trace.remarks[1:] == ["# nic=%s device=via_lo address=127.0.0.1" % run.names["NIC"]]
    assert not run.warnings()


@case
def polls(program, _):
    """Polls are counted. The queue's next line has the count, and so has a line at each million and
    at the end."""
    run = Run(program, "polls").end()
    trace = Trace(run.path)
    vi, cq = run.names["VI"], run.names["CQ"]
    assert trace.count("VipRecvDone") == trace.count("VipCQDone") == 0
    assert trace.count("VipSendDone") == 1
    told = [(line[2], line[3], line[6]) for line in trace.lines
            if "polls=" in line[6] or "empty=" in line[6]]
    assert told == [
        ("~", "VipRecvDone", " vi=%s polls=1000000" % vi),
        (">", "VipRecvWait", " vi=%s timeout=0 polls=5" % vi),
        ("=", "VipPostSend", told[2][2]),
        ("~", "VipCQDone", " cq=%s polls=7" % cq),
    ], told
    assert told[2][2].startswith(" vi=%s desc=" % vi) and told[2][2].endswith(" empty=3")


@case
def threads(program, _):
    """Each thread writes all its calls, in order, and at its end also its counts."""
    run = Run(program, "threads").end()
    trace = Trace(run.path)
    assert len(trace.threads) in range(5, 10)  # a thread's number may be used again
    assert trace.count("VipPostSend") == trace.count("VipSendDone") == 8 * 1500
    assert len([line for line in trace.lines if line[6].endswith(" polls=11")]) == 8
    for thread in trace.threads[1:]:
        queues = {line[6].split()[0] for line in trace.of_thread(thread)
                  if line[3] == "VipPostSend"}
        assert len(queues) <= 2
    assert 8 * 3 * 1500 * 60 < os.path.getsize(run.path) < 8 * 3 * 1500 * 200


def check_fork(run, parents, childs):
    assert run.files() == [parents, childs]
    parent, child = (Trace(os.path.join(run.directory, name)) for name in (parents, childs))
    assert parent.header["pid"] == str(run.pid) and child.header["pid"] == run.names["CHILD"]
    assert child.header["parent"] == str(run.pid)
    assert parent.threads == [str(run.pid)] and child.threads == [run.names["CHILD"]]
    assert parent.count("VipPostSend") == 1001 and parent.count("VipQueryNic") == 0
    assert child.count("VipPostSend") == 1000 and child.count("VipQueryNic") == 1
    assert child.lines[0][3:5] == ("VipQueryNic", "VIP_INVALID_PARAMETER")
    assert not run.warnings()


@case
def forks(program, _):
    """A child has a file of its own, with its process number in the name."""
    run = Run(program, "forks").end()
    check_fork(run, "trace", "trace." + run.names["CHILD"])


@case
def forks_with_pattern(program, _):
    run = Run(program, "forks", "%p.trace").end()
    check_fork(run, "%d.trace" % run.pid, run.names["CHILD"] + ".trace")


@case
def crashes(program, _):
    """The trace is complete up to the crash."""
    run = Run(program, "crashes")
    run.end(run.process.wait())
    assert run.process.returncode != 0
    trace = Trace(run.path)
    assert trace.count("VipPostSend") == trace.count("VipSendDone") == 1000
    assert trace.lines[-1][3] == "VipSendDone"


@case
def underscore_exit(program, _):
    run = Run(program, "underscore_exit").end()
    trace = Trace(run.path)
    assert trace.count("VipPostSend") == trace.count("VipSendDone") == 1000


def check_stopped(run, reason, least, most, told=True):
    trace = Trace(run.path)
    assert least < trace.count("VipPostSend") < most, trace.count("VipPostSend")
    if told:
        assert trace.remarks[-1] == "# the trace ends here: " + reason, trace.remarks
    assert run.warnings() == ["vipl: warning: VIPL_TRACE: the trace ends here: " + reason]


@case
def full(program, _):
    """The program goes on, and the trace keeps what was written. The last line gives the reason for
    its end."""
    check_stopped(Run(program, "full").end(), "No space left on device", 600, 1999)


@case
def limited(program, _):
    """A limit on the size of files ends the trace, but not the program."""
    run = Run(program, "limited").end()
    check_stopped(run, "File too large", 300, 1999)
    assert os.path.getsize(run.path) <= 150000


@case
def closes(program, _):
    """A program's file that has got the descriptor number of the trace is not written to."""
    run = Run(program, "closes").end()
    if "VIPL_TEST_UNDER" in os.environ:  # in this case each line needs the descriptor
        check_stopped(run, "Bad file descriptor", -1, 1, told=False)
    else:
        check_stopped(run, "Bad file descriptor", 100, 1999)


@case
def standard_closed(program, _):
    """What a program writes to a standard output or error that it does not have is not in the
    trace."""
    closing = ("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh")
    run = Run(program, "standard_closed", under=closing).end()
    trace = Trace(run.path)
    assert trace.count("VipPostSend") == trace.count("VipSendDone") == 1000


@case
def overflows(program, _):
    """A trace at its limit keeps the beginning and each thread's last lines without a gap, and says
    so."""
    run = Run(program, "overflows", VIPL_TRACE_MIB="1").end(-signal.SIGKILL)
    assert os.path.getsize(run.path) == 1 << 20
    trace = Trace(run.path)
    assert trace.count("VipOpenNic") == 1 and len(trace.remarks[1:]) > 10
    cuts = []
    for remark in trace.remarks[2:]:
        cut = re.fullmatch(r"# cut=(\d+) kept=65536", remark)
        assert cut, remark
        cuts.append(int(cut[1]))
    assert len(set(cuts)) == len(cuts) and all(cut % 65536 == 0 for cut in cuts), cuts
    assert trace.count("VipDestroyVi") == 1, "the line of the one that sleeps"
    numbers, done = {}, set()
    for line in sorted(trace.lines, key=lambda line: [int(part) for part in line[0].split(".")]):
        values = dict(word.split("=") for word in line[6].split()) if len(line) > 6 else {}
        if line[2:4] == ("=", "VipPostSend"):
            numbers.setdefault(values["vi"], []).append(int(values["imm"], 16))
        elif line[2:4] == ("=", "VipSendDone"):
            done.add(values["vi"])
    assert len(done) == 3, "the last line of each thread: %s" % done
    for vi, posted in numbers.items():
        gaps = [n for n, after in zip(posted, posted[1:] + [10000]) if after != n + 1]
        assert not gaps, (vi, gaps)
    # There is room for about 3100 lines. Any part of each thread's last block may be empty.
    total = sum(len(posted) for posted in numbers.values())
    assert 2000 < total < 15000, total


@case
def crowded(program, _):
    """Where threads have all blocks, the trace ends and says that this is the reason."""
    run = Run(program, "crowded", VIPL_TRACE_MIB="1").end()
    check_stopped(run, "more threads write than VIPL_TRACE_MIB has room for", 100, 1999)


@case
def unmaps(program, _):
    """Memory that is unmapped while it is registered is reported once for each registration."""
    run = Run(program, "unmaps").end()
    names, remarks = run.names, Trace(run.path).remarks[2:]
    if names["AVAILABLE"] == "0":
        assert len(remarks) == 1 and "registered memory is not seen: " in remarks[0]
        return
    told = dict(re.fullmatch(r"# unmapped=(\w+) bytes=(?:8192|16384) mem=(\w+) time=\d+\.\d{9}",
                             remark).groups()[::-1] for remark in remarks)
    assert len(remarks) == len(told) == 4, remarks
    assert set(told) == {names[name] for name in ("OF_PART", "TWICE", "AGAIN", "DROPPED")}
    assert int(told[names["OF_PART"]], 16) == int(names["PART"], 16) + 8192


@case
def unwritable(program, _):
    run = Run(program, "posts", "no/such/directory").end()
    assert run.files() == []
    assert run.warnings() == ["vipl: warning: VIPL_TRACE: no trace is written: %s: "
                              "No such file or directory" % run.path]


@case
def not_a_file(program, _):
    for name in "/dev/null", "/dev/stderr":
        run = Run(program, "posts", name).end()
        assert run.warnings() == ["vipl: warning: VIPL_TRACE: no trace is written: %s: "
                                  "not a regular file" % run.path]


@case
def same_file(program, _):
    """When two processes have one name, the second writes to another file, and the first's file
    stays whole."""
    first = Run(program, "holds")
    assert first.process.stdout.readline() == "OPEN 1\n"
    second = Run(program, "posts", first.path).end()
    other = "%s.%d" % (first.path, second.pid)
    first.end()
    assert second.warnings() == ["vipl: warning: VIPL_TRACE: another process is writing %s, "
                                 "this one writes %s" % (first.path, other)]
    assert Trace(first.path).header["pid"] == str(first.pid)
    assert Trace(first.path).count("VipPostSend") == 1
    assert Trace(other).count("VipPostSend") == 1000


@case
def conformance(suite, vip_trace):
    """Each line of any call is well-formed, and vip_trace can read it.

    The suites do not depend on time, because tracing takes time when the disk is busy.
    """
    suites = "Handle Arguments Bounds AnyCall Descriptor DescriptorError Spoilt Giganet Fork"
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


def bodies(directory, pattern):
    """Returns the bodies of the functions that are defined in these files, by their names."""
    found = {}
    for path in sorted(pathlib.Path(directory).glob(pattern)):
        text = path.read_text(encoding="ascii")
        definitions = re.findall(r"^\w[\w *]*?\b(\w+)\([^;{]*\)\n\{(.*?)^\}", text, flags=re.M | re.S)
        found.update(definitions)
    return found


@case
def entries(directory, header):
    """Each function of vipl.h jumps to its plain and its traced function, and the traced one writes
    a line of that name."""
    names = functions(header)
    entry, traced = bodies(directory, "entry.c"), bodies(directory, "traced_*.c")
    same(list(entry), names, "the functions of entry.c and of vipl.h")
    for name in names:
        called = set(re.findall(r"\b(\w*Vip\w+)\(", entry[name]))
        assert called == {"traced_" + name, "P" + name}, (name, called)
        body = traced["traced_" + name]
        assert re.findall(r'trace_begin\(&line, "(\w+)"\)', body) == [name], name
        assert set(re.findall(r"\b(\w*Vip\w+)\(", body)) == {"P" + name}, name


@case
def summary(vip_trace, directory):
    """Checks the exact summary of a trace that has every kind of line."""
    known = os.path.join(directory, "known.trace")
    done = subprocess.run([vip_trace, "--long=0.5", known], text=True, capture_output=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    same(done.stdout.splitlines(), expected_lines("known.summary"), "the summary")


def block(*lines):
    return "".join(line + "\n" for line in lines).ljust(65536, "\n")


@case
def cut_summary(vip_trace, _):
    """Overwritten lines may have ended any call or descriptor. Blocks are read in the order of
    time."""
    post = "%d.000000000 %d = VipPostRecv VIP_SUCCESS 100 vi=0x2 desc=0x%x0 mem=0x1 segs=0 bytes=0"
    done = "%d.000000000 %d = VipRecvDone VIP_SUCCESS 100 vi=0x2 desc=0x%x0 status=0x1 bytes=0"
    waits = "%d.000000000 %d > VipRecvWait - - vi=0x2 timeout=infinite"
    returns = "%d.000000000 %d = VipRecvWait VIP_SUCCESS 1000000000 vi=0x2 desc=0x%x0 status=0x1"
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "trace")
        with open(path, "w", encoding="ascii") as file:
            file.write(block("# vipl-trace 1 library=0 pid=1 bits=64 host=h date=d program=p",
                             post % (1, 7, 1), post % (1, 7, 2), waits % (1, 7), waits % (1, 8)))
            # Descriptor 2 was posted and taken in the gap, 3 only taken, 4 taken and posted again.
            file.write(block("# cut=131072 kept=65536", done % (13, 7, 6), post % (14, 7, 4)))
            file.write(block(waits % (15, 7)))
            file.write(block("# cut=65536 kept=65536", done % (10, 7, 3), done % (10, 7, 4),
                             waits % (10, 7), returns % (11, 7, 5), post % (12, 7, 6)))
        done = subprocess.run([vip_trace, path], text=True, capture_output=True)
    print(done.stdout, done.stderr)
    assert done.returncode == 0 and not done.stderr
    assert "after its beginning, 131072 bytes of lines are missing" in done.stdout
    unfinished, never_done = done.stdout.split("Begun and not returned")[1].split("never done")
    lines = [line.split()[:3] for line in unfinished.splitlines()[2:4]]
    assert lines == [["0.000000", "8", "VipRecvWait"], ["14.000000", "7", "VipRecvWait"]], lines
    assert [line.split()[4] for line in never_done.splitlines()[2:]] == ["0x40"], never_done


@case
def damaged_summary(vip_trace, directory):
    """A line that is damaged is counted and not used, and files after it are read."""
    known = pathlib.Path(directory, "known.trace").read_text(encoding="ascii")
    header, call = known.splitlines()[0], known.splitlines()[3]
    unmapped = "# unmapped=0x7f0000001000 bytes=8192 mem=0x8000 time=101.500000000"
    post = "100.300000000 4711 = VipPostSend VIP_SUCCESS 10"
    for damaged in ("# cut=", "# cut=12", "# cut=1 kept=", "# unmapped=0x7f12345", unmapped[:-1],
                    unmapped[:-10], "# nic=0x10000", "# nic=0x1 device=", post[:30],
                    post + "0" * 19 + " vi=0x1", post + " polls=", post + " empty=1x",
                    "1" * 5000 + post[3:] + " vi=0x1", post + " status=0x"):
        with tempfile.TemporaryDirectory() as scratch:
            path = os.path.join(scratch, "trace")
            with open(path, "w", encoding="ascii") as file:
                file.write("\n".join((header, call, damaged, "")))
            done = subprocess.run([vip_trace, path, path], text=True, capture_output=True)
        assert done.returncode == 0 and not done.stderr, (damaged, done.stderr)
        assert done.stdout.count("\n1 lines of 1 threads in ") == 2, (damaged, done.stdout)
        assert done.stdout.count("\n1 lines could not be read\n") == 2, (damaged, done.stdout)


@case
def callless_summary(vip_trace, _):
    """A trace of remarks without a call has a summary, also with a gap where none can be."""
    unmapped = "# unmapped=0x7000 bytes=8192 mem=0x8000 time=101.500000000"
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "trace")
        for kept in "65536", "9" * 19, "9" * 5000:
            with open(path, "w", encoding="ascii") as file:
                file.write(block("# vipl-trace 1 library=0 pid=1", unmapped))
                file.write(block("# cut=131072 kept=" + kept))
            done = subprocess.run([vip_trace, path], text=True, capture_output=True)
            assert done.returncode == 0 and not done.stderr, (kept, done.stderr)
            assert ["-", "0x8000", "0x7000", "8192"] in map(str.split, done.stdout.splitlines())


@case
def no_summary(vip_trace, directory):
    """Files that are no trace, or have another format, are refused with a message."""
    with tempfile.TemporaryDirectory() as scratch:
        other = os.path.join(scratch, "other")
        with open(other, "w", encoding="ascii") as file:
            file.write("# vipl-trace 2 library=9\n")
        for path, reason in ((os.path.join(directory, "check.py"), "no trace of libvipl"),
                             (other, "format 2"),
                             (os.path.join(scratch, "none"), "No such file")):
            done = subprocess.run([vip_trace, path], text=True, capture_output=True)
            assert done.returncode == 1 and not done.stdout, done.stdout
            assert done.stderr.startswith("vip_trace: %s: " % path) and reason in done.stderr
    assert subprocess.run([vip_trace], capture_output=True).returncode == 2


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in CASES:
        sys.exit(__doc__)
    CASES[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
