/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A look whether a kilnd is back and would serve us: a connection of its own that says hello.
 *
 * Role       one that takes connections but refuses ours, or that is stopped, is not back
 * Ownership  zero it; look_end
 * Threading  one at a time; waits for some milliseconds at most, and only for one that has taken
 *            the connection just now
 */
#include "common/transport.h"

struct look {
    struct transport *transport; /* owned: it has not answered yet; NULL: none is asked */
    uint64_t begun_ns;           /* the last time that one was asked */
};

/* True once one at |path| has welcomed us.  Asks one every few seconds at most. */
bool look_again(struct look *look, const char *path, const char *software);
/* The next one is some seconds away. */
void look_later(struct look *look);
void look_end(struct look *look);
