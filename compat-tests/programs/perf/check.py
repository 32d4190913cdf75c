#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""check.py PROGRAM NIC CASE: checks how vip_perf reacts to errors, and its output.

It does not check figures.
"""
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # tests leave the sources alone

from vip_perf_runs import (  # noqa: E402
    NIC, PROGRAM, SECONDS, SOON, Client, Server, command, expect, expect_usage_error, free_port, json_of,
    run, run_case, wait_until)

# A process that was started in the background ignores SIGINT, and its children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def expect_one_message(result, status=1):
    code, out, err = result
    expect(code == status, "the exit status", code, out, err)
    expect(out == "", "nothing but a message", out)
    said = [line for line in err.splitlines() if not line.startswith("vipl: ")]  # without the library's
    expect(len(said) == 1 and said[0].startswith("vip_perf: "), "one message", err)


def is_gone(number):
    """Returns whether there is no such process, or only one that is dead and not waited for."""
    try:
        with open(f"/proc/{number}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


# --- wrong requests --------------------------------------------------------------------------------


def test_help():
    for words in (["--help"], ["latency", "--help"], ["scale", "--help"], ["server", "--help"]):
        code, out, err = run(*words)
        expect(code == 0 and "--help" in out and not err, "help", words, code, out, err)
    code, out, _ = run("--version")
    expect(code == 0 and out.strip(), "the version", code, out)


def test_usage_errors():
    for words in ([], ["nothing"], ["latency"], ["latency", "--self", "localhost"],
                  ["latency", "--self", "--port", "65536"], ["latency", "--self", "--nothing"],
                  ["scale", "--self", "--to", "0"], ["server", "localhost"]):
        expect_usage_error(*words)
    for measurement, option, words in (("latency", "--wait", "poll,block,spin"),
                                       ("scale", "--question", "vis,cq,segments,buffers,mtu,memory"),
                                       ("connect", "--only", "vipl,tcp")):
        _, _, err = run(measurement, option, "no", seconds=SOON)
        expect(err.splitlines()[0] == f"{option}: no not in {{{words}}}",
               "a wrong word is told the right ones", err)


def test_words_in_capitals():
    words = ["--question", "MTU,Memory", "--wait", "Poll"]
    found = [report["test"] for report in json_of("scale", *words)]
    expect(found == ["scale-mtu", "scale-memory"], "the questions", found)
    report = json_of("connect", "--only", "TCP", "--count", "2")
    expect([series["name"] for series in report["series"]] == ["TCP"], "the series", report)


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
        for words, point in ((["latency"], "64 bytes,"),
                             (["scale", "--question", "vis", "--limit", "100"], ", 16 VIs")):
            client = Client(server.client(*words))
            client.await_progress(point)
            client.process.kill()
            client.process.wait()
            server.expect_service()


def test_server_killed():
    for words, point in ((["latency"], "64 bytes,"),
                         (["scale", "--question", "vis", "--limit", "100"], ", 16 VIs")):
        with Server() as server:
            client = Client(server.client(*words))
            client.await_progress(point)
            server.process.kill()
            client.expect_failure_soon()


def test_server_child_killed():
    client = Client(command("latency", "--self"))
    client.await_progress("64 bytes,")
    os.kill(client.child(), signal.SIGKILL)
    client.expect_failure_soon()


def test_self_killed():
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        client = Client(command("latency", "--self"))
        client.await_progress("64 bytes,")
        child = client.child()
        client.process.send_signal(number)
        client.process.wait(SOON)
        wait_until("the child has gone, too", lambda: is_gone(child))


# The measurement, the progress at which it is stopped, and the number of points of a whole measurement.
STOPPABLE = ((["latency", "--sockets", "tcp"], "64 bytes,", 8 * 43),
             (["echo", "--only", "vipl"], "128 bytes", 64 + 64 + 63),
             (["scale", "--question", "vis"], ", 16 VIs", 3 * 13),
             (["scale", "--question", "cq"], "CQ, polling, 64 bytes", 4 * 5),
             (["scale", "--question", "segments"], ", 4 segments", 2 * 8),
             (["scale", "--question", "buffers"], ", 4 buffers", 2 * 9),
             (["scale", "--question", "mtu"], "MTU, ", 3 * 3),
             (["scale", "--question", "memory"], "registering 16384 bytes", 8))


def output_of_stopped(words, point):
    """Stops the measurement with Ctrl-C, which the child gets, too."""
    with tempfile.TemporaryFile() as output:
        client = Client(command(*words, "--self"), output)
        client.await_progress(point)
        for number in (client.child(), client.process.pid):
            os.kill(number, signal.SIGINT)
        expect(client.await_end() == 130, "the status of who was interrupted",
               client.process.returncode, client.said[-300:])
        output.seek(0)
        return output.read().decode()


def test_stopped():
    """A stopped measurement prints its results so far."""
    for words, point, whole in STOPPABLE:
        report = json.loads(output_of_stopped(words + ["--json"], point))
        expect(report["test"].startswith(words[0]), "the report", report["test"])
        expect("stopped by the user" in report["remarks"], "it says so", report["remarks"])
        points = sum(len(series["points"]) for series in report["series"])
        expect(points < whole, "a part", words, points)


def test_stopped_in_the_first_of_several():
    """If several reports were requested, a single report has the form of several."""
    words = ["scale", "--question", "memory,vis"]
    reports = json.loads(output_of_stopped(words + ["--json"], ", 16 VIs"))
    expect([report["test"] for report in reports] == ["scale-vis"], "a list of one", reports)


def test_interrupted():
    """A measurement that cannot end early ends at once, and prints nothing."""
    for words, point in ((["connect", "--count", "20000"], "connection 20"), (["logp"], "round ")):
        with tempfile.TemporaryFile() as output:
            client = Client(command(*words, "--self"), output)
            client.await_progress(point)
            child = client.child()
            for number in (child, client.process.pid):
                os.kill(number, signal.SIGINT)
            expect(client.process.wait(SOON) == -signal.SIGINT, "it is killed by the signal",
                   words, client.process.returncode)
            wait_until("the child has gone, too", lambda: is_gone(child))
            expect(output.seek(0, os.SEEK_END) == 0, "no output", words)


# --- clients and servers that are not vip_perf -----------------------------------------------------

MEET = b'{"meet":true}\n'


def shape(**different):
    whole = {"kind": "vipl", "transfer": "send", "level": "delivery", "waiting": "poll",
             "cqs": "none", "room": 4096, "depth": 16, "buffers": 1, "segments": 1, "vis": 1}
    whole.update(different)
    return json.dumps({"do": "match", "shape": whole}, separators=(",", ":")).encode() + b"\n"


NO_JSON = [b"\n", b"GET / HTTP/1.1\r\n\r\n", b"\xff\xfe\x00\x01\n", b"x" * (3 << 20), b"null\n",
           b'{"failed":"it rains"}\n', b'{"meet":\n']
NO_ORDERS = [b"{}\n", b'{"do":7}\n', b'{"do":"dance"}\n', b'{"do":"match","shape":7}\n',
             b'{"do":"recover"}\n', shape(vis=65536, depth=512), shape() + b"nothing\n"]


def answer(server, sent):
    """Sends this to the server. Returns the server's output until one side closes the connection."""
    with server.socket() as s:
        try:
            s.sendall(sent)
            s.shutdown(socket.SHUT_WR)
            said = b""
            while piece := s.recv(65536):
                said += piece
            return said.decode()
        except (BrokenPipeError, ConnectionResetError):  # the server has closed the connection
            return ""


def expect_refusal(server, sent):
    said = answer(server, sent)
    message = server.message()
    expect(message.startswith("vip_perf: "), "the server says that it failed", sent[:200], message)
    for line in said.splitlines():
        words = json.loads(line)
        expect(isinstance(words, dict), "it speaks as it should", sent[:200], line)


def test_garbage():
    with Server() as server:
        for sent in NO_JSON:
            expect_refusal(server, sent)
        server.expect_service()
        for sent in NO_ORDERS:
            expect_refusal(server, MEET + sent)
        server.expect_service()


def test_peers_reason():
    """The server fails while both connect, and the client's message contains the server's reason."""
    place = b'{"host":[127,0,0,1,0,0],"mark":[1]}\n'  # no server waits there, over via_lo
    link = b'{"handle":1,"target":1,"mtu":4096}\n'
    rains, no_text = b'{"failed":"it rains"}', b'{"failed":7}'
    for words, begins, reason, told in (
        (["latency", "--no-sockets"], link, rains, "the other side: it rains"),
        (["logp"], b"", no_text, "what the other side says is no vip_perf's"),
        (["connect", "--only", "vipl"], b'{"waits":true}\n', rains, "the other side: it rains"),
    ):
        with socket.create_server(("127.0.0.1", 0)) as server:
            client = Client(command(*words, "127.0.0.1", "--port", str(server.getsockname()[1])))
            server.settimeout(SECONDS)
            with server.accept()[0] as s:
                s.sendall(MEET + place + begins + reason + b"\n")
                client.expect_failure_soon()
        message = client.all_progress()[-1].strip()
        expect("cannot connect: VIP_NO_MATCH; " + told in message, "both", message)


def test_bare_client_gone():
    """The server of a bare copy looks only at memory, and notices that its client has gone."""
    mine = json.dumps({"process": os.getpid(), "file": 0, "target": 0}).encode() + b"\n"
    echo = b'{"do":"echo","match":0,"bytes":8,"count":1}\n'
    with Server() as server:
        with server.socket() as s:
            s.sendall(MEET + shape(kind="bare") + mine + MEET + MEET + echo + MEET)
            said = b""
            while said.count(b"meet") < 4:  # those of the greeting, the words, the match and the echo
                said += s.recv(4096)
        message = server.message(SECONDS)  # without noticing it would print another message after 20 seconds
        expect(message == "vip_perf: the other side has gone", "it ends", message)
        server.expect_service()


# --- two at once ---------------------------------------------------------------------------------


def test_second_client():
    with Server() as server:
        first = Client(server.client("scale", "--question", "vis", "--limit", "100"))
        first.await_progress(", 16 VIs")
        done = subprocess.run(server.client("latency"), capture_output=True, text=True,
                              timeout=SECONDS)
        expect_one_message((done.returncode, done.stdout, done.stderr))
        expect("another client" in done.stderr, "it is told why", done.stderr)
        expect(first.process.poll() is None, "the first one goes on")
        first.process.kill()
        first.process.wait()
        server.expect_service()


def test_one_after_the_other():
    with Server() as server:
        for _ in range(5):
            server.expect_service()


# --- output ----------------------------------------------------------------------------------------

MEASUREMENTS = [["latency", "--to", "64", "--trials", "2", "--trial-ms", "2"],
                ["scale", "--question", "vis", "--to", "4"],
                ["scale", "--question", "cq"], ["scale", "--question", "segments"],
                ["scale", "--question", "buffers"], ["scale", "--question", "mtu"],
                ["scale", "--question", "memory"]]


def expect_report(report, test):
    expect(report["test"].startswith(test), "the name of the test", report["test"])
    for key in ("vip_perf", "host", "time", "nic", "peer", "command"):
        expect(key in report, "what was measured where", key)
    keys = [column["key"] for column in report["columns"]]
    expect(report["series"] and all(s["points"] for s in report["series"]), "series")
    for series in report["series"]:
        for point in series["points"]:
            expect(set(point) <= set(keys), "keys that are columns", point, keys)
            expect(point.get(keys[0], 0) > 0, "the first column in each point", point)
            expect(all(value > 0 for key, value in point.items()
                       if key in ("us", "us_min", "open_us", "register_us")),
                   "times are positive", point)


def test_json():
    for words in MEASUREMENTS:
        expect_report(json_of(*words), words[0])


def test_plotted():
    """Each of these reports has at least one figure."""
    with tempfile.TemporaryDirectory() as directory:
        for number, words in enumerate(MEASUREMENTS):
            report = os.path.join(directory, "report.json")
            with open(report, "w") as file:
                json.dump(json_of(*words), file)
            done = subprocess.run([PROGRAM + "_plot", "--format", "svg", "--output",
                                   os.path.join(directory, f"figure{number}"), report],
                                  capture_output=True, text=True, timeout=SECONDS)
            expect(done.returncode == 0, "it is drawn", words, done.stderr)
            expect(any(name.startswith(f"figure{number}-") for name in os.listdir(directory)),
                   "a figure", words, done.stdout)


def test_json_of_several():
    reports = json_of("scale", "--question", "memory", "--question", "mtu")
    tests = [report["test"] for report in reports]
    expect(tests == ["scale-mtu", "scale-memory"], "a list", reports)
    for report in reports:
        expect_report(report, "scale-")


def test_output_lost():
    """vip_perf fails when it cannot write its output, or has none."""
    few = ["latency", "--self", "--nic", NIC, "--from", "64", "--to", "64", "--trials", "1",
           "--trial-ms", "1", "--no-sockets", "--transfer", "send", "--wait", "block"]
    for words in ([*few, "--json"], few, ["--help"]):
        for redirection in (">/dev/full", ">&-"):
            done = subprocess.run(["sh", "-c", 'exec "$@" ' + redirection, "sh", PROGRAM, *words],
                                  stderr=subprocess.PIPE, text=True, timeout=SECONDS)
            expect(done.returncode == 1 and "standard output" in done.stderr, "it fails", words,
                   redirection, done.returncode, done.stderr)


def test_out_of_room():
    """VIs of via_lo take a file each. With few files the series ends, but not the run."""
    def few_files():
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
    report = json_of("scale", "--question", "vis", preexec_fn=few_files)
    expect(len(report["series"]) == 3, "three series", report["series"])
    expect(len(report.get("remarks", [])) == 3, "each ends with a remark", report.get("remarks"))
    for series in report["series"]:
        expect(2 < len(series["points"]) < 8, "with some of its points", series)


run_case(globals())
