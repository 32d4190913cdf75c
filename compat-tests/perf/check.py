#!/usr/bin/env python3
"""check.py PROGRAM NIC TEST: how vip_perf behaves when something is wrong, and what it prints.

The function of that name is the test; "list" prints their names. Figures are not looked at.
"""
import csv
import io
import json
import os
import pty
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

PROGRAM, NIC = sys.argv[1:3]
SECONDS = 60  # for whatever has to end by itself
SOON = 8      # for what has to be noticed at once, also on a busy machine

# Who was started in the background ignores it, and so would whom we start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def command(*words):
    return [PROGRAM, *words, "--nic", NIC]


def run(*words, seconds=SECONDS, **more):
    """Of arguments as they are; its exit status, output and messages."""
    done = subprocess.run([PROGRAM, *words], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=seconds, **more)
    return done.returncode, done.stdout, done.stderr


def expect(what, is_so, *shown):
    if not is_so:
        sys.exit(f"FAILED: {what}: " + " | ".join(str(s) for s in shown))


def expect_one_message(result, status=1):
    code, out, err = result
    expect("the exit status", code == status, code, out, err)
    expect("nothing but a message", out == "", out)
    said = [line for line in err.splitlines() if not line.startswith("vipl: ")]  # the library's
    expect("one message", len(said) == 1 and said[0].startswith("vip_perf: "), err)


def wait_until(what, is_so, seconds=SOON):
    end = time.monotonic() + seconds
    while not is_so():
        expect(what, time.monotonic() < end, f"not within {seconds} s")
        time.sleep(0.01)


def free_port():
    with socket.socket(socket.AF_INET6) as s:
        s.bind(("::", 0))
        return s.getsockname()[1]


class Server:
    """"vip_perf server" on a port of its own, until the end of the block."""

    def __init__(self, messages=subprocess.PIPE):
        self.port = free_port()
        self.messages = messages

    def __enter__(self):
        self.process = subprocess.Popen(command("server", "--port", str(self.port)),
                                        stderr=self.messages)
        self.said = b""
        if self.process.stderr:
            said = self.message(SECONDS)
            expect("it says where it waits", f"port {self.port}, NIC {NIC}" in said, said)
            expect("and does", self.is_listening())
        else:
            wait_until("the server listens", self.is_listening, SECONDS)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def is_listening(self):
        # Not by connecting, which would be a client.
        with open("/proc/net/tcp6") as table:
            return any(line.split()[1].endswith(f":{self.port:04X}") and line.split()[3] == "0A"
                       for line in table)

    def client(self, *words):
        return command(*words, "localhost", "--port", str(self.port))

    def expect_service(self):
        """Even though whoever came before was what he was."""
        expect("the server lives", self.process.poll() is None)
        done = subprocess.run(self.client("scale", "--question", "vis", "--to", "1", "--json"),
                              capture_output=True, text=True, timeout=SECONDS)
        expect("the next client is served", done.returncode == 0, done.stderr)
        json.loads(done.stdout)

    def message(self, seconds=SOON):
        """The next line that the server says."""
        while b"\n" not in self.said:
            readable, _, _ = select.select([self.process.stderr], [], [], seconds)
            expect("the server says something", readable)
            self.said += os.read(self.process.stderr.fileno(), 4096)
        line, _, self.said = self.said.partition(b"\n")
        return line.decode()

    def socket(self):
        s = socket.create_connection(("localhost", self.port), timeout=SOON)
        return s


class Client:
    """A client that tells its progress, and can be killed in the middle of it."""

    def __init__(self, words, output=subprocess.DEVNULL):
        self.terminal, theirs = pty.openpty()
        self.process = subprocess.Popen(words, stdout=output, stderr=theirs)
        os.close(theirs)
        self.said = ""

    def read(self):
        try:
            piece = os.read(self.terminal, 4096)
        except OSError:  # EIO: nobody has the other end any more
            piece = b""
        self.said += piece.decode()
        return bool(piece)

    def await_progress(self, text):
        while text not in self.said:
            expect(f"the client gets to \"{text}\"", self.read(), self.said[-300:])

    def child(self):
        number = self.process.pid
        with open(f"/proc/{number}/task/{number}/children") as children:
            return int(children.read().split()[0])

    def expect_failure_soon(self):
        begin = time.monotonic()
        while self.read():
            pass
        expect("the client fails", self.process.wait(SECONDS) == 1, self.process.returncode)
        expect("and soon", time.monotonic() - begin < SOON, time.monotonic() - begin)
        message = self.said.split("\x1b[K")[-1].strip()
        expect("with a message", message.startswith("vip_perf: "), repr(self.said[-300:]))
        expect("and only one", "\n" not in message, message)


def is_gone(number):
    """No such process, or one that is dead and only not waited for."""
    try:
        with open(f"/proc/{number}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


# --- what is asked for wrongly -------------------------------------------------------------------


def test_help():
    for words in (["--help"], ["latency", "--help"], ["scale", "--help"], ["server", "--help"]):
        code, out, err = run(*words)
        expect("help", code == 0 and "--help" in out and not err, words, code, out, err)
    code, out, _ = run("--version")
    expect("the version", code == 0 and out.strip(), code, out)


def test_usage_errors():
    for words in ([], ["nothing"], ["latency"], ["latency", "--self", "localhost"],
                  ["latency", "--self", "--port", "65536"], ["latency", "--self", "--port", "x"],
                  ["latency", "--self", "--json", "--csv"], ["latency", "--self", "--wait", "no"],
                  ["latency", "--self", "--nothing"], ["scale", "--self", "--question", "no"],
                  ["scale", "--self", "--to", "0"], ["scale", "--self", "--limit", "-1"],
                  ["server", "localhost"]):
        code, out, err = run(*words, seconds=SOON)
        expect("a usage error", code == 2 and out == "" and err != "", words, code, out, err)
    for command, option, words in (("scale", "--wait", "poll, block, spin"),
                                   ("latency", "--wait", "poll, block, spin"),
                                   ("latency", "--transfer", "send, write, read"),
                                   ("latency", "--level", "unreliable, delivery, reception"),
                                   ("latency", "--sockets", "tcp, unix"),
                                   ("scale", "--question", "vis, cq, segments, buffers, mtu, memory"),
                                   ("connect", "--only", "vipl, tcp"),
                                   ("plot", "--format", "svg, png, both")):
        _, _, err = run(command, option, "no", seconds=SOON)
        expect("a wrong word is told the right ones",
               err.splitlines()[0] == f'{option}: "no" is none of {words}', err)


def test_unknown_nic():
    for words in (["latency", "--self"], ["latency", "localhost", "--port", str(free_port())],
                  ["server", "--port", str(free_port())]):
        expect_one_message(run(*words, "--nic", "no_such_nic", seconds=SOON))


def test_nobody_serves():
    begin = time.monotonic()
    expect_one_message(run("latency", "localhost", "--nic", NIC, "--port", str(free_port())))
    expect("within the ten seconds that a server has to come", time.monotonic() - begin < 15)
    expect_one_message(run("latency", "no-such-host.invalid", "--nic", NIC))


def test_port_in_use():
    with Server() as server:
        expect_one_message(run("server", "--nic", NIC, "--port", str(server.port)))
        server.expect_service()


# --- who goes in the middle ----------------------------------------------------------------------


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


def test_stopped():
    """By Ctrl-C, which the child gets, too: what has been measured until then is told."""
    for words, point, key, whole in ((["latency", "--sockets", "tcp"], "64 bytes,", "bytes", 65539),
                                     (["echo", "--only", "vipl"], "128 bytes", "bytes", 2 << 20),
                                     (["scale", "--question", "vis"], ", 16 VIs", "vis", 4096)):
        with tempfile.TemporaryFile() as output:
            client = Client(command(*words, "--self", "--json"), output)
            client.await_progress(point)
            for number in (client.child(), client.process.pid):
                os.kill(number, signal.SIGINT)
            while client.read():
                pass
            expect("the status of who was interrupted", client.process.wait(SOON) == 130,
                   client.process.returncode, client.said[-300:])
            output.seek(0)
            report = json.load(output)
        expect("the report", report["test"].startswith(words[0]), report["test"])
        expect("it says so", "stopped by the user" in report["remarks"], report["remarks"])
        most = max(p[key] for series in report["series"] for p in series["points"])
        expect("a part", most < whole, words, most)


# --- who is no vip_perf --------------------------------------------------------------------------

MEET = b'{"meet":true}\n'


def shape(**different):
    whole = {"kind": "vipl", "transfer": "send", "level": "delivery", "waiting": "poll",
             "cqs": "none", "room": 4096, "depth": 16, "buffers": 1, "segments": 1, "vis": 1,
             "spin_us": 50}
    whole.update(different)
    return json.dumps({"do": "match", "shape": whole}, separators=(",", ":")).encode() + b"\n"


NO_JSON = [b"\n", b"GET / HTTP/1.1\r\n\r\n", b"{\n", b"\xff\xfe\x00\x01\n", b"[" * 5000 + b"\n",
           b"nothing that ends" * 100, b"x" * (3 << 20), b"null\n", b"[]\n", b"3\n", b'"meet"\n',
           b'{"failed":7}\n', b'{"failed":"\\u0007 \\u001b[2J"}\n', b'{"meet":\n']
NO_ORDERS = [b"{}\n", b"null\n", b"[1]\n", b'{"do":7}\n', b'{"do":null}\n', b'{"do":"dance"}\n',
             b'{"do":"' + b"x" * 5000 + b'"}\n', b'{"do":"match"}\n', b'{"do":"match","shape":7}\n',
             b'{"do":"match","shape":{}}\n', b'{"do":"match","shape":[]}\n', b"1e999\n", b"\n",
             b'{"do":"recover"}\n']
NO_SHAPES = [shape(vis=0), shape(vis=-1), shape(vis=10 ** 30), shape(vis=1.5), shape(vis="many"),
             shape(vis=None), shape(vis=65536, depth=512), shape(vis=1 << 32 | 1),
             shape(depth=1), shape(depth=513), shape(buffers=0), shape(buffers=17),
             shape(segments=0), shape(segments=251), shape(room=0), shape(room=7),
             shape(room=1 << 31), shape(room=-1), shape(room=1 << 30, buffers=16),
             shape(kind="pigeon"), shape(kind=3), shape(transfer="throw"), shape(level=True),
             shape(waiting="never"), shape(cqs=[]), shape(spin_us=-1)]
# Answers of one that the server connects its VIs with.
NO_PEERS = [shape() + line for line in
            (b"{}\n", b"[]\n", b"nothing\n", b'{"host":7,"targets":[],"handle":0}\n',
             b'{"host":[1],"targets":[],"handle":0}\n', b'{"host":[1],"targets":[-1],"handle":0}\n',
             b'{"host":[1],"targets":[1],"handle":"x"}\n', b'{"failed":"no"}\n')]


def answer(server, sent):
    """All that the server says to one who sends this, until it or we hang up."""
    with server.socket() as s:
        try:
            s.sendall(sent)
            s.shutdown(socket.SHUT_WR)
            said = b""
            while piece := s.recv(65536):
                said += piece
            return said.decode()
        except (BrokenPipeError, ConnectionResetError):  # it has had enough
            return ""


def expect_refusal(server, sent):
    said = answer(server, sent)
    message = server.message()
    expect("the server says that it failed", message.startswith("vip_perf: "), sent[:200], message)
    expect("in a few printable words", len(message) < 600 and message.isprintable(), message)
    for line in said.splitlines():
        words = json.loads(line)
        expect("it speaks as it should", isinstance(words, dict), sent[:200], line)


def test_garbage():
    with Server() as server:
        for sent in NO_JSON:
            expect_refusal(server, sent)
        server.expect_service()
        for sent in NO_ORDERS:
            expect_refusal(server, MEET + sent)
        server.expect_service()


def test_impossible_shapes():
    with Server() as server:
        for sent in NO_SHAPES:
            said = answer(server, MEET + sent)
            message = server.message()
            expect("it is refused", message.startswith("vip_perf: ") and '"failed"' in said,
                   sent, said, message)
        server.expect_service()


def test_impossible_peers():
    with Server() as server:
        for sent in NO_PEERS:
            expect_refusal(server, MEET + sent)
        server.expect_service()


def test_random_garbage():
    """Bytes, and lines of the protocol with some bytes changed. Some of these may be right."""
    import random
    source = random.Random(7)
    with tempfile.TemporaryFile() as messages, Server(messages) as server:
        for _ in range(60):
            if source.random() < 0.5:
                sent = bytearray(source.randbytes(source.randrange(1, 2000)))
            else:
                sent = bytearray(MEET + shape())
                for _ in range(source.randrange(1, 6)):
                    sent[source.randrange(len(sent))] = source.randrange(256)
            answer(server, bytes(sent))
            expect("the server lives", server.process.poll() is None)
        server.expect_service()
        messages.seek(0)
        for line in messages.read().decode().splitlines():  # a sanitizer's are others
            expect("its messages are its own", line.startswith(("vip_perf: ", "vipl: ")), line)


# --- two at once ---------------------------------------------------------------------------------


def test_second_client():
    with Server() as server:
        first = Client(server.client("scale", "--question", "vis", "--limit", "100"))
        first.await_progress(", 16 VIs")
        done = subprocess.run(server.client("latency"), capture_output=True, text=True,
                              timeout=SECONDS)
        expect_one_message((done.returncode, done.stdout, done.stderr))
        expect("it is told why", "another client" in done.stderr, done.stderr)
        expect("the first one goes on", first.process.poll() is None)
        first.process.kill()
        first.process.wait()
        server.expect_service()


def test_one_after_the_other():
    with Server() as server:
        for _ in range(5):
            server.expect_service()


# --- what is printed -----------------------------------------------------------------------------

MEASUREMENTS = [["latency", "--to", "64", "--trials", "2", "--trial-ms", "2"],
                ["scale", "--question", "vis", "--to", "4"],
                ["scale", "--question", "cq"], ["scale", "--question", "segments"],
                ["scale", "--question", "buffers"], ["scale", "--question", "mtu"],
                ["scale", "--question", "memory"]]


def expect_report(report, test):
    expect("the name of the test", report["test"].startswith(test), report["test"])
    for key in ("vip_perf", "host", "time", "nic", "peer", "command"):
        expect("what was measured where", key in report, key)
    keys = [column["key"] for column in report["columns"]]
    expect("series", report["series"] and all(s["points"] for s in report["series"]))
    for series in report["series"]:
        for point in series["points"]:
            expect("keys that are columns", set(point) <= set(keys), point, keys)
            expect("the first column in each point", point.get(keys[0], 0) > 0, point)
            expect("times are positive", all(value > 0 for key, value in point.items() if
                                             key in ("us", "us_min", "open_us", "register_us")), point)


def test_json():
    for words in MEASUREMENTS:
        code, out, err = run(*words, "--self", "--nic", NIC, "--json")
        expect("it works", code == 0, words, code, err)
        expect_report(json.loads(out), words[0])


def test_json_of_several():
    code, out, err = run("scale", "--self", "--nic", NIC, "--json", "--question", "memory",
                         "--question", "mtu")
    expect("it works", code == 0, code, err)
    reports = json.loads(out)
    expect("a list", [report["test"] for report in reports] == ["scale-mtu", "scale-memory"], out)
    for report in reports:
        expect_report(report, "scale-")


def test_csv():
    for words in MEASUREMENTS[:2] + MEASUREMENTS[-1:]:
        code, out, err = run(*words, "--self", "--nic", NIC, "--csv")
        expect("it works", code == 0, words, code, err)
        rows = list(csv.reader(io.StringIO(out)))
        expect("a head", rows[0][0] == "series" and len(rows) > 1, rows[:1])
        for row in rows[1:]:
            expect("as many fields in each row", len(row) == len(rows[0]), row, rows[0])
            for field in row[1:]:
                expect("numbers", field == "" or float(field) is not None, row)


def test_csv_of_several():
    """One table: a head, then rows that say which test they are of, with that test's columns alone."""
    code, out, err = run("scale", "--self", "--nic", NIC, "--csv", "--question", "memory",
                         "--question", "mtu")
    expect("it works", code == 0, code, err)
    table = csv.DictReader(io.StringIO(out))
    rows = list(table)
    expect("a head", table.fieldnames[:3] == ["test", "series", "bytes"], table.fieldnames)
    expect("rows of both", {row["test"] for row in rows} == {"scale-mtu", "scale-memory"}, rows)
    for row in rows:
        own, other = ("us", "register_us") if row["test"] == "scale-mtu" else ("register_us", "us")
        expect("as many fields in each row", None not in row and None not in row.values(), row)
        expect("numbers of its own test", float(row[own]) > 0 and row[other] == "", row)


def test_out_of_room():
    """VIs of via_lo take a file each: with few of them the series ends, not the run."""
    def few_files():
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
    code, out, err = run("scale", "--self", "--nic", NIC, "--question", "vis", "--json",
                         preexec_fn=few_files)
    expect("it works", code == 0, code, err)
    report = json.loads(out)
    expect("three series", len(report["series"]) == 3, report["series"])
    expect("each ends with a remark", len(report.get("remarks", [])) == 3, report.get("remarks"))
    for series in report["series"]:
        expect("with some of its points", 2 < len(series["points"]) < 8, series)


def main():
    tests = {name[5:]: f for name, f in globals().items() if name.startswith("test_")}
    if sys.argv[3] == "list":
        print("\n".join(tests))
    elif sys.argv[3] == "all":
        for name, test in tests.items():
            begin = time.monotonic()
            test()
            print(f"{name}: {time.monotonic() - begin:.1f} s", flush=True)
    else:
        tests[sys.argv[3]]()


main()
