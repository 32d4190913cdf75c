#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""check.py PROGRAM NIC CASE: runs echo, connect or logp of vip_perf, and checks its JSON.

It checks what holds on any machine: the reports have all points, figures that depend on each other
fit, and wrong options are usage errors. It does not check speed.
"""

import json
import math
import os
import sys
import tempfile

sys.dont_write_bytecode = True  # tests leave the sources alone
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from vip_perf_runs import (  # noqa: E402
    NIC, Client, Server, command, expect, expect_usage_error, json_of, run_case)

KIB = 1024
RANGES = {
    "small": range(16, KIB + 1, 16),
    "medium": range(KIB, 64 * KIB + 1, KIB),
    "large": range(64 * KIB, 2048 * KIB + 1, 32 * KIB),
}


def expect_near(is_, should_be, what, relative=1e-6):
    expect(
        math.isclose(is_, should_be, rel_tol=relative, abs_tol=1e-6),
        f"{what}: {is_}, and should be {should_be}",
    )


def report_of(measurement, *options, **more):
    report = json_of(measurement, *options, **more)
    expect(report["test"] == measurement, "the report is of the test")
    keys = {column["key"] for column in report["columns"]}
    for points in series_of(report).values():
        expect(all(set(point) <= keys for point in points), f"keys that are columns: {points[0]}")
    return report


def series_of(report):
    return {series["name"]: series["points"] for series in report["series"]}


def by_what(points):
    return {point["what"]: point for point in points}


def check_echo_point(point, size, samples):
    expect(point["bytes"] == size and point["samples"] == samples, f"size and samples of {point}")
    expect(0 < point["us_min"] <= point["us"] <= point["us_max"], f"order of times in {point}")
    expect(point["us_stderr"] <= point["us_max"] - point["us_min"], f"spread in {point}")
    expect_near(point["MBps"], size / point["us"], "throughput")
    expect_near(point["MBps_stderr"], size / point["us"] ** 2 * point["us_stderr"], "its error")
    expect_near(point["MBps_max"], size / point["us_min"], "the most")


def test_echo():
    """The report has all sizes of each range, with the requested number of samples."""
    for name, sizes in RANGES.items():
        series = series_of(report_of("echo", "--only", "vipl", "--range", name, "--samples", "3"))
        expect(list(series) == ["VIPL send, polling, " + name], f"series of {name}: {list(series)}")
        points = series["VIPL send, polling, " + name]
        expect(len(points) == len(sizes), f"{len(points)} sizes, {name}")
        for point, size in zip(points, sizes):
            check_echo_point(point, size, 3)


def test_echo_both():
    """VIPL and TCP take turns at each size, each with a series of its own."""
    with tempfile.TemporaryFile() as output:
        words = ["echo", "--self", "--json", "--range", "small", "--samples", "3"]
        client = Client(command(*words), output)
        expect(client.await_end() == 0, "it works", client.said[-300:])
        output.seek(0)
        series = series_of(json.load(output))
    names = ["VIPL send, polling", "TCP, polling"]
    turns = [f"{name}, {size} bytes" for size in RANGES["small"] for name in names]
    expect(client.all_progress() == turns, "turns", client.all_progress())
    expect(list(series) == [f"{name}, small" for name in names], f"series: {list(series)}")
    for points in series.values():
        expect(len(points) == len(RANGES["small"]), f"{len(points)} sizes")
        for point, size in zip(points, RANGES["small"]):
            check_echo_point(point, size, 3)


def test_echo_usual():
    """Without --samples there are 64, or fewer where they take long, but at least 10."""
    report = report_of("echo", "--only", "vipl", "--range", "small")
    (points,) = series_of(report).values()
    expect(all(10 <= point["samples"] <= 64 for point in points), "10 to 64 samples")
    for point, size in zip(points, RANGES["small"]):
        check_echo_point(point, size, point["samples"])


def check_connect(report, count):
    series = series_of(report)
    bare = [] if NIC == "via_lo" else ["queue pairs", "queue pairs, parts"]
    expect(list(series) == ["VIPL", "VIPL, parts", "TCP", *bare], f"series: {list(series)}")
    for points in series.values():
        for point in points:
            expect(point["samples"] == count, f"{count} samples in {point}")
            for middle in ("us", "us_median"):
                expect(0 < point["us_min"] <= point[middle] <= point["us_max"], f"order in {point}")
    whole, parts = by_what(series["VIPL"]), by_what(series["VIPL, parts"])
    sums = {"connection": ("create", "connect"), "disconnection": ("disconnect", "destroy")}
    for name, of in sums.items():
        expect_near(whole[name]["us"], sum(parts[part]["us"] for part in of), name)
    expect(set(by_what(series["TCP"])) == {"connection", "disconnection"}, "TCP's points")
    expect(report["too_early"] >= 0, "tries that came too early are told")


def test_connect():
    check_connect(report_of("connect", "--count", "25"), 25)


def test_connect_usual():
    """Without --count there are 1000, or fewer where they take long, but the same number in each
    of ten turns."""
    report = report_of("connect", "--only", "vipl")
    counts = {point["samples"] for points in series_of(report).values() for point in points}
    (count,) = counts
    expect(20 <= count <= 1000 and count % 10 == 0, "ten turns of 2 to 100", count)


def test_connect_few():
    """There are fewer connections than turns, and one transport."""
    for count in (2, 11):
        report = report_of("connect", "--only", "tcp", "--count", str(count))
        (points,) = series_of(report).values()
        expect(all(point["samples"] == count for point in points), f"{count} samples in {points}")


def test_connect_host():
    """The server is a program of its own."""
    with Server("--once") as server:
        check_connect(report_of("connect", "--count", "10", where=server.address()), 10)
        server.expect_end()


def test_logp():
    series = series_of(report_of("logp"))
    found = {what: point["us"] for what, point in by_what(series["LogP"]).items()}
    bursts = {point["messages"]: point["us"] for point in series["bursts"]}
    delays = series["bursts with delays"]
    # g is a difference of two times, and may have any value on a busy machine.
    expect(found["o_s"] > 0 and found["RTT / 2"] > 0, f"parameters: {found}")
    expect_near(found["L"] + found["o_s"] + found["o_r"], found["RTT / 2"], "half the round trip")
    expect_near(found["g"], (1024 * bursts[1024] - 256 * bursts[256]) / (1024 - 256), "the slope")
    expect_near(found["o_r"], delays[-1]["us"] - found["o_s, delayed"], "o_r")
    expect_near(delays[-1]["delay_us"], 16 * delays[0]["delay_us"], "the longest delay")
    expect(all(point["us"] > 0 for point in series["bursts"]), "a message in a burst takes time")
    forms = {name: [point["bytes"] for point in series["RTT / 2, " + name]]
             for name in ("immediate", "plain", "fenced")}
    expect(forms["immediate"] == [4] and forms["plain"] == forms["fenced"], f"sizes: {forms}")
    expect(forms["plain"] == [4, 16, 32, 48, 64, 128, 256, 512], f"sizes: {forms}")


def test_echo_connect_logp_usage():
    expect_usage_error("echo", "--self", "--samples", "1")
    expect_usage_error("echo", "--self", "--range", "huge")
    expect_usage_error("connect", "--self", "--count", "20001")
    expect_usage_error("logp")


run_case(globals())
