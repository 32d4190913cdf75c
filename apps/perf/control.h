/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control connection, by which the two sides of a measurement coordinate: lines of JSON over a
 * stream socket. It is TCP or, with both sides in one run, a socket pair made before the fork.
 */
#ifndef VIP_PERF_CONTROL_H
#define VIP_PERF_CONTROL_H

#include <cstdint>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "failure.h"
#include "sockets.h"

using Json = nlohmann::ordered_json;

/* Converts a struct with these members. The library's own macro knows nlohmann::json only, up to 3.11.2. */
#define MEMBERS_IN_JSON(Type, ...) \
	inline void to_json(Json &nlohmann_json_j, const Type &nlohmann_json_t) \
	{ \
		NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_TO, __VA_ARGS__)) \
	} \
	inline void from_json(const Json &nlohmann_json_j, Type &nlohmann_json_t) \
	{ \
		NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_FROM, __VA_ARGS__)) \
	}

class Control
{
public:
	static constexpr int silence_limit_ms = 120000;

	explicit Control(Socket socket);

	/* Tries for some seconds, until a server listens. */
	static Control connect(const std::string &host, uint16_t port);

	void write(const Json &message);
	/* Fails when the peer has gone, has failed, or is silent for two minutes. */
	Json read(int limit_ms = silence_limit_ms);
	/* Reads as read() does, but returns false when the peer has closed the connection, or at the time limit if any. */
	bool read_next(Json &message, int limit_ms = 0);
	/* Waits until the other side calls it, too. */
	void meet(int limit_ms = silence_limit_ms);
	/* Does nothing when the peer has gone. */
	void write_failure(const std::exception &failure) noexcept;
	/*
	 * For a failure after which the run may go on. Returns when the server has given up the joint
	 * work and waits for orders again.
	 */
	void recover(const Failure &failure);
	/* The server's part of recover(). Returns false when the client does not want to go on. */
	bool await_recovery();
	/*
	 * Does the part of this side in joint work. A failure of the peer may be the cause of a
	 * failure here, so the message of the failure includes the peer's reason if one comes soon.
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
	 * Makes the server end the joint work; for a destructor. It ignores failures, because the
	 * server may be gone. After a failure of ours the server may wait for a message until our VI
	 * is gone.
	 */
	void end(const Json &order) noexcept;
	/*
	 * Whether the peer has hung up, or has sent something although nothing is due. Both mean that
	 * it has failed.
	 */
	bool has_given_up() const;
	/* For a parent and its child: tells the peer that nothing more comes, and waits until the peer has hung up. */
	void hang_up();
	bool is_over_within(int limit_ms) const;
	/* For another connection by TCP: the server listens on any free port and tells it; the client learns of it. */
	std::shared_ptr<Socket> offer_port();
	uint16_t await_port();
	/* Returns the peer's address as text. */
	std::string peer_host() const;
	/* Whether both ends of the connection have the same address. */
	bool is_one_host() const;

private:
	template <typename Wanted> bool await(int limit_ms, Wanted is_wanted, Json &message);
	std::string peers_reason();

	Socket socket_;
};

/* Throws unless a number that has come from the other side is one of 1 to `most`. */
void expect_number(const char *what, uint64_t number, uint64_t most);
/* Returns the JSON as one line of printable characters. */
std::string text_of(const Json &json);
/*
 * Returns the text of a failure. A failure of the JSON library means that the other side is not
 * vip_perf.
 */
std::string reason(const std::exception &failure);

#endif
