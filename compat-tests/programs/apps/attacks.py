# SPDX-License-Identifier: BSD-2-Clause
"""What others can send to a process that has a NIC open: attacks.py KIND VERSION WHAT. It says "done" and stays, for what it
has sent ends with it. WHAT is what it sends: "lingering" connections, "nested" Unix sockets, or files of a directory. Two
kinds attack nobody: "fuse" makes files in this directory that never finish closing, and "ask" connects as a peer does.
strangers.py runs it, as another user."""

import array
import contextlib
import ctypes
import errno
import os
import socket
import struct
import sys
import threading
import time

DEPTH = 50  # of sockets in sockets
MANY_FILES = 300
kept = []
spare = []


def names(prefix):
    with open("/proc/net/unix", "rb") as table:
        return [b"\0" + line.split()[7][1:] for line in table if b" @" + prefix in line]


def lingering():
    """A connection that makes whoever closes it last wait for hours."""
    listener, file = socket.socket(), socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    listener.bind(("127.0.0.1", 0))
    listener.listen(1)
    file.connect(listener.getsockname())
    kept.append((listener, listener.accept()))
    with contextlib.suppress(BlockingIOError):
        while True:
            file.send(bytes(65536), socket.MSG_DONTWAIT)
    file.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 10000))
    return file


def rights(files):
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file.fileno() for file in files]))]


def nested():
    """A socket that has a socket unread, which has another one, and so on, and the last one a connection that lingers."""
    file = lingering()
    for _ in range(DEPTH):
        ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            ends[0].sendmsg([b"x"], rights([file]))
        except OSError as error:  # Linux allows a few at least
            if error.errno != errno.ETOOMANYREFS:
                raise
            break
        if file.family == socket.AF_UNIX:
            file.close()
        else:
            threading.Thread(target=file.close, daemon=True).start()
        file = ends[1]
    return file


class File:
    """Its page waits to be written to a program that does not answer. It stays open here, for closing it takes for ever, too."""

    family = None
    count = 0

    def __init__(self):
        File.count += 1
        self.descriptor = os.open("%s/%d-%d" % (WHAT, os.getpid(), File.count), os.O_RDWR)
        os.write(self.descriptor, bytes(4096))

    def fileno(self):
        return self.descriptor

    def close(self):
        pass


MAKERS = {"lingering": lingering, "nested": nested}


def send(to, data, count=1, address=None):
    """Sends what takes long to close, and has it no more: what is under way is the last one. False if it was not sent."""
    files = [spare.pop() if spare else MAKERS.get(WHAT, File)() for _ in range(count)]
    try:
        to.sendmsg([data], rights(files), socket.MSG_DONTWAIT, *[address] * bool(address))
        for file in files:  # here it may take hours, too: if the other process has done so already
            threading.Thread(target=file.close, daemon=True).start()
        return True
    except OSError as error:
        spare.extend(files)
        if error.errno not in (errno.EPERM, errno.EPIPE, errno.ECONNRESET, errno.EAGAIN, errno.ECONNREFUSED):
            raise
        return False


def rendezvous(discriminator, place=0):
    return b"\0vipl-0-%s-%d" % (discriminator.hex().encode(), place)


def connect(kind, name):
    """Connects as soon as there is somebody."""
    for _ in range(10000):
        file = socket.socket(socket.AF_UNIX, kind)
        with contextlib.suppress(ConnectionError):
            file.connect(name)
            kept.append(file)
            return file
        time.sleep(0.001)
    raise OSError("nobody listens")


def message(code, wanted):
    """A message of libvipl/connect/message.h, of a VI with Reliable Delivery."""
    return struct.pack(">4sBBBBB3xI20s20s72x", b"VIPL", int(VERSION), code, 2, 1, len(wanted), 1024, b"x", wanted)


def flood(kind, name, count):
    """Connections as fast as they are taken. Most have a message with a descriptor of a file that nothing is wrong with."""
    _, writer = os.pipe()
    for i in range(count):
        file = connect(kind, name)
        with contextlib.suppress(OSError):
            file.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [writer] * (i % 4)))])
        kept.pop().close()


def ask():
    """As a peer does, until the other one rejects it."""
    while True:
        file = connect(socket.SOCK_SEQPACKET, rendezvous(b"besieged"))
        file.send(message(2, b"besieged"))
        answer = file.recv(4096)
        while answer[5:6] == b"\1":  # HERE
            answer = file.recv(4096)
        kept.pop().close()
        if answer[5:6] == b"\6":  # REJECT
            return


def attributes_of_fuse(node):
    return struct.pack("<6Q10I", node, 0, 0, 0, 0, 0, 0, 0, 0, 0o40755 if node == 1 else 0o100666, 1, 0, 0, 0, 4096, 0)


def answer_of_fuse(operation, unique, node):
    """None: never."""
    return {1: struct.pack("<4Q2I", unique, 0, 9999, 9999, 0, 0) + attributes_of_fuse(unique),  # LOOKUP: a new file
            3: struct.pack("<Q2I", 9999, 0, 0) + attributes_of_fuse(node),
            4: struct.pack("<Q2I", 9999, 0, 0) + attributes_of_fuse(node),
            14: struct.pack("<Q2I", 1, 0, 0),
            26: struct.pack("<4I2H2I2HI28x", 7, 31, 65536, 1 << 16, 12, 9, 65536, 1, 0, 0, 0),  # it writes back, later
            16: None, 20: None, 25: None, 38: None}.get(operation, b"")


def fuse(directory):
    """A file system whose files are opened and written to, and never flushed."""
    device = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    options = b"fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other" % device
    if libc.mount(b"strangers", directory.encode(), b"fuse", 6, options):
        raise OSError(ctypes.get_errno(), "mount")
    print("done", flush=True)
    while True:
        try:
            request = os.read(device, 1 << 20)
        except OSError as error:
            if error.errno in (errno.EINTR, errno.ENOENT):
                continue
            return
        _, operation, unique, node = struct.unpack_from("<IIQQ", request)
        answer = answer_of_fuse(operation, unique, node)
        if operation in (2, 42) or answer is None:  # FORGET, BATCH_FORGET; and what is never answered
            continue
        code = 0 if answer or operation in (18, 27) else -errno.ENOSYS
        with contextlib.suppress(OSError):
            os.write(device, struct.pack("<IiQ", 16 + len(answer), code, unique) + answer)


if __name__ == "__main__":
    KIND, VERSION, WHAT = sys.argv[1:]
    if KIND == "fuse":
        fuse(WHAT)
    elif KIND == "ask":
        ask()
    elif KIND == "status":
        for name in names(b"vipl-status-") * 20:
            send(connect(socket.SOCK_STREAM, name), b"x")
    elif KIND == "flood":
        for name in names(b"vipl-status-"):
            flood(socket.SOCK_STREAM, name, 1000)
        flood(socket.SOCK_SEQPACKET, rendezvous(b"besieged"), 3000)
    elif KIND == "rendezvous":
        for count in [1, 5] * 20:
            send(connect(socket.SOCK_SEQPACKET, rendezvous(b"besieged")), b"x" * (count - 1), count)
        sent = 0 if "/" in WHAT else MANY_FILES
        while sent < MANY_FILES:
            sent += send(connect(socket.SOCK_SEQPACKET, rendezvous(b"besieged")), b"x")
    elif KIND == "request":
        for count in [1, 2, 5] * 10:
            send(connect(socket.SOCK_SEQPACKET, rendezvous(b"besieged")), message(2, b"besieged"), count)
    elif KIND == "impostor":
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(rendezvous(b"impostor"))
        listener.listen(100)
        for count in [1, 5] * 20:
            requester, _ = listener.accept()
            kept.append(requester)
            send(requester, message(4, b""), count)
    else:
        sys.exit("no such attack: " + KIND)
    print("done", flush=True)
    sys.stdin.read()
    os._exit(0)
