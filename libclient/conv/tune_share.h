/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Tunes one solver together with other processes of the user on identical devices: each process
 * searches the shares of the candidates that kilnd leases to it.
 *
 * Threading  the thread that uses |tuner|; blocks
 */
#include "libclient/conv/tuner.h"

/* Runs until every share was searched or the time is up.  Then tries the best that others found,
 * and the neighbours of the best. */
KILN_MUST_CHECK enum kiln_code tuner_search_shared(struct tuner *tuner, struct kiln_err *err);
