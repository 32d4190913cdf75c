# SPDX-License-Identifier: BSD-2-Clause
"""The steps of a check: each runs a program, and says what came of it, and, if it failed, what that means."""

import json
import re
import xml.etree.ElementTree

import adapters
import facts
import running
import strangers

OK, FAILED, NOT_RUN, NO_NIC = "ok", "FAILED", "NOT RUN", "NO NIC"
TO_DO = "what to do"
# Suites that show in a short time that everything is there: --quick.
QUICK = "Memory Names Transfer RdmaWrite DescriptorError".split()
QUICK_OF_TWO = "Transfer PeerLoss".split()
QUICK_LEGACY = "Opening Queues".split()
QUICK_LEGACY_OF_TWO = ["Ending"]
MOST_NAMED = 8  # tests of those that failed, or NICs
# Seconds, for busy machines that emulate others, too: each test of vip_conformance and of vip_legacy has a limit of its own.
CONFORMANCE_LIMIT, LEGACY_LIMIT, LIMIT = 3600, 1800, 600
TOO_LONG = "took too long"  # vip_conformance's word
VERY_SLOW = "It hangs, or the machine is very slow: %s says where."
MEANINGS = {
    "early adopter": "Even simple VIA programs cannot be relied on with this NIC.",
    "functional": "Simple programs work; those that use what the failed tests are about cannot be relied on.",
    "full": "Usual programs work; those that use what the failed tests are about (RDMA read, Reliable Reception, resizing "
            "of completion queues and the like) cannot be relied on.",
    "additions": "Programs that do only what VIA describes work; the failed tests are about other things."}


class Step:
    """name: of its file of output; title: for people. `said` is a line, `means` what a failure means for the user. Whether it
    `decides`: later steps would only fail, too."""

    decides = False

    def __init__(self, name, title, means):
        self.name, self.title, self.means = name, title, means
        self.status, self.said, self.seconds, self.figures = NOT_RUN, "an earlier step failed", 0, {}

    def failed(self, said, means=None):
        self.status, self.said, self.means = FAILED, said, means or self.means

    def passed(self, said):
        self.status, self.said = OK, said

    def cannot_run(self, why):
        self.status, self.said = NOT_RUN, why

    def as_json(self):
        said = {"name": self.name, "title": self.title, "status": self.status, "seconds": round(self.seconds, 1),
                "said": self.said, "figures": self.figures}
        return said if self.status == OK else {**said, "means": self.means}


class ProgramStep(Step):
    """A step that is a program with these arguments."""

    environment = {}

    def __init__(self, name, title, means, limit, program, *arguments):
        super().__init__(name, title, means)
        self.limit, self.program, self.arguments = limit, program, arguments

    def run(self, check):
        path = running.find(self.program, check.programs)
        if not path:
            return self.cannot_run("%s is not installed" % self.program)
        output = check.file(self.name + ".txt")
        check.note(output, "$ %s %s\n" % (self.program, strangers.printable(" ".join(self.arguments))))
        status = running.run([path, *self.arguments], output, self.limit, self.environment,
                             lambda seconds: check.still(self, seconds))
        text = output.read_text(encoding="utf-8", errors="backslashreplace")
        if status == running.STUCK:
            self.failed("was killed, and does not end: it waits for the kernel, or for the driver",
                        "The driver hangs. The machine may have to be restarted; its kernel log says more.")
        elif status == running.OVER:
            self.failed("took longer than %d seconds, and was ended: %s" % (self.limit, last_line(text)),
                        VERY_SLOW % output.name)
        else:
            self.judge(check, status, text)
        return None

    def judge(self, check, status, text):
        if status == 0:
            self.passed("succeeded")
        else:
            self.failed(ending(status) + ": " + last_line(text))


def ending(status):
    return "was killed by signal %d" % -status if status < 0 else "exit status %d" % status


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:300] if len(lines) > 1 else "it said nothing"


class Nic(ProgramStep):
    """Whether the library opens the NIC, and what it makes of it, which its log says, too."""

    environment = {"VIPL_LOG": "info,plain"}
    LIMIT = 120  # seconds

    def __init__(self, nic):
        super().__init__("nic", "the library opens the NIC", "No VIA program can use this NIC.", self.LIMIT, "vip_info",
                         "--nic=" + nic, "--json")
        self.nic = nic

    def run(self, check):
        super().run(check)
        if self.status == OK:
            self.look_at_host(check, running.find(self.program, check.programs))

    def look_at_host(self, check, path):
        """Adds the problems of the machine, of which vip_info --nic says nothing when the NIC opens. Where the limit on memory is
        low, tests would fail for no fault of the NIC's."""
        output = check.file("problems.txt")
        running.run([path, "--problems", "--json"], output, self.LIMIT)
        found = json_in(output.read_text(encoding="utf-8", errors="backslashreplace")).get("problems", [])
        found = [one for one in found if one["about"] in ("memory", "network")]
        self.said += "".join("; but " + one["problem"] for one in found)
        self.figures["problems"] = found
        memory = [one for one in found if one["about"] == "memory"]
        if memory:
            self.status, self.said = NO_NIC, memory[0]["problem"]
            self.figures[TO_DO] = memory[0]["remedy"].splitlines()

    def judge(self, check, status, text):
        self.figures = json_in(text)
        missing = [one["problem"] for one in self.figures.get("problems", [])]
        nics = self.figures.get("nics") or []
        complaint = re.search("^vip_info: (.*)", text, re.M)
        said = "; ".join([complaint[1] if complaint else ending(status), *missing])
        if status == 0 and nics and nics[0]["Name"] != "via_lo":
            check.device = nics[0]["Name"]
            levels = ", ".join(nics[0].get("ReliabilityLevelSupport", []))
            self.passed("%s at %s; %s" % (check.device, nics[0].get("host"), levels))
        elif status == 0 and nics:
            self.lacks_nic("%s is the loopback NIC, and no adapter" % self.nic)
        elif status == 1 and (re.search(r": VIP_INVALID_PARAMETER \(.*\)$", said.split(";")[0]) or self.is_unusable()):
            self.lacks_nic(said)
        else:
            self.failed(said)

    def is_unusable(self):
        """Whether vip_info knows why all that the name may mean cannot be used as things are."""
        candidates = self.figures.get("candidates", [])
        head = re.split("[:@]", self.nic)[0]
        named = [one for one in candidates if head in (one["device"], one["interface"])] or candidates
        return bool(named) and not any(one["usable"] for one in named)

    def lacks_nic(self, said):
        """There is nothing to check. What can one do?"""
        self.status, self.said = NO_NIC, said
        candidates = self.figures.get("candidates", [])
        if not candidates:
            self.said = "no RDMA adapter was found"
            self.figures[TO_DO] = list(adapters.advice(adapters.find()))
            return
        to_do = ["Use --nic=%(device)s:%(port)s, or --nic=%(device)s@%(address)s" % one
                 for one in candidates if one["usable"]][:MOST_NAMED]
        for one in self.figures.get("problems", []):
            to_do += [one["problem"] + ":", *("    " + line for line in one["remedy"].splitlines())]
        self.figures[TO_DO] = to_do


def json_in(text):
    """Returns the object in the output, which may have other lines before and after."""
    begin = text.find("{\n")
    try:
        return strangers.cleaned(json.JSONDecoder().raw_decode(text[begin:])[0]) if begin >= 0 else {}
    except (ValueError, RecursionError):
        return {}


class Tests(ProgramStep):
    """vip_conformance or vip_legacy, here or with second processes on the other host."""

    def __init__(self, name, title, means, limit, program, check, suites, peer=None):
        self.junit, self.peer = check.file(name + ".xml"), peer
        self.left_out = check.left_out if program == "vip_conformance" else []
        left_out = "-" + ":".join(self.left_out) if self.left_out else ""
        wanted = ":".join("%s.*:*/%s.*" % (suite, suite) for suite in suites) or ("*" if left_out else "")
        arguments = ["--nic=" + check.nic, "--junit=%s" % self.junit]
        arguments += ["--gtest_filter=" + wanted + left_out] * bool(wanted)
        arguments += ["--peer=%s:%d" % peer] if peer else []
        super().__init__(name, title, means, limit, program, *arguments)

    def judge(self, check, status, text):
        try:
            cases = list(xml.etree.ElementTree.parse(self.junit).iter("testcase"))
        except (OSError, xml.etree.ElementTree.ParseError):
            cases = []
        bad = ["%s.%s" % (case.get("classname"), case.get("name")) for case in cases if case.find("failure") is not None]
        skipped = sum(case.find("skipped") is not None for case in cases)
        two_hosts = re.search(r"(\d+) tests had their peer on ", text)
        self.figures = {"tests": len(cases), "failed": bad, "skipped": skipped, "left out": self.left_out,
                        "with the peer on the other host": int(two_hosts[1]) if two_hosts else 0}
        if bad:
            named = ", ".join(bad[:MOST_NAMED]) + ", ..." * (len(bad) > MOST_NAMED)
            late = sum(each.get("type") == TOO_LONG for case in cases for each in case.iter("failure"))
            said = "%d of %d tests failed" % (len(bad), len(cases)) + (", %d of them took too long" % late) * bool(late)
            self.failed("%s: %s" % (said, named), VERY_SLOW % (self.name + ".txt") if late == len(bad)
                        else level_of_failures(text) or self.means)
        elif status or not cases:
            self.failed(ending(status) + ": " + last_line(text))
        elif self.peer and not self.figures["with the peer on the other host"]:
            self.failed("no test had its peer on the other host")
        else:
            about = ["%d skipped: this NIC says that it lacks what they are about" % skipped] * bool(skipped)
            about += ["%d left out, which soft-RoCE is known not to do" % len(self.left_out)] * bool(self.left_out)
            about += ["%s with their peer on the other host" % two_hosts[1]] if two_hosts else []
            self.passed("; ".join(["%d tests passed" % (len(cases) - skipped), *about]))


def level_of_failures(text):
    """Returns what it means that the lowest level with failures is not reached."""
    for level in MEANINGS:
        counts = re.search(r"^%s +\d+ +\d+ +(\d+) +\d+ +(\d+) " % level, text, re.M)
        if counts and int(counts[1]) + int(counts[2]):
            return MEANINGS[level]
    return None


class Stress(ProgramStep):
    """vip_stress, which counts what it has done."""

    def judge(self, check, status, text):
        self.figures = {name.strip(): int(number) for name, number in re.findall(r"^(\w[\w ]*?) +(\d+)$", text, re.M)}
        super().judge(check, status, text)
        if self.status == OK:
            self.said = ", ".join("%d %s" % (number, name) for name, number in self.figures.items()) or "succeeded"


class Perf(ProgramStep):
    """A measurement of vip_perf, which prints JSON. No figure is too bad, but there has to be one."""

    def judge(self, check, status, text):
        if status:
            return self.failed(ending(status) + ": " + last_line(text))
        self.figures = json_in(text)
        said = list(self.sentences())
        return self.passed("; ".join(said)) if said else self.failed("vip_perf printed no figures")

    def sentences(self):
        for case, one in self.figures.items():
            if isinstance(one, dict) and "ratio" in one:
                unit = "us" if "raw_us" in one else "MBps"
                yield "%s %s %s, raw verbs %s (%.2f times)" % (
                    case, short(one["vipl_" + unit]), unit.replace("MBps", "MB/s"), short(one["raw_" + unit]), one["ratio"])
        for series in self.figures.get("series", []):
            for point in series["points"]:
                what = point.get("what") or "%s B" % point.get("bytes")
                if "parts" in series["name"] or what == "disconnection":
                    continue
                for key, unit in ("us_median", "us"), ("MBps", "MB/s"):
                    if key in point:
                        yield "%s, %s: %s %s" % (series["name"], what, short(point[key]), unit)


def short(number):
    return "%.0f" % number if number >= 1000 else "%.3g" % number


def plan(check):
    """Returns the steps on this host. Those with the other host follow."""
    quick, nic = check.quick, "--nic=" + check.nic
    pairs = ("--pairs=3", "--iterations=20") if quick else ("--pairs=15", "--iterations=1000")
    return [
        Tests("conformance", "vip_conformance: what VIA says", MEANINGS["functional"], CONFORMANCE_LIMIT, "vip_conformance",
              check, QUICK * quick),
        Tests("legacy", "vip_legacy: what programs rely on beyond VIA", "Some old programs will not run.", LEGACY_LIMIT,
              "vip_legacy", check, QUICK_LEGACY * quick),
        Stress("stress", "vip_stress: processes that send to each other, some of which are killed",
               "When a process dies, others may hang, lose messages, or not be told.", LIMIT, "vip_stress", nic,
               "--processes=%d" % (3 if quick else 8), "--seconds=%d" % (2 if quick else 20), "--bound=20000"),
        Perf("overhead", "8 B and 64 KiB beside raw verbs, in turns", "There are no figures of its speed.", LIMIT, "vip_perf",
             "overhead", nic, "--case=rc_send_8B,rc_stream_64KiB", *pairs, "--json"),
        Perf("connect", "connection time beside raw verbs, in turns", "There are no figures of its speed.", LIMIT, "vip_perf",
             "connect", "--self", nic, "--count=%d" % (2 if quick else 200), "--json")]


def plan_of_two(check, host, ports):
    means = "Programs on two hosts cannot be relied on, whatever works on one."
    perf = ["--nic=" + check.nic, "--port=%d" % ports["vip_perf"], "--json", host]
    one_size = ["--transfer=send", "--wait=poll", "--verbs", "--no-sockets", "--perturb=0",
                "--trials=%d" % (2 if check.quick else 5)]
    first = Perf("latency-2", "8 B to the other host, beside raw verbs, in turns", "No message comes through between the hosts. With "
                 "RoCE, UDP port 4791 of both has to be open, and in any case TCP ports 16384 to 32767.", LIMIT, "vip_perf",
                 "latency", *perf, *one_size, "--from=8", "--to=8")
    first.decides = True  # those that follow would wait for messages again and again
    return [
        first,
        Tests("conformance-2", "vip_conformance, second processes on the other host", means, CONFORMANCE_LIMIT,
              "vip_conformance", check, QUICK_OF_TWO * check.quick, (host, ports["vip_conformance"])),
        Tests("legacy-2", "vip_legacy, second processes on the other host", means, LEGACY_LIMIT, "vip_legacy", check,
              QUICK_LEGACY_OF_TWO * check.quick, (host, ports["vip_legacy"])),
        Perf("bandwidth-2", "bandwidth to the other host, beside raw verbs, in turns", means, LIMIT, "vip_perf", "bandwidth",
             *perf, *one_size, "--stream", "--from=64k", "--to=%s" % ("64k" if check.quick else "1M"), "--factor=16"),
        Perf("connect-2", "connection time to the other host, beside raw verbs, in turns", means, LIMIT, "vip_perf", "connect",
             *perf, "--count=%d" % (2 if check.quick else 200))]


def counters_grown(before):
    """Returns by how much the ports' counters of errors and repetitions have grown."""
    return {name: now - before.get(name, 0) for name, now in sorted(facts.error_counters().items())
            if now > before.get(name, 0)}
