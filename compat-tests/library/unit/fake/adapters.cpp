// SPDX-License-Identifier: BSD-2-Clause
#include "adapters.h"

#include <cerrno>
#include <cstring>

// Adds one adapter to those that are there already.
#define ADAPTER(name, levels)         \
	[](std::vector<fake_adapter> &all) { \
		fake_adapter a{#name, levels};
#define END           \
	all.push_back(a); \
	}                 \
	,
#define SET(member, value)    a.device.member = value;
#define OPTION(member, value) a.options.member = value;
#define SPECIFICATION	      a.options = fake_options_mlx5();
#define REFUSED(reason)	      a.refused = reason;
#define LIKE(other)           \
	for (const fake_adapter &each : all) \
		if (!strcmp(each.name, #other)) \
			a.device = each.device, a.options = each.options;

static void (*const table[])(std::vector<fake_adapter> &all) = {
#include "adapters.def"
};

const std::vector<fake_adapter> &fake_adapters(void)
{
	static const std::vector<fake_adapter> *const the = [] {
		auto *all = new std::vector<fake_adapter>;
		for (auto add : table)
			add(*all);
		return all;
	}();
	return *the;
}

const fake_adapter *fake_adapter_named(const char *name)
{
	for (const fake_adapter &each : fake_adapters())
		if (!strcmp(each.name, name))
			return &each;
	return nullptr;
}
