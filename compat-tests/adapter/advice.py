# SPDX-License-Identifier: BSD-2-Clause
"""What vip_check_adapter says to do without an RDMA device, by what is on the PCI bus: advice.py SOURCES"""

import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv.pop())
import adapters  # noqa: E402


class Advice(unittest.TestCase):
    def adapters_at(self, **files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = pathlib.Path(folder.name)
        for path, text in files.items():
            address, _, name = path.partition("__")
            file = root / "sys/bus/pci/devices" / ("0000:%s:00.0" % address) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            if name == "driver":
                (root / "sys/bus/pci/drivers" / text).mkdir(parents=True, exist_ok=True)
                file.symlink_to("../../drivers/" + text)
            elif name == "infiniband":
                (file / text).mkdir(parents=True)
            else:
                file.write_text(text + "\n")
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


unittest.main(argv=sys.argv[:1])
