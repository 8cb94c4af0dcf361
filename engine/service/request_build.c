/* SPDX-License-Identifier: MIT */
/*
 * The request package_build: problems in, a package of their kernels out.
 *
 * Each problem is solved, each of its programs fetched like a plan's; when all are there the
 * package is written on a lane and goes back as a descriptor.
 */
#include "common/clock.h"
#include "common/fs.h"
#include "engine/package/package_writer.h"
#include "engine/service/admin.h"
#include "engine/service/budget.h"
#include "engine/service/fetch.h"
#include "engine/service/file_object.h"
#include "engine/service/program_job.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PROBLEMS_MOST 50000u
/* Fetches under way at once: enough for every compiler, few enough that others' turns come. */
#define FETCHES_AT_ONCE 256
#define PROGRESS_EVERY_NS 200000000u
#define FAILURES_SHOWN 100

struct build_item {
    struct fetch_ticket ticket; /* first member */
    struct build *build;
    struct build_item *next_again;
    struct solution_program program;
    struct problem problem;
    struct object *object; /* owned reference; NULL until it is there, and when it failed */
    struct digest key;
    /* Made when the package is written: */
    struct buffer name, args; /* owned */
};

struct build {
    struct service_waiter waiter; /* first member */
    struct task task;
    struct engine *engine;
    struct json *question, *answer; /* owned */
    struct json *failures;          /* owned until it is in the answer */
    struct target target;
    struct toolchain toolchain; /* a copy */
    enum package_format format;
    struct build_item *items; /* owned */
    size_t count, capacity;
    uid_t uid;
    uint64_t charged; /* bytes: to its user's budget */
    size_t begun, ended, failed;
    size_t under_way, window; /* fetches; so many at most */
    struct build_item *again; /* to be asked for again: there was no room in the queue */
    uint64_t told_ns;
    bool beginning;      /* more are being begun right now */
    bool writing;        /* the task is out */
    struct object *file; /* owned reference: the package */
    enum kiln_code rc;
    struct kiln_err err;
};

static void build_destroy(struct build *b)
{
    service_waiter_remove(&b->waiter);
    for (size_t i = 0; i < b->count; i++) {
        object_unref(b->items[i].object);
        buffer_done(&b->items[i].name);
        buffer_done(&b->items[i].args);
    }
    free(b->items);
    budget_give(b->engine->budget, b->uid, b->charged);
    object_unref(b->file);
    json_destroy(b->question);
    json_destroy(b->answer);
    json_destroy(b->failures);
    free(b);
}

static void cancel_build(struct service_waiter *w)
{
    struct build *b = (struct build *)w;
    service_waiter_remove(w);
    for (size_t i = 0; i < b->begun; i++)
        fetch_cancel(b->engine, &b->items[i].ticket);
    if (!b->writing)
        build_destroy(b);
}

static void fail_build(struct build *b, const struct kiln_err *why)
{
    if (b->waiter.caller)
        service_refuse(b->engine, b->waiter.caller, b->waiter.request_id, why, NULL);
    build_destroy(b);
}

/* ---- the package ---- */

static int compare_items(const void *a, const void *b)
{
    const struct build_item *x = *(struct build_item *const *)a,
                            *y = *(struct build_item *const *)b;
    int order = bytes_compare(buffer_view(&x->name), buffer_view(&y->name));
    return order ? order : bytes_compare(buffer_view(&x->args), buffer_view(&y->args));
}

static enum kiln_code name_item(struct build *b, struct build_item *item, struct kiln_err *err)
{
    PROGRAM_JOB_AUTO struct program_job p = { 0 };
    enum kiln_code rc = program_job_make(&item->program, &b->target, &b->toolchain, &p, err);
    if (rc)
        return rc;
    struct package_source source = program_job_source(&p.job);
    buffer_init(&item->name, LIMIT_OPTIONS_TEXT);
    buffer_init(&item->args, 2 * LIMIT_OPTIONS_TEXT);
    rc = package_kernel_name(&source, &item->name, err);
    return rc ? rc : package_kernel_args(&source, &b->target, &item->args, err);
}

static enum kiln_code add_item(struct build *b, const struct build_item *item,
                               struct package_writer *writer, struct kiln_err *err)
{
    PROGRAM_JOB_AUTO struct program_job p = { 0 };
    OBJECT_VIEW_AUTO struct object_view view = { 0 };
    enum kiln_code rc = program_job_make(&item->program, &b->target, &b->toolchain, &p, err);
    if (!rc)
        rc = object_view_open(item->object, &view, err);
    if (rc)
        return rc;
    const struct package_entry entry = {
        .name = buffer_view(&item->name),
        .args = buffer_view(&item->args),
        .raw = view.bytes,
        .key = item->key,
        .toolchain_id = b->toolchain.identity,
        .target = p.job.target,
        .toolchain = p.job.toolchain,
        .program = p.job.program,
        .options = p.job.options,
        .source = p.job.source,
        .header_count = p.job.header_count,
        .headers = p.job.headers,
    };
    return package_writer_add(writer, &entry, err);
}

/* Several problems may need the same kernel. */
static enum kiln_code add_items(struct build *b, struct package_writer *writer, uint64_t *ret_rows,
                                struct kiln_err *err)
{
    KILN_AUTO(mem) struct build_item **order = calloc(b->count, sizeof(struct build_item *));
    if (!order)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot sort %zu kernels", b->count);
    size_t there = 0;
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; !rc && i < b->count; i++) {
        if (b->items[i].object) {
            order[there++] = &b->items[i];
            rc = name_item(b, &b->items[i], err);
        }
    }
    if (rc)
        return rc;
    qsort(order, there, sizeof(struct build_item *), compare_items);
    for (size_t i = 0; !rc && i < there; i++) {
        if (i > 0 && compare_items(&order[i - 1], &order[i]) == 0)
            continue;
        rc = add_item(b, order[i], writer, err);
        (*ret_rows)++;
    }
    return rc;
}

static enum kiln_code write_package(struct build *b, const char *path, uint64_t *ret_rows,
                                    struct kiln_err *err)
{
    KILN_AUTO(package_writer) struct package_writer *writer = NULL;
    enum kiln_code rc = package_writer_create(path, b->format, &writer, err);
    if (!rc)
        rc = add_items(b, writer, ret_rows, err);
    return rc ? rc : package_writer_finish(writer, err);
}

static void build_work(struct task *task)
{
    struct build *b = (struct build *)(void *)((char *)task - offsetof(struct build, task));
    char path[PATH_MAX];
    uint64_t rows = 0;
    snprintf(path, sizeof(path), "%s/build-%llx-%p", b->engine->staging,
             (unsigned long long)clock_monotonic_ns(), (void *)b);
    b->rc = write_package(b, path, &rows, &b->err);
    if (!b->rc && rows == 0)
        b->rc = kiln_fail(&b->err, KILN_UNSUPPORTED, "none of the problems could be built: %s",
                          json_get_text(json_first(b->failures), "text", "there was none"));
    if (!b->rc)
        b->rc = object_of_file(path, &b->file, &b->err);
    unlink(path);
    json_set_u64(b->answer, "kernels", rows);
    if (b->file)
        json_set_u64(b->answer, "size", b->file->size);
}

static void build_done(struct task *task)
{
    struct build *b = (struct build *)(void *)((char *)task - offsetof(struct build, task));
    engine_task_ended(b->engine);
    if (b->rc) {
        fail_build(b, &b->err);
        return;
    }
    json_set(b->answer, "failed", KILN_TAKE(b->failures));
    json_set_u64(b->answer, "failures", b->failed);
    if (b->waiter.caller)
        admin_send_files(b->engine, b->waiter.caller, b->waiter.request_id, b->answer, &b->file, 1);
    build_destroy(b);
}

static void write_out(struct build *b)
{
    b->writing = true;
    b->task = (struct task){ .work = build_work, .done = build_done };
    engine_run(b->engine, LANE_READ, &b->task);
}

/* ---- gathering the kernels ---- */

static void tell_progress(struct build *b)
{
    uint64_t now = clock_monotonic_ns();
    if (now - b->told_ns < PROGRESS_EVERY_NS)
        return;
    b->told_ns = now;
    KILN_AUTO(json) struct json *j = json_object();
    struct json *progress = json_object();
    json_set_text(progress, "stage", "compiling");
    json_set_u64(progress, "done", b->ended);
    json_set_u64(progress, "total", b->count);
    json_set(j, "progress", progress);
    admin_send(b->engine, b->waiter.caller, b->waiter.request_id, j, FRAME_MORE);
}

static void note_failure(struct build *b, const struct problem *problem, const struct kiln_err *why)
{
    char line[512];
    if (b->failed++ >= FAILURES_SHOWN)
        return;
    problem_to_driver(problem, line, sizeof(line));
    struct json *j = json_object();
    json_set_text(j, "problem", line);
    json_set_text(j, "code", kiln_code_name(why->code));
    json_set_text(j, "text", why->text);
    json_append(b->failures, j);
}

/* While others of this build are under way a full queue is no failure: fewer at once will fit. */
static bool ask_again(struct build *b, struct build_item *item, enum kiln_code code)
{
    if (code != KILN_BUSY || b->under_way == 0)
        return false;
    b->window = b->under_way;
    item->next_again = b->again;
    b->again = item;
    return true;
}

static void take_result(struct build_item *item, const struct fetch_result *result)
{
    struct build *b = item->build;
    b->under_way--;
    if (ask_again(b, item, result->err.code))
        return;
    b->window += b->window < FETCHES_AT_ONCE;
    b->ended++;
    if (result->err.code) {
        note_failure(b, &item->problem, &result->err);
        return;
    }
    item->key = result->key;
    item->object = object_ref(result->object);
}

static void begin_more(struct build *b);

static void item_ready(struct fetch_ticket *ticket, const struct fetch_result *result)
{
    struct build_item *item = (struct build_item *)ticket;
    take_result(item, result);
    begin_more(item->build);
}

static void begin_item(struct build *b, struct build_item *item)
{
    PROGRAM_JOB_AUTO struct program_job p = { 0 };
    struct fetch_result result = { .err = KILN_ERR_INIT };
    b->under_way++;
    item->ticket = (struct fetch_ticket){ .uid = b->waiter.caller->uid,
                                          .priority = PRIORITY_PREFETCH,
                                          .ready = item_ready };
    if (program_job_make(&item->program, &b->target, &b->toolchain, &p, &result.err)) {
        take_result(item, &result);
        return;
    }
    const struct fetch_want want = { .job = &p.job, .tc = &b->toolchain };
    if (fetch_begin(b->engine, &want, &item->ticket, &result))
        take_result(item, &result);
}

static struct build_item *next_item(struct build *b)
{
    struct build_item *item = b->again;
    if (item)
        b->again = item->next_again;
    else if (b->begun < b->count)
        item = &b->items[b->begun++];
    return item;
}

static void begin_more(struct build *b)
{
    if (b->beginning)
        return;
    b->beginning = true;
    for (bool more = true; more && b->under_way < b->window;) {
        struct build_item *item = next_item(b);
        more = item != NULL;
        if (item)
            begin_item(b, item);
    }
    b->beginning = false;
    tell_progress(b);
    if (b->ended == b->count)
        write_out(b);
}

/* ---- the question ---- */

static const struct admin_member build_members[] = {
    { "target", MEMBER_TEXT },
    { "database_id", MEMBER_TEXT },
    { "format", MEMBER_TEXT },
    { "toolchain", MEMBER_TEXT },
    { 0 },
};

static enum kiln_code add_problem(struct build *b, const struct problem *problem,
                                  struct kiln_err *err)
{
    KILN_AUTO(mem) struct solution *s = calloc(1, sizeof(*s));
    if (!s)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot plan a problem");
    enum kiln_code rc = problem_check(problem, err);
    if (!rc)
        rc = solver_solve(problem, &b->target, (struct bytes){ 0 }, s, err);
    if (rc) {
        note_failure(b, problem, err);
        *err = KILN_ERR_INIT;
        return KILN_OK; /* the others may be fine */
    }
    for (uint32_t i = 0; i < s->program_count; i++) {
        if (b->count == b->capacity)
            return kiln_fail(err, KILN_INVALID, "the problems need more than %zu kernels",
                             b->capacity);
        b->items[b->count++] =
            (struct build_item){ .build = b, .program = s->programs[i], .problem = *problem };
    }
    return KILN_OK;
}

/* The file must be a sealed memfd: nobody can change or cut it while it is read here. */
static enum kiln_code read_problems(struct build *b, int fd, struct kiln_err *err)
{
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, PROBLEMS_MOST * PROBLEM_WIRE_SIZE);
    if (!fs_is_sealed(fd))
        return kiln_fail(err, KILN_INVALID, "the problems must come as a sealed memory file");
    enum kiln_code rc = fs_read_fd(fd, PROBLEMS_MOST * PROBLEM_WIRE_SIZE, &content, err);
    if (rc)
        return kiln_while(err, "reading the problems (at most %u)", PROBLEMS_MOST);
    size_t count = content.size / PROBLEM_WIRE_SIZE;
    if (count == 0 || content.size % PROBLEM_WIRE_SIZE)
        return kiln_fail(err, KILN_INVALID, "a file of %zu bytes is no list of problems",
                         content.size);
    rc = budget_take(b->engine->budget, b->uid, count * sizeof(*b->items), err);
    if (rc)
        return kiln_while(err, "keeping %zu problems", count);
    b->charged = count * sizeof(*b->items);
    b->capacity = count * 2 + 8;
    b->items = calloc(b->capacity, sizeof(*b->items));
    if (!b->items)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep %zu problems", count);
    struct reader r = reader_of(buffer_view(&content));
    for (size_t i = 0; !rc && i < count; i++) {
        struct problem problem = problem_read(&r);
        rc = add_problem(b, &problem, err);
    }
    return rc;
}

static enum kiln_code check_question(struct build *b, uid_t uid, struct kiln_err *err)
{
    const struct json *q = b->question;
    const char *format = json_get_text(q, "format", "kdb");
    const char *id = json_get_text(q, "database_id", "");
    struct database_id parsed;
    const struct toolchain *tc = NULL;
    b->format = strcmp(format, "kiln") == 0 ? PACKAGE_KILN : PACKAGE_KDB;
    if (b->format == PACKAGE_KDB && strcmp(format, "kdb") != 0)
        return kiln_fail(err, KILN_INVALID, "there is no package format '%.40s': kdb or kiln",
                         format);
    enum kiln_code rc =
        target_parse(bytes_of_text(json_get_text(q, "target", "")), &b->target, err);
    if (!rc && id[0])
        rc = database_id_parse(bytes_of_text(id), &parsed, err);
    if (!rc)
        rc = toolchains_resolve(b->engine, uid, &b->target,
                                bytes_of_text(json_get_text(q, "toolchain", "")), &tc, err);
    if (rc == KILN_BUSY)
        return kiln_fail(err, rc, "it is being found out which compiler can do %s: ask again",
                         b->target.text);
    if (!rc)
        b->toolchain = *tc;
    return rc;
}

enum kiln_code handle_package_build(struct engine *e, struct caller *caller,
                                    const struct frame_header *header, struct bytes body,
                                    struct kiln_err *err)
{
    struct build *b = calloc(1, sizeof(*b));
    if (!b)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep the request");
    b->engine = e;
    b->uid = caller->uid;
    b->window = FETCHES_AT_ONCE;
    b->answer = json_object();
    b->failures = json_array();
    b->err = KILN_ERR_INIT;
    enum kiln_code rc = admin_read(header, body, build_members, &b->question, err);
    if (!rc && caller->file_count != 1)
        rc = kiln_fail(err, KILN_INVALID, "one file with the problems must come with it");
    if (!rc)
        rc = check_question(b, caller->uid, err);
    if (!rc)
        rc = read_problems(b, caller->files[0], err);
    if (rc) {
        build_destroy(b);
        return rc;
    }
    service_waiter_add(&b->waiter, e, caller, header->request_id, cancel_build);
    begin_more(b);
    return KILN_OK;
}
