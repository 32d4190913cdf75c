/* SPDX-License-Identifier: BSD-2-Clause */
// TCP sockets as client and server of remote.h need them. They throw std::runtime_error.
#pragma once

#include <string>

namespace tcp
{

int connect(const std::string &host, const std::string &port);
// The port is changed from 0 to the one it got.
int listen(unsigned short *port);
// Of one who has connected; -1 if nobody does in that time. A negative time is for ever.
int accept(int listener, int ms);

} // namespace tcp
