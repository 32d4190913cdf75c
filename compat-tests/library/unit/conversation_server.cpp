// SPDX-License-Identifier: BSD-2-Clause
// A server, and requesters that say anything. After each of them the next good one is served.
#include "conversation.h"
#include "process.h"

#include <atomic>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace
{

class Asked : public Conversation
{
      protected:
	void expect_served()
	{
		const int before = accepted;
		Line line = ask();

		EXPECT_TRUE(line.say(MESSAGE_CONFIRM));
		EXPECT_TRUE(eventually([&] { return accepted > before; }));
		EXPECT_EQ(line.hear_all(), MESSAGE_DISCONNECT);
	}
	Line connected()
	{
		auto result = accept_at(a);
		Line line = ask();

		EXPECT_TRUE(line.say(MESSAGE_CONFIRM));
		EXPECT_EQ(result.get(), VIP_SUCCESS);
		return line;
	}
	// If there is no connection no message may reach memory that is the program's again, and receives stay posted.
	void expect_unconfirmed(const Deed &word, VIP_RETURN wanted)
	{
		uint32_t numbers[16];

		b = make_vi();
		posted_receive(b, 0, {});
		auto result = accept_at(b);
		Line line = ask();
		word(line);
		EXPECT_EQ(result.get(), wanted);
		EXPECT_EQ(line.next(), Line::END);
		for (int i = fake_qps(numbers, 16); i-- > 0;) {
			ibv_qp_state state = fake_qp(numbers[i])->state;
			EXPECT_TRUE(state != IBV_QPS_RTR && state != IBV_QPS_RTS) << state;
			EXPECT_EQ(fake_posted(numbers[i], FAKE_RECV), 0);
		}
		EXPECT_EQ(state_of(b), VIP_STATE_IDLE);
		EXPECT_EQ(recv_done(b).code, VIP_NOT_DONE);
		EXPECT_EQ(VipDestroyVi(b), VIP_SUCCESS);
	}
	// The answer to a request with this change.
	int answer_to(const std::function<void(message &)> &change)
	{
		Spoken request = spoken(MESSAGE_REQUEST);
		Line line = call();

		change(request.bytes);
		line.say(request);
		return line.hear_all();
	}
	// Accepts all who ask, one after the other, and disconnects.
	void serve()
	{
		server = std::async(std::launch::async, [this] {
			while (!stops) {
				VIP_RETURN rc = wait_for(20);
				if (rc == VIP_TIMEOUT)
					continue;
				ASSERT_EQ(rc, VIP_SUCCESS);
				rc = VipConnectAccept(conn, a);
				accepted += rc == VIP_SUCCESS;
				if (rc == VIP_INVALID_MTU || rc == VIP_INVALID_RELIABILITY_LEVEL) {
					EXPECT_EQ(VipConnectReject(conn), VIP_SUCCESS);
				}
				EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
			}
		});
	}
	void TearDown() override
	{
		stops = true;
		if (server.valid())
			server.get();
		Conversation::TearDown();
	}
	std::atomic<int> accepted{0};
	std::atomic<bool> stops{false};
	std::future<void> server;
};

TEST_P(Asked, IsHereAndAcceptsAndTellsOfTheEnd)
{
	auto waited = std::async(std::launch::async, [&] { return wait_for(); });
	Line line = call();

	EXPECT_TRUE(line.say(spoken(MESSAGE_REQUEST)));
	ASSERT_EQ(waited.get(), VIP_SUCCESS);
	EXPECT_EQ(line.next(true), MESSAGE_HERE);
	auto result = std::async(std::launch::async, [&] { return VipConnectAccept(conn, a); });
	ASSERT_EQ(line.next(), MESSAGE_ACCEPT);
	EXPECT_EQ(line.last.flags, VIP_SERVICE_RELIABLE_DELIVERY | 0x10);
	EXPECT_EQ(line.fds_of_last.size(), device().is_local ? 2u : 0u);
	EXPECT_TRUE(line.say(MESSAGE_CONFIRM));
	EXPECT_EQ(result.get(), VIP_SUCCESS);
	EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	EXPECT_EQ(line.next(), MESSAGE_DISCONNECT);
	line.say(MESSAGE_DISCONNECT);
	EXPECT_EQ(line.next(), Line::END);
}

TEST_P(Asked, HearsOfTheEndAtOnceHoweverItComes)
{
	int count = 0;

	for (const Deed &end : ends({MESSAGE_DISCONNECT, MESSAGE_CONFIRM, MESSAGE_REQUEST, MESSAGE_ACCEPT, MESSAGE_HERE,
				     MESSAGE_BAD_VERSION})) {
		VIP_DESCRIPTOR *receive = posted_receive(a, 0, {});
		Line line = connected();
		end(line);
		expect_lost(receive, ++count);
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
	const Spoken request = spoken(MESSAGE_REQUEST);
	const char *bytes = reinterpret_cast<const char *>(&request.bytes);

	serve();
	for (size_t length = 1; length < sizeof(message); length++) {
		Line line = ask([&](Line &each) {
			EXPECT_TRUE(each.say_bytes(bytes, length));
			let_hear();
			EXPECT_TRUE(each.say_bytes(bytes + length, sizeof(message) - length));
		});
		EXPECT_TRUE(line.say(MESSAGE_CONFIRM)) << length;
		EXPECT_EQ(line.next(), MESSAGE_DISCONNECT);
	}
}

// A client that has said nothing, and one that does not confirm, have ten seconds.
TEST_P(Asked, LeavesWhoSaysNothing)
{
	Line silent(device(), -1);
	auto waited = std::async(std::launch::async, [&] { return wait_for(); });

	silent = call();
	let_hear();
	Line unconfirmed = call();
	EXPECT_TRUE(unconfirmed.say(spoken(MESSAGE_REQUEST)));
	ASSERT_EQ(waited.get(), VIP_SUCCESS);
	// This is waited for, so that there is a listener.
	auto again = std::async(std::launch::async, [&] { return wait_for(3 * PATIENCE); });
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
			int code = answer_to([=](message &m) { reinterpret_cast<uint8_t *>(&m)[i] ^= flip; });
			if (code == MESSAGE_ACCEPT) {
				EXPECT_FALSE(i <= 6 || i == 8 || (i >= 12 && i < 16) || (i >= 36 && i < 36 + name.size())) << i;
			}
		}
	expect_served();
}

TEST_P(Asked, SurvivesEachCodeAndLength)
{
	serve();
	for (int value = 0; value < 256; value++)
		for (int field = 0; field < 3; field++) {
			if (value == MESSAGE_REQUEST && field == 0)
				continue;
			int code = answer_to([=](message &m) {
				(field == 0 ? m.code : field == 1 ? m.own_length : m.wanted_length) = static_cast<uint8_t>(value);
			});
			if (field == 1 ? value > MAX_DISCRIMINATOR_LEN : value != static_cast<int>(name.size())) {
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
		EXPECT_EQ(line.next(true), MESSAGE_BAD_VERSION) << version;
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
	for (const Deed &word : ends({MESSAGE_REQUEST, MESSAGE_ACCEPT, MESSAGE_HERE, MESSAGE_DISCONNECT}))
		expect_unconfirmed(word, VIP_TIMEOUT);
}

TEST_P(AskedOverTcp, IsNotConnectedWhereTheDeviceIsRemovedBeforeTheConfirmation)
{
	expect_unconfirmed([](Line &) { fake_remove_devices(); }, VIP_ERROR_RESOURCE);
}

// ---- who goes ----

TEST_P(Asked, DoesNotWaitForARequesterThatHasGone)
{
	auto waited = std::async(std::launch::async, [&] { return wait_for(); });
	Line line = call();

	line.say(spoken(MESSAGE_REQUEST));
	ASSERT_EQ(waited.get(), VIP_SUCCESS);
	line.hang_up();
	EXPECT_EQ(VipConnectAccept(conn, a), VIP_TIMEOUT);
}

// ---- without descriptors ----

// It has refused nobody, and may have descriptors again.
TEST_P(Asked, IsBusyWithoutADescriptorForTheConnection)
{
	auto waited = std::async(std::launch::async, [&] { return wait_for(); });
	Line line = call();

	line.say(spoken(MESSAGE_REQUEST));
	ASSERT_EQ(waited.get(), VIP_SUCCESS);
	{
		const FileLimit limit(next_descriptor());
		if (!device().is_local)
			fake_fail("ibv_query_gid_ex", 1, EMFILE);
		EXPECT_EQ(VipConnectAccept(conn, a), VIP_ERROR_RESOURCE);
	}
	EXPECT_EQ(line.next(), MESSAGE_BUSY);
	line.hang_up();
	serve();
	expect_served();
}

// ---- many ----

TEST_P(Asked, KeepsAFewOfManyThatSayNothing)
{
	constexpr long kMany = 2000, kKept = 64;
	struct rlimit limit;
	std::vector<Line> lines;

	ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_max < 2 * kMany)
		GTEST_SKIP() << "this process may have too few descriptors";
	const FileLimit raised(2 * kMany + 500);
	serve();
	expect_served();
	const long before = descriptors();
	for (long i = 0; i < kMany; i++) {
		lines.push_back(call());
		if (i % 2) // it has begun to speak
			lines.back().say_bytes("VIP", device().is_local ? 0 : 3);
	}
	EXPECT_TRUE(eventually([&] { return descriptors() - before <= kMany + kKept + 4; })) << descriptors() - before - kMany;
	expect_served();
	lines.clear();
	EXPECT_TRUE(eventually([&] { return descriptors() <= before + 4; })) << descriptors() << " " << before;
	expect_served();
}

INSTANTIATE_TEST_SUITE_P(Devices, Asked, testing::Values(&VIA_LO, &RDMA), device_name);
INSTANTIATE_TEST_SUITE_P(Devices, AskedOverTcp, testing::Values(&RDMA), device_name);

// ---- descriptors of others, and what was said before ----

class AskedLocally : public Asked
{
      protected:
	static std::vector<int> make_pipe()
	{
		int ends[2];

		EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
		return {ends[0], ends[1]};
	}
	// Descriptors of many kinds, none of which has a place in a message.
	static std::vector<std::vector<int>> strange()
	{
		std::vector<int> many;
		const int unsealed = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING); // of any size, and it can shrink

		EXPECT_EQ(ftruncate(unsealed, 1 << 20), 0);
		for (unsigned i = 0; i < LOCAL_SOCKET_FDS; i++)
			many.push_back(memfd_create("many", MFD_CLOEXEC));
		return {make_pipe(), many, {unsealed}, {memfd_create("short", MFD_CLOEXEC | MFD_ALLOW_SEALING)},
			{::open("/dev/null", O_RDWR | O_CLOEXEC)}, {socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)}};
	}
};

TEST_P(AskedLocally, KeepsNoDescriptorsOfOthers)
{
	serve();
	expect_served();
	const long before = descriptors();
	for (message_code code : {MESSAGE_REQUEST, MESSAGE_CONFIRM, MESSAGE_HERE, MESSAGE_DISCONNECT})
		for (bool is_besides : {false, true})
			for (const std::vector<int> &fds : strange()) {
				Spoken words = spoken(code);
				Line line = call();
				std::vector<int> all = fds;

				if (is_besides)
					all.insert(all.begin(), words.fds.begin(), words.fds.end());
				all.resize(std::min<size_t>(all.size(), LOCAL_SOCKET_FDS));
				line.say_bytes(&words.bytes, sizeof(words.bytes), all);
				EXPECT_NE(line.hear_all(), MESSAGE_ACCEPT) << code << " " << fds.size();
				for (int fd : fds)
					::close(fd);
			}
	EXPECT_TRUE(eventually([&] { return descriptors() <= before; })) << descriptors() << " " << before;
	expect_served();
}

TEST_P(AskedLocally, IsBusyWithoutADescriptorForWhatComesWithARequest)
{
	const Spoken request = spoken(MESSAGE_REQUEST);

	ASSERT_EQ(wait_for(0), VIP_TIMEOUT);
	Line line = call();
	let_hear();
	{
		const FileLimit limit(next_descriptor());
		line.say(request);
		EXPECT_EQ(line.next(), MESSAGE_BUSY);
	}
	serve();
	expect_served();
}

TEST_P(AskedLocally, EndsAConnectionOverWhichDescriptorsCome)
{
	Line line = connected();
	std::vector<int> fds = make_pipe();

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
	auto result = accept_at(a);
	Line line = ask();

	line.say_bytes(&confirm.bytes, sizeof(confirm.bytes), request.fds);
	ASSERT_EQ(result.get(), VIP_SUCCESS);
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
		ASSERT_EQ(line.next(true), MESSAGE_BAD_VERSION);
		memcpy(&answer, &line.last, sizeof(answer));
		EXPECT_EQ(answer.magic, hello.magic);
		EXPECT_NE(answer.version, 5);
		EXPECT_EQ(line.next(), Line::END);
	}
	expect_served();
}

INSTANTIATE_TEST_SUITE_P(Devices, AskedLocally, testing::Values(&VIA_LO), device_name);

} // namespace
