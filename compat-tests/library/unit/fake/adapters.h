/* SPDX-License-Identifier: BSD-2-Clause */
// The fake in the likeness of adapters: what adapters.def says.
#pragma once

#include "fake_rdma.h"

struct fake_adapter {
	const char *name;
	unsigned levels;     // of VIs: VIP_SERVICE_...
	const char *refused = nullptr; // no NIC can be opened, for this reason
	fake_device device{};	       // with the default's address
	fake_options options{};
};

const std::vector<fake_adapter> &fake_adapters(void);
const fake_adapter *fake_adapter_named(const char *name); // NULL: there is none
