/* SPDX-License-Identifier: MIT */
/* Tune implements struct search_ops by means of kilnd's compilers and the device, and searches the
 * tuning space of each solver that may become the fastest. */
#include "libclient/conv/journal.h"
#include "libclient/conv/tune_share.h"
#include "libclient/conv/tuner.h"

#include "common/base/array.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Maximum number of compilations in flight. kilnd runs on this host and has a worker for each
 * processor.  A few more compilations keep the workers busy while this process measures.  Many more
 * would delay later requests, which queue behind them. */
#define WINDOW_MAX 128u
/* Maximum number of candidates.  In a larger tuning space, the candidates are a sample of the
 * space. */
#define CANDIDATES_MAX (1u << 17)
/* At most this many of the fastest configs of an earlier search are measured again. */
#define REMEMBERED_MAX 8u
/* A solver is not tuned if its best known config takes more than WORTH times as long as the best
 * solver. */
#define WORTH 6.0
/* A process that tunes alone uses 1 / SAMPLE_PART of the remaining time for samples of the whole
 * space, then tries the neighbours of the best config.  If several processes tune, 1 / SAMPLE_PART
 * of the time is left for the neighbours, at the end. */
#define SAMPLE_PART 3u
/* Minimum time left for which the search continues: in less time, no further config can be
 * tried. */
#define REST_NS 50000000ull

static struct tuner *tuner_of(void *context) { return context; }

/* ---- struct search_ops ---- */

static uint64_t op_now_ns(void *context) { return work_now(tuner_of(context)->work); }

static bool op_is_ready(void *context) { return !plan_window_is_full(tuner_of(context)->window); }

static enum kiln_code op_ask(void *context, size_t trial, struct kiln_err *err)
{
    struct tuner *t = context;
    const struct kiln_plan_options options =
        work_plan_options(t->work, t->solver->solution.solver, t->search.trials[trial].config);
    return plan_window_ask(t->window, &options, trial, err);
}

static enum kiln_code op_next(void *context, uint64_t deadline_ns, struct search_arrival *ret_next,
                              struct kiln_err *err)
{
    struct tuner *t = context;
    struct planned planned = { .plan = NULL };
    FAILURE_AUTO struct failure failure = FAILURE_INIT;
    enum kiln_code rc =
        work_next_plan(t->work, t->window, work_real_ns(t->work, deadline_ns), &planned, &failure);
    if (rc) {
        t->search.has_enough |= pace_is_stopped(t->work->pace);
        *err = failure.err;
        return rc;
    }
    ret_next->trial = planned.tag;
    if (planned.plan) {
        struct subject *subject = NULL;
        ret_next->code =
            subject_create(t->work->bench, planned.plan, work_is_winograd(&t->solver->solution),
                           &subject, &ret_next->why);
        t->is_temporary = ret_next->code == KILN_NO_MEMORY;
        t->search.trials[planned.tag].held = subject;
    } else {
        ret_next->code = KILN_COMPILE_FAILED;
        ret_next->why = failure.err;
        t->is_temporary = kiln_code_is_retryable(planned.code);
    }
    kiln_plan_unref(planned.plan);
    return KILN_OK;
}

static void op_clear(void *context) { plan_window_clear(tuner_of(context)->window); }

/* Handles the result of a run.  If there was too little memory, which the job may have taken, the
 * config may run later. */
static enum kiln_code note_run(struct tuner *t, size_t trial, enum kiln_code rc)
{
    t->is_temporary = rc == KILN_NO_MEMORY;
    if (t->is_temporary)
        journal_survive(t->journal, t->search.trials[trial].config);
    return rc;
}

static enum kiln_code op_time(void *context, size_t trial, const struct timing_limits *limits,
                              struct timing *ret_timing, struct kiln_err *err)
{
    struct tuner *t = context;
    const struct search_trial *tried = &t->search.trials[trial];
    enum kiln_code rc = KILN_OK;
    if (tried->state == KILN_CONV_UNTIMED)
        rc = work_first_run(t->work, t->journal, tried->config, tried->held, err);
    return note_run(t, trial, rc ? rc : subject_time(tried->held, limits, ret_timing, err));
}

static enum kiln_code op_check(void *context, size_t trial, uint64_t *ret_checked,
                               struct kiln_err *err)
{
    struct tuner *t = context;
    return note_run(t, trial, subject_check(t->search.trials[trial].held, ret_checked, err));
}

/* Called after a failure.  If the device was lost, the line '>' alone tells later searches which
 * config ran: the device may have been lost by other work. */
static bool op_is_alive(void *context)
{
    struct tuner *t = context;
    bool is_alive = bench_is_alive(t->work->bench);
    t->is_temporary |= !is_alive;
    return is_alive;
}

static void op_drop(void *context, size_t trial)
{
    struct search_trial *t = &tuner_of(context)->search.trials[trial];
    subject_destroy(t->held);
    t->held = NULL;
}

static bool op_reported(void *context, const struct search_trial *trial)
{
    struct tuner *t = context;
    const struct search *s = &t->search;
    struct kiln_conv_progress progress = {
        .solver = t->solver->solution.solver,
        .done = s->tried,
        .total = t->solver->solution.valid_is_an_estimate ? 0 : t->solver->solution.valid,
        .failed = s->failed,
        .best_ms = s->best == SIZE_MAX ? 0 : s->trials[s->best].timing.median_ms,
        .spent_ms = (double)(work_now(t->work) - t->start_ns) / 1e6,
        .budget_ms = (double)(t->until_ns - t->start_ns) / 1e6,
    };
    if (!t->is_temporary)
        journal_end(t->journal, trial);
    t->is_temporary = false;
    work_report(t->work, &progress);
    return t->work->has_enough;
}

static const struct search_ops ops = {
    .now_ns = op_now_ns,
    .is_ready = op_is_ready,
    .ask = op_ask,
    .next = op_next,
    .clear = op_clear,
    .time = op_time,
    .check = op_check,
    .is_alive = op_is_alive,
    .drop = op_drop,
    .reported = op_reported,
};

/* ---- the queue of configs ---- */

enum kiln_code tuner_queue(struct tuner *t, const char *config, struct kiln_err *err)
{
    size_t index;
    enum kiln_code rc = search_add(&t->search, config, &index, err);
    if (rc)
        return rc;
    if (!ARRAY_RESERVE(t->queue, t->queued, t->capacity, 64))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory after %zu perf configs", t->queued);
    t->queue[t->queued++] = index;
    return KILN_OK;
}

/* Queues the fastest configs of an earlier search again.  The journal has the times of these
 * configs, but the winner must also be loaded. */
static enum kiln_code queue_remembered(struct tuner *t, struct kiln_err *err)
{
    struct search *s = &t->search;
    enum kiln_code rc = KILN_OK;
    for (unsigned n = 0; n < REMEMBERED_MAX && !rc; n++) {
        size_t best = SIZE_MAX;
        for (size_t i = 0; i < s->count; i++) {
            const struct search_trial *trial = &s->trials[i];
            bool counts = trial->place == TRIAL_DONE && trial->state == KILN_CONV_TIMED;
            if (counts &&
                (best == SIZE_MAX || trial->timing.median_ms < s->trials[best].timing.median_ms))
                best = i;
        }
        if (best == SIZE_MAX)
            break;
        s->trials[best].place = TRIAL_UNTRIED;
        s->trials[best].state = KILN_CONV_UNTIMED;
        rc = tuner_queue(t, s->trials[best].config, err);
    }
    return rc;
}

/* Queues a config of this process's share, although the journal has its time: if an earlier job
 * found it to be the fastest, that job may have ended before it reported it. */
static enum kiln_code queue_share(struct tuner *t, const char *config, struct kiln_err *err)
{
    size_t index;
    struct search *s = &t->search;
    enum kiln_code rc = search_add(s, config, &index, err);
    struct search_trial *trial = rc ? NULL : &s->trials[index];
    double best_ms = s->best == SIZE_MAX ? s->bar_ms : s->trials[s->best].timing.median_ms;
    if (trial && t->is_by_record && trial->place == TRIAL_DONE && trial->state == KILN_CONV_TIMED &&
        trial->timing.median_ms < best_ms) {
        trial->place = TRIAL_UNTRIED;
        trial->state = KILN_CONV_UNTIMED;
    }
    return rc ? rc : tuner_queue(t, config, err);
}

static enum kiln_code add_range(struct tuner *t, uint32_t first, uint32_t count, bool is_queued,
                                struct kiln_err *err)
{
    size_t unused;
    CONFIG_LIST_AUTO struct config_list list = { .count = 0 };
    FAILURE_AUTO struct failure failure = FAILURE_INIT;
    const struct configs_question question = {
        .problem = &t->work->problem,
        .target = bytes_of_text(kiln_device_target(t->work->device)),
        .solver = bytes_of_text(t->solver->solution.solver),
        .first = first,
        .count = count,
    };
    enum kiln_code rc =
        configs_ask(t->work->client, &question, work_deadline(t->work), &list, &failure);
    if (rc)
        return kiln_fail(err, rc, "%s", failure.err.text);
    for (uint32_t i = 0; i < list.count && !rc; i++)
        rc = is_queued ? queue_share(t, config_text(&list, i), err)
                       : search_add(&t->search, config_text(&list, i), &unused, err);
    return rc;
}

enum kiln_code tuner_queue_range(struct tuner *t, uint32_t first, uint32_t count,
                                 struct kiln_err *err)
{
    return add_range(t, first, count, /* is_queued= */ true, err);
}

static uint32_t sample_size(const struct tuner *t)
{
    uint32_t candidates = t->solver->solution.candidates;
    return candidates < CANDIDATES_MAX ? candidates : CANDIDATES_MAX;
}

enum kiln_code tuner_queue_space(struct tuner *t, struct kiln_err *err)
{
    t->has_known_neighbours = true;
    return tuner_queue_range(t, 0, sample_size(t), err);
}

static enum kiln_code know_neighbours(struct tuner *t, struct kiln_err *err)
{
    bool is_known = t->has_known_neighbours;
    t->has_known_neighbours = true;
    return is_known ? KILN_OK : add_range(t, 0, sample_size(t), /* is_queued= */ false, err);
}

static enum kiln_code open_journal(struct tuner *t, struct kiln_err *err)
{
    enum kiln_code rc = work_open_journal(t->work, t->solver->solution.solver, &t->journal, err);
    if (!rc)
        rc = journal_read(t->journal, &t->search, err);
    return rc;
}

/* Queues a config although the journal may have its time.  Beside a job, a config that failed to
 * run is not run again. */
static enum kiln_code queue_again(struct tuner *t, const char *config, struct kiln_err *err)
{
    size_t index;
    enum kiln_code rc = search_add(&t->search, config, &index, err);
    if (rc || (t->work->pace && t->search.trials[index].state == KILN_CONV_NOT_RUN))
        return rc;
    t->search.trials[index].place = TRIAL_UNTRIED;
    t->search.trials[index].state = KILN_CONV_UNTIMED;
    return tuner_queue(t, config, err);
}

/* Returns the config of the plan that the job uses, or NULL if that plan has another solver. */
static const char *config_in_use(const struct tuner *t)
{
    const struct kiln_plan *plan = t->work->incumbent;
    bool is_ours = plan && strcmp(kiln_plan_solver(plan), t->solver->solution.solver) == 0;
    return is_ours ? kiln_plan_config(plan) : NULL;
}

static enum kiln_code queue_known(struct tuner *t, struct kiln_err *err)
{
    const char *known[] = { t->solver->config, t->solver->solution.config, config_in_use(t) };
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; i < 3 && known[i] && !rc; i++)
        rc = queue_again(t, known[i], err);
    t->known = strcmp(known[0], known[1]) == 0 ? 1 : 2;
    t->known += known[2] && strcmp(known[2], known[0]) != 0 && strcmp(known[2], known[1]) != 0;
    if (!rc)
        rc = queue_remembered(t, err);
    for (size_t i = 0; i < t->search.count; i++)
        t->remembered += t->search.trials[i].place == TRIAL_DONE;
    return rc;
}

/* ---- one solver ---- */

static enum kiln_code more_of_queue(void *context, struct search_source *source,
                                    struct kiln_err *err)
{
    struct tuner *t = context;
    enum kiln_code rc = sharing_next(t->sharing, err);
    source->indexes = t->queue;
    source->count = t->queued;
    return rc;
}

static enum kiln_code try_queue(struct tuner *t, uint64_t until_ns, struct kiln_err *err)
{
    struct search_source source = { .indexes = t->queue,
                                    .count = t->queued,
                                    .more = t->sharing ? more_of_queue : NULL };
    enum kiln_code rc = search_try_source(&t->search, &source, until_ns, err);
    return rc ? rc : search_halve(&t->search, t->until_ns, err);
}

static enum kiln_code refine(struct tuner *t, struct kiln_err *err)
{
    enum kiln_code rc = know_neighbours(t, err);
    return rc ? rc : search_refine(&t->search, t->until_ns, err);
}

static bool has_untried(const struct tuner *t)
{
    for (size_t i = 0; i < t->queued; i++) {
        if (t->search.trials[t->queue[i]].place < TRIAL_HELD)
            return true;
    }
    return false;
}

static bool is_alone(const struct tuner *t)
{
    return !t->sharing || !sharing_has_company(t->sharing);
}

/* Finds out whether there are configs left to try, in the queue or in another share (a range of the
 * space that kilnd leases to this process). */
static enum kiln_code find_work(struct tuner *t, bool *ret_found, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    if (t->sharing && !has_untried(t))
        rc = sharing_next_or_wait(t->sharing, err);
    *ret_found = !rc && has_untried(t);
    return rc;
}

/* Alternates between two steps: uses a part of the remaining time for samples of the whole space,
 * then tries the neighbours of the best config.  If other processes take part, the neighbours may
 * be in the shares of those processes, so this process tries the neighbours only once, at the end.
 */
static enum kiln_code sample_and_refine(struct tuner *t, struct kiln_err *err)
{
    bool found = true;
    enum kiln_code rc = find_work(t, &found, err);
    while (!rc && found) {
        uint64_t now = work_now(t->work);
        bool is_first = t->search.tried == t->search.failed, had_company = !is_alone(t);
        uint64_t left = now < t->until_ns ? t->until_ns - now : 0, part = left / SAMPLE_PART;
        if (t->search.has_enough || (left < REST_NS && !is_first))
            break;
        rc = try_queue(t, now + (had_company ? left - part : part), err);
        if (!rc && is_alone(t))
            rc = refine(t, err);
        if (!rc && had_company && has_untried(t))
            break; /* the rest of the time is for neighbours of the best config */
        if (!rc)
            rc = find_work(t, &found, err);
    }
    return rc;
}

static enum kiln_code conclude_shared(struct tuner *t, struct kiln_err *err)
{
    size_t from = t->queued;
    if (t->is_by_record && sharing_is_exhausted(t->sharing))
        return KILN_OK; /* kilnd records the best of all processes */
    enum kiln_code rc = sharing_queue_best(t->sharing, err);
    if (!rc)
        rc = search_try(&t->search, t->queue + from, t->queued - from, t->until_ns, err);
    if (!rc)
        rc = search_halve(&t->search, t->until_ns, err);
    return rc || sharing_is_complete(t->sharing) ? rc : refine(t, err);
}

static enum kiln_code search_space(struct tuner *t, struct kiln_err *err)
{
    enum kiln_code rc = t->sharing ? KILN_OK : tuner_queue_space(t, err);
    if (!rc && t->is_by_record)
        rc = sharing_next(t->sharing, err);
    if (!rc && t->is_by_record && sharing_is_over(t->sharing))
        return KILN_OK;
    if (!rc)
        rc = sample_and_refine(t, err);
    return rc || is_alone(t) ? rc : conclude_shared(t, err);
}

/* Returns false if only known configs were tried although untried ones are left.  The best config
 * is then not recorded as the result of a search, so that a later tune with more time still
 * searches. */
static bool has_searched(const struct tuner *t)
{
    return t->search.tried + t->remembered > t->known || !has_untried(t);
}

static void copy_best(struct tuner *t)
{
    struct search *s = &t->search;
    struct work_solver *solver = t->solver;
    const struct search_trial *best = s->best == SIZE_MAX ? NULL : &s->trials[s->best];
    if (!best || (t->is_by_record && best->timing.median_ms >= solver->timing.median_ms))
        return;
    snprintf(solver->config, sizeof(solver->config), "%s", best->config);
    solver->timing = best->timing;
    solver->checked = best->checked;
    solver->state = KILN_CONV_TIMED;
    solver->reason[0] = '\0';
    solver->is_measured = true;
    solver->is_tuned = has_searched(t);
    work_take_plan(solver, subject_plan(best->held));
    journal_end(t->journal, best);
}

static enum kiln_code add_trials(const struct tuner *t, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; i < t->search.count && !rc; i++) {
        const struct search_trial *trial = &t->search.trials[i];
        const struct kiln_conv_entry entry = { .solver = t->solver->solution.solver,
                                               .algorithm = t->solver->solution.algorithm,
                                               .config = trial->config,
                                               .state = trial->state,
                                               .median_ms = trial->timing.median_ms,
                                               .spread_ms = trial->timing.spread_ms,
                                               .samples = trial->timing.samples,
                                               .checked = trial->checked,
                                               .reason = trial->reason };
        if (trial->place == TRIAL_DONE || trial->place == TRIAL_HELD)
            rc = conv_list_add(&t->work->result->trials, &entry, err);
    }
    return rc;
}

/* Beside a job, notes that configs are left to try.  A tune without a job was the last to continue
 * the search, unless it failed or the caller stopped it. */
static void note_rest(struct tuner *t, enum kiln_code rc)
{
    if (t->work->pace && has_untried(t))
        journal_leave(t->journal, /* is_unfinished= */ true);
    if (!t->work->pace && !t->work->has_enough && !rc)
        journal_leave(t->journal, /* is_unfinished= */ false);
}

static void tuner_done(struct tuner *t)
{
    sharing_destroy(t->sharing);
    search_done(&t->search);
    plan_window_destroy(t->window);
    journal_close(t->journal);
    free(t->queue);
}

static unsigned window_size(void)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned count = processors > 0 ? (unsigned)processors : 1;
    unsigned size = count + count / 4 + 2;
    return size < WINDOW_MAX ? size : WINDOW_MAX;
}

static enum kiln_code tune_solver(struct work *work, struct work_solver *solver, uint64_t until_ns,
                                  struct kiln_err *err)
{
    __attribute__((cleanup(tuner_done))) struct tuner t = { .work = work, .solver = solver };
    t.start_ns = work_now(work);
    t.until_ns = until_ns;
    search_init(&t.search, &ops, &t);
    t.search.give_up_ns = work_deadline(work) - work_real_ns(work, 0);
    enum kiln_code rc =
        plan_window_create(work->client, &work->problem, window_size(), &t.window, err);
    if (!rc)
        rc = open_journal(&t, err);
    if (!rc)
        rc = sharing_create(&t, &t.sharing, err);
    t.is_by_record = t.sharing && work->follows && solver->state == KILN_CONV_RECORDED;
    t.search.bar_ms = t.is_by_record ? solver->timing.median_ms : 0;
    if (!rc && !t.is_by_record)
        rc = queue_known(&t, err);
    if (!rc)
        rc = search_space(&t, err);
    solver->tried = t.search.tried + t.remembered;
    copy_best(&t);
    note_rest(&t, rc);
    if (!rc)
        rc = add_trials(&t, err);
    return rc ? kiln_while(err, "tuning %s", solver->solution.solver) : KILN_OK;
}

/* ---- all solvers ---- */

static bool updates_configs(const struct work *work)
{
    return work->options.enforce == KILN_ENFORCE_DB_UPDATE ||
           work->options.enforce == KILN_ENFORCE_SEARCH_DB_UPDATE;
}

static double fastest_record(const struct work *work)
{
    double best_ms = __DBL_MAX__;
    for (unsigned i = 0; i < work->count; i++) {
        double ms = work->solvers[i].timing.median_ms;
        if (work->solvers[i].state == KILN_CONV_RECORDED && ms < best_ms)
            best_ms = ms;
    }
    return best_ms;
}

/* Returns whether a thread beside a job began to tune the solver, and had no time for all configs.
 * Only a tune without a job continues then: otherwise, every job would. */
static bool continues_search(const struct work *work, const struct work_solver *s)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    struct journal *journal = NULL;
    struct search search;
    search_init(&search, /* ops= */ NULL, NULL);
    bool is_unfinished =
        !work->pace && work_open_journal(work, s->solution.solver, &journal, &ignored) == KILN_OK &&
        journal_read(journal, &search, &ignored) == KILN_OK && journal_is_unfinished(journal);
    search_done(&search);
    journal_close(journal);
    return is_unfinished;
}

static bool is_worth_tuning(struct work *work, const struct work_solver *s)
{
    const struct work_solver *best = work_fastest(work);
    bool is_known = s->solution.best_config[0] != '\0';
    if (s->solution.candidates < 2 || !s->plan)
        return false;
    bool is_far = best && s->timing.median_ms > WORTH * best->timing.median_ms;
    bool is_near =
        s->state == KILN_CONV_RECORDED
            ? s->timing.median_ms <= WORTH * fastest_record(work)
            : s->state == KILN_CONV_TIMED || (s->state == KILN_CONV_CUT_SHORT && !is_far);
    return is_near && (!is_known || updates_configs(work) || continues_search(work, s));
}

bool work_needs_tune(const struct work *work)
{
    double best_ms = 0;
    bool needs = false;
    for (unsigned i = 0; i < work->count; i++) {
        double ms = work->solvers[i].solution.find_ms;
        if (ms > 0 && (best_ms == 0 || ms < best_ms))
            best_ms = ms;
    }
    for (unsigned i = 0; i < work->count && !needs; i++) {
        const struct kiln_solution *s = &work->solvers[i].solution;
        bool is_near = s->find_ms > 0 ? s->find_ms <= WORTH * best_ms : best_ms == 0;
        needs = s->candidates >= 2 && is_near && (!s->best_config[0] || updates_configs(work));
    }
    return needs;
}

enum kiln_code work_tune(struct work *work, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    unsigned left = 0;
    bool is_chosen[WORK_SOLVERS_MAX] = { false };
    for (unsigned i = 0; i < work->count; i++) {
        is_chosen[i] = is_worth_tuning(work, &work->solvers[i]);
        left += is_chosen[i];
    }
    for (unsigned i = 0; i < work->count && !rc && !work->has_enough; i++) {
        uint64_t now = work_now(work);
        if (!is_chosen[i])
            continue;
        uint64_t share = now < work->end_ns ? (work->end_ns - now) / left : 0;
        left--;
        rc = tune_solver(work, &work->solvers[i], now + share, err);
    }
    return rc;
}
