# SPDX-License-Identifier: BSD-2-Clause
"""The network adapters on the PCI bus: which of them could be RDMA devices and are none, and what to do about that."""

import pathlib

import facts

# By vendor: its name, and the kernel's modules of its adapters and of their RDMA devices.
MODULES = {"0x15b3": ("NVIDIA", {"mlx5_core": "mlx5_ib", "mlx4_core": "mlx4_ib"}),
           "0x14e4": ("Broadcom", {"bnxt_en": "bnxt_re"}),
           "0x8086": ("Intel", {"ice": "irdma"}),
           "0x1077": ("Marvell", {"qede": "qedr"}),
           "0x10df": ("Emulex", {"be2net": "ocrdma"}),
           "0x19e5": ("Huawei", {"hns3": "hns_roce_hw_v2"}),
           "0x1414": ("Microsoft", {"mana": "mana_ib"})}
ETHERNET, INFINIBAND = "0x0200", "0x0207"
PACKAGES = """If there is no such module, install the other modules of the kernel (Debian: linux-image-amd64, not the cloud
kernel; Ubuntu: linux-modules-extra-$(uname -r); Red Hat: kernel-modules-extra), or the maker's drivers.
Programs need the device's provider, too: the package ibverbs-providers (Red Hat: libibverbs).
Then "rdma link" shows the port."""
NO_ADAPTER = """No adapter on the PCI bus is known to have RDMA. Is the card in its place, and switched on in the machine's
firmware? "lspci -nn" lists what is there."""
SOFT = """To try libvipl without a card, as root, if eth0 is an Ethernet interface with an address (soft-RoCE):
modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0"""


def find(root=pathlib.Path("/")):
    """Returns them by address."""
    found = {}
    for entry in facts.entries(root / "sys/bus/pci/devices"):
        one = facts.texts_of(entry, ("class", "vendor", "device"))
        one["class"] = one.get("class", "")[:6]
        if one["class"] in (ETHERNET, INFINIBAND):
            driver = entry / "driver"
            one["driver"] = driver.resolve().name if driver.exists() else None
            one["RDMA devices"] = [each.name for each in facts.entries(entry / "infiniband")]
            found[entry.name] = one
    return found


def without_device(found):
    """Yields those that could be RDMA devices: one of each kind, with its address, its maker, and the modules that it may have.
    Other drivers of a vendor are for adapters without RDMA."""
    kinds = set()
    for address, one in found.items():
        maker, modules = MODULES.get(one.get("vendor"), ("an unknown maker", {}))
        if one["driver"]:
            modules = {driver: rdma for driver, rdma in modules.items() if driver == one["driver"]}
        kind = one.get("vendor"), one["driver"]
        if not one["RDMA devices"] and (modules or one["class"] == INFINIBAND) and kind not in kinds:
            kinds.add(kind)
            yield address, one, maker, modules


def advice(found, root=pathlib.Path("/")):
    """Yields what to do for an RDMA device."""
    is_any = False
    for address, one, maker, modules in without_device(found):
        is_any = True
        yield "%s is an adapter of %s (%s:%s) without an RDMA device, and %s." % (
            address, maker, one.get("vendor", "")[2:], one.get("device", "")[2:],
            "its driver is " + one["driver"] if one["driver"] else "has no driver")
        loaded = [rdma for rdma in modules.values() if one["driver"] and (root / "sys/module" / rdma).exists()]
        if loaded:
            yield "The module %s is loaded: the kernel's log (dmesg) says why it makes no device." % loaded[0]
            yield "RDMA may be switched off: \"devlink dev param show pci/%s\" (enable_roce, enable_rdma)." % address
        elif modules:
            yield "As root: " + ", or ".join("modprobe -a %s %s" % each for each in modules.items())
        else:
            yield "Load its driver. \"lspci -nnk -s %s\" tells more." % address
    yield from (PACKAGES if is_any else NO_ADAPTER).splitlines()
    yield from SOFT.splitlines()
