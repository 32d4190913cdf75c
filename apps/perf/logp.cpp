// SPDX-License-Identifier: BSD-2-Clause
/*
 * vip_perf logp - measures the parameters of the LogP model for messages of four bytes, and what a
 * message gains when its data need not be fetched by a descriptor (tables 2 and 3 of Buonadonna,
 * Geweke and Culler, "An Implementation and Analysis of the Virtual Interface Architecture", SC98).
 *
 * The method is that of Culler, Liu, Martin and Yoshikawa ("Assessing Fast Network Interfaces",
 * IEEE Micro, 1996). The client sends bursts of M messages, and the server answers each message.
 * Between two messages the client computes for a delay D (here it reads the clock), and then looks
 * once for an answer. The client's time for a message of a burst gives the parameters, for growing
 * M and D:
 *
 *	o_s	a burst so short that no answer has come, and the client does not look for one: the
 *		time of a message is that of filling in the descriptor, four bytes of data, and
 *		VipPostSend.
 *	g	a long burst without a delay: the time of a message grows to that of the
 *		slowest part of the way, a device or a processor. It is the slope between two
 *		sizes of bursts, and includes taking the sends and the answers of the server.
 *	o_r	a delay longer than the round trip: each message finds an answer, so that
 *		its time, less the delay, is o_s + o_r. The same delay without taking answers
 *		gives the part of o_s ("o_s, delayed"): after a delay caches are colder than in a
 *		row.
 *	L	half the round trip, less o_s and o_r. The client takes no sends meanwhile.
 *
 * All figures are medians, of bursts or of blocks of 16 round trips, less one reading of the clock. All
 * kinds are measured in turn, in 20 rounds (fewer when these take more than 40 s), so that a
 * disturbance affects all kinds alike.
 *
 * For table 3 the round trip is measured with messages of three forms. The paper changed its
 * firmware. A program of VIPL can choose these forms:
 *
 *	plain		libvipl sends data of a few bytes with the work request (RDMA) or in the
 *			message's slot (via_lo). The paper's "descriptorless message" is the
 *			nearest to that.
 *	fenced		with VIP_CONTROL_QFENCE and no reads to wait for: on an RDMA
 *			device the same work request with a segment, whose data the device
 *			fetches; the paper's "none". On via_lo the fence changes nothing;
 *			compare sizes up to 44 bytes and from 64 there.
 *	immediate	four bytes as immediate data, in the descriptor itself and without
 *			a segment: the paper's "merged descriptor" is the nearest to that.
 */
#include <algorithm>

#include "end.h"
#include "run.h"

namespace
{
constexpr unsigned depth = 64; /* receives that are posted, and most sends under way and messages unanswered */
constexpr size_t room = 4096, small = 4;
constexpr double turn_us = 5000; /* the duration of a measurement in each round */
constexpr double limit_us = 40e6; /* after this time it stops at the least number of rounds */
constexpr unsigned rounds = 20, least_rounds = 3, most_repeats = 1000;
constexpr unsigned short_messages = 8, delayed_messages = 16, block = 16;
constexpr unsigned burst_sizes[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 1024};
constexpr double delays_in_round_trips[] = {0.25, 0.5, 1, 2, 4};
constexpr size_t form_sizes[] = {small, 16, 32, 48, 64, 128, 256, 512};

enum class Form { plain, fenced, immediate };
NLOHMANN_JSON_SERIALIZE_ENUM(Form, {{Form::plain, "plain"},
				    {Form::fenced, "fenced"},
				    {Form::immediate, "immediate"}})

Shape shape_of_link()
{
	Shape shape = numbers_shape(depth);

	shape.room = room;
	return shape;
}

/* What either side does with a message, without the waiting in between. Each message begins with its number. */
class Link : public End
{
public:
	explicit Link(const Side &side) : End(side.nic, shape_of_link())
	{
		connect_vi(side, vi());
		side.control.meet();
	}
	/* Fills in a descriptor and posts it. With `depth` sends under way it takes one of them first. */
	void post_number(Form form, size_t bytes)
	{
		const auto number = static_cast<uint32_t>(sent());

		collect_sends(depth - 1);
		if (form == Form::immediate)
			return post(0, VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE, number);
		std::memcpy(outgoing(), &number, sizeof(number));
		post(bytes, form == Form::fenced ? VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_QFENCE
						 : VIP_CONTROL_OP_SENDRECV);
	}
	/* Looks once for a message. If there is one it checks the message and posts its receive again. */
	bool take_number()
	{
		const auto number = static_cast<uint32_t>(received());
		const VIP_DESCRIPTOR *message = take(true);

		if (!message)
			return false;
		if (number_in(message) != number)
			throw Failure("a message came with wrong contents");
		post_receive();
		return true;
	}
	void await_next()
	{
		Patience patience;

		while (!take_number())
			patience.in_vain("a message");
	}
};

double clock_us()
{
	Samples us;

	for (unsigned i = 0; i < most_repeats; ++i) {
		const double start = now_us();

		us.push_back(now_us() - start);
	}
	return median(us);
}

/* Returns how long it took, less one reading of the clock. */
double spin(double us)
{
	const double start = now_us();
	double now;

	do
		now = now_us();
	while (now - start < us);
	return now - start;
}

/* A kind of burst, with its samples in microseconds. */
struct Setting {
	unsigned messages;
	double delay_us = 0;
	bool looks = true; /* whether the client looks for answers within the burst */
	Form form = Form::plain;
	size_t bytes = small;
	unsigned window = depth; /* with so many unanswered it waits for an answer; 1: round trips */
	unsigned repeats = 2;
	Samples us = {};

	double each() const
	{
		return median(us) / messages;
	}
};

class Client : Single
{
public:
	explicit Client(const Side &side) : side_(side)
	{
		side.control.write({{"do", "logp"}});
		link_ = side.control.together([&] { return std::make_unique<Link>(side); });
	}
	~Client()
	{
		side_.control.end({{"do", "end"}});
	}

	/*
	 * Repeats the burst for a turn and adds the samples. The next turn's number of repeats is what this turn would
	 * have needed.
	 */
	void measure(Setting &setting)
	{
		side_.control.write({{"do", "answer"},
				     {"form", setting.form},
				     {"bytes", setting.bytes},
				     {"count", uint64_t{setting.messages} * setting.repeats}});
		side_.control.meet();
		const double start = now_us();

		side_.control.together([&] {
			for (unsigned i = 0; i < setting.repeats; ++i)
				setting.us.push_back(burst(setting));
		});
		const double wanted = setting.repeats * turn_us / (now_us() - start);

		setting.repeats = static_cast<unsigned>(std::clamp(wanted, 1.0, double(most_repeats)));
		side_.control.meet();
	}

private:
	/* Returns the time of one burst. Takes what is left over from it outside of that time. */
	double burst(const Setting &setting)
	{
		unsigned unanswered = 0;
		double delayed = 0;
		const double start = now_us();

		for (unsigned i = 0; i < setting.messages; ++i) {
			link_->post_number(setting.form, setting.bytes);
			++unanswered;
			if (setting.delay_us > 0)
				delayed += spin(setting.delay_us) + clock_;
			if (setting.looks && link_->take_number())
				--unanswered;
			if (unanswered == setting.window) {
				link_->await_next();
				--unanswered;
			}
		}
		const double us = now_us() - start - clock_ - delayed;

		while (unanswered--)
			link_->await_next();
		link_->collect_sends(0);
		return us;
	}

	const Side &side_;
	std::unique_ptr<Link> link_;
	const double clock_ = clock_us();
};

/* All measurements. */
struct Settings {
	explicit Settings(double round_trip_us);
	/* The first round does not count. */
	void measure(Client &client)
	{
		std::vector<Setting *> all = {&short_burst, &delayed_sends};
		const double start = now_us();

		for (auto *settings : {&bursts, &delays, &round_trips})
			for (Setting &setting : *settings)
				all.push_back(&setting);
		for (unsigned round = 0; round <= rounds; ++round) {
			progress("round " + std::to_string(round) + " of " + std::to_string(rounds));
			if (round > least_rounds && now_us() - start > limit_us)
				break;
			for (Setting *setting : all) {
				if (round == 1)
					setting->us.clear();
				client.measure(*setting);
			}
		}
	}
	/* Adds table 2, table 3, and the curves from which table 2 is derived. */
	void report(Report &report) const
	{
		const Setting &burst = bursts[bursts.size() - 2], &longer = bursts.back();
		const double half_round_trip = round_trips[0].each() / 2, send_overhead = short_burst.each();
		const double receive_overhead = delays.back().each() - delayed_sends.each();
		const std::pair<const char *, double> parameters[] = {
			{"L", half_round_trip - send_overhead - receive_overhead},
			{"o_s", send_overhead},
			{"o_r", receive_overhead},
			{"g", (median(longer.us) - median(burst.us)) / (longer.messages - burst.messages)},
			{"RTT / 2", half_round_trip},
			{"o_s, delayed", delayed_sends.each()}};

		for (const auto &[what, us] : parameters)
			report.add("LogP", {{"what", what}, {"us", us}});
		for (const auto &[series, settings] : {std::pair{"bursts", &bursts}, {"bursts with delays", &delays}})
			for (const Setting &setting : *settings)
				report.add(series, {{"messages", setting.messages},
						    {"delay_us", setting.delay_us},
						    {"us", setting.each()}});
		for (const Setting &setting : round_trips)
			report.add(std::string("RTT / 2, ") + Json(setting.form).get<std::string>(),
				   {{"bytes", setting.bytes}, {"us", setting.each() / 2}});
	}

	Setting short_burst = {short_messages, 0, false}, delayed_sends;
	std::vector<Setting> bursts, delays, round_trips;
};

Settings::Settings(double round_trip_us)
    : delayed_sends{delayed_messages, *std::rbegin(delays_in_round_trips) * round_trip_us, false}
{
	for (unsigned messages : burst_sizes)
		bursts.push_back({messages});
	for (double delay : delays_in_round_trips)
		delays.push_back({delayed_messages, delay * round_trip_us});
	for (Form form : {Form::plain, Form::fenced})
		for (size_t bytes : form_sizes)
			round_trips.push_back({block, 0, true, form, bytes, 1});
	round_trips.push_back({block, 0, true, Form::immediate, small, 1});
}

void measure(const Side &side, Reports &reports)
{
	constexpr unsigned tries = 5;
	Setting round_trips = {block, 0, true, Form::plain, small, 1};
	Report &report = reports.add("logp", {{"what", "what", ""},
					      {"bytes", "message size", "B"},
					      {"messages", "in a burst", ""},
					      {"delay_us", "delay", "us"},
					      {"us", "each message", "us"}});
	Client client(side);

	for (unsigned i = 0; i < tries; ++i)
		client.measure(round_trips);
	Settings settings(minimum(round_trips.us) / block);

	settings.measure(client);
	settings.report(report);
}
} // namespace

/* Takes each message, posts its receive again, and then answers, as the client does. */
void serve_logp(const Side &side, const Json &)
{
	Link link(side);

	for (Json order; order = side.control.read(), order.at("do") != "end";) {
		const Form form = order.at("form").get<Form>();
		const uint64_t bytes = order.at("bytes").get<uint64_t>();

		if (bytes > room)
			throw Failure("the client asks for what it cannot have");
		side.control.meet();
		for (uint64_t left = order.at("count").get<uint64_t>(); left; --left) {
			link.await_next();
			link.post_number(form, bytes);
			while (link.sends_under_way() && link.take(false)) /* those that are done */
				;
		}
		link.collect_sends(0);
		side.control.meet();
	}
	side.control.meet();
}

void add_logp(CLI::App &app)
{
	add_measurement(app, "logp",
			"Parameters of the LogP model (latency, overheads of sender and receiver,\n"
			"gap), and round trips of messages inline, fetched, and as immediate data\n"
			"(Buonadonna et al., SC98, tables 2 and 3)",
			measure);
}
