// SPDX-License-Identifier: BSD-2-Clause
// Connecting VIs, and the second process.
#include "harness.h"

#include "runner/remote.h"

#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ifaddrs.h>
#include <map>
#include <memory>
#include <netinet/in.h>
#include <poll.h>
#include <spawn.h>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace harness
{

using testing::AssertionFailure;
using testing::AssertionResult;
using testing::AssertionSuccess;

// ---- connecting ----

Address::Address(const std::string &host, const std::string &discriminator)
    : bytes_(sizeof(VIP_NET_ADDRESS) + host.size() + discriminator.size())
{
	get()->HostAddressLen = static_cast<VIP_UINT16>(host.size());
	get()->DiscriminatorLen = static_cast<VIP_UINT16>(discriminator.size());
	memcpy(bytes_.data() + offsetof(VIP_NET_ADDRESS, HostAddress), host.data(), host.size());
	memcpy(bytes_.data() + offsetof(VIP_NET_ADDRESS, HostAddress) + host.size(), discriminator.data(),
	       discriminator.size());
}

Address::Address(const Nic &nic)
    : bytes_(sizeof(VIP_NET_ADDRESS) + nic.attributes().NicAddressLen + nic.attributes().MaxDiscriminatorLen)
{
	get()->HostAddressLen = nic.attributes().NicAddressLen;
	get()->DiscriminatorLen = nic.attributes().MaxDiscriminatorLen;
}

std::string Address::host()
{
	const auto *bytes = reinterpret_cast<const char *>(bytes_.data()) + offsetof(VIP_NET_ADDRESS, HostAddress);
	return {bytes, get()->HostAddressLen};
}

std::string Address::discriminator()
{
	const auto *bytes = reinterpret_cast<const char *>(bytes_.data()) + offsetof(VIP_NET_ADDRESS, HostAddress);
	return {bytes + get()->HostAddressLen, get()->DiscriminatorLen};
}

std::string freshDiscriminator()
{
	static std::atomic<unsigned> next{0};
	return "t" + std::to_string(getpid()) + "." + std::to_string(next++);
}

std::string hostAddress(const Nic &nic, const std::string &internet)
{
	std::string host = internet;
	if (internet.size() == 4 && nic.attributes().NicAddressLen == 16)
		host = std::string(10, '\0') + "\xFF\xFF" + internet;
	host.resize(nic.attributes().NicAddressLen, '\0');
	return host;
}

std::vector<std::string> addressesOfThisMachine(const Nic &nic)
{
	std::vector<std::string> found;
	ifaddrs *all = nullptr;
	if (getifaddrs(&all))
		throw std::runtime_error("cannot list the addresses of this machine");
	for (const ifaddrs *entry = all; entry; entry = entry->ifa_next) {
		int family = entry->ifa_addr ? entry->ifa_addr->sa_family : AF_UNSPEC;
		if (family == AF_INET) {
			const auto *ipv4 = reinterpret_cast<const sockaddr_in *>(entry->ifa_addr);
			found.push_back(hostAddress(nic, {reinterpret_cast<const char *>(&ipv4->sin_addr), 4}));
		} else if (family == AF_INET6 && nic.attributes().NicAddressLen == 16) {
			const auto *ipv6 = reinterpret_cast<const sockaddr_in6 *>(entry->ifa_addr);
			found.emplace_back(reinterpret_cast<const char *>(&ipv6->sin6_addr), 16);
		}
	}
	freeifaddrs(all);
	return found;
}

VIP_RETURN waitOn(Nic &nic, const std::string &discriminator, VIP_ULONG timeout, VIP_CONN_HANDLE *connection)
{
	Address local(nic.address(), discriminator), remote(nic);
	VIP_VI_ATTRIBUTES attributes;
	return VipConnectWait(nic, local.get(), timeout, remote.get(), &attributes, connection);
}

VIP_RETURN requestTo(Vi &vi, const std::string &discriminator, VIP_ULONG timeout, const std::string &host)
{
	Address local(vi.nic().address(), freshDiscriminator()),
		remote(host.empty() ? vi.nic().address() : host, discriminator);
	VIP_VI_ATTRIBUTES attributes;
	return VipConnectRequest(vi, local.get(), remote.get(), timeout, &attributes);
}

static AssertionResult connected(Vi &vi)
{
	VIP_VI_STATE state = vi.state();
	if (state == VIP_STATE_CONNECTED)
		return AssertionSuccess();
	return AssertionFailure() << "connected, and yet " << testing::PrintToString(state);
}

AssertionResult serve(Vi &vi, const std::string &discriminator)
{
	VIP_CONN_HANDLE connection = nullptr;
	VIP_RETURN result = waitOn(vi.nic(), discriminator, kPatience, &connection);
	if (result != VIP_SUCCESS)
		return AssertionFailure() << "VipConnectWait: " << testing::PrintToString(result);
	result = VipConnectAccept(connection, vi);
	if (result != VIP_SUCCESS)
		return AssertionFailure() << "VipConnectAccept: " << testing::PrintToString(result);
	return connected(vi);
}

AssertionResult call(Vi &vi, const std::string &discriminator, const std::string &host)
{
	VIP_RETURN result = VIP_NO_MATCH;
	// The server's thread or process may begin to wait late.
	eventually([&] { return (result = requestTo(vi, discriminator, kPatience, host)) != VIP_NO_MATCH; });
	if (result != VIP_SUCCESS)
		return AssertionFailure() << "VipConnectRequest: " << testing::PrintToString(result);
	return connected(vi);
}

Told connectBy(Vi &server, Vi &client, Address waiter, Address requester, VIP_NET_ADDRESS *remote)
{
	Told told;
	Address wanted(client.nic().address(), waiter.discriminator());
	auto requested = inThread(
		[&] { return VipConnectRequest(client, requester.get(), wanted.get(), kPatience, &told.requester); });
	VIP_CONN_HANDLE connection = nullptr;
	VIP_RETURN waited = VipConnectWait(server.nic(), waiter.get(), kPatience, remote, &told.server, &connection);
	EXPECT_EQ(VIP_SUCCESS, waited);
	if (waited == VIP_SUCCESS) {
		EXPECT_EQ(VIP_SUCCESS, VipConnectAccept(connection, server));
	}
	EXPECT_EQ(VIP_SUCCESS, requested.get());
	EXPECT_EQ(wanted.discriminator(), waiter.discriminator()) << "the caller's own address changed";
	return told;
}

PendingRequest::PendingRequest(Vi &client, VIP_ULONG timeout)
{
	std::string discriminator = freshDiscriminator();
	auto isHad = std::make_shared<std::atomic<bool>>(false);
	// Its time may end before the server has it.
	requested = inThread([&client, discriminator, timeout, isHad] {
		VIP_RETURN result = VIP_NO_MATCH;
		eventually([&] {
			result = requestTo(client, discriminator, timeout);
			return result != VIP_NO_MATCH && (result != VIP_TIMEOUT || *isHad);
		});
		return result;
	});
	EXPECT_EQ(VIP_SUCCESS, waitOn(client.nic(), discriminator, kPatience, &handle));
	*isHad = true;
}

AssertionResult connect(Vi &server, Vi &client)
{
	std::string discriminator = freshDiscriminator();
	auto served = inThread([&] { return serve(server, discriminator); });
	AssertionResult called = call(client, discriminator);
	return called ? served.get() : called;
}

Pair::Pair(Nic &nic, VIP_VI_ATTRIBUTES attributes) : a(nic, attributes), b(nic, attributes)
{
	AssertionResult connected = connect(b, a);
	if (!connected)
		throw std::runtime_error(connected.message());
}

void pingPong(Vi &vi, bool first, Mode mode, const std::vector<VIP_UINT32> &sizes,
	      const std::function<AssertionResult()> &connect)
{
	const VIP_UINT32 room = *std::max_element(sizes.begin(), sizes.end());
	Pool pool(vi.nic(), 2, room);
	ASSERT_TRUE(pool.postReceive(vi, 0, room));
	ASSERT_TRUE(connect());
	for (unsigned i = 0; i < 2 * sizes.size(); i++) {
		VIP_UINT32 size = sizes[i / 2];
		SCOPED_TRACE(testing::Message() << (first ? "first" : "second") << " side, message " << i);
		if ((i % 2 == 0) == first) {
			paint(pool.buffer(1), size, i);
			ASSERT_TRUE(isSent(vi, pool.message(1, size), pool.handle(), VIP_STATUS_OP_SEND, mode));
			continue;
		}
		ASSERT_TRUE(isReceived(vi, pool.descriptor(0), VIP_STATUS_OP_RECEIVE, mode));
		ASSERT_EQ(size, pool.descriptor(0)->CS.Length);
		ASSERT_TRUE(painted(pool.buffer(0), size, i));
		ASSERT_TRUE(untouched(pool.buffer(0) + size, room - size)) << "behind the message";
		memset(pool.buffer(0), 0, size);
		ASSERT_TRUE(pool.postReceive(vi, 0, room));
	}
}

void PairTest::SetUp()
{
	ASSERT_NO_FATAL_FAILURE(NicTest::SetUp());
	pair_ = std::make_unique<Pair>(nic, attributes_);
}

// ---- a second process ----

constexpr uint32_t kLongestFrame = 1 << 20;

void Channel::put(const std::string &text)
{
	uint32_t bytes = htonl(static_cast<uint32_t>(text.size()));
	std::string frame(reinterpret_cast<const char *>(&bytes), sizeof bytes);
	frame += text;
	if (::send(fd_, frame.data(), frame.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(frame.size()))
		throw std::runtime_error("the other process does not listen any more");
}

void Channel::read(void *data, size_t bytes, Clock::time_point deadline)
{
	for (auto *next = static_cast<char *>(data); bytes;) {
		auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
		pollfd ready{fd_, POLLIN, 0};
		constexpr decltype(left) hour = 3600000;
		int result = poll(&ready, 1, static_cast<int>(std::clamp(left, {}, hour)));
		if (result == 0 && left > hour)
			continue;
		if (result == 0)
			throw std::runtime_error("the other process does not answer");
		ssize_t got = ::recv(fd_, next, bytes, 0);
		if (got == 0 || (got < 0 && errno != EINTR))
			throw std::runtime_error("the other process has gone");
		if (got > 0)
			next += got, bytes -= static_cast<size_t>(got);
	}
}

std::string Channel::get(VIP_ULONG ms)
{
	auto deadline = ms == VIP_INFINITE ? Clock::time_point::max() : Clock::now() + std::chrono::milliseconds(ms);
	uint32_t bytes = 0;
	read(&bytes, sizeof bytes, deadline);
	bytes = ntohl(bytes);
	if (bytes > kLongestFrame)
		throw std::runtime_error("the other process talks of something else");
	std::string text(bytes, '\0');
	read(text.data(), bytes, deadline);
	renewTimeLimit();
	return text;
}

void Channel::expect(const std::string &text)
{
	std::string got = get();
	if (got != text)
		throw std::runtime_error("expected \"" + text + "\" of the other process, not \"" + got + "\"");
}

bool Channel::drained(VIP_ULONG ms)
{
	auto deadline = Clock::now() + std::chrono::milliseconds(ms);
	try {
		for (char byte;;)
			read(&byte, 1, deadline);
	} catch (const std::runtime_error &) {
		return Clock::now() < deadline;
	}
}

AssertionResult Channel::serve(Vi &vi)
{
	std::string discriminator = get();
	put("ready");
	return harness::serve(vi, discriminator);
}

AssertionResult Channel::call(Vi &vi)
{
	return harness::call(vi, get(), host());
}

VIP_PEER(leaves)
{
	static auto *nic = new Nic;
	static auto *vi = new Vi(*nic);
	ASSERT_TRUE(test.serve(*vi));
	test.put("connected");
	std::string how = test.get();
	if (how == "disconnect") {
		EXPECT_EQ(VIP_SUCCESS, VipDisconnect(*vi));
	}
	if (how == "close") {
		EXPECT_EQ(VIP_SUCCESS, nic->close());
	}
	if (how != "exit")
		test.expect("exit");
}

static std::map<std::string, Role> &roles()
{
	static std::map<std::string, Role> all;
	return all;
}

RoleRegistration::RoleRegistration(const char *name, Role role)
{
	roles()[name] = role;
}

Role findRole(const std::string &name)
{
	auto found = roles().find(name);
	return found == roles().end() ? nullptr : found->second;
}

pid_t startRole(const std::string &name, int socket, int output)
{
	std::string executable = "/proc/self/exe", argument = "--role=" + name;
	char *arguments[] = {executable.data(), argument.data(), nullptr};
	posix_spawn_file_actions_t actions;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
	for (int fd : {STDOUT_FILENO, STDERR_FILENO})
		if (output >= 0)
			posix_spawn_file_actions_adddup2(&actions, output, fd);
	pid_t pid = -1;
	int failed = posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, arguments, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (failed)
		throw std::runtime_error(std::string("cannot start a peer: ") + strerror(failed));
	return pid;
}

static Channel startPeer(const char *role, pid_t *pid)
{
	if (remote::used()) {
		auto [socket, number] = remote::start(role);
		*pid = number;
		return Channel(socket, remote::host());
	}
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		throw std::runtime_error("no socket for a peer");
	*pid = startRole(role, ends[1]);
	close(ends[1]);
	return Channel(ends[0]);
}

Peer::Peer(const char *role) : channel(startPeer(role, &pid_))
{
	renewTimeLimit();
	channel.put(remote::ownHost());
}

AssertionResult Peer::call(Vi &vi)
{
	std::string discriminator = freshDiscriminator();
	channel.put(discriminator);
	channel.expect("ready");
	return harness::call(vi, discriminator, channel.host());
}

AssertionResult Peer::serve(Vi &vi)
{
	std::string discriminator = freshDiscriminator();
	channel.put(discriminator);
	return harness::serve(vi, discriminator);
}

void Peer::finish()
{
	bool ended = channel.drained(kPatience); // the peer's end is closed when its process ends
	EXPECT_TRUE(ended) << "the peer did not end";
	if (!ended) {
		kill();
		return;
	}
	pid_t pid = pid_;
	pid_ = -1;
	if (remote::used()) {
		std::string said = remote::wait(pid);
		EXPECT_EQ("", said);
		return;
	}
	int result = 0;
	waitpid(pid, &result, 0);
	EXPECT_TRUE(WIFEXITED(result) && WEXITSTATUS(result) == 0)
		<< "the peer " << (WIFEXITED(result) ? "failed, see above" : "was ended by a signal");
}

void Peer::kill()
{
	pid_t pid = pid_;
	pid_ = -1;
	if (remote::used()) {
		remote::kill(pid);
		return;
	}
	::kill(pid, SIGKILL);
	waitpid(pid, nullptr, 0);
}

Peer::~Peer()
{
	try {
		if (pid_ >= 0)
			kill();
	} catch (const std::runtime_error &error) {
		ADD_FAILURE() << error.what();
	}
	close(channel.fd());
}

} // namespace harness
