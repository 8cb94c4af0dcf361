/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Transfers: one kiln-transfer process for each.
 *
 * Role       starts them at once: they share the processors and the network as the system's other
 *            processes do, and the engine limits their number (engine/jobs/transfer_limits.h).  A
 *            user with TRANSFERS_STUCK_MAX_UID processes that SIGKILL does not end starts no new
 *            transfer until one of them ends
 * Ownership  owns the processes; borrows tasks until their done callback
 * Threading  the loop's thread; done callbacks never run from within a call
 */
#include "daemon/workers/transfer_process.h"

struct transfers;

struct transfers_options {
    struct loop *loop;               /* borrowed */
    struct work_queues *work_queues; /* borrowed */
    const char *program;             /* path of kiln-transfer; copied */
    const char *service;     /* of the unit that starts it; NULL, "": there is none; copied */
    struct worker_user user; /* the user that the processes run as */
    uint64_t timeout_ms;     /* wall clock of one transfer */
    uint64_t silence_ms;     /* without progress from its process */
    uint64_t exit_ms;        /* as in transfer_process_options */
};

KILN_MUST_CHECK enum kiln_code transfers_create(const struct transfers_options *options,
                                                struct transfers **ret_transfers,
                                                struct kiln_err *err);
void transfers_start(struct transfers *transfers, struct transfer_task *task);
/* Ends the task with KILN_CANCELLED unless it already ended.  Ignores an unknown task. */
void transfers_cancel(struct transfers *transfers, struct transfer_task *task);
/* Counts the tasks that were handed in and have not ended. */
unsigned transfers_out(const struct transfers *transfers);
/* Ends running transfers.  They and later ones end as KILN_UNAVAILABLE. */
void transfers_stop(struct transfers *transfers);
/* Stops all transfers.  |closed| is called, never from within, once all is freed except for
 * processes that cannot be killed.  No more tasks may be handed in. */
void transfers_close(struct transfers *transfers, void (*closed)(void *context), void *context);
