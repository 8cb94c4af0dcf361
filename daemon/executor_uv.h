/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * kilnd's executor: lanes for blocking work, processes for compiles and transfers, threads that
 * close clients' files.
 *
 * Ownership  borrows all; embed it
 * Threading  the loop's thread
 */
#include "daemon/closer.h"
#include "daemon/loop/lanes.h"
#include "daemon/workers/pool.h"
#include "daemon/workers/transfer.h"
#include "engine/jobs/executor.h"

struct executor_uv {
    struct executor base;        /* first: hand out its address */
    struct lanes *lanes;         /* borrowed */
    struct pool *pool;           /* borrowed */
    struct transfers *transfers; /* borrowed */
    struct closer *closer;       /* borrowed */
};

void executor_uv_init(struct executor_uv *executor, struct lanes *lanes, struct pool *pool,
                      struct transfers *transfers, struct closer *closer);
