/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/call_progress.h"

#include "cli/output.h"
#include "common/base/clock.h"
#include "common/base/json.h"

#include <string.h>

void call_progress_init(struct call_progress *progress, const char *what)
{
    *progress = (struct call_progress){ .what = what,
                                        .started_ns = clock_monotonic_ns(),
                                        .lock = PTHREAD_MUTEX_INITIALIZER };
}

static bool counts_bytes(const char *stage)
{
    static const char *const of_bytes[] = { "fetching", "unpacking" };
    for (size_t i = 0; i < sizeof(of_bytes) / sizeof(of_bytes[0]); i++)
        if (strncmp(stage, of_bytes[i], strlen(of_bytes[i])) == 0)
            return true;
    return false;
}

static void print_note(const struct call_progress *p, const char *note)
{
    char line[768];
    snprintf(line, sizeof(line), "%.100s: %.500s; attempt %llu", p->what, note,
             (unsigned long long)p->attempt);
    output_clean(line, false);
    fprintf(stderr, "%s\n", line);
}

static void erase(struct call_progress *p)
{
    if (*p->stage)
        progress_clear(&p->bar);
}

static void complete_stage(struct call_progress *p)
{
    if (*p->stage)
        progress_finish(&p->bar, clock_monotonic_ns());
    erase(p);
}

static bool is_stage(const struct call_progress *p, const char *stage)
{
    return strncmp(stage, p->stage, sizeof(p->stage) - 1) == 0;
}

static void begin_stage(struct call_progress *p, const char *stage, uint64_t attempt,
                        const char *note)
{
    if (is_stage(p, stage))
        erase(p);
    else
        complete_stage(p);
    snprintf(p->stage, sizeof(p->stage), "%s", stage);
    p->attempt = attempt;
    if (*note)
        print_note(p, note);
    snprintf(p->label, sizeof(p->label), "%.90s: %s", p->what, p->stage);
    output_clean(p->label, false);
    progress_init(&p->bar, stderr, p->label, 0, clock_monotonic_ns());
    p->bar.started_ns = p->started_ns;
    p->bar.bytes = counts_bytes(p->stage);
}

int call_progress_on(void *context, const char *json)
{
    struct call_progress *p = context;
    KILN_AUTO(json) struct json *tree = NULL;
    struct kiln_err why = KILN_ERR_INIT;
    if (json_parse(bytes_of_text(json), "kilnd's progress", &tree, &why))
        return 0; /* an invalid progress message must not end the request */
    const struct json *reported = json_get(tree, "progress");
    const char *stage = json_get_text(reported, "stage", "");
    uint64_t attempt = json_get_u64(reported, "attempt", 1);
    if (!*stage)
        return 0;
    pthread_mutex_lock(&p->lock);
    if (!is_stage(p, stage) || attempt != p->attempt)
        begin_stage(p, stage, attempt, json_get_text(reported, "note", ""));
    p->bar.total = json_get_u64(reported, "total", 0);
    p->bar.no_total = p->bar.total == 0;
    progress_update(&p->bar, json_get_u64(reported, "done", 0), 0, clock_monotonic_ns());
    pthread_mutex_unlock(&p->lock);
    return 0;
}

void call_progress_end(struct call_progress *progress)
{
    pthread_mutex_lock(&progress->lock);
    erase(progress);
    pthread_mutex_unlock(&progress->lock);
}

void call_progress_finish(struct call_progress *progress)
{
    pthread_mutex_lock(&progress->lock);
    complete_stage(progress);
    pthread_mutex_unlock(&progress->lock);
}
