/* SPDX-License-Identifier: MIT */
#pragma once

/* A subject is a way to get an object's bytes: with bare sockets, MIOpen, Redis or kiln.
 * bench_fetch compares these ways. A fetch includes touching every page of the object.
 *
 * Ownership  a subject belongs to the client process that opened it
 * Threading  one process, one thread */
#include "tests/bench/bench.h"
#include "tests/bench/content.h"

struct subject_place {
    const struct content *content;
    /* socket of the bare server (floor.h) with one thread for each client */
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
    /* fetches in one round, for slow ways; 0 means as many as there are objects */
    size_t round_max;
    enum kiln_code (*open)(const struct subject_place *place, struct subject **ret_subject,
                           struct kiln_err *err);
    /* Called before each round, and not timed. May be NULL. */
    enum kiln_code (*begin)(struct subject *subject, struct kiln_err *err);
    /* Timed. Gets object |index|, touches its pages and releases it. */
    enum kiln_code (*fetch)(struct subject *subject, size_t index, struct kiln_err *err);
    /* Called after each round. Counts for the round's throughput, but not for the times of single
     * fetches. May be NULL. */
    enum kiln_code (*end)(struct subject *subject, struct kiln_err *err);
    void (*close)(struct subject *subject);
};

/* Bare sockets: a server that sends messages of the same size as kiln's, without any look-up. */
extern const struct subject_ops subject_round_trip; /* the reply has no object */
extern const struct subject_ops subject_inline;     /* the reply contains the object's bytes */
extern const struct subject_ops
    subject_descriptor; /* the reply carries a memfd, which the client maps, touches and unmaps */
/* like subject_descriptor, but the client keeps the mapping until the round ends, as libkiln
 * does */
extern const struct subject_ops subject_descriptor_kept;
/* like subject_descriptor, but from the server with one event loop */
extern const struct subject_ops subject_descriptor_epoll;

/* Read a cache as MIOpen does: SELECT by name and arguments, decompress with bzip2, check the
 * MD5. */
extern const struct subject_ops subject_miopen_kept; /* keeps the database open */
/* opens the database for every fetch */
extern const struct subject_ops subject_miopen_fresh;
/* Creates MIOpen's database with all objects. |ret_ratio| is raw size divided by stored size. */
KILN_MUST_CHECK enum kiln_code miopen_fill(const struct content *content, const char *path,
                                           double *ret_ratio, struct kiln_err *err);

extern const struct subject_ops subject_redis;
KILN_MUST_CHECK enum kiln_code redis_fill(const struct content *content, const char *socket,
                                          struct kiln_err *err);

extern const struct subject_ops
    subject_kiln; /* kiln_kernel_fetch of objects that are not in the in-process cache */
extern const struct subject_ops subject_kiln_wire; /* kiln's messages without libkiln */
extern const struct subject_ops
    subject_kiln_table; /* kiln_kernel_fetch of objects that are in the in-process cache */
