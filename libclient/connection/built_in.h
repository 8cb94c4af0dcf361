/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The engine that is linked into the same program as libkiln (KILN_EMBED_BUILD).
 *
 * Role       connects to it (common/embed.h).  built_in.c is linked where there is one,
 *            built_in_none.c everywhere else
 * Threading  any thread
 */
#include "common/transport.h"

/* Whether there is one: then no kilnd is asked for at all, unless KILN_FALLBACK is off. */
bool built_in_is_here(void);
/* KILN_INVALID where a variable has a value that it may not have; else as kiln_embed_connect. */
KILN_MUST_CHECK enum kiln_code built_in_connect(struct transport **ret_transport,
                                                struct kiln_err *err);
