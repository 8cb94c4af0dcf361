/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The server that a client uses in place of the host's kilnd.  It is a private kilnd of this user
 * (private_kilnd.c) or, in a program that is built with the engine inside (KILN_EMBED_BUILD), that
 * engine (built_in.c).  A program has one of the two.
 *
 * Ownership  the caller owns the transport
 * Threading  any thread
 */
#include "common/protocol/transport.h"

#define SUBSTITUTE_PLACE_MAX 450

struct substitute_use { /* by one client */
    unsigned failures;  /* connections in a row that ended without an answer to hello */
    char place[SUBSTITUTE_PLACE_MAX]; /* what serves, and where it stores its files, as a clause */
};

struct substitute {
    const char *mode; /* the value of KILN_FALLBACK that selects it */
    int level;        /* KILN_LEVEL_* */
    bool is_first;    /* use it without looking for a kilnd, unless KILN_FALLBACK is off */
    /* Sets |use->place|.  KILN_TIMED_OUT: not ready by |deadline_ns|. */
    enum kiln_code (*connect)(struct substitute_use *use, uint64_t deadline_ns,
                              struct transport **ret_transport, struct kiln_err *err);
};

extern const struct substitute substitute;
