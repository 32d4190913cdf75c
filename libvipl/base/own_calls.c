/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls whose names are ordinary words. A program may have a function called bind or poll, which replaces the C
 * library's in the whole process. The linker leads this library's calls here (--wrap), so such a program can use via_lo. With
 * an RDMA NIC it cannot: libibverbs and librdmacm call the C library by these names. It may have functions of other names.
 *
 * None of these is a cancellation point. So here are those of the data path, too, which are called under locks.
 */
#include <poll.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define OWN(result, name, parameters, ...)                  \
	result __wrap_##name parameters;                    \
	result __wrap_##name parameters                     \
	{                                                   \
		return (result)syscall(SYS_##__VA_ARGS__);  \
	}
OWN(int, bind, (int fd, const struct sockaddr *address, socklen_t length), bind, fd, address,
    length)
OWN(int, close, (int fd), close, fd)
OWN(int, connect, (int fd, const struct sockaddr *address, socklen_t length), connect, fd, address,
    length)
OWN(int, listen, (int fd, int backlog), listen, fd, backlog)
OWN(ssize_t, read, (int fd, void *buffer, size_t bytes), read, fd, buffer, bytes)
OWN(int, flock, (int fd, int operation), flock, fd, operation)
OWN(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), recvmsg, fd, message, flags)
OWN(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), sendmsg, fd, message,
    flags)
/* The names of these two where times have 64 bits in a library of 32. */
OWN(ssize_t, __recvmsg64, (int fd, struct msghdr *message, int flags), recvmsg, fd, message, flags)
OWN(ssize_t, __sendmsg64, (int fd, const struct msghdr *message, int flags), sendmsg, fd, message, flags)
OWN(ssize_t, sendto,
    (int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to, socklen_t size),
    sendto, fd, bytes, length, flags, to, size)
OWN(int, shutdown, (int fd, int how), shutdown, fd, how)
OWN(int, socket, (int domain, int type, int protocol), socket, domain, type, protocol)
OWN(ssize_t, write, (int fd, const void *bytes, size_t length), write, fd, bytes, length)

/* With 32 bits an offset is in two registers, which differ from processor to processor but for these calls. */
#define LOW(at)	 (unsigned long)(at)
#define HIGH(at) (unsigned long)((uint64_t)(at) >> 32)
OWN(ssize_t, preadv64, (int fd, const struct iovec *to, int count, off_t at), preadv, fd, to, (unsigned long)count, LOW(at), HIGH(at))
OWN(ssize_t, pwritev64, (int fd, const struct iovec *from, int count, off_t at), pwritev, fd, from, (unsigned long)count, LOW(at), HIGH(at))
#ifdef __LP64__
OWN(ssize_t, pread64, (int fd, void *to, size_t length, off_t at), pread64, fd, to, length, at)
OWN(ssize_t, pwrite64, (int fd, const void *from, size_t length, off_t at), pwrite64, fd, from, length, at)
#else
OWN(ssize_t, pread64, (int fd, void *to, size_t length, off_t at), preadv, fd, &(struct iovec){to, length}, 1UL, LOW(at), HIGH(at))
OWN(ssize_t, pwrite64, (int fd, const void *from, size_t length, off_t at), pwritev, fd,
    &(struct iovec){(void *)(uintptr_t)from, length}, 1UL, LOW(at), HIGH(at))
#endif
/* As the compiler calls it that checks the room. */
OWN(ssize_t, __pread64_chk, (int fd, void *to, size_t length, off_t at, size_t room), preadv, fd,
    &(struct iovec){to, length < room ? length : room}, 1UL, LOW(at), HIGH(at))

#ifdef SYS_poll
OWN(int, poll, (struct pollfd *fds, nfds_t count, int msec), poll, fds, count, msec)
#else /* all of these have 64 bits */
OWN(int, poll, (struct pollfd *fds, nfds_t count, int msec), ppoll, fds, count,
    msec < 0 ? NULL : (&(struct timespec){msec / 1000, msec % 1000 * 1000000L}), NULL, 0UL)
#endif
