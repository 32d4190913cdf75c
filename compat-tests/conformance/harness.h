/* SPDX-License-Identifier: BSD-2-Clause */
// Declarations that the conformance tests share: owners of VIPL objects, messages in registered memory,
// connecting two VIs of one process, and a second process as the peer. It uses only the public API.
//
// Owners release their objects in the destructors and ignore the results. A test of a release calls the
// function itself.
#pragma once

#include "timing.h"

#include <gtest/gtest.h>
#include <vipl.h>

#include <cstddef>
#include <functional>
#include <future>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <sys/types.h>
#include <vector>

void PrintTo(VIP_RETURN code, std::ostream *out);
void PrintTo(VIP_VI_STATE state, std::ostream *out);

namespace harness
{

constexpr VIP_ULONG kTransferSize = 65536; // the least that a NIC's MaxTransferSize may be

const char *nicName(); // $VIPL_TEST_NIC, or "nic0"

// ---- status words ----
struct Status {
	VIP_UINT32 bits;
	bool operator==(const Status &other) const
	{
		return bits == other.bits;
	}
};
std::ostream &operator<<(std::ostream &out, const Status &status);
inline Status statusOf(const VIP_DESCRIPTOR *d)
{
	return {d->CS.Status};
}
inline Status status(VIP_UINT32 bits)
{
	return {VIP_STATUS_DONE | bits};
}
inline VIP_UINT32 errorOf(const VIP_DESCRIPTOR *d)
{
	return d->CS.Status & VIP_STATUS_ERROR_MASK;
}

// ---- NIC ----
// The asynchronous errors of a NIC handle.
class Errors
{
      public:
	static void handler(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error);
	size_t count(VIP_VI_HANDLE vi);
	size_t count(VIP_VI_HANDLE vi, VIP_ERROR_CODE code);
	bool reaches(VIP_VI_HANDLE vi, size_t count, VIP_ULONG ms = kPatience);
	VIP_ERROR_DESCRIPTOR first(VIP_VI_HANDLE vi);

      private:
	std::vector<VIP_ERROR_DESCRIPTOR> of(VIP_VI_HANDLE vi);
	std::mutex mutex_;
	std::vector<VIP_ERROR_DESCRIPTOR> seen_;
};

class Nic
{
      public:
	Nic(); // of nicName(); throws if it does not open
	explicit Nic(const char *name); // NULL: it is not opened
	~Nic();
	Nic(const Nic &) = delete;
	Nic &operator=(const Nic &) = delete;
	operator VIP_NIC_HANDLE() const
	{
		return handle_;
	}
	bool opened() const
	{
		return open_;
	}
	VIP_RETURN openResult() const
	{
		return result_;
	}
	VIP_RETURN close();
	const VIP_NIC_ATTRIBUTES &attributes() const
	{
		return attributes_;
	}
	VIP_UINT32 longMessage() const; // 1 MiB, or what the NIC takes if that is less
	std::string address() const; // the NIC's own address, as bytes
	// Returns all addresses that lead to the NIC. A NIC of a network is known by its own address. The
	// loopback NIC is known by any address of the machine.
	std::vector<std::string> addresses() const;
	// Whether this is a loopback NIC: its address is a loopback address.
	bool isLoopback() const;
	// Frees the memory when the handle is closed: a VI may still have descriptors posted in it.
	void freeLater(void *memory);
	Errors errors;

      private:
	std::mutex mutex_;
	std::vector<void *> freeLater_;
	VIP_NIC_HANDLE handle_ = nullptr;
	VIP_NIC_ATTRIBUTES attributes_{};
	VIP_RETURN result_;
	bool open_ = false;
};

// nicName(), or NULL if the library lacks a function that the current test needs.
const char *nicOfTest();

// The base of every test that needs a NIC. A NIC that does not open is a failure, never a skip. What a fixture makes on such a NIC
// does nothing.
class NicTest : public testing::Test
{
      protected:
	void SetUp() override;
	Nic nic{nicOfTest()};
};

// ---- memory ----
class Region
{
      public:
	Region(Nic &nic, size_t bytes, VIP_MEM_ATTRIBUTES attributes = {});
	~Region();
	Region(const Region &) = delete;
	Region &operator=(const Region &) = delete;
	VIP_UCHAR *data() const
	{
		return data_;
	} // 4096-byte aligned, zeroed
	size_t size() const
	{
		return size_;
	}
	VIP_MEM_HANDLE handle() const
	{
		return handle_;
	}
	VIP_RETURN deregister();

      private:
	Nic &nic_;
	size_t size_;
	VIP_UCHAR *data_;
	VIP_MEM_HANDLE handle_ = 0;
	bool registered_ = false;
};

VIP_PROTECTION_HANDLE makeTag(VIP_NIC_HANDLE nic);
VIP_CQ_HANDLE makeCq(VIP_NIC_HANDLE nic, VIP_ULONG entries);
VIP_VI_HANDLE makeVi(VIP_NIC_HANDLE nic, VIP_CQ_HANDLE cq = nullptr);
VIP_MEM_ATTRIBUTES memory(VIP_PROTECTION_HANDLE tag, VIP_BOOLEAN rdmaWrite = VIP_FALSE,
			  VIP_BOOLEAN rdmaRead = VIP_FALSE);

enum class Mode { Polling, Waiting };
// A region of slots. Each slot is a descriptor with room for some segments, and a buffer.
class Pool : public Region
{
      public:
	Pool(Nic &nic, size_t slots, size_t bytes, VIP_MEM_ATTRIBUTES attributes = {}, size_t segments = 2);
	VIP_DESCRIPTOR *descriptor(size_t slot) const;
	VIP_UCHAR *buffer(size_t slot) const;
	// Makes the slot's descriptor a send or receive of one segment: the first `length` bytes of its
	// buffer.
	VIP_DESCRIPTOR *message(size_t slot, VIP_UINT32 length) const;
	// Makes it a send or receive without a segment.
	VIP_DESCRIPTOR *empty(size_t slot) const;
	// Makes it an RDMA write of the first `length` bytes of its buffer.
	VIP_DESCRIPTOR *write(size_t slot, VIP_UINT32 length, void *target,
			      VIP_MEM_HANDLE targetHandle) const;
	VIP_DESCRIPTOR *write(size_t slot, VIP_UINT32 length, const Region &target, size_t offset = 0) const
	{
		return write(slot, length, target.data() + offset, target.handle());
	}
	// Makes it an RDMA read into its buffer.
	VIP_DESCRIPTOR *read(size_t slot, VIP_UINT32 length, void *source,
			     VIP_MEM_HANDLE sourceHandle) const;
	VIP_DESCRIPTOR *read(size_t slot, VIP_UINT32 length, const Region &source, size_t offset = 0) const
	{
		return read(slot, length, source.data() + offset, source.handle());
	}
	// Each posts the slot's message. The result is NULL, or false, after a failure, which is reported.
	VIP_DESCRIPTOR *postReceive(VIP_VI_HANDLE vi, size_t slot, VIP_UINT32 length) const;
	bool postReceives(VIP_VI_HANDLE vi, size_t count, VIP_UINT32 length, size_t first = 0) const;
	VIP_DESCRIPTOR *postSend(VIP_VI_HANDLE vi, size_t slot, VIP_UINT32 length) const;
	// Posts the slot's message as a send and returns the completed descriptor.
	VIP_DESCRIPTOR *send(VIP_VI_HANDLE vi, size_t slot, VIP_UINT32 length, Mode mode = Mode::Waiting) const;

      private:
	size_t room_, descriptorBytes_, bufferBytes_;
};

void setSegment(VIP_DESCRIPTOR *d, size_t index, void *data, VIP_UINT32 length,
		VIP_MEM_HANDLE handle);
VIP_DESCRIPTOR *setImmediate(VIP_DESCRIPTOR *d, VIP_UINT32 value); // returns d
void paint(VIP_UCHAR *data, size_t bytes, unsigned seed);
bool untouched(const VIP_UCHAR *data, size_t bytes); // all of them zero
testing::AssertionResult painted(const VIP_UCHAR *data, size_t bytes, unsigned seed);

// ---- VIs ----
VIP_VI_ATTRIBUTES ofLevel(VIP_RELIABILITY_LEVEL level, VIP_ULONG transferSize = kTransferSize);
VIP_VI_ATTRIBUTES reliable(VIP_ULONG transferSize = kTransferSize); // Reliable Delivery
VIP_VI_ATTRIBUTES writable(VIP_VI_ATTRIBUTES attributes = reliable()); // the peer may write by RDMA
VIP_VI_ATTRIBUTES ofTag(VIP_PROTECTION_HANDLE tag, VIP_VI_ATTRIBUTES attributes = reliable());
// Runs the body at each of these levels that the NIC has. For the other levels it checks that no VI can be
// made.
void atEach(Nic &nic, std::initializer_list<VIP_RELIABILITY_LEVEL> levels,
	    const std::function<void(VIP_RELIABILITY_LEVEL)> &body);
void atEachLevel(Nic &nic, const std::function<void(VIP_RELIABILITY_LEVEL)> &body);

class Vi
{
      public:
	explicit Vi(Nic &nic, VIP_VI_ATTRIBUTES attributes = reliable(),
		    VIP_CQ_HANDLE sends = nullptr, VIP_CQ_HANDLE receives = nullptr);
	~Vi();
	Vi(const Vi &) = delete;
	Vi &operator=(const Vi &) = delete;
	operator VIP_VI_HANDLE() const
	{
		return handle_;
	}
	Nic &nic() const
	{
		return nic_;
	}
	VIP_VI_STATE state() const;
	VIP_VI_ATTRIBUTES attributes() const;
	bool becomes(VIP_VI_STATE wanted) const; // within kPatience

      private:
	Nic &nic_;
	VIP_VI_HANDLE handle_ = nullptr;
};

// Returns the head of the queue once it is done, with any status; NULL and a test failure if that takes too
// long.
VIP_DESCRIPTOR *takeSend(VIP_VI_HANDLE vi, Mode mode = Mode::Waiting);
VIP_DESCRIPTOR *takeReceive(VIP_VI_HANDLE vi, Mode mode = Mode::Waiting);
// The queue has no descriptor to take: it is empty (VIP_DESCRIPTOR_ERROR), or its head is not done (VIP_NOT_DONE).
using Done = VIP_RETURN (*)(VIP_VI_HANDLE, VIP_DESCRIPTOR **);
void expectNone(VIP_RETURN wanted, Done done, VIP_VI_HANDLE vi);
// Posts the send and returns the completed descriptor.
VIP_DESCRIPTOR *send(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d, VIP_MEM_HANDLE handle,
		     Mode mode = Mode::Waiting);
// The head of a queue is done, and is that descriptor. isSent() posts it before. The status has these bits and no
// others. VIA leaves open whether a send with immediate data has VIP_STATUS_IMMEDIATE.
testing::AssertionResult isDone(VIP_VI_HANDLE vi, const VIP_DESCRIPTOR *d, VIP_UINT32 bits = VIP_STATUS_OP_SEND,
				Mode mode = Mode::Waiting);
testing::AssertionResult isSent(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d, VIP_MEM_HANDLE handle,
				VIP_UINT32 bits = VIP_STATUS_OP_SEND, Mode mode = Mode::Waiting);
testing::AssertionResult isReceived(VIP_VI_HANDLE vi, const VIP_DESCRIPTOR *d, VIP_UINT32 bits = VIP_STATUS_OP_RECEIVE,
				    Mode mode = Mode::Waiting);
// Whether the descriptor's Status says that it is done, without asking a queue or a CQ. VipQueryVi may make a
// library look at its CQ and note the order of all completions so far. A test of completions that the library
// has not seen learns from the other end that they are done.
testing::AssertionResult isDoneWhenAsked(Vi &vi, const VIP_DESCRIPTOR *d);
// An error has ended the connection at both ends.
void expectBroken(const Vi &one, const Vi &other);
void expectError(const VIP_ERROR_DESCRIPTOR &error, VIP_ERROR_CODE code, VIP_RESOURCE_CODE resource, const Vi &vi,
		 VIP_DESCRIPTOR *descriptor, VIP_ULONG operation);
// The VI has an asynchronous error, by which its connection is lost. A network may not be able to report the cause. The
// loopback NIC reports it.
void expectLoss(Vi &vi, VIP_ERROR_CODE cause = VIP_ERROR_CONN_LOST, VIP_ULONG operation = 0);
// What the sender has sent was an error at the receiver. Both have lost the connection, and each is told once.
void expectLosses(Vi &sender, Vi &receiver, VIP_ERROR_CODE cause, VIP_ULONG operation);
// Sends a message each way, which proves that these two VIs are connected. Posts and collects its own receives.
void expectTalk(Vi &one, Vi &other, VIP_UINT32 value = 1);

// ---- completion queues ----
// The queue that a CQ has named, and the descriptor at its head.
struct Named {
	VIP_VI_HANDLE vi = nullptr;
	VIP_BOOLEAN receive = VIP_FALSE;
	VIP_DESCRIPTOR *descriptor = nullptr; // NULL after a failure, which is reported
};

class Cq
{
      public:
	explicit Cq(const Nic &nic, VIP_ULONG entries = 64)
	    : nic_(nic), handle_(nic.opened() ? makeCq(nic, entries) : nullptr)
	{
	}
	~Cq()
	{
		if (nic_.opened())
			VipDestroyCQ(handle_);
	}
	Cq(const Cq &) = delete;
	Cq &operator=(const Cq &) = delete;
	operator VIP_CQ_HANDLE() const
	{
		return handle_;
	}
	// Waits or polls, and takes the descriptor off the queue that is named. VIA promises that it is there at once.
	Named take(Mode mode = Mode::Waiting);
	bool isEmpty();

      private:
	const Nic &nic_;
	VIP_CQ_HANDLE handle_;
};

// ---- connecting ----
class Address
{
      public:
	Address(const std::string &host, const std::string &discriminator);
	// Has room for any address of that NIC.
	explicit Address(const Nic &nic);
	VIP_NET_ADDRESS *get()
	{
		return reinterpret_cast<VIP_NET_ADDRESS *>(bytes_.data());
	}
	std::string host();
	std::string discriminator();

      private:
	std::vector<VIP_UCHAR> bytes_;
};
std::string freshDiscriminator(); // no other test or process uses it
// Makes a host address in the form of this NIC, of 6 or 16 bytes, from an IPv4 address (4 bytes) or an IPv6
// address (16). The second function returns all addresses of this machine.
std::string hostAddress(const Nic &nic, const std::string &internet);
std::vector<std::string> addressesOfThisMachine(const Nic &nic);

// Each makes one side of a connection, up to the end of the three-way handshake. The server is on the host
// with that address; "" is the NIC's own.
testing::AssertionResult serve(Vi &vi, const std::string &discriminator);
testing::AssertionResult call(Vi &vi, const std::string &discriminator,
			      const std::string &host = "");
VIP_RETURN requestTo(Vi &vi, const std::string &discriminator, VIP_ULONG timeout,
		     const std::string &host = "");
VIP_RETURN waitOn(Nic &nic, const std::string &discriminator, VIP_ULONG timeout,
		  VIP_CONN_HANDLE *connection);
// What the two sides are told of each other's attributes.
struct Told {
	VIP_VI_ATTRIBUTES server{}, requester{};
};
// Connects by these local addresses, and expects success. The server is told the requester's address in `remote`.
Told connectBy(Vi &server, Vi &client, Address waiter, Address requester, VIP_NET_ADDRESS *remote);
// A request that a wait has got, and that nobody has answered yet.
struct PendingRequest {
	// A thread makes the request, again if nobody waits yet.
	explicit PendingRequest(Vi &client, VIP_ULONG timeout = kPatience);
	std::future<VIP_RETURN> requested;
	VIP_CONN_HANDLE handle = nullptr;
};
// Makes both sides by two threads.
testing::AssertionResult connect(Vi &server, Vi &client);

// Two connected VIs of one NIC. The constructor throws if they cannot be connected.
struct Pair {
	explicit Pair(Nic &nic, VIP_VI_ATTRIBUTES attributes = reliable());
	Vi a, b;
};
// One end of a ping-pong with messages of these sizes, which compares all data. It connects the VI when the first
// receive is posted. The end that is first speaks first.
void pingPong(Vi &vi, bool first, Mode mode, const std::vector<VIP_UINT32> &sizes,
	      const std::function<testing::AssertionResult()> &connect);
// For tests of two connected VIs.
class PairTest : public NicTest
{
      protected:
	explicit PairTest(VIP_VI_ATTRIBUTES attributes = reliable()) : attributes_(attributes)
	{
	}
	void SetUp() override;
	void TearDown() override
	{
		pair_.reset();
	}
	Vi &a()
	{
		return pair_->a;
	}
	Vi &b()
	{
		return pair_->b;
	}

      private:
	VIP_VI_ATTRIBUTES attributes_;
	std::unique_ptr<Pair> pair_;
};

// ---- a second process ----
// One end of the stream between a test and its peer. Every read has a time limit and throws when it fails.
class Channel
{
      public:
	// `host` is the NIC's address on the host of the other end, "" for the same NIC.
	explicit Channel(int fd, const std::string &host = "") : fd_(fd), host_(host)
	{
	}
	const std::string &host() const
	{
		return host_;
	}
	void put(const std::string &text);
	void put(unsigned long number)
	{
		put(std::to_string(number));
	}
	unsigned long getNumber()
	{
		return std::stoul(get());
	}
	// For roles: connects with the test, which calls the function of Peer with the other name.
	testing::AssertionResult serve(Vi &vi);
	testing::AssertionResult call(Vi &vi);
	std::string get(VIP_ULONG ms = kPatience);
	void expect(const std::string &text);
	bool drained(VIP_ULONG ms); // discards what comes until the other end is closed
	int fd() const
	{
		return fd_;
	}

      private:
	void read(void *data, size_t bytes, Clock::time_point deadline);
	int fd_;
	std::string host_;
};

// A process of this executable that plays a role, on this host or on the host of --peer. posix_spawn makes
// fork and exec one step, so that no registered page is ever shared with a copy of this process. A failed
// EXPECT of the peer fails the test.
class Peer
{
	pid_t pid_ = -1; // the first member, because making the channel sets it

      public:
	explicit Peer(const char *role);
	~Peer();
	Peer(const Peer &) = delete;
	Peer &operator=(const Peer &) = delete;
	Channel channel;
	// Connects with the role, which calls the function of Channel with the other name.
	testing::AssertionResult call(Vi &vi);
	testing::AssertionResult serve(Vi &vi);
	void finish(); // expects that it ends by itself, without a failure
	void kill();   // sends SIGKILL, and returns when the process is gone
};

// The socket is the role's end of the channel. The role prints to this process's output, or into that file.
// It first reads the host of the process that started it.
pid_t startRole(const std::string &name, int socket, int output = -1);

using Role = void (*)(Channel &test);
struct RoleRegistration {
	RoleRegistration(const char *name, Role role);
};
Role findRole(const std::string &name);

// The role "leaves" accepts a connection, and ends in the way that the test orders: "disconnect" or "close" the NIC, and
// then "exit". It releases nothing else, because tests of it are about that.
#define VIP_PEER(name)                                                          \
	static void name(harness::Channel &test);                               \
	static const harness::RoleRegistration name##Registration{#name, name}; \
	static void name([[maybe_unused]] harness::Channel &test)

} // namespace harness
