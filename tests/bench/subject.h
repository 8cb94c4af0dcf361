/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Ways to get an object's bytes: with bare sockets, with MIOpen, with Redis, and with kiln.
 * bench_fetch compares these ways; each touches every page of the object.
 *
 * Ownership  a subject belongs to the client process that opened it
 * Threading  one process, one thread
 */
#include "tests/bench/bench.h"
#include "tests/bench/content.h"

struct subject_place {
    const struct content *content;
    /* socket of the bare server with one thread for each client (floor.h) */
    const char *floor_socket;
    const char *epoll_socket; /* socket of the bare server with one event loop */
    const char *redis_socket;
    const char *kiln_socket;
    const char *miopen_file;
};

struct subject {
    const struct subject_ops *ops;
};

struct subject_ops {
    const char *name;
    /* number of fetches in one round, for slow ways; 0 means that each object is fetched once */
    size_t round_max;
    enum kiln_code (*open)(const struct subject_place *place, struct subject **ret_subject,
                           struct kiln_err *err);
    /* Prepares a round. Not timed. May be NULL. */
    enum kiln_code (*begin)(struct subject *subject, struct kiln_err *err);
    /* Timed: gets object |index|, touches it and releases it. */
    enum kiln_code (*fetch)(struct subject *subject, size_t index, struct kiln_err *err);
    /* Ends a round. Its time counts for the round's throughput. May be NULL. */
    enum kiln_code (*end)(struct subject *subject, struct kiln_err *err);
    void (*close)(struct subject *subject);
};

/* Bare sockets: the messages have the sizes of kiln's messages, and the server makes no look-up. */
extern const struct subject_ops subject_round_trip; /* the reply has no object */
extern const struct subject_ops subject_inline;     /* the reply contains the object's bytes */
extern const struct subject_ops
    subject_descriptor; /* the reply carries a memfd, which is mapped, touched and unmapped */
extern const struct subject_ops
    subject_descriptor_kept; /* the mapping is kept until the end of the round, as with kiln */
/* a server with one event loop */
extern const struct subject_ops subject_descriptor_epoll;

/* MIOpen's way to serve a hit in its cache: select by name and arguments, bunzip2, md5. */
extern const struct subject_ops subject_miopen_kept; /* with the database kept open */
/* with the database opened for every look-up */
extern const struct subject_ops subject_miopen_fresh;
/* |ret_ratio| is raw size divided by stored size. */
KILN_MUST_CHECK enum kiln_code miopen_fill(const struct content *content, const char *path,
                                           double *ret_ratio, struct kiln_err *err);

extern const struct subject_ops subject_redis;
KILN_MUST_CHECK enum kiln_code redis_fill(const struct content *content, const char *socket,
                                          struct kiln_err *err);

extern const struct subject_ops
    subject_kiln; /* with kiln_kernel_fetch, never from the in-process cache */
extern const struct subject_ops subject_kiln_wire; /* with kiln's messages, but without libkiln */
extern const struct subject_ops
    subject_kiln_table; /* with kiln_kernel_fetch, always from the in-process cache */
