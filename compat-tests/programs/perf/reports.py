#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""reports.py PROGRAM NIC CASE: runs a measurement of vip_perf with little work, and checks its JSON.

It checks what holds on any machine: the reports have all series and points, figures that depend on each other
fit, counts are right. It does not check speed.
"""
import itertools
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True  # tests leave the sources alone

from vip_perf_runs import (  # noqa: E402
    NIC, PROGRAM, SECONDS, Client, Server, command, expect, json_of, run, run_case)

LOOPBACK = NIC == "via_lo"
KIB = 1024

# Keys of a point whose values ascend, in all reports that have them.
ASCENDING = (("us_min", "us", "us_max"), ("us_min", "us_median", "us_max"), ("MBps_median", "MBps"),
             ("rate_min", "rate_max", "rate"))


def near(value, should_be):
    return math.isclose(value, should_be, rel_tol=1e-6, abs_tol=1e-6)


def check(report, test, points=None, remarks=0):
    """Checks what all reports have in common. Returns the points, by series. `points` has the first column's values."""
    expect(report["test"] == test, "the test", report["test"])
    for key in ("vip_perf", "host", "time", "nic", "peer", "command"):
        expect(key in report, "what was measured where", key)
    expect(remarks is None or len(report.get("remarks", [])) == remarks, "the remarks", report.get("remarks"))
    keys = [column["key"] for column in report["columns"]]
    found = {series["name"]: series["points"] for series in report["series"]}
    for name, those in found.items():
        if points is not None:
            expect([point[keys[0]] for point in those] == list(points), "the points", name, points, those)
        for point in those:
            expect(those and set(point) <= set(keys), "keys that are columns", keys, point)
            expect(all(math.isfinite(value) for value in point.values() if isinstance(value, (int, float))),
                   "numbers", point)
            expect(all(point.get(key, 1) > 0 for key in ("us_min", "open_us", "register_us", "MBps")),
                   "times and rates are positive", point)
            expect(all(value >= 0 for key, value in point.items() if key.endswith("_stderr")), "errors", point)
            for chain in ASCENDING:
                values = [point[key] for key in chain if key in point]
                expect(values == sorted(values), "order", chain, point)
    return found


# --- latency, bandwidth, cpu -------------------------------------------------------------------------

TRANSFERS = {"send": "send", "write": "RDMA write", "read": "RDMA read"}
WAITS = {"poll": "polling", "block": "blocking", "spin": "spinning, then blocking"}
LEVELS = {"unreliable": ", Unreliable", "delivery": "", "reception": ", Reliable Reception"}
SOCKETS = {"tcp": "TCP", "unix": "Unix socket"}
BARE = ["Bare copy, polling"]
LITTLE = "--bare --no-sockets --transfer send --perturb 0 --wait".split()


def names(transfers=TRANSFERS, levels=("delivery",), waits=("poll", "block"), sockets=SOCKETS):
    """Returns the expected series, in their order."""
    vipl = [f"VIPL {TRANSFERS[transfer]}, {WAITS[wait]}{LEVELS[level]}"
            for transfer, level, wait in itertools.product(transfers, levels, waits)
            if (transfer, level) != ("read", "unreliable")]
    return vipl + [f"{SOCKETS[kind]}, {WAITS[wait]}" for kind in sockets for wait in waits]


def sweep(words, sizes, series, remarks=0, trial_ms=1, where=("--self",)):
    """Checks a report that has each of the sizes in each of the series."""
    measurement, *options = words if isinstance(words, list) else words.split()
    report = json_of(measurement, "--trial-ms", str(trial_ms), "--trials", "2", *options, where=where)
    found = check(report, measurement + (" of a stream" if "--stream" in options else ""), sizes, remarks)
    expect(list(found) == series, "the series", series, list(found))
    wanted = int(options[options.index("--depth") + 1]) if "--depth" in options else 16
    expect("--stream" not in options or report["depth"] == wanted, "the depth", report.get("depth"))
    for point in itertools.chain(*found.values()):
        expect(measurement != "latency" or 0 < point["us"] <= point["us_median"], "the best time is best", point)
        for key in ("percent_client", "percent_server"):
            expect(0 < point.get(key, 1) < 150, "the load of one thread, mostly", point)
        expect(0 <= point.get("percent_system", 0) <= 100 * report["host"]["cpus"], "the load of the host", point)
    return report


PERTURBED = [13, 16, 19, 8189, 8192, 8195]
FEW = "--from 16 --to 8k --factor 512"
STREAM = "bandwidth --stream"
SHORT_STREAM = [64, 8192, 1 << 20]
# By the test's name: the words, and what sweep() takes after them.
SWEEPS = {
    # A run without options, except that it has fewer sizes.
    "latency": ("latency --to 64", [1, 2, 4, 8, 13, 16, 19, 29, 32, 35, 61, 64, 67], names()),
    "latency_of_all": (f"latency --level delivery,reception --wait poll,block,spin {FEW}", PERTURBED,
                       names(levels=["delivery", "reception"], waits=WAITS)),
    # Remarks name the transfers that the level does not have: reads.
    "latency_unreliable": (f"latency --level unreliable --wait poll,block,spin {FEW}", PERTURBED,
                           names(levels=["unreliable"], waits=WAITS), len(WAITS)),
    # Repeated values count once.
    "latency_chosen": ("latency --transfer write,write --level reception --wait spin --no-sockets --from 5 --to 5", [5],
                       names(["write"], ["reception"], ["spin"], [])),
    "bandwidth": ("bandwidth --to 1M --factor 16 --perturb 3",
                  [size + by for size in (64, 1024, 16384, 262144) for by in (-3, 0, 3)], names()),
    # The sizes end with the longest message of the NIC, and a remark says so.
    "bandwidth_of_longest": ("bandwidth --transfer send --wait poll --sockets unix --from 8M --to 16M --perturb 1",
                             [(8 << 20) - 1, 8 << 20], names(["send"], waits=["poll"], sockets=["unix"]), 1),
    "stream": (f"{STREAM} --to 1M --factor 128", SHORT_STREAM, names()),
    "stream_unreliable": (f"{STREAM} --to 1M --factor 128 --level unreliable", SHORT_STREAM,
                          names(levels=["unreliable"]), 2),
    # The least number of messages under way and of buffers, and many.
    "stream_of_few": (f"{STREAM} --from 1 --to 32 --factor 32 --depth 2 --buffers 1", [1, 32], names()),
    "stream_of_many": (f"{STREAM} --from 1 --to 32 --factor 32 --depth 512 --buffers 512", [1, 32], names()),
    "cpu": ("cpu --to 4096 --factor 32", [4, 128, 4096], names(["send"], waits=WAITS, sockets=["tcp"]), 0, 30),
    "cpu_of_stream": ("cpu --stream --from 4k --to 4k --wait block", [4096],
                      names(["send"], waits=["block"], sockets=["tcp"]), 0, 30),
}
for case, row in SWEEPS.items():
    globals()["test_" + case] = lambda those=row: sweep(*those)


def test_with_server():
    """The server is a program of its own on this host. If it seems to be on another one, what needs one is left out."""
    words = "latency --bare --from 100 --to 100 --wait poll"
    vipl, tcp, unix = names(waits=["poll"], sockets=[]), ["TCP, polling"], ["Unix socket, polling"]
    with Server() as server:
        sweep(words, [97, 100, 103], vipl + tcp + unix + BARE, where=server.address())
        report = sweep(words, [97, 100, 103], vipl + tcp, 2, where=["127.0.0.2", "--port", str(server.port)])
        expect(report["remarks"] == [f"left out: {name}: the two sides are on two hosts" for name in unix + BARE],
               "it says so", report)


def test_bare():
    """A bare copy polls, also if the others block. A word, a copy, and streams with few buffers and with many."""
    series = names(["send"], waits=["block"], sockets=[]) + BARE
    sweep(["latency", *LITTLE, *"block --from 1 --to 4k --factor 8".split()], [1, 8, 64, 512, 4096], series)
    for more in ("--depth 2 --buffers 1", "--depth 8"):
        words = f"block --stream --from 8 --to 1M --factor 512 {more}".split()
        sweep(["bandwidth", *LITTLE, *words], [8, 4096], series)


def test_one_trial():
    """The error of one trial is unknown, which differs from zero."""
    words = "--from 8 --to 8 --no-sockets --transfer send --wait poll --trial-ms 1 --trials 1".split()
    for measurement, key in (("latency", "us"), ("bandwidth", "MBps")):
        point = json_of(measurement, *words)["series"][0]["points"][0]
        expect(point[key] > 0 and point[key + "_stderr"] is None, "null in JSON", point)
        _, out, _ = run(measurement, "--self", "--nic", NIC, *words)
        expect(out.split()[-1] == "-", "- in the table", out)


def test_nothing():
    """A run without any possible series fails, and so does a run with sizes beyond the NIC's limit."""
    for more, why in (("--transfer read --level unreliable --no-sockets", "nothing of what"),
                      ("--from 1G --to 1G", "no size from")):
        code, out, err = run("latency", "--self", *more.split(), "--nic", NIC)
        expect(code == 1 and not out and why in err, "it fails", more, code, out, err)


# --- echo, connect, logp -----------------------------------------------------------------------------

RANGES = {"small": range(16, KIB + 1, 16), "medium": range(KIB, 64 * KIB + 1, KIB),
          "large": range(64 * KIB, 2048 * KIB + 1, 32 * KIB)}


def check_echo(report, size_range, names_, samples):
    found = check(report, "echo", RANGES[size_range])
    expect(list(found) == [f"{name}, {size_range}" for name in names_], "the series", list(found))
    for point in itertools.chain(*found.values()):
        size, us, error = (point[key] for key in ("bytes", "us", "us_stderr"))
        expect(point["samples"] in samples and error <= point["us_max"] - point["us_min"], "the samples", point)
        expect(near(point["MBps"], size / us) and near(point["MBps_stderr"], size / us**2 * error) and
               near(point["MBps_max"], size / point["us_min"]), "the throughput", point)


def test_echo():
    """VIPL and TCP take turns at each size."""
    both = ["VIPL send, polling", "TCP, polling"]
    for size_range, sizes in RANGES.items():
        with tempfile.TemporaryFile() as output:
            words = ["echo", "--self", "--json", "--range", size_range, "--samples", "3"]
            client = Client(command(*words), output)
            expect(client.await_end() == 0, "it works", client.said[-300:])
            output.seek(0)
            check_echo(json.load(output), size_range, both, [3])
        turns = [f"{name}, {size} bytes" for size in sizes for name in both]
        expect(client.all_progress() == turns, "turns", client.all_progress())


def test_echo_usual():
    """Without --samples there are 64, or fewer where they take long, but at least 10. There may be only one way."""
    check_echo(json_of("echo", "--only", "vipl", "--range", "small"), "small", ["VIPL send, polling"], range(10, 65))


def check_connect(report, only=None):
    """Returns the numbers of samples."""
    wholes, parts = ["connection", "disconnection"], ["create", "connect", "disconnect", "destroy"]
    wanted = {"VIPL": wholes, "VIPL, parts": parts, "TCP": wholes}
    if only:
        wanted = {name: what for name, what in wanted.items() if name.startswith(only)}
    elif not LOOPBACK:
        wanted |= {"queue pairs": wholes, "queue pairs, parts": parts}
    found = {name: {point["what"]: point for point in points} for name, points in check(report, "connect").items()}
    expect({name: list(points) for name, points in found.items()} == wanted, "the series", found)
    for name in (name for name in found if name + ", parts" in found):
        part = found[name + ", parts"]
        for whole, of in zip(wholes, (parts[:2], parts[2:])):
            expect(near(found[name][whole]["us"], sum(part[one]["us"] for one in of)), "the sum of the parts", found)
    return {point["samples"] for points in found.values() for point in points.values()}


def test_connect():
    expect(check_connect(json_of("connect", "--count", "25")) == {25}, "25 samples")
    found = check_connect(json_of("connect", "--only", "TCP", "--count", "2"), "TCP")
    expect(found == {2}, "fewer connections than turns", found)


def test_connect_usual():
    """Without --count there are 1000, or fewer where they take long, but the same number in each of ten turns."""
    (count,) = check_connect(json_of("connect", "--only", "vipl"), "VIPL")
    expect(20 <= count <= 1000 and count % 10 == 0, "ten turns of 2 to 100", count)


def test_logp():
    series = check(json_of("logp"), "logp")
    found = {point["what"]: point["us"] for point in series["LogP"]}
    bursts = {point["messages"]: point["us"] for point in series["bursts"]}
    delays = series["bursts with delays"]
    # g is a difference of two times, and may have any value on a busy machine.
    expect(found["o_s"] > 0 and found["RTT / 2"] > 0 and min(bursts.values()) > 0, "times are positive", found, bursts)
    expect(near(found["L"] + found["o_s"] + found["o_r"], found["RTT / 2"]), "half the round trip", found)
    expect(near(found["g"], (1024 * bursts[1024] - 256 * bursts[256]) / (1024 - 256)), "the slope", found, bursts)
    expect(near(found["o_r"], delays[-1]["us"] - found["o_s, delayed"]), "o_r", found, delays)
    expect(near(delays[-1]["delay_us"], 16 * delays[0]["delay_us"]), "the longest delay", delays)
    sizes = [[point["bytes"] for point in series["RTT / 2, " + form]] for form in ("immediate", "plain", "fenced")]
    usual = [4, 16, 32, 48, 64, 128, 256, 512]
    expect(sizes == [[4], usual, usual], "the sizes of the forms", sizes)


# --- scale, crowd, waking, overhead ------------------------------------------------------------------

def test_json():
    """Each of these reports is complete, and over via_lo has at least one figure."""
    with tempfile.TemporaryDirectory() as directory:
        for question in ("vis --to 4", "cq", "segments", "buffers", "mtu", "memory"):
            report = json_of("scale", "--question", *question.split())
            check(report, "scale-" + question.split()[0], remarks=None)
            path = Path(directory) / "report.json"
            path.write_text(json.dumps(report))
            done = LOOPBACK and subprocess.run(
                [PROGRAM + "_plot", "--format", "svg", "--output", directory + "/figure", path], capture_output=True,
                text=True, timeout=SECONDS)
            expect(not done or done.returncode == 0 and done.stdout, "figures", question, done)


def test_json_of_several():
    """Words may be in capitals, and an option may be given several times."""
    mtu, memory = json_of("scale", "--question", "MEMORY", "--question", "mtu", "--wait", "Poll")
    check(mtu, "scale-mtu")
    check(memory, "scale-memory", [4096 << 2 * i for i in range(8)])


def test_used_vis():
    """The figures of scale for each VI, except times, within one report."""
    found = check(json_of("scale", "--question", "vis", "--to", "4"), "scale-vis", [1, 2, 4])
    raw = [] if LOOPBACK else ["raw queue pairs, own CQs", "raw queue pairs, a CQ each"]
    expect(list(found) == ["own queues", "one CQ", "a CQ each", *raw], "the series", list(found))
    for name, points in found.items():
        keys = {"pair_KiB", "client_files", "server_files"} | (set() if "raw" in name else {"look_ns"})
        expect(all(keys <= set(point) for point in points), "the keys", name, points)


def crowd(question, words, points, num_series, **equal):
    """Checks a report whose points have equal values of these two keys."""
    found = check(json_of("crowd", "--question", question, *words.split()), "crowd-" + question, points)
    expect(len(found) >= num_series, "the series", list(found))
    for point in itertools.chain(*found.values()):
        expect(not point.get("failed"), "no failure", point)
        expect(all(point[one] == point[other] for one, other in equal.items()), "all", point)
    return found


def test_storm():
    found = crowd("storm", "--clients 12 --processes 3", [1, 10, 12], 2, connected="clients")
    for points in found.values():
        expect([point["processes"] for point in points] == [1, 3, 3], "in processes", points)


def test_threads():
    """Three servers, two ways to wait."""
    crowd("threads", "--threads 4", [1, 2, 4], 6)


def test_mesh():
    found = crowd("mesh", "--processes 5", [2, 4, 5], 2, connected="pairs")
    for points in found.values():
        expect([point["pairs"] for point in points] == [1, 6, 10], "the pairs", points)


def test_waking():
    (points,) = check(json_of("waking", "--pairs", "2", "--iterations", "20"), "waking",
                      ["futex", "futex, watched in memory", "message, watched in memory"]).values()
    expect(points[0]["ratio"] == 1 and all(point["ratio"] > 0 for point in points), "the ratio", points)


def test_overhead_has_no_verbs():
    """On a NIC without verbs it says so, and fails."""
    code, out, err = run("overhead", "--nic", NIC, "--json", "--case", "rc_send_8B")
    expect(code == 1 and "no RDMA device" in err and not out, "it fails", code, out, err)


def overhead(case):
    results = json_of("overhead", "--case", case, "--pairs", "3", "--iterations", "10", where=())
    unit = "MBps" if "stream" in case else "us"
    expect(list(results) == [case] and set(results[case]) == {"ratio", "pairs", "raw_" + unit, "vipl_" + unit},
           "the case and what is told", results)
    expect(results[case]["pairs"] == 3 and all(value > 0 for value in results[case].values()), "the figures", results)


for case in ("rc_send_8B", "uc_send_4KiB", "rc_write_64KiB", "rc_send_wait_8B", "rc_send_wait_limited_4KiB",
             "rc_stream_1MiB"):
    globals()["test_overhead_" + case] = lambda name=case: overhead(name)
run_case(globals())
