# SPDX-License-Identifier: BSD-2-Clause
"""A descriptor's status in words, as vipl(7) lists them: status_words.py VIP_INFO VIP_TRACE VIPL_H VIPL_7

vip_info and vip_trace say the same of each, and the page has each bit of the header."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

INFO, TRACE, HEADER, PAGE = sys.argv[1:]
TRACED = """# vipl-trace 1 library=1.0.0 pid=1 parent=1 bits=64 host=h date=2026-11-21T18:06:36Z monotonic=1.000000000 program=p part=1
2.000000000 1 = VipRecvDone VIP_DESCRIPTOR_ERROR 50 vi=0x1 desc=0x40 status=0x%x bytes=8
3.000000000 1 { VipRecvNotify - - vi=0x1 context=0x0 handler=0x5000 desc=0x80 status=0x%x bytes=8
"""
OTHERS = {0x10021: "op=receive done flushed", 0: "op=send", 0xB0000: "op=remote-rdma-write immediate", 0x20081: "op=rdma-write done rdma-prot",
          0xFFFFFFFF: "op=7 done immediate format protection length partial flushed transport rdma-prot remote-desc reserved=0xfff0fe00"}


def ask(number):
    return subprocess.run([INFO, "--status=" + number], capture_output=True, text=True, timeout=60)


def page():
    with open(PAGE, encoding="utf-8") as file:
        return {int(number, 16): (word.replace("\\-", "-"), name)
                for number, word, name in re.findall(r"^(0x[0-9A-F]{5})  ([\w=\\-]+)(?: +(VIP_STATUS_\w+):)?", file.read(), re.M)}


def header():
    with open(HEADER, encoding="utf-8") as file:
        found = {name: int(value, 16) for name, value in re.findall(r"^#define (VIP_STATUS_\w+)\s+(0x\w+)", file.read(), re.M)}
    return {name: value for name, value in found.items() if not name.endswith(("_MASK", "_RESERVED"))}


class Words(unittest.TestCase):
    def test_the_page_has_each_bit_of_the_header(self):
        rows = page()
        self.assertEqual(sorted(header().values()), sorted(rows))
        for name, value in header().items():
            self.assertEqual(rows[value][1], name if name.endswith("_ERROR") else "", name)

    def test_programs_say_what_the_page_says(self):
        for value, (word, name) in page().items():
            with self.subTest(hex(value)):
                said = ask(hex(value)).stdout
                self.assertIn(word, said.splitlines()[0].split())
                self.assertEqual(name in said, True)
        for value in [*page(), *OTHERS]:
            with self.subTest(hex(value)), tempfile.TemporaryDirectory() as place:
                first = ask(str(value)).stdout.splitlines()[0]
                self.assertEqual(first, "0x%x: %s" % (value, OTHERS.get(value, first.split(": ")[1])))
                path = os.path.join(place, "trace")
                with open(path, "w", encoding="ascii") as file:
                    file.write(TRACED % (value, value))
                traced = subprocess.run([TRACE, path], capture_output=True, text=True, timeout=60).stdout
                self.assertRegex(traced, r"VIP_DESCRIPTOR_ERROR +%s +1 " % re.escape(first))
                self.assertIn("status=%s (%s) bytes=8" % tuple(first.split(": ")), traced)

    def test_what_is_no_status(self):
        for number in "", "0x", "-1", " 1", "12x", "0x1g", "4294967296", "0x100000000", "9" * 40, "done":
            with self.subTest(number):
                done = ask(number)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn("is no status", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
