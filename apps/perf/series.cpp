#include "series.h"

#include <set>

#include <CLI/CLI.hpp>

#include "words.h"

namespace
{
const Words<Waiting> waiting_words = {
	{"poll", Waiting::poll}, {"block", Waiting::block}, {"spin", Waiting::spin}};
const Words<Transfer> transfer_words = {
	{"send", Transfer::send}, {"write", Transfer::write}, {"read", Transfer::read}};
const Words<Level> level_words = {{"unreliable", Level::unreliable},
				  {"delivery", Level::delivery},
				  {"reception", Level::reception}};
const Words<Kind> socket_words = {{"tcp", Kind::tcp}, {"unix", Kind::unix_socket}};

/* "send,write": the values' words. */
template <typename Value>
std::string list_of(const std::vector<Value> &values, const Words<Value> &words)
{
	std::string list;

	for (Value value : values)
		for (const auto &[word, meaning] : words)
			if (meaning == value)
				list += (list.empty() ? "" : ",") + word;
	return list;
}

template <typename Value>
CLI::Option *add_list(CLI::App *command, const std::string &name, std::vector<Value> &values,
		      const Words<Value> &words, const std::string &about)
{
	return command->add_option(name, values, about)
		->delimiter(',')
		->allow_extra_args(false) /* what follows may be the host */
		->transform(value_of(words))
		->type_name("LIST")
		->default_str(list_of(values, words));
}

/* Why it cannot be measured here, or nothing. */
std::string obstacle(const Shape &shape, const Side &side)
{
	const VIP_NIC_ATTRIBUTES &nic = side.nic.attributes();

	if (shape.kind == Kind::unix_socket && !side.control.is_one_host())
		return "the two sides are on two hosts";
	if (shape.kind != Kind::vipl)
		return "";
	if (!(nic.ReliabilityLevelSupport & level_of(shape)))
		return "the NIC does not offer this level";
	if (shape.transfer == Transfer::read && !(nic.RDMAReadSupport & level_of(shape)))
		return "the NIC has no RDMA read at this level";
	return "";
}
} // namespace

void add_choice_options(CLI::App *command, Choice &choice)
{
	add_list(command, "--transfer", choice.transfers, transfer_words, "send, write, read");
	add_list(command, "--level", choice.levels, level_words, "unreliable, delivery, reception");
	add_list(command, "--wait", choice.waits, waiting_words,
		 "poll, block, spin (polls for a while, then blocks)");
	command->add_option("--spin-us", choice.spin_us, "how long a while is, in microseconds")
		->capture_default_str();
	CLI::Option *sockets =
		add_list(command, "--sockets", choice.sockets, socket_words, "tcp, unix");
	command->add_flag("--no-sockets", choice.no_sockets, "VIPL alone")->excludes(sockets);
}

namespace
{
std::vector<Shape> all_shapes(const Choice &choice)
{
	std::vector<Shape> all;
	Shape shape;

	shape.spin_us = choice.spin_us;
	for (Transfer transfer : choice.transfers)
		for (Level level : choice.levels)
			for (Waiting waiting : choice.waits) {
				shape.transfer = transfer;
				shape.level = level;
				shape.waiting = waiting;
				all.push_back(shape);
			}
	shape = Shape();
	shape.spin_us = choice.spin_us;
	if (!choice.no_sockets)
		for (Kind kind : choice.sockets)
			for (Waiting waiting : choice.waits) {
				shape.kind = kind;
				shape.waiting = waiting;
				all.push_back(shape);
			}
	return all;
}
} // namespace

std::vector<Shape> shapes_of(const Choice &choice, const Side &side, Report &report)
{
	std::vector<Shape> possible;
	std::set<std::string> names;

	for (const Shape &wanted : all_shapes(choice)) {
		const std::string name = name_of(wanted), why = obstacle(wanted, side);

		if (!names.insert(name).second)
			continue; /* given twice */
		if (why.empty())
			possible.push_back(wanted);
		else
			report.remark("left out: " + name + ": " + why);
	}
	if (possible.empty())
		throw Failure("nothing of what is to be measured can be had here");
	return possible;
}

void add_waiting_option(CLI::App *command, Waiting &waiting)
{
	command->add_option("--wait", waiting,
			    "poll, block, or spin (polls for a while, then blocks)")
		->transform(value_of(waiting_words))
		->type_name("HOW");
}
