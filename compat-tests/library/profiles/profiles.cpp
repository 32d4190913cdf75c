// SPDX-License-Identifier: BSD-2-Clause
// The fake RDMA device in the likeness of adapters (adapters.def), for any program: LD_PRELOAD this, and FAKE_PROFILE says which
// one. The library's sockets do not come by the fake: the kernel has to know the addresses.
#include "adapters.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace
{

// Before main(), and before the first call of the library.
[[gnu::constructor]] void choose()
{
	const char *wanted = getenv("FAKE_PROFILE");
	const fake_adapter *adapter = fake_adapter_named(wanted ? wanted : "");

	if (!adapter) {
		fprintf(stderr, "FAKE_PROFILE=%s: there is none of this name\n", wanted ? wanted : "");
		abort();
	}
	fake_device device = adapter->device;
	if (!strcmp(wanted, "mlx5_roce")) {
		device.addresses[1] = "fd00::9";
		device.vlan[0] = "10.9.8.1";
	}
	fake_set_devices(1, &device);
	fake_set_options(&adapter->options);
}

} // namespace
