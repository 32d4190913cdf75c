// SPDX-License-Identifier: BSD-2-Clause
// Four processes. One is measured: it sends from one VI, always more at once than a device takes, while another thread
// has a crowd of VIs. Another process receives what it sends. The crowd's peers are in a third one, which is killed as
// soon as all are connected, and started anew. The first one starts and kills these.
#include "calls.h"

#include "address.h"
#include "home.h"

#include <atomic>
#include <cstdio>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace stress
{

namespace
{

constexpr unsigned kBatch = 250; // sends at once
constexpr unsigned kCrowd = 100; // VIs
constexpr unsigned kCrowdReceives = 8;
constexpr size_t kBytes = 64; // of a message
constexpr Time kSlow = kMs / 20; // a call that is asked whether it slept

struct Nic {
	explicit Nic(const Options &options)
	{
		must(VipOpenNic(options.nic.c_str(), &handle), "VipOpenNic");
		must(VipErrorCallback(handle, nullptr, ignore), "VipErrorCallback");
		must(VipQueryNic(handle, &attributes), "VipQueryNic");
	}
	// Losses are what this is about.
	static void ignore(VIP_PVOID, VIP_ERROR_DESCRIPTOR *)
	{
	}
	VIP_VI_HANDLE makeVi(VIP_CQ_HANDLE cq) const
	{
		VIP_VI_ATTRIBUTES wanted{};
		VIP_VI_HANDLE vi;

		wanted.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
		wanted.MaxTransferSize = kBytes;
		must(VipCreateVi(handle, &wanted, cq, cq, &vi), "VipCreateVi");
		return vi;
	}
	void request(VIP_VI_HANDLE vi, const std::string &server, unsigned number) const
	{
		Address local(attributes, "c" + std::to_string(getpid()) + "." + std::to_string(number));
		Address remote(attributes, server);
		VIP_VI_ATTRIBUTES theirs;

		must(VipConnectRequest(vi, local.get(), remote.get(), kPatience, &theirs), "VipConnectRequest");
	}
	VIP_CONN_HANDLE wait(const std::string &server) const
	{
		Address local(attributes, server), remote(attributes);
		VIP_VI_ATTRIBUTES theirs;
		VIP_CONN_HANDLE connection;

		must(VipConnectWait(handle, local.get(), kPatience, remote.get(), &theirs, &connection),
		     "VipConnectWait");
		return connection;
	}
	VIP_NIC_HANDLE handle = nullptr;
	VIP_NIC_ATTRIBUTES attributes{};
};

// Descriptors, and the data of all messages.
class Descriptors
{
      public:
	Descriptors(const Nic &nic, unsigned count)
	    : region_(nic.handle, (count + 1) * sizeof(VIP_DESCRIPTOR) + kBytes), data_(count)
	{
	}
	VIP_MEM_HANDLE handle() const
	{
		return region_.handle();
	}
	VIP_DESCRIPTOR *make(unsigned number) const
	{
		VIP_DESCRIPTOR *all = reinterpret_cast<VIP_DESCRIPTOR *>(region_.data());
		VIP_DESCRIPTOR *made = &all[number];

		*made = VIP_DESCRIPTOR{};
		made->CS.SegCount = 1;
		made->CS.Length = kBytes;
		made->DS[0].Local.Data.Address = &all[data_];
		made->DS[0].Local.Handle = region_.handle();
		made->DS[0].Local.Length = kBytes;
		return made;
	}

      private:
	Region region_;
	unsigned data_;
};

// What processes tell each other: a byte.
void tell(int fd, char what)
{
	if (write(fd, &what, 1) != 1)
		_exit(1); // the other one has failed, and has said why
}

void expect(int fd, char what)
{
	char heard = 0;

	if (read(fd, &heard, 1) != 1 || heard != what)
		_exit(1);
}

std::string discriminator(const char *what)
{
	return "calls " + std::to_string(getppid()) + what;
}

// ---- The processes that are not measured ----

[[noreturn]] void receive(const Options &options)
{
	Nic nic(options);
	Descriptors descriptors(nic, 2 * kBatch + 1);
	VIP_VI_HANDLE vi = nic.makeVi(nullptr);
	VIP_DESCRIPTOR *done;

	for (unsigned i = 0; i < 2 * kBatch; i++)
		must(VipPostRecv(vi, descriptors.make(i), descriptors.handle()), "VipPostRecv");
	must(VipConnectAccept(nic.wait(discriminator("m")), vi), "VipConnectAccept");
	for (;;) {
		for (unsigned i = 0; i < kBatch; i++) {
			if (VipRecvWait(vi, VIP_INFINITE, &done) != VIP_SUCCESS)
				_exit(0); // it has ended the connection
			done->CS.Status = 0;
			done->CS.Length = kBytes;
			if (VipPostRecv(vi, done, descriptors.handle()) != VIP_SUCCESS)
				_exit(0);
		}
		VipPostSend(vi, descriptors.make(2 * kBatch), descriptors.handle());
		VipSendWait(vi, VIP_INFINITE, &done);
	}
}

[[noreturn]] void beTheCrowdsPeer(const Options &options, int toParent)
{
	Nic nic(options);

	for (unsigned i = 0; i < kCrowd; i++)
		nic.request(nic.makeVi(nullptr), discriminator("c"), i);
	tell(toParent, 'c');
	for (;;)
		pause();
}

// ---- The process that is measured ----

struct Measure {
	const char *call;
	uint64_t calls = 0, slept = 0;
	Time longest = 0, longestSleep = 0;
};

class Measured
{
      public:
	Measured(const Options &options, int toParent)
	    : options_(options), parent_(toParent), nic_(options), descriptors_(nic_, kBatch + 2),
	      crowd_(nic_, kCrowd * (kCrowdReceives + 2))
	{
		must(VipCreateCQ(nic_.handle, 1024, &cq_), "VipCreateCQ");
		vi_ = nic_.makeVi(cq_);
		for (unsigned i = 0; i < 2; i++)
			must(VipPostRecv(vi_, descriptors_.make(kBatch + i), descriptors_.handle()),
			     "VipPostRecv");
	}
	void run()
	{
		nic_.request(vi_, discriminator("m"), 0);
		std::thread crowd([this] {
			while (now() < until_)
				comeAndGo();
			ended_ = true;
		});
		while (!ended_)
			sendBatch();
		crowd.join();
		printf("%llu rounds of %u VIs\n", rounds_, kCrowd);
		for (const Measure *m : {&post_, &cqDone_, &sendDone_, &recvDone_})
			printf("%-11s %9llu calls, the longest %9.1f us; %llu waited, the longest %9.1f us\n",
			       m->call, static_cast<unsigned long long>(m->calls),
			       static_cast<double>(m->longest) / 1e3, static_cast<unsigned long long>(m->slept),
			       static_cast<double>(m->longestSleep) / 1e3);
		fflush(stdout);
		must(VipDisconnect(vi_), "VipDisconnect");
		must(VipDestroyVi(vi_), "VipDestroyVi");
		must(VipDestroyCQ(cq_), "VipDestroyCQ");
		must(VipCloseNic(nic_.handle), "VipCloseNic");
	}

      private:
	template <class Call>
	VIP_RETURN timed(Measure &measure, const Call &call)
	{
		Time begin = now();
		VIP_RETURN rc = call();
		Time took = now() - begin;

		measure.calls++;
		measure.longest = std::max(measure.longest, took);
		if (took > kSlow && hasSlept()) {
			measure.slept++;
			measure.longestSleep = std::max(measure.longestSleep, took);
		}
		return rc;
	}
	// Whether this thread has, since the last question. It sleeps nowhere else.
	bool hasSlept()
	{
		rusage usage;
		long before = switches_;

		getrusage(RUSAGE_THREAD, &usage);
		switches_ = usage.ru_nvcsw;
		return switches_ != before;
	}
	void sendBatch()
	{
		unsigned outstanding = kBatch;
		bool answered = false;

		for (unsigned i = 0; i < kBatch; i++) {
			VIP_DESCRIPTOR *d = descriptors_.make(i);
			must(timed(post_, [&] { return VipPostSend(vi_, d, descriptors_.handle()); }),
			     "VipPostSend");
		}
		for (Time begun = now(); outstanding || !answered;) {
			VIP_VI_HANDLE vi;
			VIP_BOOLEAN isReceive;
			VIP_DESCRIPTOR *done;

			if (timed(cqDone_, [&] { return VipCQDone(cq_, &vi, &isReceive); }) != VIP_SUCCESS) {
				if (now() - begun > kPatience * kMs)
					fail("%u sends are not done", outstanding);
				continue;
			}
			if (vi != vi_)
				continue; // the crowd's; its queues end with it
			if (!isReceive) {
				must(timed(sendDone_, [&] { return VipSendDone(vi_, &done); }), "VipSendDone");
				outstanding--;
				continue;
			}
			must(timed(recvDone_, [&] { return VipRecvDone(vi_, &done); }), "VipRecvDone");
			must(VipPostRecv(vi_, done, descriptors_.handle()), "VipPostRecv");
			answered = true;
		}
	}
	void postInCrowd(VIP_VI_HANDLE vi, unsigned number, bool isReceive)
	{
		auto *post = isReceive ? VipPostRecv : VipPostSend;

		must(post(vi, crowd_.make(number), crowd_.handle()), "posting in the crowd");
	}
	void comeAndGo()
	{
		std::vector<VIP_VI_HANDLE> vis(kCrowd);
		unsigned number = 0;

		tell(parent_, 's'); // start the peer
		for (VIP_VI_HANDLE &vi : vis) {
			vi = nic_.makeVi(options_.calls == "shared" ? cq_ : nullptr);
			for (unsigned i = 0; i < kCrowdReceives; i++)
				postInCrowd(vi, number++, true);
			must(VipConnectAccept(nic_.wait(discriminator("c")), vi), "VipConnectAccept");
		}
		tell(parent_, 'k'); // kill it
		for (VIP_VI_HANDLE vi : vis)
			for (unsigned i = 0; i < 2; i++)
				postInCrowd(vi, number++, false);
		expect(parent_, 'k');
		for (unsigned i = 0; i < kCrowd; i++) {
			if (i % 2)
				awaitError(vis[i]);
			must(VipDisconnect(vis[i]), "VipDisconnect");
			must(VipDestroyVi(vis[i]), "VipDestroyVi");
		}
		rounds_++;
	}
	static void awaitError(VIP_VI_HANDLE vi)
	{
		Time begun = now();
		VIP_VI_STATE state = VIP_STATE_CONNECTED;
		VIP_VI_ATTRIBUTES attributes;
		VIP_BOOLEAN unused[2];

		while (state != VIP_STATE_ERROR) {
			if (now() - begun > kPatience * kMs)
				fail("a VI has not noticed that its peer is gone");
			usleep(1000);
			must(VipQueryVi(vi, &state, &attributes, &unused[0], &unused[1]), "VipQueryVi");
		}
	}

	const Options &options_;
	const int parent_;
	Nic nic_;
	Descriptors descriptors_, crowd_;
	VIP_CQ_HANDLE cq_ = nullptr;
	VIP_VI_HANDLE vi_ = nullptr;
	const Time until_ = now() + options_.seconds * kSecond;
	std::atomic<bool> ended_{false};
	unsigned long long rounds_ = 0;
	long switches_ = 0;
	Measure post_{"VipPostSend"}, cqDone_{"VipCQDone"}, sendDone_{"VipSendDone"}, recvDone_{"VipRecvDone"};
};

// ---- The process that starts the others ----

template <class Body>
pid_t child(const Body &body)
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork has failed");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		body();
		_exit(0);
	}
	return pid;
}

void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, nullptr, 0);
}

} // namespace

bool measureCalls(const Options &options)
{
	int measured[2], crowd[2], status = 1;
	pid_t peer = 0;
	char order;

	alarm(options.seconds + 120);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, measured) ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, crowd))
		fail("no socket pair");
	pid_t receiver = child([&] { receive(options); });
	pid_t sender = child([&] {
		close(measured[0]);
		Measured(options, measured[1]).run();
	});
	close(measured[1]);
	while (read(measured[0], &order, 1) == 1) {
		if (order == 's') {
			peer = child([&] { beTheCrowdsPeer(options, crowd[1]); });
			expect(crowd[0], 'c');
			continue;
		}
		end(peer);
		tell(measured[0], 'k');
	}
	waitpid(sender, &status, 0);
	end(receiver);
	return status == 0;
}

} // namespace stress
