/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Transfers: one kiln-transfer process for each.
 *
 * Role       starts each transfer immediately, except a user's file while another file of the same
 *            user is checked.  If SIGKILL does not end TRANSFERS_STUCK_MAX_UID processes of one
 *            user, this user's new transfers fail until one of them ends
 * Ownership  owns the processes; borrows tasks until their done callback
 * Threading  the loop's thread; done callbacks never run from within a call
 */
#include "daemon/workers/transfer_process.h"

struct transfers;

struct transfers_options {
    struct loop *loop;               /* borrowed */
    struct work_queues *work_queues; /* borrowed */
    const char *program;             /* copied */
    /* Path of the socket of the unit that starts the processes; copied; NULL or "": none. */
    const char *service;
    struct worker_user user;
    uint64_t timeout_ms; /* the maximum wall-clock time of one transfer */
    uint64_t silence_ms; /* see transfer_process_options */
    uint64_t exit_ms;    /* see transfer_process_options */
};

KILN_MUST_CHECK enum kiln_code transfers_create(const struct transfers_options *options,
                                                struct transfers **ret_transfers,
                                                struct kiln_err *err);
void transfers_start(struct transfers *transfers, struct transfer_task *task);
/* Makes the task end with KILN_CANCELLED, unless it has ended already.  Ignores an unknown task. */
void transfers_cancel(struct transfers *transfers, struct transfer_task *task);
unsigned transfers_out(const struct transfers *transfers);
/* Ends running and later transfers with KILN_UNAVAILABLE. */
void transfers_stop(struct transfers *transfers);
/* Calls |closed| later, never within this call, when everything is freed except processes that
 * cannot be killed.  The caller must not pass any more tasks. */
void transfers_close(struct transfers *transfers, void (*closed)(void *context), void *context);
