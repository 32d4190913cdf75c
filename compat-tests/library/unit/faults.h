/* SPDX-License-Identifier: BSD-2-Clause */
// A failing call below the library, as the parameter of a test.
#pragma once

#include "support.h"

struct Fault {
	const char *function;
	int nth, error;
	VIP_RETURN wanted = VIP_ERROR_RESOURCE; // what the call of the test returns
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
