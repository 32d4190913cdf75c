/* SPDX-License-Identifier: BSD-2-Clause */
// A failing call below the library, as the parameter of a test.
#pragma once

#include "support.h"

struct Fault {
	const char *function;
	int nth, error;
	VIP_RETURN wanted = VIP_ERROR_RESOURCE; // of the side where it fails
};

inline std::ostream &operator<<(std::ostream &out, const Fault &fault)
{
	return out << fault.function << " number " << fault.nth << ": error " << fault.error;
}

inline std::string name_of(const testing::TestParamInfo<Fault> &info)
{
	return std::string(info.param.function) + "_" + std::to_string(info.param.nth) + "_" +
	       std::to_string(info.param.error);
}

template <class Base> class Failing : public Each<Base, Fault>
{
      protected:
	void fail()
	{
		fake_fail(this->GetParam().function, this->GetParam().nth, this->GetParam().error);
	}
};
