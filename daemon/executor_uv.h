/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The executor that runs the engine's work: work queues for blocking tasks, processes for
 * compilations and transfers, and threads that close clients' files.
 *
 * Ownership  borrows all parts; the caller embeds the struct
 * Threading  the loop's thread
 */
#include "daemon/loop/loop_queue.h"
#include "daemon/loop/work_queues.h"
#include "daemon/server/closer.h"
#include "daemon/workers/fleet_process.h"
#include "daemon/workers/pool.h"
#include "daemon/workers/transfer.h"
#include "engine/jobs/executor.h"

struct executor_uv_parts { /* all borrowed */
    struct loop *loop;
    struct work_queues *work_queues;
    struct pool *pool;
    struct transfers *transfers;
    struct fleet_process *fleet; /* NULL: none */
    struct closer *closer;
};

struct executor_uv {
    struct executor base;
    struct executor_uv_parts parts;
};

void executor_uv_init(struct executor_uv *executor, const struct executor_uv_parts *parts);
