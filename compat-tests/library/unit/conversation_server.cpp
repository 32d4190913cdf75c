// SPDX-License-Identifier: BSD-2-Clause
// A server, and requesters that say anything. After each of them the next good one is served.
#include "conversation.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

namespace
{

class Asked : public Conversation
{
      protected:
	void expect_served()
	{
		const int before = server ? server->accepted.load() : 0;
		Line line = ask();

		EXPECT_TRUE(line.say(MESSAGE_CONFIRM));
		if (!server)
			return;
		EXPECT_TRUE(eventually([&] { return server->accepted > before; }));
		EXPECT_EQ(line.hear_all(), MESSAGE_DISCONNECT);
	}
	void serve()
	{
		server = std::make_unique<Server>(nic, a, name);
	}
	void TearDown() override
	{
		server.reset();
		Conversation::TearDown();
	}
	std::unique_ptr<Server> server;
};

TEST_P(Asked, IsHereAndAcceptsAndTellsOfTheEnd)
{
	VIP_CONN_HANDLE conn;
	auto waited = std::async(std::launch::async, [&] { return wait_for(&conn); });
	Line line = call();

	EXPECT_EQ(line.next(true), MESSAGE_HERE);
	EXPECT_TRUE(line.say(spoken(MESSAGE_REQUEST)));
	ASSERT_EQ(waited.get(), VIP_SUCCESS);
	auto accepted = std::async(std::launch::async, [&] { return VipConnectAccept(conn, a); });
	ASSERT_EQ(line.next(), MESSAGE_ACCEPT);
	EXPECT_EQ(line.last.flags, VIP_SERVICE_RELIABLE_DELIVERY | 0x10);
	EXPECT_EQ(line.fds_of_last.size(), device().is_local ? 2u : 0u);
	EXPECT_TRUE(line.say(MESSAGE_CONFIRM));
	EXPECT_EQ(accepted.get(), VIP_SUCCESS);
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	EXPECT_EQ(line.next(), MESSAGE_DISCONNECT);
	line.say(MESSAGE_DISCONNECT);
	EXPECT_EQ(line.next(), Line::END);
}

TEST_P(Asked, HearsOfTheEndAtOnceHoweverItComes)
{
	std::vector<std::function<void(Line &)>> ends = {[](Line &line) { line.hang_up(); },
							 [](Line &line) { line.say_bytes("nonsense", 8); }};
	int count = 0;

	for (message_code code : {MESSAGE_DISCONNECT, MESSAGE_CONFIRM, MESSAGE_REQUEST, MESSAGE_ACCEPT, MESSAGE_HERE, MESSAGE_BAD_VERSION})
		ends.push_back([=](Line &line) { line.say(spoken(code)); });
	for (const auto &end : ends) {
		auto accepted = serve_one();
		Line line = ask();

		line.say(MESSAGE_CONFIRM);
		ASSERT_EQ(accepted.get(), VIP_SUCCESS);
		end(line);
		EXPECT_TRUE(eventually([&] { return state_of(a) == VIP_STATE_ERROR; })) << count;
		EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, a, ++count));
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	}
}

// ---- late, cut ----

TEST_P(Asked, SurvivesMessagesThatEndAnywhere)
{
	serve();
	for (size_t length = 0; length < sizeof(message); length++) {
		Spoken request = spoken(MESSAGE_REQUEST);
		Line line = call();

		line.say_bytes(&request.bytes, length, request.fds);
		if (device().is_local) {
			EXPECT_EQ(line.hear_all(), Line::END) << length;
		}
		line.hang_up();
	}
	expect_served();
}

// Over via_lo messages are kept apart.
class AskedOverTcp : public Asked
{
};

TEST_P(AskedOverTcp, TakesAMessageThatComesInTwoParts)
{
	serve();
	for (size_t length = 1; length < sizeof(message); length++) {
		Line line = call();

		ASSERT_TRUE(eventually([&] {
			Spoken request = spoken(MESSAGE_REQUEST);
			const char *bytes = reinterpret_cast<const char *>(&request.bytes);

			EXPECT_TRUE(line.say_bytes(bytes, length));
			EXPECT_EQ(line.next(true), MESSAGE_HERE);
			EXPECT_TRUE(line.say_bytes(bytes + length, sizeof(message) - length));
			int code = line.next();
			if (code == MESSAGE_ACCEPT)
				return true;
			EXPECT_TRUE(code == MESSAGE_BUSY || code == MESSAGE_NO_MATCH || code == Line::END) << code;
			line = call();
			return false;
		})) << length;
		EXPECT_TRUE(line.say(MESSAGE_CONFIRM));
		EXPECT_EQ(line.next(), MESSAGE_DISCONNECT);
	}
}

// A client that has said nothing, and one that does not confirm, have ten seconds.
TEST_P(Asked, LeavesWhoSaysNothing)
{
	Line silent(device(), -1);
	VIP_CONN_HANDLE conn;
	auto waited = std::async(std::launch::async, [&] { return wait_for(&conn); });

	silent = call();
	EXPECT_EQ(silent.next(true), MESSAGE_HERE);
	Line unconfirmed = call();
	EXPECT_TRUE(unconfirmed.say(spoken(MESSAGE_REQUEST)));
	ASSERT_EQ(waited.get(), VIP_SUCCESS);
	// This is waited for, so that there is a listener.
	auto again = std::async(std::launch::async, [&] { return wait_for(&conn, 3 * PATIENCE); });
	EXPECT_EQ(VipConnectAccept(conn, a), VIP_TIMEOUT);
	EXPECT_EQ(unconfirmed.next(), MESSAGE_ACCEPT);
	EXPECT_EQ(unconfirmed.next(), Line::END);
	EXPECT_EQ(silent.next(false, 3 * PATIENCE), Line::END);
	Line last = call();
	EXPECT_TRUE(last.say(spoken(MESSAGE_REQUEST)));
	EXPECT_EQ(again.get(), VIP_SUCCESS);
	EXPECT_EQ(VipConnectReject(conn), VIP_SUCCESS);
	EXPECT_EQ(last.next(), MESSAGE_REJECT);
}

// ---- hostile ----

TEST_P(Asked, SurvivesEachByteThatIsWrong)
{
	serve();
	for (uint8_t flip : {0xff, 1})
		for (size_t i = 0; i < sizeof(message); i++) {
			Spoken request = spoken(MESSAGE_REQUEST);
			Line line = call();

			reinterpret_cast<uint8_t *>(&request.bytes)[i] ^= flip;
			line.say(request);
			int code = line.hear_all();
			if (code == MESSAGE_ACCEPT) {
				EXPECT_FALSE(i <= 5 || i == 8 || (i >= 12 && i < 16) || (i >= 36 && i < 36 + name.size())) << i;
			}
		}
	expect_served();
}

TEST_P(Asked, SurvivesEachCodeAndLength)
{
	serve();
	for (int value = 0; value < 256; value++)
		for (int field = 0; field < 3; field++) {
			Spoken request = spoken(MESSAGE_REQUEST);
			Line line = call();

			if (value == MESSAGE_REQUEST && field == 0)
				continue;
			(field == 0   ? request.bytes.code
			 : field == 1 ? request.bytes.own_length
				      : request.bytes.wanted_length) = static_cast<uint8_t>(value);
			line.say(request);
			int code = line.hear_all();
			if (field != 1 && value != static_cast<int>(name.size())) {
				EXPECT_NE(code, MESSAGE_ACCEPT) << field << " " << value;
			}
		}
	expect_served();
}

TEST_P(Asked, TellsEachOtherVersionSo)
{
	serve();
	for (int version = 0; version < 256; version++) {
		Spoken request = spoken(MESSAGE_REQUEST);
		Line line = call();

		if (version == device().version)
			continue;
		request.bytes.version = static_cast<uint8_t>(version);
		// A message of another version may be shorter, or longer than ours.
		std::string bytes(reinterpret_cast<const char *>(&request.bytes), sizeof(request.bytes));
		bytes.resize(version % 3 == 0 ? 5 : version % 3 == 1 ? sizeof(message) : 2 * sizeof(message), 'x');
		EXPECT_TRUE(line.say_bytes(bytes.data(), bytes.size(), request.fds));
		EXPECT_EQ(line.next(true), MESSAGE_HERE);
		EXPECT_EQ(line.next(), MESSAGE_BAD_VERSION) << version;
		EXPECT_EQ(line.last.version, device().version);
		line.say(MESSAGE_DISCONNECT);
		EXPECT_EQ(line.next(), Line::END);
	}
	expect_served();
}

// ---- doubled, out of order ----

TEST_P(Asked, SurvivesMessagesThatComeTwiceOrAtAnotherTime)
{
	serve();
	for (message_code first : {MESSAGE_HERE, MESSAGE_REQUEST, MESSAGE_PEER_REQUEST, MESSAGE_ACCEPT, MESSAGE_CONFIRM,
				   MESSAGE_REJECT, MESSAGE_NO_MATCH, MESSAGE_BUSY, MESSAGE_BAD_VERSION, MESSAGE_DISCONNECT})
		for (message_code second : {MESSAGE_HERE, MESSAGE_REQUEST, MESSAGE_ACCEPT, MESSAGE_CONFIRM, MESSAGE_DISCONNECT}) {
			Line line = call();

			line.say(spoken(first));
			line.say(spoken(second));
			int code = line.hear_all();
			if (first != MESSAGE_REQUEST) {
				EXPECT_NE(code, MESSAGE_ACCEPT) << first << " " << second;
			}
		}
	expect_served();
}

TEST_P(Asked, AnythingButAConfirmationIsNone)
{
	for (message_code code : {MESSAGE_REQUEST, MESSAGE_ACCEPT, MESSAGE_HERE, MESSAGE_DISCONNECT}) {
		auto accepted = serve_one();
		Line line = ask();

		line.say(spoken(code));
		EXPECT_EQ(accepted.get(), VIP_TIMEOUT) << code;
		EXPECT_EQ(line.next(), Line::END);
	}
}

// ---- who goes ----

TEST_P(Asked, DoesNotWaitForARequesterThatHasGone)
{
	VIP_CONN_HANDLE conn;
	auto waited = std::async(std::launch::async, [&] { return wait_for(&conn); });
	Line line = call();

	line.say(spoken(MESSAGE_REQUEST));
	ASSERT_EQ(waited.get(), VIP_SUCCESS);
	line.hang_up();
	EXPECT_EQ(VipConnectAccept(conn, a), VIP_TIMEOUT);

	auto accepted = serve_one();
	line = ask();
	line.hang_up();
	EXPECT_EQ(accepted.get(), VIP_TIMEOUT);
}

// ---- many ----

TEST_P(Asked, KeepsAFewOfManyThatSayNothing)
{
	constexpr size_t kMany = 2000, kKept = 64;
	struct rlimit limit;
	std::vector<Line> lines;

	ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_max < 2 * kMany)
		GTEST_SKIP() << "this process may have too few descriptors";
	const struct rlimit raised = {2 * kMany + 500, limit.rlim_max};
	ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &raised), 0);
	serve();
	expect_served();
	const size_t before = descriptors();
	for (size_t i = 0; i < kMany; i++) {
		lines.push_back(call());
		if (i % 2) // it has begun to speak
			lines.back().say_bytes("VIP", device().is_local ? 0 : 3);
	}
	EXPECT_TRUE(eventually([&] { return descriptors() - before <= kMany + kKept + 4; })) << descriptors() - before - kMany;
	expect_served();
	lines.clear();
	EXPECT_TRUE(eventually([&] { return descriptors() <= before + 4; })) << descriptors() << " " << before;
	expect_served();
	EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, Asked, testing::Values(&VIA_LO, &RDMA), device_name);
INSTANTIATE_TEST_SUITE_P(Devices, AskedOverTcp, testing::Values(&RDMA), device_name);

// ---- descriptors of others, and what was said before ----

class AskedLocally : public Asked
{
      protected:
	static std::vector<int> strange(unsigned kind)
	{
		int ends[2], fd = -1;

		switch (kind) {
		case 0:
			EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
			return {ends[0], ends[1]};
		case 1:
			fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
			break;
		case 2:
			fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
			break;
		case 3:
			fd = memfd_create("short", MFD_CLOEXEC | MFD_ALLOW_SEALING);
			break;
		case 4: // of any size, and it can shrink
			fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
			EXPECT_EQ(ftruncate(fd, 1 << 20), 0);
			break;
		default: {
			std::vector<int> many;
			for (unsigned i = 0; i < LOCAL_SOCKET_FDS; i++)
				many.push_back(memfd_create("many", MFD_CLOEXEC));
			return many;
		}
		}
		return {fd};
	}
};

TEST_P(AskedLocally, KeepsNoDescriptorsOfOthers)
{
	serve();
	expect_served();
	const size_t before = descriptors();
	for (message_code code : {MESSAGE_REQUEST, MESSAGE_CONFIRM, MESSAGE_HERE, MESSAGE_DISCONNECT})
		for (unsigned kind = 0; kind < 6; kind++)
			for (bool is_besides : {false, true}) {
				Spoken words = spoken(code);
				Line line = call();
				std::vector<int> fds = strange(kind), all = fds;

				if (is_besides)
					all.insert(all.begin(), words.fds.begin(), words.fds.end());
				all.resize(std::min<size_t>(all.size(), LOCAL_SOCKET_FDS));
				line.say_bytes(&words.bytes, sizeof(words.bytes), all);
				EXPECT_NE(line.hear_all(), MESSAGE_ACCEPT) << code << " " << kind;
				for (int fd : fds)
					::close(fd);
			}
	EXPECT_TRUE(eventually([&] { return descriptors() <= before; })) << descriptors() << " " << before;
	expect_served();
}

TEST_P(AskedLocally, EndsAConnectionOverWhichDescriptorsCome)
{
	auto accepted = serve_one();
	Line line = ask();
	std::vector<int> fds = strange(0);

	line.say(MESSAGE_CONFIRM);
	ASSERT_EQ(accepted.get(), VIP_SUCCESS);
	line.say_bytes("", 1, fds);
	for (int fd : fds)
		::close(fd);
	EXPECT_TRUE(eventually([&] { return state_of(a) == VIP_STATE_ERROR; }));
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
}

// How many descriptors of this process are of the same file.
static unsigned same_as(int fd)
{
	struct stat wanted, found;
	unsigned count = 0;

	EXPECT_EQ(fstat(fd, &wanted), 0);
	for (int i = 0; i < 1024; i++)
		count += !fstat(i, &found) && found.st_dev == wanted.st_dev && found.st_ino == wanted.st_ino;
	return count;
}

TEST_P(AskedLocally, KeepsNoDescriptorsThatComeWithAConfirmation)
{
	const Spoken request = spoken(MESSAGE_REQUEST), confirm = spoken(MESSAGE_CONFIRM);
	auto accepted = serve_one();
	Line line = ask();

	line.say_bytes(&confirm.bytes, sizeof(confirm.bytes), request.fds);
	ASSERT_EQ(accepted.get(), VIP_SUCCESS);
	EXPECT_EQ(same_as(request.fds[0]), 1u);
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
}

// The hello of 1.0.0 had 112 bytes, the same magic, and then version and kind of 16 bits, in the order of the machine. It
// takes a message of 8 bytes or more with that magic and another version for a refusal, whatever its length.
TEST_P(AskedLocally, TheHelloOf100GetsAnAnswerThatItUnderstands)
{
	struct {
		uint32_t magic;
		uint16_t version, kind;
		char rest[104];
	} hello = {0x4c504956, 5, 1, {}}, answer;
	Spoken request = spoken(MESSAGE_REQUEST);

	static_assert(sizeof(hello) == 112);
	serve();
	for (int i = 0; i < 3; i++) {
		Line line = call();

		EXPECT_TRUE(line.say_bytes(&hello, sizeof(hello), request.fds));
		for (int code : {MESSAGE_HERE, MESSAGE_BAD_VERSION}) {
			ASSERT_EQ(line.next(true), code);
			memcpy(&answer, &line.last, sizeof(answer));
			EXPECT_EQ(answer.magic, hello.magic);
			EXPECT_NE(answer.version, 5);
		}
		EXPECT_EQ(line.next(), Line::END);
	}
	expect_served();
}

INSTANTIATE_TEST_SUITE_P(Devices, AskedLocally, testing::Values(&VIA_LO), device_name);

} // namespace
