/* SPDX-License-Identifier: MIT */
#include "engine/service/packages/build.h"

#include "common/base/array.h"
#include "engine/service/kernels/program_job.h"
#include "engine/service/tuning/tuning_service.h"

/* Number of problems whose solvers are chosen in one loop iteration. Each takes a few
 * microseconds. */
#define CHOSEN_AT_ONCE 256

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
    /* Items may move in memory here, because nothing points to them yet. */
    if (!ARRAY_RESERVE(b->items, b->item_count, b->capacity, LIMIT_PLAN_KERNELS))
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep %zu kernels", b->item_count + 1);
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
                                  const struct plan_choice *choice, struct solution *s,
                                  struct kiln_err *err)
{
    *s = (struct solution){ 0 };
    enum kiln_code rc = problem_check(problem, err);
    if (!rc)
        rc = solver_solve(problem, &b->target, &choice->chosen, s, err);
    if (rc) {
        build_note_failure(b, problem, err);
        *err = KILN_ERR_INIT;
        return KILN_OK;
    }
    for (uint32_t i = 0; !rc && i < s->program_count; i++)
        rc = add_program(b, problem, &s->programs[i], err);
    return rc;
}

/* Sorts the kernels into the package's order, and removes duplicates, because several problems may
 * need the same kernel. */
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
            build_drop_item(b->order[i]);
        else
            b->order[b->count++] = b->order[i];
    }
    return KILN_OK;
}

static void solve_problems(struct deferred *d)
{
    struct build *b = build_of(d);
    KILN_AUTO(mem) struct solution *s = malloc(sizeof(*s));
    struct reader r = reader_of(buffer_view(&b->problems));
    if (!s)
        b->base.rc = kiln_fail(&b->base.err, KILN_NO_MEMORY, "cannot plan the problems");
    for (size_t i = 0; !b->base.rc && i < b->problem_count; i++) {
        struct problem problem = problem_read(&r);
        b->base.rc = add_problem(b, &problem, &b->choices[i], s, &b->base.err);
    }
    if (!b->base.rc)
        b->base.rc = sort_items(b, &b->base.err);
    buffer_done(&b->problems);
    free(b->choices);
    b->choices = NULL;
}

static enum kiln_code charge_more(struct build *b, struct kiln_err *err)
{
    if (b->count <= b->charged_items)
        return KILN_OK;
    uint64_t bytes = (b->count - b->charged_items) * BUILD_ITEM_BYTES;
    enum kiln_code rc = deferred_charge(&b->base, bytes, err);
    if (rc)
        return kiln_while(err, "keeping %zu kernels", b->count);
    b->charged_items = b->count;
    return KILN_OK;
}

static void gather_kernels(struct deferred *d)
{
    struct build *b = build_of(d);
    if (!build_step_ended(b))
        return;
    if (charge_more(b, &d->err))
        deferred_fail(d, &d->err, NULL);
    else
        build_go_on(b);
}

/* Chooses the solver of the next problem. Skips an invalid problem, which is reported when it is
 * solved. */
static void choose_next(struct build *b, const char *toolchain)
{
    size_t i = b->chosen++;
    struct reader r =
        reader_of(bytes_of(b->problems.data + i * PROBLEM_WIRE_SIZE, PROBLEM_WIRE_SIZE));
    const struct problem problem = problem_read(&r);
    const struct plan_options options = { .problem = &problem,
                                          .target = &b->target,
                                          .database_id = b->ids.device,
                                          .driver = "",
                                          .toolchain = toolchain,
                                          .uid = (uint32_t)b->base.uid };
    struct kiln_err ignored = KILN_ERR_INIT;
    if (problem_check(&problem, &ignored) ||
        plan_choose(tuning_databases(b->base.engine), &options, &b->choices[i], &ignored))
        b->choices[i] = (struct plan_choice){ .source = PLAN_SOURCE_HEURISTIC };
    else
        build_note_records(b, &problem);
}

static void ask_for_next(struct build *b);

static void choose_some(struct deferred *d)
{
    struct build *b = build_of(d);
    char toolchain[PLAN_TOOLCHAIN_MAX];
    if (!build_step_ended(b))
        return;
    plan_toolchain_write(&b->toolchain, toolchain);
    for (unsigned i = 0; i < CHOSEN_AT_ONCE && b->chosen < b->problem_count; i++)
        choose_next(b, toolchain);
    ask_for_next(b);
}

static const struct deferred_step choose_step = { .done = choose_some };
static const struct deferred_step solve_step = { .work_queue = WORK_QUEUE_READ,
                                                 .work = solve_problems,
                                                 .done = gather_kernels };

static void ask_for_next(struct build *b)
{
    build_enqueue(b, b->chosen < b->problem_count ? &choose_step : &solve_step);
}

void build_begin(struct build *b)
{
    if (b->is_generic || !tuning_databases(b->base.engine) || !b->ids.device[0])
        b->chosen = b->problem_count; /* without records, the heuristic chooses */
    ask_for_next(b);
}
