/* SPDX-License-Identifier: MIT */
#include "engine/compile/compile_job.h"

static const char *const end_names[] = {
    [COMPILE_DONE] = "done",
    [COMPILE_REFUSED] = "refused",
    [COMPILE_CRASHED] = "crashed",
    [COMPILE_TIMED_OUT] = "timed-out",
    [COMPILE_MEMORY] = "memory",
    [COMPILE_OUTPUT] = "output",
    [COMPILE_UNAVAILABLE] = "unavailable",
    [COMPILE_OUTDATED] = "outdated",
};

const char *compile_end_name(enum compile_end end)
{
    return (size_t)end < sizeof(end_names) / sizeof(end_names[0]) ? end_names[end] : "?";
}

void compile_outcome_done(struct compile_outcome *outcome)
{
    if (outcome->object_fd >= 0)
        close(outcome->object_fd);
    free(outcome->log);
    *outcome = COMPILE_OUTCOME_INIT;
}
