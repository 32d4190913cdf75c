// SPDX-License-Identifier: BSD-2-Clause
// The fake RDMA device in the likeness of adapters, for any program: LD_PRELOAD this, and FAKE_PROFILE says which one. A
// number has its source beside it: a file of Linux (drivers/infiniband/hw), or "not checked". What stands nowhere is the
// default of the fake, soft-RoCE's. The library's sockets do not come by the fake: the kernel has to know the addresses.
#include "fake_rdma.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace
{

// Both behave as the InfiniBand specification says.
void be_mellanox(fake_device &d, fake_options &o)
{
	fake_options_mlx5(&o);
	d.vendor_id = 0x2c9; // the OUI of Mellanox
	d.keys = FAKE_KEYS_EQUAL;
	d.rereg_mr = true;
	d.max_rd_atomic = 16; // firmware's: not checked
	d.mtu = 4096;
	d.name = "mlx5_0";
	d.max_sge = 30;      // firmware's: not checked
	d.max_qp_wr = 32768; // firmware's: not checked
}

const struct {
	const char *name;
	void (*set)(fake_device &device, fake_options &options);
} profiles[] = {
	// Each address has a GID of RoCE v1 and then one of v2; one address is a VLAN's.
	{"mlx5_roce", [](fake_device &d, fake_options &o) {
		be_mellanox(d, o);
		d.max_cqe = 4194303; // firmware's: not checked
		d.max_inline = 828;  // what the provider makes of a queue pair's room: not checked
		d.v1_first = true;
		d.mtu = 1024; // of a port with Ethernet frames of 1500 bytes
		d.traffic_class = 104;
		d.addresses[1] = "10.9.8.1";
		d.addresses[2] = "fd00::9";
	}},
	// A partition that is not the first in the table, and paths of another MTU and service level than the port's.
	{"mlx5_infiniband", [](fake_device &d, fake_options &o) {
		be_mellanox(d, o);
		d.infiniband = true;
		d.lid = 7;
		d.pkeys[0] = 0x8123;
		d.pkeys[1] = 0xffff;
		d.pkeys_backwards = true;
		d.path_mtu = IBV_MTU_2048;
		d.sl = 3;
	}},
	{"mlx4_infiniband", [](fake_device &d, fake_options &o) {
		be_mellanox(d, o);
		d.name = "mlx4_0";
		d.max_sge = 32;	     // firmware's: not checked
		d.max_qp_wr = 16351; // firmware's: not checked
		d.infiniband = true;
		d.lid = 1;
		d.path_mtu = IBV_MTU_2048;
	}},
	{"irdma", [](fake_device &d, fake_options &o) {
		fake_options_mlx5(&o); // not checked
		d.name = "irdma0";
		d.vendor_id = 0x8086;  // irdma/verbs.c: the PCI vendor
		d.max_sge = 13;	       // irdma/defs.h: IRDMA_MAX_WQ_FRAGMENT_COUNT, of generation 2
		d.max_inline = 101;    // irdma/defs.h: IRDMA_MAX_INLINE_DATA_SIZE
		d.max_qp_wr = 32768 / 8; // irdma/defs.h: IRDMA_MAX_WQ_ENTRIES, of which a request takes some: not checked
		d.max_msg_size = 2147483647; // irdma/defs.h: IRDMA_MAX_OUTBOUND_MSG_SIZE
		d.max_rd_atomic = 127; // irdma/defs.h: IRDMA_MAX_IRD_SIZE, of an early version
		d.keys = FAKE_KEYS_EQUAL;
		d.uc = false;
		d.atomics = false; // irdma/verbs.c: irdma_query_device() sets no atomic_cap
	}},
	{"bnxt_re", [](fake_device &d, fake_options &o) {
		fake_options_mlx5(&o); // not checked
		d.name = "bnxt_re0";
		d.vendor_id = 0x14e4; // the PCI vendor
		d.max_sge = 6;	      // bnxt_re/qplib_sp.h: BNXT_STATIC_MAX_SGE
		d.max_inline = 96;    // bnxt_re/qplib_fp.h: BNXT_QPLIB_SWQE_MAX_INLINE_LENGTH
		d.max_qp_wr = 65536 - 130; // firmware's: not checked
		d.keys = FAKE_KEYS_EQUAL;
		d.uc = false;
	}},
	{"qedr", [](fake_device &d, fake_options &o) {
		fake_options_mlx5(&o); // not checked
		o.reset_cleans_cq = false; // its completions stay in the CQ
		d.name = "qedr0";
		d.vendor_id = 0x1077; // the PCI vendor
		d.max_sge = 4;	      // include/linux/qed/rdma_common.h: RDMA_MAX_SGE_PER_SQ_WQE, and of a receive
		d.max_inline = 256;   // include/linux/qed/roce_common.h: ROCE_REQ_MAX_INLINE_DATA_SIZE
		d.max_qp_wr = 32767;  // not checked
		d.max_rd_atomic = 32; // not checked
		d.keys = FAKE_KEYS_EQUAL;
		d.uc = false;
	}},
	// The first generation, which has the least.
	{"hns", [](fake_device &d, fake_options &o) {
		fake_options_mlx5(&o); // not checked
		d.name = "hns_0";
		d.vendor_id = 0x19e5; // the PCI vendor
		d.max_sge = 2;	      // hns/hns_roce_device.h: comments of max_sq_sg and max_rq_sg
		d.max_inline = 32;    // hns/hns_roce_device.h: comment of max_sq_inline
		d.max_qp_wr = 16384;  // hns/hns_roce_device.h: comment of max_wqes
		d.keys = FAKE_KEYS_EQUAL;
		d.rereg_mr = true; // hns/hns_roce_device.h: HNS_ROCE_CAP_FLAG_REREG_MR
		d.uc = false;
		d.atomics = false; // not checked
	}},
	{"rxe", [](fake_device &, fake_options &) {}},
};

// Before main(), and before the first call of the library.
[[gnu::constructor]] void choose()
{
	const char *wanted = getenv("FAKE_PROFILE");
	fake_options options;
	fake_device device;

	for (const auto &each : profiles) {
		if (!wanted || strcmp(each.name, wanted))
			continue;
		fake_device_default(&device);
		each.set(device, options);
		fake_set_devices(1, &device);
		fake_set_options(&options);
		return;
	}
	fprintf(stderr, "FAKE_PROFILE=%s: there is none of this name\n", wanted ? wanted : "");
	abort();
}

} // namespace
