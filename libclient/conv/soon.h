/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Find with KILN_FIND_SOON: a plan at once, and a thread that looks for better plans.
 *
 * Role       Returns a plan without measuring.  A thread of the client then runs find and tune for
 *            the problem (docs/decisions/0024-a-plan-at-once.md), and publishes each better plan by
 *            a new generation
 * Ownership  a client owns its struct soon, from the first provisional plan until
 *            kiln_client_close.  Watched problems live as long as the struct soon
 * Threading  any thread may call these functions.  Plans and generations have a lock, which the
 *            thread never holds while it measures or waits for kilnd
 */
#include "libclient/conv/work.h"

struct soon;
struct soon_watch;

/* Fills work->result.  work_begin() must have filled |work|. */
KILN_MUST_CHECK enum kiln_code soon_find(struct work *work, struct kiln_err *err);
/* Stops the thread and waits for its end.  In a forked child, which does not have the thread,
 * |is_child| is true, and the function does nothing.  Accepts NULL. */
void soon_destroy(struct soon *soon, bool is_child);
