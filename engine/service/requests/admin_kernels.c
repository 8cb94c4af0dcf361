/* SPDX-License-Identifier: MIT */
#include "common/base/clock.h"
#include "engine/service/requests/admin.h"

#include <string.h>

/* Limits of one answer: the number of kernels, and the total size in bytes of their names and
 * options. The name and the options of one kernel may have 64 KiB each. */
#define LIST_PAGE 1000
#define LIST_BYTES (1u << 20)
#define MATCHES_SHOWN 2

static const struct admin_member list_members[] = {
    { "kind", MEMBER_TEXT },        { "target", MEMBER_TEXT },  { "program", MEMBER_TEXT },
    { "database_id", MEMBER_TEXT }, { "package", MEMBER_TEXT }, { "older_than_s", MEMBER_COUNT },
    { "after", MEMBER_TEXT },       { "count", MEMBER_COUNT },  { 0 },
};

static const struct admin_member key_members[] = { { "key", MEMBER_TEXT }, { 0 } };

static const struct admin_member clear_members[] = {
    { "target", MEMBER_TEXT },    { "program", MEMBER_TEXT },       { "name", MEMBER_TEXT },
    { "toolchain", MEMBER_TEXT }, { "database_id", MEMBER_TEXT },   { "package", MEMBER_TEXT },
    { "uid", MEMBER_COUNT },      { "older_than_s", MEMBER_COUNT }, { "own", MEMBER_FLAG },
    { "all", MEMBER_FLAG },       { "dry_run", MEMBER_FLAG },       { 0 },
};

static const char *const kind_names[OBJECT_KINDS] = {
    [OBJECT_CODE] = "kernel",
    [OBJECT_RTC_RESULT] = "rtc",
    [OBJECT_RTC_FILES] = "rtc-files",
    [OBJECT_RTC_MARK] = "rtc-mark",
};

struct json *kernel_to_json(const struct admin *a, const struct kernel_record *r)
{
    char hex[DIGEST_HEX_SIZE];
    struct json *j = json_object();
    digest_to_hex(&r->key, hex);
    json_set_text(j, "key", hex);
    json_set_text(j, "kind", kind_names[r->kind]);
    json_set_text(j, "target", r->target);
    json_set_text(j, "toolchain", r->toolchain);
    json_set_text(j, "program", r->program);
    json_set_text(j, "options", r->options);
    json_set_u64(j, "size", r->raw_size);
    json_set_u64(j, "stored", r->stored_size);
    json_set_number(j, "compile_s", (double)r->compile_ns / 1e9);
    json_set_u64(j, "created", r->created);
    json_set_u64(j, "last_used", r->last_used);
    json_set_u64(j, "uses", r->uses);
    if (a->base.is_admin || r->uid == (uint32_t)a->base.uid)
        json_set_u64(j, "uid", r->uid);
    if (r->database_id && r->database_id[0])
        json_set_text(j, "database_id", r->database_id);
    if (r->package && r->package[0])
        json_set_text(j, "package", r->package);
    json_set_text(j, "version", r->version);
    json_set_bool(j, "pinned", r->pinned);
    json_set_bool(j, "private", r->is_private);
    return j;
}

static enum kiln_code read_kinds(const struct json *question, unsigned *ret_kinds,
                                 struct kiln_err *err)
{
    const char *kind = json_get_text(question, "kind", "");
    *ret_kinds = 0;
    for (unsigned i = 0; i < OBJECT_KINDS; i++)
        if (strcmp(kind, kind_names[i]) == 0)
            *ret_kinds = KERNELS_OF(i);
    if (*ret_kinds || !kind[0])
        return KILN_OK;
    return kiln_fail(err, KILN_INVALID,
                     "'kind' must be kernel, rtc, rtc-files or rtc-mark, not '%.60s'", kind);
}

static struct kernel_filter filter_of(const struct json *question)
{
    uint64_t older = json_get_u64(question, "older_than_s", 0);
    uint64_t now = clock_wall_s();
    const char *name = json_get_text(question, "name", "");
    return (struct kernel_filter){
        .target = json_get_text(question, "target", ""),
        .program = name[0] ? name : json_get_text(question, "program", ""),
        .toolchain = json_get_text(question, "toolchain", ""),
        .database_id = json_get_text(question, "database_id", ""),
        .package = json_get_text(question, "package", ""),
        .by_uid = json_get(question, "uid") != NULL,
        .uid = (uint32_t)json_get_u64(question, "uid", 0),
        /* An age that reaches back beyond 1970 selects no kernel: none was used before second 1. */
        .older_than = older == 0    ? 0
                      : older < now ? now - older
                                    : 1,
    };
}

struct page {
    const struct admin *admin;
    struct json *kernels;
    size_t seen, most;
    size_t bytes;
    bool more;
    char last[DIGEST_HEX_SIZE];
};

static void list_one(void *context, const struct kernel_record *r)
{
    struct page *page = context;
    page->more |= page->seen == page->most || page->bytes >= LIST_BYTES;
    if (page->more)
        return;
    page->seen++;
    digest_to_hex(&r->key, page->last);
    page->bytes += strlen(r->options) + strlen(r->program);
    json_append(page->kernels, kernel_to_json(page->admin, r));
}

static enum kiln_code work_list(struct admin *a)
{
    struct digest start;
    struct kernel_page wanted = { .filter = filter_of(a->base.question) };
    /* Selects only kernels that the caller may see. Otherwise, a page could end with another
     * kernel, and reveal its key. */
    wanted.filter.by_reader = !a->base.is_admin;
    wanted.filter.reader = (uint32_t)a->base.uid;
    const char *after = json_get_text(a->base.question, "after", NULL);
    if (read_kinds(a->base.question, &wanted.filter.kinds, &a->base.err))
        return a->base.err.code;
    if (after && !digest_from_hex(after, &start))
        return kiln_fail(&a->base.err, KILN_INVALID, "'after' is not a key: '%.70s'", after);
    uint64_t count = json_get_u64(a->base.question, "count", LIST_PAGE);
    if (count == 0 || count > LIST_PAGE)
        count = LIST_PAGE;
    struct page page = { .admin = a, .kernels = json_array(), .most = (size_t)count };
    wanted.after = after ? &start : NULL;
    wanted.max = page.most + 1;
    enum kiln_code rc =
        kernel_store_list(a->base.engine->store, &wanted, list_one, &page, &a->base.err);
    if (page.more)
        json_set_text(a->base.answer, "next", page.last);
    json_set(a->base.answer, "kernels", page.kernels);
    return rc;
}

static const struct admin_kind kernel_list_kind = {
    .work_queue = WORK_QUEUE_READ,
    .scans = true,
    .members = list_members,
    .work = work_list,
};

ADMIN_HANDLER(kernel_list, kernel_list_kind)

enum kiln_code admin_find_kernel(struct admin *a, const char *prefix, struct digest *ret_key)
{
    struct digest keys[MATCHES_SHOWN];
    struct kernel_keys found = { .keys = keys, .max = MATCHES_SHOWN };
    if (!prefix[0] || strlen(prefix) >= DIGEST_HEX_SIZE ||
        strspn(prefix, "0123456789abcdefABCDEF") != strlen(prefix))
        return kiln_fail(
            &a->base.err, KILN_INVALID,
            "'%.70s' is not a key or the beginning of one (1 to 64 hexadecimal digits)", prefix);
    const uint32_t uid = (uint32_t)a->base.uid;
    enum kiln_code rc = kernel_store_match(a->base.engine->store, prefix,
                                           a->base.is_admin ? NULL : &uid, &found, &a->base.err);
    if (rc)
        return rc;
    if (found.count == 0)
        return kiln_fail(&a->base.err, KILN_NOT_FOUND, "no stored kernel's key begins with '%s'",
                         prefix);
    if (found.count > 1)
        return kiln_fail(&a->base.err, KILN_INVALID,
                         "several keys begin with '%s': give more digits", prefix);
    *ret_key = keys[0];
    return KILN_OK;
}

static void show_one(void *context, const struct kernel_record *r)
{
    struct admin *a = context;
    char hex[DIGEST_HEX_SIZE];
    json_destroy(a->base.answer);
    a->base.answer = kernel_to_json(a, r);
    digest_to_hex(&r->object, hex);
    json_set_text(a->base.answer, "object", hex);
    digest_to_hex(&r->toolchain_id, hex);
    json_set_text(a->base.answer, "toolchain_id", hex);
    digest_to_hex(&r->source_id, hex);
    json_set_text(a->base.answer, "source_id", hex);
    digest_to_hex(&r->headers_id, hex);
    json_set_text(a->base.answer, "headers_id", hex);
    *(struct digest *)a->own = r->key;
}

static enum kiln_code work_show(struct admin *a)
{
    struct digest key;
    enum kiln_code rc = admin_find_kernel(a, json_get_text(a->base.question, "key", ""), &key);
    if (!rc)
        rc = kernel_store_show(a->base.engine->store, &key, show_one, a, &a->base.err);
    return rc;
}

static void finish_show(struct admin *a)
{
    bool hot = hot_set_peek(a->base.engine->hot, a->own) != NULL;
    json_set_text(a->base.answer, "tier", tier_name(hot ? TIER_HOT : TIER_DISK));
}

static const struct admin_kind kernel_show_kind = {
    .work_queue = WORK_QUEUE_READ,
    .own_size = sizeof(struct digest),
    .members = key_members,
    .work = work_show,
    .finish = finish_show,
};

ADMIN_HANDLER(kernel_show, kernel_show_kind)

static void note_owner(void *context, const struct kernel_record *r)
{
    struct admin *a = context;
    bool own = r->is_private && r->uid == (uint32_t)a->base.uid;
    a->base.rc =
        own ? KILN_OK
            : kiln_fail(&a->base.err, KILN_DENIED,
                        "other users share this kernel: removing it needs an administrator "
                        "(" ADMINISTRATORS "); you may remove your own private kernels");
}

static enum kiln_code check_owner(struct admin *a)
{
    if (a->base.is_admin)
        return KILN_OK;
    enum kiln_code rc =
        kernel_store_show(a->base.engine->store, a->own, note_owner, a, &a->base.err);
    return rc ? rc : a->base.rc;
}

static enum kiln_code work_remove(struct admin *a)
{
    enum kiln_code rc = admin_find_kernel(a, json_get_text(a->base.question, "key", ""), a->own);
    if (!rc)
        rc = check_owner(a);
    if (!rc)
        rc = kernel_store_remove(a->base.engine->store, a->own, &a->base.err);
    json_set_u64(a->base.answer, "removed", rc ? 0 : 1);
    return rc;
}

/* The hot set may have the kernel under several keys, one for each user who requested it by name.
 * All these entries must be removed. A user who is not an administrator can only have removed a
 * private kernel, so only this user's entries are removed. */
static void finish_remove(struct admin *a)
{
    if (a->base.is_admin)
        engine_forget_answers(a->base.engine);
    else
        engine_forget_hot_of(a->base.engine, a->base.uid);
}

static const struct admin_kind kernel_remove_kind = {
    .work_queue = WORK_QUEUE_WRITE,
    .own_size = sizeof(struct digest),
    .members = key_members,
    .work = work_remove,
    .finish = finish_remove,
};

ADMIN_HANDLER(kernel_remove, kernel_remove_kind)

static enum kiln_code check_clear(struct admin *a, const struct kernel_filter *filter)
{
    bool some = filter->target[0] || filter->program[0] || filter->toolchain[0] ||
                filter->database_id[0] || filter->package[0] || filter->by_uid ||
                filter->by_scope || filter->older_than;
    if (!a->base.is_admin && !filter->by_scope)
        return kiln_fail(
            &a->base.err, KILN_DENIED,
            "clearing kernels that other users share needs an administrator (" ADMINISTRATORS
            "); 'kilnctl clear --own' clears your own private kernels");
    if (!some && !json_get_bool(a->base.question, "all", false))
        return kiln_fail(&a->base.err, KILN_INVALID,
                         "'clear' needs at least one of target, name, uid, toolchain, database_id, "
                         "package, older_than_s, own or all");
    return KILN_OK;
}

static struct kernel_filter clear_filter(const struct admin *a)
{
    struct kernel_filter filter = filter_of(a->base.question);
    filter.by_scope = json_get_bool(a->base.question, "own", false);
    filter.scope = (uint64_t)a->base.uid;
    return filter;
}

static void answer_clear(struct admin *a, uint64_t kernels, uint64_t bytes, bool dry_run)
{
    json_set_u64(a->base.answer, "kernels", kernels);
    json_set_u64(a->base.answer, "bytes", bytes);
    json_set_bool(a->base.answer, "dry_run", dry_run);
}

static enum kiln_code work_count(struct admin *a)
{
    const struct kernel_filter filter = clear_filter(a);
    uint64_t count = 0, bytes = 0;
    enum kiln_code rc = check_clear(a, &filter);
    if (!rc)
        rc = kernel_store_count(a->base.engine->store, &filter, &count, &bytes, &a->base.err);
    if (!rc)
        answer_clear(a, count, bytes, /* dry_run= */ true);
    return rc;
}

static const struct admin_kind count_kind = {
    .work_queue = WORK_QUEUE_READ,
    .scans = true,
    .members = clear_members,
    .work = work_count,
};

struct clear {
    struct kernel_clearing clearing;
    bool is_begun;
};

static enum kiln_code begin_clear(struct admin *a, struct clear *clear)
{
    clear->clearing.filter = clear_filter(a);
    clear->is_begun = true;
    return check_clear(a, &clear->clearing.filter);
}

static enum kiln_code work_clear(struct admin *a)
{
    struct clear *clear = a->own;
    const struct kernel_clearing *c = &clear->clearing;
    if (!clear->is_begun && begin_clear(a, clear))
        return a->base.err.code;
    enum kiln_code rc =
        kernel_store_clear_some(a->base.engine->store, &clear->clearing, &a->base.err);
    a->more = !rc && !c->is_over;
    if (!rc && !a->more)
        answer_clear(a, c->count, c->bytes, /* dry_run= */ false);
    return rc;
}

/* Removes all objects from the hot set, because the hot set cannot tell which of its objects the
 * request selected. After a clear of private kernels, removes only this user's objects, so that
 * other users' look-ups do not become slower. */
static void forget_cleared(struct admin *a)
{
    const struct clear *clear = a->own;
    if (clear->clearing.count == 0)
        return;
    if (clear->clearing.filter.by_scope)
        engine_forget_hot_of(a->base.engine, a->base.uid);
    else
        engine_forget_answers(a->base.engine);
}

static void finish_clear(struct admin *a)
{
    const struct clear *clear = a->own;
    if (clear->clearing.filter.by_scope)
        return;
    engine_forget_answers(a->base.engine);
    event_text(a->base.engine, "cleared", "kernels were cleared by request");
}

static const struct admin_kind clear_kind = {
    .work_queue = WORK_QUEUE_WRITE,
    .dry_run = &count_kind,
    .own_size = sizeof(struct clear),
    .members = clear_members,
    .work = work_clear,
    .ended = forget_cleared,
    .finish = finish_clear,
};

ADMIN_HANDLER(clear, clear_kind)
