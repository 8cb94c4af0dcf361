/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What serves where the host's kilnd does not: a private kilnd of this user (private_kilnd.c), or,
 * in a program that is built with the engine inside (KILN_EMBED_BUILD), that engine
 * (built_in.c).  A program has one of the two.
 *
 * Threading  any thread
 */
#include "common/transport.h"

struct substitute {
    const char *word; /* that names it in KILN_FALLBACK */
    int level;        /* KILN_LEVEL_* */
    bool is_first;    /* no kilnd is asked for, unless KILN_FALLBACK is off */
    /* KILN_TIMED_OUT: not by |deadline_ns|. */
    enum kiln_code (*connect)(uint64_t deadline_ns, struct transport **ret_transport,
                              struct kiln_err *err);
    /* How the handshake on its last connection went. */
    void (*greeted)(enum kiln_code rc);
    /* What serves, and where that keeps what it makes: a clause. */
    void (*describe)(char *text, size_t size);
};

extern const struct substitute substitute;
