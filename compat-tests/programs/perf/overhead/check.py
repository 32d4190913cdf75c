#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""check.py PROGRAM NIC overhead_CASE: runs a case of vip_perf overhead and checks its JSON.

It does not check the cost of VIPL: that would need a quiet machine.
"""

import os
import sys

sys.dont_write_bytecode = True  # tests leave the sources alone
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from vip_perf_runs import NIC, expect, json_of, run, run_case  # noqa: E402

PAIRS = 3
FEW = ["--pairs", str(PAIRS), "--iterations", "10"]


def check(case):
    results = json_of("overhead", "--case", case, *FEW, where=())
    unit = "MBps" if "stream" in case else "us"
    expect(list(results) == [case], f"the case that was asked for: {list(results)}")
    result = results[case]
    keys = {"ratio", "pairs", "raw_" + unit, "vipl_" + unit}
    expect(set(result) == keys, f"what is told: {result}")
    expect(result["pairs"] == PAIRS, f"all pairs: {result}")
    expect(all(value > 0 for value in result.values()), f"positive figures: {result}")


def test_overhead_has_no_verbs():
    """On a NIC without verbs it has to say so, and must fail."""
    code, out, err = run("overhead", "--nic", NIC, "--json", "--case", "rc_send_8B", *FEW)
    expect(code == 1, "status 1", code)
    expect("no RDMA device" in err, "the reason", err)
    expect(not out, "no figures", out)


for name in ("rc_send_8B", "uc_send_4KiB", "rc_write_64KiB", "rc_send_wait_8B",
             "rc_send_wait_limited_4KiB", "rc_stream_1MiB"):
    globals()["test_overhead_" + name] = lambda case=name: check(case)
run_case(globals())
