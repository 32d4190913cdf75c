// SPDX-License-Identifier: BSD-2-Clause
// The settings of the environment. A wrong value is ignored, with a warning.
#include "support.h"

#include <dlfcn.h>
#include <sys/auxv.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" // a function may have the name of a structure in C
extern "C" {
#include "base/address.h"
#include "base/config.h"
}
#pragma GCC diagnostic pop

static bool is_set_user_id;

// In place of the C library's.
extern "C" unsigned long getauxval(unsigned long type) noexcept
{
	static const auto real = reinterpret_cast<decltype(&getauxval)>(dlsym(RTLD_NEXT, "getauxval"));

	return type == AT_SECURE && is_set_user_id ? 1 : real(type);
}

namespace
{

using Settings = std::map<std::string, std::string>;

const Settings DEFAULTS = {{"VIPL_LOG", "1"},	  {"VIPL_GRACE_MSEC", "5000"},	     {"VIPL_SPIN_USEC", "20"},
			   {"VIPL_NIC_MAP", ""},  {"VIPL_HOSTS", "/etc/vip_hosts"}, {"VIPL_TRACE", ""},
			   {"VIPL_PROGRESS", "0"}, {"VIPL_TRACE_MIB", "256"}};

// The defaults, and instead of some of them these values, in the order of their names.
std::string show(const Settings &changed)
{
	Settings all = changed;
	std::string shown;

	all.insert(DEFAULTS.begin(), DEFAULTS.end());
	for (const auto &[name, value] : all)
		shown += name + "=" + value + "\n";
	return shown;
}

Child with(const Settings &environment)
{
	return in_child(environment, [] {
		const struct config *now = config();
		printf("%s", show({{"VIPL_LOG", std::to_string(now->log_level)},
				   {"VIPL_GRACE_MSEC", std::to_string(now->grace_msec)},
				   {"VIPL_SPIN_USEC", std::to_string(now->spin_usec)},
				   {"VIPL_NIC_MAP", now->nic_map},
				   {"VIPL_HOSTS", now->hosts},
				   {"VIPL_TRACE", now->trace},
				   {"VIPL_PROGRESS", std::to_string(now->progress)},
				   {"VIPL_TRACE_MIB", std::to_string(now->trace_mib)}})
				     .c_str());
	});
}

void expect(const Settings &environment, const Settings &changed)
{
	Child child = with(environment);

	EXPECT_EQ(child.out, show(changed));
	EXPECT_EQ(child.err, "");
}

// Each of these is ignored, with a warning that names the variable.
void expect_warnings(const std::string &name, const std::vector<std::string> &values)
{
	for (const std::string &value : values) {
		Child child = with({{name, value}});

		EXPECT_EQ(child.out, show({})) << name << "=" << value;
		EXPECT_NE(child.err.find("vipl: warning: "), std::string::npos) << name << "=" << value;
		expect_said(child.err, name);
	}
}

TEST(Configuration, SettingsAreTakenAndOfOthersTheDefaults)
{
	const Settings some = {{"VIPL_GRACE_MSEC", "1"}, {"VIPL_SPIN_USEC", "2"}, {"VIPL_NIC_MAP", "x=y"}, {"VIPL_HOSTS", "h"}};
	const std::string longest(255, 'x');

	expect({}, {});
	expect(some, some);
	for (const auto &[name, value] : {std::pair("VIPL_GRACE_MSEC", std::string("0")), {"VIPL_GRACE_MSEC", "3600000"},
					  {"VIPL_SPIN_USEC", "0"}, {"VIPL_SPIN_USEC", "1000000"}, {"VIPL_NIC_MAP", "a=b,c=d"},
					  {"VIPL_HOSTS", longest}, {"VIPL_NIC_MAP", longest}, {"VIPL_TRACE", "/some/where.%p"},
					  {"VIPL_TRACE_MIB", "0"}})
		expect({{name, value}}, {{name, value}});
	for (const auto &[level, number] : {std::pair("error", "0"), {"warning", "1"}, {"info", "2"}, {"debug", "3"}})
		expect({{"VIPL_LOG", level}}, {{"VIPL_LOG", number}});
	expect({{"VIPL_PROGRESS", "on"}}, {{"VIPL_PROGRESS", "1"}});
	expect({{"VIPL_PROGRESS", "off"}}, {});
	expect({{"VIPLX", "1"}, {"XVIPL_LOG", "x"}, {"VIPL_TEST_NIC", "anything"}}, {}); // others', and our test programs'
}

TEST(Configuration, WhatIsOfNoUseIsWarnedAboutAndIgnored)
{
	for (const char *number : {"VIPL_GRACE_MSEC", "VIPL_SPIN_USEC"})
		expect_warnings(number, {"", " ", "x", "-1", "+1", " 1", "1 ", "1x", "0x10", "1.5", "99999999999999999999999",
					 "4294967296", "3600001"});
	expect_warnings("VIPL_SPIN_USEC", {"1000001"});
	expect_warnings("VIPL_TRACE_MIB", {"1048577"});
	expect_warnings("VIPL_LOG", {"", " ", "loud", "ERROR", "err", "errors", "error warning", "1"});
	for (const char *text : {"VIPL_HOSTS", "VIPL_TRACE", "VIPL_NIC_MAP"})
		expect_warnings(text, {std::string(256, 'x')});
	for (const char *unknown : {"VIPL_", "VIPL_LOGS", "VIPL_GRACE", "VIPL_NO_SUCH_SETTING"})
		expect_warnings(unknown, {"", "1"});
}

TEST(Configuration, HostAddressesHaveSixBytesOrSixteen)
{
	auto length = [](const Settings &environment) {
		return in_child(environment, [] {
			printf("%d %d%d", host_length(), host_length_is_known(6), host_length_is_known(16));
		});
	};
	EXPECT_EQ(length({}).out, "6 10");
	EXPECT_EQ(length({{"VIPL_ADDRESS_BYTES", "6"}}).out, "6 10");
	EXPECT_EQ(length({{"VIPL_ADDRESS_BYTES", "16"}}).out, "16 11");
	for (const char *junk : {"", "4", "06", "6 16", "1", "16x"}) {
		Child child = length({{"VIPL_ADDRESS_BYTES", junk}});
		EXPECT_EQ(child.out, "6 10") << junk;
		EXPECT_NE(child.err.find("VIPL_ADDRESS_BYTES"), std::string::npos) << junk;
	}
}

TEST(Configuration, ProgramsWithOthersPrivilegesHaveTheDefaults)
{
	is_set_user_id = true;
	Child child = with({{"VIPL_LOG", "debug"}, {"VIPL_GRACE_MSEC", "1"}, {"VIPL_SPIN_USEC", "2"}, {"VIPL_NIC_MAP", "x=y"},
			    {"VIPL_HOSTS", "/etc/shadow"}, {"VIPL_TRACE", "/tmp/trace"}, {"VIPL_NO_SUCH", ""}});
	is_set_user_id = false;
	EXPECT_EQ(child.out, show({}));
	expect_said(child.err, " vipl: warning: all VIPL_ settings are ignored: this program has more privileges than its "
			       "caller\n");
}

} // namespace
