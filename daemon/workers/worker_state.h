/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The life of a kiln-compiler process, as a table.
 *
 *   STARTING --ready--> IDLE --job--> BUSY --result--> IDLE
 *                                     BUSY --last result--> LEAVING    its share of jobs is done
 *                                     BUSY --result--> KILLED          of a client's job
 *   STARTING | IDLE | BUSY | LEAVING --kill--> KILLED    time-out, invalid message, or the pool
 * stops; IDLE: its loaded libraries are useless any --exit--> GONE
 */
#include <stdbool.h>

enum worker_state {
    WORKER_STARTING,
    WORKER_IDLE,
    WORKER_BUSY,
    WORKER_LEAVING,
    WORKER_KILLED,
    WORKER_GONE,
};

bool worker_may_move(enum worker_state from, enum worker_state to);
