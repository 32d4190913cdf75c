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
 *	o_s	a burst so short that no answer has come: the time of a message is that of
 *		sending. It includes filling in the descriptor, four bytes of data, and
 *		VipPostSend. The burst has 8 messages, and the client does not look for answers.
 *		One reading of the clock is subtracted.
 *	g	a long burst without a delay: the time of a message grows to that of the
 *		slowest part of the way, a device or a processor. It is the slope between
 *		bursts of 256 and of 1024 messages; at most 64 are unanswered at a time. It
 *		includes all work of lasting traffic, also taking the sends by VipSendDone,
 *		and the answers of the server.
 *	o_r	a delay longer than the round trip: each message finds an answer, so that
 *		its time, less the delay, is o_s + o_r. o_r includes the VipRecvDone that
 *		finds the message, reading its four bytes, filling in the receive's
 *		descriptor, and VipPostRecv. There are 16 messages with a delay of four round
 *		trips; and 16 with the same delay but without taking answers, which give the
 *		part of o_s ("o_s, delayed"): after a delay caches are colder than in a row.
 *		("o_r in a row" is eight answers that have all come, for comparison.)
 *	L	half the round trip, less o_s and o_r. The client takes no sends meanwhile.
 *		L is the time in which neither processor is busy. VipPostSend itself carries
 *		the message to the other side with soft-RoCE within a host, and the receiver's
 *		call carries it with via_lo. Parts overlap there, and L is too small, or
 *		negative.
 *
 * All figures are medians, of bursts or of blocks of 16 round trips. All kinds are measured in
 * turn, in 20 rounds (fewer when these take more than 40 s), so that a disturbance affects all
 * kinds alike.
 *
 * For table 3 the round trip is measured with messages of three forms. The paper changed its
 * firmware. A program of VIPL can choose these forms:
 *
 *	plain		libvipl sends data of a few bytes with the work request (RDMA: as
 *			much as the queue pair takes inline, 128 bytes or more) or in the
 *			message's slot (via_lo: 44 bytes). The paper's "descriptorless
 *			message" is the nearest to that.
 *	fenced		with VIP_CONTROL_QFENCE and no reads to wait for: on an RDMA
 *			device the same work request with a segment, whose data the device
 *			fetches; the paper's "none". On via_lo the fence changes nothing;
 *			compare sizes up to 44 bytes and from 64 there.
 *	immediate	four bytes as immediate data, in the descriptor itself and without
 *			a segment: the paper's "merged descriptor" is the nearest to that.
 */
#include <algorithm>
#include <cmath>
#include <vector>

#include "end.h"
#include "run.h"

namespace
{
constexpr unsigned depth = 64; /* receives that are posted, and most sends under way */
constexpr size_t room = 4096, small = 4;
constexpr double turn_us = 5000; /* the duration of a measurement in each round */
constexpr double limit_us = 40e6; /* after this time it stops at the least number of rounds */
constexpr unsigned rounds = 20, least_rounds = 3, most_repeats = 1000;
constexpr unsigned short_messages = 8, delayed_messages = 16, block = 16;
constexpr unsigned burst_sizes[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 1024};
constexpr double delays_in_round_trips[] = {0.25, 0.5, 1, 2, 4};
const std::vector<size_t> form_sizes = {small, 16, 32, 48, 64, 128, 256, 512};

/* The forms of a message, of which the head of this file tells. */
enum class Form { plain, fenced, immediate };
NLOHMANN_JSON_SERIALIZE_ENUM(Form, {{Form::plain, "plain"},
				    {Form::fenced, "fenced"},
				    {Form::immediate, "immediate"}})

/* What either side does with a message, without the waiting in between. Each message begins with its number. */
class Link
{
public:
	explicit Link(const Side &side) : end_(side.nic, shape())
	{
		Address address = share_server_address(side);

		connect_vi(side, end_.vi(), address);
		side.control.meet();
	}
	/* Fills in a descriptor and posts it. With `depth` sends under way it takes one of them first. */
	void post(Form form, size_t bytes)
	{
		const auto number = static_cast<uint32_t>(end_.sent());

		end_.collect_sends(depth - 1);
		if (form == Form::immediate)
			return end_.post(0, VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE, number);
		std::memcpy(end_.outgoing(), &number, sizeof(number));
		end_.post(bytes, form == Form::fenced ? VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_QFENCE
						      : VIP_CONTROL_OP_SENDRECV);
	}
	/* Looks once for a message. If there is one it checks the message and posts its receive again. */
	bool take()
	{
		const auto number = static_cast<uint32_t>(end_.received());
		const VIP_DESCRIPTOR *message = end_.take(true);

		if (!message)
			return false;
		if (end_.number_in(message) != number)
			throw Failure("a message came with wrong contents");
		end_.post_receive();
		return true;
	}
	void await()
	{
		Patience patience;

		while (!take())
			patience.in_vain("a message");
	}
	/* Takes the sends that are done; the other one waits for all. */
	void collect()
	{
		while (end_.sends_under_way() && end_.take(false))
			;
	}
	void collect_all()
	{
		end_.collect_sends(0);
	}

private:
	static Shape shape()
	{
		Shape shape = numbers_shape(depth);

		shape.room = room;
		return shape;
	}

	End end_;
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

class Client;

/* A kind of burst, with its samples in microseconds. */
struct Setting {
	double (Client::*burst)(const Setting &setting);
	unsigned messages;
	double delay_us = 0;
	Form form = Form::plain;
	size_t bytes = small;
	unsigned repeats = 2;
	bool looks = true; /* whether the client looks for answers within the burst */
	Samples us = {};

	double whole() const
	{
		return median(us);
	}
	double each() const
	{
		return whole() / messages;
	}
};

class Client
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
	Client(const Client &) = delete;
	Client &operator=(const Client &) = delete;

	double clock() const
	{
		return clock_;
	}
	/* Repeats the burst for a turn and adds the samples. */
	void measure(Setting &setting);

	/* Each returns the time of one burst, or NAN if the burst does not fit its definition. */
	double short_burst(const Setting &setting);
	double burst(const Setting &setting);
	double takes(const Setting &setting);
	double round_trips(const Setting &setting);

private:
	void finish(unsigned unanswered);

	const Side &side_;
	std::unique_ptr<Link> link_;
	const double clock_ = clock_us();
};

/* The next turn's number of repeats is what this turn would have needed. */
void Client::measure(Setting &setting)
{
	side_.control.write({{"do", "answer"},
			     {"form", setting.form},
			     {"bytes", setting.bytes},
			     {"count", uint64_t{setting.messages} * setting.repeats}});
	side_.control.meet();
	const double start = now_us();

	side_.control.together([&] {
		for (unsigned i = 0; i < setting.repeats; ++i) {
			const double us = (this->*setting.burst)(setting);

			if (!std::isnan(us))
				setting.us.push_back(us);
		}
	});
	const double wanted = setting.repeats * turn_us / (now_us() - start);

	setting.repeats =
		static_cast<unsigned>(std::clamp(wanted, 1.0, double(most_repeats)));
	side_.control.meet();
}

/* Takes what is left over from a burst, outside of the measured time. */
void Client::finish(unsigned unanswered)
{
	while (unanswered--)
		link_->await();
	link_->collect_all();
}

double Client::short_burst(const Setting &setting)
{
	const double start = now_us();

	for (unsigned i = 0; i < setting.messages; ++i)
		link_->post(setting.form, setting.bytes);
	const double us = now_us() - start;

	finish(setting.messages);
	return us;
}

double Client::burst(const Setting &setting)
{
	unsigned unanswered = 0;
	double delayed = 0;
	const double start = now_us();

	for (unsigned i = 0; i < setting.messages; ++i) {
		if (unanswered == depth) {
			link_->await();
			--unanswered;
		}
		link_->post(setting.form, setting.bytes);
		++unanswered;
		if (setting.delay_us > 0)
			delayed += spin(setting.delay_us) + clock_;
		if (setting.looks && link_->take())
			--unanswered;
	}
	const double us = now_us() - start - clock_ - delayed;

	finish(unanswered);
	return us;
}

/* Returns NAN unless all answers have come. */
double Client::takes(const Setting &setting)
{
	unsigned taken = 0;

	for (unsigned i = 0; i < setting.messages; ++i)
		link_->post(setting.form, setting.bytes);
	spin(setting.delay_us);
	const double start = now_us();

	while (taken < setting.messages && link_->take())
		++taken;
	const double us = now_us() - start - clock_;

	finish(setting.messages - taken);
	return taken == setting.messages ? us : NAN;
}

double Client::round_trips(const Setting &setting)
{
	const double start = now_us();

	for (unsigned i = 0; i < setting.messages; ++i) {
		link_->post(setting.form, setting.bytes);
		link_->await();
	}
	const double us = now_us() - start - clock_;

	finish(0);
	return us;
}

/* All measurements, and their report. */
class Logps
{
public:
	Logps(Client &client, double round_trip_us);
	void measure();
	void report(Report &report) const;

private:
	void report_parameters(Report &report) const;

	Client &client_;
	Setting short_bursts_ = {&Client::short_burst, short_messages};
	Setting takes_, delayed_sends_;
	std::vector<Setting> bursts_, delays_, round_trips_;
};

Logps::Logps(Client &client, double round_trip_us)
    : client_(client), takes_{&Client::takes, short_messages},
      delayed_sends_{&Client::burst, delayed_messages}
{
	takes_.delay_us = 2 * short_messages * round_trip_us;
	for (unsigned messages : burst_sizes)
		bursts_.push_back({&Client::burst, messages});
	for (double delay : delays_in_round_trips)
		delays_.push_back({&Client::burst, delayed_messages, delay * round_trip_us});
	for (Form form : {Form::plain, Form::fenced})
		for (size_t bytes : form_sizes)
			round_trips_.push_back({&Client::round_trips, block, 0, form, bytes});
	delayed_sends_.delay_us = delays_.back().delay_us;
	delayed_sends_.looks = false;
	round_trips_.push_back({&Client::round_trips, block, 0, Form::immediate, small});
}

/*
 * Measures all kinds in turn, so that a disturbance affects all of them. The first round does not
 * count.
 */
void Logps::measure()
{
	std::vector<Setting *> all = {&short_bursts_, &takes_, &delayed_sends_};
	const double start = now_us();

	for (auto *settings : {&bursts_, &delays_, &round_trips_})
		for (Setting &setting : *settings)
			all.push_back(&setting);
	for (unsigned round = 0; round <= rounds; ++round) {
		progress("round " + std::to_string(round) + " of " + std::to_string(rounds));
		if (round > least_rounds && now_us() - start > limit_us)
			break;
		for (Setting *setting : all) {
			if (round == 1)
				setting->us.clear();
			client_.measure(*setting);
		}
	}
}

/* Adds table 2. */
void Logps::report_parameters(Report &report) const
{
	const Setting &burst = bursts_[bursts_.size() - 2], &longer = bursts_.back();
	const double half_round_trip = round_trips_[0].each() / 2;
	const double send_overhead = (short_bursts_.whole() - client_.clock()) / short_messages;
	const double receive_overhead = delays_.back().each() - delayed_sends_.each();
	const double gap = (longer.whole() - burst.whole()) / (longer.messages - burst.messages);
	const std::pair<const char *, Json> parameters[] = {
		{"L", half_round_trip - send_overhead - receive_overhead},
		{"o_s", send_overhead},
		{"o_r", receive_overhead},
		{"g", gap},
		{"RTT / 2", half_round_trip},
		{"o_s, delayed", delayed_sends_.each()},
		{"o_r in a row", takes_.us.empty() ? Json() : Json(takes_.each())}};

	for (const auto &[what, us] : parameters)
		report.add("LogP", {{"what", what}, {"us", us}});
}

/* Adds table 3, and the curves from which table 2 is derived. */
void Logps::report(Report &report) const
{
	report_parameters(report);
	for (const Setting &setting : bursts_)
		report.add("bursts", {{"messages", setting.messages},
				      {"delay_us", 0.0},
				      {"us", setting.each()}});
	for (const Setting &setting : delays_)
		report.add("bursts with delays", {{"messages", setting.messages},
						  {"delay_us", setting.delay_us},
						  {"us", setting.each()}});
	for (const Setting &setting : round_trips_)
		report.add(std::string("RTT / 2, ") + Json(setting.form).get<std::string>(),
			   {{"bytes", setting.bytes}, {"us", setting.each() / 2}});
}

Report measure(const Side &side)
{
	constexpr unsigned tries = 5;
	Setting round_trips = {&Client::round_trips, block};
	Report report("logp", {{"what", "what", ""},
			       {"bytes", "message size", "B"},
			       {"messages", "in a burst", ""},
			       {"delay_us", "delay", "us"},
			       {"us", "each message", "us"}});
	Client client(side);

	for (unsigned i = 0; i < tries; ++i)
		client.measure(round_trips);
	Logps logps(client, minimum(round_trips.us) / block);

	logps.measure();
	logps.report(report);
	return report;
}
} // namespace

/* Takes each message, posts its receive again, and then answers, as the client does. */
void serve_logp(const Side &side, const Json &)
{
	Link link(side);

	for (Json order; order = side.control.read(), order.at("do") != "end";) {
		const Form form = order.at("form").get<Form>();
		const uint64_t bytes = order.at("bytes").get<uint64_t>();
		const uint64_t count = order.at("count").get<uint64_t>();

		if (bytes > room)
			throw Failure("the client asks for what it cannot have");
		side.control.meet();
		for (uint64_t i = 0; i < count; ++i) {
			link.await();
			link.post(form, bytes);
			link.collect();
		}
		link.collect_all();
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
