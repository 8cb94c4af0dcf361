/* SPDX-License-Identifier: MIT */
#include "libclient/plans/solutions.h"

#include "common/miopen/tuning_text.h"
#include "libclient/plans/problem.h"
#include "libclient/real.h"
#include "libclient/sized.h"

#include <string.h>

#define SOLUTIONS_MAX 64u

static enum kiln_code fail_damaged(struct failure *f)
{
    return kiln_fail(
        &f->err, KILN_CORRUPT,
        "kilnd's list of solvers is damaged: use matching versions of libkiln and kilnd");
}

static bool is_config(struct bytes text)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    return text.size == 0 ||
           tuning_word_check("config", text, /* commas= */ true, &ignored) == KILN_OK;
}

static bool is_solution(const struct message_solution *m)
{
    const struct tuning_entry e = { .solver = m->solver, .algorithm = m->algorithm };
    struct kiln_err ignored = KILN_ERR_INIT;
    return tuning_entry_check(TUNING_FIND, &e, /* direction= */ 0, &ignored) == KILN_OK &&
           is_config(m->config) && is_config(m->best_config) &&
           real_is_fine(real_of_bits(m->find_ms), 0) && real_is_fine(real_of_bits(m->best_ms), 0) &&
           m->valid <= m->candidates;
}

static void fill_solution(const struct message_solution *m, char **text, struct kiln_solution *s)
{
    *s = (struct kiln_solution){
        .size = sizeof(*s),
        .is_favoured = (m->flags & SOLUTION_FAVOURED) != 0,
        .find_ms = real_of_bits(m->find_ms),
        .workspace = m->workspace,
        .best_ms = real_of_bits(m->best_ms),
        .best_workspace = m->best_workspace,
        .candidates = m->candidates,
        .valid = m->valid,
        .valid_is_an_estimate = (m->flags & SOLUTION_ESTIMATED) != 0,
    };
    s->solver = bytes_pack_text(text, m->solver);
    s->algorithm = bytes_pack_text(text, m->algorithm);
    s->config = bytes_pack_text(text, m->config);
    s->best_config = bytes_pack_text(text, m->best_config);
}

static enum kiln_code read_solutions(const struct message_solved *m,
                                     struct kiln_solutions **ret_solutions, struct failure *failure)
{
    if (m->count == 0 || m->count > SOLUTIONS_MAX)
        return fail_damaged(failure);
    size_t list = sizeof(struct kiln_solutions) + m->count * sizeof(struct kiln_solution);
    /* One allocation holds the list and its texts.  The message's size is enough for the texts: in
     * the message, each text has a length of four bytes before it; here, each text has a terminator
     * of one byte after it. */
    KILN_AUTO(mem) struct kiln_solutions *s = calloc(1, list + m->solutions.size);
    if (!s)
        return kiln_fail(&failure->err, KILN_NO_MEMORY, "no memory for a list of solvers");
    char *text = (char *)s + list;
    s->list = (struct kiln_solution *)(void *)(s + 1);
    struct reader r = reader_of(m->solutions);
    for (; s->count < m->count; s->count++) {
        const struct message_solution one = message_solution_read(&r);
        if (r.failed || !is_solution(&one))
            return fail_damaged(failure);
        fill_solution(&one, &text, &s->list[s->count]);
    }
    if (r.at != r.end)
        return fail_damaged(failure);
    *ret_solutions = KILN_TAKE(s);
    return KILN_OK;
}

static enum kiln_code accept_solved(struct request *request, const struct reply *reply,
                                    struct failure *failure)
{
    struct reader r = reader_of(reply->body);
    const struct message_solved m = message_solved_read(&r);
    if (reply->header->type != MESSAGE_solved || (reply->header->flags & FRAME_MORE) || r.failed ||
        r.at != r.end)
        return fail_damaged(failure);
    return read_solutions(&m, request->context, failure);
}

struct solutions_question {
    const struct problem *problem;
    struct bytes target, database_id, driver, toolchain; /* all except |target| may be empty */
};

static enum kiln_code ask_solutions(struct kiln_client *client,
                                    const struct solutions_question *question, uint64_t deadline_ns,
                                    struct kiln_solutions **ret_solutions, struct failure *failure)
{
    const struct message_solutions m = { .problem = *question->problem,
                                         .target = question->target,
                                         .database_id = question->database_id,
                                         .driver = question->driver,
                                         .toolchain = question->toolchain };
    BUFFER_AUTO struct buffer frame;
    client_frame_init(&frame);
    message_solutions_write(&frame, &m);
    WAITER_AUTO struct waiter waiter;
    waiter_init(&waiter);
    struct kiln_solutions *solutions = NULL;
    struct request rq = { .type = MESSAGE_solutions,
                          .frame = &frame,
                          .waiter = &waiter,
                          .accept = accept_solved,
                          .context = &solutions };
    enum kiln_code rc = multiplexer_call(client->multiplexer, &rq, deadline_ns);
    failure_done(failure);
    *failure = rq.failure;
    if (rc)
        free(solutions);
    else
        *ret_solutions = solutions;
    return rc;
}

static enum kiln_code read_options(const struct kiln_plan_options *options,
                                   struct solutions_question *question, int *ret_timeout_ms,
                                   struct kiln_err *err)
{
    struct kiln_plan_options o;
    if (!options || !sized_is_fine(options->size, SIZED_TO(struct kiln_plan_options, no_objects)))
        return kiln_fail(err, KILN_INVALID,
                         "kiln_plan_options.size is not set: give it sizeof the struct");
    sized_copy(&o, sizeof(o), options, options->size);
    if (!o.target || !o.target[0])
        return kiln_fail(err, KILN_INVALID,
                         "kiln_plan_options.target is not set: use kiln_device_target() of the "
                         "device");
    question->target = bytes_of_text(o.target);
    question->database_id = bytes_of_text(o.database_id);
    question->driver = bytes_of_text(o.driver);
    question->toolchain = bytes_of_text(o.toolchain);
    *ret_timeout_ms = o.timeout_ms;
    return KILN_OK;
}

int kiln_solutions_get(struct kiln_client *client, const struct kiln_problem *problem,
                       const struct kiln_plan_options *options,
                       struct kiln_solutions **ret_solutions, struct kiln_error *err)
{
    FAILURE_AUTO struct failure f = FAILURE_INIT;
    uint64_t deadline_ns;
    struct problem p;
    struct solutions_question question = { .problem = &p };
    int timeout_ms = 0;
    if (!ret_solutions)
        return error_argument(err, "kiln_solutions_get needs a pointer for the list");
    enum kiln_code rc = read_options(options, &question, &timeout_ms, &f.err);
    if (!rc)
        rc = client_enter(client, timeout_ms, &deadline_ns, &f.err);
    if (!rc)
        rc = problem_from_public(problem, &p, &f.err);
    if (!rc)
        rc = ask_solutions(client, &question, deadline_ns, ret_solutions, &f);
    return failure_return(&f, rc, err);
}

void kiln_solutions_free(struct kiln_solutions *solutions) { free(solutions); }

unsigned kiln_solutions_count(const struct kiln_solutions *solutions) { return solutions->count; }

int kiln_solutions_at(const struct kiln_solutions *solutions, unsigned index,
                      struct kiln_solution *ret_solution, struct kiln_error *err)
{
    if (!ret_solution ||
        !sized_is_fine(ret_solution->size, SIZED_TO(struct kiln_solution, valid_is_an_estimate)))
        return error_argument(err, "kiln_solution.size is not set: give it sizeof the struct");
    if (index >= solutions->count)
        return error_argument(err, "there is no solution %u: the list has %u", index,
                              solutions->count);
    size_t size = ret_solution->size;
    const struct kiln_solution *s = &solutions->list[index];
    memcpy(ret_solution, s, size < sizeof(*s) ? size : sizeof(*s));
    ret_solution->size = size;
    return KILN_E_OK;
}
