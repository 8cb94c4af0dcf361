/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The process that reads the fleet's tree (kiln-transfer --fleet).
 *
 * Role       starts the process with the first request, and again after it has ended. Every request
 *            ends, even if the process crashes or hangs
 * Ownership  owns the process; borrows requests until their done callback
 * Threading  the loop's thread; no callback runs from within a call
 */
#include "daemon/workers/worker_process.h"
#include "daemon/workers/worker_user.h"
#include "engine/fleet/fleet_access.h"

struct fleet_process;

struct fleet_process_options {
    struct loop *loop;               /* borrowed */
    struct work_queues *work_queues; /* borrowed */
    const char *program;             /* kiln-transfer; copied */
    const char *service;             /* the unit that starts it; copied; "": none */
    const char *url;                 /* of the tree; copied */
    bool writes;                     /* files are added */
    struct worker_user user;
};

/* Returns KILN_INVALID if |url| cannot be that of a tree. kiln-transfer checks it completely. */
KILN_MUST_CHECK enum kiln_code fleet_process_create(const struct fleet_process_options *options,
                                                    struct fleet_process **ret_process,
                                                    struct kiln_err *err);
void fleet_process_access(struct fleet_process *process, struct fleet_access *get);
/* Number of requests that have not ended. */
unsigned fleet_process_out(const struct fleet_process *process);
/* Running and later requests end with FLEET_END_STOPPED. */
void fleet_process_stop(struct fleet_process *process);
/* Calls |closed| later, when everything is freed. The caller must not pass any more requests. */
void fleet_process_close(struct fleet_process *process, void (*closed)(void *context),
                         void *context);
