/* SPDX-License-Identifier: BSD-2-Clause */
// The library under test. The program loads it when it runs, so that it can test any library. The
// tests call the functions of vipl.h, which calls.cpp defines and passes on to the library.
#pragma once

#include <vipl.h>

#include <string>
#include <vector>

namespace library
{

// One function of vipl.h: its address in the library under test, or NULL.
class Function
{
      public:
	explicit Function(const char *name);
	const char *name() const
	{
		return name_;
	}
	bool exported() const
	{
		return code_ != nullptr;
	}
	// Returns the function with its type. If the library lacks it, returns NULL and fails the
	// running test.
	template <typename Type> Type *get()
	{
		if (!code_)
			fail();
		return reinterpret_cast<Type *>(code_);
	}
	void find(void *handle);
	void newTest()
	{
		failed_ = false;
	}

      private:
	void fail();
	const char *name_;
	void *code_ = nullptr;
	bool failed_ = false; // one failure per test is enough for a function
};

const std::vector<Function *> &functions();

// Throws std::runtime_error with the reason.
void load(const std::string &path);
const std::string &path(); // of the loaded library
bool exports(const std::string &name);
void newTest();

} // namespace library
