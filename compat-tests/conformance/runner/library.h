/* SPDX-License-Identifier: BSD-2-Clause */
// The library under test. It is loaded when the program runs, so that any library can be tested; the
// tests call the functions of vipl.h, which calls.cpp defines and passes on to it.
#pragma once

#include <vipl.h>

#include <string>
#include <vector>

namespace library
{

// One function of vipl.h: where the library under test has it, or NULL.
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
	// As what it is called as; NULL, and the running test fails, if the library has it not.
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
	bool failed_ = false; // of a function, one failure per test says it all
};

const std::vector<Function *> &functions();

// Throws std::runtime_error with the reason.
void load(const std::string &path);
const std::string &path(); // of the loaded library
bool exports(const std::string &name);
void newTest();

} // namespace library
