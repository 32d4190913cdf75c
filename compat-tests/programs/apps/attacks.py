# SPDX-License-Identifier: BSD-2-Clause
"""What others can send to a process that has a NIC open: attacks.py KIND. It says "done" and stays, for what it has sent
ends with it. strangers.py runs it, as another user."""

import array
import contextlib
import errno
import os
import socket
import struct
import sys
import threading
import time

KIND = sys.argv[1]
kept = []


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


def send(to, data, count=1, address=None):
    """Sends lingering connections, and has them no more: what is under way is the last one."""
    files = [lingering() for _ in range(count)]
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file.fileno() for file in files]))
    try:
        to.sendmsg([data], [rights], socket.MSG_DONTWAIT, *[address] * bool(address))
        for file in files:  # here it may take hours, too: if the other process has done so already
            threading.Thread(target=file.close, daemon=True).start()
    except OSError as error:
        kept.extend(files)
        if error.errno not in (errno.EPERM, errno.EPIPE, errno.ECONNRESET, errno.EAGAIN, errno.ECONNREFUSED):
            raise


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


def hello(kind, wanted):
    return struct.pack("<IHHHHIIIQQQ16sBB20s20s6x", 0x4c504956, VERSION, kind, 2, 0, 1024, 1, 0, 0, 0, 0, bytes(16), 1,
                       len(wanted), b"x", wanted)


VERSION = int(sys.argv[2])

if KIND == "bell":
    for name in names(b"vipl-bell-"):
        for data in b"x", bytes(8), bytes.fromhex(name[-16:].decode()):
            send(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), data, address=name)
elif KIND == "status":
    for name in names(b"vipl-status-") * 20:
        send(connect(socket.SOCK_STREAM, name), b"x")
elif KIND == "rendezvous":
    for count in [1, 5] * 20:
        send(connect(socket.SOCK_SEQPACKET, rendezvous(b"besieged")), b"x" * (count - 1), count)
elif KIND == "hello":
    for count in [1, 2, 5] * 10:
        send(connect(socket.SOCK_SEQPACKET, rendezvous(b"besieged")), hello(1, b"besieged"), count)
elif KIND == "impostor":
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(rendezvous(b"impostor"))
    listener.listen(100)
    for count in [1, 5] * 20:
        requester, _ = listener.accept()
        kept.append(requester)
        send(requester, hello(2, b""), count)
print("done", flush=True)
sys.stdin.read()
os._exit(0)
