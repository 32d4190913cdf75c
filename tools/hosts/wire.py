# SPDX-License-Identifier: BSD-2-Clause
"""The Ethernet between the guests: what one sends goes to all others. It can be cut, and drop single frames.

Each guest has one end of a pair of Unix sockets, on which a frame is preceded by its length in four bytes (QEMU's
-netdev stream). A thread moves the frames, in chunks of as many as have come. A guest that does not read loses
frames, as behind a switch; they are counted.
"""

import collections
import selectors
import socket
import struct
import threading

CHUNK = 1 << 18    # bytes that are read at once
BACKLOG = 4 << 20  # bytes that wait for a guest that does not read
LENGTH = struct.Struct("!I")
LONGEST = 68 << 10  # of a frame; QEMU has no room for longer ones

# What the ends of a connection say to each other over TCP: the codes of docs/WIRE.md.
MESSAGES = {"HERE": 1, "REQUEST": 2, "ACCEPT": 4, "CONFIRM": 5, "DISCONNECT": 10}
TCP = {12: b"\x08\x00", 23: 6}  # over IPv4


def tcp_flags(flags):
    """The bytes by which Wire.drop() knows a TCP segment with just these flags: 0x02 is SYN, 0x11 FIN and ACK."""
    return {**TCP, 47: flags}


def message(name):
    """The bytes by which Wire.drop() knows a segment with this message."""
    return {**TCP, 46: 0x80,  # the header has 32 bytes: there are timestamps
            66: b"VIPL", 71: MESSAGES[name]}


class Drop:
    """The next count frames from a host that have these bytes at these offsets vanish, or are counted."""

    def __init__(self, host, count, match, vanish=True):
        self.host = host
        self._vanish = vanish
        self.matched = 0
        self._left = count
        self._ended = False
        self._match = [(offset, bytes([value]) if isinstance(value, int) else bytes(value))
                       for offset, value in match.items()]
        self._done = threading.Event()

    def wait(self, seconds):
        """Whether all of them have come within that time."""
        return self._done.wait(seconds)

    def end(self):
        """No more of them vanish."""
        self._ended = True

    def takes(self, frame):
        if self._ended or not self._left or any(frame[offset:offset + len(value)] != value for offset, value in self._match):
            return False
        self._left -= 1
        self.matched += 1
        if not self._left:
            self._done.set()
        return self._vanish


class Port:
    """A guest's end."""

    def __init__(self, number, end):
        self.number, self.end = number, end
        self.part = b""                 # the beginning of a frame of which the rest is to come
        self.queue = collections.deque()  # what the guest has not read yet
        self.queued = 0


class Counters:
    """Of one host, in frames."""

    def __init__(self):
        self.sent = 0     # by the host
        self.cut = 0      # of these or of those for it, because the wire is cut
        self.matched = 0  # of these, by Wire.drop()
        self.lost = 0     # of those for it, because it did not read

    def __str__(self):
        return "%d sent, %d cut, %d matched, %d lost" % (self.sent, self.cut, self.matched, self.lost)


def whole_frames(data):
    """Where the last whole frame ends, and how many there are."""
    at = count = 0
    end = len(data) - LENGTH.size
    while at <= end:
        after = at + LENGTH.size + LENGTH.unpack_from(data, at)[0]
        if after > len(data):
            break
        at = after
        count += 1
    return at, count


def frames_of(data):
    """Of whole frames: each with its length before it."""
    at = 0
    while at < len(data):
        after = at + LENGTH.size + LENGTH.unpack_from(data, at)[0]
        yield data[at:after]
        at = after


class Wire:
    def __init__(self, say=lambda text: None):
        """say() is told what is done to the wire, and which host leaves it."""
        self._say = say
        self._lock = threading.Lock()  # guards all below
        self._ports = {}
        self._cut_from, self._cut_to = set(), set()
        self._drops = []
        self._counters = collections.defaultdict(Counters)
        self._selector = selectors.DefaultSelector()
        self._wake, self._waker = socket.socketpair()
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._ends = False
        self._thread = threading.Thread(target=self._run, name="wire", daemon=True)
        self._thread.start()

    # --- what tests do with it

    def cut(self, host=None, direction="both"):
        """Frames of this host, or of all, vanish: those "from" it, those "to" it, or both. Its carrier stays."""
        if direction not in ("both", "from", "to"):
            raise ValueError("the wire can be cut from a host, to it, or both, not %r" % direction)
        self._say("wire: cut, %s" % ("host%d, %s" % (host, direction) if host else "all"))
        with self._lock:
            hosts = {host} if host else {None}
            if direction != "to":
                self._cut_from |= hosts
            if direction != "from":
                self._cut_to |= hosts

    def join(self, host=None):
        """Ends all cuts of this host, or all that there are."""
        self._say("wire: joined, %s" % ("host%d" % host if host else "all"))
        with self._lock:
            if host:
                self._cut_from.discard(host)
                self._cut_to.discard(host)
            else:
                self._cut_from.clear()
                self._cut_to.clear()

    def drop(self, host, count, match):
        """The next count frames from this host vanish that have these bytes: {offset: number or bytes}.

        Offsets count from the frame's first byte. Returns a Drop, which counts them.
        """
        self._say("wire: drops %d frames from host%d" % (count, host))
        return self._add(Drop(host, count, match))

    def watch(self, host, count, match):
        """As drop(), but the frames go on: Drop.wait() waits for them."""
        return self._add(Drop(host, count, match, vanish=False))

    def _add(self, drop):
        with self._lock:
            self._drops = [other for other in self._drops if other._left] + [drop]
        return drop

    def counters(self, host):
        with self._lock:
            return self._counters[host]

    def state(self):
        """In words, for a reader who looks for the cause of a failure."""
        with self._lock:
            return "; ".join("host%d: %s, %d bytes wait for it" % (number, self._counters[number], port.queued)
                             for number, port in sorted(self._ports.items()))

    # --- for guests that come and go

    def attach(self, number):
        """The socket for this host's QEMU. Whoever had it before is off."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with self._lock:
            self._detach(number)
            self._ports[number] = port = Port(number, ours)
            self._selector.register(ours, selectors.EVENT_READ, port)
        self._waker.send(b"w")
        return theirs

    def close(self):
        self._ends = True
        self._waker.send(b"w")
        self._thread.join()
        with self._lock:
            for number in list(self._ports):
                self._detach(number)
        self._selector.close()
        self._wake.close()
        self._waker.close()

    # --- the thread, which holds the lock except while asleep

    def _run(self):
        while not self._ends:
            ready = self._selector.select()
            with self._lock:
                for key, events in ready:
                    port = key.data
                    if port is None:
                        self._wake.recv(64)
                    elif self._ports.get(port.number) is port:
                        if events & selectors.EVENT_WRITE:
                            self._write_queue(port)
                        if events & selectors.EVENT_READ:
                            self._read(port)

    def _detach(self, number, why=None):
        port = self._ports.pop(number, None)
        if port:
            if why:
                self._say("wire: host%d is off, after %s: %s" % (number, self._counters[number], why))
            self._selector.unregister(port.end)
            port.end.close()

    def _read(self, port):
        try:
            data = port.end.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            self._detach(port.number, error)
            return
        if not data:
            self._detach(port.number, "its machine has closed its end")
            return
        if port.part:
            data = port.part + data
        end, count = whole_frames(data)
        port.part = data[end:]
        if count:
            self._counters[port.number].sent += count
            self._forward(port, data[:end] if port.part else data, count)
        if len(port.part) >= LENGTH.size and LENGTH.unpack_from(port.part)[0] > LONGEST:
            self._detach(port.number, "a frame of %d bytes" % LENGTH.unpack_from(port.part))

    def _forward(self, port, data, count):
        """Of whole frames."""
        if any(drop.host == port.number and drop._left for drop in self._drops):
            kept = [frame for frame in frames_of(data) if not self._matches(port.number, frame[LENGTH.size:])]
            self._counters[port.number].matched += count - len(kept)
            data, count = b"".join(kept), len(kept)
            if not count:
                return
        if self._cut_from and not self._cut_from.isdisjoint((None, port.number)):
            self._counters[port.number].cut += count
            return
        for other in list(self._ports.values()):
            if other is port:
                continue
            if self._cut_to and not self._cut_to.isdisjoint((None, other.number)):
                self._counters[other.number].cut += count
            elif other.queued + len(data) > BACKLOG:
                self._counters[other.number].lost += count
            else:
                self._write(other, data)

    def _matches(self, number, frame):
        return any(drop.host == number and drop.takes(frame) for drop in self._drops)

    def _write(self, port, data):
        sent = 0
        if not port.queue:
            sent = self._send(port, data)
            if sent == len(data):
                return
            if sent is None:
                return
            self._selector.modify(port.end, selectors.EVENT_READ | selectors.EVENT_WRITE, port)
        rest = data[sent:]
        port.queue.append(rest)
        port.queued += len(rest)

    def _write_queue(self, port):
        while port.queue:
            data = port.queue.popleft()
            sent = self._send(port, data)
            if sent is None:
                return
            port.queued -= sent
            if sent < len(data):
                port.queue.appendleft(data[sent:])
                return
        self._selector.modify(port.end, selectors.EVENT_READ, port)

    def _send(self, port, data):
        """How many bytes the guest has taken, or None when it has gone."""
        try:
            return port.end.send(data, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return 0
        except OSError as error:
            self._detach(port.number, error)
            return None
