/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Checks measured times, because a client can claim any time. Rejects times that no GPU can reach.
 *
 * Role       the only place that checks times, for measurements (put, lease) and imported records
 * Threading  pure functions
 *
 * A time within the limits can still be false. Therefore `kilnctl db promote` also needs a
 * measurement of a second user.
 */
#include "common/protocol/problem.h"
#include "engine/tuning/tuning_db.h"

/* Returns the shortest time that a valid problem can take on any GPU. It is the longer of two
 * times: to access each tensor in memory once, and to compute all products whose inputs are outside
 * the padding. */
double claim_floor_ms(const struct problem *problem);
/* Returns KILN_INVALID if the median is less than claim_floor_ms, if taking the samples would have
 * taken more than an hour, or if several samples have a spread of 0. |problem| is NULL if it is
 * unknown. */
KILN_MUST_CHECK enum kiln_code claim_check(const struct problem *problem,
                                           const struct tuning_measurement *measured,
                                           struct kiln_err *err);
/* Returns KILN_INVALID if |ms| is less than |floor_ms|, which is claim_floor_ms of the problem, or
 * 0 if the problem is unknown. Accepts 0 as |ms|, because AMD's files contain 0 for kernels that
 * were too fast for the clock. */
KILN_MUST_CHECK enum kiln_code claim_check_time(double floor_ms, double ms, struct kiln_err *err);
/* Parses a record's key. Returns false if kiln cannot describe the key's problem. */
bool claim_problem(enum tuning_kind kind, struct bytes key, struct problem *ret_problem);
