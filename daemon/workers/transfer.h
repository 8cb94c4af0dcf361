/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Transfers: a few kiln-transfer processes at a time, started fairly by user.
 *
 * Role       one process is left to the other users whatever one user asks for, so a user whose
 *            transfers last for hours costs others nothing; the rest waits in a fair queue.
 *            A process that cannot be ended no longer counts as running.  A user who has
 *            TRANSFERS_STUCK_MAX_UID of them gets no new ones until they end.
 *            The engine bounds how many wait: engine/jobs/transfer_limits.h
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
    struct worker_user user; /* whom its processes become */
    unsigned at_once;        /* at least 1 */
    unsigned for_admins;     /* of those; one user has one less of the rest, but at least 1 */
    uint64_t timeout_ms;     /* wall clock of one transfer */
    uint64_t silence_ms;     /* without progress from its process */
    uint64_t exit_ms;        /* as in transfer_process_options */
};

KILN_MUST_CHECK enum kiln_code transfers_create(const struct transfers_options *options,
                                                struct transfers **ret_transfers,
                                                struct kiln_err *err);
/* At most UPLOADS_MAX at a time. */
void transfers_start(struct transfers *transfers, struct transfer_task *task);
/* KILN_CANCELLED, unless it was over; one that is not here is left alone. */
void transfers_cancel(struct transfers *transfers, struct transfer_task *task);
/* Tasks that were handed in and have not ended. */
unsigned transfers_out(const struct transfers *transfers);
/* Ends what runs; that, what waits and what comes later ends as KILN_UNAVAILABLE. */
void transfers_stop(struct transfers *transfers);
/* Stops; |closed| is called, never from within, once all is gone and freed, but for processes that
 * cannot be ended.  No task may be handed
 * in any more. */
void transfers_close(struct transfers *transfers, void (*closed)(void *context), void *context);
