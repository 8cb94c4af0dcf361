/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The socket transport's inside, shared by transport_socket.c, which reads, and
 * transport_socket_send.c.
 *
 * Threading  as common/transport.h says
 */
#include "common/transport.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

struct transport_socket {
    struct transport base;
    int fd;                  /* owned */
    int wake_fd;             /* owned eventfd: output began to wait while a thread was in poll */
    ino_t inode, wake_inode; /* of the two: who closed them has other files of the same numbers */

    /* The reader's own. */
    uint8_t *input; /* owned */
    size_t capacity, begin, end;
    size_t consumed;                              /* size of the frame handed out last */
    int descriptors[2 * LIMIT_FRAME_DESCRIPTORS]; /* owned, in the order they came */
    size_t descriptor_count, descriptors_out;     /* _out: handed out with the last frame */

    pthread_mutex_t mutex; /* of what follows */
    struct buffer output;  /* what the socket had no room for */
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
/* What the socket had no room for, as far as it has now. */
KILN_MUST_CHECK enum kiln_code socket_send_rest(struct transport_socket *s, struct kiln_err *err);
