// SPDX-License-Identifier: BSD-2-Clause
// Opening a NIC when a call below fails. The result is VIP_ERROR_RESOURCE, nothing is left, and the
// next try works.
#include "faults.h"

namespace
{

using FaultsOpen = NicTest;

using OpenFails = Failing<NicTest>;

TEST_P(OpenFails, WithErrorResource)
{
	VIP_NIC_HANDLE none = nullptr;

	for (const char *name : {"nic0", "fake0"}) {
		fail();
		EXPECT_EQ(GetParam().during([&] { return VipOpenNic(name, &none); }), VIP_ERROR_RESOURCE) << name;
		EXPECT_EQ(fake_live_total(), 0);
	}
	open();
	expect_usable();
}

// The first calls that make verbs' objects try what the device offers: RC, then UC. The second domain is the default tag's.
INSTANTIATE_TEST_SUITE_P(FaultsOpen, OpenFails,
			 testing::Values(Fault{"ibv_get_device_list", 1, ENOMEM}, Fault{"ibv_open_device", 1, EACCES},
					 Fault{"ibv_open_device", 1, EPERM}, Fault{"ibv_open_device", 1, ENODEV},
					 Fault{"ibv_open_device", 1, ENXIO}, Fault{"ibv_open_device", 1, ENOENT},
					 Fault{"ibv_open_device", 1, EMFILE}, Fault{"ibv_query_device", 1, EIO},
					 Fault{"ibv_query_device", 1, ENXIO},
					 Fault{"ibv_query_port", 1, EIO}, Fault{"ibv_query_port", 1, ENXIO},
					 Fault{"rdma_create_event_channel", 1, ENODEV},
					 Fault{"rdma_create_event_channel", 1, ENOENT},
					 Fault{"rdma_create_event_channel", 1, EMFILE},
					 Fault{"rdma_create_id", 1, ENOMEM}, Fault{"rdma_bind_addr", 1, EMFILE},
					 Fault{"getifaddrs", 1, ENOMEM}, Fault{"ibv_alloc_pd", 1, ENOMEM},
					 Fault{"ibv_create_cq", 1, ENOMEM}, Fault{"ibv_create_qp", 1, ENOMEM},
					 Fault{"ibv_create_qp", 1, EAGAIN}, Fault{"ibv_create_qp", 1, EPERM},
					 Fault{"ibv_create_qp", 2, ENOMEM}, Fault{"ibv_create_qp", 2, EAGAIN},
					 Fault{"ibv_create_qp", 2, EPERM}, Fault{"ibv_create_qp", 2, ENOSPC},
					 Fault{"ibv_alloc_pd", 2, ENOMEM}),
			 name_of);

TEST_F(FaultsOpen, APortThatCannotBeQueriedLeavesTheMtuUnknown)
{
	fake_fail("ibv_query_port", 2, EIO); // the first one tells whether the port is active
	open();
	const VIP_NIC_ATTRIBUTES attributes = nic_attributes();
	EXPECT_EQ(attributes.NativeMTU, 0u);
	EXPECT_EQ(attributes.MaxTransferSize, 0x800000u);
	expect_usable();
}

TEST_F(FaultsOpen, AttributesAreTheDevices)
{
	open_with([](fake_device &d) {
		d.max_msg_size = 100000;
		d.mtu = 4096;
		d.max_sge = 3;
		d.max_mr = 11;
		d.max_qp = 12;
	});
	const VIP_NIC_ATTRIBUTES attributes = nic_attributes();
	EXPECT_STREQ(attributes.Name, "fake0");
	EXPECT_EQ(attributes.MaxTransferSize, 100000u);
	EXPECT_EQ(attributes.NativeMTU, 4096u);
	EXPECT_EQ(attributes.MaxSegmentsPerDesc, 252u) << "on any device";
	EXPECT_EQ(attributes.MaxRegisterRegions, 11u);
	EXPECT_EQ(attributes.MaxVI, 12u);
	EXPECT_EQ(attributes.NicAddressLen, 6);
	EXPECT_EQ(memcmp(attributes.LocalNicAddress, "\12\11\11\1\0\0", 6), 0);
	EXPECT_GE(attributes.MaxDiscriminatorLen, 16);
}

} // namespace
