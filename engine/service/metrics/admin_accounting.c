/* SPDX-License-Identifier: MIT */
#include "engine/service/requests/admin.h"

#include <stdio.h>
#include <string.h>

/* Maximum numbers of rows from the store, and in an answer. The answer's row "others" has the sums
 * of all further rows. */
#define SHARES_MAX 1000
#define ROWS_MAX 1000

enum by { BY_UID, BY_TARGET, BY_PROGRAM };
static const char *const by_names[] = { "uid", "target", "program" };

static const struct admin_member accounting_members[] = { { "by", MEMBER_TEXT }, { 0 } };

struct line {
    char name[LIMIT_TARGET_TEXT];
    uint32_t uid;
    bool is_others;
    struct kernel_sums sums;
    uint64_t kernels, bytes;
};

struct lines {
    enum by by;
    struct line *items;
    size_t count, most;
    struct line others, total;
};

static enum kiln_code read_by(const struct json *question, enum by *ret_by, struct kiln_err *err)
{
    const char *by = json_get_text(question, "by", "");
    for (unsigned i = 0; i < sizeof(by_names) / sizeof(by_names[0]); i++) {
        if (strcmp(by, by_names[i]) == 0) {
            *ret_by = (enum by)i;
            return KILN_OK;
        }
    }
    return kiln_fail(err, KILN_INVALID, "'by' must be uid, target or program, not '%.60s'", by);
}

static void add_share(void *context, const struct kernel_share *share)
{
    struct json *row = json_object();
    json_set_text(row, "name",
                  share->name            ? share->name
                  : share->is_of_clients ? ACCOUNTING_RTC
                                         : ACCOUNTING_PRIVATE);
    json_set_u64(row, "kernels", share->kernels);
    json_set_u64(row, "bytes", share->bytes);
    json_append(context, row);
}

static void add_usage(void *context, uint32_t uid, uint64_t kernels, uint64_t bytes)
{
    struct json *row = json_object();
    json_set_u64(row, "uid", uid);
    json_set_u64(row, "kernels", kernels);
    json_set_u64(row, "bytes", bytes);
    json_append(context, row);
}

struct sum {
    uint64_t kernels, bytes;
};

static void add_to_sum(void *context, uint32_t uid, uint64_t kernels, uint64_t bytes)
{
    struct sum *sum = context;
    (void)uid;
    sum->kernels += kernels;
    sum->bytes += bytes;
}

static enum kiln_code ask_store(struct admin *a, enum by by)
{
    struct sum sum = { 0 };
    struct kernel_store *store = a->base.engine->store;
    struct json *rows = json_set_array(a->base.answer, "rows");
    const struct kernel_share_request request = { .by_program = by == BY_PROGRAM,
                                                  .max = SHARES_MAX };
    enum kiln_code rc = kernel_store_usage_by_uid(store, add_to_sum, &sum, &a->base.err);
    json_set_u64(a->base.answer, "kernels", sum.kernels);
    json_set_u64(a->base.answer, "bytes", sum.bytes);
    if (!rc && by == BY_UID)
        rc = kernel_store_usage_by_uid(store, add_usage, rows, &a->base.err);
    else if (!rc)
        rc = kernel_store_shares(store, &request, add_share, rows, &a->base.err);
    return rc;
}

static struct line *add_line(struct lines *lines, const char *name, uint32_t uid)
{
    if (lines->count == lines->most)
        return &lines->others;
    struct line *line = &lines->items[lines->count++];
    *line = (struct line){ .uid = uid };
    snprintf(line->name, sizeof(line->name), "%s", name);
    accounting_clean(line->name);
    return line;
}

static void collect_shares(struct lines *lines, const struct json *rows)
{
    for (const struct json *row = json_first(rows); row; row = json_next(row)) {
        /* Cuts the name to the length of the accounting's names, so that join_equals finds equal
         * names. */
        char name[ORIGIN_PROGRAM_MAX];
        snprintf(name, sizeof(name), "%s", json_get_text(row, "name", ""));
        const char *whole = json_get_text(row, "name", "");
        struct line *line = add_line(lines, lines->by == BY_PROGRAM ? name : whole,
                                     (uint32_t)json_get_u64(row, "uid", 0));
        line->kernels += json_get_u64(row, "kernels", 0);
        line->bytes += json_get_u64(row, "bytes", 0);
    }
}

static void collect_users(struct lines *lines, const struct accounting *l)
{
    for (unsigned i = 0; i < l->user_count; i++)
        accounting_sums_add(&add_line(lines, "", l->users[i].uid)->sums, &l->users[i].sums);
    accounting_sums_add(&lines->others.sums, &l->others.sums);
}

static void collect_kinds(struct lines *lines, const struct accounting *l)
{
    for (unsigned i = 1; i < l->kind_count; i++) {
        const struct object_origin *what = &l->kinds[i].what;
        const char *name = lines->by == BY_TARGET ? what->target : what->program;
        accounting_sums_add(&add_line(lines, name, 0)->sums, &l->kinds[i].sums);
    }
    accounting_sums_add(&lines->others.sums, &l->kinds[0].sums);
}

static int compare_keys(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    if (x->uid != y->uid)
        return x->uid < y->uid ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int compare_worth(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    if (x->sums.saved_us != y->sums.saved_us)
        return x->sums.saved_us > y->sums.saved_us ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return compare_keys(a, b);
}

static void add_line_to(struct line *to, const struct line *more)
{
    accounting_sums_add(&to->sums, &more->sums);
    to->kernels += more->kernels;
    to->bytes += more->bytes;
}

static void join_equals(struct lines *lines)
{
    size_t kept = 0;
    qsort(lines->items, lines->count, sizeof(lines->items[0]), compare_keys);
    for (size_t i = 0; i < lines->count; i++) {
        if (kept > 0 && compare_keys(&lines->items[kept - 1], &lines->items[i]) == 0)
            add_line_to(&lines->items[kept - 1], &lines->items[i]);
        else
            lines->items[kept++] = lines->items[i];
    }
    lines->count = kept;
}

/* Adds the rows of other users to "others", because only administrators may see them. */
static void hide_others(struct lines *lines, const struct admin *a)
{
    size_t kept = 0;
    for (size_t i = 0; i < lines->count; i++) {
        bool own = lines->items[i].uid == (uint32_t)a->base.uid;
        if (own || a->base.is_admin || lines->by != BY_UID)
            lines->items[kept++] = lines->items[i];
        else
            add_line_to(&lines->others, &lines->items[i]);
    }
    lines->count = kept;
}

static void cut_tail(struct lines *lines)
{
    qsort(lines->items, lines->count, sizeof(lines->items[0]), compare_worth);
    while (lines->count > ROWS_MAX)
        add_line_to(&lines->others, &lines->items[--lines->count]);
}

static const struct accounting *copy_of(const struct admin *a)
{
    return *(struct accounting *const *)a->own;
}

/* Adds to "others" the kernels and bytes that are in no line. There may be some, because the number
 * of rows from the store is limited. */
static void balance_lines(struct lines *lines, const struct admin *a)
{
    uint64_t kernels = lines->others.kernels, bytes = lines->others.bytes;
    for (size_t i = 0; i < lines->count; i++) {
        kernels += lines->items[i].kernels;
        bytes += lines->items[i].bytes;
    }
    lines->total.sums = accounting_total(copy_of(a));
    lines->total.kernels = json_get_u64(a->base.answer, "kernels", 0);
    lines->total.bytes = json_get_u64(a->base.answer, "bytes", 0);
    if (lines->total.kernels > kernels)
        lines->others.kernels += lines->total.kernels - kernels;
    if (lines->total.bytes > bytes)
        lines->others.bytes += lines->total.bytes - bytes;
}

static struct json *line_to_json(const struct lines *lines, const struct line *line, bool named)
{
    struct json *row = json_object();
    if (named && lines->by == BY_UID)
        json_set_u64(row, "uid", line->uid);
    else if (named)
        json_set_text(row, by_names[lines->by], line->name);
    json_set_number(row, "saved_s", (double)line->sums.saved_us / 1e6);
    json_set_u64(row, "hits", line->sums.hits);
    json_set_u64(row, "compiles", line->sums.compiles);
    json_set_number(row, "compile_s", (double)line->sums.compile_us / 1e6);
    json_set_u64(row, "kernels", line->kernels);
    json_set_u64(row, "bytes", line->bytes);
    return row;
}

static struct json *lines_to_json(const struct lines *lines, const struct admin *a)
{
    struct json *answer = json_object(), *rows = json_array();
    json_set_text(answer, "by", by_names[lines->by]);
    json_set_u64(answer, "since", copy_of(a)->since);
    json_set_bool(answer, "kept", kernel_store_mode(a->base.engine->store) == KERNEL_STORE_ON);
    json_set(answer, "total", line_to_json(lines, &lines->total, /* named= */ false));
    for (size_t i = 0; i < lines->count; i++)
        json_append(rows, line_to_json(lines, &lines->items[i], /* named= */ true));
    json_set(answer, "rows", rows);
    json_set(answer, "others", line_to_json(lines, &lines->others, /* named= */ false));
    return answer;
}

/* Copies the accounting, so that a work queue can sum up its thousands of rows. */
static void begin_accounting(struct admin *a)
{
    struct accounting **copy = a->own;
    *copy = accounting_copy(a->base.engine->metrics.accounting);
}

static void release_accounting(void *own) { accounting_destroy(*(struct accounting **)own); }

static enum kiln_code sum_up(struct admin *a, enum by by)
{
    const struct accounting *l = copy_of(a);
    const struct json *rows = json_get(a->base.answer, "rows");
    struct lines lines = { .by = by };
    if (l) {
        lines.most = json_count(rows) + l->user_count + l->kind_count;
        lines.items = calloc(lines.most, sizeof(lines.items[0]));
    }
    if (!lines.items)
        return kiln_fail(&a->base.err, KILN_NO_MEMORY,
                         "cannot sum up the usage accounting: out of memory");
    collect_shares(&lines, rows);
    if (by == BY_UID)
        collect_users(&lines, l);
    else
        collect_kinds(&lines, l);
    join_equals(&lines);
    hide_others(&lines, a);
    cut_tail(&lines);
    balance_lines(&lines, a);
    struct json *answer = lines_to_json(&lines, a);
    json_destroy(a->base.answer);
    a->base.answer = answer;
    free(lines.items);
    return KILN_OK;
}

static enum kiln_code work_accounting(struct admin *a)
{
    enum by by = BY_UID;
    enum kiln_code rc = read_by(a->base.question, &by, &a->base.err);
    if (!rc)
        rc = ask_store(a, by);
    return rc ? rc : sum_up(a, by);
}

static const struct admin_kind accounting_kind = {
    .work_queue = WORK_QUEUE_READ,
    .scans = true,
    .members = accounting_members,
    .own_size = sizeof(struct accounting *),
    .begin = begin_accounting,
    .work = work_accounting,
    .release = release_accounting,
};

ADMIN_HANDLER(accounting, accounting_kind)
