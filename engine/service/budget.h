/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Bytes that waiting requests hold: sources of queued compiles, requests parked for a toolchain.
 *
 * Role       one user cannot fill the daemon's memory with work that waits, and all together not
 *            either
 * Ownership  a charge is given back by whoever frees the bytes
 * Threading  the engine's thread
 */
#include "common/cleanup.h"
#include "common/err.h"

#include <stdint.h>
#include <sys/types.h>

struct budget;

KILN_MUST_CHECK enum kiln_code budget_create(uint64_t limit, uint64_t limit_uid,
                                             struct budget **ret_budget, struct kiln_err *err);
void budget_destroy(struct budget *budget);
KILN_DEFINE_AUTO(budget)

/* What is taken beyond them stays until it is given back. */
void budget_set_limits(struct budget *budget, uint64_t limit, uint64_t limit_uid);
/* KILN_BUSY, naming whose limit, when |bytes| more are too many; nothing is charged then. */
KILN_MUST_CHECK enum kiln_code budget_take(struct budget *budget, uid_t uid, uint64_t bytes,
                                           struct kiln_err *err);
void budget_give(struct budget *budget, uid_t uid, uint64_t bytes);
uint64_t budget_taken(const struct budget *budget);
