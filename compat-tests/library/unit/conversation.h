/* SPDX-License-Identifier: BSD-2-Clause */
// Tests of the conversation of two ends, on both devices: this library at one end, and what a test says at the other.
#pragma once

#include "line.h"
#include "support.h"

#include <algorithm>
#include <filesystem>
#include <thread>

class Conversation : public Each<NicTest, const Device *>
{
      protected:
	void SetUp() override
	{
		static int count;

		NicTest::SetUp();
		open(device().name);
		a = make_vi();
		// All processes of this host meet; and who waits again under a name may be told BUSY first.
		name = "c" + std::to_string(count++) + "-" + std::to_string(getpid());
	}
	const Device &device() const
	{
		return *GetParam();
	}
	Line call()
	{
		return Line(device(), name);
	}
	Spoken spoken(message_code code) const
	{
		return Spoken(device(), code, name);
	}
	// Waits until the server has heard what each earlier line has said: it refuses this one at once.
	void let_hear()
	{
		Line last = call();

		EXPECT_TRUE(last.say(spoken(MESSAGE_PEER_REQUEST)));
		EXPECT_EQ(last.next(), MESSAGE_NO_MATCH);
	}
	using Deed = std::function<void(Line &)>;

	// Connects and asks, as `request` does, until the server has time.
	Line ask(const Deed &request)
	{
		Line line = call();

		eventually([&] {
			request(line);
			int code = line.next();
			// END: the grace time of an earlier wait is over.
			EXPECT_TRUE(code == MESSAGE_ACCEPT || code == MESSAGE_BUSY || code == MESSAGE_NO_MATCH ||
				    code == Line::END)
				<< code;
			if (code == MESSAGE_ACCEPT)
				return true;
			line = call();
			return false;
		});
		return line;
	}
	Line ask()
	{
		return ask([this](Line &line) { line.say(spoken(MESSAGE_REQUEST)); });
	}
	// What an end may do that has nothing more to say, or says what is out of place.
	std::vector<Deed> ends(std::initializer_list<message_code> codes) const
	{
		std::vector<Deed> all = {[](Line &line) { line.hang_up(); }, [](Line &line) { line.reset(); },
					 [](Line &line) { line.say_bytes("nonsense", 8); }};

		for (message_code code : codes)
			all.push_back([=](Line &line) { line.say(spoken(code)); });
		return all;
	}
	// The connection has ended. All is flushed, and it is told once, as the ends before.
	void expect_lost(VIP_DESCRIPTOR *receive, int count)
	{
		expect_state(a, VIP_STATE_ERROR);
		expect_received(a, receive, VIP_STATUS_DESC_FLUSHED_ERROR);
		EXPECT_TRUE(errors.reach(VIP_ERROR_CONN_LOST, a, count));
		EXPECT_EQ(VipDisconnect(a), VIP_SUCCESS);
		EXPECT_EQ(errors.count(VIP_ERROR_CONN_LOST, a), count);
	}
	VIP_RETURN wait_for(VIP_ULONG ms = PATIENCE)
	{
		return wait(name, ms);
	}
	std::future<VIP_RETURN> accept_at(const Vi &vi)
	{
		return std::async(std::launch::async, [=] { return accept_one(nic, name, vi); });
	}
	std::future<VIP_RETURN> request_here(VIP_ULONG ms = PATIENCE)
	{
		return std::async(std::launch::async, [=] { return request(a, name, ms); });
	}
	static long descriptors()
	{
		return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
	}
	std::string name;
};
