/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The process that reads and writes the fleet's tree (kiln-transfer --fleet).
 *
 * Role       starts the process for the first request, and again for the next request after it has
 *            ended. Every request ends, even if the process crashes or hangs
 * Ownership  owns the process; borrows requests until their done callback
 * Threading  the loop's thread; callbacks never run within a call of these functions
 */
#include "daemon/workers/worker_process.h"
#include "daemon/workers/worker_user.h"
#include "engine/fleet/fleet_access.h"

struct fleet_process;

struct fleet_process_options {
    struct loop *loop;               /* borrowed */
    struct work_queues *work_queues; /* borrowed */
    const char *program;             /* kiln-transfer; copied */
    /* socket of the systemd unit that starts the program; copied; "": none */
    const char *service;
    const char *url; /* URL of the tree; copied */
    bool writes;     /* kilnd may add files to the tree */
    struct worker_user user;
};

/* kiln-transfer checks the URL, except its beginning, which the setting's type ensures. */
KILN_MUST_CHECK enum kiln_code fleet_process_create(const struct fleet_process_options *options,
                                                    struct fleet_process **ret_process,
                                                    struct kiln_err *err);
void fleet_process_access(struct fleet_process *process, struct fleet_access *get);
/* Returns the number of requests that have not ended. */
unsigned fleet_process_out(const struct fleet_process *process);
/* Ends running and later requests with FLEET_END_STOPPED. */
void fleet_process_stop(struct fleet_process *process);
/* Calls |closed| later, when everything is freed. The caller must not pass any more requests. */
void fleet_process_close(struct fleet_process *process, void (*closed)(void *context),
                         void *context);
