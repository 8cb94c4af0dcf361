/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The budget of memory that waiting requests hold, including the sources and texts that they copy.
 * A request for a kernel in the hot set is answered at once, so it is not charged.
 *
 * Role       charges the bytes of a request to its user before kiln accepts the request. Each user
 *            has a fixed limit, and may hold at most half of the bytes that the other users leave
 *            free
 * Ownership  whoever frees the bytes also returns the charge (budget_return)
 * Threading  the engine's thread
 */
#include "common/base/cleanup.h"
#include "common/base/err.h"

#include <stdint.h>
#include <sys/types.h>

struct budget;

KILN_MUST_CHECK enum kiln_code budget_create(uint64_t limit, uint64_t limit_uid,
                                             struct budget **ret_budget, struct kiln_err *err);
void budget_destroy(struct budget *budget);
KILN_DEFINE_AUTO(budget)

/* Changes the limits. Charges that exceed the new limits remain until they are returned. */
void budget_set_limits(struct budget *budget, uint64_t limit, uint64_t limit_uid);
/* Returns KILN_BUSY, and charges nothing, if a limit would be exceeded. The message names this
 * limit. */
KILN_MUST_CHECK enum kiln_code budget_take(struct budget *budget, uid_t uid, uint64_t bytes,
                                           struct kiln_err *err);
void budget_return(struct budget *budget, uid_t uid, uint64_t bytes);
uint64_t budget_taken(const struct budget *budget);
/* Returns the maximum of budget_taken since the previous call. */
uint64_t budget_take_peak(struct budget *budget);
