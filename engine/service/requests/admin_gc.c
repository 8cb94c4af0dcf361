/* SPDX-License-Identifier: MIT */
/* The requests gc and kernel_pin. */
#include "engine/service/requests/admin.h"

#define KEYS_MAX 1000

/* ---- gc ---- */

static const struct admin_member gc_members[] = {
    { "stale", MEMBER_FLAG }, { "to_bytes", MEMBER_COUNT }, { "dry_run", MEMBER_FLAG }, { 0 }
};

struct installed { /* identities of the installed toolchains */
    struct digest toolchains[TOOLCHAINS_MAX];
    size_t count;
    bool is_known;
};

static void begin_gc(struct admin *a)
{
    struct installed *installed = a->own;
    const struct toolchain_table *table = a->base.engine->toolchains;
    const char *ignored;
    installed->is_known = toolchains_described(a->base.engine, &ignored);
    for (size_t i = 0; i < toolchain_table_count(table); i++)
        installed->toolchains[installed->count++] = toolchain_table_at(table, i)->identity;
}

static enum kiln_code work_gc(struct admin *a)
{
    const struct json *q = a->base.question;
    const struct installed *installed = a->own;
    const struct kernel_gc gc = {
        .stale = json_get_bool(q, "stale", false),
        .toolchains = installed->toolchains,
        .toolchain_count = installed->count,
        .shrink = json_get(q, "to_bytes") != NULL,
        .to_bytes = json_get_u64(q, "to_bytes", 0),
        .dry_run = json_get_bool(q, "dry_run", false),
    };
    if (gc.stale && !installed->is_known)
        return kiln_fail(&a->base.err, KILN_UNAVAILABLE,
                         "kilnd does not know which compilers are installed, so it cannot tell "
                         "which kernels are stale: 'kilnctl status' shows why");
    struct kernel_gc_result r = { 0 };
    enum kiln_code rc = kernel_store_gc(a->base.engine->store, &gc, &r, &a->base.err);
    json_set_bool(a->base.answer, "dry_run", gc.dry_run);
    if (gc.shrink)
        json_set_bool(a->base.answer, "target_missed", r.missed);
    if (gc.shrink && gc.dry_run)
        json_set_bool(a->base.answer, "estimate", true);
    json_set_u64(a->base.answer, "kernels", r.stale_kernels + r.evicted_kernels);
    json_set_u64(a->base.answer, "bytes", r.stale_bytes + r.evicted_bytes);
    json_set_u64(a->base.answer, "stale_kernels", r.stale_kernels);
    json_set_u64(a->base.answer, "stale_bytes", r.stale_bytes);
    json_set_u64(a->base.answer, "evicted_kernels", r.evicted_kernels);
    json_set_u64(a->base.answer, "evicted_bytes", r.evicted_bytes);
    json_set_u64(a->base.answer, "store_bytes_before", r.taken_before);
    json_set_u64(a->base.answer, "store_bytes", r.taken_after);
    return rc;
}

static void finish_gc(struct admin *a)
{
    struct engine *e = a->base.engine;
    if (json_get_bool(a->base.answer, "dry_run", false) ||
        json_get_u64(a->base.answer, "kernels", 0) == 0)
        return;
    e->stats.evictions += json_get_u64(a->base.answer, "evicted_kernels", 0);
    e->stats.evictions_gc += json_get_u64(a->base.answer, "evicted_kernels", 0);
    event_text(e, "cleared", "kernels were collected by request");
}

static const struct admin_kind gc_kind = {
    .work_queue = WORK_QUEUE_WRITE,
    .own_size = sizeof(struct installed),
    .members = gc_members,
    .begin = begin_gc,
    .work = work_gc,
    .finish = finish_gc,
};

enum kiln_code handle_gc(struct engine *e, struct caller *caller, const struct frame_header *header,
                         struct bytes body, struct kiln_err *err)
{
    return admin_run(e, &(struct request){ caller, header, body }, &gc_kind, err);
}

/* ---- pin ---- */

static const struct admin_member pin_members[] = {
    { "keys", MEMBER_TEXTS }, { "target", MEMBER_TEXT },      { "name", MEMBER_TEXT },
    { "pin", MEMBER_FLAG },   { "database_id", MEMBER_TEXT }, { 0 },
};

/* Pins the kernels of |keys|: each text is a key or the beginning of one. */
static enum kiln_code pin_keys(struct admin *a, const struct json *keys, bool pin,
                               uint64_t *ret_count)
{
    for (const struct json *j = json_first(keys); j; j = json_next(j)) {
        struct digest key;
        bool found = false;
        enum kiln_code rc = admin_find_kernel(a, json_as_text(j, ""), &key);
        if (!rc)
            rc = kernel_store_pin(a->base.engine->store, &key, pin, &found, &a->base.err);
        if (rc)
            return rc;
        *ret_count += found;
    }
    return KILN_OK;
}

static enum kiln_code work_pin(struct admin *a)
{
    const struct json *q = a->base.question, *keys = json_get(q, "keys");
    bool pin = json_get_bool(q, "pin", true);
    const struct kernel_filter filter = {
        .target = json_get_text(q, "target", ""),
        .program = json_get_text(q, "name", ""),
        .database_id = json_get_text(q, "database_id", ""),
    };
    bool filtered = filter.target[0] || filter.program[0] || filter.database_id[0];
    if (!keys == !filtered || json_count(keys) > KEYS_MAX)
        return kiln_fail(
            &a->base.err, KILN_INVALID,
            "'kernel_pin' needs either keys (at most %d), or a target, a name or a database_id",
            KEYS_MAX);
    uint64_t count = 0;
    enum kiln_code rc =
        keys ? pin_keys(a, keys, pin, &count)
             : kernel_store_pin_matching(a->base.engine->store, &filter, pin, &count, &a->base.err);
    json_set_bool(a->base.answer, "pinned", pin);
    json_set_u64(a->base.answer, "kernels", count);
    return rc;
}

static const struct admin_kind pin_kind = {
    .work_queue = WORK_QUEUE_WRITE,
    .members = pin_members,
    .work = work_pin,
};

enum kiln_code handle_kernel_pin(struct engine *e, struct caller *caller,
                                 const struct frame_header *header, struct bytes body,
                                 struct kiln_err *err)
{
    return admin_run(e, &(struct request){ caller, header, body }, &pin_kind, err);
}
