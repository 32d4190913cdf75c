#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""check.py PROGRAM NIC CASE: checks the counts of vip_perf crowd, the comparisons of waking, and
the figures of scale for VIs that were used. It does not check times and rates."""
import pathlib
import sys

sys.dont_write_bytecode = True  # tests leave the sources alone
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

from vip_perf_runs import NIC, expect, json_of, run_case  # noqa: E402


def points_of(question, *words):
    """Returns the points of a report without remarks, by series."""
    report = json_of("crowd", "--question", question, *words)
    expect(report["test"] == "crowd-" + question, "the test's name", report["test"])
    expect("remarks" not in report, "nothing to remark", report.get("remarks"))
    return {series["name"]: series["points"] for series in report["series"]}


def test_storm():
    found = points_of("storm", "--clients", "12", "--processes", "3")
    expect(list(found) == ["one after the other in each process", "all at once"], "two series", found)
    for points in found.values():
        expect([point["clients"] for point in points] == [1, 10, 12], "by clients", points)
        expect([point["processes"] for point in points] == [1, 3, 3], "in processes", points)
        for point in points:
            expect(point["connected"] == point["clients"] and not point["failed"], "all", point)


def test_order():
    """A correct library names nothing out of order."""
    found = points_of("order", "--rounds", "40")
    expect("Reliable Delivery" in found, "by level", found)
    for level, points in found.items():
        expect([point["rounds"] for point in points] == [40, 40, 2], "three tests", points)
        for point in points:
            expect(point["disorder"] == 0, "in order", level, point)


def test_threads():
    found = points_of("threads", "--threads", "4")
    expect(len(found) == 6, "three servers, two ways to wait", found)
    for points in found.values():
        expect([point["threads"] for point in points] == [1, 2, 4], "by threads", points)


def test_mesh():
    found = points_of("mesh", "--processes", "5")
    expect(list(found) == ["peer requests", "client and server"], "two ways", found)
    for points in found.values():
        expect([point["pairs"] for point in points] == [1, 6, 10], "by processes", points)
        for point in points:
            expect(point["connected"] == point["pairs"] and not point["failed"], "all", point)


def test_used_vis():
    """Checks the figures of scale for each VI, except times, within one report."""
    report = json_of("scale", "--question", "vis", "--to", "4")
    names = [series["name"] for series in report["series"]]
    expect(names[:3] == ["own queues", "one CQ", "a CQ each"], "the series", names)
    expect(names[3:] == ([] if NIC == "via_lo" else
                         ["raw queue pairs, own CQs", "raw queue pairs, a CQ each"]),
           "and raw ones where there are verbs", names)
    for series in report["series"]:
        expect([point["vis"] for point in series["points"]] == [1, 2, 4], "by VIs", series)
        for point in series["points"]:
            for key in ("pair_KiB", "client_files", "server_files"):
                expect(key in point, key, point)
            expect("raw" in series["name"] or point["look_ns"] > 0, "looks", point)


def test_waking():
    report = json_of("waking", "--pairs", "2", "--iterations", "20")
    points = report["series"][0]["points"]
    expect([point["what"] for point in points] == ["futex", "futex, watched in memory", "message, watched in memory"],
           "what is compared", points)
    expect(points[0]["ratio"] == 1 and all(point["ratio"] > 0 for point in points), "the ratio", points)


run_case(globals())
