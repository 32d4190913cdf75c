/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets that other processes can send descriptors to. To close the last one of a file can take as long as its maker
 * likes: a connection that lingers, a file whose file system is a program. It does not help not to receive them: they are
 * closed with the socket that has them unread. But then it is closer.c that closes this socket.
 */
#ifndef VIPL_STRANGE_H
#define VIPL_STRANGE_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * From now on nobody can send descriptors to this socket, nor to those that it accepts. Linux has it since 6.16: false
 * where it has not.
 */
bool strange_refuse(int socket);
/* Takes the next message, or its first bytes. What came with it must be ours by now, or else nothing. Returns as recv(). */
ssize_t strange_take(int socket, void *bytes, size_t length);
enum strange { STRANGE_NOTHING, STRANGE_TAKEN, STRANGE_DESCRIPTORS };
/*
 * Takes the next message of a datagram socket, of which nothing matters, if there is one. One with descriptors stays: it
 * is closer_drain() that takes it.
 */
enum strange strange_discard(int socket);
/* The user of the process on the other end, for closer.c. */
uid_t strange_user(int socket);
/* Closes a socket that others could send to. Does not wait, whatever they have sent. */
void strange_close(int socket);
/* Closes the sockets of those whom nobody has accepted yet, and then the listener. */
void strange_close_listener(int listener);

#endif
