#!/usr/bin/env python3
"""check.py CASE VIP_PERF [OPTION]...: runs latency, bandwidth or cpu with the options over few sizes, and
checks in the JSON that all series and sizes are there, and what must hold of figures on any machine. How
fast it is, is no matter here.
"""

import itertools
import json
import math
import socket
import subprocess
import sys

LIMIT = 100  # seconds
TRANSFERS = {"send": "send", "write": "RDMA write", "read": "RDMA read"}
WAITS = {"poll": "polling", "block": "blocking", "spin": "spinning, then blocking"}
LEVELS = {"unreliable": ", Unreliable", "delivery": "", "reception": ", Reliable Reception"}
SOCKETS = {"tcp": "TCP", "unix": "Unix socket"}


def expect(condition, what):
    if not condition:
        sys.exit("not so: " + what)


def names(transfers=TRANSFERS, levels=("delivery",), waits=("poll", "block"), sockets=SOCKETS):
    """The series that there should be, in their order."""
    vipl = [
        f"VIPL {TRANSFERS[transfer]}, {WAITS[wait]}{LEVELS[level]}"
        for transfer, level, wait in itertools.product(transfers, levels, waits)
        if (transfer, level) != ("read", "unreliable")
    ]
    return vipl + [f"{SOCKETS[kind]}, {WAITS[wait]}" for kind in sockets for wait in waits]


def run(program, measurement, options, where=("--self",), trial_ms=1):
    few = ["--trial-ms", str(trial_ms), "--trials", "2"]
    command = [program, measurement, *where, "--json", *few, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    expect(done.returncode == 0, f"{command} ends well: {done.returncode}, {done.stderr}")
    return json.loads(done.stdout)


def points_of(report, test, series, sizes):
    """All points, when each series has each size once, and numbers for all columns."""
    expect(report["test"] == test, f"the report is of {test}: {report['test']}")
    found = [one["name"] for one in report["series"]]
    expect(found == series, f"series are {series}: {found}")
    keys = {column["key"] for column in report["columns"]}
    for one in report["series"]:
        found = [point["bytes"] for point in one["points"]]
        expect(found == sizes, f"sizes of {one['name']} are {sizes}: {found}")
        for point in one["points"]:
            expect(set(point) == keys, f"the columns are a point's keys: {point}")
            expect(all(math.isfinite(point[key]) for key in keys), f"all are numbers: {point}")
            yield point


def check_times(points):
    for point in points:
        expect(0 < point["us"] <= point["us_median"], f"the best time is best: {point}")
        expect(point["us_stderr"] >= 0, f"an error is positive: {point}")


def check_rates(points):
    for point in points:
        expect(point["MBps"] >= point["MBps_median"] > 0, f"the best rate is best: {point}")
        expect(point["MBps_stderr"] >= 0, f"an error is positive: {point}")


def check_load(report, points):
    for point in points:
        for key in ("percent_client", "percent_server"):
            expect(0 < point[key] < 150, f"{key} is of one thread, mostly: {point}")
        most = 100 * report["host"]["cpus"]
        expect(0 <= point["percent_system"] <= most, f"the host has no more than its CPUs: {point}")
        expect(point["us"] > 0 and point["MBps"] > 0, f"something has gone: {point}")


def latency(program, options):
    """What one gets without options, but over fewer sizes."""
    report = run(program, "latency", ["--to", "64", *options])
    check_times(points_of(report, "latency", names(), [1, 2, 4, 8, 13, 16, 19, 29, 32, 35, 61, 64, 67]))
    expect("remarks" not in report, f"nothing is left out: {report.get('remarks')}")


def check_all(program, options, levels):
    wanted = ["--level", ",".join(levels), "--wait", ",".join(WAITS)]
    report = run(program, "latency", [*wanted, "--from", "16", "--to", "8k", "--factor", "512", *options])
    series = names(levels=levels, waits=WAITS)
    check_times(points_of(report, "latency", series, [13, 16, 19, 8189, 8192, 8195]))
    return report.get("remarks", [])


def latency_of_all(program, options):
    """Every transfer at every reliable level with every way of waiting."""
    expect(not check_all(program, options, ["delivery", "reception"]), "nothing is left out")


def latency_unreliable(program, options):
    """At the other one, too; what cannot be is named."""
    remarks = check_all(program, options, ["unreliable"])
    expect(len(remarks) == len(WAITS), f"only reads are left out: {remarks}")


def latency_chosen(program, options):
    """One transfer, one level, one way of waiting, no sockets; each but once."""
    wanted = ["--transfer", "write,write", "--level", "reception", "--wait", "spin", "--no-sockets"]
    report = run(program, "latency", [*wanted, "--from", "5", "--to", "5", *options])
    series = names(["write"], ["reception"], ["spin"], [])
    check_times(points_of(report, "latency", series, [5]))


def bandwidth(program, options):
    report = run(program, "bandwidth", ["--to", "1M", "--factor", "16", "--perturb", "3", *options])
    sizes = [size + by for size in (64, 1024, 16384, 262144) for by in (-3, 0, 3)]
    check_rates(points_of(report, "bandwidth", names(), sizes))


def bandwidth_of_longest(program, options):
    """Sizes end with the longest that the NIC takes, and that is said."""
    wanted = ["--from", "8M", "--to", "16M", "--perturb", "1", "--transfer", "send", "--wait", "poll"]
    report = run(program, "bandwidth", [*wanted, "--sockets", "unix", *options])
    series = names(["send"], waits=["poll"], sockets=["unix"])
    check_rates(points_of(report, "bandwidth", series, [(8 << 20) - 1, 8 << 20]))
    expect(len(report["remarks"]) == 1, f"longer ones are left out: {report['remarks']}")


def check_stream(program, options, level):
    wanted = ["--stream", "--to", "1M", "--factor", "128", "--level", level, *options]
    report = run(program, "bandwidth", wanted)
    check_rates(points_of(report, "bandwidth of a stream", names(levels=[level]), [64, 8192, 1 << 20]))
    expect(report["depth"] == 16, f"the depth is told: {report['depth']}")


def stream(program, options):
    check_stream(program, options, "delivery")


def stream_unreliable(program, options):
    check_stream(program, options, "unreliable")


def stream_of_depths(program, options):
    """The least of messages under way and of buffers, and many."""
    for more in (["--depth", "2", "--buffers", "1"], ["--depth", "512", "--buffers", "512"]):
        wanted = ["--stream", "--from", "1", "--to", "32", "--factor", "32", *more, *options]
        report = run(program, "bandwidth", wanted)
        check_rates(points_of(report, "bandwidth of a stream", names(), [1, 32]))


def cpu(program, options):
    report = run(program, "cpu", ["--to", "4096", "--factor", "32", *options], trial_ms=30)
    series = names(["send"], waits=WAITS, sockets=["tcp"])
    check_load(report, points_of(report, "cpu", series, [4, 128, 4096]))


def cpu_of_stream(program, options):
    wanted = ["--stream", "--from", "4k", "--to", "4k", "--wait", "block", *options]
    report = run(program, "cpu", wanted, trial_ms=30)
    series = names(["send"], waits=["block"], sockets=["tcp"])
    check_load(report, points_of(report, "cpu of a stream", series, [4096]))


def with_server(program, options):
    """Sockets, too, when the server is a program of its own: by TCP, and as this is one host, Unix."""
    with socket.socket() as free:
        free.bind(("", 0))
        port = ["--port", str(free.getsockname()[1])]
    server = subprocess.Popen([program, "server", "--once", *port, *options])
    try:
        wanted = ["--from", "100", "--to", "100", *port, *options]
        report = run(program, "latency", wanted, where=["localhost"])
        check_times(points_of(report, "latency", names(), [97, 100, 103]))
        expect(server.wait(timeout=LIMIT) == 0, "the server ends, too")
    finally:
        server.kill()
        server.wait()


def nothing(program, options):
    """A run in which all is left out fails, and so does one without a size."""
    wanted = ["--self", "--transfer", "read", "--level", "unreliable", "--no-sockets"]
    for more in (wanted, ["--self", "--from", "64", "--to", "63"]):
        command = [program, "latency", *more, *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        expect(done.returncode == 1 and not done.stdout, f"{command} fails: {done.returncode}")


def usage(program, _):
    """What is asked for wrongly is a usage error."""
    for wrong in (
        ["latency", "--self", "--wait", "poll,never"],
        ["latency", "--self", "--transfer", "send,push"],
        ["latency", "--self", "--level", "high"],
        ["latency", "--self", "--sockets", "tcp,udp"],
        ["latency", "--self", "--sockets", "tcp", "--no-sockets"],
        ["latency", "--self", "--from", "0"],
        ["latency", "--self", "--to", "2G"],
        ["latency", "--self", "--factor", "1"],
        ["latency", "--self", "--perturb", "-1"],
        ["latency", "--self", "--trials", "0"],
        ["latency", "--self", "--trial-ms", "0"],
        ["latency", "--self", "--stream"],
        ["bandwidth", "--self", "--depth", "8"],
        ["bandwidth", "--self", "--stream", "--depth", "1"],
        ["bandwidth", "--self", "--stream", "--buffers", "0"],
    ):
        done = subprocess.run([program, *wrong], capture_output=True, text=True, timeout=LIMIT)
        expect(done.returncode == 2, f"{wrong} is a usage error: {done.returncode}")


def main():
    case, program, *options = sys.argv[1:]
    cases = (latency, latency_of_all, latency_unreliable, latency_chosen, bandwidth)
    cases += (bandwidth_of_longest, stream, stream_unreliable, stream_of_depths, cpu, cpu_of_stream, with_server, nothing, usage)
    {one.__name__: one for one in cases}[case](program, options)


main()
