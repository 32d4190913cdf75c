/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the two sides of a measurement tell each other besides what is measured: lines of JSON over
 * a stream socket, TCP or, with both sides in one run, a pair made before the fork.
 */
#ifndef VIP_PERF_CONTROL_H
#define VIP_PERF_CONTROL_H

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "failure.h"
#include "sockets.h"

using Json = nlohmann::ordered_json;

class Control
{
public:
	static constexpr int silence_limit_ms = 120000;

	explicit Control(Socket socket);

	/* Tries until a server is there, for some seconds. */
	static Control connect(const std::string &host, uint16_t port);

	void write(const Json &message);
	/* Fails when the peer has gone, has failed, or is silent for two minutes. */
	Json read(int limit_ms = silence_limit_ms);
	/* The same, but the peer's end is fine: false. The wait has no limit. */
	bool read_next(Json &message);
	/* Returns on both sides when both have come. */
	void meet(int limit_ms = silence_limit_ms);
	void write_failure(const std::exception &failure);
	/*
	 * After a failure that need not be the run's end: returns when the server has given up what
	 * both did, and waits for orders again.
	 */
	void recover(const Failure &failure);
	/* The server's part of it. False: the client does not want to go on. */
	bool await_recovery();
	/*
	 * Does what both sides are to do now. If it fails, the reason may be that the peer has: what
	 * that says of it, if it says it soon, is told as well.
	 */
	template <typename Work> auto together(Work work)
	{
		try {
			return work();
		} catch (const PeersFailure &) {
			throw;
		} catch (const Failure &e) {
			throw Failure(e.what() + peers_reason());
		}
	}
	/*
	 * Has the server end what both did; for a destructor. The server may be gone, and the run with
	 * it: there is nothing left to be told. After a failure of ours it may still wait for a
	 * message, until the VI is gone.
	 */
	void end(const Json &order) noexcept;
	/* Has the peer hung up, or said something, though nothing is due: how it has failed? */
	bool has_given_up() const;
	/* The peer's address as text, to connect something else to. */
	std::string peer_host() const;
	/* As the addresses of the two ends show. */
	bool is_one_host() const;

private:
	bool read_line(std::string &line, double until_us);
	std::string peers_reason();

	Socket socket_;
	std::string pending_;
};

/* A count that the other side says; fails for what is none. */
uint64_t count_in(const Json &message, const char *key);
/* In one line, whatever texts are in it. */
std::string text_of(const Json &json);
/* What to tell of a failure: that of a JSON library is that the other side is no vip_perf. */
std::string reason(const std::exception &failure);

#endif
