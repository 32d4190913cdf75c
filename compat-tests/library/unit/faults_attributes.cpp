// SPDX-License-Identifier: BSD-2-Clause
// Changes of attributes of VIs and regions, when a call below fails, and on devices with different
// abilities.
#include "support.h"

#include <sys/mman.h>

namespace
{

VIP_MEM_ATTRIBUTES rights(bool rdma_write, VIP_PROTECTION_HANDLE tag = nullptr)
{
	VIP_MEM_ATTRIBUTES attributes{};

	attributes.Ptag = tag;
	attributes.EnableRdmaWrite = rdma_write;
	return attributes;
}

class FaultsViAttributes : public NicTest
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
		open();
		changed = vi_attributes();
		changed.EnableRdmaWrite = VIP_FALSE;
		changed.MaxTransferSize = 1000;
	}
	VIP_VI_ATTRIBUTES query(VIP_VI_HANDLE vi)
	{
		VIP_VI_ATTRIBUTES got{};
		VIP_VI_STATE state;
		VIP_BOOLEAN empty;

		EXPECT_EQ(VipQueryVi(vi, &state, &got, &empty, &empty), VIP_SUCCESS);
		return got;
	}
	VIP_VI_ATTRIBUTES changed;
};

TEST_F(FaultsViAttributes, AQueuePairThatCannotBeMadeIsErrorResourceAndChangesNothing)
{
	a = make_vi();
	b = make_vi();
	int before = fake_live_total();

	for (int error : {ENOMEM, EAGAIN, EINVAL}) {
		fake_fail_always("ibv_create_qp", error);
		EXPECT_EQ(VipSetViAttributes(a, &changed), VIP_ERROR_RESOURCE) << error;
		fake_fail_always("ibv_create_qp", 0);
		EXPECT_EQ(query(a).EnableRdmaWrite, VIP_TRUE);
		EXPECT_EQ(query(a).MaxTransferSize, 65536u);
		EXPECT_EQ(fake_live_total(), before);
	}
	for (VIP_BOOLEAN write : {VIP_FALSE, VIP_TRUE}) {
		vi_kind.EnableRdmaWrite = write;
		ASSERT_EQ(VipSetViAttributes(a, &vi_kind), VIP_SUCCESS);
		EXPECT_EQ(fake_live_total(), before) << "the former queue pair is given back";
	}
	connect(a, b);
	expect_traffic(a, b);
}

TEST_F(FaultsViAttributes, WhatTheQueuePairHasNothingToDoWithNeedsNoOther)
{
	a = make_vi();
	uint64_t made = fake_calls("ibv_create_qp");
	changed.EnableRdmaWrite = VIP_TRUE;
	ASSERT_EQ(VipSetViAttributes(a, &changed), VIP_SUCCESS);
	EXPECT_EQ(query(a).MaxTransferSize, 1000u);
	EXPECT_EQ(fake_calls("ibv_create_qp"), made);
	// The first tag is another name of the default tag.
	ASSERT_EQ(VipCreatePtag(nic, &changed.Ptag), VIP_SUCCESS);
	ASSERT_EQ(VipSetViAttributes(a, &changed), VIP_SUCCESS);
	EXPECT_EQ(fake_calls("ibv_create_qp"), made);
}

class FaultsMemAttributes : public NicTest
{
      protected:
	// Hardware that can re-register gives every region an rkey. Soft-RoCE cannot.
	void open_hardware()
	{
		open_with([](fake_device &d) {
			d.rereg_mr = true;
			d.keys = FAKE_KEYS_EQUAL;
		});
	}
	VIP_RETURN set(VIP_MEM_ATTRIBUTES attributes)
	{
		return VipSetMemAttributes(nic, bytes, handle, &attributes);
	}
	VIP_RETURN add(VIP_MEM_ATTRIBUTES attributes)
	{
		return VipRegisterMem(nic, bytes, sizeof(bytes), &attributes, &handle);
	}
	VIP_MEM_ATTRIBUTES query()
	{
		VIP_MEM_ATTRIBUTES got{};

		EXPECT_EQ(VipQueryMem(nic, bytes, handle, &got), VIP_SUCCESS);
		return got;
	}
	// True when an RDMA write into the region, or a message, arrives at a VI of the tag.
	bool arrives(bool is_write, VIP_PROTECTION_HANDLE tag)
	{
		VIP_DESCRIPTOR *s = descriptor(2, {{memory.data(), 64}});

		vi_kind.Ptag = tag;
		Vi to = make_vi();
		vi_kind.Ptag = nullptr;
		Vi from = make_vi();
		VIP_DESCRIPTOR *d =
			is_write ? write_descriptor(0, bytes, {memory.data(), 64}) : descriptor(1, {{bytes, 64}});
		(is_write ? d->DS[0].Remote.Handle : d->DS[0].Local.Handle) = handle;
		memset(memory.data(), ++seed, 64);
		if (!is_write) {
			EXPECT_EQ(post_recv(to, d), VIP_SUCCESS);
		}
		connect(from, to, "arrives");
		EXPECT_EQ(post_send(from, is_write ? d : s), VIP_SUCCESS);
		EXPECT_EQ((is_write ? send_wait(from) : recv_wait(to)).descriptor, d);
		const VIP_UINT32 error = d->CS.Status & VIP_STATUS_ERROR_MASK;
		EXPECT_TRUE(!error || !is_write || error == VIP_STATUS_RDMA_PROT_ERROR) << error;
		EXPECT_EQ(bytes[0] == seed, !error);
		end_vi(from);
		end_vi(to);
		return !error;
	}
	bool writable()
	{
		return arrives(true, nullptr);
	}
	bool receivable(VIP_PROTECTION_HANDLE tag = nullptr)
	{
		return arrives(false, tag);
	}
	VIP_PROTECTION_HANDLE make_tag()
	{
		VIP_PROTECTION_HANDLE tag = nullptr;

		EXPECT_EQ(VipCreatePtag(nic, &tag), VIP_SUCCESS);
		return tag;
	}
	alignas(4096) char bytes[4096] = {};
	char seed = 0;
	VIP_MEM_HANDLE handle = 0;
};

TEST_F(FaultsMemAttributes, ARegionChangedInPlaceKeepsItsPostedReceives)
{
	open_hardware();
	ASSERT_EQ(add(rights(false)), VIP_SUCCESS);
	make_pair();
	VIP_DESCRIPTOR *d = descriptor(1, {{bytes, 64}});
	d->DS[0].Local.Handle = handle;
	ASSERT_EQ(post_recv(b, d), VIP_SUCCESS);
	uint64_t registered = fake_calls("ibv_reg_mr");
	for (bool write : {true, false})
		EXPECT_EQ(set(rights(write)), VIP_SUCCESS);
	EXPECT_EQ(fake_calls("ibv_reg_mr"), registered);
	posted_send(a, 2, {{memory.data(), 64}});
	expect_received(b, d);
}

// On such a device a region without rights has no rkey, and a change does not give it one.
TEST_F(FaultsMemAttributes, ADeviceThatGivesNoKeyLaterCannotGiveRights)
{
	open_with([](fake_device &d) { d.rereg_mr = true; });
	make_tag();
	VIP_PROTECTION_HANDLE tag = make_tag();
	ASSERT_EQ(add(rights(false)), VIP_SUCCESS);

	EXPECT_EQ(set(rights(true)), VIP_ERROR_NOT_SUPPORTED);
	EXPECT_EQ(set(rights(true, tag)), VIP_ERROR_NOT_SUPPORTED);
	EXPECT_EQ(query().EnableRdmaWrite, VIP_FALSE);
	EXPECT_FALSE(writable());
	EXPECT_TRUE(receivable());
	ASSERT_EQ(set(rights(false, tag)), VIP_SUCCESS);
	EXPECT_TRUE(receivable(tag));
	ASSERT_EQ(VipDeregisterMem(nic, bytes, handle), VIP_SUCCESS);
	ASSERT_EQ(add(rights(true)), VIP_SUCCESS);
	for (bool write : {false, true}) { // a right that the region had can be given back
		ASSERT_EQ(set(rights(write)), VIP_SUCCESS);
		EXPECT_EQ(writable(), write);
	}
}

TEST_F(FaultsMemAttributes, AFailingChangeIsErrorResourceAndChangesNothing)
{
	const struct {
		bool hardware, right; // the device, and the region's right before
		const char *function;
		std::vector<int> errors;
	} cases[] = {{true, false, "ibv_rereg_mr", {ENOMEM, EINVAL, EIO}},
		     {false, true, "ibv_reg_mr", {ENOMEM, EFAULT, EINVAL}}};

	for (const auto &[hardware, right, function, codes] : cases) {
		hardware ? open_hardware() : open();
		make_tag();
		VIP_PROTECTION_HANDLE tag = make_tag();
		ASSERT_EQ(add(rights(right)), VIP_SUCCESS);
		int before = fake_live_total();
		for (int error : codes)
			for (VIP_PROTECTION_HANDLE to : {VIP_PROTECTION_HANDLE{nullptr}, tag}) {
				fake_fail(function, 1, error);
				EXPECT_EQ(set(rights(!right, to)), VIP_ERROR_RESOURCE) << function << ": " << error;
			}
		for (int error : {EOPNOTSUPP, ENOSYS})
			if (hardware) {
				fake_fail(function, 1, error);
				EXPECT_EQ(set(rights(!right)), VIP_ERROR_NOT_SUPPORTED) << error;
			}
		EXPECT_EQ(fake_live_total(), before);
		EXPECT_EQ(query().EnableRdmaWrite, right);
		EXPECT_EQ(writable(), right);
		EXPECT_TRUE(receivable());
		EXPECT_EQ(VipDestroyPtag(nic, tag), VIP_SUCCESS) << "nobody uses it";
		start_over();
	}
}

// The rights must go for any reason of the failure: security depends on it.
TEST_F(FaultsMemAttributes, RightsAreTakenAwayAlsoWhereChangingInPlaceFails)
{
	open_hardware();
	for (int error : {ENOMEM, EOPNOTSUPP, EINVAL}) {
		ASSERT_EQ(add(rights(true)), VIP_SUCCESS);
		fake_fail("ibv_rereg_mr", 1, error);
		EXPECT_EQ(set(rights(false)), VIP_SUCCESS) << error;
		EXPECT_FALSE(writable());
		EXPECT_TRUE(receivable());
		ASSERT_EQ(VipDeregisterMem(nic, bytes, handle), VIP_SUCCESS);
	}
}

TEST_F(FaultsMemAttributes, AFormerRegistrationThatCannotBeGivenBackDoesNoHarmHere)
{
	open();
	expect_clean = false;
	ASSERT_EQ(add(rights(true)), VIP_SUCCESS);
	fake_fail("ibv_dereg_mr", 1, EINVAL);
	EXPECT_EQ(set(rights(false)), VIP_SUCCESS);
	EXPECT_TRUE(receivable());
	EXPECT_EQ(VipDeregisterMem(nic, bytes, handle), VIP_SUCCESS);
	start_over();
}

TEST_F(FaultsMemAttributes, PeersCannotBeAllowedToWriteToMemoryThatIsOnlyRead)
{
	void *page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	VIP_MEM_ATTRIBUTES attributes = rights(false);

	open_hardware();
	ASSERT_EQ(VipRegisterMem(nic, page, 4096, &attributes, &handle), VIP_SUCCESS);
	attributes = rights(true);
	EXPECT_EQ(VipSetMemAttributes(nic, page, handle, &attributes), VIP_ERROR_RESOURCE);
	EXPECT_EQ(fake_calls("ibv_rereg_mr"), 0u) << "some would";
	// The region can still get another tag.
	make_tag();
	attributes = rights(false, make_tag());
	EXPECT_EQ(VipSetMemAttributes(nic, page, handle, &attributes), VIP_SUCCESS);
	EXPECT_EQ(VipDeregisterMem(nic, page, handle), VIP_SUCCESS);
	munmap(page, 4096);
}

// The region keeps its handle after a change. The device has forgotten that handle, and will use it
// again.
TEST_F(FaultsMemAttributes, AHandleThatIsKeptIsNotGivenTwice)
{
	open();
	ASSERT_EQ(add(rights(true)), VIP_SUCCESS);
	ASSERT_EQ(set(rights(false)), VIP_SUCCESS);
	uint64_t before = fake_calls("ibv_reg_mr"), asked = 0;
	char other[64];

	while (fake_calls("ibv_reg_mr") - before == asked && asked < 100000) {
		VIP_MEM_HANDLE another = 0;
		VIP_MEM_ATTRIBUTES attributes = rights(true);

		ASSERT_EQ(VipRegisterMem(nic, other, sizeof(other), &attributes, &another), VIP_SUCCESS);
		asked++;
		ASSERT_NE(another, handle);
		ASSERT_EQ(VipDeregisterMem(nic, other, another), VIP_SUCCESS);
	}
	EXPECT_EQ(fake_calls("ibv_reg_mr") - before, asked + 1) << "the device never gave it again";
	EXPECT_TRUE(receivable());
	EXPECT_FALSE(writable());
	EXPECT_EQ(VipDeregisterMem(nic, bytes, handle), VIP_SUCCESS);
}

} // namespace
