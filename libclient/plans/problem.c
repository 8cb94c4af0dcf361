/* SPDX-License-Identifier: MIT */
#include "libclient/plans/problem.h"

#include "common/miopen/driver_line.h"
#include "libclient/failure.h"
#include "libclient/sized.h"

#include <string.h>

_Static_assert((int)KILN_BACKWARD_DATA == (int)DIRECTION_BACKWARD_DATA &&
                   (int)KILN_BACKWARD_WEIGHTS == (int)DIRECTION_BACKWARD_WEIGHTS &&
                   (int)KILN_CHANNELS_LAST == (int)LAYOUT_CHANNELS_LAST &&
                   (int)KILN_FLOAT16 == (int)TYPE_FLOAT16 &&
                   (int)KILN_BFLOAT16 == (int)TYPE_BFLOAT16 && (int)KILN_INT8 == (int)TYPE_INT8 &&
                   sizeof(((struct kiln_driver_line *)0)->solver) == DRIVER_SOLVER_MAX,
               "<kiln/problem.h> differs from common/protocol/problem.h");

static struct extent to_extent(const uint32_t v[3])
{
    return (struct extent){ .d = v[0], .h = v[1], .w = v[2] };
}

static void from_extent(struct extent e, uint32_t ret_v[3])
{
    ret_v[0] = e.d;
    ret_v[1] = e.h;
    ret_v[2] = e.w;
}

enum kiln_code problem_from_public(const struct kiln_problem *from, struct problem *ret_problem,
                                   struct kiln_err *err)
{
    if (!from || !sized_is_fine(from->size, SIZED_TO(struct kiln_problem, allow_tf32)))
        return kiln_fail(err, KILN_INVALID,
                         "kiln_problem.size is not set: give it sizeof the struct");
    struct problem p = {
        .direction = from->direction,
        .spatial_dims = from->spatial_dims,
        .type = from->type,
        .x_layout = from->x_layout,
        .w_layout = from->w_layout,
        .y_layout = from->y_layout,
        .n = from->n,
        .c = from->c,
        .k = from->k,
        .groups = from->groups,
        .in = to_extent(from->in),
        .filter = to_extent(from->filter),
        .pad = to_extent(from->pad),
        .stride = to_extent(from->stride),
        .dilation = to_extent(from->dilation),
        .allow_tf32 = from->allow_tf32 && from->type == KILN_FLOAT32,
    };
    enum kiln_code rc = problem_check(&p, err);
    if (!rc)
        *ret_problem = p;
    return rc;
}

static void problem_to_public(const struct problem *from, struct kiln_problem *ret_problem)
{
    *ret_problem = (struct kiln_problem){
        .size = sizeof(*ret_problem),
        .direction = from->direction,
        .spatial_dims = from->spatial_dims,
        .type = from->type,
        .x_layout = from->x_layout,
        .w_layout = from->w_layout,
        .y_layout = from->y_layout,
        .n = from->n,
        .c = from->c,
        .k = from->k,
        .groups = from->groups,
        .allow_tf32 = from->allow_tf32,
    };
    from_extent(from->in, ret_problem->in);
    from_extent(from->filter, ret_problem->filter);
    from_extent(from->pad, ret_problem->pad);
    from_extent(from->stride, ret_problem->stride);
    from_extent(from->dilation, ret_problem->dilation);
}

static void line_to_public(const struct driver_line *from, struct kiln_driver_line *ret_line)
{
    struct problem p;
    struct kiln_driver_line line = {
        .size = ret_line->size,
        .iterations = from->iterations,
        .verify = from->verify,
        .time = from->time,
        .wall = from->wall,
        .search = from->search,
        .transposed = from->transposed,
    };
    memcpy(line.solver, from->solver, sizeof(from->solver));
    while (line.count < 3 && driver_line_problem(from, line.count, &p))
        problem_to_public(&p, &line.problems[line.count++]);
    memcpy(ret_line, &line, line.size < sizeof(line) ? line.size : sizeof(line));
}

static int return_line(enum kiln_code code, const struct driver_line *parsed, struct kiln_err *e,
                       struct kiln_driver_line *ret_line, struct kiln_error *err)
{
    if (!code)
        line_to_public(parsed, ret_line);
    if (code == KILN_NOT_FOUND)
        kiln_fail(e, code, "the line is blank or a comment");
    return error_return(e, code, err);
}

static bool is_line(const struct kiln_driver_line *line)
{
    return line && sized_is_fine(line->size, SIZED_TO(struct kiln_driver_line, solver));
}

int kiln_driver_line_parse(const char *line, struct kiln_driver_line *ret_line,
                           struct kiln_error *err)
{
    struct kiln_err e = KILN_ERR_INIT;
    struct driver_line parsed;
    if (!line || !is_line(ret_line))
        return error_argument(err, "kiln_driver_line_parse needs a line and a pointer for it, with "
                                   "size set to sizeof the struct");
    enum kiln_code rc = driver_line_parse(bytes_of_text(line), &parsed, &e);
    return return_line(rc, &parsed, &e, ret_line, err);
}

int kiln_driver_words_parse(const char *const *words, size_t count,
                            struct kiln_driver_line *ret_line, struct kiln_error *err)
{
    struct kiln_err e = KILN_ERR_INIT;
    struct driver_line parsed;
    if ((!words && count) || !is_line(ret_line))
        return error_argument(err,
                              "kiln_driver_words_parse needs arguments and a pointer for the line, "
                              "with size set to sizeof the struct");
    enum kiln_code rc = driver_words_parse(words, count, &parsed, &e);
    return return_line(rc, &parsed, &e, ret_line, err);
}

const char *kiln_driver_flag(unsigned index, char *ret_letter, const char **ret_name)
{
    char letter;
    const char *name;
    const char *help = driver_flag(index, &letter, &name);
    if (help && ret_letter)
        *ret_letter = letter;
    if (help && ret_name)
        *ret_name = name;
    return help;
}

int kiln_problem_from_driver(const char *line, struct kiln_problem ret_problems[3],
                             unsigned *ret_count, struct kiln_error *err)
{
    struct kiln_driver_line parsed = { .size = sizeof(parsed) };
    if (!line || !ret_problems || !ret_count)
        return error_argument(err,
                              "kiln_problem_from_driver needs a line and pointers for the results");
    int rc = kiln_driver_line_parse(line, &parsed, err);
    if (rc)
        return rc;
    memcpy(ret_problems, parsed.problems, parsed.count * sizeof(parsed.problems[0]));
    *ret_count = parsed.count;
    return KILN_E_OK;
}

int kiln_problem_to_driver(const struct kiln_problem *problem, char *text, size_t size,
                           struct kiln_error *err)
{
    struct kiln_err e = KILN_ERR_INIT;
    struct problem p;
    enum kiln_code rc = problem_from_public(problem, &p, &e);
    if (!rc && (!text || !size))
        return error_argument(err, "kiln_problem_to_driver needs a buffer for the text");
    if (!rc)
        problem_to_driver(&p, text, size);
    return error_return(&e, rc, err);
}

int kiln_problem_check(const struct kiln_problem *problem, struct kiln_error *err)
{
    struct kiln_err e = KILN_ERR_INIT;
    struct problem unused;
    return error_return(&e, problem_from_public(problem, &unused, &e), err);
}

int kiln_problem_output(const struct kiln_problem *problem, uint32_t ret_output[3],
                        struct kiln_error *err)
{
    struct kiln_err e = KILN_ERR_INIT;
    struct problem p;
    enum kiln_code rc = problem_from_public(problem, &p, &e);
    if (!rc)
        from_extent(problem_output(&p), ret_output);
    return error_return(&e, rc, err);
}

int kiln_problem_tensor(const struct kiln_problem *problem, int which, uint64_t *ret_elements,
                        uint64_t *ret_bytes, struct kiln_error *err)
{
    struct kiln_err e = KILN_ERR_INIT;
    struct problem p;
    enum kiln_code rc = problem_from_public(problem, &p, &e);
    if (rc)
        return error_return(&e, rc, err);
    uint64_t elements;
    switch (which) {
    case KILN_TENSOR_X: elements = problem_x_elements(&p); break;
    case KILN_TENSOR_W: elements = problem_w_elements(&p); break;
    case KILN_TENSOR_Y: elements = problem_y_elements(&p); break;
    default: return error_argument(err, "there is no tensor %d: x is 0, w is 1, y is 2", which);
    }
    if (ret_elements)
        *ret_elements = elements;
    if (ret_bytes)
        *ret_bytes = elements * data_type_size((enum data_type)p.type);
    return KILN_E_OK;
}
