/* SPDX-License-Identifier: MIT */
#include "engine/service/requests/admin.h"

#include "common/base/clock.h"
#include "engine/service/metrics/history.h"

#include <string.h>

#define SAMPLES_MAX 2048
#define STEPS_WANTED 100
#define SLOWEST_MAX 100
#define SLOWEST_WANTED 20

static const struct admin_member history_members[] = {
    { "since", MEMBER_COUNT }, { "step", MEMBER_COUNT }, { "slowest", MEMBER_COUNT }, { 0 }
};

struct column_group {
    const char *name, *prefix; /* |prefix|: start of the columns' names, not in the answer */
    int first, last;
};

static void set_group(struct json *to, const struct column_group *group,
                      const struct kernel_sample *s)
{
    struct json *members = json_object();
    for (int i = group->first; i <= group->last; i++)
        json_set_u64(members, kernel_history_names[i] + strlen(group->prefix), s->values[i]);
    json_set(to, group->name, members);
}

static void set_counts(struct json *to, int first, int last, const struct kernel_sample *s)
{
    for (int i = first; i <= last; i++)
        json_set_u64(to, kernel_history_names[i], s->values[i]);
}

static uint64_t misses_of(const struct kernel_sample *s)
{
    uint64_t sum = 0;
    for (int i = HISTORY_misses_new; i <= HISTORY_misses_refused; i++)
        sum += s->values[i];
    return sum;
}

static void set_misses(struct json *to, const struct kernel_sample *s)
{
    static const struct column_group reasons = { "miss_reasons", "misses_", HISTORY_misses_new,
                                                 HISTORY_misses_refused };
    json_set_u64(to, "misses", misses_of(s)); /* prefetches that miss are not counted */
    set_group(to, &reasons, s);
}

static struct json *sample_to_json(const struct kernel_sample *s)
{
    static const struct column_group hits = { "hits", "hits_", HISTORY_hits_hot,
                                              HISTORY_hits_fleet };
    struct json *j = json_object();
    json_set_u64(j, "time", s->time);
    json_set_u64(j, "span_s", s->span_s);
    set_counts(j, HISTORY_requests, HISTORY_fetches, s);
    set_group(j, &hits, s);
    set_misses(j, s);
    set_counts(j, HISTORY_coalesced, HISTORY_compile_errors, s);
    json_set_number(j, "compile_s", (double)s->values[HISTORY_compile_us] / 1e6);
    json_set_number(j, "saved_s", (double)s->values[HISTORY_saved_us] / 1e6);
    set_counts(j, HISTORY_evictions, HISTORY_clients, s);
    return j;
}

static void append_sample(void *context, const struct kernel_sample *sample)
{
    json_append(context, sample_to_json(sample));
}

struct slowest {
    const struct admin *admin;
    struct json *list;
};

static void append_kernel(void *context, const struct kernel_record *record)
{
    const struct slowest *slowest = context;
    json_append(slowest->list, kernel_to_json(slowest->admin, record));
}

static struct kernel_history_range range_of(const struct json *question, uint64_t now)
{
    uint64_t kept_since = now > HISTORY_KEPT_S ? now - HISTORY_KEPT_S : 0;
    uint64_t since = json_get_u64(question, "since", kept_since);
    since = since < kept_since ? kept_since : since > now ? now : since;
    uint64_t span = now - since;
    uint64_t step = json_get_u64(question, "step", span / STEPS_WANTED);
    uint64_t least = span / (SAMPLES_MAX - 2) + 1;
    step = step < least ? least : step;
    step = step < HISTORY_EVERY_S ? HISTORY_EVERY_S : step;
    return (struct kernel_history_range){ .since = since, .step_s = step, .max = SAMPLES_MAX };
}

static enum kiln_code work_history(struct admin *a)
{
    struct kernel_store *store = a->base.engine->store;
    const uint32_t uid = (uint32_t)a->base.uid;
    uint64_t now = clock_wall_s();
    uint64_t wanted = json_get_u64(a->base.question, "slowest", SLOWEST_WANTED);
    size_t slowest_max = wanted < SLOWEST_MAX ? (size_t)wanted : SLOWEST_MAX;
    const struct kernel_history_range range = range_of(a->base.question, now);
    json_set_u64(a->base.answer, "now", now);
    json_set_u64(a->base.answer, "every_s", HISTORY_EVERY_S);
    json_set_u64(a->base.answer, "kept_s", HISTORY_KEPT_S);
    json_set_u64(a->base.answer, "step_s", range.step_s);
    struct json *samples = json_set_array(a->base.answer, "samples");
    struct json *slowest = json_set_array(a->base.answer, "slowest");
    const struct kernel_slowest_request request = { .uid = a->base.is_admin ? NULL : &uid,
                                                    .max = slowest_max };
    struct slowest found = { .admin = a, .list = slowest };
    enum kiln_code rc = kernel_store_history(store, &range, append_sample, samples, &a->base.err);
    if (!rc && slowest_max > 0)
        rc = kernel_store_slowest(store, &request, append_kernel, &found, &a->base.err);
    if (!rc)
        rc = kernel_store_usage(store, a->own, &a->base.err);
    return rc;
}

static void finish_history(struct admin *a)
{
    const struct engine *e = a->base.engine;
    const struct kernel_usage *usage = a->own;
    struct kernel_sample current = history_unwritten(e);
    current.values[HISTORY_store_bytes] = usage->stored_bytes;
    current.values[HISTORY_store_objects] = usage->objects;
    json_set(a->base.answer, "current", sample_to_json(&current));
    for (int i = HISTORY_misses_new; i <= HISTORY_misses_refused; i++)
        current.values[i] += history_written(e, i);
    set_misses(a->base.answer, &current);
}

static const struct admin_kind history_kind = {
    .work_queue = WORK_QUEUE_READ,
    .scans = true,
    .own_size = sizeof(struct kernel_usage),
    .members = history_members,
    .work = work_history,
    .finish = finish_history,
};

ADMIN_HANDLER(history, history_kind)
