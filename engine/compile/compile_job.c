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

void compile_result_done(struct compile_result *result)
{
    if (result->object_fd >= 0)
        close(result->object_fd);
    free(result->log);
    *result = COMPILE_RESULT_INIT;
}

enum compile_end compile_no_memory(struct kiln_err *err)
{
    kiln_fail(err, KILN_NO_MEMORY, "the compiler process is out of memory");
    return COMPILE_MEMORY;
}
