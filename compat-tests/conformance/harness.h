/* SPDX-License-Identifier: BSD-2-Clause */
// What the conformance tests share: owners for VIPL objects, messages in registered memory,
// connecting two VIs of one process, and a second process to talk to. Uses nothing but the public
// API.
//
// Owners release what they own in their destructors and ignore the result there: a test that cares
// about the result of a release calls the function itself.
#pragma once

#include <gtest/gtest.h>
#include <vipl.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <sys/types.h>
#include <thread>
#include <vector>

void PrintTo(VIP_RETURN code, std::ostream *out);
void PrintTo(VIP_VI_STATE state, std::ostream *out);

namespace harness
{

// Bound, in ms, of every wait that is expected to succeed: generous, as the device may be emulated.
constexpr VIP_ULONG kPatience = 20000;
constexpr VIP_ULONG kTransferSize = 65536; // the least that a NIC's MaxTransferSize may be

const char *nicName(); // $VIPL_TEST_NIC, or "nic0"

// ---- time ----
using Clock = std::chrono::steady_clock;
class Stopwatch
{
      public:
	double ms() const
	{
		return std::chrono::duration<double, std::milli>(Clock::now() - start_).count();
	}

      private:
	Clock::time_point start_ = Clock::now();
};
// So many ms more than it should a call may take on a busy machine. A wait that has forgotten its time
// takes longer.
constexpr double kBusy = 5000;
// What is tried tells how many ms it took: never less than `least`, and in one of some tries, as a busy
// machine makes others late, no more than `most`.
testing::AssertionResult takesBetween(double least, double most,
				      const std::function<double()> &timed);
// Neither before the asked time (1 ms for a coarse clock) nor much after it: what tells its time, or a call.
testing::AssertionResult tellsAbout(double asked, const std::function<double()> &timed);
testing::AssertionResult takesAbout(double asked, const std::function<void()> &call);
// Lets time pass where the passing of time is what is tested; never a substitute for
// synchronisation.
void letTimePass(int ms);
// A thread that is joined where it goes out of scope, so that a fatal failure before its join ends
// the test only.
struct Thread : std::thread {
	using std::thread::thread;
	~Thread()
	{
		if (joinable())
			join();
	}
};
// Whether the condition came true within the bound; for what has no call to wait for it.
bool eventually(const std::function<bool()> &condition, VIP_ULONG ms = kPatience);

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
// The asynchronous errors that a NIC handle was told of.
class Errors
{
      public:
	static void handler(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error);
	size_t count(VIP_VI_HANDLE vi, VIP_ERROR_CODE code);
	size_t count(VIP_VI_HANDLE vi);
	bool reaches(VIP_VI_HANDLE vi, size_t count, VIP_ULONG ms = kPatience);
	VIP_ERROR_DESCRIPTOR first(VIP_VI_HANDLE vi);

      private:
	std::mutex mutex_;
	std::condition_variable changed_;
	std::vector<VIP_ERROR_DESCRIPTOR> seen_;
};

class Nic
{
      public:
	explicit Nic(const char *name = nicName());
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
	std::string address() const; // the NIC's own address, as bytes
	// All that lead to it. A NIC of a network is known by its own address; one that ends at this
	// machine, by any that the machine has.
	std::vector<std::string> addresses() const;
	// Whether the NIC is one whose network ends at this machine: its address is a loopback one.
	bool isLoopback() const;
	// Frees it when the handle is closed: a VI may still have descriptors posted in there.
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

// Every test that needs a NIC: one that does not open is a failure, never a skip.
class NicTest : public testing::Test
{
      protected:
	void SetUp() override;
	Nic nic;
};

// ---- memory ----
class Region
{
      public:
	Region(Nic &nic, size_t bytes, VIP_MEM_ATTRIBUTES *attributes = nullptr);
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

VIP_MEM_ATTRIBUTES memory(VIP_PROTECTION_HANDLE tag, VIP_BOOLEAN rdmaWrite = VIP_FALSE,
			  VIP_BOOLEAN rdmaRead = VIP_FALSE);

// One region of slots, each a descriptor with room for some segments, and a buffer.
class Pool : public Region
{
      public:
	Pool(Nic &nic, size_t slots, size_t bytes, VIP_MEM_ATTRIBUTES *attributes = nullptr,
	     size_t segments = 2);
	VIP_DESCRIPTOR *descriptor(size_t slot) const;
	VIP_UCHAR *buffer(size_t slot) const;
	// The slot's descriptor as a send or receive of one segment: the first `length` bytes of
	// its buffer.
	VIP_DESCRIPTOR *message(size_t slot, VIP_UINT32 length) const;
	// The same with no segment at all.
	VIP_DESCRIPTOR *empty(size_t slot) const;
	// The slot's descriptor as an RDMA write of the first `length` bytes of its buffer.
	VIP_DESCRIPTOR *write(size_t slot, VIP_UINT32 length, void *target,
			      VIP_MEM_HANDLE targetHandle) const;
	// The same as an RDMA read into its buffer.
	VIP_DESCRIPTOR *read(size_t slot, VIP_UINT32 length, void *source,
			     VIP_MEM_HANDLE sourceHandle) const;

      private:
	size_t room_, descriptorBytes_, bufferBytes_;
};

void setSegment(VIP_DESCRIPTOR *d, size_t index, void *data, VIP_UINT32 length,
		VIP_MEM_HANDLE handle);
void setImmediate(VIP_DESCRIPTOR *d, VIP_UINT32 value);
void paint(VIP_UCHAR *data, size_t bytes, unsigned seed);
bool untouched(const VIP_UCHAR *data, size_t bytes); // all of them zero
testing::AssertionResult painted(const VIP_UCHAR *data, size_t bytes, unsigned seed);

// ---- VIs ----
VIP_VI_ATTRIBUTES ofLevel(VIP_RELIABILITY_LEVEL level, VIP_ULONG transferSize = kTransferSize);
VIP_VI_ATTRIBUTES reliable(VIP_ULONG transferSize = kTransferSize); // Reliable Delivery
// Runs the body at each of these levels that the NIC has. That of the others no VI can be had is
// what there is to expect of them.
void atEach(Nic &nic, std::initializer_list<VIP_RELIABILITY_LEVEL> levels,
	    const std::function<void(VIP_RELIABILITY_LEVEL)> &body);

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
	bool becomes(VIP_VI_STATE wanted) const; // in good time

      private:
	Nic &nic_;
	VIP_VI_HANDLE handle_ = nullptr;
};

enum class Mode { Polling, Waiting };
// The head of the queue once it is done, whatever its status; NULL and a test failure if that takes
// too long.
VIP_DESCRIPTOR *takeSend(VIP_VI_HANDLE vi, Mode mode = Mode::Waiting);
VIP_DESCRIPTOR *takeReceive(VIP_VI_HANDLE vi, Mode mode = Mode::Waiting);
// Posts, and takes what completes.
VIP_DESCRIPTOR *send(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d, VIP_MEM_HANDLE handle,
		     Mode mode = Mode::Waiting);

// ---- connecting ----
class Address
{
      public:
	Address(const std::string &host, const std::string &discriminator);
	// With room for anything of that NIC's.
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
std::string freshDiscriminator(); // one that no other test or process uses
// Host addresses as this NIC has them, of 6 bytes or 16: of an IPv4 address (4 bytes) or an IPv6 one
// (16), and all of this machine.
std::string hostAddress(const Nic &nic, const std::string &internet);
std::vector<std::string> addressesOfThisMachine(const Nic &nic);

// Each is one side of a connection, to the end of the three-way greeting. Who waits is on the host with
// that address; "" is the NIC's own.
testing::AssertionResult serve(Vi &vi, const std::string &discriminator);
testing::AssertionResult call(Vi &vi, const std::string &discriminator,
			      const std::string &host = "");
VIP_RETURN requestTo(Vi &vi, const std::string &discriminator, VIP_ULONG timeout,
		     const std::string &host = "");
VIP_RETURN waitOn(Nic &nic, const std::string &discriminator, VIP_ULONG timeout,
		  VIP_CONN_HANDLE *connection);
// Both sides, by two threads.
testing::AssertionResult connect(Vi &server, Vi &client);

// Two connected VIs of one NIC.
struct Pair {
	explicit Pair(Nic &nic, VIP_VI_ATTRIBUTES attributes = reliable());
	Vi a, b;
	testing::AssertionResult connected;
};
// For tests that are about what happens between two connected VIs.
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
// One end of the stream between a test and its peer. Every read is bounded and throws when it
// fails.
class Channel
{
      public:
	// The other end is on that host: the address of the NIC there, "" if it is the same one.
	explicit Channel(int fd, const std::string &host = "") : fd_(fd), host_(host)
	{
	}
	const std::string &host() const
	{
		return host_;
	}
	void put(const std::string &text);
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

// This executable started anew to play a role, on this host or, with --peer, on that one: fork and
// exec in one step (posix_spawn), so that no registered page is ever shared with a copy of this
// process. A failed EXPECT of the peer fails the test.
class Peer
{
	pid_t pid_ = -1; // first: starting the channel sets it

      public:
	explicit Peer(const char *role);
	~Peer();
	Peer(const Peer &) = delete;
	Peer &operator=(const Peer &) = delete;
	Channel channel;
	void finish(); // expects it to end by itself, without a failure
	void kill();   // SIGKILL, and returns when it is gone
};

// The socket is the role's end of the channel; it prints where this process does, or into that file.
// The first thing it is told is the host of who started it.
pid_t startRole(const std::string &name, int socket, int output = -1);

using Role = void (*)(Channel &test);
struct RoleRegistration {
	RoleRegistration(const char *name, Role role);
};
Role findRole(const std::string &name);

#define VIP_PEER(name)                                                          \
	static void name(harness::Channel &test);                               \
	static const harness::RoleRegistration name##Registration{#name, name}; \
	static void name([[maybe_unused]] harness::Channel &test)

} // namespace harness
