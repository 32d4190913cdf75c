/* SPDX-License-Identifier: BSD-2-Clause */
// The coordinator starts the processes of a run, kills and replaces some, watches all, and prints
// the result.
#pragma once

#include "board.h"

#include <csignal>
#include <sys/types.h>
#include <vector>

namespace stress
{

class Coordinator
{
      public:
	explicit Coordinator(const Options &options);
	~Coordinator();
	Coordinator(const Coordinator &) = delete;
	Coordinator &operator=(const Coordinator &) = delete;
	bool run(); // false if anything went wrong

      private:
	struct Process {
		pid_t pid = -1;   // -1: not running
		Time startAt = 0; // when to start it, if it is not running
		bool killed = false;
		bool done = false;
	};

	void startDue();
	void start(unsigned rank);
	[[noreturn]] void beWorker(unsigned rank);
	void killDue();
	void reap();
	void ended(unsigned rank, int status);
	void watch();
	void advance();
	bool allReached(Phase phase) const;
	void stuck(); // names the processes that are not ready for the next phase
	void waitForNews();
	void wrong(const char *format, ...) __attribute__((format(printf, 2, 3)));
	void end();
	void checkLeftovers();
	void summarise() const;

	const Options &options_;
	Board &board_;
	Random random_; // chooses the times and the victims of kills
	std::vector<Process> processes_;
	sigset_t childEnds_, inherited_;
	Time begun_ = now(), phaseSince_ = begun_, killAt_ = 0;
	uint64_t kills_ = 0;
	bool failed_ = false;
};

} // namespace stress
