// SPDX-License-Identifier: BSD-2-Clause
// A process that has no more of something: memory, threads, file descriptors, processors.
#include "line.h"
#include "old_kernel.h"
#include "process.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <sched.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>

namespace
{

const std::map<std::string, std::string> SETTINGS = {{"VIPL_GRACE_MSEC", "300"}};

void limit(__rlimit_resource_t resource, rlim_t most)
{
	const rlimit limit = {most, most};
	EXPECT_EQ(setrlimit(resource, &limit), 0);
}

// No more memory than the process has now and this.
void limit_memory(size_t more)
{
	long pages = 0;
	std::ifstream("/proc/self/statm") >> pages;
	limit(RLIMIT_AS, static_cast<size_t>(pages * sysconf(_SC_PAGESIZE)) + more);
}

// For whom no limit would hold.
void be_nobody_if_root()
{
	if (!geteuid()) {
		ASSERT_EQ(setresgid(65534, 65534, 65534), 0);
		ASSERT_EQ(setresuid(65534, 65534, 65534), 0);
	}
}

using Shortage = NicTest;

constexpr size_t MIB = 1 << 20;

// glibc takes the size of the default stack from the limit when the process begins.
TEST_F(Shortage, OfMemoryForTheDefaultStackIsNone)
{
	passing_child({}, [this] {
		pthread_attr_t attributes;

		pthread_attr_init(&attributes);
		ASSERT_EQ(pthread_attr_setstacksize(&attributes, 512 * MIB), 0);
		ASSERT_EQ(pthread_setattr_default_np(&attributes), 0);
		limit_memory(128 * MIB);
		open("via_lo");
		VIP_CQ_HANDLE cq = make_cq(10);
		ASSERT_EQ(VipCQNotify(cq, nullptr, [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_BOOLEAN) {}),
			  VIP_SUCCESS);
		close();
	});
}

// Later a page that is not there would be a signal.
TEST_F(Shortage, OfMemoryIsToldWhoConnects)
{
	Child child = passing_child({}, [this] {
		const std::string name = std::to_string(getpid());
		Address one("127.0.0.1", "a" + name), other("127.0.0.1", "b" + name);
		VIP_VI_ATTRIBUTES peer;

		ASSERT_EQ(VipOpenNic("via_lo", &nic), VIP_SUCCESS);
		a = make_vi();
		b = make_vi();
		limit_memory(MIB); // the first connection with a process needs more
		EXPECT_EQ(VipConnectPeerRequest(a, one.get(), other.get(), 1000), VIP_SUCCESS);
		EXPECT_EQ(VipConnectPeerRequest(b, other.get(), one.get(), 1000), VIP_SUCCESS);
		const VIP_RETURN results[] = {VipConnectPeerWait(a, &peer), VipConnectPeerWait(b, &peer)};
		EXPECT_EQ(std::count(std::begin(results), std::end(results), VIP_SUCCESS), 0);
		EXPECT_GE(std::count(std::begin(results), std::end(results), VIP_ERROR_RESOURCE), 1);
		close();
	});
	expect_said(child.err, "Cannot allocate memory");
}

TEST_F(Shortage, OfThreadsIsNamed)
{
	Child child = passing_child({}, [this] {
		limit(RLIMIT_NPROC, 0);
		be_nobody_if_root();
		EXPECT_EQ(VipOpenNic("via_lo", &nic), VIP_ERROR_RESOURCE);
	});
	expect_said(child.err, "pthread_create(): Resource temporarily unavailable (one of: threads of this user, ulimit -u: 0; ");
}

TEST_F(Shortage, OfFileDescriptorsIsNotThatAHostIsUnreachable)
{
	Child child = passing_child(SETTINGS, [this] {
		open("via_lo");
		a = make_vi();
		limit(RLIMIT_NOFILE, next_descriptor());
		EXPECT_EQ(request(a, "nobody", PATIENCE, "10.9.9.77"), VIP_ERROR_RESOURCE);
	});

	expect_said(child.err, "(see ulimit -n)");
}

// A server that creates a VI for each request has to hear one to refuse it: a socket, and the three descriptors of a request.
TEST_F(Shortage, OfFileDescriptorsIsToldByCreateViWhileARequestCanBeHeard)
{
	for (rlim_t left : {3, 4}) {
		const Child child = passing_child(SETTINGS, [&] {
			VIP_VI_HANDLE vi;

			open("via_lo");
			limit(RLIMIT_NOFILE, next_descriptor() + left);
			EXPECT_EQ(VipCreateVi(nic, &vi_kind, nullptr, nullptr, &vi), left < 4 ? VIP_ERROR_RESOURCE : VIP_SUCCESS);
		});

		EXPECT_EQ(child.err.find("cannot create a VI: RLIMIT_NOFILE: Too many open files (see ulimit -n)") != std::string::npos,
			  left < 4)
			<< child.err;
	}
}

// systemd's RestrictAddressFamilies, for instance. An address that is not known to be this machine's is not taken for it.
TEST_F(Shortage, OfNetlinkIsToldAndMakesOtherAddressesUnreachable)
{
	Child child = passing_child(SETTINGS, [this] {
		open("via_lo");
		a = make_vi();
		fake_fail_always("getifaddrs", EAFNOSUPPORT);
		EXPECT_EQ(request(a, "nobody", PATIENCE, "10.9.9.77"), VIP_NOT_REACHABLE);
		EXPECT_EQ(request(a, "nobody" + std::to_string(getpid()), PATIENCE, "127.0.0.2"), VIP_NO_MATCH);
	});

	expect_said(child.err, "one of this machine's: getifaddrs()");
}

// ---- of what: the log names the limit that is reached, and no other one ----

// Uses all mappings that a process may have, but so many.
[[maybe_unused]] void use_mappings(int left)
{
	const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
	int most = 0, used = 0;
	std::ifstream maps("/proc/self/maps");

	std::ifstream("/proc/sys/vm/max_map_count") >> most;
	for (std::string line; std::getline(maps, line);)
		used++;
	auto *pages = static_cast<char *>(mmap(nullptr, 2 * page * static_cast<size_t>(most), PROT_READ,
					       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
	ASSERT_NE(pages, MAP_FAILED);
	for (int i = 0; i < (most - used - left) / 2; i++)
		ASSERT_EQ(mprotect(pages + 2 * page * static_cast<size_t>(i) + page, page, PROT_NONE), 0);
}

[[maybe_unused]] void lock_memory()
{
	be_nobody_if_root();
	ASSERT_EQ(mlockall(MCL_FUTURE), 0);
	limit(RLIMIT_MEMLOCK, 512 * 1024);
}

struct Limit : Named {
	std::function<void()> reach;
	const char *words;
};

const Limit LIMITS[] = {
	{"AddressSpace", [] { limit_memory(512 * 1024); }, "the limit on address space, ulimit -v, is reached"},
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // they map memory of their own
	{"Data", [] { limit(RLIMIT_DATA, MIB); }, "the limit on data, ulimit -d, is reached"},
	{"LockedMemory", lock_memory, "the limit on locked memory, ulimit -l, is reached"},
	{"Mappings", [] { use_mappings(0); }, "vm.max_map_count"},
#endif
	{"FileSize", [] { limit(RLIMIT_FSIZE, 4096); }, "ftruncate(): File too large (see ulimit -f)"},
	{"Files", [] { limit(RLIMIT_NOFILE, 5); }, ": Too many open files (see ulimit -n)"},
};

class Limits : public Each<NicTest, Limit>
{
      protected:
	// In the child. Each call may be the first that fails.
	void make_all_that_can_be()
	{
		VIP_NIC_HANDLE opened;
		VIP_CQ_HANDLE cq;
		VIP_VI_HANDLE vi;

		while (VipOpenNic("via_lo", &opened) == VIP_SUCCESS) {
			nic = opened;
			VipCreateVi(nic, &vi_kind, nullptr, nullptr, &vi);
			VipCreateCQ(nic, 10, &cq);
		}
	}
};

TEST_P(Limits, AreNamedOnlyIfTheyAreReached)
{
	const Child child = in_child({}, [this] {
		GetParam().reach();
		make_all_that_can_be();
		_exit(HasFailure() ? 1 : 0);
	});

	EXPECT_EQ(child.status, 0) << child.out;
	expect_said(child.err, GetParam().words);
	for (const Limit &other : LIMITS)
		EXPECT_EQ(child.err.find(other.words) == std::string::npos, other.words != GetParam().words)
			<< other.words << ": " << child.err;
}

INSTANTIATE_TEST_SUITE_P(Shortage, Limits, testing::ValuesIn(LIMITS), ByName());

// A server that answers with too many descriptors violates the protocol. It is no shortage, unless there is one here.
TEST_F(Shortage, OfDescriptorsIsNotToldOfAPeerThatSendsTooMany)
{
	for (bool is_short : {false, true}) {
		const Child child = passing_child(SETTINGS, [&] {
			const std::string door = "excess" + std::to_string(getpid());

			open("via_lo");
			a = make_vi();
			auto gate = std::make_unique<Gate>(VIA_LO, door);
			auto requested =
				std::async(std::launch::async, [&] { return request(a, door, PATIENCE, "127.0.0.1"); });
			Line line = gate->accept();
			gate.reset();
			EXPECT_EQ(line.next(), MESSAGE_REQUEST);
			Spoken accept(VIA_LO, MESSAGE_ACCEPT, door);
			std::vector<int> fds = accept.fds;
			while (fds.size() < (is_short ? 2 : 7))
				fds.push_back(fds[0]);
			if (is_short)
				limit(RLIMIT_NOFILE, 3);
			EXPECT_TRUE(line.say_bytes(&accept.bytes, sizeof(accept.bytes), fds));
			line.hang_up();
			EXPECT_EQ(requested.get(), is_short ? VIP_ERROR_RESOURCE : VIP_NO_MATCH);
		});
		const std::string shortage = "recvmsg(): Too many open files (see ulimit -n)";

		EXPECT_EQ(child.err.find(shortage) != std::string::npos, is_short) << child.err;
		EXPECT_EQ(child.err.find("the other end has sent file descriptors as this library does not") == std::string::npos,
			  is_short)
			<< child.err;
	}
}

// What processes of a user have sent, and nobody has received, counts against the limit of files.
void fill(int socket)
{
	const std::vector<int> fds(50, 0);

	while (local_socket_send(socket, "", 1, fds.data(), 50))
		;
	EXPECT_EQ(errno, ETOOMANYREFS);
}

TEST_F(Shortage, OfDescriptorsUnderWayIsNotThatNobodyWaits)
{
	Child child = passing_child(SETTINGS, [this] {
		const std::string door = "shortage" + std::to_string(getpid());
		int ends[2];

		be_nobody_if_root();
		open("via_lo");
		a = make_vi();
		Gate gate(VIA_LO, door); // it takes none
		ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
		limit(RLIMIT_NOFILE, 100);
		fill(ends[0]);
		EXPECT_EQ(request(a, door, PATIENCE), VIP_ERROR_RESOURCE);
	});

	expect_said(child.err, "is one stopped?");
}

// ---- the processor, since a real-time program polls on the only one ----

// In one test a tracer stops the agent's thread, for which nobody needs a privilege.
class Starved : public NicTest
{
      protected:
	// The child's thread that is not its first one, once it sleeps.
	static pid_t agent_of(pid_t process)
	{
		pid_t found = 0;

		EXPECT_TRUE(eventually([&] {
			for (const auto &task : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task")) {
				const pid_t thread = std::stoi(task.path().filename());
				if (thread != process && sleeps(process, thread))
					found = thread;
			}
			return found != 0;
		}));
		return found;
	}
	VIP_RETURN ask(VIP_VI_HANDLE vi, const std::string &own, const std::string &other)
	{
		Address local(host, own), remote(host, other);

		return VipConnectPeerRequest(vi, local.get(), remote.get(), PATIENCE);
	}
	static bool is_done(VIP_VI_HANDLE vi)
	{
		VIP_VI_ATTRIBUTES attributes;
		const VIP_RETURN rc = VipConnectPeerDone(vi, &attributes);

		EXPECT_TRUE(rc == VIP_NOT_DONE || rc == VIP_SUCCESS) << testing::PrintToString(rc);
		return rc == VIP_SUCCESS;
	}
	// The body of the child. Its step is that the NIC is open, and the order that the agent has been stopped. The NIC stays
	// open: closing waits for the agent.
	void connect_and_disconnect(Process &self)
	{
		const std::string name = std::to_string(getpid());

		open("via_lo");
		a = make_vi();
		b = make_vi();
		self.step();
		self.await_order();
		ASSERT_EQ(ask(a, "a" + name, "b" + name), VIP_SUCCESS);
		ASSERT_EQ(ask(b, "b" + name, "a" + name), VIP_SUCCESS);
		EXPECT_TRUE(eventually([this] { return is_done(a); }));
		EXPECT_TRUE(eventually([this] { return is_done(b); }));
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
		EXPECT_TRUE(eventually([this] { return state_of(b) == VIP_STATE_ERROR; }));
	}
};

TEST_F(Starved, WhoPollsConnectsAndSeesTheEnd)
{
	Process child([this](Process &self) { connect_and_disconnect(self); });
	int status = -1;

	child.expect_step();
	const pid_t agent = agent_of(child.pid());
	ASSERT_EQ(ptrace(PTRACE_SEIZE, agent, nullptr, nullptr), 0) << "ptrace() has to be allowed";
	ASSERT_EQ(ptrace(PTRACE_INTERRUPT, agent, nullptr, nullptr), 0);
	ASSERT_EQ(waitpid(agent, &status, __WALL), agent);
	ASSERT_TRUE(WIFSTOPPED(status));
	child.order();
	while (waitpid(-1, &status, __WALL) == agent) // its end comes first
		continue;
	EXPECT_EQ(status, 0);
}

// Real-time priority for all of the process, and one processor: at the same priority no other thread would ever run.
TEST_F(Starved, WhoPollsWithRealTimePriorityGetsWhatIsFlushed)
{
	const sched_param priority{10};

	if (sched_setscheduler(0, SCHED_FIFO, &priority)) // and back
		GTEST_SKIP() << "no real-time priority";
	const sched_param none{0};
	ASSERT_EQ(sched_setscheduler(0, SCHED_OTHER, &none), 0);
	Process child([&](Process &) {
		cpu_set_t first;
		Taken taken{};

		ASSERT_EQ(sched_getaffinity(0, sizeof(first), &first), 0);
		for (int i = 0, found = 0; i < CPU_SETSIZE; i++)
			if (CPU_ISSET(i, &first) && found++)
				CPU_CLR(i, &first);
		ASSERT_EQ(sched_setaffinity(0, sizeof(first), &first), 0);
		ASSERT_EQ(sched_setscheduler(0, SCHED_FIFO, &priority), 0);
		open("via_lo");
		make_pair();
		VIP_DESCRIPTOR *receive = posted_receive(a, 0, {{memory.data(), 8}}), *bad = descriptor(1, {{memory.data(), 8}});
		bad->DS[0].Local.Handle++;
		ASSERT_EQ(post_send(a, bad), VIP_SUCCESS);
		EXPECT_EQ(send_done(a).code, VIP_DESCRIPTOR_ERROR);
		const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(PATIENCE);
		while ((taken = recv_done(a)).code == VIP_NOT_DONE && std::chrono::steady_clock::now() < end)
			continue;
		EXPECT_EQ(taken.descriptor, receive);
	});
	int status = -1;

	EXPECT_EQ(waitpid(child.pid(), &status, 0), child.pid());
	EXPECT_EQ(status, 0);
}

} // namespace
