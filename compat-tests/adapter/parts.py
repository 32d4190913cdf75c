# SPDX-License-Identifier: BSD-2-Clause
"""vip_check_adapter's parts by themselves: parts.py SOURCES"""

import cProfile
import pathlib
import pstats
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv.pop())
import adapters  # noqa: E402
import facts  # noqa: E402
import private  # noqa: E402

GUID, GID = "0c42:a103:00ab:cdef", "0000:0000:0000:0000:0000:ffff:0a14:1e28"


class Site(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    @staticmethod
    def write(file, text):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")


class Advice(Site):
    """What it says to do without an RDMA device, by what is on the PCI bus."""

    def adapters_at(self, **files):
        root = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        for path, text in files.items():
            address, _, name = path.partition("__")
            file = root / "sys/bus/pci/devices" / ("0000:%s:00.0" % address) / name
            if name == "driver":
                (root / "sys/bus/pci/drivers" / text).mkdir(parents=True, exist_ok=True)
                file.symlink_to("../../drivers/" + text)
            elif name == "infiniband":
                (file / text).mkdir(parents=True)
            else:
                self.write(file, text)
        return root

    def test_advice_by_what_is_on_the_pci_bus(self):
        card = {"c1__class": "0x020000", "c1__vendor": "0x15b3", "c1__device": "0x1017"}
        begin = "0000:c1:00.0 is an adapter of NVIDIA (15b3:1017) without an RDMA device, and "
        for more, words in (
                ({"c1__driver": "mlx5_core"}, begin + "its driver is mlx5_core.\nAs root: modprobe -a mlx5_core mlx5_ib\nIf there"),
                ({}, begin + "has no driver.\nAs root: modprobe -a mlx5_core mlx5_ib, or modprobe -a mlx4_core mlx4_ib\nIf there"),
                ({"c1__class": "0x020700", "c1__vendor": "0x9999"}, "0000:c1:00.0 is an adapter of an unknown maker (9999:1017) "
                 "without an RDMA device, and has no driver.\nLoad its driver. \"lspci -nnk -s 0000:c1:00.0\" tells more.\nIf there"),
                ({"c1__driver": "vfio-pci"}, adapters.NO_ADAPTER), ({"c1__infiniband": "mlx5_0"}, adapters.NO_ADAPTER),
                ({"c1__class": "0x030000"}, adapters.NO_ADAPTER), ({"c1__vendor": "0x1af4"}, adapters.NO_ADAPTER)):
            with self.subTest(more):
                root = self.adapters_at(**{**card, **more})
                said = "\n".join(adapters.advice(adapters.find(root), root))
                self.assertTrue(said.startswith(words), said)
                self.assertIn(adapters.SOFT, said)
        two = {name.replace("c1", "c2"): text for name, text in card.items()}
        root = self.adapters_at(**card, **two, c1__driver="mlx5_core", c2__driver="mlx5_core")
        (root / "sys/module/mlx5_ib").mkdir(parents=True)
        said = "\n".join(adapters.advice(adapters.find(root), root))
        self.assertIn("its driver is mlx5_core.\nThe module mlx5_ib is loaded: the kernel's log", said)
        self.assertNotIn("0000:c2:00.0", said)
        self.assertNotIn("modprobe -a", said)


class Facts(Site):
    def test_facts_of_an_adapter(self):
        for path, text in (("device/vendor", "0x15b3"), ("fw_ver", "20.35.1012"), ("node_guid", GUID),
                           ("ports/1/gids/0", "fe80:0000:0000:0000:0e42:a1ff:feab:cdef"), ("ports/1/gids/1", GID),
                           ("ports/1/gids/2", "0000:0000:0000:0000:0000:0000:0000:0000"),
                           ("ports/1/gid_attrs/types/1", "RoCE v2"), ("ports/1/gid_attrs/ndevs/1", "ens1"),
                           ("ports/1/state", "4: ACTIVE"), ("ports/1/hw_counters/local_ack_timeout_err", "3")):
            self.write(self.folder / "sys/class/infiniband/mlx5_0" / path, text)
        found = facts.collect(self.folder)
        device = found["devices"]["mlx5_0"]
        self.assertEqual("20.35.1012", device["fw_ver"])
        self.assertEqual([0, 1], [gid["index"] for gid in device["ports"]["1"]["gids"]])
        self.assertEqual({"index": 1, "gid": GID, "type": "RoCE v2", "interface": "ens1"}, device["ports"]["1"]["gids"][1])
        self.assertEqual({"mlx5_0 port 1 local_ack_timeout_err": 3}, facts.error_counters(self.folder))


class Private(unittest.TestCase):
    def test_replacing_takes_time_in_proportion(self):
        """By the number of calls: on text twice as long it is not more than about twice as large."""
        for part in ":", "0:", "aa:", "1::", "1::1:", "fe80::1 ", "a", "0c42a1abcde", "1.2.", "/home/":
            calls = []
            for count in 1000, 2000:
                profile = cProfile.Profile()
                names = private.Replacer()
                names.learn_user("jane")
                profile.runcall(lambda text, names=names: (names.learn_addresses(text), names.replaces(text)), part * count)
                calls.append(pstats.Stats(profile).total_calls)
            self.assertLess(calls[1], 3 * calls[0] + 1000, part)
        self.assertEqual(":" * 40000, private.Replacer().replaces(":" * 40000))

    def test_the_same_is_the_same_and_no_more_is_replaced(self):
        names = private.Replacer()
        names.learn_host(1, "node7.example.com")
        names.learn_host(2, "node8.example.com", "10.0.0.2")
        names.keep("214.0.286.0")
        replaces = names.replaces
        self.assertEqual(replaces("10.0.0.2 10.0.0.3 10.0.0.2"), "ipv4-1 ipv4-2 ipv4-1")
        self.assertEqual(replaces("::ffff:10.0.0.2 0000:0000:0000:0000:0000:ffff:0a00:0003"), "::ffff:ipv4-1 ::ffff:ipv4-2")
        self.assertEqual(replaces("gid:fe80::1:2, (FE80::0001:0002)."), "gid:fe80::guid-1, (fe80::guid-1).")
        self.assertEqual(replaces("Node8, node7.example.com; node70 anode7"), "host-2, host-1.domain-1; node70 anode7")
        self.assertEqual(replaces("0C:42:A1:AB:CD:EF 0c-42-a1-ab-cd-ef"), "mac-1 mac-1")
        self.assertEqual(replaces("/home/jim/x:/home/Jim. /home/root"), "/home/user-1/x:/home/user-1. /home/root")
        names.learn_addresses({"node_guid": [GUID]})
        self.assertEqual(replaces("0c42:a103:00ab:cdef 0c42a10300abcdef xefcdab0003a1420c efcd:ab00:03a1:420c"),
                         "guid-2 guid-2 xguid-2 guid-2")
        same = ("12:34:56 127.0.0.1 ::1 :: 0.0.0.0 fw 214.0.286.0, 20.35.1012 std::add A::Bx 0000:c1:00.0 [ OK ] A/B.C (1 ms) "
                "00:00:00:00:00:00 255.255.255.0 {\"a\": 1} 6.1.0-25 0x7ffc01 -5:")
        self.assertEqual(replaces(same), same)


unittest.main(argv=sys.argv[:1])
