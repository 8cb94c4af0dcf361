/* SPDX-License-Identifier: MIT */
#include "engine/service/packages/build.h"

#include "common/base/clock.h"
#include "engine/service/kernels/program_job.h"
#include "engine/service/requests/admin.h"

#define PROGRESS_EVERY_NS 200000000u
#define FAILURES_SHOWN 100

static void report_progress(struct build *b)
{
    uint64_t now = clock_monotonic_ns();
    if (now - b->fetches.reported_ns < PROGRESS_EVERY_NS)
        return;
    b->fetches.reported_ns = now;
    KILN_AUTO(json) struct json *j = json_object();
    struct json *progress = json_object();
    json_set_text(progress, "stage", "compiling");
    json_set_u64(progress, "done", b->fetches.ended);
    json_set_u64(progress, "total", b->count);
    json_set(j, "progress", progress);
    admin_send(b->base.engine, b->base.caller, b->base.request_id, j, FRAME_MORE);
}

void build_note_failure(struct build *b, const struct problem *problem, const struct kiln_err *why)
{
    char line[512];
    if (b->fetches.failed++ >= FAILURES_SHOWN)
        return;
    problem_to_driver(problem, line, sizeof(line));
    struct json *j = json_object();
    json_set_text(j, "problem", line);
    json_set_text(j, "code", kiln_code_name(why->code));
    json_set_text(j, "text", why->text);
    json_append(b->failures, j);
}

/* If the queue was full, repeats this fetch later. From then on, the build has at most as many
 * fetches in progress as it has now. Returns false if the failure is final. */
static bool ask_again(struct build *b, struct build_item *item, enum kiln_code code)
{
    if (code != KILN_BUSY || b->fetches.under_way == 0)
        return false;
    b->fetches.max = b->fetches.under_way;
    list_prepend(&b->fetches.again, &item->again);
    return true;
}

static void take_result(struct build_item *item, const struct fetch_result *result)
{
    struct build *b = item->build;
    b->fetches.under_way--;
    if (ask_again(b, item, result->err.code))
        return;
    b->fetches.max += b->fetches.max < BUILD_WINDOW;
    b->fetches.ended++;
    item->ended = true;
    if (result->err.code) {
        build_note_failure(b, &item->problem, &result->err);
        return;
    }
    item->key = result->key;
    item->object = object_ref(result->object);
}

static void item_ready(struct fetch_ticket *ticket, const struct fetch_result *result)
{
    struct build_item *item = (struct build_item *)ticket;
    take_result(item, result);
    build_go_on(item->build);
}

static void begin_item(struct build *b, struct build_item *item)
{
    PROGRAM_JOB_AUTO struct program_job p = { 0 };
    struct fetch_result result = { .err = KILN_ERR_INIT };
    b->fetches.under_way++;
    item->ticket = (struct fetch_ticket){
        .uid = b->base.uid, .priority = PRIORITY_PREFETCH, .no_object = true, .ready = item_ready
    };
    if (program_job_make(item->program, &b->target, &b->toolchain, &p, &result.err)) {
        take_result(item, &result);
        return;
    }
    const struct fetch_options want = { .job = &p.job, .tc = &b->toolchain };
    if (fetch_begin(b->base.engine, &want, &item->ticket, &result))
        take_result(item, &result);
}

static struct build_item *next_item(struct build *b)
{
    struct build_item *item = LIST_FIRST(&b->fetches.again, struct build_item, again);
    if (b->fetches.under_way >= b->fetches.max)
        return NULL;
    if (item)
        list_remove(&item->again);
    else if (b->fetches.begun < b->count && b->fetches.begun - b->package.written < BUILD_WINDOW)
        item = b->order[b->fetches.begun++];
    return item;
}

/* Begins fetches, but only for one time slice, because many fetches of hot kernels would block the
 * loop. Returns true if more fetches can begin in the next loop iteration. */
static bool begin_more(struct build *b)
{
    const uint64_t end_ns = clock_monotonic_ns() + TASK_SLICE_NS;
    do {
        struct build_item *item = next_item(b);
        if (!item)
            return false;
        begin_item(b, item);
    } while (clock_monotonic_ns() < end_ns);
    return true;
}

/* Ends the build because kilnd stops. The package would lack the kernels that are not yet
 * fetched. */
static void fail_as_it_stops(struct build *b)
{
    struct kiln_err why = KILN_ERR_INIT;
    why.code = kiln_fail(&why, KILN_UNAVAILABLE, "kilnd is stopping: try again");
    deferred_fail(&b->base, &why, NULL);
}

void build_go_on(struct build *b)
{
    if (b->base.engine->draining) {
        fail_as_it_stops(b);
        return;
    }
    bool more = begin_more(b);
    while (b->fetches.ready < b->fetches.begun && b->order[b->fetches.ready]->ended)
        b->fetches.ready++;
    report_progress(b);
    /* If |more| is set, queues the step even without rows to write. When the step ends, it calls
     * build_go_on again, which begins further fetches. So other requests and builds run in
     * between. */
    if (more || b->fetches.ready == b->count ||
        b->fetches.ready - b->package.written >= BUILD_ROWS_A_STEP)
        build_enqueue(b, &build_write_step);
}
