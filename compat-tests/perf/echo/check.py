#!/usr/bin/env python3
"""check.py CASE VIP_PERF [OPTION]...: runs a measurement of vip_perf, with the options, and checks
its JSON.

What can be asserted on any machine: that all points are there, that figures which follow from each
other do, and that what is asked for wrongly is a usage error. How fast it is, is no matter here.
"""

import json
import math
import socket
import subprocess
import sys

KIB = 1024
RANGES = {
    "small": range(16, KIB + 1, 16),
    "medium": range(KIB, 64 * KIB + 1, KIB),
    "large": range(64 * KIB, 2048 * KIB + 1, 32 * KIB),
}
LIMIT = 100  # seconds


def expect(condition, what):
    if not condition:
        sys.exit("not so: " + what)


def expect_near(is_, should_be, what, relative=1e-6):
    expect(
        math.isclose(is_, should_be, rel_tol=relative, abs_tol=1e-6),
        f"{what}: {is_}, and should be {should_be}",
    )


def report_of(program, measurement, options, where=("--self",)):
    command = [program, measurement, *where, "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    expect(done.returncode == 0, f"{command}: {done.returncode}, {done.stderr}")
    report = json.loads(done.stdout)
    expect(report["test"] == measurement, "the report is of the test")
    return report


def series_of(report):
    return {series["name"]: series["points"] for series in report["series"]}


def by_what(points):
    return {point["what"]: point for point in points}


def expect_usage_error(program, *arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=LIMIT)
    expect(done.returncode == 2, f"{arguments} is a usage error: {done.returncode}")


def check_echo_point(point, size, samples):
    expect(point["bytes"] == size and point["samples"] == samples, f"size and samples of {point}")
    expect(0 < point["us_min"] <= point["us"] <= point["us_max"], f"order of times in {point}")
    expect(point["us_stderr"] <= point["us_max"] - point["us_min"], f"spread in {point}")
    expect_near(point["MBps"], size / point["us"], "throughput")
    expect_near(point["MBps_stderr"], size / point["us"] ** 2 * point["us_stderr"], "its error")
    expect_near(point["MBps_max"], size / point["us_min"], "the most")


def echo(program, options):
    """All sizes of each range, as many samples as asked for."""
    for name, sizes in RANGES.items():
        wanted = ["--only", "vipl", "--range", name, "--samples", "3", *options]
        series = series_of(report_of(program, "echo", wanted))
        expect(list(series) == ["VIPL send, polling, " + name], f"series of {name}: {list(series)}")
        points = series["VIPL send, polling, " + name]
        expect(len(points) == len(sizes), f"{len(points)} sizes, {name}")
        for point, size in zip(points, sizes):
            check_echo_point(point, size, 3)


def echo_both(program, options):
    """VIPL and TCP by turns: the same sizes of both, each in its series."""
    wanted = ["--range", "small", "--samples", "3", *options]
    series = series_of(report_of(program, "echo", wanted))
    names = ["VIPL send, polling, small", "TCP, polling, small"]
    expect(list(series) == names, f"series: {list(series)}")
    for points in series.values():
        expect(len(points) == len(RANGES["small"]), f"{len(points)} sizes")
        for point, size in zip(points, RANGES["small"]):
            check_echo_point(point, size, 3)


def echo_usual(program, options):
    """Without --samples: 64, or fewer where they take long, but 10."""
    report = report_of(program, "echo", ["--only", "vipl", "--range", "small", *options])
    (points,) = series_of(report).values()
    expect(all(10 <= point["samples"] <= 64 for point in points), "10 to 64 samples")
    for point, size in zip(points, RANGES["small"]):
        check_echo_point(point, size, point["samples"])


def check_connect(report, count):
    series = series_of(report)
    expect(list(series) == ["VIPL", "VIPL, parts", "TCP"], f"series: {list(series)}")
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


def connect(program, options):
    check_connect(report_of(program, "connect", ["--count", "25", *options]), 25)


def connect_few(program, options):
    """Fewer connections than turns, and one transport."""
    for count in (2, 11):
        wanted = ["--only", "tcp", "--count", str(count), *options]
        (points,) = series_of(report_of(program, "connect", wanted)).values()
        expect(all(point["samples"] == count for point in points), f"{count} samples in {points}")


def connect_host(program, options):
    """The same with a server of its own."""
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as free:
        free.bind(("::", 0))
        port = str(free.getsockname()[1])
    server = subprocess.Popen([program, "server", "--once", "--port", port, *options])
    try:
        where = ["localhost", "--port", port]
        check_connect(report_of(program, "connect", ["--count", "10", *options], where), 10)
        expect(server.wait(LIMIT) == 0, "the server ends well")
    finally:
        server.kill()


def logp(program, options):
    series = series_of(report_of(program, "logp", options))
    found = {what: point["us"] for what, point in by_what(series["LogP"]).items()}
    bursts = {point["messages"]: point["us"] for point in series["bursts"]}
    delays = series["bursts with delays"]
    # Differences of two times, as g is one, may be anything on a busy machine.
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


def usage(program, _options):
    expect_usage_error(program, "echo", "--self", "--samples", "1")
    expect_usage_error(program, "echo", "--self", "--range", "huge")
    expect_usage_error(program, "echo", "--self", "--only", "udp")
    expect_usage_error(program, "connect", "--self", "--count", "1")
    expect_usage_error(program, "connect", "--self", "--count", "20001")
    expect_usage_error(program, "logp")


CASES = (echo, echo_both, echo_usual, connect, connect_few, connect_host, logp, usage)

if __name__ == "__main__":
    case, program, *options = sys.argv[1:]
    {function.__name__: function for function in CASES}[case](program, options)
