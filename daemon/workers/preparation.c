/* SPDX-License-Identifier: MIT */
#include "daemon/workers/preparation.h"

#include <stdio.h>
#include <string.h>

static void copy(struct bytes text, char *room, size_t size)
{
    snprintf(room, size, "%.*s", (int)text.size, text.size ? (const char *)text.data : "");
}

void preparation_note(struct preparation_need *need, const struct compile_job *job,
                      unsigned under_way)
{
    copy(job->toolchain, need->toolchain, sizeof(need->toolchain));
    copy(job->target, need->target, sizeof(need->target));
    need->toolchain_id = job->toolchain_id;
    if (under_way > need->most)
        need->most = under_way;
}

void preparation_failed(struct preparation_need *need, const struct preparation *p)
{
    if (strcmp(need->toolchain, p->toolchain) == 0)
        need->toolchain[0] = '\0';
}

void preparation_make(const struct preparation_need *need, struct preparation *ret_preparation)
{
    struct preparation *p = ret_preparation;
    *p = (struct preparation){ .task.outcome = COMPILE_OUTCOME_INIT };
    memcpy(p->toolchain, need->toolchain, sizeof(p->toolchain));
    memcpy(p->target, need->target, sizeof(p->target));
    p->task.job = (struct compile_job){
        .kind = COMPILE_PROBE,
        .origin = COMPILE_OF_KILN,
        .toolchain = bytes_of_text(p->toolchain),
        .target = bytes_of_text(p->target),
        .toolchain_id = need->toolchain_id,
    };
}
