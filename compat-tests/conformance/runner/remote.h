/* SPDX-License-Identifier: BSD-2-Clause */
// Peers on another host: vip_conformance --peer on this one, vip_conformance --serve on that one.
//
// Two kinds of TCP connections lead to the server, both of Channel's frames. The first is for control,
// and lives as long as the client:
//
//   client                          server
//   "vip_conformance 1"             "nic ADDRESS", its NIC's
//   "start ROLE"                    "accept"; then the client makes a connection that begins with
//                                   "channel", which the role gets as its own; then the role's number
//   "kill NUMBER"                   "killed"
//   "wait NUMBER"                   how it ended, and what it had to say
//
// One client is served at a time; others are told "busy". Whoever can reach the server can have it
// play its roles: it is for networks of one's own.
#pragma once

#include <string>

namespace remote
{

inline constexpr unsigned short kPort = 22090;

// ---- the client ----

// "HOST" or "HOST:PORT". Throws std::runtime_error with the reason.
void use(const std::string &server);
bool used();
const std::string &host();    // the address of the server's NIC
const std::string &ownHost(); // that of the client's

struct Role {
	int socket; // its channel
	int number;
};
Role start(const std::string &name);
bool startedAny(); // since it was asked last
void kill(int number);
// What it had to say if it failed; "" if all was well.
std::string wait(int number);

// ---- the server ----

// Serves until it is killed. Throws std::runtime_error if it cannot.
[[noreturn]] void serve(unsigned short port);

} // namespace remote
