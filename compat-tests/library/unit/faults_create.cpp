// SPDX-License-Identifier: BSD-2-Clause
// Creating tags, regions, CQs and VIs, and opening a NIC, when a call below fails. The result is VIP_ERROR_RESOURCE, nothing is
// left, and the next try works.
#include "faults.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <sys/mman.h>

using namespace std::chrono_literals;

bool every_line = false;

// The linker puts it in place of the library's.
extern "C" bool __real_log_is_due(std::atomic<int64_t> *next);
extern "C" bool __wrap_log_is_due(std::atomic<int64_t> *next)
{
	return __real_log_is_due(next) || every_line;
}

// So many requests of this thread for memory come before one that fails; 0: none fails.
static thread_local int without_memory = 0;

static bool has_memory()
{
	return !without_memory || --without_memory;
}

// In place of the C library's, for the library and its fakes.
extern "C" {
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
	if (has_memory())
		return __real_calloc(count, size);
	errno = ENOMEM;
	return nullptr;
}
void *__real_mmap64(void *address, size_t size, int protection, int flags, int fd, off64_t offset);
void *__wrap_mmap64(void *address, size_t size, int protection, int flags, int fd, off64_t offset)
{
	if (has_memory())
		return __real_mmap64(address, size, protection, flags, fd, offset);
	errno = ENOMEM;
	return MAP_FAILED;
}
}

namespace
{

constexpr int ALWAYS = 0;

class FaultsCreate : public NicTest
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
		open();
		before = fake_live_total();
	}
	VIP_RETURN create_vi()
	{
		return VipCreateVi(nic, &vi_kind, nullptr, nullptr, &vi);
	}
	VIP_RETURN register_memory(bool rdma_write = false)
	{
		VIP_MEM_ATTRIBUTES attributes{};
		attributes.EnableRdmaWrite = rdma_write;
		return VipRegisterMem(nic, bytes, sizeof(bytes), &attributes, &handle);
	}
	int before = 0;
	VIP_VI_HANDLE vi = nullptr;
	VIP_MEM_HANDLE handle = 0;
	char bytes[4096];
};

// A program with a cache of registrations may be refused hundreds of times: it frees one and tries
// again.
TEST_F(FaultsCreate, ManyRefusedRegistrationsDoNotFillTheLog)
{
	const auto start = std::chrono::steady_clock::now();

	fake_fail_always("ibv_reg_mr", ENOMEM);
	testing::internal::CaptureStderr();
	for (int i = 0; i < 300; i++)
		EXPECT_EQ(register_memory(), VIP_ERROR_RESOURCE);
	const std::string log = testing::internal::GetCapturedStderr();
	fake_fail_always("ibv_reg_mr", 0);

	// The log gets one line at once, and one in five seconds. This process has logged none
	// before.
	const auto lines = std::count(log.begin(), log.end(), '\n');
	EXPECT_EQ(log.find("vipl: error: cannot register 4096 bytes: "), 0u) << log;
	EXPECT_LE(lines, 1 + (std::chrono::steady_clock::now() - start) / 5s) << log;
	ASSERT_EQ(register_memory(), VIP_SUCCESS);
	EXPECT_EQ(VipDeregisterMem(nic, bytes, handle), VIP_SUCCESS);
}

TEST_F(FaultsCreate, WhatCannotBeMadeIsErrorResourceAndLeavesNothing)
{
	const auto a_vi = [this] { return create_vi(); };
	const auto a_cq = [this] {
		VIP_CQ_HANDLE cq;
		return VipCreateCQ(nic, 16, &cq);
	};
	const auto a_tag = [this] {
		VIP_PROTECTION_HANDLE tag;
		return VipCreatePtag(nic, &tag);
	};
	const auto a_region = [this] { return register_memory(); };
	const auto an_open_region = [this] { return register_memory(true); };
	const std::pair<std::function<VIP_RETURN()>, Fault> cases[] = {
		{a_vi, {"ibv_create_comp_channel", 1, EMFILE}},
		{a_vi, {"ibv_create_cq", 1, ENOMEM}},
		{a_vi, {"ibv_create_cq", 2, ENOMEM}},
		{a_vi, {"ibv_create_cq", 1, EINVAL}},
		{a_vi, {"ibv_create_qp", 1, ENOMEM}},
		{a_vi, {"ibv_create_qp", 1, EAGAIN}},
		{a_cq, {"ibv_create_comp_channel", 1, ENOMEM}},
		{a_cq, {"ibv_create_cq", 1, ENOMEM}},
		{a_tag, {"ibv_alloc_pd", ALWAYS, ENOMEM}},
		{a_vi, {"ibv_create_qp", ALWAYS, EINVAL}}, // without inline data, too
		{a_region, {"ibv_reg_mr", ALWAYS, ENOMEM}},
		{a_region, {"ibv_reg_mr", ALWAYS, EFAULT}},
		{an_open_region, {"ibv_reg_mr", 1, EFAULT}}, // else it might be memory that is only read
		{an_open_region, {"ibv_reg_mr", ALWAYS, EPERM}},
	};

	a_tag(); // the first one is an alias of the default tag
	for (const auto &[make, fault] : cases) {
		SCOPED_TRACE(fault);
		if (fault.nth == ALWAYS)
			fake_fail_always(fault.function, fault.error);
		else
			fake_fail(fault.function, fault.nth, fault.error);
		EXPECT_EQ(fault.during(make), VIP_ERROR_RESOURCE);
		EXPECT_EQ(fake_live_total(), before);
		fake_forget_faults();
	}
	expect_usable();
}

TEST_F(FaultsCreate, MissingMemoryIsToldWhereverItIsMissing)
{
	VIP_CQ_HANDLE cq, last_cq = nullptr;
	VIP_PROTECTION_HANDLE tag;
	const auto a_cq = [&] { return VipCreateCQ(nic, 16, &cq); };
	const auto a_tag = [&] { return VipCreatePtag(nic, &tag); };
	const auto a_region = [this] { return register_memory(); };
	const auto a_vi = [this] { return create_vi(); };
	const auto a_vi_with_a_cq = [&] { return VipCreateVi(nic, &vi_kind, last_cq, last_cq, &vi); };

	for (const char *device : {"", "via_lo"}) {
		if (*device) {
			close();
			open(device);
		}
		ASSERT_EQ(a_tag(), VIP_SUCCESS); // an alias of the default tag
		ASSERT_EQ(VipCreateCQ(nic, 16, &last_cq), VIP_SUCCESS);
		for (const std::function<VIP_RETURN()> &make :
		     std::vector<std::function<VIP_RETURN()>>{a_cq, a_tag, a_region, a_vi, a_vi_with_a_cq}) {
			bool failed = true;

			for (int nth = 1; failed; nth++) {
				every_line = true;
				testing::internal::CaptureStderr();
				without_memory = nth;
				const VIP_RETURN rc = make();
				failed = !without_memory;
				without_memory = 0;
				const std::string log = testing::internal::GetCapturedStderr();
				every_line = false;
				if (rc == VIP_SUCCESS)
					continue;
				EXPECT_TRUE(failed);
				EXPECT_EQ(rc, VIP_ERROR_RESOURCE);
				EXPECT_NE(log.find("Cannot allocate memory"), std::string::npos)
					<< device << " " << nth << ": " << log;
			}
		}
	}
}

TEST_F(FaultsCreate, WhatFailsDoesNotUseItsTag)
{
	VIP_MEM_ATTRIBUTES attributes{};
	Vi other = make_vi();

	for (int i = 0; i < 2; i++) // the first tag is an alias of the default tag
		ASSERT_EQ(VipCreatePtag(nic, &vi_kind.Ptag), VIP_SUCCESS);
	attributes.Ptag = vi_kind.Ptag;
	fake_fail_always("ibv_reg_mr", ENOMEM);
	EXPECT_EQ(VipRegisterMem(nic, bytes, 100, &attributes, &handle), VIP_ERROR_RESOURCE);
	fake_fail_always("ibv_create_qp", ENOMEM);
	EXPECT_EQ(create_vi(), VIP_ERROR_RESOURCE);
	EXPECT_EQ(VipSetViAttributes(other, &vi_kind), VIP_ERROR_RESOURCE);
	EXPECT_EQ(VipDestroyPtag(nic, vi_kind.Ptag), VIP_SUCCESS);
}

// A failure loses the object below the library, and does no other harm.
TEST_F(FaultsCreate, DeregistrationThatFailsBelowDoesNoHarm)
{
	expect_clean = false;
	ASSERT_EQ(register_memory(), VIP_SUCCESS);
	fake_fail("ibv_dereg_mr", 1, EINVAL);
	EXPECT_EQ(VipDeregisterMem(nic, bytes, handle), VIP_SUCCESS);
	EXPECT_EQ(VipDeregisterMem(nic, bytes, handle), VIP_INVALID_PARAMETER);
	expect_usable();
	fake_fail("ibv_dealloc_pd", 1, EBUSY);
	fake_fail("ibv_destroy_cq", 1, EBUSY);
	close();
	open();
	expect_usable();
	start_over();
}

TEST_F(FaultsCreate, ManyCqsShareChannels)
{
	std::vector<VIP_CQ_HANDLE> cqs(100);
	const int channels = fake_channels();

	const VIP_VI_HANDLE own = make_vi();
	EXPECT_EQ(fake_channels(), channels + 1) << "of both its queues";
	EXPECT_EQ(VipDestroyVi(own), VIP_SUCCESS);
	for (VIP_CQ_HANDLE &cq : cqs)
		ASSERT_EQ(VipCreateCQ(nic, 1, &cq), VIP_SUCCESS);
	EXPECT_LE(fake_channels(), 64);
	fake_fail_always("ibv_create_comp_channel", EMFILE);
	make_pair(cqs[70], cqs[99]); // it needs no further channel
	fake_fail_always("ibv_create_comp_channel", 0);
	expect_traffic(a, b);
	EXPECT_EQ(VipDestroyCQ(cqs[70]), VIP_ERROR_RESOURCE) << "in use";
	disconnect_pair();
	EXPECT_EQ(VipDestroyVi(a), VIP_SUCCESS);
	EXPECT_EQ(VipDestroyVi(b), VIP_SUCCESS);
	for (VIP_CQ_HANDLE cq : cqs)
		EXPECT_EQ(VipDestroyCQ(cq), VIP_SUCCESS);
	EXPECT_TRUE(eventually([&] { return fake_live_total() == before; })) << "leaked";
}

// ---- opening a NIC ----

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
