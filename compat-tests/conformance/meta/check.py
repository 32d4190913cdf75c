#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests of the conformance suite itself: its results for faulty libraries and NICs.

usage: check.py CASE VIP_CONFORMANCE [LIBRARY or NIC]
"""

import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


class Run:
    """One run of the suite, with its exit status and its summary."""

    def __init__(self, *command):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.status, self.output = done.returncode, done.stdout
        print(self.output)

    def row(self, title):
        """Returns the numbers in a line of the summary."""
        match = re.search(r"^%s +([\d ]+)$" % re.escape(title), self.output, re.M)
        assert match, "no line %r" % title
        names = ["tests", "passed", "failed", "skipped", "not exported", "not run"]
        return dict(zip(names, map(int, match.group(1).split())))

    def tests(self, outcome):
        return re.findall(r"^%s (\S+\.\S+)$" % outcome, self.output, re.M)


@case
def nothing_exported(suite, library):
    """Every test says that its functions are missing. None crashes, hangs, or passes."""
    run = Run(suite, "--library=" + library, "--nic=half")
    full = run.row("full")
    assert run.status == 1
    assert full["tests"] == full["not exported"] > 300
    assert "VipOpenNic is not exported by " in run.output
    assert "shown in this run: no level" in run.output


@case
def half_exported(suite, library):
    """The suite tests the functions that exist and reports the missing ones. The XML has both."""
    with tempfile.NamedTemporaryFile(suffix=".xml") as junit:
        run = Run(suite, "--library=" + library, "--nic=half", "--junit=" + junit.name)
        cases = xml.parse(junit.name).getroot().findall("testsuite/testcase")
    full = run.row("full")
    assert run.status == 1
    assert full["not exported"] > full["failed"] > full["passed"] > 0
    assert full["not run"] == 0 and not run.tests("crashed")
    assert "NicHandle.UnknownNameIsInvalid" not in run.tests("not exported")
    assert run.row("VipOpenNic")["passed"] > 0
    assert run.row("VipPostSend")["not exported"] == run.row("VipPostSend")["tests"]
    additions = run.row("additions")
    assert len(cases) == full["tests"] + additions["tests"]
    missing = [c for c in cases if c.find("failure[@type='not exported']") is not None]
    assert len(missing) == full["not exported"] + additions["not exported"]


@case
def crash(suite, library):
    """A crash is the failure of one test. The tests after it run, and the summary has the tests before
    it."""
    crashing = "Bounds.RegionOfNoLengthOrBeyondTheNicsLimitIsInvalid"
    tests = "NicHandle.UnknownNameIsInvalid:Bounds.MemoryThatIsNotThereCannotBeRegistered:" + crashing
    command = [suite, "--library=" + library, "--nic=half", "--gtest_filter=" + tests]
    run = Run(*command)
    full = run.row("full")
    assert run.status == 1
    assert run.tests("crashed") == [crashing]
    assert full["tests"] - full["not run"] == 3 and run.row("VipOpenNic")["passed"] == 1
    first = Run(*command, "--gtest_fail_fast")
    full = first.row("full")
    assert first.status == 1
    assert full["failed"] == 1 and full["tests"] - full["not run"] == 2


@case
def unknown(suite):
    """A NIC, a library or a peer that is not there is reported once, and no test runs."""
    for options, said in (
        (["--nic=no such nic"], 'VipOpenNic("no such nic") answers VIP_INVALID_PARAMETER'),
        (["--library=/nowhere/libvipl.so"], "vip_conformance: /nowhere/libvipl.so: "),
        (["--nic=via_lo", "--peer=localhost:1"], "vip_conformance: nobody serves at localhost, port 1"),
        (["--library="], "usage: vip_conformance"),
        (["--nic=via_lo", "--peer="], "usage: vip_conformance"),
    ):
        run = Run(suite, *options)
        assert run.status == 2
        assert said in run.output and "[ RUN" not in run.output


@case
def no_test(suite):
    """A filter that leaves no test is a failure, not a pass."""
    run = Run(suite, "--nic=via_lo", "--gtest_filter=NoSuch.*")
    assert run.status == 1
    assert "no test has such a name" in run.output


@case
def levels(suite):
    """Each level has more tests than the level before, and only tests up to the level run."""
    ran = []
    for level, title in (("early", "early adopter"), ("functional", "functional")):
        run = Run(suite, "--nic=via_lo", "--level=" + level, "--gtest_filter=Transfer.*:RdmaRead.By*")
        row = run.row(title)
        assert run.status == 0
        assert run.row("full")["passed"] == row["passed"] == row["tests"] - row["not run"]
        assert "RdmaRead.ByAVi" not in run.output
        ran.append(row["passed"])
    assert 0 < ran[0] < ran[1]


@case
def two_hosts(suite, nic):
    """A server plays the second process of a test, and the summary says so."""
    server = subprocess.Popen(
        [suite, "--nic=" + nic, "--serve=0"], stdout=subprocess.PIPE, text=True
    )
    try:
        port = server.stdout.readline().split()[-1]  # the server listens now
        tests = "--gtest_filter=PeerLoss.*:*Process*:RdmaRead.NeedsNoCall*"
        run = Run(suite, "--nic=" + nic, "--peer=localhost:" + port, tests)
    finally:
        server.kill()
        server.wait()
    full = run.row("full")
    assert run.status == 0
    hosts = r"^(\d+) tests had their peer on localhost:%s. The other (\d+) " % port
    match = re.search(hosts, run.output, re.M)
    assert match and int(match.group(1)) >= 12 and int(match.group(2)) >= 1
    assert int(match.group(1)) + int(match.group(2)) == full["passed"]


if __name__ == "__main__":
    CASES[sys.argv[1]](*sys.argv[2:])
