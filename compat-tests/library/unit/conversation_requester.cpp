// SPDX-License-Identifier: BSD-2-Clause
// A requester, and servers that say anything. Each request ends with a code, and the VI can be used afterwards.
#include "conversation.h"

#include <fcntl.h>

namespace
{

class Asking : public Conversation
{
      protected:
	void SetUp() override
	{
		Conversation::SetUp();
		gate = std::make_unique<Gate>(device(), name);
	}
	// The result of a request to a server that does this with each that comes, and stays silent until the request is over.
	VIP_RETURN result(const std::function<void(Line &)> &server, VIP_ULONG ms = PATIENCE)
	{
		auto requested = request_here(ms);
		std::vector<Line> lines;

		while (requested.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
			if (gate->has_come(1)) {
				lines.push_back(gate->accept());
				server(lines.back());
			}
		return requested.get();
	}
	// Says that it is here, hears the request, and says more.
	std::function<void(Line &)> answers(const std::function<void(Line &)> &then)
	{
		return [=](Line &line) {
			line.say(MESSAGE_HERE);
			if (line.next() == MESSAGE_REQUEST)
				then(line);
		};
	}
	VIP_RETURN answer(message_code code)
	{
		return result(answers([&](Line &line) { line.say(spoken(code)); }));
	}
	void expect_over(VIP_RETURN rc)
	{
		EXPECT_TRUE(rc == VIP_SUCCESS || rc == VIP_NO_MATCH || rc == VIP_REJECT || rc == VIP_TIMEOUT ||
			    rc == VIP_ERROR_RESOURCE || rc == VIP_NOT_REACHABLE)
			<< testing::PrintToString(rc);
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
		EXPECT_EQ(state_of(a), VIP_STATE_IDLE);
	}
	Line connected()
	{
		auto requested = request_here();
		Line line = gate->accept();

		EXPECT_TRUE(line.say(MESSAGE_HERE));
		EXPECT_EQ(line.next(), MESSAGE_REQUEST);
		EXPECT_TRUE(line.say(spoken(MESSAGE_ACCEPT)));
		EXPECT_EQ(line.next(), MESSAGE_CONFIRM);
		EXPECT_EQ(requested.get(), VIP_SUCCESS);
		EXPECT_EQ(state_of(a), VIP_STATE_CONNECTED);
		return line;
	}
	void expect_connects()
	{
		Line line = connected();

		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
		EXPECT_EQ(line.next(), MESSAGE_DISCONNECT);
		line.say(MESSAGE_DISCONNECT);
		EXPECT_EQ(line.next(), Line::END);
	}
	std::unique_ptr<Gate> gate;
};

TEST_P(Asking, SaysWhatItWantsAndWhatItIs)
{
	auto requested = request_here();
	Line line = gate->accept();

	ASSERT_EQ(line.next(), MESSAGE_REQUEST);
	EXPECT_EQ(line.last.version, device().version);
	EXPECT_EQ(std::string(reinterpret_cast<char *>(line.last.wanted), line.last.wanted_length), name);
	EXPECT_EQ(std::string(reinterpret_cast<char *>(line.last.own), line.last.own_length), "me");
	EXPECT_EQ(line.last.flags, VIP_SERVICE_RELIABLE_DELIVERY | 0x10);
	EXPECT_EQ(memcmp(line.last.max_transfer, "\0\1\0\0", 4), 0);
	EXPECT_EQ(line.fds_of_last.size(), device().is_local ? 1u : 0u);
	line.say(MESSAGE_REJECT);
	EXPECT_EQ(requested.get(), VIP_REJECT);
	expect_connects();
}

TEST_P(Asking, HearsOfTheEndAtOnceHoweverItComes)
{
	int count = 0;

	for (const Deed &end : ends({MESSAGE_DISCONNECT, MESSAGE_ACCEPT})) {
		VIP_DESCRIPTOR *receive = posted_receive(a, 0, {});
		Line line = connected();
		end(line);
		expect_lost(receive, ++count);
	}
}

TEST_P(Asking, TakesNoAnswerOfAnotherLevel)
{
	EXPECT_EQ(result(answers([&](Line &line) {
			  Spoken accept = spoken(MESSAGE_ACCEPT);

			  accept.bytes.flags = VIP_SERVICE_RELIABLE_RECEPTION;
			  line.say(accept);
		  })),
		  VIP_NOT_REACHABLE);
	expect_connects();
}

// As long as a server is busy the grace time begins anew.
TEST_P(Asking, GoesOnWhileTheServerIsBusy)
{
	const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(3 * GRACE_MSEC);
	int asked = 0;

	EXPECT_EQ(result(answers([&](Line &line) {
			  asked++;
			  line.say(std::chrono::steady_clock::now() < end ? MESSAGE_BUSY : MESSAGE_REJECT);
		  })),
		  VIP_REJECT);
	EXPECT_GT(asked, 1);
}

// VIP_NO_MATCH would say that no server is there.
TEST_P(Asking, OfAServerThatStaysBusyTakesTooLong)
{
	EXPECT_EQ(result(answers([&](Line &line) { line.say(MESSAGE_BUSY); }), GRACE_MSEC / 2), VIP_TIMEOUT);
	EXPECT_EQ(answer(MESSAGE_NO_MATCH), VIP_NO_MATCH);
	expect_connects();
}

// ---- late, cut ----

TEST_P(Asking, SurvivesAnswersThatEndAnywhere)
{
	for (size_t length = 0; length < sizeof(message); length += length < 8 ? 1 : 7) {
		VIP_RETURN rc = result(answers([&](Line &line) {
			Spoken accept = spoken(MESSAGE_ACCEPT);

			line.say_bytes(&accept.bytes, length, accept.fds);
			line.hang_up();
		}));
		EXPECT_EQ(rc, VIP_NO_MATCH) << length;
	}
	expect_connects();
}

// Over via_lo messages are kept apart.
class AskingOverTcp : public Asking
{
};

TEST_P(AskingOverTcp, TakesAnAnswerThatComesInTwoParts)
{
	for (size_t length = 1; length < sizeof(message); length++) {
		Spoken accept = spoken(MESSAGE_ACCEPT);
		const char *bytes = reinterpret_cast<const char *>(&accept.bytes);
		auto requested = request_here();
		Line line = gate->accept();

		EXPECT_TRUE(line.say_bytes(bytes, length));
		ASSERT_EQ(line.next(), MESSAGE_REQUEST);
		EXPECT_TRUE(line.say_bytes(bytes + length, sizeof(message) - length));
		EXPECT_EQ(line.next(), MESSAGE_CONFIRM);
		ASSERT_EQ(requested.get(), VIP_SUCCESS) << length;
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
	}
}

// ---- hostile ----

TEST_P(Asking, SurvivesEachByteThatIsWrong)
{
	for (uint8_t flip : {0xff, 1})
		for (size_t i = 0; i < sizeof(message); i += i >= 16 && i < 52 ? 9 : 1)
			expect_over(result(answers([&](Line &line) {
				Spoken accept = spoken(MESSAGE_ACCEPT);

				reinterpret_cast<uint8_t *>(&accept.bytes)[i] ^= flip;
				line.say(accept);
			})));
	expect_connects();
}

TEST_P(Asking, IsRefusedByAServerOfEachOtherVersion)
{
	for (int version = 0; version < 256; version++)
		for (message_code code : {MESSAGE_HERE, MESSAGE_BAD_VERSION}) {
			if (version == device().version)
				continue;
			EXPECT_EQ(result([&](Line &line) {
					  Spoken words = spoken(code);

					  words.bytes.version = static_cast<uint8_t>(version);
					  line.say(words);
				  }),
				  VIP_REJECT)
				<< version << " " << code;
		}
	expect_connects();
}

// ---- doubled, out of order ----

// An answer may come before HERE, and what comes behind it makes it no other one.
TEST_P(Asking, SurvivesEachTwoAnswers)
{
	for (message_code first : {MESSAGE_HERE, MESSAGE_REQUEST, MESSAGE_ACCEPT, MESSAGE_CONFIRM, MESSAGE_REJECT,
				   MESSAGE_NO_MATCH, MESSAGE_BUSY, MESSAGE_BAD_VERSION, MESSAGE_DISCONNECT})
		for (message_code second : {MESSAGE_HERE, MESSAGE_ACCEPT, MESSAGE_REJECT, MESSAGE_DISCONNECT}) {
			// A server that is busy for ever, or does not answer, is asked as long as there is time.
			const bool is_endless = first == MESSAGE_BUSY || (first == MESSAGE_HERE && second == MESSAGE_HERE);
			const VIP_RETURN rc = result(
				[&](Line &line) {
					line.say(spoken(first));
					line.say(spoken(second));
				},
				is_endless ? 50 : PATIENCE);
			EXPECT_EQ(rc == VIP_SUCCESS, first == MESSAGE_ACCEPT || (first == MESSAGE_HERE && second == MESSAGE_ACCEPT))
				<< first << " " << second;
			expect_over(rc);
		}
	expect_connects();
}

// ---- who goes ----

TEST_P(Asking, GoesOnWhenTheServerGoes)
{
	const auto nothing = [](Line &line) { line.hang_up(); };
	const auto before_answer = answers(nothing);

	EXPECT_EQ(result(nothing), VIP_NO_MATCH);
	EXPECT_EQ(result(before_answer), VIP_NO_MATCH);
	gate.reset();
	EXPECT_EQ(request(a, name, PATIENCE), VIP_NO_MATCH);
	gate = std::make_unique<Gate>(device(), name);
	expect_connects();
}

// A server that comes again has the whole grace time.
TEST_P(Asking, GoesOnWhenAServerGoesThatHadTheRequestForLong)
{
	int asked = 0;

	EXPECT_EQ(result(answers([&](Line &line) {
			  if (asked++) {
				  line.say(MESSAGE_REJECT);
				  return;
			  }
			  std::this_thread::sleep_for(std::chrono::milliseconds(2 * GRACE_MSEC));
			  line.hang_up();
		  })),
		  VIP_REJECT);
	EXPECT_EQ(asked, 2);
}

INSTANTIATE_TEST_SUITE_P(Devices, Asking, testing::Values(&VIA_LO, &RDMA), device_name);
INSTANTIATE_TEST_SUITE_P(Devices, AskingOverTcp, testing::Values(&RDMA), device_name);

// ---- descriptors of others, and what was said before ----

using AskingLocally = Asking;

TEST_P(AskingLocally, KeepsNoDescriptorsOfOthers)
{
	expect_connects();
	const long before = descriptors();
	for (message_code code : {MESSAGE_HERE, MESSAGE_ACCEPT, MESSAGE_REJECT})
		for (int kind = 0; kind < 4; kind++)
			expect_over(result([&](Line &line) {
				Spoken words = spoken(code);
				std::vector<int> fds = words.fds;
				int ends[2];

				EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
				if (kind == 0) // all are strange
					fds = {ends[0], ends[1]};
				else if (kind == 1) // one more
					fds.push_back(ends[0]);
				else if (kind == 2) // one is missing
					fds.resize(fds.empty() ? 0 : 1);
				else // in another order
					std::reverse(fds.begin(), fds.end());
				line.say_bytes(&words.bytes, sizeof(words.bytes), fds);
				::close(ends[0]);
				::close(ends[1]);
			},
					   code == MESSAGE_HERE ? 100 : PATIENCE));
	EXPECT_TRUE(eventually([&] { return descriptors() <= before; })) << descriptors() << " " << before;
	expect_connects();
}

// 1.0.0 answers a version that it does not know by a hello of 112 bytes, of its own version.
TEST_P(AskingLocally, AServerOf100IsRefused)
{
	const struct {
		uint32_t magic;
		uint16_t version, kind;
		char rest[104];
	} hello = {0x4c504956, 5, 5, {}};

	EXPECT_EQ(result([&](Line &line) {
			  line.next();
			  line.say_bytes(&hello, sizeof(hello));
		  }),
		  VIP_REJECT);
}

INSTANTIATE_TEST_SUITE_P(Devices, AskingLocally, testing::Values(&VIA_LO), device_name);

} // namespace
