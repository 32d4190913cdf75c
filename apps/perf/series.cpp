// SPDX-License-Identifier: BSD-2-Clause
#include "series.h"

#include <map>
#include <set>

#include <CLI/CLI.hpp>


namespace
{
/* The values of each option, in the order of its help. */
const std::vector<Waiting> waits = {Waiting::poll, Waiting::block, Waiting::spin};
const std::vector<Transfer> transfers = {Transfer::send, Transfer::write, Transfer::read};
const std::vector<Level> levels = {Level::unreliable, Level::delivery, Level::reception};
const std::vector<Kind> sockets = {Kind::tcp, Kind::unix_socket};
const char *const about_spin = " (polls for a while, then blocks)"; /* for the last value */

/* Returns "send, write", for example. */
template <typename Value>
std::string list_of(const std::vector<Value> &values, const char *between = ", ")
{
	std::string list;

	for (const Value value : values)
		list += (list.empty() ? "" : between) + Json(value).template get<std::string>();
	return list;
}

/* Makes an option take the words of these values. CLI11 applies the last transformation first. */
template <typename Value>
CLI::Option *take_words(CLI::Option *option, const std::vector<Value> &all)
{
	std::vector<std::string> words;
	std::map<std::string, Value> values;

	for (const Value value : all) {
		words.push_back(Json(value).template get<std::string>());
		values[words.back()] = value;
	}
	return option->transform(CLI::Transformer(values).description(""))
		->transform(CLI::IsMember(words, CLI::ignore_case).description(""));
}

template <typename Value>
CLI::Option *add_list(CLI::App *command, const std::string &name, std::vector<Value> &values,
		      const std::vector<Value> &all, const std::string &more = "")
{
	return take_words(command->add_option(name, values, list_of(all) + more), all)
		->delimiter(',')
		->allow_extra_args(false) /* the next word may be the host */
		->type_name("LIST")
		->default_str(list_of(values, ","));
}

/* Returns the reason why this shape cannot be measured here, or "". */
std::string obstacle(const Shape &shape, const Side &side)
{
	const VIP_NIC_ATTRIBUTES &nic = side.nic.attributes();

	if ((shape.kind == Kind::unix_socket || shape.kind == Kind::bare) &&
	    !side.control.is_one_host())
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
	add_list(command, "--transfer", choice.transfers, transfers);
	add_list(command, "--level", choice.levels, levels);
	add_list(command, "--wait", choice.waits, waits, about_spin);
	CLI::Option *some = add_list(command, "--sockets", choice.sockets, sockets);
	command->add_flag("--no-sockets", choice.no_sockets, "no sockets")->excludes(some);
	command->add_flag("--bare", choice.bare,
			  "also what the machine does between two processes with nothing around\n"
			  "it, polling: a word in shared memory (up to 8 bytes); longer messages,\n"
			  "and those of a stream, by process_vm_writev");
}

namespace
{
std::vector<Shape> all_shapes(const Choice &choice)
{
	std::vector<Shape> all;
	Shape shape;

	for (Transfer transfer : choice.transfers)
		for (Level level : choice.levels)
			for (Waiting waiting : choice.waits) {
				shape.transfer = transfer;
				shape.level = level;
				shape.waiting = waiting;
				all.push_back(shape);
			}
	shape = Shape();
	if (!choice.no_sockets)
		for (Kind kind : choice.sockets)
			for (Waiting waiting : choice.waits) {
				shape.kind = kind;
				shape.waiting = waiting;
				all.push_back(shape);
			}
	if (choice.bare) {
		shape.kind = Kind::bare;
		shape.waiting = Waiting::poll;
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
			continue; /* the shape was given twice */
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
	take_words(command->add_option("--wait", waiting, list_of(waits) + about_spin), waits)
		->type_name("HOW");
}
