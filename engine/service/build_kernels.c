/* SPDX-License-Identifier: MIT */
#include "engine/service/build.h"

#include "engine/service/program_job.h"

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
        build_note_failure(b, problem, err);
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
            build_drop_item(b->order[i]);
        else
            b->order[b->count++] = b->order[i];
    }
    return KILN_OK;
}

void build_solve_work(struct task *task)
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

void build_solve_done(struct task *task)
{
    struct build *b = build_of_task(task);
    if (build_end_step(b))
        build_go_on(b);
}
