/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The internals of the socket transport, shared by transport_socket.c, which receives, and
 * transport_socket_send.c.
 *
 * Threading  as documented in common/protocol/transport.h
 */
#include "common/protocol/transport.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

struct transport_socket {
    struct transport base;
    int fd;
    /* an eventfd that wakes a thread in poll when output waits to be sent */
    int wake_fd;
    /* Inodes of |fd| and |wake_fd|.  If the inode of a descriptor has changed, the program closed
     * the descriptor, and the number now belongs to another file. */
    ino_t inode, wake_inode;

    /* Used only by the thread that reads: */
    uint8_t *input;
    size_t capacity, begin, end;
    size_t consumed; /* size of the frame that the last receive returned */
    int descriptors[2 * LIMIT_FRAME_DESCRIPTORS];
    size_t descriptor_count,
        /* number of descriptors in the frame that the last receive returned */
        descriptors_out;

    pthread_mutex_t mutex;
    struct buffer output; /* bytes that the socket has not accepted yet */
    size_t output_sent;
    atomic_bool is_sending;
};

static inline struct transport_socket *socket_of(struct transport *base)
{
    return (struct transport_socket *)base;
}

enum kiln_code socket_send(struct transport *base, struct bytes frame, struct kiln_err *err);
enum kiln_code socket_send_files(struct transport *base, struct bytes frame, const int *files,
                                 size_t count, struct kiln_err *err);
bool socket_is_sending(struct transport *base);
KILN_MUST_CHECK enum kiln_code socket_send_rest(struct transport_socket *s, struct kiln_err *err);
