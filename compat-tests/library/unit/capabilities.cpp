// SPDX-License-Identifier: BSD-2-Clause
// What devices offer differs. The library finds it out when it opens one, and uses what there is.
#include "faults.h"

#include <set>

namespace
{

constexpr VIP_UINT32 READ = VIP_STATUS_OP_RDMA_READ;

class Capabilities : public NicTest
{
      protected:
	// No soft-RoCE, which has habits of its own.
	void open_adapter(const std::function<void(fake_device &)> &change)
	{
		open_with([&](fake_device &d) {
			d.vendor_id = 0x1234;
			change(d);
		});
	}
	bool is_inline(size_t length)
	{
		by_hand(true);
		posted_receive(b, 1, {{memory.data(), 1000}});
		VIP_DESCRIPTOR *s = posted_send(a, 2, {{memory.data(1000), length}});
		const bool is = fake_posted_flags(a.qp, 0) & IBV_SEND_INLINE;
		by_hand(false);
		expect_sent(a, s);
		expect_received(b, at(1));
		return is;
	}
	// What the log says meanwhile, where each line is written.
	static std::string told(const std::function<void()> &work)
	{
		every_line = true;
		testing::internal::CaptureStderr();
		work();
		every_line = false;
		return testing::internal::GetCapturedStderr();
	}
	uint64_t requests_of(VIP_DESCRIPTOR *d, VIP_UINT32 status)
	{
		const uint64_t before = fake_calls("ibv_post_send");

		expect_send(a, d, status);
		return fake_calls("ibv_post_send") - before;
	}
	VIP_RETURN add(const void *address, size_t length, VIP_MEM_HANDLE *handle, bool rdma_write = false)
	{
		VIP_MEM_ATTRIBUTES attributes{};

		attributes.EnableRdmaWrite = rdma_write;
		return VipRegisterMem(nic, const_cast<void *>(address), length, &attributes, handle);
	}
	alignas(4096) char bytes[4096] = {};
};

// ---- inline data ----

// Each try that a driver refuses may be a line of the kernel's log: so there are none when VIs are made.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // they handle SIGSEGV: then memory may be protected
TEST_F(Capabilities, InlineDataIsAsMuchAsTheDeviceHasAndSoughtOnlyWhenItIsOpened)
{
	const struct {
		int has;
		size_t wanted;
	} cases[] = {{512, 128}, {128, 128}, {127, 96}, {101, 96}, {96, 96}, {95, 64}, {64, 64}, {60, 32}, {32, 32}, {31, 0},
		     {0, 0}};

	for (const auto &[has, wanted] : cases)
		for (bool silent : {false, true}) {
			SCOPED_TRACE(has);
			open_adapter([&](fake_device &d) {
				d.max_inline = has;
				d.max_sge = 1; // the fake gives the room of segments to inline data
				d.silent_errno = silent;
			});
			const uint64_t calls = fake_calls("ibv_create_qp");
			make_pair();
			EXPECT_EQ(fake_calls("ibv_create_qp"), calls + 2);
			if (wanted) {
				EXPECT_TRUE(is_inline(wanted));
			}
			EXPECT_FALSE(is_inline(wanted + 17));
			start_over();
		}
}
#endif

// ---- levels ----

TEST_F(Capabilities, ADeviceWithoutUcIsOpenedWhateverItsRefusalLooksLike)
{
	for (bool silent : {false, true}) {
		fake_before("ibv_create_cq", 1, [] { errno = EAGAIN; }); // it stays where the next call sets none
		open_with([&](fake_device &d) {
			d.uc = false;
			d.silent_errno = silent;
		});
		EXPECT_EQ(nic_attributes().ReliabilityLevelSupport, VIP_SERVICE_RELIABLE_DELIVERY | VIP_SERVICE_RELIABLE_RECEPTION);
		start_over();
	}
}

TEST_F(Capabilities, AProviderThatSetsNoErrnoHasFailedAllTheSame)
{
	VIP_MEM_HANDLE handle = 0;
	VIP_CQ_HANDLE cq = nullptr;
	VIP_VI_HANDLE vi = nullptr;

	open();
	for (int stale : {0, EFAULT}) {
		for (const char *function : {"ibv_create_qp", "ibv_create_cq", "ibv_reg_mr"})
			fake_fail(function, 1, -1);
		errno = stale;
		EXPECT_EQ(VipCreateCQ(nic, 1, &cq), VIP_ERROR_RESOURCE);
		errno = stale;
		EXPECT_EQ(VipCreateVi(nic, &vi_kind, nullptr, nullptr, &vi), VIP_ERROR_RESOURCE);
		errno = stale;
		EXPECT_EQ(add(bytes, sizeof(bytes), &handle), VIP_ERROR_RESOURCE);
	}
	expect_usable();
}

// ---- segments ----

TEST_F(Capabilities, FewSegmentsOfReadsAreNoLimitOfSendsAndWrites)
{
	vi_kind.EnableRdmaRead = VIP_TRUE;
	open_adapter([](fake_device &d) { d.max_sge_rd = 1; });
	allow_reads();
	make_pair();
	const std::vector<Segment> three = {{memory.data(0), 200}, {memory.data(300), 200}, {memory.data(600), 200}};
	const uint64_t registered = fake_calls("ibv_reg_mr");

	memset(memory.data(0), 's', 1000);
	posted_receive(b, 1, {{memory.data(5000), 600}});
	EXPECT_EQ(requests_of(descriptor(2, three), 0), 1u);
	expect_received(b, at(1));
	EXPECT_EQ(memory.data(5000)[599], 's');
	EXPECT_EQ(fake_calls("ibv_reg_mr"), registered) << "it is not copied";
	for (unsigned operation : {VIP_CONTROL_OP_RDMAWRITE, VIP_CONTROL_OP_RDMAREAD}) {
		const bool is_read = operation == VIP_CONTROL_OP_RDMAREAD;
		VIP_DESCRIPTOR *d = descriptor(3, {{memory.data(6000), 0}, three[0]}, operation);

		for (unsigned i = 1; i < 3; i++) {
			d->DS[i + 1].Local = d->DS[1].Local;
			d->DS[i + 1].Local.Data.Address = const_cast<void *>(three[i].data);
		}
		d->CS.SegCount = 4;
		EXPECT_EQ(requests_of(d, is_read ? READ : VIP_STATUS_OP_RDMA_WRITE), is_read ? 3u : 1u);
	}
}

// ---- completion queues ----

TEST_F(Capabilities, CompletionQueuesTakeTheDevicesInterruptsInTurn)
{
	open_with([](fake_device &d) { d.comp_vectors = 4; });
	for (int i = 0; i < 8; i++)
		make_cq(1);
	for (int vector = 0; vector < 4; vector++)
		EXPECT_EQ(fake_cqs_at(vector), 2) << vector;
	make_pair();
	expect_traffic(a, b);
}

TEST_F(Capabilities, ACompletionQueueOfMaxCQEntriesCanBeHad)
{
	const struct {
		int max_cqe, most; // as the device says, and as it is: sizes are rounded up first
	} cases[] = {{1, 0},		 {2, 2},	   {28671, 0},	     {28671, 28671}, {28671, 4096},
		     {65535, 65536}, {65536, 65536}, {100000, 100000}, {4194303, 0}};

	for (const auto &each : cases)
		for (uint32_t vendor : {0xffffffu, 0x1234u}) {
			SCOPED_TRACE(each.max_cqe);
			open_with([&](fake_device &d) {
				d.vendor_id = vendor;
				d.max_cqe = each.max_cqe;
				d.cq_sizes.most = each.most;
			});
			const VIP_ULONG most = nic_attributes().MaxCQEntries;
			EXPECT_GE(most, std::min(4094u, static_cast<unsigned>(each.max_cqe) / 4 + 1));
			VIP_CQ_HANDLE cq = make_cq(most);
			EXPECT_EQ(VipResizeCQ(cq, most), VIP_SUCCESS);
			EXPECT_EQ(VipCreateCQ(nic, most + 1, &cq), VIP_ERROR_RESOURCE);
			start_over();
		}
}

TEST_F(Capabilities, ACqThatCannotBeResizedIsLargeEnoughForTheQueuesThatItHas)
{
	open_with([](fake_device &d) { d.resize_cq = false; });
	VIP_CQ_HANDLE cq = make_cq(1);
	make_pair(cq, cq);
	EXPECT_EQ(VipResizeCQ(cq, 20000), VIP_SUCCESS) << "a size is a hint";
	for (int i = 0; i < 3; i++)
		make_vi(nullptr, cq);
	VIP_RETURN rc = VIP_SUCCESS;
	const std::string log = told([&] { rc = VipResizeCQ(cq, 20000); });
	EXPECT_EQ(rc, VIP_ERROR_RESOURCE);
	expect_said(log, "has room for 4094 entries, and cannot have 20000: ibv_resize_cq(): Operation not supported");
	EXPECT_EQ(VipResizeCQ(cq, 1), VIP_SUCCESS);
	expect_traffic(a, b);
}

// Its provider frees the memory that a CQ still uses, if the kernel refuses.
TEST_F(Capabilities, BroadcomsDevicesAreNeverAskedToResizeACq)
{
	open_with([](fake_device &d) { d.vendor_id = 0x14e4; });
	VIP_CQ_HANDLE cq = make_cq(1);
	make_pair(cq, cq);
	EXPECT_EQ(VipResizeCQ(cq, 20000), VIP_SUCCESS) << "a size is a hint";
	expect_traffic(a, b);
	EXPECT_EQ(fake_calls("ibv_resize_cq"), 0u);
}

TEST_F(Capabilities, AShortageDoesNotLowerWhatIsPromisedOfCompletionQueues)
{
	fake_fail("ibv_create_cq", 2, ENOMEM);
	open();
	const VIP_ULONG promised = nic_attributes().MaxCQEntries;
	start_over();
	open();
	EXPECT_EQ(promised, nic_attributes().MaxCQEntries);
	start_over();
	fake_fail("ibv_create_cq", 2, EFAULT); // of the kernel, where the provider has rounded the size up
	open();
	EXPECT_LT(nic_attributes().MaxCQEntries, promised);
}

// ---- regions ----

// The profiles have the other kinds of keys.
TEST_F(Capabilities, TheKeysOfOneRegionMayDiffer)
{
	std::set<VIP_MEM_HANDLE> handles;

	open_with([](fake_device &d) { d.keys = FAKE_KEYS_DIFFERENT; });
	allow_reads();
	for (VIP_RELIABILITY_LEVEL level : {VIP_SERVICE_RELIABLE_DELIVERY, VIP_SERVICE_RELIABLE_RECEPTION}) {
		vi_kind.ReliabilityLevel = level;
		make_pair();
		expect_traffic(a, b);
		memcpy(memory.data(), "one two three", 14);
		expect_send(a, write_descriptor(0, memory.data(14), {memory.data(), 14}), VIP_STATUS_OP_RDMA_WRITE);
		expect_send(a, read_descriptor(1, memory.data(14), {memory.data(28), 14}), READ);
		EXPECT_STREQ(memory.data(28), "one two three");
		memset(memory.data(), 0, 42);
	}
	for (int i = 0; i < 500; i++) {
		VIP_MEM_HANDLE handle = 0;
		ASSERT_EQ(add(memory.data(), 64, &handle, i % 3 == 0), VIP_SUCCESS);
		EXPECT_TRUE(handle && handle != 0xFFFFFFFF);
		EXPECT_TRUE(handles.insert(handle).second);
	}
}

TEST_F(Capabilities, WithoutAKeyForPeersMemoryIsGoodForMessages)
{
	fake_device device;
	VIP_MEM_HANDLE handle = 0;

	device.keys = FAKE_KEYS_NO_REMOTE;
	fake_set_devices(1, &device);
	ASSERT_EQ(VipOpenNic("nic0", &nic), VIP_SUCCESS);
	ASSERT_EQ(memory.add(nic, nullptr, false), VIP_SUCCESS);
	EXPECT_TRUE(memory.handle && memory.handle != UINT32_MAX);
	vi_kind.EnableRdmaWrite = VIP_FALSE;
	make_pair();
	expect_traffic(a, b);
	const std::string log = told([&] { EXPECT_EQ(add(bytes, sizeof(bytes), &handle, true), VIP_ERROR_RESOURCE); });
	expect_said(log, "the device has no memory handle for 4096 bytes: it gave 0xffffffff again and again, which is none");
}

// Since Linux 6.5 adapters may not write to shared mappings of files, which are told as memory that is read-only.
TEST_F(Capabilities, WhereTheDeviceMayOnlyReadNothingCanBeReceived)
{
	VIP_MEM_HANDLE handle = 0;

	vi_kind.EnableRdmaRead = VIP_TRUE;
	open_adapter([](fake_device &) {});
	allow_reads();
	fake_fail("ibv_reg_mr", 1, EFAULT);
	const std::string refused = told([&] { EXPECT_EQ(add(bytes, sizeof(bytes), &handle, true), VIP_ERROR_RESOURCE); });
	expect_said(refused, "a shared mapping of a file");
	fake_fail("ibv_reg_mr", 1, EFAULT);
	ASSERT_EQ(add(bytes, sizeof(bytes), &handle), VIP_SUCCESS);
	for (bool is_read : {false, true}) {
		SCOPED_TRACE(is_read ? "an RDMA read" : "a receive");
		make_pair();
		for (int i = 0; i < 2; i++) { // the second is of a region that was used just before
			posted_receive(b, 1, {{memory.data(), 64}});
			VIP_DESCRIPTOR *s = descriptor(2, {{bytes, 64}});
			s->DS[0].Local.Handle = handle;
			expect_send(a, s);
			expect_received(b, at(1));
		}
		VIP_DESCRIPTOR *d = is_read ? read_descriptor(3, memory.data(), {bytes, 64}) : descriptor(3, {{bytes, 64}});
		d->DS[is_read].Local.Handle = handle;
		const uint64_t before = fake_calls("ibv_post_send") + fake_calls("ibv_post_recv");
		const std::string log = told([&] {
			EXPECT_EQ(is_read ? post_send(a, d) : post_recv(b, d), VIP_SUCCESS);
			if (is_read)
				expect_sent(a, d, READ | VIP_STATUS_PROTECTION_ERROR);
			else
				expect_received(b, d, VIP_STATUS_OP_RECEIVE | VIP_STATUS_PROTECTION_ERROR);
		});
		EXPECT_EQ(fake_calls("ibv_post_send") + fake_calls("ibv_post_recv"), before);
		expect_said(log, "which the device may only read");
		EXPECT_TRUE(eventually([&] { return state_of(a) == VIP_STATE_ERROR && state_of(b) == VIP_STATE_ERROR; }));
		disconnect_pair();
	}
	EXPECT_EQ(VipDeregisterMem(nic, bytes, handle), VIP_SUCCESS);
}

// ibv_rereg_mr(3): after some errors nothing may use the region, whose memory then is registered anew.
TEST_F(Capabilities, ARegionThatTheDeviceHasLostIsMadeAnewOrNotUsed)
{
	VIP_MEM_ATTRIBUTES rights{};
	VIP_MEM_HANDLE handle = 0;

	open_adapter([](fake_device &d) {
		d.rereg_mr = true;
		d.keys = FAKE_KEYS_EQUAL;
	});
	for (bool had : {false, true})
		for (bool again : {true, false}) {
			SCOPED_TRACE(testing::Message() << had << again);
			ASSERT_EQ(add(bytes, sizeof(bytes), &handle, had), VIP_SUCCESS);
			auto receive = [&](VIP_UINT32 error) {
				make_pair();
				VIP_DESCRIPTOR *d = descriptor(1, {{bytes, 64}});
				d->DS[0].Local.Handle = handle;
				EXPECT_EQ(post_recv(b, d), VIP_SUCCESS);
				if (!error)
					expect_sent(a, posted_send(a, 2, {{memory.data(), 64}}));
				expect_received(b, d, VIP_STATUS_OP_RECEIVE | error);
				disconnect_pair();
			};
			rights.EnableRdmaWrite = VIP_TRUE;
			rights.EnableRdmaRead = VIP_TRUE;
			fake_fail("ibv_rereg_mr", 1, EIO);
			if (!again)
				fake_fail("ibv_reg_mr", 1, ENOMEM);
			EXPECT_EQ(VipSetMemAttributes(nic, bytes, handle, &rights), VIP_ERROR_RESOURCE);
			receive(again ? 0 : VIP_STATUS_PROTECTION_ERROR);
			EXPECT_EQ(VipSetMemAttributes(nic, bytes, handle, &rights), again ? VIP_ERROR_NOT_SUPPORTED : VIP_ERROR_RESOURCE);
			receive(0); // it is made anew, if it was not
			rights.EnableRdmaWrite = rights.EnableRdmaRead = VIP_FALSE;
			EXPECT_EQ(VipSetMemAttributes(nic, bytes, handle, &rights), VIP_SUCCESS);
			receive(0);
			EXPECT_EQ(VipDeregisterMem(nic, bytes, handle), VIP_SUCCESS);
		}
}

// ---- fork() ----

TEST_F(Capabilities, WhereForkTakesPagesAwayTheyAreKeptFromChildren)
{
	open();
	EXPECT_EQ(fake_calls("ibv_fork_init"), 0u) << "the kernel does it";
	start_over();
	fake_set_fork(IBV_FORK_DISABLED);
	fake_before("ibv_reg_mr", 1, [] { EXPECT_EQ(ibv_is_fork_initialized(), IBV_FORK_ENABLED); });
	open();
	close();
	open();
	EXPECT_EQ(fake_calls("ibv_fork_init"), 1u);
}

TEST_F(Capabilities, ThatItCannotBeKeptIsToldOnce)
{
	for (int error : {ENOSYS, EINVAL, ENOMEM}) {
		Child child = passing_child({}, [&] {
			fake_set_fork(IBV_FORK_DISABLED);
			for (int i = 0; i < 2; i++) {
				fake_fail("ibv_fork_init", 1, error);
				open();
				close();
			}
		});
		const size_t first = child.err.find("ibv_fork_init()");

		EXPECT_NE(first, std::string::npos) << child.err;
		EXPECT_EQ(child.err.find("ibv_fork_init()", first + 1), std::string::npos) << child.err;
	}
}

} // namespace
