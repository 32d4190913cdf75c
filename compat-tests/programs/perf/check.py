#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""check.py PROGRAM NIC CASE: checks how vip_perf reacts to errors, signals, and clients that are not vip_perf."""
import contextlib
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # tests leave the sources alone

from vip_perf_runs import (  # noqa: E402
    NIC, PROGRAM, SECONDS, SOON, Client, Server, command, expect, free_port, json_of, run, run_case, wait_until)

# A process that was started in the background ignores SIGINT, and its children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

SCALE = ["scale", "--question", "vis", "--limit", "100"]
RUNNING = ((["latency"], "64 bytes,"), (SCALE, ", 16 VIs"))  # measurements, and what they say in the middle


def expect_one_message(result):
    code, out, err = result
    said = [line for line in err.splitlines() if " vipl: " not in line]  # without the library's
    is_one = len(said) == 1 and said[0].startswith("vip_perf: ")
    expect(code == 1 and out == "" and is_one, "one message", code, out, err)


def is_gone(number):
    """Returns whether there is no such process, or only one that is dead and not waited for."""
    with contextlib.suppress(OSError), open(f"/proc/{number}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "Z"
    return True


def running(words, point, output=subprocess.DEVNULL):
    client = Client(words, output)
    client.await_progress(point)
    return client


# --- wrong requests --------------------------------------------------------------------------------


def test_usage_errors():
    for words in ("", "nothing", "latency", "latency --self localhost", "latency --self --port 65536",
                  "latency --self --nothing", "scale --self --to 0", "server localhost",
                  "latency --self --transfer send,push", "latency --self --sockets tcp --no-sockets",
                  "latency --self --to 2G", "latency --self --factor 1", "latency --self --from 65 --to 64",
                  "latency --self --stream", "bandwidth --self --depth 8",
                  "bandwidth --self --stream --depth 2 --buffers 3", "echo --self --samples 1",
                  "echo --self --range huge", "connect --self --count 20001", "logp"):
        code, out, err = run(*words.split())
        expect(code == 2 and out == "" and err != "", "a usage error", words, code, out, err)
    for words, right in (("latency --wait no", "poll,block,spin"), ("connect --only no", "vipl,tcp"),
                         ("scale --question no", "vis,cq,segments,buffers,mtu,memory")):
        _, _, err = run(*words.split(), seconds=SOON)
        expect(err.splitlines()[0] == f"{words.split()[1]}: no not in {{{right}}}", "the right words", err)
    code, out, _ = run("--version")
    expect(code == 0 and out.strip(), "the version", code, out)


def test_unknown_nic():
    for words in (["latency", "--self"], ["latency", "localhost", "--port", str(free_port())],
                  ["server", "--port", str(free_port())]):
        expect_one_message(run(*words, "--nic", "no_such_nic", seconds=SOON))


def test_nobody_serves():
    begin = time.monotonic()
    expect_one_message(run("latency", "localhost", "--nic", NIC, "--port", str(free_port())))
    expect(time.monotonic() - begin < 15, "within the ten seconds that a server has to come")
    expect_one_message(run("latency", "no-such-host.invalid", "--nic", NIC))


def test_port_in_use():
    with Server() as server:
        expect_one_message(run("server", "--nic", NIC, "--port", str(server.port)))
        server.expect_service()


# --- processes that end in the middle --------------------------------------------------------------


def test_client_killed():
    with Server() as server:
        for words, point in RUNNING:
            client = running(server.client(*words), point)
            client.process.kill()
            client.process.wait()
            server.expect_service()


def test_server_killed():
    for words, point in RUNNING:
        with Server() as server:
            client = running(server.client(*words), point)
            server.process.kill()
            client.expect_failure_soon()


def test_server_child_killed():
    client = running(command("latency", "--self"), "64 bytes,")
    os.kill(client.child(), signal.SIGKILL)
    client.expect_failure_soon()


def test_self_killed():
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        client = running(command("latency", "--self"), "64 bytes,")
        child = client.child()
        client.process.send_signal(number)
        client.process.wait(SOON)
        wait_until("the child has gone, too", lambda: is_gone(child))


# The measurement, the progress at which it is stopped, and the number of points of a whole measurement.
STOPPABLE = (("latency --sockets tcp", "64 bytes,", 8 * 43), ("echo --only vipl", "128 bytes", 64 + 64 + 63),
             ("scale --question vis", ", 16 VIs", 3 * 13), ("scale --question cq", "CQ, polling, 64 bytes", 4 * 5),
             ("scale --question segments", ", 4 segments", 2 * 8), ("scale --question buffers", ", 4 buffers", 2 * 9),
             ("scale --question mtu", "MTU, ", 3 * 3), ("scale --question memory", "registering 16384 bytes", 8))


def interrupted(words, point):
    """Interrupts a measurement with Ctrl-C, which the child gets, too. Returns its status and output."""
    with tempfile.TemporaryFile() as output:
        client = running(command(*words.split(), "--self"), point, output)
        child = client.child()
        for number in (child, client.process.pid):
            os.kill(number, signal.SIGINT)
        status = client.await_end()
        wait_until("the child has gone, too", lambda: is_gone(child))
        output.seek(0)
        return status, output.read().decode()


def test_stopped():
    """A stopped measurement prints its results so far."""
    for words, point, whole in STOPPABLE:
        status, output = interrupted(words + " --json", point)
        report = json.loads(output)
        points = sum(len(series["points"]) for series in report["series"])
        expect(status == 130 and report["test"].startswith(words.split()[0]), "the report", words, report)
        expect(points < whole, "a part", words, points)
        expect("stopped by the user" in report["remarks"], "it says so", report["remarks"])


def test_stopped_in_the_first_of_several():
    """If several reports were requested, a single report has the form of several."""
    status, output = interrupted("scale --question memory,vis --json", ", 16 VIs")
    tests = [report["test"] for report in json.loads(output)]
    expect(status == 130 and tests == ["scale-vis"], "a list of one", output)


def test_interrupted():
    """A measurement that cannot end early ends at once, and prints nothing."""
    for words, point in (("connect --count 20000", "connection 20"), ("logp", "round ")):
        expect(interrupted(words, point) == (-signal.SIGINT, ""), "it is killed by the signal", words)


# --- clients and servers that are not vip_perf -----------------------------------------------------

MEET = b'{"meet":true}\n'


def shape(**different):
    whole = {"kind": "vipl", "transfer": "send", "level": "delivery", "waiting": "poll", "cqs": "none", "room": 4096,
             "depth": 16, "buffers": 1, "segments": 1, "vis": 1}
    return json.dumps({"do": "match", "match": 0, "shape": whole | different}).encode() + b"\n"


NO_JSON = [b"\n", b"GET / HTTP/1.1\r\n\r\n", b"\xff\xfe\x00\x01\n", b"x" * (3 << 20), b"null\n",
           b'{"failed":"it rains"}\n', b'{"meet":\n']
NO_ORDERS = [b"{}\n", b'{"do":7}\n', b'{"do":"dance"}\n', b'{"do":"match","match":0,"shape":7}\n', b'{"do":"recover"}\n',
             shape(vis=65536, depth=512), shape() + b"nothing\n",
             *(shape(**{name: number}) for name in ("room", "depth", "buffers", "segments", "vis")
               for number in (0, -1, 1 << 32 | 1)),
             *(b'{"do":"threads","plan":{"vis":%d,"collectors":%d,"waiting":"poll"}}\n' % some
               for some in ((0, 1), (-1, 0), (2, 3)))]


def expect_refusal(server, sent):
    said = b""
    with server.socket() as s, contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the server closes it
        s.sendall(sent)
        s.shutdown(socket.SHUT_WR)
        while piece := s.recv(65536):
            said += piece
    message = server.message()
    expect(message.startswith("vip_perf: "), "the server says that it failed", sent[:200], message)
    is_right = all(isinstance(json.loads(line), dict) for line in said.splitlines())
    expect(is_right, "it speaks as it should", sent[:200], said)


def test_garbage():
    with Server() as server:
        for before, some in ((b"", NO_JSON), (MEET, NO_ORDERS)):
            for sent in some:
                expect_refusal(server, before + sent)
            server.expect_service()


def test_peers_reason():
    """The server fails while both connect, and the client's message contains the server's reason."""
    place = b'{"host":[127,0,0,1,0,0],"mark":[1]}\n'  # no server waits there, over via_lo
    begins = b'{"handle":1,"target":0,"mtu":32768}\n'  # a match's words after that
    for reason, told in ((b'{"failed":"it\\u001b rains"}', 'the other side: "it\\u001b rains"'),
                         (b"never JSON", "what the other side says is no vip_perf's")):
        with socket.create_server(("localhost", 0)) as server:
            client = Client(command("latency", "localhost", "--port", str(server.getsockname()[1]),
                                    "--no-sockets", "--transfer", "send", "--wait", "poll"))
            server.settimeout(SECONDS)
            with server.accept()[0] as s:
                s.sendall(MEET + place + begins + reason + b"\n")
                client.expect_failure_soon()
        message = client.all_progress()[-1].strip()
        expect("cannot connect: VIP_NO_MATCH; " + told in message, "both", message)


def test_second_client():
    """It is refused while there is another, which goes on and completes; so is one beside a silent client."""
    with Server() as server:
        first = running(server.client(*SCALE, "--to", "64"), ", 16 VIs")
        first.process.send_signal(signal.SIGSTOP)  # so that it is there all the time
        second = run("latency", *server.address(), "--nic", NIC)
        first.process.send_signal(signal.SIGCONT)
        expect_one_message(second)
        expect("the server has another client now" in second[2], "it is told why", second)
        expect(first.await_end() == 0, "the first one completes", first.said[-300:])
        server.expect_service()
        with server.socket():
            second = run("latency", *server.address(), "--nic", NIC)
            expect("the server has another client now" in second[2], "it is told why", second)
        for _ in range(3):
            server.expect_service()


def test_once():
    """The server ends, and well, after its client."""
    with Server("--once") as server:
        server.expect_service()
        expect(server.process.wait(SECONDS) == 0, "the server ends well", server.process.returncode)


# --- output ----------------------------------------------------------------------------------------


def test_output_lost():
    """vip_perf fails when it cannot write its output, or has none."""
    few = "latency --self --from 64 --to 64 --trials 1 --trial-ms 1 --no-sockets --transfer send --wait block".split()
    few += ["--nic", NIC]
    for words in ([*few, "--json"], few, ["--help"]):
        for redirection in (">/dev/full", ">&-"):
            done = subprocess.run(["sh", "-c", 'exec "$@" ' + redirection, "sh", PROGRAM, *words],
                                  stderr=subprocess.PIPE, text=True, timeout=SECONDS)
            expect(done.returncode == 1 and "standard output" in done.stderr, "it fails", words, redirection, done)


def test_out_of_room():
    """VIs of via_lo take a file each. With few files the series ends, but not the run."""
    report = json_of("scale", "--question", "vis",
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)))
    expect(len(report["series"]) == 3, "three series", report["series"])
    expect(len(report.get("remarks", [])) == 3, "each ends with a remark", report.get("remarks"))
    for series in report["series"]:
        expect(2 < len(series["points"]) < 8, "with some of its points", series)


def test_storm_out_of_room():
    """Requests to a server without files fail. They are counted, with the reasons that both sides see. A server
    without any file takes no request, so that a request waits for VIPL_GRACE_MSEC."""
    report = json_of("crowd", "--question", "storm", "--clients", "100", "--processes", "10",
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (90, 90)),
                     env=os.environ | {"VIPL_GRACE_MSEC": "100"})
    for series in report["series"]:
        failed = series["points"][-1]["failed"]
        told = [re.fullmatch(re.escape(series["name"]) + r", 100 clients(, the server)?: (\d+) failed: (.*VIP_\w+)", remark)
                for remark in report["remarks"]]
        clients, server = ([int(one[2]) for one in told if one and one[1] == side] for side in (None, ", the server"))
        expect(0 < failed < 100 and sum(clients) == failed and sum(server) > 0, "they are counted", report)


run_case(globals())
