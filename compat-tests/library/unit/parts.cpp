// SPDX-License-Identifier: BSD-2-Clause
// What tests share beside the fixture: addresses, errors, memory, calls of VIPL whose results are values, and children.
#include "support.h"

#include "../../result_names.h"

#include <arpa/inet.h>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

void PrintTo(VIP_RETURN code, std::ostream *out)
{
	*out << result_name(code);
}

void PrintTo(VIP_VI_STATE state, std::ostream *out)
{
	static const char *const names[] = {"IDLE", "CONNECTED", "CONNECT_PENDING", "ERROR"};

	*out << (state <= VIP_STATE_ERROR ? names[state] : "?");
}

bool eventually(const std::function<bool()> &condition, VIP_ULONG ms)
{
	auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);

	while (!condition()) {
		if (std::chrono::steady_clock::now() > end)
			return condition();
		std::this_thread::sleep_for(std::chrono::microseconds(200));
	}
	return true;
}

void expect_said(const std::string &log, const std::string &words)
{
	EXPECT_NE(log.find(words), std::string::npos) << "\"" << words << "\" is not in: " << log;
}

Address::Address(const char *ip, const std::string &discriminator)
{
	unsigned char *host = bytes + offsetof(VIP_NET_ADDRESS, HostAddress);
	bool is_ipv6 = strchr(ip, ':');

	get()->HostAddressLen = is_ipv6 ? 16 : 6;
	get()->DiscriminatorLen = static_cast<VIP_UINT16>(discriminator.size());
	inet_pton(is_ipv6 ? AF_INET6 : AF_INET, ip, host);
	memcpy(host + get()->HostAddressLen, discriminator.data(), discriminator.size());
}

void Errors::handler(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
	auto *errors = static_cast<Errors *>(context);

	{
		std::lock_guard<std::mutex> lock(errors->mutex_);
		errors->seen_.push_back(*error);
	}
	if (errors->then)
		errors->then(*error);
}

int Errors::count(VIP_ERROR_CODE code, VIP_VI_HANDLE vi)
{
	std::lock_guard<std::mutex> lock(mutex_);
	int n = 0;

	for (const VIP_ERROR_DESCRIPTOR &error : seen_)
		n += error.ErrorCode == code && (!vi || error.ViHandle == vi);
	return n;
}

bool Errors::reach(VIP_ERROR_CODE code, VIP_VI_HANDLE vi, int wanted)
{
	return eventually([&] { return count(code, vi) >= wanted; });
}

void Errors::expect_first(VIP_ERROR_CODE code, VIP_RESOURCE_CODE resource, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi,
			  VIP_ULONG operation)
{
	ASSERT_TRUE(reach(code));
	std::lock_guard<std::mutex> lock(mutex_);
	for (const VIP_ERROR_DESCRIPTOR &error : seen_) {
		if (error.ErrorCode != code)
			continue;
		EXPECT_EQ(error.ResourceCode, resource);
		EXPECT_EQ(error.NicHandle, nic);
		EXPECT_EQ(error.ViHandle, vi);
		EXPECT_EQ(error.CQHandle, nullptr);
		EXPECT_EQ(error.DescriptorPtr, nullptr);
		EXPECT_EQ(error.OpCode, operation);
		return;
	}
}

Memory::~Memory()
{
	free(base);
}

VIP_RETURN Memory::add(VIP_NIC_HANDLE nic, VIP_PROTECTION_HANDLE tag, bool rdma_write, bool rdma_read)
{
	size_t size = DESCRIPTORS * STRIDE + DATA;
	VIP_MEM_ATTRIBUTES attributes{};

	if (!base)
		base = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
	memset(base, 0, size);
	attributes.Ptag = tag;
	attributes.EnableRdmaWrite = rdma_write;
	attributes.EnableRdmaRead = rdma_read;
	return VipRegisterMem(nic, base, size, &attributes, &handle);
}

VIP_DESCRIPTOR *Memory::blank(size_t number)
{
	void *at = static_cast<char *>(base) + number * STRIDE;

	memset(at, 0, STRIDE);
	return static_cast<VIP_DESCRIPTOR *>(at);
}

char *Memory::data(size_t offset)
{
	return static_cast<char *>(base) + DESCRIPTORS * STRIDE + offset;
}

void PrintTo(const CqEntry &entry, std::ostream *out)
{
	*out << result_name(entry.code) << ", VI " << entry.vi << (entry.is_receive ? ", receive" : ", send");
}

CqEntry cq_wait(VIP_CQ_HANDLE cq, VIP_ULONG ms)
{
	CqEntry entry{};

	entry.code = VipCQWait(cq, ms, &entry.vi, &entry.is_receive);
	return entry;
}

CqEntry cq_done(VIP_CQ_HANDLE cq)
{
	CqEntry entry{};

	entry.code = VipCQDone(cq, &entry.vi, &entry.is_receive);
	return entry;
}

void PrintTo(const Taken &taken, std::ostream *out)
{
	*out << result_name(taken.code) << " and descriptor " << taken.descriptor;
}

// Of a handle that is wrong nothing is told.
template <class Call> static Taken take(const Call &call)
{
	static VIP_DESCRIPTOR untold;
	VIP_DESCRIPTOR *descriptor = &untold;
	const VIP_RETURN code = call(&descriptor);

	if (descriptor != &untold)
		return {code, descriptor};
	EXPECT_EQ(code, VIP_INVALID_PARAMETER) << "and no descriptor is told, nor NULL";
	return {code, nullptr};
}

Taken send_done(VIP_VI_HANDLE vi)
{
	return take([=](VIP_DESCRIPTOR **d) { return VipSendDone(vi, d); });
}

Taken recv_done(VIP_VI_HANDLE vi)
{
	return take([=](VIP_DESCRIPTOR **d) { return VipRecvDone(vi, d); });
}

Taken send_wait(VIP_VI_HANDLE vi, VIP_ULONG ms)
{
	return take([=](VIP_DESCRIPTOR **d) { return VipSendWait(vi, ms, d); });
}

Taken recv_wait(VIP_VI_HANDLE vi, VIP_ULONG ms)
{
	return take([=](VIP_DESCRIPTOR **d) { return VipRecvWait(vi, ms, d); });
}

bool is_done(const VIP_DESCRIPTOR *descriptor)
{
	return __atomic_load_n(&descriptor->CS.Status, __ATOMIC_ACQUIRE) & VIP_STATUS_DONE;
}

VIP_VI_ATTRIBUTES vi_attributes()
{
	VIP_VI_ATTRIBUTES attributes{};

	attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
	attributes.MaxTransferSize = 65536;
	attributes.EnableRdmaWrite = VIP_TRUE;
	return attributes;
}

VIP_VI_STATE state_of(VIP_VI_HANDLE vi)
{
	VIP_VI_STATE state = VIP_STATE_IDLE;
	VIP_VI_ATTRIBUTES attributes;
	VIP_BOOLEAN send_empty, recv_empty;

	EXPECT_EQ(VipQueryVi(vi, &state, &attributes, &send_empty, &recv_empty), VIP_SUCCESS);
	return state;
}

uint32_t newest_qp()
{
	std::vector<uint32_t> numbers(4096);
	int n = fake_qps(numbers.data(), static_cast<int>(numbers.size()));

	return n ? numbers[static_cast<size_t>(n) - 1] : 0;
}

ibv_qp_attr qp_attributes(const Vi &vi)
{
	ibv_qp_attr attributes{};
	ibv_qp_init_attr made;

	EXPECT_EQ(ibv_query_qp(fake_qp(vi.qp), &attributes, IBV_QP_CAP | IBV_QP_ACCESS_FLAGS | IBV_QP_MAX_QP_RD_ATOMIC,
			       &made),
		  0);
	return attributes;
}

double seconds(clockid_t clock)
{
	timespec now{};

	clock_gettime(clock, &now);
	return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// ---- children of the test's process ----

static std::string read_all(int fd)
{
	std::string text;
	char part[4096];
	ssize_t n;

	while ((n = read(fd, part, sizeof(part))) > 0)
		text.append(part, static_cast<size_t>(n));
	::close(fd);
	return text;
}

static void run_child(const std::map<std::string, std::string> &environment,
		      const std::function<void()> &body, int out, int err)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(out, STDOUT_FILENO);
	dup2(err, STDERR_FILENO);
	unsetenv("VIPL_GRACE_MSEC");
	for (const auto &[name, value] : environment)
		setenv(name.c_str(), (name == "VIPL_LOG" ? value + ",plain" : value).c_str(), 1);
	alarm(40);
	body();
	fflush(stdout);
	_exit(testing::Test::HasFailure() ? 1 : 0);
}

Child in_child(const std::map<std::string, std::string> &environment,
	       const std::function<void()> &body)
{
	int out[2], err[2];
	Child child;

	fflush(stdout);
	if (pipe(out) || pipe(err))
		abort();
	pid_t pid = fork();
	if (!pid)
		run_child(environment, body, out[1], err[1]);
	::close(out[1]);
	::close(err[1]);
	// The child writes little, so the two pipes may be read one after the other.
	child.out = read_all(out[0]);
	child.err = read_all(err[0]);
	waitpid(pid, &child.status, 0);
	return child;
}

Child passing_child(const std::map<std::string, std::string> &environment, const std::function<void()> &body)
{
	Child child = in_child(environment, body);

	EXPECT_EQ(child.status, 0) << child.out << child.err;
	return child;
}
