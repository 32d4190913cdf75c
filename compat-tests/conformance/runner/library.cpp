// SPDX-License-Identifier: BSD-2-Clause
// Loads the library under test and looks up its functions.
#include "library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <mutex>
#include <stdexcept>
#include <vector>

namespace library
{

static std::mutex failing; // several threads of a test may miss the same function
static std::string loaded;

static std::vector<Function *> &all()
{
	static std::vector<Function *> list;
	return list;
}

Function::Function(const char *ofVipl) : name(ofVipl)
{
	all().push_back(this);
}

void Function::fail()
{
	std::lock_guard<std::mutex> lock(failing);
	if (!failed)
		ADD_FAILURE() << name << " is not exported by " << loaded;
	failed = true;
}

void load(const std::string &path)
{
	void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		throw std::runtime_error(dlerror());
	link_map *map = nullptr;
	loaded = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && *map->l_name ? map->l_name : path;
	for (Function *function : all())
		function->code = dlsym(handle, function->name);
}

const std::string &path()
{
	return loaded;
}

bool exports(const std::string &name)
{
	for (const Function *function : all())
		if (name == function->name)
			return function->code;
	return false;
}

void newTest()
{
	std::lock_guard<std::mutex> lock(failing);
	for (Function *function : all())
		function->failed = false;
}

} // namespace library
