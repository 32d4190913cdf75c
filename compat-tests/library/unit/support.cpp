// SPDX-License-Identifier: BSD-2-Clause
#include "support.h"

#include "shim.h"

#include <cstdlib>
#include <cstring>
#include <unistd.h>

void NicTest::SetUp()
{
	fake_reset();
}

void NicTest::TearDown()
{
	fake_forget_faults();
	by_hand(false);
	close();
	if (!expect_clean)
		return;
	EXPECT_EQ(fake_live_total(), 0) << "leaked";
	for (const std::string &what : fake_take_misuse())
		ADD_FAILURE() << "misuse: " << what;
}

void NicTest::open(const char *name)
{
	host = strcmp(name, "via_lo") ? "10.9.9.1" : "127.0.0.1";
	ASSERT_EQ(VipOpenNic(name, &nic), VIP_SUCCESS);
	ASSERT_EQ(VipErrorCallback(nic, &errors, Errors::handler), VIP_SUCCESS);
	ASSERT_EQ(memory.add(nic), VIP_SUCCESS);
}

void NicTest::open_with(const std::function<void(fake_device &)> &change, const char *name)
{
	fake_device device;

	change(device);
	fake_set_devices(1, &device);
	open(name);
}

void NicTest::open_with_cqs_of(int entries)
{
	open_with([=](fake_device &d) {
		d.max_cqe = entries;
		d.resize_cq = false;
	});
}

VIP_NIC_ATTRIBUTES NicTest::nic_attributes() const
{
	VIP_NIC_ATTRIBUTES attributes{};

	EXPECT_EQ(VipQueryNic(nic, &attributes), VIP_SUCCESS);
	return attributes;
}

void NicTest::await_rest() const
{
	EXPECT_TRUE(eventually([this] { return !shim_agent_looks_by_itself(nic); }));
}

void NicTest::close()
{
	if (nic) {
		EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
	}
	nic = nullptr;
}

void NicTest::start_over()
{
	close();
	fake_reset();
}

void NicTest::options(const std::function<void(fake_options &)> &change)
{
	fake_options now;

	fake_get_options(&now);
	change(now);
	fake_set_options(&now);
}

void NicTest::by_hand(bool manual)
{
	options([=](fake_options &o) { o.manual = manual; });
}

Vi NicTest::make_vi(VIP_CQ_HANDLE send_cq, VIP_CQ_HANDLE recv_cq)
{
	Vi vi;

	EXPECT_EQ(VipCreateVi(nic, &vi_kind, send_cq, recv_cq, &vi.handle), VIP_SUCCESS);
	vi.qp = newest_qp();
	return vi;
}

VIP_CQ_HANDLE NicTest::make_cq(VIP_ULONG entries)
{
	VIP_CQ_HANDLE cq = nullptr;

	EXPECT_EQ(VipCreateCQ(nic, entries, &cq), VIP_SUCCESS);
	return cq;
}

void NicTest::make_pair(VIP_CQ_HANDLE send_cq, VIP_CQ_HANDLE recv_cq)
{
	a = make_vi(send_cq, recv_cq);
	b = make_vi(send_cq, recv_cq);
	connect(a, b);
}

VIP_RETURN NicTest::request(VIP_VI_HANDLE vi, const std::string &discriminator, VIP_ULONG timeout, const char *ip)
{
	Address local("0.0.0.0", "me"), remote(ip ? ip : host, discriminator);
	VIP_VI_ATTRIBUTES attributes;

	return VipConnectRequest(vi, local.get(), remote.get(), timeout, &attributes);
}

std::future<VIP_RETURN> NicTest::request_async(VIP_VI_HANDLE vi, const std::string &discriminator, const char *ip)
{
	return std::async(std::launch::async, [=] {
		VIP_RETURN rc;

		for (int tries = 0; tries < 100; tries++)
			if ((rc = request(vi, discriminator, PATIENCE, ip)) != VIP_NO_MATCH)
				break;
		return rc;
	});
}

VIP_RETURN NicTest::wait(const std::string &discriminator, VIP_ULONG timeout)
{
	Address local("10.9.9.1", discriminator), remote;
	VIP_VI_ATTRIBUTES attributes;

	return VipConnectWait(nic, local.get(), timeout, remote.get(), &attributes, &conn);
}

// Over via_lo all processes of this host meet.
void NicTest::connect(Vi &from, Vi &to, const std::string &discriminator)
{
	const std::string door = strcmp(host, "127.0.0.1") ? discriminator : discriminator + std::to_string(getpid());
	std::future<VIP_RETURN> requested = request_async(from, door);

	ASSERT_EQ(wait(door, PATIENCE), VIP_SUCCESS);
	EXPECT_EQ(VipConnectAccept(conn, to), VIP_SUCCESS);
	EXPECT_EQ(requested.get(), VIP_SUCCESS);
	ASSERT_EQ(state_of(from), VIP_STATE_CONNECTED);
	ASSERT_EQ(state_of(to), VIP_STATE_CONNECTED);
}

void NicTest::disconnect_pair()
{
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	EXPECT_EQ(VipDisconnect(b), VIP_SUCCESS);
}

void NicTest::end_vi(VIP_VI_HANDLE vi)
{
	EXPECT_EQ(VipDisconnect(vi), VIP_SUCCESS);
	EXPECT_EQ(VipDestroyVi(vi), VIP_SUCCESS);
}

void NicTest::expect_again()
{
	fake_forget_faults();
	disconnect_pair();
	connect(a, b, "again");
	expect_traffic(a, b);
}

VIP_DESCRIPTOR *NicTest::descriptor(size_t number, const std::vector<Segment> &segments, unsigned control,
				    VIP_UINT32 immediate)
{
	VIP_DESCRIPTOR *d = memory.blank(number);

	d->CS.SegCount = static_cast<VIP_UINT16>(segments.size());
	d->CS.Control = static_cast<VIP_UINT16>(control);
	d->CS.ImmediateData = immediate;
	for (size_t i = 0; i < segments.size(); i++) {
		VIP_DESCRIPTOR_SEGMENT *segment = &d->DS[0] + i; // more than the two that the type is declared with
		segment->Local.Data.Address = const_cast<void *>(segments[i].data);
		segment->Local.Handle = memory.handle;
		segment->Local.Length = static_cast<VIP_UINT32>(segments[i].length);
	}
	return d;
}

VIP_DESCRIPTOR *NicTest::at(size_t number)
{
	return reinterpret_cast<VIP_DESCRIPTOR *>(static_cast<char *>(memory.base) + number * Memory::STRIDE);
}

VIP_DESCRIPTOR *NicTest::write_descriptor(size_t number, const void *to, Segment from, unsigned control,
					  VIP_UINT32 immediate)
{
	return descriptor(number, {{to, 0}, from}, control | VIP_CONTROL_OP_RDMAWRITE, immediate);
}

VIP_DESCRIPTOR *NicTest::read_descriptor(size_t number, const void *from, Segment to)
{
	return descriptor(number, {{from, 0}, to}, VIP_CONTROL_OP_RDMAREAD);
}

void NicTest::allow_reads()
{
	EXPECT_EQ(VipDeregisterMem(nic, memory.base, memory.handle), VIP_SUCCESS);
	EXPECT_EQ(memory.add(nic, nullptr, true, true), VIP_SUCCESS);
	vi_kind.EnableRdmaRead = VIP_TRUE;
}

VIP_RETURN NicTest::post_send(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d)
{
	return VipPostSend(vi, d, memory.handle);
}

VIP_RETURN NicTest::post_recv(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d)
{
	return VipPostRecv(vi, d, memory.handle);
}

void NicTest::post_sends(VIP_VI_HANDLE vi, const std::vector<VIP_DESCRIPTOR *> &descriptors)
{
	for (VIP_DESCRIPTOR *d : descriptors)
		EXPECT_EQ(post_send(vi, d), VIP_SUCCESS);
}

void NicTest::post_recvs(VIP_VI_HANDLE vi, const std::vector<VIP_DESCRIPTOR *> &descriptors)
{
	for (VIP_DESCRIPTOR *d : descriptors)
		EXPECT_EQ(post_recv(vi, d), VIP_SUCCESS);
}

VIP_DESCRIPTOR *NicTest::posted_send(VIP_VI_HANDLE vi, size_t number, const std::vector<Segment> &segments,
				     unsigned control, VIP_UINT32 immediate)
{
	VIP_DESCRIPTOR *d = descriptor(number, segments, control, immediate);

	EXPECT_EQ(post_send(vi, d), VIP_SUCCESS);
	return d;
}

VIP_DESCRIPTOR *NicTest::posted_receive(VIP_VI_HANDLE vi, size_t number, const std::vector<Segment> &segments)
{
	VIP_DESCRIPTOR *d = descriptor(number, segments);

	EXPECT_EQ(post_recv(vi, d), VIP_SUCCESS);
	return d;
}

void NicTest::post_both(VIP_DESCRIPTOR *receive, VIP_DESCRIPTOR *send)
{
	EXPECT_EQ(post_recv(b, receive), VIP_SUCCESS);
	EXPECT_EQ(post_send(a, send), VIP_SUCCESS);
}

static void expect_done(VIP_RETURN rc, VIP_DESCRIPTOR *done, VIP_DESCRIPTOR *wanted, VIP_UINT32 status)
{
	EXPECT_EQ(rc, status & VIP_STATUS_ERROR_MASK ? VIP_DESCRIPTOR_ERROR : VIP_SUCCESS);
	ASSERT_EQ(done, wanted);
	EXPECT_EQ(done->CS.Status, status | VIP_STATUS_DONE) << std::hex << "0x" << done->CS.Status;
}

void NicTest::expect_sent(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d, VIP_UINT32 status)
{
	VIP_DESCRIPTOR *done = nullptr;
	VIP_RETURN rc = VipSendWait(vi, PATIENCE, &done);

	expect_done(rc, done, d, status);
}

void NicTest::expect_received(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d, VIP_UINT32 status)
{
	VIP_DESCRIPTOR *done = nullptr;
	VIP_RETURN rc = VipRecvWait(vi, PATIENCE, &done);

	if (!(status & VIP_STATUS_OP_MASK))
		status |= VIP_STATUS_OP_RECEIVE;
	expect_done(rc, done, d, status);
}

void NicTest::expect_send(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d, VIP_UINT32 status)
{
	EXPECT_EQ(post_send(vi, d), VIP_SUCCESS);
	expect_sent(vi, d, status);
}

void NicTest::expect_state(VIP_VI_HANDLE vi, VIP_VI_STATE state)
{
	EXPECT_TRUE(eventually([&] { return state_of(vi) == state; }))
		<< "in " << testing::PrintToString(state_of(vi)) << ", not " << testing::PrintToString(state);
}

void NicTest::expect_lost(VIP_VI_HANDLE vi)
{
	expect_state(vi, VIP_STATE_ERROR);
	EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, vi));
}

void NicTest::expect_traffic(Vi &from, Vi &to)
{
	const size_t first = Memory::DESCRIPTORS - 8, at = Memory::DATA - 4096;

	if (HasFatalFailure()) // the VIs are not connected
		return;
	for (auto [x, y] : {std::pair(&from, &to), std::pair(&to, &from)}) {
		VIP_DESCRIPTOR *r = descriptor(first, {{memory.data(at + 1024), 512}});
		VIP_DESCRIPTOR *s = descriptor(first + 1, {{memory.data(at), 512}});

		memset(memory.data(at), x == &from ? 'f' : 't', 512);
		ASSERT_EQ(post_recv(*y, r), VIP_SUCCESS);
		ASSERT_EQ(post_send(*x, s), VIP_SUCCESS);
		expect_received(*y, r);
		expect_sent(*x, s);
		EXPECT_EQ(r->CS.Length, 512u);
		EXPECT_EQ(memcmp(memory.data(at), memory.data(at + 1024), 512), 0);
	}
}

void NicTest::expect_usable()
{
	Vi x = make_vi(), y = make_vi();

	connect(x, y, "usable");
	if (HasFatalFailure())
		return;
	expect_traffic(x, y);
	end_vi(x);
	end_vi(y);
}

int main(int argc, char **argv)
{
	setenv("VIPL_GRACE_MSEC", std::to_string(GRACE_MSEC).c_str(), 1);
	testing::InitGoogleTest(&argc, argv);
	return RUN_ALL_TESTS();
}
