/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Ways to get an object's bytes: bare sockets, MIOpen's, Redis', kiln's.
 *
 * Role       what bench_fetch compares; every one looks at each page of what it got
 * Ownership  a subject belongs to the client process that opened it
 * Threading  one process, one thread
 */
#include "tests/bench/bench.h"
#include "tests/bench/content.h"

struct subject_place { /* where the servers are; borrowed */
    const struct content *content;
    const char *floor_socket; /* answered by a thread a client (floor.h) */
    const char *epoll_socket; /* answered by one event loop */
    const char *redis_socket;
    const char *kiln_socket;
    const char *miopen_file; /* SQLite in MIOpen's schema */
};

struct subject {
    const struct subject_ops *ops;
};

struct subject_ops {
    const char *name;
    size_t turn_max; /* fetches in one turn; 0: every object once.  For slow ways */
    enum kiln_code (*open)(const struct subject_place *place, struct subject **ret_subject,
                           struct kiln_err *err);
    /* Before a pass over distinct objects; not timed.  May be NULL. */
    enum kiln_code (*begin)(struct subject *subject, struct kiln_err *err);
    /* Timed: get object |index|, touch it, let go of it. */
    enum kiln_code (*fetch)(struct subject *subject, size_t index, struct kiln_err *err);
    /* After a pass; counts for its throughput.  May be NULL. */
    enum kiln_code (*end)(struct subject *subject, struct kiln_err *err);
    void (*close)(struct subject *subject);
};

/* Bare sockets: messages of kiln's sizes; nothing is looked up. */
extern const struct subject_ops subject_round_trip; /* no object comes back */
extern const struct subject_ops subject_inline;     /* the object's bytes in the message */
extern const struct subject_ops subject_descriptor; /* a memfd: mapped, touched, unmapped */
extern const struct subject_ops
    subject_descriptor_kept; /* unmapped after the pass, as kiln's are */
extern const struct subject_ops subject_descriptor_epoll; /* as descriptor, from one event loop */

/* MIOpen's hit: select by name and arguments, bunzip2, md5. */
extern const struct subject_ops subject_miopen_kept;  /* the database kept open */
extern const struct subject_ops subject_miopen_fresh; /* opened for every look-up */
/* Writes the database; |ret_ratio| is raw size by stored size. */
KILN_MUST_CHECK enum kiln_code miopen_fill(const struct content *content, const char *path,
                                           double *ret_ratio, struct kiln_err *err);

extern const struct subject_ops subject_redis; /* GET */
KILN_MUST_CHECK enum kiln_code redis_fill(const struct content *content, const char *socket,
                                          struct kiln_err *err);

extern const struct subject_ops subject_kiln;       /* kiln_kernel_fetch, never from the table */
extern const struct subject_ops subject_kiln_wire;  /* the same messages, without libkiln */
extern const struct subject_ops subject_kiln_table; /* kiln_kernel_fetch, always from the table */
