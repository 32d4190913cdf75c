/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets that other processes can send descriptors to. Closing the last descriptor of a file can take as long as its maker
 * likes: a connection may linger, a program may be the file system. Not receiving them does not help, because unread ones are
 * closed with the socket. So closer.c closes such a socket.
 */
#ifndef VIPL_STRANGE_H
#define VIPL_STRANGE_H

#include <stdbool.h>
#include <sys/types.h>

/* From now on nobody can send descriptors to this socket, nor to those that it accepts, since Linux 6.16. */
void strange_refuse(int socket);
/* Takes the next message, or its first bytes. The caller has its descriptors, or it has none. Returns as recv() does. */
ssize_t strange_take(int socket, void *bytes, size_t length);
/* The user of the process on the other end, for closer.c. */
uid_t strange_user(int socket);
/* Closes a socket that others could send to. Does not wait, whatever they have sent. */
void strange_close(int socket);
/* Closes the sockets of those whom nobody has accepted yet, and then the listener. */
void strange_close_listener(int listener);

#endif
