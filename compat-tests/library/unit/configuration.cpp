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

struct Settings {
	unsigned log = 1, grace = 5000, spin = 20;
	std::string map = "", hosts = "/etc/vip_hosts", trace = "";
	unsigned progress = 0, trace_mib = 256;
};

std::string show(const Settings &s)
{
	return std::to_string(s.log) + " " + std::to_string(s.grace) + " " +
	       std::to_string(s.spin) + " [" + s.map + "] [" + s.hosts + "] [" + s.trace + "] " +
	       std::to_string(s.progress) + " " + std::to_string(s.trace_mib);
}

Child with(const std::map<std::string, std::string> &environment)
{
	return in_child(environment, [] {
		const struct config *now = config();
		printf("%s", show({now->log_level, now->grace_msec, now->spin_usec, now->nic_map,
				   now->hosts, now->trace, now->progress, now->trace_mib})
				     .c_str());
	});
}

void expect(const std::map<std::string, std::string> &environment, const Settings &settings)
{
	Child child = with(environment);

	EXPECT_EQ(child.out, show(settings));
	EXPECT_EQ(child.err, "");
}

// Checks that the value is ignored, with a warning that names the variable.
void expect_warning(const std::string &name, const std::string &value)
{
	Child child = with({{name, value}});

	EXPECT_EQ(child.out, show({})) << name << "=" << value;
	EXPECT_NE(child.err.find("vipl: warning: "), std::string::npos) << name << "=" << value;
	EXPECT_NE(child.err.find(name), std::string::npos) << child.err;
}

TEST(Configuration, WithoutSettingsTheDefaultsHold)
{
	expect({}, {});
}

TEST(Configuration, EachSettingIsTaken)
{
	expect({{"VIPL_LOG", "error"}}, {0});
	expect({{"VIPL_LOG", "warning"}}, {1});
	expect({{"VIPL_LOG", "info"}}, {2});
	expect({{"VIPL_LOG", "debug"}}, {3});
	expect({{"VIPL_GRACE_MSEC", "0"}}, {1, 0});
	expect({{"VIPL_GRACE_MSEC", "3600000"}}, {1, 3600000});
	expect({{"VIPL_SPIN_USEC", "0"}}, {1, 5000, 0});
	expect({{"VIPL_SPIN_USEC", "1000000"}}, {1, 5000, 1000000});
	expect({{"VIPL_NIC_MAP", "a=b,c=d"}}, {1, 5000, 20, "a=b,c=d"});
	expect({{"VIPL_HOSTS", "/some/where"}}, {1, 5000, 20, "", "/some/where"});
	expect({{"VIPL_PROGRESS", "on"}}, {1, 5000, 20, "", "/etc/vip_hosts", "", 1});
	expect({{"VIPL_PROGRESS", "off"}}, {});
	expect({{"VIPL_TRACE", "/some/where.%p"}},
	       {1, 5000, 20, "", "/etc/vip_hosts", "/some/where.%p"});
	expect({{"VIPL_TRACE_MIB", "0"}}, {1, 5000, 20, "", "/etc/vip_hosts", "", 0, 0});
	expect({{"VIPL_LOG", "info"},
		{"VIPL_GRACE_MSEC", "1"},
		{"VIPL_SPIN_USEC", "2"},
		{"VIPL_NIC_MAP", "x=y"},
		{"VIPL_HOSTS", "h"}},
	       {2, 1, 2, "x=y", "h"});
}

TEST(Configuration, JunkNumbersAreWarnedAboutAndIgnored)
{
	for (const char *junk : {"", " ", "x", "-1", "+1", " 1", "1 ", "1x", "0x10", "1.5",
				 "99999999999999999999999", "4294967296"}) {
		expect_warning("VIPL_GRACE_MSEC", junk);
		expect_warning("VIPL_SPIN_USEC", junk);
	}
	expect_warning("VIPL_GRACE_MSEC", "3600001");
	expect_warning("VIPL_SPIN_USEC", "1000001");
	expect_warning("VIPL_TRACE_MIB", "1048577");
}

TEST(Configuration, JunkWordsAreWarnedAboutAndIgnored)
{
	for (const char *junk : {"", " ", "loud", "ERROR", "err", "errors", "error warning", "1"})
		expect_warning("VIPL_LOG", junk);
}

TEST(Configuration, HostAddressesHaveSixBytesOrSixteen)
{
	auto length = [](const std::map<std::string, std::string> &environment) {
		return in_child(environment, [] {
			printf("%d %d%d", host_length(), host_length_is_known(6),
			       host_length_is_known(16));
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

TEST(Configuration, TextThatIsTooLongIsWarnedAboutAndIgnored)
{
	std::string fits(255, 'x'), too_long(256, 'x');

	expect({{"VIPL_HOSTS", fits}}, {1, 5000, 20, "", fits});
	expect({{"VIPL_NIC_MAP", fits}}, {1, 5000, 20, fits});
	expect_warning("VIPL_HOSTS", too_long);
	expect_warning("VIPL_TRACE", too_long);
	expect_warning("VIPL_NIC_MAP", too_long);
}

TEST(Configuration, UnknownVariablesAreWarnedAbout)
{
	expect_warning("VIPL_", "1");
	expect_warning("VIPL_LOGS", "info");
	expect_warning("VIPL_GRACE", "1");
	expect_warning("VIPL_NO_SUCH_SETTING", "");
	expect({{"VIPLX", "1"}, {"XVIPL_LOG", "x"}}, {});
}

TEST(Configuration, ProgramsWithOthersPrivilegesHaveTheDefaults)
{
	const std::map<std::string, std::string> all = {{"VIPL_LOG", "debug"},	    {"VIPL_GRACE_MSEC", "1"},
							{"VIPL_SPIN_USEC", "2"},    {"VIPL_NIC_MAP", "x=y"},
							{"VIPL_HOSTS", "/etc/shadow"}, {"VIPL_TRACE", "/tmp/trace"},
							{"VIPL_NO_SUCH", ""}};

	is_set_user_id = true;
	Child child = with(all);
	is_set_user_id = false;
	EXPECT_EQ(child.out, show({}));
	EXPECT_EQ(child.err, "vipl: warning: all VIPL_ settings are ignored: this program has more privileges than its caller\n");
}

TEST(Configuration, VariablesOfOurTestProgramsAreNoneOfTheLibrarys)
{
	expect({{"VIPL_TEST_NIC", "anything"}}, {});
}

} // namespace
