/* SPDX-License-Identifier: MIT */
/*
 * The request kernel_promote serves results of clients' own compiles to all users, or undoes this.
 *
 * A promotion stores an object under a second key, which all users look up after their own keys.
 * All parts of a compile (its result and its files) have the same target, program and toolchain. So
 * a selection by these has either all parts or none.
 */
#include "engine/service/requests/admin.h"

#include "common/base/clock.h"

#include <stdio.h>
#include <string.h>

#define PAGE 64
#define STEP_NS 20000000u
#define USERS_MAX 256
#define TEXT_SIZE 4096 /* compile_end never stores a longer text */
#define PROMOTED_KINDS (KERNELS_OF(OBJECT_RTC_RESULT) | KERNELS_OF(OBJECT_RTC_FILES))

static const struct admin_member promote_members[] = {
    { "uid", MEMBER_COUNT },
    { "target", MEMBER_TEXT },
    { "program", MEMBER_TEXT },
    { "toolchain", MEMBER_TEXT },
    { "dry_run", MEMBER_FLAG },
    { "undo", MEMBER_FLAG },
    { 0 },
};

struct candidate {
    struct kernel_record record;
    char target[LIMIT_TARGET_TEXT], toolchain[256], program[256], options[TEXT_SIZE], version[64];
    bool is_complete;
};

struct user_counts {
    uint32_t uid;
    uint64_t compiles, promoted, held, changed;
};

struct promotion {
    struct kernel_filter filter;
    bool is_begun, undoes, is_dry_run;
    bool is_changed;
    struct digest after;
    bool has_after;
    struct digest keys[PAGE];
    size_t count, next;
    bool is_last;
    struct user_counts users[USERS_MAX], total;
    size_t user_count;
};

static void begin_promotion(struct admin *a, struct promotion *p)
{
    const struct json *q = a->base.question;
    const bool has_uid = json_get(q, "uid") != NULL;
    const uint32_t uid = (uint32_t)json_get_u64(q, "uid", 0);
    p->is_begun = true;
    p->undoes = json_get_bool(q, "undo", false);
    p->is_dry_run = json_get_bool(q, "dry_run", false);
    p->filter = (struct kernel_filter){ .target = json_get_text(q, "target", ""),
                                        .program = json_get_text(q, "program", ""),
                                        .toolchain = json_get_text(q, "toolchain", ""),
                                        .kinds = PROMOTED_KINDS,
                                        .by_uid = has_uid,
                                        .uid = uid,
                                        .by_scope = p->undoes,
                                        .scope = KERNEL_SCOPE_EVERYONE };
}

static void note_key(void *context, const struct kernel_record *record)
{
    struct promotion *p = context;
    p->keys[p->count++] = record->key;
}

static enum kiln_code read_page(struct admin *a, struct promotion *p)
{
    const struct kernel_page page = { .filter = p->filter,
                                      .after = p->has_after ? &p->after : NULL,
                                      .max = PAGE };
    p->count = p->next = 0;
    enum kiln_code rc = kernel_store_list(a->base.engine->store, &page, note_key, p, &a->base.err);
    p->is_last = p->count < PAGE;
    if (p->count)
        p->after = p->keys[p->count - 1];
    p->has_after |= p->count > 0;
    return rc;
}

static bool copy_text(char *to, size_t size, const char *text)
{
    return snprintf(to, size, "%s", text ? text : "") < (int)size;
}

static void copy_candidate(void *context, const struct kernel_record *record)
{
    struct candidate *c = context;
    c->record = *record;
    c->is_complete = copy_text(c->target, sizeof(c->target), record->target) &&
                     copy_text(c->toolchain, sizeof(c->toolchain), record->toolchain) &&
                     copy_text(c->program, sizeof(c->program), record->program) &&
                     copy_text(c->options, sizeof(c->options), record->options) &&
                     copy_text(c->version, sizeof(c->version), record->version);
    c->record.target = c->target;
    c->record.toolchain = c->toolchain;
    c->record.program = c->program;
    c->record.options = c->options;
    c->record.version = c->version;
    c->record.database_id = c->record.package = "";
}

static struct user_counts *counts_of(struct promotion *p, uint32_t uid)
{
    for (size_t i = 0; i < p->user_count; i++)
        if (p->users[i].uid == uid)
            return &p->users[i];
    if (p->user_count == USERS_MAX)
        return NULL;
    p->users[p->user_count] = (struct user_counts){ .uid = uid };
    return &p->users[p->user_count++];
}

static void add_counts(struct user_counts *to, const struct user_counts *more)
{
    to->compiles += more->compiles;
    to->promoted += more->promoted;
    to->held += more->held;
    to->changed += more->changed;
}

static void count_compile(struct promotion *p, const struct kernel_record *r,
                          const struct user_counts *counts)
{
    struct user_counts *user = r->kind == OBJECT_RTC_RESULT ? counts_of(p, r->uid) : NULL;
    if (user)
        add_counts(user, counts);
    if (r->kind == OBJECT_RTC_RESULT)
        add_counts(&p->total, counts);
}

struct shared {
    struct digest object;
    bool is_there;
};

static void note_shared(void *context, const struct kernel_record *record)
{
    struct shared *shared = context;
    shared->object = record->object;
    shared->is_there = true;
}

/* Sets |ret_trusted| if the kernel is from the administrator or from the user whom the request
 * names. Otherwise, sets it only if a second user has sent the same bytes for the same key. */
static enum kiln_code is_trusted(struct admin *a, const struct promotion *p,
                                 const struct kernel_record *r, bool *ret_trusted)
{
    *ret_trusted = p->filter.by_uid || r->uid == (uint32_t)a->base.uid;
    return *ret_trusted ? KILN_OK
                        : kernel_store_agrees(a->base.engine->store, r, ret_trusted, &a->base.err);
}

/* Stores the kernel's object under |key|, for all users. Skips a damaged object, which its next
 * fetch will quarantine. */
static enum kiln_code store_shared(struct admin *a, struct promotion *p,
                                   const struct kernel_record *r, const struct digest *key)
{
    struct kernel_store *store = a->base.engine->store;
    struct kernel_record record = *r;
    struct object *object = NULL;
    bool is_damaged = false;
    uint64_t evicted = 0;
    enum kiln_code rc = kernel_store_get(store, &r->key, &object, &is_damaged, &a->base.err);
    if (rc)
        return rc == KILN_NOT_FOUND ? KILN_OK : rc;
    record.key = *key;
    record.is_private = false;
    record.uses = 0;
    record.created = record.last_used = clock_wall_s();
    rc = kernel_store_import(store, &record, object, &evicted, &a->base.err);
    object_unref(object);
    p->is_changed |= !rc;
    return rc;
}

static enum kiln_code promote_kernel(struct admin *a, struct promotion *p,
                                     const struct kernel_record *r)
{
    struct kernel_store *store = a->base.engine->store;
    const struct digest key = kernel_client_key(KERNEL_SCOPE_EVERYONE, &r->client_key);
    struct shared shared = { .is_there = false };
    bool is_trusted_user = false;
    if (!r->is_private || !digest_is_known(&r->client_key))
        return KILN_OK;
    enum kiln_code rc = kernel_store_show(store, &key, note_shared, &shared, &a->base.err);
    if (!rc || rc == KILN_NOT_FOUND)
        rc = is_trusted(a, p, r, &is_trusted_user);
    const bool is_same = shared.is_there && digest_equal(&shared.object, &r->object);
    count_compile(
        p, r,
        &(struct user_counts){ .compiles = 1,
                               .promoted = is_trusted_user && !is_same,
                               .held = !is_trusted_user,
                               .changed = is_trusted_user && shared.is_there && !is_same });
    if (rc || !is_trusted_user || is_same || p->is_dry_run)
        return rc;
    return store_shared(a, p, r, &key);
}

static enum kiln_code withdraw_kernel(struct admin *a, struct promotion *p,
                                      const struct kernel_record *r)
{
    if (r->is_private || !digest_is_known(&r->client_key))
        return KILN_OK;
    enum kiln_code rc =
        p->is_dry_run ? KILN_OK : kernel_store_remove(a->base.engine->store, &r->key, &a->base.err);
    if (rc)
        return rc == KILN_NOT_FOUND ? KILN_OK : rc;
    count_compile(p, r, &(struct user_counts){ .compiles = 1, .changed = 1 });
    p->is_changed |= !p->is_dry_run;
    return KILN_OK;
}

static enum kiln_code work_on_kernel(struct admin *a, struct promotion *p, const struct digest *key)
{
    struct candidate c;
    enum kiln_code rc =
        kernel_store_show(a->base.engine->store, key, copy_candidate, &c, &a->base.err);
    if (rc == KILN_NOT_FOUND)
        return KILN_OK;
    if (rc || !c.is_complete)
        return rc;
    return p->undoes ? withdraw_kernel(a, p, &c.record) : promote_kernel(a, p, &c.record);
}

static void put_counts(struct json *j, const struct promotion *p, const struct user_counts *counts)
{
    json_set_u64(j, "compiles", counts->compiles);
    if (p->undoes)
        return;
    json_set_u64(j, "promoted", counts->promoted);
    json_set_u64(j, "held", counts->held);
    json_set_u64(j, "replaced", counts->changed);
}

static void answer_promote(struct admin *a, const struct promotion *p)
{
    struct json *users = json_set_array(a->base.answer, "users");
    for (size_t i = 0; i < p->user_count; i++) {
        struct json *user = json_object();
        json_set_u64(user, "uid", p->users[i].uid);
        put_counts(user, p, &p->users[i]);
        json_append(users, user);
    }
    put_counts(a->base.answer, p, &p->total);
    json_set_bool(a->base.answer, "undo", p->undoes);
    json_set_bool(a->base.answer, "dry_run", p->is_dry_run);
}

static enum kiln_code work_promote(struct admin *a)
{
    struct promotion *p = a->own;
    const uint64_t end_ns = clock_monotonic_ns() + STEP_NS;
    enum kiln_code rc = KILN_OK;
    if (!p->is_begun)
        begin_promotion(a, p);
    while (!rc && !(p->is_last && p->next == p->count)) {
        if (p->next == p->count)
            rc = read_page(a, p);
        else
            rc = work_on_kernel(a, p, &p->keys[p->next++]);
        if (clock_monotonic_ns() >= end_ns)
            break;
    }
    a->more = !rc && !(p->is_last && p->next == p->count);
    if (!rc && !a->more)
        answer_promote(a, p);
    return rc;
}

/* Empties the hot set, which may have objects that were withdrawn or replaced. */
static void forget_changed(struct admin *a)
{
    struct promotion *p = a->own;
    if (p->is_changed)
        engine_forget_answers(a->base.engine);
    p->is_changed = false;
}

static const struct admin_kind dry_run_kind = {
    .work_queue = WORK_QUEUE_READ,
    .scans = true,
    .own_size = sizeof(struct promotion),
    .members = promote_members,
    .work = work_promote,
};

static const struct admin_kind promote_kind = {
    .work_queue = WORK_QUEUE_WRITE,
    .dry_run = &dry_run_kind,
    .own_size = sizeof(struct promotion),
    .members = promote_members,
    .work = work_promote,
    .ended = forget_changed,
};

ADMIN_HANDLER(kernel_promote, promote_kind)
