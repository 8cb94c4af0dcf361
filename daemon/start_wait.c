/* SPDX-License-Identifier: MIT */
#include "daemon/start_wait.h"

#include "common/log/log.h"

#include <poll.h>
#include <stddef.h>

#define TRIES 100u
#define PAUSE_MS 20

enum kiln_code start_wait(start_step *step, void *context, struct kiln_err *err)
{
    enum kiln_code rc = step(context, err);
    if (rc == KILN_BUSY)
        log_event(LOG_EVENT_start_waits, NULL, "waiting up to %u s for another process to end: %s",
                  TRIES * PAUSE_MS / 1000, err->text);
    for (unsigned i = 0; rc == KILN_BUSY && i < TRIES; i++) {
        (void)poll(NULL, 0, PAUSE_MS);
        *err = KILN_ERR_INIT;
        rc = step(context, err);
    }
    return rc;
}
