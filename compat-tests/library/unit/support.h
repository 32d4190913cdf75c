/* SPDX-License-Identifier: BSD-2-Clause */
// The unit tests share these: a NIC on the fake device, memory, VIs and pairs of them, and children of the process.
// Every wait is for a condition, and has a bound.
#pragma once

#include <condition_variable>
#include <ctime>
#include <functional>
#include <future>
#include <gtest/gtest.h>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "fake_rdma.h"
#include "vipl.h"

// The bound, in ms, for an event that a test expects.
constexpr VIP_ULONG PATIENCE = 8000;
// The grace time of these tests: how long a request looks for a server.
constexpr int GRACE_MSEC = 100;

void PrintTo(VIP_RETURN code, std::ostream *out);
void PrintTo(VIP_VI_STATE state, std::ostream *out);

bool eventually(const std::function<bool()> &condition, VIP_ULONG ms = PATIENCE);
void expect_said(const std::string &log, const std::string &words);

// VIP_NET_ADDRESS with room for its bytes: 6 for an IPv4 address, 16 for IPv6.
struct Address {
	alignas(8) unsigned char bytes[64] = {};
	Address(const char *ip, const std::string &discriminator);
	Address() : Address("0.0.0.0", std::string(20, 'x'))
	{
	}
	VIP_NET_ADDRESS *get()
	{
		return reinterpret_cast<VIP_NET_ADDRESS *>(bytes);
	}
};

// The asynchronous errors of a NIC.
class Errors
{
      public:
	static void handler(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error);
	int count(VIP_ERROR_CODE code, VIP_VI_HANDLE vi = nullptr);
	bool reach(VIP_ERROR_CODE code, VIP_VI_HANDLE vi = nullptr, int count = 1);
	// Waits for the first error of this code, and checks its contents.
	void expect_first(VIP_ERROR_CODE code, VIP_RESOURCE_CODE resource, VIP_NIC_HANDLE nic,
			  VIP_VI_HANDLE vi, VIP_ULONG operation);
	std::function<void(const VIP_ERROR_DESCRIPTOR &)> then; // called by the handler, too

      private:
	std::mutex mutex_;
	std::vector<VIP_ERROR_DESCRIPTOR> seen_;
};

// Registered memory. It has descriptors, by number, and then room for data.
class Memory
{
      public:
	static constexpr size_t DESCRIPTORS = 1200, STRIDE = 320, DATA = 256 * 1024;
	~Memory();
	VIP_RETURN add(VIP_NIC_HANDLE nic, VIP_PROTECTION_HANDLE tag = nullptr,
		       bool rdma_write = true, bool rdma_read = false);
	VIP_DESCRIPTOR *blank(size_t number);
	char *data(size_t offset = 0);

	VIP_MEM_HANDLE handle = 0;
	void *base = nullptr;
};

struct Segment {
	const void *data;
	size_t length;
};

struct Vi {
	VIP_VI_HANDLE handle = nullptr;
	uint32_t qp = 0;
	operator VIP_VI_HANDLE() const
	{
		return handle;
	}
};

// The next entry of a CQ, if the code is VIP_SUCCESS.
struct CqEntry {
	VIP_RETURN code;
	VIP_VI_HANDLE vi;
	VIP_BOOLEAN is_receive;
	bool operator==(const CqEntry &other) const
	{
		return code == other.code && vi == other.vi && is_receive == other.is_receive;
	}
};
void PrintTo(const CqEntry &entry, std::ostream *out);
CqEntry cq_wait(VIP_CQ_HANDLE cq, VIP_ULONG ms = PATIENCE);
CqEntry cq_done(VIP_CQ_HANDLE cq);

// What a call that takes a descriptor returns, and the descriptor.
struct Taken {
	VIP_RETURN code;
	const VIP_DESCRIPTOR *descriptor = nullptr;
	bool operator==(const Taken &other) const
	{
		return code == other.code && descriptor == other.descriptor;
	}
};
void PrintTo(const Taken &taken, std::ostream *out);
Taken send_done(VIP_VI_HANDLE vi);
Taken recv_done(VIP_VI_HANDLE vi);
Taken send_wait(VIP_VI_HANDLE vi, VIP_ULONG ms = PATIENCE);
Taken recv_wait(VIP_VI_HANDLE vi, VIP_ULONG ms = PATIENCE);
bool is_done(const VIP_DESCRIPTOR *descriptor); // as its status says

VIP_VI_ATTRIBUTES vi_attributes();
VIP_VI_STATE state_of(VIP_VI_HANDLE vi);
uint32_t newest_qp();
ibv_qp_attr qp_attributes(const Vi &vi); // of its queue pair

class NicTest : public testing::Test
{
      protected:
	void SetUp() override;
	void TearDown() override;

	// A test configures the fake before it calls this.
	void open(const char *name = "nic0");
	void open_with(const std::function<void(fake_device &)> &change, const char *name = "nic0");
	// Opens a device whose CQs have at most so many entries, and cannot be resized.
	void open_with_cqs_of(int entries);
	VIP_NIC_ATTRIBUTES nic_attributes() const;
	void close();
	// On via_lo: until the library does not look at CQs by itself, because the program does not poll.
	void await_rest() const;
	// Closes the NIC, and makes the fake what it is at the beginning of a test.
	void start_over();
	void options(const std::function<void(fake_options &)> &change);
	Vi make_vi(VIP_CQ_HANDLE send_cq = nullptr, VIP_CQ_HANDLE recv_cq = nullptr);
	VIP_CQ_HANDLE make_cq(VIP_ULONG entries);
	// Sends wait for fake_progress(), or no longer.
	void by_hand(bool manual);
	// Makes a and b, and connects them.
	void make_pair(VIP_CQ_HANDLE send_cq = nullptr, VIP_CQ_HANDLE recv_cq = nullptr);
	void connect(Vi &from, Vi &to, const std::string &discriminator = "pair");
	void disconnect_pair();
	static void end_vi(VIP_VI_HANDLE vi); // disconnects and destroys it
	// Sends one message each way.
	void expect_traffic(Vi &from, Vi &to);
	// Checks that a and b can be disconnected, and that they connect again and work.
	void expect_again();
	// Checks that a new pair of VIs connects and works.
	void expect_usable();

	// Without an address it is the NIC's own.
	VIP_RETURN request(VIP_VI_HANDLE vi, const std::string &discriminator, VIP_ULONG timeout, const char *ip = nullptr);
	// Requests in another thread, without a timeout, so it also waits for a server.
	std::future<VIP_RETURN> request_async(VIP_VI_HANDLE vi, const std::string &discriminator, const char *ip = nullptr);
	// Starts a call that will sleep. Returns when it is about to: it has called this function, by default to arm a CQ.
	template <class Call> static auto start_call(Call call, const char *function = "ibv_req_notify_cq")
	{
		const uint64_t before = fake_calls(function);
		auto result = std::async(std::launch::async, std::move(call));

		EXPECT_TRUE(eventually([&] { return fake_calls(function) > before; }));
		return result;
	}
	// Gets a request as `conn`.
	VIP_RETURN wait(const std::string &discriminator, VIP_ULONG timeout);

	VIP_DESCRIPTOR *descriptor(size_t number, const std::vector<Segment> &segments,
				   unsigned control = 0, VIP_UINT32 immediate = 0);
	// The descriptor that was made last with this number.
	VIP_DESCRIPTOR *at(size_t number);
	// Makes an RDMA write to the same memory.
	VIP_DESCRIPTOR *write_descriptor(size_t number, const void *to, Segment from,
					 unsigned control = 0, VIP_UINT32 immediate = 0);
	VIP_DESCRIPTOR *read_descriptor(size_t number, const void *from, Segment to);
	// Peers may read the memory, too, and VIs that are made from now on.
	void allow_reads();
	VIP_RETURN post_send(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *descriptor);
	VIP_RETURN post_recv(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *descriptor);
	// Post these, in their order.
	void post_sends(VIP_VI_HANDLE vi, const std::vector<VIP_DESCRIPTOR *> &descriptors);
	void post_recvs(VIP_VI_HANDLE vi, const std::vector<VIP_DESCRIPTOR *> &descriptors);
	// Make a descriptor, and post it.
	VIP_DESCRIPTOR *posted_send(VIP_VI_HANDLE vi, size_t number, const std::vector<Segment> &segments,
				    unsigned control = 0, VIP_UINT32 immediate = 0);
	VIP_DESCRIPTOR *posted_receive(VIP_VI_HANDLE vi, size_t number, const std::vector<Segment> &segments);
	// Posts a receive at b, and a send at a.
	void post_both(VIP_DESCRIPTOR *receive, VIP_DESCRIPTOR *send);
	void expect_sent(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *descriptor, VIP_UINT32 status = 0);
	void expect_received(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *descriptor, VIP_UINT32 status = 0);
	// Posts it, too.
	void expect_send(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *descriptor, VIP_UINT32 status = 0);
	void expect_state(VIP_VI_HANDLE vi, VIP_VI_STATE state);
	// It is in ERROR, and told so.
	void expect_lost(VIP_VI_HANDLE vi);

	VIP_NIC_HANDLE nic = nullptr;
	const char *host = "10.9.9.1"; // of the NIC
	VIP_VI_ATTRIBUTES vi_kind = vi_attributes(); // of VIs that are made here
	Errors errors;
	Memory memory;
	Vi a, b;
	VIP_CONN_HANDLE conn = nullptr;
	bool expect_clean = true; // no leak and no misuse
};

// A test of two connected VIs.
class PairTest : public NicTest
{
      protected:
	void SetUp() override
	{
		NicTest::SetUp();
		open();
		make_pair();
	}
};

// A test with a parameter.
template <class Base, class Parameter>
class Each : public Base, public testing::WithParamInterface<Parameter>
{
};

// A parameter with a name, which names its tests: by ByName().
struct Named {
	const char *name;
};
inline std::ostream &operator<<(std::ostream &out, const Named &named)
{
	return out << named.name;
}
struct Level : Named {
	VIP_RELIABILITY_LEVEL level;
};
struct ByName {
	template <class Parameter> std::string operator()(const testing::TestParamInfo<Parameter> &info) const
	{
		return info.param.name;
	}
};

double seconds(clockid_t clock);

// A child of this process, with this environment and no other VIPL_ variable. Log lines have no stamps.
struct Child {
	std::string out, err; // its output
	int status;           // as of waitpid()
};
Child in_child(const std::map<std::string, std::string> &environment,
	       const std::function<void()> &body);
// Expects that it ends with status 0.
Child passing_child(const std::map<std::string, std::string> &environment, const std::function<void()> &body);
