/* SPDX-License-Identifier: MIT */
#include "daemon/workers/warmup.h"

#include <stdio.h>
#include <string.h>

static void copy_text(struct bytes text, char *to, size_t size)
{
    snprintf(to, size, "%.*s", (int)text.size, text.size ? (const char *)text.data : "");
}

/* Begins a new window if the current one has passed.  If at least two windows have passed, no
 * source came in the last one. */
static void turn_window(struct warmup_need *need, uint64_t now_ns)
{
    uint64_t passed = now_ns - need->since_ns;
    if (passed < need->window_ns)
        return;
    need->concurrent_max_before = passed < 2 * need->window_ns ? need->concurrent_max : 0;
    need->concurrent_max = 0;
    need->since_ns = now_ns;
}

void warmup_note(struct warmup_need *need, const struct compile_job *job, unsigned under_way,
                 uint64_t now_ns)
{
    turn_window(need, now_ns);
    copy_text(job->toolchain, need->toolchain, sizeof(need->toolchain));
    copy_text(job->target, need->target, sizeof(need->target));
    need->toolchain_id = job->toolchain_id;
    if (under_way > need->concurrent_max)
        need->concurrent_max = under_way;
}

static bool failed_lately(const struct warmup_need *need, uint64_t now_ns)
{
    return need->failed_ns && now_ns - need->failed_ns < need->window_ns &&
           strcmp(need->failed, need->toolchain) == 0 &&
           digest_equal(&need->failed_id, &need->toolchain_id);
}

unsigned warmup_wanted(struct warmup_need *need, uint64_t now_ns)
{
    turn_window(need, now_ns);
    unsigned most = need->concurrent_max > need->concurrent_max_before
                        ? need->concurrent_max
                        : need->concurrent_max_before;
    if (!need->toolchain[0] || failed_lately(need, now_ns))
        return 0;
    return most ? most : 1;
}

void warmup_failed(struct warmup_need *need, const struct warmup *p, uint64_t now_ns)
{
    memcpy(need->failed, p->toolchain, sizeof(need->failed));
    need->failed_id = p->task.job.toolchain_id;
    need->failed_ns = now_ns;
}

void warmup_put_off(struct warmup_need *need) { need->toolchain[0] = '\0'; }

void warmup_make(const struct warmup_need *need, struct warmup *ret_warmup)
{
    struct warmup *p = ret_warmup;
    *p = (struct warmup){ .task.result = COMPILE_RESULT_INIT };
    memcpy(p->toolchain, need->toolchain, sizeof(p->toolchain));
    memcpy(p->target, need->target, sizeof(p->target));
    p->task.job = (struct compile_job){
        .kind = COMPILE_PROBE,
        .origin = COMPILE_OF_KILN,
        .target_works = true,
        .toolchain = bytes_of_text(p->toolchain),
        .target = bytes_of_text(p->target),
        .toolchain_id = need->toolchain_id,
    };
}
