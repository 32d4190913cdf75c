#!/usr/bin/env python3
"""check.py VIP_PERF [--fails] CASE [OPTION]...: runs a case of vip_perf overhead and checks its JSON.

--fails: where there are no verbs it has to say so, and must not pass. How much VIPL costs is no matter
here: that needs a quiet machine.
"""

import json
import subprocess
import sys

LIMIT = 100  # seconds
PAIRS = 3


def expect(condition, what):
    if not condition:
        sys.exit("not so: " + what)


def run(program, case, *options):
    command = [program, "overhead", "--case", case, "--pairs", str(PAIRS), "--iterations", "50", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)


def check(program, case, *options):
    done = run(program, case, "--json", *options)
    expect(done.returncode == 0, f"status 0: {done.returncode}, {done.stderr}")
    results = json.loads(done.stdout)
    unit = "MBps" if "stream" in case else "us"
    expect(list(results) == [case], f"the case that was asked for: {list(results)}")
    result = results[case]
    expect(set(result) == {"ratio", "pairs", "raw_" + unit, "vipl_" + unit}, f"what is told: {result}")
    expect(result["pairs"] == PAIRS, f"all pairs: {result}")
    expect(all(value > 0 for value in result.values()), f"positive figures: {result}")


def check_fails(program, case, *options):
    done = run(program, case, "--json", *options)
    expect(done.returncode == 1, f"status 1: {done.returncode}")
    expect("no RDMA device" in done.stderr, f"the reason: {done.stderr}")
    expect(not done.stdout, f"no figures: {done.stdout}")


if __name__ == "__main__":
    if sys.argv[2] == "--fails":
        check_fails(sys.argv[1], *sys.argv[3:])
    else:
        check(sys.argv[1], *sys.argv[2:])
