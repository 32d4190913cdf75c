/* SPDX-License-Identifier: BSD-2-Clause */
// The library under test. The program loads it when it runs, so that it can test any library. The
// tests call the functions of vipl.h, which calls.cpp defines and passes on to the library.
#pragma once

#include <string>

namespace library
{

// One function of vipl.h.
struct Function {
	explicit Function(const char *ofVipl);
	// Returns the function with its type. If the library lacks it, returns NULL and fails the
	// running test.
	template <typename Type> Type *get()
	{
		if (!code)
			fail();
		return reinterpret_cast<Type *>(code);
	}
	void fail();
	const char *const name;
	void *code = nullptr; // its address in the library under test, or NULL
	bool failed = false;  // one failure per test is enough for a function
};

// Throws std::runtime_error with the reason.
void load(const std::string &path);
const std::string &path(); // of the loaded library
bool exports(const std::string &name);
void newTest();

} // namespace library
