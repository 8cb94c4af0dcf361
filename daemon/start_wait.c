/* SPDX-License-Identifier: MIT */
#include "daemon/start_wait.h"

#include "common/base/clock.h"
#include "common/log/log.h"

#include <poll.h>
#include <stddef.h>

#define WAIT_S 2u
#define PAUSE_MS 20

enum kiln_code start_wait(start_step *step, void *context, struct kiln_err *err)
{
    const uint64_t end_ns = clock_monotonic_ns() + WAIT_S * 1000000000u;
    enum kiln_code rc = step(context, err);
    if (rc == KILN_BUSY)
        log_event(LOG_EVENT_start_waits, NULL, "waiting up to %u s for another process to end: %s",
                  WAIT_S, err->text);
    while (rc == KILN_BUSY && clock_monotonic_ns() < end_ns) {
        (void)poll(NULL, 0, PAUSE_MS);
        *err = KILN_ERR_INIT;
        rc = step(context, err);
    }
    return rc;
}
