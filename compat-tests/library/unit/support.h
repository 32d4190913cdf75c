/* SPDX-License-Identifier: BSD-2-Clause */
// What the unit tests share: a NIC on the fake device, memory, VIs and pairs of them, and children
// of the process. Every wait here is for a condition, with a bound.
#pragma once

#include <condition_variable>
#include <functional>
#include <future>
#include <gtest/gtest.h>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "fake_rdma.h"
#include "vipl.h"

// Bound, in ms, of what is expected to happen.
constexpr VIP_ULONG PATIENCE = 8000;
// How long a request looks for somebody who waits, in these tests.
constexpr int GRACE_MSEC = 100;
// Or so long, where a busy machine must not make it too short: a test program says so before main().
constexpr int LONG_GRACE_MSEC = 3000;
extern int grace_msec;

void PrintTo(VIP_RETURN code, std::ostream *out);
void PrintTo(VIP_VI_STATE state, std::ostream *out);

bool eventually(const std::function<bool()> &condition, VIP_ULONG ms = PATIENCE);

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
	// Waits for the first one of this code, and checks what it says.
	void expect_first(VIP_ERROR_CODE code, VIP_RESOURCE_CODE resource, VIP_NIC_HANDLE nic,
			  VIP_VI_HANDLE vi, VIP_ULONG operation);
	std::function<void(const VIP_ERROR_DESCRIPTOR &)> then; // called by the handler, too

      private:
	std::mutex mutex_;
	std::vector<VIP_ERROR_DESCRIPTOR> seen_;
};

// Registered memory: descriptors by number, then room for data.
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

VIP_VI_ATTRIBUTES vi_attributes();
VIP_VI_STATE state_of(VIP_VI_HANDLE vi);
uint32_t newest_qp();

class NicTest : public testing::Test
{
      protected:
	void SetUp() override;
	void TearDown() override;

	// Tests that configure the fake do so first.
	void open();
	void open_with(const std::function<void(fake_device &)> &change);
	void close();
	void options(const std::function<void(fake_options &)> &change);
	Vi make_vi(VIP_CQ_HANDLE send_cq = nullptr, VIP_CQ_HANDLE recv_cq = nullptr);
	// Makes a and b, and connects them.
	void make_pair();
	void make_pair(VIP_CQ_HANDLE send_cq, VIP_CQ_HANDLE recv_cq);
	void connect(Vi &from, Vi &to, const std::string &discriminator = "pair");
	// One message each way.
	void expect_traffic(Vi &from, Vi &to);
	// A fresh pair of VIs connects and works.
	void expect_usable();

	VIP_RETURN request(VIP_VI_HANDLE vi, const std::string &discriminator, VIP_ULONG timeout,
			   const char *ip = "10.9.9.1");
	// The same by another thread; waits with all patience, also for somebody who waits.
	std::future<VIP_RETURN> request_async(VIP_VI_HANDLE vi, const std::string &discriminator,
					      const char *ip = "10.9.9.1");
	VIP_RETURN wait(const std::string &discriminator, VIP_ULONG timeout, VIP_CONN_HANDLE *conn);

	VIP_DESCRIPTOR *descriptor(size_t number, const std::vector<Segment> &segments,
				   unsigned control = 0, VIP_UINT32 immediate = 0);
	// The one that was made last with this number.
	VIP_DESCRIPTOR *at(size_t number);
	// An RDMA write to the same memory.
	VIP_DESCRIPTOR *write_descriptor(size_t number, const void *to, Segment from,
					 unsigned control = 0, VIP_UINT32 immediate = 0);
	VIP_RETURN post_send(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *descriptor);
	VIP_RETURN post_recv(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *descriptor);
	void expect_sent(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *descriptor, VIP_UINT32 status = 0);
	void expect_received(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *descriptor, VIP_UINT32 status = 0);
	void expect_state(VIP_VI_HANDLE vi, VIP_VI_STATE state);
	// Faults that are pending do not reach what comes after.
	void forget_faults();

	VIP_NIC_HANDLE nic = nullptr;
	VIP_VI_ATTRIBUTES vi_kind = vi_attributes(); // of VIs that are made here
	Errors errors;
	Memory memory;
	Vi a, b;
	bool expect_clean = true; // no leak and no misuse
};

// A child of this process with this environment and no other VIPL_ variable.
struct Child {
	std::string out, err; // what it wrote
	int status;           // as of waitpid()
};
Child in_child(const std::map<std::string, std::string> &environment,
	       const std::function<void()> &body);
