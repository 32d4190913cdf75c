/* SPDX-License-Identifier: BSD-2-Clause */
// TCP sockets for the client and the server of remote.h. They throw std::runtime_error.
#pragma once

#include <string>

namespace tcp
{

int connect(const std::string &host, const std::string &port);
// A port of 0 is replaced by the port that the socket got.
int listen(unsigned short *port);
// Returns a connection, or -1 if none comes within that time. A negative time has no limit.
int accept(int listener, int ms);

} // namespace tcp
