# SPDX-License-Identifier: BSD-2-Clause
"""suite.py BUILD CASE...: tests between two hosts, as a scenario of tools/with-hosts.

BUILD is a directory of libvipl's. Each case is a function case_NAME(argument) below; a CASE is NAME, or
NAME=ARGUMENT. All cases run, and the exit status is 1 if one failed. host1 is the server, host2 the client.
"""

import contextlib
import json
import os
import re
import shutil
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "programs", "running"))
import page  # noqa: E402

HOSTS = hosts  # noqa: F821  with-hosts defines it
SERVER, CLIENT = HOSTS[1], HOSTS[2]
BUILD = sys.argv[1]
HANG = 600  # seconds: a busy machine may need minutes for an event, and only a hang takes longer than this
PINGPONG, VIP_PERF = "timeout %d %s/apps/vip_pingpong" % (HANG, BUILD), BUILD + "/apps/vip_perf"
CONFORMANCE = BUILD + "/compat-tests/conformance/vip_conformance --nic=nic0"
MPI = BUILD + "/compat-tests/legacy/mpi/vip_mpi"
FAULTS, PUPPET = BUILD + "/compat-tests/hosts/faults/vip_faults", BUILD + "/compat-tests/programs/puppet"

# Where both start at once, the server may begin to wait long after the request.
PATIENCE = {"VIPL_GRACE_MSEC": 120000}
LONG = {"VIPL_ADDRESS_BYTES": 16}
ALL_LEVELS = {"VIPL_TEST_LEVELS": 7}
TELLING = {"VIPL_LOG": "info"}
LEVELS = ("unreliable", "delivery", "reception")


class Failure(Exception):
    pass


def expect(is_so, what, *shown):
    if not is_so:
        raise Failure(": ".join([what, *map(str, shown)]))


def expect_done(job):
    job.wait(HANG)
    expect(job.ended, "it ends", job)
    expect(job.status == 0, "it succeeds", job, job.status, job.out[-2000:], job.err[-2000:])


def both(serves, calls, server_env=None, client_env=None, server=SERVER, client=CLIENT):
    """Starts two commands at once, expects success of both, and returns their outputs."""
    first = server.start(serves, env={**PATIENCE, **(server_env or {})})
    second = client.start(calls, env={**PATIENCE, **(client_env or {})})
    expect_done(second)
    expect_done(first)
    return first.out, second.out


@contextlib.contextmanager
def serving(command, ready, env=None, server=SERVER):
    """Runs a server, which does not end by itself, for the duration of the block."""
    job = server.start(command, env=env)
    try:
        expect(job.wait_for(ready, HANG), "it says that it is ready", job, job.err)
        yield
        expect(not job.ended, "the server lives on", job, job.status, job.err[-2000:])
    finally:
        job.signal("KILL")


# --- conformance ---------------------------------------------------------------------------------


def failed_tests(text):
    """Returns the output of the tests that failed."""
    tests = [part.partition("[       OK ]")[0] for part in text.split("[ RUN      ]")[1:]]
    return "".join(test for test in tests if "[  FAILED  ]" in test)


def conformance(tests, env, least):
    """tests: the value of --gtest_filter; least: the least number of tests with their peer on the other host."""
    with serving(CONFORMANCE + " --serve", "plays peers", env):
        job = CLIENT.run("%s --peer=%s --gtest_filter='%s'" % (CONFORMANCE, SERVER.name, tests), 6 * HANG, env=env,
                         show=False)
    expect(job.status == 0, "all pass", failed_tests(job.out) or job.out[-3000:], job.err[-2000:])
    expect("[  SKIPPED ]" not in job.out, "none is skipped", job.out[-3000:])
    words = job.out.split(" tests had their peer on ")[0].split()
    expect(int(words[-1]) >= least, "so many have their peer on the other host", words[-1], least)


def not_on_rxe():
    path = __file__.rsplit("/", 2)[0] + "/conformance/not_on_rxe.txt"
    with open(path, encoding="utf-8") as file:
        return "-" + ":".join(line.strip() for line in file if line[0].isalpha())


def case_conformance(which):
    """Runs all tests; or the suites with tests that have a peer on the other host; or those about host addresses, with
    addresses of 16 bytes."""
    suites, env, least = {
        "all": ("", {}, 22),
        "short": ("Connect ConnectTime PeerToPeer Levels PeerLoss Transfer Notify RdmaRead", {}, 10),
        "long": ("NicHandle Names Connect ConnectTime PeerToPeer PeerLoss Transfer", LONG, 10)}[which]
    tests = ":".join("%s.*:*/%s.*" % (suite, suite) for suite in suites.split()) or "*"
    conformance(tests + not_on_rxe(), {**ALL_LEVELS, **env}, least)


# --- vip_mpi -------------------------------------------------------------------------------------


def case_mpi(argument):
    """Runs so many ranks with these options, half of them on each host."""
    ranks, options = argument.split(" ", 1)
    command = "%s --nic nic0 -n %d --seed 1 --stall 60 %s" % (MPI, int(ranks) // 2, options)
    job = SERVER.start(command + " --first 7000", env=TELLING)
    other = CLIENT.start(command + " --second %s:7000" % SERVER.name, env=TELLING)
    expect_done(job)
    expect_done(other)
    lines = [line for line in job.out.splitlines() if "%s processes" % ranks in line and line.endswith("ok")]
    expect(len(lines) == 1, "rank 0 tells of its traffic", job.out)


# --- vip_perf ------------------------------------------------------------------------------------

# Options with which each measurement has little work, and those for all sizes. echo takes a second for each size.
FEW, ALL = "--trials 2 --trial-ms 5 --factor 16 ", "--trials 1 --trial-ms 5 "
AT_LEVELS = "--level unreliable,delivery,reception "
PERF = {
    "latency": (FEW + AT_LEVELS + "--perturb 0 --wait poll,block", ALL + AT_LEVELS),
    "bandwidth": (FEW + AT_LEVELS + "--to 256k --wait block", ALL + AT_LEVELS + "--to 1M"),
    "bandwidth --stream": (FEW + "--to 64k --wait block --transfer send,write", ALL + "--to 1M"),
    "cpu": (FEW + "--to 64k", "--trials 1 --trial-ms 20"),
    "echo": ("--range small --samples 10", "--range large --samples 2"),
    "connect": ("--count 20", "--count 100"),
    "logp": ("", ""),
    "scale": ("--to 16 --limit 2 --question vis,mtu", "--to 256 --limit 2")}


def perf(name, options):
    """Runs a measurement. It checks that there are figures, but not their values."""
    job = CLIENT.run("%s %s %s --nic nic0 --json %s" % (VIP_PERF, name, SERVER.name, options), HANG, show=False)
    expect(job.status == 0, "vip_perf succeeds", job, job.status, job.err)
    reports = json.loads(job.out)
    for report in reports if isinstance(reports, list) else [reports]:
        expect(report["peer"] == SERVER.name, "its peer is the other host", report["peer"])
        expect(report["nic"].startswith("nic0") or report["nic"] == "rxe0", "its NIC is RDMA's", report["nic"])
        points = [point for series in report["series"] for point in series["points"]]
        expect(points, "a report has figures", name, report)


def case_perf(names):
    with serving(VIP_PERF + " server --nic nic0", "waits for clients"):
        for name in PERF if names == "all" else names.split(","):
            perf(name, PERF[name][names == "all"])


# --- vip_check_adapter ----------------------------------------------------------------------------


def case_check_adapter(_):
    """What a site with a card does: one command on each host, and all steps pass. The one that serves ends by itself."""
    check = BUILD + "/compat-tests/adapter/vip_check_adapter"
    test = __file__.rsplit("/", 2)[0] + "/adapter/on_device.sh"
    job = SERVER.start(check + " --serve")
    expect(job.wait_for("waits at TCP ports", HANG), "it says that it is ready", job, job.err)
    expect_done(CLIENT.start("%s %s %s" % (test, check, SERVER.name)))
    expect_done(job)
    expect("the check is over" in job.out, "it says so", job.out)


# --- names and addresses -------------------------------------------------------------------------


def pingpong(name, server_env=None, client_env=None):
    both(PINGPONG, "%s --size=4000 --count=20 %s" % (PINGPONG, name), server_env, client_env)


def case_names(_):
    """Names from /etc/vip_hosts or the file of VIPL_HOSTS, which no other name service knows."""
    CLIENT.run("echo 'node7 %s  # host1' >/etc/vip_hosts" % SERVER.ipv4)
    CLIENT.run("echo 'node8 0a:09:09:01:00:00' >/run/hosts; echo 'node9 %s' >>/run/hosts" % SERVER.ipv6)
    other = {"VIPL_HOSTS": "/run/hosts"}
    pingpong("node7")
    pingpong("node8", {}, other)
    pingpong("node9", LONG, {**LONG, **other})
    for name, env in ("node8", {}), ("node7", other), ("node9", other):
        job = CLIENT.run("%s %s" % (PINGPONG, name), HANG, env=env)
        expect(job.status == 1 and "NAMESERVICE" in job.err, "a name that the file does not have", name, job.err)


FIREWALL = ("table inet filter { chain input { type filter hook input priority 0; policy drop; iif lo accept; "
            "ct state established,related accept; meta l4proto { icmp, icmpv6 } accept; }; }")


def case_running(_):
    """The commands of docs/RUNNING.md, "Two hosts, from nothing", line by line. node7 is host1. vip_pingpong, by another name,
    stands for the old program. Installing is left out. Where there is nft, a firewall refuses what the page does not open."""
    def typed(line):
        return "cd /tmp/via && export PATH=%s/apps:$PATH && %s" % (BUILD, line.replace("10.9.9.7", SERVER.ipv4))
    has_nft = shutil.which("nft", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    steps = [(where, line) for where, line in page.steps() if has_nft or not line.startswith("nft ")]
    expect({where for where, _ in steps} == {"both", "node7", "node8"}, "the page has commands for both hosts", steps)
    for host in SERVER, CLIENT:
        host.run("rdma link delete rxe0; mkdir /tmp/via && ln -s %s/apps/vip_pingpong /tmp/via/server && cp -P /tmp/via/server "
                 "/tmp/via/client" % BUILD)
        if has_nft:
            expect_done(host.start("nft '%s'" % FIREWALL))
        for line in [line for where, line in steps if where == "both"]:
            expect_done(host.start(typed(line)))
    serves, calls = ([typed(line) for where, line in steps if where == each] for each in ("node7", "node8"))
    expect(len(serves) == len(calls), "each server has a client", steps)
    for server, client in zip(serves, calls):
        expect("all right" in both(server, client)[1], "the messages are right")


@contextlib.contextmanager
def slurm(at):
    """A cluster of both hosts, for the duration of the block. Guests have no cgroups of version 2, which Slurm would take."""
    env = {"SLURM_CONF": at + "/slurm.conf"}
    conf = page.slurm_conf(at, {host.name: host.ipv4 for host in (SERVER, CLIENT)}, 1)
    jobs = []
    for host in SERVER, CLIENT:
        host.run("mkdir -p %s/state %s/spool; echo CgroupPlugin=cgroup/v1 >%s/cgroup.conf; cat >%s/slurm.conf <<'END'\n%sEND"
                 % (at, at, at, at, conf))
        for daemon in ["slurmctld"] * (host == SERVER) + ["slurmd -N " + host.name]:
            jobs.append(host.start("ulimit -l unlimited && /usr/sbin/%s -D" % daemon, env=env, show=False))
    try:
        ready = "until [ \"$(sinfo -h -o '%D %t')\" = '2 idle' ]; do sleep 0.5; done"
        expect_done(SERVER.start("timeout %d sh -c '%s'" % (HANG, ready.replace("'", "'\\''")), env=env))
        yield env
    finally:
        for job in jobs:
            job.signal("TERM")


def case_slurm(_):
    """The script and the command of docs/RUNNING.md, "Launchers". The job has srun's settings, and ends with its rank that fails."""
    if not shutil.which("srun") or not os.path.exists("/usr/sbin/slurmd"):
        HOSTS.say("there is no Slurm here")
        return
    script, commands = page.blocks("Launchers")[:2]
    line = next(line for line in commands.splitlines() if line.startswith("srun "))
    command = "cd /tmp/slurm && PATH=%s/apps:$PATH %s" % (BUILD, re.sub(" +#.*", "", line).replace("node7", SERVER.name))
    with slurm("/tmp/slurm") as env:
        def run_job(text):
            for host in SERVER, CLIENT:
                host.run("cat >/tmp/slurm/job.sh <<'END'\n%sEND\nchmod +x /tmp/slurm/job.sh" % text)
            return SERVER.run(command, HANG, env={**env, **PATIENCE, **TELLING})

        job = run_job(script)
        expect(job.status == 0 and "all right" in job.out, "the messages are right", job.status, job.out, job.err)
        expect(job.err.count("nic0 is RDMA device rxe0") == 2, "the settings reach both ranks", job.err)
        job = run_job("#!/bin/sh\n[ $SLURM_PROCID = 1 ] && exit 3\nsleep %d\n" % (10 * HANG))
        expect(job.status and "task 1: Exited with exit code 3" in job.err, "a rank's failure ends the job", job.status, job.err)


def case_long_addresses(_):
    """Host addresses of 16 bytes: both sides by IPv6, and with a library that has addresses of 6 bytes."""
    pingpong(SERVER.ipv6, LONG, LONG)
    pingpong(SERVER.name, LONG, LONG)
    pingpong("::ffff:" + SERVER.ipv4, {}, LONG)
    pingpong(SERVER.ipv4, LONG, {})


def case_equals(rounds):
    """Both hosts call VipConnectPeerRequest at once, again and again, on one VI. The side that disconnects first makes its
    next request before its peer has noticed the end."""
    command = "%s equal --nic nic0 --times %s --messages 1 --timeout 120000 --seconds %d --host " % (FAULTS, rounds, HANG)
    for env in {}, LONG:
        both(command + CLIENT.name + " --own this --name that", command + SERVER.name + " --own that --name this", env, env)


def idle(connect, count, *last):
    """Returns what makes so many connections, sends nothing on them for a minute, and tells of the processor time."""
    commands = ("VipOpenNic 'nic0 &NIC", "VipNSInit NIC 0", "VipErrorCallback NIC CALLED ON_ERROR",
                "server = address 'idle 0", "VipNSGetHostByName NIC '%s server 0" % SERVER.ipv4,
                "client = address 'idle 0", "VipNSGetHostByName NIC '%s client 0" % CLIENT.ipv4,
                "%s * %s" % (count, connect), "clock", "sleep 60", "clock", *last, "VipCloseNic NIC")
    return "ulimit -n $(ulimit -Hn) && %s <<END\n%s\nEND" % (PUPPET, "\n".join(commands))


def code(word):
    """Returns an answer of puppet as puppet.py does."""
    return int(word, 16) & 0xffffffff


def case_idle(count):
    """Idle connections cost no more than a percent of the processor's time. None of them is lost before the server ends them,
    and then the client is told of each. One more connection tells the server that the client's minute is over."""
    last = int(count) + 1
    accept, request = "accept_one server client", "request_one client server"
    outs = both(idle(accept, count, accept, "sem_trywait CALLED", "still_connected"),
                idle(request, count, request, "%d * sem_wait CALLED" % last))
    server, client = ([code(word) for word in out.split()] for out in outs)
    for answers in server, client:
        begun, slept, ended = answers[8:11]
        HOSTS.say("%s idle connections: %.3f s of processor time in 60 s" % (count, (ended - begun) / 1e6))
        expect(slept == 0, "the whole minute passes", answers)
        expect(ended - begun < 600000, "a percent of the processor's time is enough", answers)
        expect(answers[-1] == 0, "VipCloseNic succeeds", answers)
    is_told, connected = server[12:14]
    expect(is_told == 0xffffffff, "the server is told of no error", server)
    expect(connected == last, "all are connected at the end", server)


# --- data, where the two hosts differ -------------------------------------------------------------


def exchange(serves, calls, nic, server=SERVER, client=CLIENT, level="delivery", largest=1048576):
    """Has one vip_faults exchange messages with another, with each operation. It checks every byte. (Where MTUs differ
    soft-RoCE cuts unreliable writes into pieces, as not_on_rxe.txt says.)"""
    for operation in ("send",) if level == "unreliable" else ("send", "write", "read"):
        options = "--nic %s --level %s --operation %s --messages 60 --largest %d --timeout 120000 --seconds %d" % (
            nic, level, operation, largest, HANG)
        both("%s serve %s" % (serves, options), "%s call %s --host %s" % (calls, options, server.name),
             server=server, client=client)


def case_data_called_by(number):
    client, server = (SERVER, CLIENT) if int(number) == 1 else (CLIENT, SERVER)
    for level in LEVELS:
        exchange(FAULTS, FAULTS, "nic0", server, client, level, 20000 if level == "unreliable" else 1048576)


def case_word_sizes(other_build):
    """A program of one build with a program of the other build."""
    other = other_build + "/compat-tests/hosts/faults/vip_faults"
    for server, client in (FAULTS, other), (other, FAULTS):
        exchange(server, client, "rxe0")


# -------------------------------------------------------------------------------------------------


def run(case):
    """Returns whether the case passed."""
    name, _, argument = case.partition("=")
    began = time.monotonic()
    try:
        globals()["case_" + name](argument)
    except Exception as failure:  # the other cases run nevertheless
        HOSTS.say("case %s: FAILED after %.1f s: %s" % (case, time.monotonic() - began, failure))
        HOSTS.say("frames on the wire: " + HOSTS.wire.state())
        return False
    HOSTS.say("case %s: ok, %.1f s" % (case, time.monotonic() - began))
    return True


sys.exit(0 if all([run(case) for case in sys.argv[2:]]) else 1)
