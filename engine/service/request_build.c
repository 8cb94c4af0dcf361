/* SPDX-License-Identifier: MIT */
/*
 * The request package_build: problems in, a package of their kernels out.
 *
 * A lane solves the problems and sorts the kernels as the package has them.  They are fetched in
 * that order, like a plan's, a window of them at a time, and written in steps on a lane as they
 * come; the package goes back as a descriptor.  One step of one build runs at a time.
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

#define PROBLEMS_MOST 20000u
/* Kernels begun and not written: enough for every compiler, few enough for descriptors. */
#define WINDOW 256
#define BEGUN_A_TURN 64 /* hot ones are there at once: others' turns must come */
#define ROWS_A_STEP 64
#define NAME_BYTES 1024 /* of a kernel's name and arguments, more or less */
#define PROGRESS_EVERY_NS 200000000u
#define FAILURES_SHOWN 100

struct build_item {
    struct fetch_ticket ticket; /* first member */
    struct build *build;
    struct build_item *next_again;
    struct solution_program *program; /* owned, as the next; until the row is written */
    struct buffer name, args;         /* the row's place */
    struct problem problem;
    struct object *object; /* owned reference; NULL until it is there, and when it failed */
    struct digest key;
    bool ended;
};

struct build {
    struct service_waiter waiter; /* first member */
    struct task task;
    struct engine *engine;
    struct build *next_waiting;     /* for its turn */
    struct json *question, *answer; /* owned */
    struct json *failures;          /* owned until it is in the answer */
    struct target target;
    struct toolchain toolchain; /* a copy */
    enum package_format format;
    struct buffer problems;
    struct build_item *items; /* owned */
    size_t item_count, capacity;
    struct build_item **order; /* owned: each kernel once, as the package has them */
    size_t count;
    uid_t uid;
    uint64_t charged; /* bytes: to its user's budget */
    size_t begun, ended, failed;
    size_t ready;             /* of order: all before it have ended */
    size_t written, step_end; /* all before are written, and are when the step is done */
    size_t under_way, fetches_most;
    struct build_item *again; /* to be asked for again: there was no room in the queue */
    uint64_t told_ns;
    bool step_waits, step_runs;    /* for the turn; on a lane */
    struct package_writer *writer; /* owned */
    char path[PATH_MAX];
    uint64_t rows;
    struct object *file; /* owned reference: the package */
    enum kiln_code rc;
    struct kiln_err err;
};

static void drop_item(struct build_item *item)
{
    item->object = object_unref(item->object);
    free(item->program);
    item->program = NULL;
    buffer_done(&item->name);
    buffer_done(&item->args);
}

static void build_destroy(struct build *b)
{
    service_waiter_remove(&b->waiter);
    for (size_t i = 0; i < b->item_count; i++)
        drop_item(&b->items[i]);
    free(b->items);
    free(b->order);
    buffer_done(&b->problems);
    package_writer_destroy(b->writer);
    budget_give(b->engine->budget, b->uid, b->charged);
    object_unref(b->file);
    json_destroy(b->question);
    json_destroy(b->answer);
    json_destroy(b->failures);
    free(b);
}

static struct build *build_of_task(struct task *task)
{
    return (struct build *)(void *)((char *)task - offsetof(struct build, task));
}

/* ---- its end ---- */

static void abandon_work(struct task *task)
{
    struct build *b = build_of_task(task);
    package_writer_destroy(b->writer);
    b->writer = NULL;
}

static void abandon_done(struct task *task)
{
    struct build *b = build_of_task(task);
    engine_task_ended(b->engine);
    build_destroy(b);
}

static void leave_queue(struct build *b)
{
    struct build **at = &b->engine->build_waiting;
    while (*at && *at != b)
        at = &(*at)->next_waiting;
    if (*at)
        *at = b->next_waiting;
    b->step_waits = false;
}

/* While a step runs, that ends it. */
static void end_build(struct build *b)
{
    service_waiter_remove(&b->waiter);
    for (size_t i = b->written; i < b->begun; i++)
        fetch_cancel(b->engine, &b->order[i]->ticket);
    leave_queue(b);
    if (b->step_runs)
        return;
    if (!b->writer) {
        build_destroy(b);
        return;
    }
    b->task = (struct task){ .work = abandon_work, .done = abandon_done }; /* a file to remove */
    engine_run(b->engine, LANE_READ, &b->task);
}

static void cancel_build(struct service_waiter *w) { end_build((struct build *)w); }

static void fail_build(struct build *b, const struct kiln_err *why)
{
    if (b->waiter.caller)
        service_refuse(b->engine, b->waiter.caller, b->waiter.request_id, why, NULL);
    end_build(b);
}

/* A package that lacks what would have come is no success. */
static void fail_as_it_stops(struct build *b)
{
    struct kiln_err why = KILN_ERR_INIT;
    why.code = kiln_fail(&why, KILN_UNAVAILABLE, "kilnd is stopping: ask again");
    fail_build(b, &why);
}

/* ---- steps, which take turns ---- */

static void start_next_step(struct engine *e)
{
    struct build *b = e->build_waiting;
    if (!b || e->build_runs)
        return;
    e->build_runs = true;
    leave_queue(b);
    b->step_runs = true;
    b->step_end = b->ready - b->written > ROWS_A_STEP ? b->written + ROWS_A_STEP : b->ready;
    engine_run(e, LANE_READ, &b->task);
}

static void ask_for_step(struct build *b, void (*work)(struct task *), void (*done)(struct task *))
{
    struct build **at = &b->engine->build_waiting;
    if (b->step_waits || b->step_runs)
        return;
    b->task = (struct task){ .work = work, .done = done };
    b->next_waiting = NULL;
    b->step_waits = true;
    while (*at)
        at = &(*at)->next_waiting;
    *at = b;
    start_next_step(b->engine);
}

/* False: the build has ended meanwhile, and is gone. */
static bool end_step(struct build *b)
{
    struct engine *e = b->engine;
    engine_task_ended(e);
    b->step_runs = false;
    e->build_runs = false;
    start_next_step(e);
    if (!b->waiter.caller)
        end_build(b);
    else if (b->rc)
        fail_build(b, &b->err);
    else
        return true;
    return false;
}

/* ---- the package ---- */

static enum kiln_code add_item(struct build *b, const struct build_item *item,
                               struct package_writer *writer, struct kiln_err *err)
{
    PROGRAM_JOB_AUTO struct program_job p = { 0 };
    OBJECT_VIEW_AUTO struct object_view view = { 0 };
    enum kiln_code rc = program_job_make(item->program, &b->target, &b->toolchain, &p, err);
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

static enum kiln_code open_package(struct build *b)
{
    snprintf(b->path, sizeof(b->path), "%s/build-%llx-%p", b->engine->staging,
             (unsigned long long)clock_monotonic_ns(), (void *)b);
    return package_writer_create(b->path, b->format, &b->writer, &b->err);
}

static enum kiln_code finish_package(struct build *b)
{
    if (b->rows == 0)
        return kiln_fail(&b->err, KILN_UNSUPPORTED, "none of the problems could be built: %s",
                         json_get_text(json_first(b->failures), "text", "there was none"));
    enum kiln_code rc = package_writer_finish(b->writer, &b->err);
    if (rc)
        return rc;
    package_writer_destroy(b->writer);
    b->writer = NULL;
    rc = object_of_file(b->path, &b->file, &b->err);
    unlink(b->path);
    return rc;
}

static void write_rows(struct task *task)
{
    struct build *b = build_of_task(task);
    if (!b->writer)
        b->rc = open_package(b);
    for (size_t i = b->written; !b->rc && i < b->step_end; i++) {
        if (!b->order[i]->object)
            continue;
        b->rc = add_item(b, b->order[i], b->writer, &b->err);
        b->rows++;
    }
    if (!b->rc && b->step_end == b->count)
        b->rc = finish_package(b);
}

static void send_package(struct build *b)
{
    json_set_u64(b->answer, "kernels", b->rows);
    json_set_u64(b->answer, "size", b->file->size);
    json_set(b->answer, "failed", KILN_TAKE(b->failures));
    json_set_u64(b->answer, "failures", b->failed);
    admin_send_files(b->engine, b->waiter.caller, b->waiter.request_id, b->answer, &b->file, 1);
    build_destroy(b);
}

static void go_on(struct build *b);

static void rows_written(struct task *task)
{
    struct build *b = build_of_task(task);
    if (!end_step(b))
        return;
    for (; b->written < b->step_end; b->written++)
        drop_item(b->order[b->written]);
    if (b->file)
        send_package(b);
    else
        go_on(b);
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
    b->fetches_most = b->under_way;
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
    b->fetches_most += b->fetches_most < WINDOW;
    b->ended++;
    item->ended = true;
    if (result->err.code) {
        note_failure(b, &item->problem, &result->err);
        return;
    }
    item->key = result->key;
    item->object = object_ref(result->object);
}

static void item_ready(struct fetch_ticket *ticket, const struct fetch_result *result)
{
    struct build_item *item = (struct build_item *)ticket;
    take_result(item, result);
    go_on(item->build);
}

static void begin_item(struct build *b, struct build_item *item)
{
    PROGRAM_JOB_AUTO struct program_job p = { 0 };
    struct fetch_result result = { .err = KILN_ERR_INIT };
    b->under_way++;
    item->ticket =
        (struct fetch_ticket){ .uid = b->uid, .priority = PRIORITY_PREFETCH, .ready = item_ready };
    if (program_job_make(item->program, &b->target, &b->toolchain, &p, &result.err)) {
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
    if (b->under_way >= b->fetches_most)
        return NULL;
    if (item)
        b->again = item->next_again;
    else if (b->begun < b->count && b->begun - b->written < WINDOW)
        item = b->order[b->begun++];
    return item;
}

/* Whether there were more than one turn may begin. */
static bool begin_more(struct build *b)
{
    for (unsigned begun = 0; begun < BEGUN_A_TURN; begun++) {
        struct build_item *item = next_item(b);
        if (!item)
            return false;
        begin_item(b, item);
    }
    return true;
}

/* Whoever is told of the last kernel: the build may be gone when this returns. */
static void go_on(struct build *b)
{
    if (b->engine->draining) {
        fail_as_it_stops(b);
        return;
    }
    bool more = begin_more(b);
    while (b->ready < b->begun && b->order[b->ready]->ended)
        b->ready++;
    tell_progress(b);
    /* Without rows to write a step lets the loop turn, and others' builds as well. */
    if (more || b->ready == b->count || b->ready - b->written >= ROWS_A_STEP)
        ask_for_step(b, write_rows, rows_written);
}

/* ---- which kernels ---- */

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
    enum kiln_code rc = program_job_make(item->program, &b->target, &b->toolchain, &p, err);
    if (rc)
        return rc;
    struct package_source source = program_job_source(&p.job);
    rc = package_kernel_name(&source, &item->name, err);
    return rc ? rc : package_kernel_args(&source, &b->target, &item->args, err);
}

static enum kiln_code add_program(struct build *b, const struct problem *problem,
                                  const struct solution_program *program, struct kiln_err *err)
{
    if (b->item_count == b->capacity)
        return kiln_fail(err, KILN_INVALID, "the problems need more than %zu kernels", b->capacity);
    struct build_item *item = &b->items[b->item_count++];
    *item = (struct build_item){ .build = b, .problem = *problem };
    buffer_init(&item->name, LIMIT_OPTIONS_TEXT);
    buffer_init(&item->args, 2 * LIMIT_OPTIONS_TEXT);
    item->program = malloc(sizeof(*item->program));
    if (!item->program)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep %zu kernels", b->item_count);
    *item->program = *program;
    return name_item(b, item, err);
}

static enum kiln_code add_problem(struct build *b, const struct problem *problem,
                                  struct solution *s, struct kiln_err *err)
{
    *s = (struct solution){ 0 };
    enum kiln_code rc = problem_check(problem, err);
    if (!rc)
        rc = solver_solve(problem, &b->target, (struct bytes){ 0 }, s, err);
    if (rc) {
        note_failure(b, problem, err);
        *err = KILN_ERR_INIT;
        return KILN_OK; /* the others may be fine */
    }
    for (uint32_t i = 0; !rc && i < s->program_count; i++)
        rc = add_program(b, problem, &s->programs[i], err);
    return rc;
}

/* Several problems may need the same kernel. */
static enum kiln_code sort_items(struct build *b, struct kiln_err *err)
{
    b->order = calloc(b->item_count + 1, sizeof(struct build_item *));
    if (!b->order)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot sort %zu kernels", b->item_count);
    for (size_t i = 0; i < b->item_count; i++)
        b->order[i] = &b->items[i];
    qsort(b->order, b->item_count, sizeof(struct build_item *), compare_items);
    for (size_t i = 0; i < b->item_count; i++) {
        if (b->count > 0 && compare_items(&b->order[b->count - 1], &b->order[i]) == 0)
            drop_item(b->order[i]);
        else
            b->order[b->count++] = b->order[i];
    }
    return KILN_OK;
}

static void solve_work(struct task *task)
{
    struct build *b = build_of_task(task);
    KILN_AUTO(mem) struct solution *s = malloc(sizeof(*s));
    struct reader r = reader_of(buffer_view(&b->problems));
    if (!s)
        b->rc = kiln_fail(&b->err, KILN_NO_MEMORY, "cannot plan the problems");
    for (size_t left = b->problems.size / PROBLEM_WIRE_SIZE; !b->rc && left > 0; left--) {
        struct problem problem = problem_read(&r);
        b->rc = add_problem(b, &problem, s, &b->err);
    }
    if (!b->rc)
        b->rc = sort_items(b, &b->err);
    buffer_done(&b->problems);
}

static void solve_done(struct task *task)
{
    struct build *b = build_of_task(task);
    if (end_step(b))
        go_on(b);
}

/* ---- the question ---- */

static const struct admin_member build_members[] = {
    { "target", MEMBER_TEXT },
    { "database_id", MEMBER_TEXT },
    { "format", MEMBER_TEXT },
    { "toolchain", MEMBER_TEXT },
    { 0 },
};

/* The file must be a sealed memfd: nobody can change or cut it while it is read here. */
static enum kiln_code read_problems(struct build *b, int fd, struct kiln_err *err)
{
    if (!fs_is_sealed(fd))
        return kiln_fail(err, KILN_INVALID, "the problems must come as a sealed memory file");
    enum kiln_code rc = fs_read_fd(fd, PROBLEMS_MOST * PROBLEM_WIRE_SIZE, &b->problems, err);
    if (rc)
        return kiln_while(err, "reading the problems (at most %u)", PROBLEMS_MOST);
    size_t size = b->problems.size, count = size / PROBLEM_WIRE_SIZE;
    if (count == 0 || size % PROBLEM_WIRE_SIZE)
        return kiln_fail(err, KILN_INVALID, "a file of %zu bytes is no list of problems", size);
    b->capacity = count * 2 + 8;
    uint64_t bytes =
        b->capacity * (sizeof(*b->items) + sizeof(struct solution_program) + NAME_BYTES) + size;
    rc = budget_take(b->engine->budget, b->uid, bytes, err);
    if (rc)
        return kiln_while(err, "keeping %zu problems", count);
    b->charged = bytes;
    b->items = calloc(b->capacity, sizeof(*b->items));
    if (!b->items)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep %zu problems", count);
    return KILN_OK;
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
    if (e->draining)
        return kiln_fail(err, KILN_UNAVAILABLE, "kilnd is stopping: ask again");
    struct build *b = calloc(1, sizeof(*b));
    if (!b)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep the request");
    b->engine = e;
    b->uid = caller->uid;
    b->fetches_most = WINDOW;
    buffer_init(&b->problems, PROBLEMS_MOST * PROBLEM_WIRE_SIZE);
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
    ask_for_step(b, solve_work, solve_done);
    return KILN_OK;
}
