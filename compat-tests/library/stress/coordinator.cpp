// SPDX-License-Identifier: BSD-2-Clause
// The coordinator starts, kills, replaces and watches the processes of a run, and leads them
// through the phases.
#include "coordinator.h"

#include "worker.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace stress
{

constexpr unsigned kReplacedWithin = 100; // ms, from a kill to the start of the replacement
constexpr Time kLook = 20 * kMs;          // between looks at the watches
constexpr unsigned kMeshPatience = 60000; // ms, until all processes are connected to each other

Board *Board::make()
{
	void *memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		fail("no memory to share: %s", strerror(errno));
	return new (memory) Board;
}

Coordinator::Coordinator(const Options &options)
    : options_(options), board_(*Board::make()), random_{options.seed}
{
	sigemptyset(&childEnds_);
	sigaddset(&childEnds_, SIGCHLD);
	sigprocmask(SIG_BLOCK, &childEnds_, &inherited_);
	// A process that a child leaves running becomes our child, and reap() finds it.
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	processes_.resize(options.processes);
	for (Process &process : processes_)
		process.startAt = begun_;
}

Coordinator::~Coordinator()
{
	sigprocmask(SIG_SETMASK, &inherited_, nullptr);
	munmap(&board_, sizeof board_);
}

void Coordinator::wrong(const char *format, ...)
{
	char line[1024];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(line, sizeof line, format, arguments);
	va_end(arguments);
	say("%s", line);
	failed_ = true;
}

void Coordinator::beWorker(unsigned rank)
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

void Coordinator::start(unsigned rank)
{
	Seat &seat = board_.seat[rank];
	for (Watch &one : seat.watch)
		one.until = 0;
	for (auto &one : seat.up)
		one = 0;
	seat.connected = 0;
	seat.reached = Phase::Run;
	seat.life++;
	fflush(nullptr);
	pid_t pid = fork();
	if (pid == 0)
		beWorker(rank);
	processes_[rank] = {};
	if (pid < 0) {
		processes_[rank].done = true;
		return wrong("cannot start a process: %s", strerror(errno));
	}
	processes_[rank].pid = pid;
	if (options_.verbose)
		say("rank %u life %u is process %d", rank, seat.life.load(), pid);
}

void Coordinator::startDue()
{
	for (unsigned rank = 0; rank < options_.processes; rank++)
		if (processes_[rank].pid < 0 && !processes_[rank].done &&
		    now() >= processes_[rank].startAt)
			start(rank);
}

void Coordinator::killDue()
{
	if (options_.killsPerSecond <= 0 || board_.phase != Phase::Run ||
	    now() - begun_ >= options_.seconds * kSecond)
		return;
	bool due = killAt_ != 0 && now() >= killAt_;
	if (due || killAt_ == 0) // the next kill is as likely at any moment as at any other
		killAt_ = now() + static_cast<Time>(-std::log(1 - random_.fraction()) /
						    options_.killsPerSecond * kSecond);
	if (!due)
		return;
	auto rank = static_cast<unsigned>(random_.below(options_.processes));
	Process &victim = processes_[rank];
	Seat &seat = board_.seat[rank];
	if (victim.pid < 0 || victim.killed || seat.life >= kLives - 1)
		return;
	victim.killed = true;
	kills_++;
	if (options_.verbose)
		say("kills rank %u life %u", rank, seat.life.load());
	seat.killedAt[seat.life] = now();
	kill(victim.pid, SIGKILL);
}

void Coordinator::ended(unsigned rank, int status)
{
	Process &process = processes_[rank];
	board_.seat[rank].goneAt[board_.seat[rank].life] = now();
	bool expected = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
	process.pid = -1;
	if (process.killed && expected) {
		Random delay{options_.seed, rank, board_.seat[rank].life};
		process.startAt = now() + static_cast<Time>(delay.below(kReplacedWithin * kMs));
		process.killed = false;
		return;
	}
	process.done = true;
	if (WIFSIGNALED(status))
		wrong("rank %u life %u: %s", rank, board_.seat[rank].life.load(),
		      strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status) != 0)
		wrong("rank %u life %u: exit status %d", rank, board_.seat[rank].life.load(),
		      WEXITSTATUS(status));
	else if (board_.seat[rank].reached != Phase::Close)
		wrong("rank %u ended too early", rank);
}

void Coordinator::reap()
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

// The watchdog of every process.
void Coordinator::watch()
{
	static const char *const threads[] = {"main thread", "acceptor", "requester"};
	for (unsigned rank = 0; rank < options_.processes; rank++) {
		const Process &process = processes_[rank];
		Time killedAt = board_.seat[rank].killedAt[board_.seat[rank].life];
		if (process.killed && now() - killedAt > kMeshPatience * kMs)
			wrong("the killed process %d does not end", process.pid);
		if (process.pid < 0 || process.killed)
			continue;
		for (unsigned i = 0; i < kThreads; i++) {
			const Watch &one = board_.seat[rank].watch[i];
			Time until = one.until;
			if (until == 0 || now() < until)
				continue;
			wrong("rank %u life %u (process %d) hangs: its %s is still at %s (rank %u)",
			      rank, board_.seat[rank].life.load(), process.pid, threads[i],
			      one.what.load(), one.peer.load());
			kill(process.pid, SIGABRT); // for a core dump
			break;
		}
	}
}

bool Coordinator::allReached(Phase phase) const
{
	for (unsigned rank = 0; rank < options_.processes; rank++) {
		const Seat &seat = board_.seat[rank];
		bool there = phase == Phase::Run     ? seat.connected == options_.processes - 1
			     : phase == Phase::Close ? processes_[rank].done
						     : seat.reached >= phase;
		if (!there || (processes_[rank].pid < 0 && phase != Phase::Close) ||
		    processes_[rank].killed)
			return false;
	}
	return true;
}

void Coordinator::stuck()
{
	static const char *const phases[] = {"connected to all others", "quiet", "drained",
					     "at its end"};
	Phase phase = board_.phase;
	for (unsigned rank = 0; rank < options_.processes; rank++) {
		const Seat &seat = board_.seat[rank];
		std::string missing;
		for (unsigned i = 0; i < options_.processes && phase == Phase::Run; i++)
			if (i != rank && !seat.up[i])
				missing += " " + std::to_string(i);
		if (!missing.empty() || (phase != Phase::Run && seat.reached < phase))
			say("rank %u life %u is not %s%s%s", rank, seat.life.load(),
			    phases[static_cast<int>(phase)],
			    missing.empty() ? "" : "; missing:", missing.c_str());
	}
	wrong("it does not go on");
}

void Coordinator::advance()
{
	Phase phase = board_.phase;
	Time waiting = now() - phaseSince_;
	if (phase == Phase::Run && now() - begun_ < options_.seconds * kSecond) {
		phaseSince_ = now();
	} else if (phase != Phase::Close && allReached(phase)) {
		board_.phase = static_cast<Phase>(static_cast<int>(phase) + 1);
		phaseSince_ = now();
	} else if (waiting > kMeshPatience * kMs) {
		stuck();
	}
}

void Coordinator::waitForNews()
{
	Time until = now() + kLook;
	if (killAt_ && board_.phase == Phase::Run)
		until = std::min(until, killAt_);
	for (const Process &process : processes_)
		if (process.pid < 0 && !process.done)
			until = std::min(until, process.startAt);
	Time left = std::max<Time>(0, until - now());
	timespec bound{static_cast<time_t>(left / kSecond), static_cast<long>(left % kSecond)};
	sigtimedwait(&childEnds_, nullptr, &bound);
}

bool Coordinator::run()
{
	while (!failed_ && !(board_.phase == Phase::Close && allReached(Phase::Close))) {
		reap();
		startDue();
		killDue();
		watch();
		advance();
		if (!failed_)
			waitForNews();
	}
	end();
	checkLeftovers();
	summarise();
	return !failed_;
}

// Waits until all processes have ended. After a failure it kills the last of them.
void Coordinator::end()
{
	Time deadline = now() + 5 * kSecond; // time for core dumps and messages
	auto running = [this] {
		return std::any_of(processes_.begin(), processes_.end(),
				   [](const Process &one) { return one.pid >= 0; });
	};
	for (Process &process : processes_)
		process.done = true; // no replacements
	bool told = false;
	while (running()) {
		if (!told && (now() > deadline || !failed_)) {
			for (const Process &process : processes_)
				if (process.pid >= 0)
					kill(process.pid, SIGKILL);
			told = true;
		}
		timespec bound{0, kLook};
		sigtimedwait(&childEnds_, nullptr, &bound);
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG);
		for (Process &process : processes_)
			if (pid > 0 && process.pid == pid)
				process.pid = -1;
	}
}

void Coordinator::checkLeftovers()
{
	if (failed_)
		return;
	int status;
	pid_t pid = waitpid(-1, &status, WNOHANG);
	if (pid >= 0 || errno != ECHILD)
		wrong("a process is left that this program has not started");
}

void Coordinator::summarise() const
{
	Tally sum;
	Time end = 0; // from a kill until the process had ended
	for (unsigned rank = 0; rank < options_.processes; rank++) {
		const Tally &one = board_.seat[rank].tally;
		sum.messages += one.messages;
		sum.bytes += one.bytes;
		sum.writes += one.writes;
		sum.losses += one.losses;
		sum.reconnects += one.reconnects;
		sum.noMatch += one.noMatch;
		sum.rejected += one.rejected;
		sum.timedOut += one.timedOut;
		if (one.slowest > sum.slowest) {
			sum.slowest = one.slowest.load();
			end = board_.seat[one.slowestPeer].goneAt[one.slowestLife] -
			      board_.seat[one.slowestPeer].killedAt[one.slowestLife];
		}
	}
	auto number = [](const std::atomic<uint64_t> &one) {
		return static_cast<unsigned long>(one);
	};
	printf("processes       %u, on %s, for %.1f s\n", options_.processes, options_.nic.c_str(),
	       static_cast<double>(now() - begun_) / kSecond);
	printf("messages        %lu, all intact and in order\n", number(sum.messages));
	printf("bytes           %lu\n", number(sum.bytes));
	printf("RDMA writes     %lu\n", number(sum.writes));
	printf("kills           %lu\n", static_cast<unsigned long>(kills_));
	printf("CONN_LOST       %lu, the slowest after %.1f ms (its process ended after %.1f ms)\n",
	       number(sum.losses), static_cast<double>(sum.slowest) / kMs,
	       static_cast<double>(end) / kMs);
	printf("reconnects      %lu\n", number(sum.reconnects));
	printf("vain requests   %lu no match, %lu rejected, %lu timed out\n", number(sum.noMatch),
	       number(sum.rejected), number(sum.timedOut));
	fflush(stdout);
}

} // namespace stress
