/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Measurements are claims of clients: rejects those that no GPU can have made.
 *
 * Role       the only place that judges times, for measurements (put, lease) and imported records
 * Threading  pure functions
 *
 * The checks are far from any real measurement, so they never reject one.  They do not make a claim
 * true: db promote asks for a second user's measurement for that.
 */
#include "common/protocol/problem.h"
#include "engine/tuning/tuning_db.h"

/* The least time that |problem|, which must be valid, can take on any GPU: each tensor once through
 * its memory, or all products that do not fall into the padding. */
double claim_floor_ms(const struct problem *problem);
/* KILN_INVALID if the median is less than that, or if there are more samples than anybody waits
 * for, or several without a spread.  |problem| NULL: not known. */
KILN_MUST_CHECK enum kiln_code claim_check(const struct problem *problem,
                                           const struct tuning_measurement *measured,
                                           struct kiln_err *err);
/* The same for the time of an entry in a FindDb.  0 is accepted, because AMD's files have it for
 * kernels that were too fast for the clock. */
KILN_MUST_CHECK enum kiln_code claim_check_time(const struct problem *problem, double ms,
                                                struct kiln_err *err);
/* The problem of a record's key, in databases of this kind; false if kiln cannot describe it. */
bool claim_problem(enum tuning_kind kind, struct bytes key, struct problem *ret_problem);
