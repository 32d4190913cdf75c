# SPDX-License-Identifier: BSD-2-Clause
"""Hosts for tests: QEMU guests with an rxe device each, on one virtual Ethernet.

    with Hosts(2) as hosts:
        server = hosts[1].start("vip_pingpong")
        client = hosts[2].run("vip_pingpong host1", seconds=60)

hosts.py has Hosts and Host, job.py what runs on a host, guest.py the virtual machine, wire.py the Ethernet.
"""

from .guest import GuestDied, GuestError, NoStart
from .hosts import Host, Hosts, TimeIsOver
from .job import Job
from .wire import TCP, Wire, message, tcp_flags

__all__ = ["GuestDied", "GuestError", "Host", "Hosts", "Job", "NoStart", "TCP", "TimeIsOver", "Wire", "message",
           "tcp_flags"]
