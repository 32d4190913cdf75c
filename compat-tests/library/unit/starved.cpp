// SPDX-License-Identifier: BSD-2-Clause
// The agent never gets the processor, since a real-time program polls on the only one. Here a tracer stops the agent's
// thread, for which nobody needs a privilege.
#include "support.h"

#include <dirent.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

namespace
{

class Starved : public NicTest
{
      protected:
	// The child's thread that is not its first one, once it sleeps.
	static pid_t agent_of(pid_t process)
	{
		const std::string tasks = "/proc/" + std::to_string(process) + "/task";
		pid_t found = 0;

		EXPECT_TRUE(eventually([&] {
			DIR *directory = opendir(tasks.c_str());

			while (const dirent *entry = directory ? readdir(directory) : nullptr) {
				char state = '?';
				const pid_t thread = atoi(entry->d_name);
				FILE *file = fopen((tasks + "/" + entry->d_name + "/stat").c_str(), "re");

				if (file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1 && state == 'S' &&
				    thread != process && thread)
					found = thread;
				if (file)
					fclose(file);
			}
			closedir(directory);
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
	// The body of the child. `ready` is told when the NIC is open, and `go` when the agent has been stopped.
	void connect_and_disconnect(int ready, int go)
	{
		const std::string name = std::to_string(getpid());
		char byte = 0;

		alarm(40);
		open("via_lo");
		a = make_vi();
		b = make_vi();
		ASSERT_EQ(write(ready, "", 1), 1);
		ASSERT_EQ(read(go, &byte, 1), 1);
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
	int ready[2], go[2], status = -1;
	char byte;

	ASSERT_EQ(pipe(ready) | pipe(go), 0);
	fflush(stdout);
	const pid_t child = fork();
	if (!child) {
		connect_and_disconnect(ready[1], go[0]);
		fflush(stdout);
		_exit(HasFailure() ? 1 : 0); // the NIC stays open: closing waits for the agent
	}
	::close(ready[1]);
	ASSERT_EQ(read(ready[0], &byte, 1), 1);
	const pid_t agent = agent_of(child);
	ASSERT_EQ(ptrace(PTRACE_SEIZE, agent, nullptr, nullptr), 0) << "ptrace() has to be allowed";
	ASSERT_EQ(ptrace(PTRACE_INTERRUPT, agent, nullptr, nullptr), 0);
	ASSERT_EQ(waitpid(agent, &status, __WALL), agent);
	ASSERT_TRUE(WIFSTOPPED(status));
	ASSERT_EQ(write(go[1], "", 1), 1);
	while (waitpid(-1, &status, __WALL) == agent) // its end comes first
		continue;
	EXPECT_EQ(status, 0);
	for (int fd : {ready[0], go[0], go[1]})
		::close(fd);
}

} // namespace
