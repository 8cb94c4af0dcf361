/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The internals of the socket transport, shared by transport_socket.c, which reads, and
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
    int fd;                  /* owned */
    int wake_fd;             /* owned eventfd: signals a thread in poll that output waits */
    ino_t inode, wake_inode; /* of |fd| and |wake_fd|.  If one has changed, the program closed the
                                descriptor, and its number belongs to another file */

    /* Only for the reader: */
    uint8_t *input; /* owned */
    size_t capacity, begin, end;
    size_t consumed;                              /* size of the frame that was returned last */
    int descriptors[2 * LIMIT_FRAME_DESCRIPTORS]; /* owned, in the order they came */
    size_t descriptor_count,
        descriptors_out; /* |descriptors_out|: those of the frame that was returned last */

    pthread_mutex_t mutex; /* protects what follows */
    struct buffer output;  /* what the socket has not accepted yet */
    size_t output_sent;
    atomic_bool is_sending;
};

static inline struct transport_socket *socket_of(struct transport *base)
{
    return (struct transport_socket *)base;
}

/* ---- transport_socket_send.c ---- */

enum kiln_code socket_send(struct transport *base, struct bytes frame, struct kiln_err *err);
enum kiln_code socket_send_files(struct transport *base, struct bytes frame, const int *files,
                                 size_t count, struct kiln_err *err);
bool socket_is_sending(struct transport *base);
/* Sends waiting output, as far as the socket accepts it. */
KILN_MUST_CHECK enum kiln_code socket_send_rest(struct transport_socket *s, struct kiln_err *err);
