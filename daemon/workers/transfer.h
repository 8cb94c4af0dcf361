/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Transfers: a few kiln-transfer processes at a time, the others wait in order.
 *
 * Ownership  owns the processes; borrows tasks until their done callback
 * Threading  the loop's thread; done callbacks never run from within a call
 */
#include "daemon/workers/transfer_process.h"

struct transfers;

struct transfers_options {
    struct loop *loop;   /* borrowed */
    struct lanes *lanes; /* borrowed */
    const char *program; /* path of kiln-transfer; copied */
    unsigned at_once;    /* at least 1 */
    uint64_t timeout_ms; /* wall clock of one transfer */
};

KILN_MUST_CHECK enum kiln_code transfers_create(const struct transfers_options *options,
                                                struct transfers **ret_transfers,
                                                struct kiln_err *err);
void transfers_start(struct transfers *transfers, struct transfer_task *task);
/* KILN_CANCELLED, unless it was over; one that is not here is left alone. */
void transfers_cancel(struct transfers *transfers, struct transfer_task *task);
/* Tasks that were handed in and have not ended. */
unsigned transfers_out(const struct transfers *transfers);
/* Ends what runs; that, what waits and what comes later ends as KILN_UNAVAILABLE. */
void transfers_stop(struct transfers *transfers);
/* Stops; |closed| is called, never from within, once all is gone and freed.  No task may be handed
 * in any more. */
void transfers_close(struct transfers *transfers, void (*closed)(void *context), void *context);
