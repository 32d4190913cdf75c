/* SPDX-License-Identifier: BSD-2-Clause */
// Tests of the conversation of two ends, on both devices: this library at one end, and what a test says at the other.
#pragma once

#include "line.h"
#include "support.h"

#include <algorithm>
#include <atomic>
#include <dirent.h>
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
	// Connects and asks until the server has time.
	Line ask()
	{
		Line line = call();

		eventually([&] {
			line.say(spoken(MESSAGE_REQUEST));
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
	VIP_RETURN wait_for(VIP_CONN_HANDLE *conn, VIP_ULONG ms = PATIENCE)
	{
		return wait(name, ms, conn);
	}
	// Waits for a request, and accepts it.
	std::future<VIP_RETURN> serve_one()
	{
		return std::async(std::launch::async, [this] {
			VIP_CONN_HANDLE conn;
			VIP_RETURN rc = wait_for(&conn);
			return rc == VIP_SUCCESS ? VipConnectAccept(conn, a) : rc;
		});
	}
	std::future<VIP_RETURN> request_here(VIP_ULONG ms = PATIENCE)
	{
		return std::async(std::launch::async, [=] { return request(a, name, ms); });
	}
	static size_t descriptors()
	{
		size_t count = 0;
		DIR *directory = opendir("/proc/self/fd");

		while (readdir(directory))
			count++;
		closedir(directory);
		return count;
	}
	std::string name;
};

// A program that accepts all who ask, one after the other, and disconnects.
class Server
{
      public:
	Server(VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, std::string name)
	    : nic_(nic), vi_(vi), name_(std::move(name)), thread_([this] { run(); })
	{
	}
	~Server()
	{
		stops_ = true;
		thread_.join();
	}
	std::atomic<int> accepted{0}, refused{0};

      private:
	void run()
	{
		Address local("10.9.9.1", name_), remote;
		VIP_VI_ATTRIBUTES attributes;
		VIP_CONN_HANDLE conn;

		while (!stops_) {
			VIP_RETURN rc = VipConnectWait(nic_, local.get(), 20, remote.get(), &attributes, &conn);
			if (rc == VIP_TIMEOUT)
				continue;
			ASSERT_EQ(rc, VIP_SUCCESS);
			rc = VipConnectAccept(conn, vi_);
			if (rc == VIP_SUCCESS)
				accepted++;
			else
				refused++;
			if (rc == VIP_INVALID_MTU || rc == VIP_INVALID_RELIABILITY_LEVEL) {
				EXPECT_EQ(VipConnectReject(conn), VIP_SUCCESS);
			}
			EXPECT_EQ(VipDisconnect(vi_), VIP_SUCCESS);
		}
	}
	VIP_NIC_HANDLE nic_;
	VIP_VI_HANDLE vi_;
	std::string name_;
	std::atomic<bool> stops_{false};
	std::thread thread_;
};
