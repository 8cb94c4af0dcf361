/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The server that a client uses in place of the host's kilnd.  In a program with the engine linked
 * in (KILN_EMBED_BUILD), this server is the engine (built_in.c).  In other programs, this server is
 * a private kilnd of this user (private_kilnd.c).
 *
 * Ownership  the caller owns the transport
 * Threading  any thread
 */
#include "common/protocol/transport.h"

#define SUBSTITUTE_PLACE_MAX 450

struct substitute_use {
    unsigned failures; /* number of successive connections that ended without an answer to hello */
    /* for messages: what serves, and where it stores its files */
    char place[SUBSTITUTE_PLACE_MAX];
};

struct substitute {
    const char *mode;
    int level; /* KILN_LEVEL_* */
    /* If true, clients use the substitute without looking for a kilnd first, unless KILN_FALLBACK
     * is off. */
    bool is_first;
    /* Sets |use->place|.  Returns KILN_TIMED_OUT if the substitute was not ready by
     * |deadline_ns|. */
    enum kiln_code (*connect)(struct substitute_use *use, uint64_t deadline_ns,
                              struct transport **ret_transport, struct kiln_err *err);
};

extern const struct substitute substitute;
