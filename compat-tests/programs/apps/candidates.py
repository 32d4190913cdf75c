# SPDX-License-Identifier: BSD-2-Clause
"""What vip_info and vip_run say of RDMA devices in awkward states, and that VIs connect by the names of those that can be used:
candidates.py VIP_INFO VIP_RUN PAIR VIP_PINGPONG PUPPET

It adds soft-RoCE devices, behind those that are there: on an interface that is down, on one without an IPv4 address, on one
with two addresses and a VLAN, on one in the same subnet as that, with an IPv6 address that stays tentative, because the
detection of duplicates takes a day, on a bond with a VLAN, on one of the bond's two interfaces, on a bridge and on a macvlan."""

import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from puppet import Puppet, connect, eventually

INFO, RUN, PAIR, PINGPONG, PUPPET = sys.argv[1:]
# And their interfaces, with an i in front.
DEVICES = ["vipdown", "vipnone", "vipvlan", "vipsame", "vipbond", "vippart", "vipbrid", "vipmac"]
OTHERS = ["ivipless", "ivipport", "ivipbase"]
PATIENCE = 60
RESOURCE, NOT_REACHABLE = 3, 15  # VIP_ERROR_RESOURCE, VIP_NOT_REACHABLE
SETUP = """
ip link add ivipdown type dummy; ip address add 10.77.1.1/24 dev ivipdown
ip link add ivipnone type dummy; ip link set ivipnone up
ip link add ivipvlan type dummy; ip link set ivipvlan up
ip address add 10.77.3.1/24 dev ivipvlan; ip address add 10.77.3.2/24 dev ivipvlan; ip address add fd00:77::1/64 dev ivipvlan nodad
ip link add link ivipvlan name ivip.100 type vlan id 100; ip link set ivip.100 up
ip address add 10.77.100.1/24 dev ivip.100; ip address add fd00:77:100::1/64 dev ivip.100 nodad
ip link add ivipsame type dummy; ip link set ivipsame arp on
echo 1 >/proc/sys/net/ipv6/conf/ivipsame/accept_dad; echo 100000000 >/proc/sys/net/ipv6/neigh/ivipsame/retrans_time_ms
ip link set ivipsame up; ip address add 10.77.3.4/24 dev ivipsame
ip address add fd00:77:4::1/64 dev ivipsame; ip address add fd00:77:4::2/64 dev ivipsame nodad
ip address add fd00:77:4::3/64 dev ivipsame nodad preferred_lft 0
ip link add ivipbond type bond mode active-backup miimon 50
for each in ivippart ivipless; do
ip link add $each type dummy; ip link set $each master ivipbond; ip link set $each up; done
ip link set ivipbond up; ip address add 10.77.5.1/24 dev ivipbond
ip link add link ivipbond name ivipb.200 type vlan id 200; ip link set ivipb.200 up; ip address add 10.77.200.1/24 dev ivipb.200
ip link add ivipport type veth peer name ivippeer; ip link add ivipbrid type bridge; ip link set ivipport master ivipbrid
ip link set ivipport up; ip link set ivippeer up; ip link set ivipbrid up; ip address add 10.77.6.1/24 dev ivipbrid
ip link add ivipbase type dummy; ip link set ivipbase up; ip link add ivipmac link ivipbase type macvlan
ip link set ivipmac up; ip address add 10.77.7.1/24 dev ivipmac; ip address add fd00:77:7::1/64 dev ivipmac nodad
"""


def run(*command, **environment):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, "VIPL_LOG": "info", **environment})


def shell(*lines, check=True):
    return subprocess.run(["sh", "-ec" if check else "-c", "\n".join(lines)], capture_output=True, text=True, check=check).stdout


def ours(text):
    """Of the list, the lines of our devices, without addresses that the kernel has chosen."""
    return [re.sub("nic[0-9]+ ", "nicN ", line).split() for line in text.splitlines()
            if re.match(r"    (nic\d+|by name|no) +vip", line) and "fe80:" not in line and " vippart " not in line]


def expect_message(pair):
    server, client = pair
    server.do("r = room", "VipPostRecv VI r 0")
    client.do("s = room", "VipPostSend VI s 0")
    for each, call in [(server, "VipRecvWait"), (client, "VipSendWait")]:
        assert each.code("%s VI %d &done" % (call, 1000 * PATIENCE)) == 0, each.end()


def connect_new(pair):
    for each in pair:
        each.do("VipCreateVi NIC attributes 0 0 &VI")
    connect(*pair)


class Candidates(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.tearDownClass()
        shell("modprobe 8021q || true", SETUP, *["rdma link add %s type rxe netdev i%s" % (each, each) for each in DEVICES])
        cls.listed, cls.listed_long = (run(INFO, "--problems", VIPL_ADDRESS_BYTES=each).stdout for each in ("6", "16"))
        print(cls.listed, "with addresses of 16 bytes:", cls.listed_long, sep="\n", flush=True)

    @classmethod
    def tearDownClass(cls):
        # For an interface that is not there, Linux would look for a module of its name, which takes seconds.
        shell(*["rdma link delete " + each for each in DEVICES],
              *["[ ! -e /sys/class/net/%s ] || ip link delete %s" % (each, each)
                for each in ["i" + each for each in DEVICES] + OTHERS], check=False)

    def expect_list(self, text, wanted):
        self.assertEqual(ours(text), [line.split() for line in wanted.strip().splitlines()], text)

    def puppet(self, *commands):
        made = Puppet(PUPPET)
        self.addCleanup(made.process.communicate)
        return made.do(*commands)

    def pair_at(self, nic):
        """Two processes with their VIs, of which the second one is connected with the first."""
        pair = [self.puppet("VipOpenNic '%s &NIC" % nic, "at = address 'candidates", "from = room", "told = room")
                for _ in range(2)]
        connect_new(pair)
        return pair

    def test_each_address_is_listed_with_the_nic_or_the_reason(self):
        self.expect_list(self.listed, """
            no vipdown port 1, ivipdown, 10.77.1.1: the interface is down
            no vipnone port 1, ivipnone: the interface has no IPv4 address; its IPv6 address needs host addresses of 16 bytes \
               (VIPL_ADDRESS_BYTES=16)
            nicN vipvlan port 1, ivipvlan, 10.77.3.1
            by name vipvlan port 1, ivipvlan, 10.77.3.2
            no vipvlan port 1, ivipvlan, fd00:77::1: IPv6 needs VIPL_ADDRESS_BYTES=16
            by name vipvlan port 1, ivip.100, 10.77.100.1
            no vipvlan port 1, ivip.100, fd00:77:100::1: IPv6 needs VIPL_ADDRESS_BYTES=16
            nicN vipsame port 1, ivipsame, 10.77.3.4
            no vipsame port 1, ivipsame, fd00:77:4::1: the address is tentative: duplicate address detection is not done
            no vipsame port 1, ivipsame, fd00:77:4::2: IPv6 needs VIPL_ADDRESS_BYTES=16
            no vipsame port 1, ivipsame, fd00:77:4::3: IPv6 needs VIPL_ADDRESS_BYTES=16
            nicN vipbond port 1, ivipbond, 10.77.5.1
            by name vipbond port 1, ivipb.200, 10.77.200.1
            nicN vipbrid port 1, ivipbrid, 10.77.6.1
            nicN vipmac port 1, ivipmac, 10.77.7.1
            no vipmac port 1, ivipmac, fd00:77:7::1: IPv6 needs VIPL_ADDRESS_BYTES=16""")

    def test_so_it_is_with_addresses_of_16_bytes(self):
        self.expect_list("\n".join(line for line in self.listed_long.splitlines() if "vipnone" not in line), """
            no vipdown port 1, ivipdown, 10.77.1.1: the interface is down
            nicN vipvlan port 1, ivipvlan, 10.77.3.1
            by name vipvlan port 1, ivipvlan, 10.77.3.2
            nicN vipvlan port 1, ivipvlan, fd00:77::1
            by name vipvlan port 1, ivip.100, 10.77.100.1
            by name vipvlan port 1, ivip.100, fd00:77:100::1
            nicN vipsame port 1, ivipsame, 10.77.3.4
            no vipsame port 1, ivipsame, fd00:77:4::1: the address is tentative: duplicate address detection is not done
            nicN vipsame port 1, ivipsame, fd00:77:4::2
            by name vipsame port 1, ivipsame, fd00:77:4::3
            nicN vipbond port 1, ivipbond, 10.77.5.1
            by name vipbond port 1, ivipb.200, 10.77.200.1
            nicN vipbrid port 1, ivipbrid, 10.77.6.1
            nicN vipmac port 1, ivipmac, 10.77.7.1
            nicN vipmac port 1, ivipmac, fd00:77:7::1""")

    def test_a_nic_is_what_the_list_says(self):
        places = json.loads(run(INFO, "--problems", "--json", VIPL_ADDRESS_BYTES="6").stdout)["candidates"]
        reasons = set()
        for place in [each for each in places if each["device"] in DEVICES[:5] and each["address"]]:
            if not place["usable"] and place["why"] in reasons:
                continue
            reasons.add(place["why"])
            name = place["nic"] or "%(device)s@%(address)s" % place
            opened = run(INFO, "--json", "--nic=" + name, VIPL_ADDRESS_BYTES="6")
            self.assertEqual(opened.returncode == 0, place["usable"], opened.stderr)
            if not place["usable"]:
                self.assertIn(place["why"], opened.stderr)
                continue
            nic = json.loads(opened.stdout)["nics"][0]
            self.assertEqual((nic["Name"], nic["host"]), (place["device"], place["address"]))
            self.assertRegex(opened.stderr, r"%s is RDMA device %s port 1, %s, %s: GID \d+ \(RoCE v2\), Ethernet; "
                             % tuple(map(re.escape, (name, place["device"], place["interface"], place["address"]))))

    def test_the_oldest_ipv6_address_stays_the_nics_when_a_vlan_has_one(self):
        opened = json.loads(run(INFO, "--json", "--nic=vipvlan", VIPL_ADDRESS_BYTES="16").stdout)
        self.assertEqual(opened["nics"][0]["host"], "fd00:77::1")
        opened = json.loads(run(INFO, "--json", "--nic=vipsame", VIPL_ADDRESS_BYTES="16").stdout)
        self.assertEqual(opened["nics"][0]["host"], "fd00:77:4::2")

    def test_vis_connect_by_each_kind_of_name_and_all_nics_at_once(self):
        pairs = {name: subprocess.Popen([PAIR, "--at", address, PINGPONG, "--count=20", "--nic=" + name], text=True,
                                        env=dict(os.environ, VIPL_ADDRESS_BYTES="16" if ":" in address else "6"),
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                 for name, address in [("vipvlan@10.77.3.2", "10.77.3.2"), ("ivip.100", "10.77.100.1"), ("vipsame:1", "10.77.3.4"),
                                       ("ivipb.200", "10.77.200.1"), ("vipbrid", "10.77.6.1"), ("ivipmac", "fd00:77:7::1")]}
        for name, pair in pairs.items():
            said = pair.communicate()[0]
            self.assertEqual(pair.returncode, 0, name + said)

    def test_a_bonds_address_is_not_its_interfaces(self):
        self.assertRegex(self.listed, r"no +vippart port 1, ivipbond, 10\.77\.5\.1: rdma_cm takes another port for this address "
                                      r"\(vipbond port 1\)")

    def test_a_nic_on_a_bond_goes_on_when_another_interface_becomes_active(self):
        def active():
            return Path("/sys/class/net/ivipbond/bonding/active_slave").read_text().strip()

        pair = self.pair_at("vipbond")
        before = active()
        shell("ip link set %s down" % before)
        self.addCleanup(shell, "ip link set %s up; ip address delete 10.77.5.9/24 dev ivipbond" % before)
        eventually(lambda: active() != before, "the bond does not fail over")
        # The kernel makes the port's GIDs anew, and then this one's.
        shell("ip address add 10.77.5.9/24 dev ivipbond")
        eventually(lambda: re.search("by name +vipbond .* 10.77.5.9", run(INFO, "--problems").stdout), "no GID")
        connect_new(pair)
        expect_message(pair)

    def test_a_nic_says_when_its_address_is_another_devices_and_goes_on_when_it_is_back(self):
        """As that of a bond of two devices, of which the other one is active now."""
        def move(origin, target):
            return "ip address delete 10.77.7.1/24 dev %s; ip address add 10.77.7.1/24 dev %s" % (origin, target)

        pair = self.pair_at("vipmac")
        self.addCleanup(shell, move("ivipvlan", "ivipmac"), check=False)
        shell(move("ivipmac", "ivipvlan"))
        asking = pair[1]
        eventually(lambda: asking.do("VipCreateVi NIC attributes 0 0 &VI")
                   .code("VipConnectRequest VI at at 30000 told") == NOT_REACHABLE, "another device's address is reached")
        shell(move("ivipvlan", "ivipmac"))
        eventually(lambda: re.search(r"nic\d+ +vipmac .* 10.77.7.1", run(INFO, "--problems").stdout), "no GID")
        connect_new(pair)
        expect_message(pair)
        self.assertIn("RDMA device vipmac port 1: its address is at vipvlan port 1 now, so open the NIC again", asking.end())

    def test_a_nic_keeps_its_device_when_that_gets_another_name(self):
        pair = self.pair_at("vipmac")
        shell("rdma dev set vipmac name vipother")
        self.addCleanup(shell, "rdma dev set vipother name vipmac")
        expect_message(pair)
        connect_new(pair)
        expect_message(pair)
        listed = run(INFO, "--problems").stdout
        self.assertRegex(listed, r"nic\d+ +vipother port 1, ivipmac, 10\.77\.7\.1")
        self.assertNotIn("vipmac port", listed)
        expect_message(self.pair_at("vipother"))

    def test_a_device_that_goes_ends_a_wait_and_can_be_opened_when_it_is_back(self):
        waiting = self.puppet("VipOpenNic 'vipmac &NIC", "VipCreateCQ NIC 4 &CQ")
        waiting.begin("VipCQWait CQ INFINITE &which &is_receive")
        removal = subprocess.Popen(["rdma", "link", "delete", "vipmac"])  # may last until the process ends
        self.assertEqual(waiting.code(), RESOURCE)
        self.assertEqual(waiting.code("VipCloseNic NIC"), 0)
        waiting.process.communicate()
        self.assertEqual(removal.wait(PATIENCE), 0)
        shell("rdma link add vipmac type rxe netdev ivipmac")
        expect_message(self.pair_at("vipmac"))

    def test_no_other_device_is_opened(self):
        for name in ["vipvlan", "ivip.100", "vipsame@10.77.3.4"]:
            opener = self.puppet("VipOpenNic '%s &NIC" % name)
            files = {path for path in map(os.readlink, Path("/proc/%d/fd" % opener.pid).iterdir()) if "uverbs" in path}
            self.assertEqual(len(files), 1, files)

    def test_two_interfaces_in_a_subnet_are_told_of(self):
        self.assertIn("Problem: ivipvlan (10.77.3.1) and ivipsame (10.77.3.4) are interfaces in one subnet.", self.listed)
        self.assertEqual(self.listed.count("in one subnet"), 1, self.listed)
        one, other = ("/proc/sys/net/ipv4/conf/%s/arp_ignore" % name for name in ("ivipvlan", "ivipsame"))
        self.addCleanup(shell, "echo 0 >%s; echo 0 >%s" % (one, other))
        self.assertIn("in one subnet", shell("echo 1 >%s; %s --problems" % (one, INFO), check=False))
        self.assertNotIn("in one subnet", shell("echo 1 >%s; %s --problems" % (other, INFO), check=False))

    def test_vip_run_tells_what_the_names_mean(self):
        done = run(RUN, "--check", PINGPONG)
        self.assertRegex(done.stdout, r"(?m)^nic\d+: RDMA device vipvlan port 1, ivipvlan, 10\.77\.3\.1$")
        self.assertIn("note: vipdown port 1, ivipdown, 10.77.1.1: the interface is down", done.stderr)

    def in_mounts(self, *lines):
        """vip_info's output where the files of devices are others, as in a container."""
        return shell("unshare -m sh -ec '" + "\n".join(lines) + "\n" + INFO + " --problems' 2>&1")

    def test_a_device_without_its_file_is_passed_over_and_says_so(self):
        listed = self.in_mounts("mount -t tmpfs none /mnt; cp -a /dev/infiniband /mnt",
                                "for each in /sys/class/infiniband_verbs/uverbs*; do grep -q vipvlan $each/ibdev &&",
                                "rm /mnt/infiniband/${each##*/}; done || true", "mount --bind /mnt/infiniband /dev/infiniband")
        self.assertRegex(listed, r"no +vipvlan: there is no /dev/infiniband/uverbs\d+ here, which a container has to be given")
        self.assertRegex(listed, r"nic\d+ +vipsame port 1, ivipsame, 10.77.3.4")

    def test_without_files_or_drivers_or_rdma_cm_the_reason_is_told(self):
        self.assertRegex(self.in_mounts("mount -t tmpfs none /dev/infiniband"), r"no +vipsame: there is no /dev/infiniband/uverbs\d+")
        self.assertRegex(self.in_mounts("mount -t tmpfs none /etc/libibverbs.d"), "no +vipsame: libibverbs has no driver for it")
        self.assertRegex(self.in_mounts("mount -t tmpfs none /mnt; cp -a /dev/infiniband /mnt; rm /mnt/infiniband/rdma_cm",
                                        "mount --bind /mnt/infiniband /dev/infiniband"),
                         "no +vipsame port 1, ivipsame, 10.77.3.4: no RDMA connection manager: .*modprobe rdma_ucm")

    def test_in_another_network_namespace_the_reason_is_told(self):
        self.assertRegex(shell("unshare --net " + INFO + " --problems"),
                         "no +vipsame port 1: its network interface is in another network namespace")


unittest.main(argv=sys.argv[:1], verbosity=2)
