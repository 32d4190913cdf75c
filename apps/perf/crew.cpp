// SPDX-License-Identifier: BSD-2-Clause
#include "crew.h"

#include <csignal>

extern "C" {
#include "../common/common.h"
}

namespace
{
int carry_out(Socket socket, const Crew::Work &work, unsigned number)
{
	Control parent(std::move(socket));

	signal(SIGINT, SIG_IGN); /* the parent handles it and ends the crew in order */
	try {
		work(parent, number);
		return EXIT_OK;
	} catch (const std::exception &e) {
		try {
			parent.write_failure(e);
		} catch (const std::exception &) {
			/* the parent has gone */
		}
		return EXIT_FAILED;
	}
}
} // namespace

Crew::Crew(unsigned count, const Work &work)
{
	for (unsigned number = 0; number < count; ++number) {
		auto [ours, theirs] = socket_pair();
		Member member;

		member.child = std::make_unique<Child>([&parents = ours, &own = theirs, &work, number] {
			parents = Socket();
			return carry_out(std::move(own), work, number);
		});
		member.control = std::make_unique<Control>(std::move(ours));
		members_.push_back(std::move(member));
	}
}

void Crew::tell(const Json &order)
{
	for (const Member &member : members_)
		member.control->write(order);
}

std::vector<Json> Crew::hear()
{
	std::vector<Json> said;

	for (const Member &member : members_)
		said.push_back(member.control->read());
	return said;
}
