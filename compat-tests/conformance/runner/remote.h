/* SPDX-License-Identifier: BSD-2-Clause */
// Peers on another host: vip_conformance --peer runs here and vip_conformance --serve runs there.
//
// Two kinds of TCP connections lead to the server, both with Channel's frames. The first is for
// control, and lives as long as the client:
//
//   client                          server
//   "vip_conformance 1"             "nic ADDRESS", with its NIC's address
//   "start ROLE"                    "accept"; then the client makes a connection that begins with
//                                   "channel", which the role gets as its own; then the role's number
//   "kill NUMBER"                   "killed"
//   "wait NUMBER"                   how the role ended, and its output
//
// The server serves one client at a time and answers "busy" to others. It has no access control: any
// program that can reach it can make it play its roles. So it is for private networks.
#pragma once

#include <string>

namespace remote
{

inline constexpr unsigned short kPort = 22090;

// ---- the client ----

// `server` is "HOST" or "HOST:PORT". Throws std::runtime_error with the reason.
void use(const std::string &server);
bool used();
const std::string &host();    // the address of the server's NIC
const std::string &ownHost(); // the address of the client's NIC

struct Role {
	int socket; // the role's channel
	int number;
};
Role start(const std::string &name);
bool startedAny(); // since the last call
void kill(int number);
// Returns the role's output if it failed, otherwise "".
std::string wait(int number);

// ---- the server ----

// Serves until the process is killed. Throws std::runtime_error if it cannot.
[[noreturn]] void serve(unsigned short port);

} // namespace remote
