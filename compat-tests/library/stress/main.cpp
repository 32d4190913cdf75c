// SPDX-License-Identifier: BSD-2-Clause
// vip_stress: many processes, all connected to all, exchange random messages over Reliable Delivery
// VIs while some of them are killed and replaced. These rules must hold:
//
// - Every message whose send was completed arrives at a receiver that lives on: intact, in order,
//   once, with its immediate data. That holds even if the sender was killed right afterwards.
// - A process that is connected to a killed one gets CONN_LOST within a bound. Its VI is then in
//   ERROR, and its queues are flushed. It gets connected to the replacement.
// - Nothing hangs, and nothing is left behind: no descriptors, mappings, processes.
//
// It uses the public API alone, and so can judge any VIPL library on any NIC.
//
// The coordinator, here, starts, kills, replaces and watches the processes of a run, and leads them through the phases.
#include "stress.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace stress;

namespace
{

constexpr unsigned kReplacedWithin = 100; // ms, from a kill to the start of the replacement
constexpr Time kLook = 10 * kMs;          // between looks at all
constexpr unsigned kMeshPatience = 60000; // ms, until all processes have done the work of a phase

// Zeroed; children inherit it.
Board &makeBoard()
{
	void *memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		fail("no memory to share: %s", strerror(errno));
	return *new (memory) Board;
}

class Coordinator
{
      public:
	explicit Coordinator(const Options &options)
	    : options_(options), board_(makeBoard()), random_{options.seed}, processes_(options.processes)
	{
		sigemptyset(&childEnds_);
		sigaddset(&childEnds_, SIGCHLD);
		sigprocmask(SIG_BLOCK, &childEnds_, &inherited_);
		// A process that a child leaves running becomes our child, and reap() finds it.
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	}

	// Returns false if anything went wrong.
	bool run()
	{
		auto isDone = [](const Process &one) { return one.done; };
		while (!failed_ && !std::all_of(processes_.begin(), processes_.end(), isDone)) {
			timespec bound{0, kLook};
			startDue();
			killDue();
			advance();
			sigtimedwait(&childEnds_, nullptr, &bound);
			reap();
		}
		end();
		summarise();
		return !failed_;
	}

      private:
	struct Process {
		pid_t pid = -1;   // -1: not running
		Time startAt = 0; // when to start it, if it is not running
		bool killed = false;
		bool done = false;
	};

	void start(unsigned rank)
	{
		Seat &seat = board_.seat[rank];
		for (auto &one : seat.up)
			one = 0;
		seat.reached = Phase::Run;
		seat.life++;
		fflush(nullptr);
		pid_t pid = fork();
		if (pid == 0)
			beWorker(rank);
		processes_[rank].pid = pid;
		if (pid < 0)
			wrong("cannot start a process: %s", strerror(errno));
	}

	[[noreturn]] void beWorker(unsigned rank)
	{
		pid_t parent = getppid();
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent || parent == 1)
			_exit(1);
		sigprocmask(SIG_SETMASK, &inherited_, nullptr);
		callMe("rank " + std::to_string(rank) + " life " + std::to_string(board_.seat[rank].life) +
			       " (process " + std::to_string(getpid()) + ")",
		       &board_.failed);
		work(options_, board_, rank);
		exit(0); // not _exit(), so that leak checkers run
	}

	void startDue()
	{
		for (unsigned rank = 0; rank < options_.processes && !failed_; rank++)
			if (processes_[rank].pid < 0 && !processes_[rank].done && now() >= processes_[rank].startAt)
				start(rank);
	}

	void killDue()
	{
		if (options_.killsPerSecond <= 0 || now() < killAt_ || now() - begun_ >= options_.seconds * kSecond)
			return;
		killAt_ = now() +
			  static_cast<Time>(random_.below(static_cast<uint64_t>(2 * kSecond / options_.killsPerSecond)));
		auto rank = static_cast<unsigned>(random_.below(options_.processes));
		Process &victim = processes_[rank];
		Seat &seat = board_.seat[rank];
		if (victim.pid < 0 || victim.killed || seat.life >= kLives - 1)
			return;
		victim.killed = true;
		board_.count[kKills]++;
		seat.killedAt[seat.life] = now();
		kill(victim.pid, SIGKILL);
	}

	void reap()
	{
		int status;
		pid_t pid;
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
			auto found = std::find_if(processes_.begin(), processes_.end(),
						  [pid](const Process &one) { return one.pid == pid; });
			if (found == processes_.end())
				wrong("process %d was started by one of the others", pid);
			else
				ended(static_cast<unsigned>(found - processes_.begin()), status);
		}
	}

	void ended(unsigned rank, int status)
	{
		Process &process = processes_[rank];
		uint32_t life = board_.seat[rank].life;
		board_.seat[rank].goneAt[life] = now();
		process.pid = -1;
		if (process.killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
			process.startAt = now() + static_cast<Time>(random_.below(kReplacedWithin * kMs));
			process.killed = false;
			return;
		}
		process.done = true;
		if (WIFSIGNALED(status))
			wrong("rank %u life %u: %s", rank, life, strsignal(WTERMSIG(status)));
		else if (WEXITSTATUS(status) != 0)
			wrong("rank %u life %u: exit status %d", rank, life, WEXITSTATUS(status));
		else if (board_.seat[rank].reached != Phase::Close)
			wrong("rank %u ended too early", rank);
	}

	void advance()
	{
		Phase phase = board_.phase;
		if (phase == Phase::Run && now() - begun_ < options_.seconds * kSecond) {
			phaseSince_ = now();
			return;
		}
		bool all = true;
		for (unsigned rank = 0; rank < options_.processes; rank++)
			all &= isThere(rank, phase);
		if (all && phase != Phase::Close) {
			board_.phase = static_cast<Phase>(static_cast<int>(phase) + 1);
			phaseSince_ = now();
		} else if (now() - phaseSince_ > kMeshPatience * kMs) {
			stuck();
		}
	}

	bool isThere(unsigned rank, Phase phase) const
	{
		const Process &process = processes_[rank];
		const Seat &seat = board_.seat[rank];
		if (phase == Phase::Close)
			return process.done;
		if (process.pid < 0 || process.killed)
			return false;
		if (phase == Phase::Run)
			return std::count(seat.up, seat.up + kRanks, 1) == options_.processes - 1;
		return seat.reached >= phase;
	}

	// Names the processes that are not ready for the next phase.
	void stuck()
	{
		static const char *const phases[] = {"connected to all others", "quiet", "drained", "at its end"};
		Phase phase = board_.phase;
		for (unsigned rank = 0; rank < options_.processes; rank++) {
			const Seat &seat = board_.seat[rank];
			std::string missing;
			for (unsigned i = 0; i < options_.processes && phase == Phase::Run; i++)
				if (i != rank && !seat.up[i])
					missing += " " + std::to_string(i);
			if (!isThere(rank, phase))
				wrong("rank %u life %u (process %d) is not %s;%s", rank, seat.life.load(),
				      processes_[rank].pid, phases[static_cast<int>(phase)], missing.c_str());
		}
	}

	__attribute__((format(printf, 2, 3))) void wrong(const char *format, ...)
	{
		char line[1024];
		va_list arguments;
		va_start(arguments, format);
		vsnprintf(line, sizeof line, format, arguments);
		va_end(arguments);
		say("%s", line);
		failed_ = true;
	}

	// After a failure it ends what is left. Otherwise nothing may be left.
	void end()
	{
		for (const Process &process : processes_)
			if (process.pid >= 0)
				kill(process.pid, SIGKILL);
		if (!failed_ && (waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD))
			wrong("a process is left that this program has not started");
	}

	void summarise() const
	{
		static const char *const names[kCounts] = {"messages",  "bytes",      "RDMA writes",  "kills",
							   "CONN_LOST", "reconnects", "vain requests"};
		for (unsigned i = 0; i < kCounts; i++)
			printf("%-16s%llu\n", names[i], static_cast<unsigned long long>(board_.count[i]));
	}

	const Options &options_;
	Board &board_;
	Random random_; // chooses the times and the victims of kills
	std::vector<Process> processes_;
	sigset_t childEnds_, inherited_;
	Time begun_ = now(), phaseSince_ = begun_, killAt_ = begun_;
	bool failed_ = false;
};

Options parsed(CLI::App &app, int argc, char **argv)
{
	Options options;
	const char *nic = getenv("VIPL_TEST_NIC");
	options.nic = nic && *nic ? nic : "nic0";
	options.seed = std::random_device()();
	app.add_option("--nic", options.nic, "the NIC (default: $VIPL_TEST_NIC, or nic0)");
	app.add_option("--seed", options.seed, "of all random choices (default: another one each time)");
	app.option_defaults()->always_capture_default();
	app.add_option("--processes", options.processes, "so many processes")->check(CLI::Range(2U, kRanks));
	app.add_option("--seconds", options.seconds, "with messages and kills");
	app.add_option("--kills-per-second", options.killsPerSecond, "on average, at random moments")
		->check(CLI::Range(0.0, 1000.0));
	app.add_option("--bound", options.bound, "ms, from the end of a killed process until CONN_LOST")
		->check(CLI::Range(1U, 1000000U));
	app.parse(argc, argv);
	return options;
}

bool run(const Options &options)
{
	printf("vip_stress --nic=%s --processes=%u --seconds=%u --kills-per-second=%g --bound=%u --seed=%llu\n",
	       options.nic.c_str(), options.processes, options.seconds, options.killsPerSecond, options.bound,
	       static_cast<unsigned long long>(options.seed));
	fflush(stdout);
	// libvipl repeats a request for a while before VIP_NO_MATCH. Here the program repeats it.
	setenv("VIPL_GRACE_MSEC", "200", 0);
	alarm(options.seconds + 300); // ends the program even if the other watchdogs fail
	bool well = Coordinator(options).run();
	puts(well ? "vip_stress: all was well" : "vip_stress: FAILED");
	return well;
}

} // namespace

int main(int argc, char **argv)
{
	CLI::App app("Processes that exchange messages, while some of them are killed.", "vip_stress");
	app.footer("exit status: 0 if all was well, 1 if not, 2 for a wrong option");
	try {
		return run(parsed(app, argc, argv)) ? 0 : 1;
	} catch (const CLI::ParseError &error) {
		return app.exit(error) ? 2 : 0;
	}
}
