# SPDX-License-Identifier: BSD-2-Clause
"""The other host of a check: vip_check_adapter --serve there plays the second processes, for one check.

They talk over TCP, in lines of JSON. The one that serves greets, the other one says who it is, the first starts the
programs that play second processes and tells of its host. The connection's end is the check's end. Every wait is bounded."""

import contextlib
import json
import socket
import time

import facts
import running
import steps
import strangers

PORT = 22089  # and the three after it
GREETING = "vip_check_adapter"
CONNECT_LIMIT = 20  # seconds, also for the first line of each side
START_LIMIT = 60  # until a program plays second processes
SERVE_LIMIT = 3600  # until somebody comes
# A check, and what the other host does before it, is over long before.
CHECK_LIMIT = 2 * (steps.CONFORMANCE_LIMIT + steps.LEGACY_LIMIT + 3 * steps.LIMIT) + 600
MOST_BYTES = 64 << 10  # of a line
MOST_FACTS = 1 << 20  # bytes, of the line with them
PROGRAMS = "vip_conformance", "vip_legacy", "vip_perf"


class NoOther(Exception):
    """The other host cannot be had, and why."""


def ports_from(first):
    return {program: first + 1 + i for i, program in enumerate(PROGRAMS)}


class Line:
    """A connection of lines of JSON."""

    def __init__(self, connection):
        self.connection, self._rest = connection, b""
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in ((socket.TCP_KEEPIDLE, 20), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 4)):
            connection.setsockopt(socket.IPPROTO_TCP, option, value)

    def put(self, said):
        self.connection.settimeout(CONNECT_LIMIT)
        self.connection.sendall(json.dumps(said).encode() + b"\n")

    def get(self, limit, most=MOST_BYTES):
        """Returns the next line's object; None at the end. Raises TimeoutError, or ValueError for what is none."""
        deadline = time.monotonic() + limit
        while b"\n" not in self._rest:
            self.connection.settimeout(max(0.01, deadline - time.monotonic()))
            more = self.connection.recv(1 << 16) if time.monotonic() < deadline else None
            if more is None:
                raise TimeoutError("no answer")
            if not more:
                return None
            self._rest += more
            if len(self._rest) > most:
                raise ValueError("too long a line")
        line, _, self._rest = self._rest.partition(b"\n")
        return strangers.object_in(line)


def reach(host, port, version):
    """Returns the connection, and what the other host tells of itself."""
    try:
        connection = socket.create_connection((host, port), CONNECT_LIMIT)
    except OSError as failure:
        raise NoOther("%s: TCP port %d: %s. Does \"vip_check_adapter --serve\" run there, and does a firewall let TCP "
                      "ports %d to %d through?" % (host, port, failure.strerror or failure, port, port + 3)) from failure
    line = Line(connection)
    try:
        greeting = line.get(CONNECT_LIMIT)
        if not greeting or greeting.get("is") != GREETING:
            raise NoOther("%s: what listens at TCP port %d is no vip_check_adapter" % (host, port))
        if greeting.get("version") != version:
            theirs = strangers.line(strangers.of_kind(str, greeting.get("version")))
            raise NoOther("%s has vip_check_adapter %s, and this is %s" % (host, theirs, version))
        line.put({"is": GREETING, "version": version})
        said = line.get(CHECK_LIMIT, MOST_FACTS)
        told = said and strangers.told(said)
    except ValueError as failure:
        connection.close()
        raise NoOther("%s: the other host talks nonsense (%s)" % (host, failure)) from failure
    except OSError as failure:
        connection.close()
        raise NoOther("%s: vip_check_adapter there does not answer (%s)" % (host, failure)) from failure
    except NoOther:
        connection.close()
        raise
    if not told or "failed" in told:
        connection.close()
        raise NoOther("%s: %s" % (host, told["failed"] if told else "the check there has ended"))
    return line, told


# --- the host that serves


def listener(port):
    """Listens by IPv4 and IPv6, or by IPv4 where there is no IPv6."""
    both = socket.has_dualstack_ipv6()
    return socket.create_server(("", port), family=socket.AF_INET6 if both else socket.AF_INET, dualstack_ipv6=both)


def await_client(listening, version):
    """Returns the connection of the first one that asks for a check of this version."""
    deadline = time.monotonic() + SERVE_LIMIT
    while True:
        listening.settimeout(max(0.01, deadline - time.monotonic()))
        connection, address = listening.accept()
        with contextlib.suppress(OSError, ValueError):
            line = Line(connection)
            line.put({"is": GREETING, "version": version})
            asked = line.get(CONNECT_LIMIT)
            if asked and asked.get("is") == GREETING and asked.get("version") == version:
                return line, address[0]
        connection.close()


def start_servers(check, first):
    """Starts what plays second processes, and waits until each is ready. Returns why one is not, or nothing."""
    arguments = {"vip_conformance": ["--serve=%d"], "vip_legacy": ["--serve=%d"], "vip_perf": ["server", "--port=%d"]}
    for program, port in ports_from(first).items():
        path = running.find(program, check.programs)
        if not path:
            return program + " is not installed"
        command = [word.replace("%d", str(port)) for word in arguments[program]] + ["--nic=" + check.nic]
        output = check.file(program + ".txt")
        process = running.start([path, *command], output)
        deadline = time.monotonic() + START_LIMIT
        while not any(word in output.read_text(errors="replace") for word in ("plays peers", "waits for clients")):
            if process.poll() is not None or time.monotonic() > deadline:
                return "%s --serve: %s" % (program, output.read_text(errors="replace").strip() or "it says nothing")
            time.sleep(running.LOOK)
    return None


def facts_that_fit():
    known = facts.collect()
    fits = len(json.dumps(known)) < MOST_FACTS - 2 * MOST_BYTES
    return known if fits else {"devices": {}, "programs": {}, "left out": "more than fits"}


def serve(check, port, version):
    """Plays the other host for one check. Returns the exit status."""
    with listener(port) as listening:
        check.say("waits at TCP ports %d to %d; on the other host: vip_check_adapter [--nic=NAME] THIS-HOST" % (port, port + 3))
        try:
            line, client = await_client(listening, version)
        except TimeoutError:
            check.say("nobody has come within an hour")
            return 1
    check.say("a check from %s" % client)
    nic = steps.Nic(check.nic)
    with line.connection:
        why = start_servers(check, port) if check.take(nic) else nic.said
        try:
            if why:
                line.put({"failed": strangers.line(why)})
                for each in [why, *nic.figures.get(steps.TO_DO, [])]:
                    check.say(each)
                return 1
            line.put({"facts": facts_that_fit(), "names": facts.names(), "nic": nic.figures})
            line.get(CHECK_LIMIT)
        except (OSError, ValueError) as failure:
            check.say("the other host is silent: %s" % failure)
            return 1
    check.say("the check is over")
    return 0
