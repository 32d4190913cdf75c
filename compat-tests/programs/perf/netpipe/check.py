#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""check.py PROGRAM NIC CASE: runs latency, bandwidth or cpu of vip_perf over few sizes. It checks that the JSON
has all series and sizes, and conditions that hold for figures on any machine. It does not check speed.
"""

import itertools
import math
import os
import sys

sys.dont_write_bytecode = True  # tests leave the sources alone
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from vip_perf_runs import (  # noqa: E402
    NIC, Server, expect, expect_usage_error, json_of, run, run_case)

TRANSFERS = {"send": "send", "write": "RDMA write", "read": "RDMA read"}
WAITS = {"poll": "polling", "block": "blocking", "spin": "spinning, then blocking"}
LEVELS = {"unreliable": ", Unreliable", "delivery": "", "reception": ", Reliable Reception"}
SOCKETS = {"tcp": "TCP", "unix": "Unix socket"}


def names(transfers=TRANSFERS, levels=("delivery",), waits=("poll", "block"), sockets=SOCKETS):
    """Returns the expected series, in their order."""
    vipl = [
        f"VIPL {TRANSFERS[transfer]}, {WAITS[wait]}{LEVELS[level]}"
        for transfer, level, wait in itertools.product(transfers, levels, waits)
        if (transfer, level) != ("read", "unreliable")
    ]
    return vipl + [f"{SOCKETS[kind]}, {WAITS[wait]}" for kind in sockets for wait in waits]


def report_of(measurement, *options, trial_ms=1, **more):
    return json_of(measurement, "--trial-ms", str(trial_ms), "--trials", "2", *options, **more)


def points_of(report, test, series, sizes):
    """Returns all points, after checking that each series has each size once, and numbers for all columns."""
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


def test_one_trial():
    """The error of one trial is unknown, which differs from zero."""
    words = ["--from", "8", "--to", "8", "--no-sockets", "--transfer", "send", "--wait", "poll",
             "--trial-ms", "1", "--trials", "1"]
    for measurement, key in (("latency", "us"), ("bandwidth", "MBps")):
        point = json_of(measurement, *words)["series"][0]["points"][0]
        expect(point[key] > 0 and point[key + "_stderr"] is None, "null in JSON", point)
        _, out, _ = run(measurement, "--self", "--nic", NIC, *words)
        expect(out.split()[-1] == "-", "- in the table", out)


def check_load(report, points):
    for point in points:
        for key in ("percent_client", "percent_server"):
            expect(0 < point[key] < 150, f"{key} is of one thread, mostly: {point}")
        most = 100 * report["host"]["cpus"]
        expect(0 <= point["percent_system"] <= most, f"the host has no more than its CPUs: {point}")
        expect(point["us"] > 0 and point["MBps"] > 0, f"something has gone: {point}")


def test_latency():
    """Checks a run without options, except that it has fewer sizes."""
    report = report_of("latency", "--to", "64")
    sizes = [1, 2, 4, 8, 13, 16, 19, 29, 32, 35, 61, 64, 67]
    check_times(points_of(report, "latency", names(), sizes))
    expect("remarks" not in report, f"nothing is left out: {report.get('remarks')}")


def check_all(levels):
    wanted = ["--level", ",".join(levels), "--wait", ",".join(WAITS)]
    report = report_of("latency", *wanted, "--from", "16", "--to", "8k", "--factor", "512")
    series = names(levels=levels, waits=WAITS)
    check_times(points_of(report, "latency", series, [13, 16, 19, 8189, 8192, 8195]))
    return report.get("remarks", [])


def test_latency_of_all():
    """Checks every transfer at every reliable level with every way of waiting."""
    expect(not check_all(["delivery", "reception"]), "nothing is left out")


def test_latency_unreliable():
    """Checks the unreliable level. A remark names the transfers that it does not have."""
    remarks = check_all(["unreliable"])
    expect(len(remarks) == len(WAITS), f"only reads are left out: {remarks}")


def test_latency_chosen():
    """Chooses one transfer, one level, one way of waiting and no sockets. Repeated values count once."""
    wanted = ["--transfer", "write,write", "--level", "reception", "--wait", "spin", "--no-sockets"]
    report = report_of("latency", *wanted, "--from", "5", "--to", "5")
    series = names(["write"], ["reception"], ["spin"], [])
    check_times(points_of(report, "latency", series, [5]))


def test_bandwidth():
    report = report_of("bandwidth", "--to", "1M", "--factor", "16", "--perturb", "3")
    sizes = [size + by for size in (64, 1024, 16384, 262144) for by in (-3, 0, 3)]
    check_rates(points_of(report, "bandwidth", names(), sizes))


def test_bandwidth_of_longest():
    """The sizes end with the longest message of the NIC, and a remark says so."""
    wanted = ["--transfer", "send", "--wait", "poll", "--sockets", "unix"]
    report = report_of("bandwidth", *wanted, "--from", "8M", "--to", "16M", "--perturb", "1")
    series = names(["send"], waits=["poll"], sockets=["unix"])
    check_rates(points_of(report, "bandwidth", series, [(8 << 20) - 1, 8 << 20]))
    expect(len(report["remarks"]) == 1, f"longer ones are left out: {report['remarks']}")


def check_stream(level):
    wanted = ["--stream", "--to", "1M", "--factor", "128", "--level", level]
    report = report_of("bandwidth", *wanted)
    series = names(levels=[level])
    check_rates(points_of(report, "bandwidth of a stream", series, [64, 8192, 1 << 20]))
    expect(report["depth"] == 16, f"the depth is told: {report['depth']}")


def test_stream():
    check_stream("delivery")


def test_stream_unreliable():
    check_stream("unreliable")


def test_stream_of_depths():
    """Tries the least number of messages under way and of buffers, and many."""
    for more in (["--depth", "2", "--buffers", "1"], ["--depth", "512", "--buffers", "512"]):
        wanted = ["--stream", "--from", "1", "--to", "32", "--factor", "32", *more]
        report = report_of("bandwidth", *wanted)
        check_rates(points_of(report, "bandwidth of a stream", names(), [1, 32]))


def test_cpu():
    report = report_of("cpu", "--to", "4096", "--factor", "32", trial_ms=30)
    series = names(["send"], waits=WAITS, sockets=["tcp"])
    check_load(report, points_of(report, "cpu", series, [4, 128, 4096]))


def test_cpu_of_stream():
    wanted = ["--stream", "--from", "4k", "--to", "4k", "--wait", "block"]
    report = report_of("cpu", *wanted, trial_ms=30)
    series = names(["send"], waits=["block"], sockets=["tcp"])
    check_load(report, points_of(report, "cpu of a stream", series, [4096]))


def test_with_server():
    """The server is a program of its own. Sockets work, also Unix sockets, because it is on this host."""
    with Server("--once") as server:
        report = report_of("latency", "--from", "100", "--to", "100", where=server.address())
        check_times(points_of(report, "latency", names(), [97, 100, 103]))
        server.expect_end()


def test_bare():
    """A bare copy polls, also if the others block. Tries a word, a copy, and streams with few buffers and
    with many."""
    series = names(["send"], waits=["block"], sockets=[]) + ["Bare copy, polling"]
    words = ["--bare", "--no-sockets", "--transfer", "send", "--wait", "block", "--perturb", "0"]
    report = report_of("latency", *words, "--from", "1", "--to", "4k", "--factor", "8")
    check_times(points_of(report, "latency", series, [1, 8, 64, 512, 4096]))
    for more in (["--depth", "2", "--buffers", "1"], ["--depth", "8"]):
        streams = words + ["--stream", "--from", "8", "--to", "1M", "--factor", "512", *more]
        check_rates(points_of(report_of("bandwidth", *streams), "bandwidth of a stream", series, [8, 4096]))


def test_bare_with_server():
    """The server is a program of its own. The bare copy is left out if the server seems to be on another
    host."""
    words = ["--bare", "--no-sockets", "--transfer", "send", "--wait", "poll", "--from", "9", "--to", "9"]
    series = names(["send"], waits=["poll"], sockets=[])
    with Server() as server:
        report = report_of("latency", *words, where=server.address())
        check_times(points_of(report, "latency", series + ["Bare copy, polling"], [9]))
        report = report_of("latency", *words, where=["127.0.0.2", "--port", str(server.port)])
        check_times(points_of(report, "latency", series, [9]))
        expect(report["remarks"] == ["left out: Bare copy, polling: the two sides are on two hosts"],
               "it says so", report.get("remarks"))


def test_nothing():
    """A run without any possible series fails, and so does a run with sizes beyond the NIC's limit."""
    for more, why in (
        (["--transfer", "read", "--level", "unreliable", "--no-sockets"], "nothing of what"),
        (["--from", "1G", "--to", "1G"], "no size from"),
    ):
        code, out, err = run("latency", "--self", *more, "--nic", NIC)
        expect(code == 1 and not out and why in err, "it fails", more, code, out, err)


def test_netpipe_usage():
    """Wrong options are usage errors."""
    for wrong in (
        ["latency", "--self", "--transfer", "send,push"],
        ["latency", "--self", "--sockets", "tcp", "--no-sockets"],
        ["latency", "--self", "--to", "2G"],
        ["latency", "--self", "--factor", "1"],
        ["latency", "--self", "--from", "65", "--to", "64"],
        ["latency", "--self", "--stream"],
        ["bandwidth", "--self", "--depth", "8"],
        ["bandwidth", "--self", "--stream", "--depth", "2", "--buffers", "3"],
    ):
        expect_usage_error(*wrong)


run_case(globals())
