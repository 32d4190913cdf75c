/*
 * What the two sides of a measurement tell each other besides what is measured: lines of JSON over
 * a stream socket, TCP or, with both sides on one host, a pair made before the fork.
 */
#ifndef VIP_PERF_CONTROL_H
#define VIP_PERF_CONTROL_H

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "failure.h"

using Json = nlohmann::ordered_json;

class Control
{
public:
	explicit Control(int socket) : socket_(socket)
	{
	}
	~Control();
	Control(Control &&other) noexcept;
	Control &operator=(Control &&) = delete;

	/* Tries until a server is there, for some seconds. */
	static Control connect(const std::string &host, uint16_t port);

	void write(const Json &message);
	/* Fails when the peer has gone, or is silent for two minutes. */
	Json read();
	/* The same, but the peer's end and any silence are fine: false, and the wait has no limit. */
	bool read_next(Json &message);
	/* Returns on both sides when both have come. */
	void meet();
	/* The peer's address as text, to connect something else to. */
	std::string peer_host() const;
	/* As the addresses of the two ends show. */
	bool is_one_host() const;

private:
	bool read_line(std::string &line, int limit_ms);

	int socket_;
	std::string pending_;
};

/*
 * A TCP socket to there, which sends at once. Tries for some seconds, then returns -1 with errno;
 * it is the caller's.
 */
int dial(const std::string &host, uint16_t port);

/* A listening socket on the port, 0 for any, of IPv6 and IPv4; it is the caller's. */
int listen_on(uint16_t port);

#endif
