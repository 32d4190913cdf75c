/* SPDX-License-Identifier: BSD-2-Clause */
// A failing call below the library, as the parameter of a test: what the call of VIPL returns, and what the log says.
#pragma once

#include "support.h"

#include <cstring>
#include <regex>

extern bool every_line; // of the log is written, also where it would leave some out

struct Fault {
	const char *function;
	int nth, error;
	VIP_RETURN wanted = VIP_ERROR_RESOURCE; // what the call of the test returns
	const char *why = ""; // the reason that the log tells

	// A line has the call, its error, and the reason; and no line has another call.
	void expect_told(const std::string &log) const
	{
		const std::string words = std::string(function) + "(): " + strerror(error) + why;
		const std::regex call("([a-z0-9_]+)\\(\\): ");

		EXPECT_NE(log.find(words), std::string::npos) << words << " is not in: " << log;
		for (std::sregex_iterator i(log.begin(), log.end(), call); i != std::sregex_iterator(); ++i)
			EXPECT_EQ((*i)[1], function) << log;
	}
	// What it does is an error of the library's, or a code that needs no line.
	VIP_RETURN during(const std::function<VIP_RETURN()> &work) const
	{
		every_line = true;
		testing::internal::CaptureStderr();
		const VIP_RETURN result = work();
		const std::string log = testing::internal::GetCapturedStderr();
		every_line = false;
		if (wanted == VIP_ERROR_RESOURCE)
			expect_told(log);
		return result;
	}
};

inline std::ostream &operator<<(std::ostream &out, const Fault &fault)
{
	return out << fault.function << "_" << fault.nth << "_" << fault.error;
}

inline const auto name_of = [](const auto &info) { return testing::PrintToString(info.param); };

template <class Base, class Parameter = Fault> class Failing : public Each<Base, Parameter>
{
      protected:
	void fail()
	{
		fake_fail(this->GetParam().function, this->GetParam().nth, this->GetParam().error);
	}
};
