/* SPDX-License-Identifier: MIT */
#pragma once

/* Tuning one solver together with other processes of the user on identical devices: each searches
 * the shares of the candidates that kilnd leases to it. */
#include "libclient/conv/tuner.h"

/* Until every share was searched or the time is up; then what others found is tried, too, and the
 * best's neighbourhood. */
KILN_MUST_CHECK enum kiln_code tuner_search_shared(struct tuner *tuner, struct kiln_err *err);
