/* SPDX-License-Identifier: MIT */
#include "engine/service/requests/admin.h"

#include "common/base/clock.h"

#define KEYS_MAX 1000
#define PIN_STEP_NS 20000000u

static const struct admin_member gc_members[] = {
    { "stale", MEMBER_FLAG }, { "to_bytes", MEMBER_COUNT }, { "dry_run", MEMBER_FLAG }, { 0 }
};

struct collect {
    struct digest toolchains[TOOLCHAINS_MAX];
    size_t count;
    bool is_known;
    uint64_t counted; /* evicted kernels that the metrics already include */
    struct kernel_collecting collecting;
};

static void begin_gc(struct admin *a)
{
    struct collect *c = a->own;
    const struct toolchain_table *table = a->base.engine->toolchains;
    const char *ignored;
    c->is_known = toolchains_described(a->base.engine, &ignored);
    for (size_t i = 0; i < toolchain_table_count(table); i++)
        c->toolchains[c->count++] = toolchain_table_at(table, i)->identity;
}

static enum kiln_code begin_collecting(struct admin *a, struct collect *c)
{
    const struct json *q = a->base.question;
    c->collecting.gc = (struct kernel_gc){
        .stale = json_get_bool(q, "stale", false),
        .toolchains = c->toolchains,
        .toolchain_count = c->count,
        .shrink = json_get(q, "to_bytes") != NULL,
        .to_bytes = json_get_u64(q, "to_bytes", 0),
        .dry_run = json_get_bool(q, "dry_run", false),
    };
    if (c->collecting.gc.stale && !c->is_known)
        return kiln_fail(&a->base.err, KILN_UNAVAILABLE,
                         "kilnd does not know which compilers are installed, so it cannot tell "
                         "which kernels are stale: 'kilnctl status' shows why");
    return KILN_OK;
}

static void answer_gc(struct json *answer, const struct kernel_collecting *c)
{
    const struct kernel_gc *gc = &c->gc;
    const struct kernel_gc_result *r = &c->result;
    json_set_bool(answer, "dry_run", gc->dry_run);
    if (gc->shrink)
        json_set_bool(answer, "target_missed", r->missed);
    if (gc->shrink && gc->dry_run)
        json_set_bool(answer, "estimate", true);
    json_set_u64(answer, "kernels", r->stale_kernels + r->evicted_kernels);
    json_set_u64(answer, "bytes", r->stale_bytes + r->evicted_bytes);
    json_set_u64(answer, "stale_kernels", r->stale_kernels);
    json_set_u64(answer, "stale_bytes", r->stale_bytes);
    json_set_u64(answer, "evicted_kernels", r->evicted_kernels);
    json_set_u64(answer, "evicted_bytes", r->evicted_bytes);
    json_set_u64(answer, "store_bytes_before", r->taken_before);
    json_set_u64(answer, "store_bytes", r->taken_after);
}

static enum kiln_code work_gc(struct admin *a)
{
    struct collect *c = a->own;
    enum kiln_code rc =
        kernel_store_collect_some(a->base.engine->store, &c->collecting, &a->base.err);
    a->more = !rc && c->collecting.phase != GC_OVER;
    if (!rc && !a->more)
        answer_gc(a->base.answer, &c->collecting);
    return rc;
}

/* Counts the kernels that the last step evicted. Runs after each step, because a gc whose caller
 * has left ends after the current step. */
static void count_evicted(struct admin *a)
{
    struct collect *c = a->own;
    const struct kernel_collecting *collecting = &c->collecting;
    uint64_t evicted = collecting->result.evicted_kernels;
    a->base.engine->stats.evictions += evicted - c->counted;
    a->base.engine->stats.evictions_gc += evicted - c->counted;
    c->counted = evicted;
}

static enum kiln_code begin_on_reader(struct admin *a)
{
    struct collect *c = a->own;
    enum kiln_code rc = begin_collecting(a, c);
    if (!rc)
        rc = kernel_store_collect_begin(a->base.engine->store, &c->collecting, &a->base.err);
    a->more = !rc;
    return rc;
}

static void finish_gc(struct admin *a)
{
    if (json_get_u64(a->base.answer, "kernels", 0) > 0)
        event_text(a->base.engine, "cleared", "kernels were collected by request");
}

static enum kiln_code work_dry_run(struct admin *a)
{
    enum kiln_code rc = begin_collecting(a, a->own);
    return rc ? rc : work_gc(a);
}

static const struct admin_kind dry_run_kind = {
    .work_queue = WORK_QUEUE_READ,
    .scans = true,
    .own_size = sizeof(struct collect),
    .members = gc_members,
    .begin = begin_gc,
    .work = work_dry_run,
};

static const struct admin_kind gc_kind = {
    .work_queue = WORK_QUEUE_WRITE,
    .own_size = sizeof(struct collect),
    .members = gc_members,
    .work = work_gc,
    .ended = count_evicted,
    .finish = finish_gc,
};

static void continue_on_writer(struct admin *a)
{
    if (a->more)
        a->kind = &gc_kind;
}

static const struct admin_kind first_kind = {
    .work_queue = WORK_QUEUE_READ,
    .scans = true,
    .dry_run = &dry_run_kind,
    .own_size = sizeof(struct collect),
    .members = gc_members,
    .begin = begin_gc,
    .work = begin_on_reader,
    .ended = continue_on_writer,
    .finish = finish_gc,
};

ADMIN_HANDLER(gc, first_kind)

static const struct admin_member pin_members[] = {
    { "keys", MEMBER_TEXTS }, { "target", MEMBER_TEXT },      { "name", MEMBER_TEXT },
    { "pin", MEMBER_FLAG },   { "database_id", MEMBER_TEXT }, { 0 },
};

struct pin {
    struct kernel_pinning pinning;
    const struct json *keys;
    bool is_begun, has_keys;
};

static enum kiln_code pin_keys(struct admin *a, struct pin *p)
{
    struct kernel_pinning *pinning = &p->pinning;
    const uint64_t end_ns = clock_monotonic_ns() + PIN_STEP_NS;
    enum kiln_code rc = KILN_OK;
    for (; !rc && p->keys; p->keys = json_next(p->keys)) {
        struct digest key;
        bool found = false;
        rc = admin_find_kernel(a, json_as_text(p->keys, ""), &key);
        if (!rc)
            rc = kernel_store_pin(a->base.engine->store, &key, pinning->pinned, &found,
                                  &a->base.err);
        pinning->count += !rc && found;
        if (clock_monotonic_ns() >= end_ns) {
            p->keys = json_next(p->keys);
            break;
        }
    }
    pinning->is_over = !p->keys;
    return rc;
}

static enum kiln_code begin_pin(struct admin *a, struct pin *p)
{
    const struct json *q = a->base.question, *keys = json_get(q, "keys");
    const struct kernel_filter filter = {
        .target = json_get_text(q, "target", ""),
        .program = json_get_text(q, "name", ""),
        .database_id = json_get_text(q, "database_id", ""),
    };
    bool filtered = filter.target[0] || filter.program[0] || filter.database_id[0];
    p->is_begun = true;
    p->has_keys = keys != NULL;
    p->keys = json_first(keys);
    p->pinning.filter = filter;
    p->pinning.pinned = json_get_bool(q, "pin", true);
    if (!keys == !filtered || json_count(keys) > KEYS_MAX)
        return kiln_fail(
            &a->base.err, KILN_INVALID,
            "'kernel_pin' needs either keys (at most %d), or a target, a name or a database_id",
            KEYS_MAX);
    return KILN_OK;
}

static enum kiln_code work_pin(struct admin *a)
{
    struct pin *p = a->own;
    enum kiln_code rc = p->is_begun ? KILN_OK : begin_pin(a, p);
    if (!rc)
        rc = p->has_keys ? pin_keys(a, p)
                         : kernel_store_pin_some(a->base.engine->store, &p->pinning, &a->base.err);
    a->more = !rc && !p->pinning.is_over;
    if (rc || a->more)
        return rc;
    json_set_bool(a->base.answer, "pinned", p->pinning.pinned);
    json_set_u64(a->base.answer, "kernels", p->pinning.count);
    return KILN_OK;
}

static const struct admin_kind pin_kind = {
    .work_queue = WORK_QUEUE_WRITE,
    .own_size = sizeof(struct pin),
    .members = pin_members,
    .work = work_pin,
};

ADMIN_HANDLER(kernel_pin, pin_kind)
