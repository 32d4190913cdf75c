// SPDX-License-Identifier: BSD-2-Clause
/*
 * A transport without a protocol: it shows what the hardware and the kernel can do between two
 * processes of one host.
 *
 * A message of up to 8 bytes is a word in shared memory. A longer message, and every message of a
 * stream, is a process_vm_writev() into the other side's buffer, and a word in shared memory counts
 * the messages. A stream has as many messages under way as a VI has. This transport always polls.
 */
#include "transport.h"

#include <algorithm>
#include <atomic>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

namespace
{
/*
 * One side writes it and the other side reads it. Some prefetchers fetch two cache lines of 64
 * bytes at a time.
 */
struct alignas(128) Word {
	std::atomic<uint64_t> value;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free, "two processes have no common lock");

/*
 * For each side, the server's second: the number of messages that it has sent, and that it has
 * taken.
 */
struct Words {
	Word sent[2], taken[2];
};

constexpr uint64_t looks_of_poll = 64; /* these take as long as one poll of another transport */

class BareLink : public Transport, Single
{
public:
	BareLink(const Side &side, const Shape &shape)
	    : shape_(shape), own_(side.is_server), other_(!side.is_server),
	      outgoing_(pages_of(shape.buffers * buffer_bytes(shape))),
	      incoming_(pages_of(shape.buffers * buffer_bytes(shape)))
	{
		share(side);
	}
	~BareLink() override
	{
		munmap(words_, sizeof(Words));
	}

	void ping(size_t bytes, uint64_t count) override
	{
		for (uint64_t i = 0; i < count; ++i) {
			send(bytes);
			receive(bytes);
		}
	}
	void echo(size_t bytes, uint64_t count) override
	{
		for (uint64_t i = 0; i < count; ++i) {
			receive(bytes);
			send(bytes);
		}
	}
	void stream(size_t bytes, uint64_t count) override
	{
		const Word &taken = words_->taken[other_];

		for (uint64_t i = 0; i < count; ++i) {
			if (i >= shape_.depth)
				await(taken, sent_ + 1 - shape_.depth, "that a message is taken");
			copy(bytes);
			publish();
		}
		await(taken, sent_, "that a message is taken");
	}
	void sink(size_t, uint64_t count) override
	{
		for (uint64_t i = 0; i < count; ++i) {
			await(words_->sent[other_], ++received_, "a message");
			words_->taken[own_].value.store(received_, std::memory_order_release);
		}
	}

private:
	/* The server makes a file for the words. The client opens it through the server's /proc/PID/fd. */
	void share(const Side &side)
	{
		Control &control = side.control;
		Socket file(own_ ? memfd_create("vip_perf", MFD_CLOEXEC) : -1);

		if (own_ && (file.fd() < 0 || ftruncate(file.fd(), sizeof(Words))))
			fail_errno("make shared memory");
		control.write({{"process", getpid()},
			       {"file", std::max(file.fd(), 0)},
			       {"target", reinterpret_cast<uintptr_t>(incoming_.get())}});
		const Json theirs = control.read();
		const std::string process = theirs.at("process").dump();

		target_ = theirs.at("target").get<uint64_t>();
		other_process_ = theirs.at("process").get<pid_t>();
		prctl(PR_SET_PTRACER,
		      other_process_); /* needed where only a parent may write into another process */
		if (!own_)
			file = Socket(open(("/proc/" + process + "/fd/" + theirs.at("file").dump()).c_str(),
					   O_RDWR | O_CLOEXEC));
		void *words =
			mmap(nullptr, sizeof(Words), PROT_READ | PROT_WRITE, MAP_SHARED, file.fd(), 0);

		if (words == MAP_FAILED)
			fail_errno("share memory with the other side");
		words_ = static_cast<Words *>(words);
		control.meet(); /* the client has opened the file */
	}
	/* Waits until the word is at least `least`, and returns it. */
	static uint64_t await(const Word &word, uint64_t least, const char *what)
	{
		Patience patience;
		uint64_t is;

		for (uint64_t looks = 1; is = word.value.load(std::memory_order_acquire), is < least; ++looks)
			if (looks % looks_of_poll == 0)
				patience.in_vain(what);
		return is;
	}
	uint8_t *buffer_of(const Pages &buffers, uint64_t message) const
	{
		return buffers.get() + message % shape_.buffers * buffer_bytes(shape_);
	}
	void copy(size_t bytes)
	{
		uint8_t *const buffer = buffer_of(outgoing_, sent_);
		const iovec from = {buffer, bytes};
		const iovec to = {reinterpret_cast<void *>(
					  static_cast<uintptr_t>(target_ + uint64_t(buffer - outgoing_.get()))),
				  bytes};
		const ssize_t copied = process_vm_writev(other_process_, &from, 1, &to, 1, 0);

		if (copied < 0)
			fail_errno("write into the other side's memory");
		if (static_cast<size_t>(copied) != bytes)
			throw Failure("only a part of a message could be copied");
	}
	void publish()
	{
		words_->sent[own_].value.store(++sent_, std::memory_order_release);
	}
	/* A message that is a word holds its number. */
	void send(size_t bytes)
	{
		if (bytes > sizeof(uint64_t)) {
			stamp(buffer_of(outgoing_, sent_), bytes, sent_);
			copy(bytes);
		}
		publish();
	}
	void receive(size_t bytes)
	{
		const uint64_t number = received_++;

		if (await(words_->sent[other_], received_, "a message") != received_)
			throw Failure("a message came with wrong contents");
		if (bytes > sizeof(uint64_t))
			check_stamp(buffer_of(incoming_, number), bytes, number);
	}

	const Shape shape_;
	const unsigned own_, other_; /* sides */
	const Pages outgoing_, incoming_;
	uint64_t target_ = 0; /* the other side's incoming buffers */
	pid_t other_process_ = 0;
	Words *words_ = nullptr;
	uint64_t sent_ = 0, received_ = 0;
};

} // namespace

std::unique_ptr<Transport> make_bare_link(const Side &side, const Shape &shape)
{
	return std::make_unique<BareLink>(side, shape);
}
