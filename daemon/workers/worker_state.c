/* SPDX-License-Identifier: MIT */
#include "daemon/workers/worker_state.h"

#define TO(state) (1u << WORKER_##state)

static const unsigned allowed[] = {
    [WORKER_STARTING] = TO(IDLE) | TO(KILLED) | TO(GONE),
    [WORKER_IDLE] = TO(BUSY) | TO(KILLED) | TO(GONE),
    [WORKER_BUSY] = TO(IDLE) | TO(LEAVING) | TO(KILLED) | TO(GONE),
    [WORKER_LEAVING] = TO(KILLED) | TO(GONE),
    [WORKER_KILLED] = TO(GONE),
    [WORKER_GONE] = 0,
};

bool worker_may_move(enum worker_state from, enum worker_state to)
{
    return allowed[from] & (1u << to);
}
