/*
 * vip_perf logp - the parameters of the LogP model for messages of four bytes, and what it brings
 * that data need not be fetched by a descriptor (tables 2 and 3 of Buonadonna, Geweke and Culler, "An
 * Implementation and Analysis of the Virtual Interface Architecture", SC98).
 *
 * The method is that of Culler, Liu, Martin and Yoshikawa ("Assessing Fast Network Interfaces", IEEE
 * Micro, 1996). The client sends bursts of M messages, each of which the server answers; between two
 * messages it computes (here: looks at the clock) for a delay D, and then looks once whether an answer has
 * come. What a message takes of the client's time in a burst, for growing M and D, shows the parameters:
 *
 *	o_s	a burst so short that no answer has come: the time of a message is what sending takes.
 *		In it: filling in the descriptor, four bytes of data, and VipPostSend. 8 messages, in
 *		which the client does not look for answers at all, less one look at the clock.
 *	g	a long burst without a delay: the time of a message grows to that of the slowest part of
 *		the way, be it the device or a processor. It is the slope between bursts of 256 and of
 *		1024 messages; at most 64 are unanswered at a time. In it is all that lasting traffic
 *		takes, also taking the sends by VipSendDone, and on the server the answers. g
 *		cannot be less than o_s + o_r; where it is about that, or twice that on a device which is software,
 *		the processors are what limits.
 *	o_r	a delay longer than the round trip: each message finds the answer to itself, so that its
 *		time, less the delay, is o_s + o_r. In o_r: the VipRecvDone that finds the message, a look at
 *		its four bytes, and filling in the receive's descriptor and VipPostRecv. (That is 16
 *		messages with a delay of four round trips. After a delay caches are colder than in a
 *		row; "o_r in a row" is eight that have all come, one after the other, for comparison.)
 *	L	half the round trip, less o_s and o_r. The sides take no sends meanwhile. L is what neither
 *		processor is busy with; where VipPostSend itself carries the message to the other side
 *		(soft-RoCE within a host), parts overlap, and L is too small, perhaps negative.
 *
 * All are medians, of bursts or of blocks of 16 round trips. VipSendDone is in none but g.
 *
 * For table 3 the round trip is measured, in turn, with messages of three forms. The paper changed its
 * firmware; a program of VIPL can ask for this much:
 *
 *	plain		libvipl sends data of a few bytes with the work request (RDMA: as much as the
 *			queue pair takes inline, 128 bytes or more) or in the message's slot (via_lo: 48
 *			bytes). The paper's "descriptorless message" is the nearest to that.
 *	fenced		with VIP_CONTROL_QFENCE and no reads to wait for: on an RDMA device the same
 *			work request with a segment, whose data the device fetches; the paper's "none".
 *			On via_lo the fence changes nothing; compare sizes up to 48 bytes and from 64 there.
 *	immediate	four bytes as immediate data, in the descriptor itself and without a segment: the
 *			paper's "merged descriptor" is the nearest to that.
 */
#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "logp_link.h"
#include "logp_model.h"
#include "run.h"
#include "statistics.h"

namespace
{
constexpr size_t small = 4;
constexpr double setting_us = 200000; /* that each M and D is measured for */
constexpr double turn_us = 3000;      /* and each form in a round */
constexpr unsigned least_repeats = 9, most_repeats = 1000, rounds = 20;
constexpr unsigned short_messages = 8, delayed_messages = 16, block = 16;
constexpr unsigned burst_sizes[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 1024};
constexpr double delays_in_round_trips[] = {0.25, 0.5, 1, 2, 4};

double clock_us()
{
	Samples us;

	for (unsigned i = 0; i < most_repeats; ++i) {
		const double start = now_us();

		us.push_back(now_us() - start);
	}
	return median(us);
}

/* Returns how long it was, but for one look at the clock. */
double spin(double us)
{
	const double start = now_us();
	double now;

	do
		now = now_us();
	while (now - start < us);
	return now - start;
}

class Client
{
public:
	explicit Client(const Side &side) : side_(side)
	{
		side.control.write({{"do", "logp"}});
		link_ = std::make_unique<LogpLink>(side);
	}
	~Client() /* the server may be gone, and the run with it */
	{
		try {
			side_.control.write({{"do", "end"}});
			side_.control.meet();
		} catch (const std::exception &) {
		}
	}
	Client(const Client &) = delete;
	Client &operator=(const Client &) = delete;

	double clock() const
	{
		return clock_;
	}
	/* Of a whole burst. */
	double short_burst_us();
	double burst_us(unsigned messages);
	/* Of one message and its answer, without the delay. */
	double delayed_us(double delay_us);
	/* Of one message that is there; negative where they never were. */
	double take_in_a_row_us(double until_there_us);
	double round_trip_us(Form form, size_t bytes, double for_us);

private:
	using Burst = double (Client::*)(unsigned messages, double delay_us);

	double median_of(Burst measured, unsigned messages, double delay_us, double for_us);
	void run(Burst measured, unsigned messages, double delay_us, unsigned repeats, Samples &us);
	void finish(unsigned unanswered);
	double short_burst(unsigned messages, double);
	double burst(unsigned messages, double delay_us);
	double takes(unsigned messages, double delay_us);
	double round_trips(unsigned messages, double);

	const Side &side_;
	std::unique_ptr<LogpLink> link_;
	Form form_ = Form::plain;
	size_t bytes_ = small;
	const double clock_ = clock_us();
};

/* What is left over from a burst, in no time that counts. */
void Client::finish(unsigned unanswered)
{
	while (unanswered--)
		link_->await();
	link_->collect_all();
}

double Client::short_burst(unsigned messages, double)
{
	const double start = now_us();

	for (unsigned i = 0; i < messages; ++i)
		link_->post(form_, bytes_);
	const double us = now_us() - start;

	finish(messages);
	return us;
}

double Client::burst(unsigned messages, double delay_us)
{
	unsigned unanswered = 0;
	double delayed = 0;
	const double start = now_us();

	for (unsigned i = 0; i < messages; ++i) {
		if (unanswered == LogpLink::depth) {
			link_->await();
			--unanswered;
		}
		link_->post(form_, bytes_);
		++unanswered;
		if (delay_us > 0)
			delayed += spin(delay_us) + clock_;
		if (link_->take())
			--unanswered;
	}
	const double us = now_us() - start - clock_ - delayed;

	finish(unanswered);
	return us;
}

/* Negative unless all are there. */
double Client::takes(unsigned messages, double delay_us)
{
	unsigned taken = 0;

	for (unsigned i = 0; i < messages; ++i)
		link_->post(form_, bytes_);
	spin(delay_us);
	const double start = now_us();

	while (taken < messages && link_->take())
		++taken;
	const double us = now_us() - start - clock_;

	finish(messages - taken);
	return taken == messages ? us : -1;
}

double Client::round_trips(unsigned messages, double)
{
	const double start = now_us();

	for (unsigned i = 0; i < messages; ++i) {
		link_->post(form_, bytes_);
		link_->await();
	}
	const double us = now_us() - start - clock_;

	finish(0);
	return us;
}

void Client::run(Burst measured, unsigned messages, double delay_us, unsigned repeats, Samples &us)
{
	side_.control.write({{"do", "answer"},
			     {"form", form_},
			     {"bytes", bytes_},
			     {"count", uint64_t{messages} * repeats}});
	side_.control.meet();
	while (repeats--)
		us.push_back((this->*measured)(messages, delay_us));
	side_.control.meet();
}

/* For about so long, after a few bursts that do not count. Of negative ones: they are left out. */
double Client::median_of(Burst measured, unsigned messages, double delay_us, double for_us)
{
	constexpr unsigned tries = 3;
	Samples us;
	double start = now_us();

	run(measured, messages, delay_us, tries, us);
	const double wanted = for_us / ((now_us() - start) / tries);

	us.clear();
	run(measured, messages, delay_us,
	    static_cast<unsigned>(
		    std::clamp(wanted, double(least_repeats), double(most_repeats))),
	    us);
	us.erase(std::remove_if(us.begin(), us.end(), [](double one) { return one < 0; }), us.end());
	return us.empty() ? -1 : median(us);
}

double Client::short_burst_us()
{
	return median_of(&Client::short_burst, short_messages, 0, setting_us);
}

double Client::burst_us(unsigned messages)
{
	return median_of(&Client::burst, messages, 0, setting_us);
}

double Client::delayed_us(double delay_us)
{
	return median_of(&Client::burst, delayed_messages, delay_us, setting_us) / delayed_messages;
}

double Client::take_in_a_row_us(double until_there_us)
{
	return median_of(&Client::takes, short_messages, until_there_us, setting_us) / short_messages;
}

double Client::round_trip_us(Form form, size_t bytes, double for_us)
{
	form_ = form;
	bytes_ = bytes;
	const double us = median_of(&Client::round_trips, block, 0, for_us) / block;

	form_ = Form::plain;
	bytes_ = small;
	return us;
}

/* Of bursts without a delay: the last two say the gap. Returns the points of the curve. */
Json measure_bursts(Client &client, LogpTimes &times)
{
	Json points = Json::array();

	for (unsigned messages : burst_sizes) {
		progress("bursts of " + std::to_string(messages));
		times.long_messages = std::exchange(times.longer_messages, messages);
		times.long_burst = std::exchange(times.longer_burst, client.burst_us(messages));
		points.push_back({{"messages", messages},
				  {"delay_us", 0.0},
				  {"us", times.longer_burst / messages}});
	}
	return points;
}

/* Of bursts with delays: the longest one says what a message and its answer take. */
Json measure_delays(Client &client, LogpTimes &times)
{
	Json points = Json::array();

	for (double round_trips : delays_in_round_trips) {
		const double delay_us = round_trips * times.round_trip;

		progress("bursts with a delay of " + std::to_string(round_trips) + " round trips");
		times.saturated = client.delayed_us(delay_us);
		points.push_back({{"messages", delayed_messages},
				  {"delay_us", delay_us},
				  {"us", times.saturated}});
	}
	return points;
}

/* Table 2, and the curves that it is read from. */
void measure_logp(Client &client, Report &report)
{
	const char *const series = "LogP";
	LogpTimes times = {};

	progress("round trips and short bursts");
	times.clock = client.clock();
	times.round_trip = client.round_trip_us(Form::plain, small, setting_us);
	times.short_messages = short_messages;
	times.short_burst = client.short_burst_us();
	const Json bursts = measure_bursts(client, times), delays = measure_delays(client, times);
	const double in_a_row = client.take_in_a_row_us(2 * short_messages * times.round_trip);
	const Logp logp = logp_of(times);

	report.add(series, {{"what", "L"}, {"us", logp.latency}});
	report.add(series, {{"what", "o_s"}, {"us", logp.send_overhead}});
	report.add(series, {{"what", "o_r"}, {"us", logp.receive_overhead}});
	report.add(series, {{"what", "g"}, {"us", logp.gap}});
	report.add(series, {{"what", "RTT / 2"}, {"us", times.round_trip / 2}});
	report.add(series, {{"what", "o_r in a row"}, {"us", in_a_row < 0 ? Json() : Json(in_a_row)}});
	for (const Json &point : bursts)
		report.add("bursts", point);
	for (const Json &point : delays)
		report.add("bursts with delays", point);
}

/* Table 3: in turn, so that what else happens meanwhile happens to all. */
void measure_forms(Client &client, Report &report)
{
	static const struct {
		const char *name;
		Form form;
		std::vector<size_t> sizes;
	} rows[] = {{"RTT / 2, immediate", Form::immediate, {small}},
		    {"RTT / 2, plain", Form::plain, {small, 16, 32, 48, 64, 128, 256, 512}},
		    {"RTT / 2, fenced", Form::fenced, {small, 16, 32, 48, 64, 128, 256, 512}}};
	std::map<std::pair<Form, size_t>, Samples> us;

	for (unsigned round = 0; round < rounds; ++round) {
		progress("forms of messages, round " + std::to_string(round + 1));
		for (const auto &row : rows)
			for (size_t bytes : row.sizes)
				us[{row.form, bytes}].push_back(
					client.round_trip_us(row.form, bytes, turn_us) / 2);
	}
	for (const auto &row : rows)
		for (size_t bytes : row.sizes)
			report.add(row.name, {{"bytes", bytes},
					      {"us", median(us[{row.form, bytes}])},
					      {"us_stderr", standard_error(us[{row.form, bytes}])}});
}

Report measure(const Side &side)
{
	Report report("logp", {{"what", "what", ""},
			       {"bytes", "message size", "B"},
			       {"messages", "in a burst", ""},
			       {"delay_us", "delay", "us"},
			       {"us", "each message", "us"},
			       {"us_stderr", "+-", "us"}});
	Client client(side);

	measure_logp(client, report);
	measure_forms(client, report);
	return report;
}
} // namespace

void add_logp(CLI::App &app)
{
	add_measurement(app, "logp",
			"Parameters of the LogP model (latency, overheads of sender and receiver, gap), and\n"
			"round trips of messages inline, fetched, and as immediate data (SC98, tables 2, 3)",
			measure);
}
