/* SPDX-License-Identifier: MIT */
#include "libclient/conv/search.h"

#include "common/base/array.h"

#include <stdlib.h>
#include <string.h>

/* Limits for the first timing of a config.  They are low, because most configs are slow. */
#define FIRST_SAMPLES 3u
#define FIRST_MS 20.0
/* A config is not timed further if its first timed run takes more than HOPELESS times as long as
 * the best config. */
#define HOPELESS 2.0
/* The FINALISTS fastest configs are timed again, in rounds with more and more samples, up to
 * FINAL_SAMPLES.  In each round, a config is timed for at most FINAL_MS. */
#define FINALISTS 16u
#define FINAL_SAMPLES 24u
#define FINAL_MS 400.0
/* search_refine begins another round only if the previous round reduced the best time below
 * PROGRESS times the old one.  A smaller improvement may be chance, because samples vary by 0.5
 * %. */
#define PROGRESS 0.995
#define NEIGHBOURS_MAX 32u

struct search_config {
    struct hash_link link;
    size_t trial;
    char text[];
};

void search_init(struct search *search, const struct search_ops *ops, void *context)
{
    *search = (struct search){
        .ops = ops, .context = context, .best = SIZE_MAX, .give_up_ns = UINT64_MAX
    };
}

static void drop_trial(struct search *s, size_t index)
{
    if (s->trials[index].place != TRIAL_HELD)
        return;
    s->ops->drop(s->context, index);
    s->trials[index].place = TRIAL_DONE;
}

void search_done(struct search *search)
{
    if (search->open)
        search->ops->clear(search->context);
    for (size_t i = 0; i < search->count; i++) {
        drop_trial(search, i);
        free(search->trials[i].reason);
    }
    free(search->trials);
    HASH_ALL (&search->configs, struct search_config, link, config)
        free(config);
    hash_table_done(&search->configs);
    *search = (struct search){ .best = SIZE_MAX };
}

bool search_goes_on(const struct search *search, uint64_t until_ns)
{
    return !search->has_enough && search->ops->now_ns(search->context) < until_ns;
}

/* ---- trials ---- */

static unsigned read_values(const char *config, uint16_t values[SEARCH_AXES_MAX])
{
    unsigned count = 0;
    for (const char *at = config; count < SEARCH_AXES_MAX; at++) {
        char *end;
        unsigned long value = strtoul(at, &end, 10);
        if (*at < '0' || *at > '9' || value > UINT16_MAX)
            return 0;
        values[count++] = (uint16_t)value;
        at = end;
        if (*at == '\0')
            return count;
        if (*at != ',')
            return 0;
    }
    return 0;
}

static uint64_t hash_config(const char *config) { return bytes_hash(bytes_of_text(config), 0); }

size_t search_find(const struct search *search, const char *config)
{
    HASH_EACH (&search->configs, hash_config(config), const struct search_config, link, known)
        if (strcmp(known->text, config) == 0)
            return known->trial;
    return SIZE_MAX;
}

static enum kiln_code add_trial(struct search *s, const char *text, struct kiln_err *err)
{
    if (!ARRAY_RESERVE(s->trials, s->count, s->capacity, 64))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory after %zu perf configs", s->count);
    size_t size = strlen(text) + 1;
    struct search_config *config = malloc(sizeof(*config) + size);
    if (!config)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a perf config");
    config->trial = s->count;
    memcpy(config->text, text, size);
    hash_table_add(&s->configs, &config->link, hash_config(text));
    struct search_trial *t = &s->trials[s->count++];
    *t = (struct search_trial){ .config = config->text, .state = KILN_CONV_UNTIMED };
    t->value_count = read_values(text, t->values);
    return KILN_OK;
}

enum kiln_code search_add(struct search *search, const char *config, size_t *ret_index,
                          struct kiln_err *err)
{
    *ret_index = search_find(search, config);
    if (*ret_index != SIZE_MAX)
        return KILN_OK;
    *ret_index = search->count;
    return add_trial(search, config, err);
}

/* ---- one trial ---- */

static double best_ms(const struct search *s)
{
    return s->best == SIZE_MAX ? s->bar_ms : s->trials[s->best].timing.median_ms;
}

static void report_trial(struct search *s, size_t index)
{
    s->has_enough |= s->ops->reported(s->context, &s->trials[index]);
}

static void fail_trial(struct search *s, size_t index, int state, const struct kiln_err *why)
{
    struct search_trial *t = &s->trials[index];
    t->state = state;
    free(t->reason);
    t->reason = strdup(why->text);
    drop_trial(s, index);
    t->place = TRIAL_DONE;
    if (s->best == index)
        s->best = SIZE_MAX;
    s->failed++;
}

static enum kiln_code fail_run(struct search *s, size_t index, const struct kiln_err *why,
                               struct kiln_err *err)
{
    fail_trial(s, index, KILN_CONV_NOT_RUN, why);
    if (s->ops->is_alive(s->context))
        return KILN_OK;
    return kiln_fail(err, KILN_GPU_FAULT, "the device was lost with perf config %s: %s",
                     s->trials[index].config, why->text);
}

static enum kiln_code check_trial(struct search *s, size_t index, struct kiln_err *err)
{
    struct search_trial *t = &s->trials[index];
    struct kiln_err why = KILN_ERR_INIT;
    if (t->checked > 0)
        return KILN_OK;
    enum kiln_code rc = s->ops->check(s->context, index, &t->checked, &why);
    if (rc != KILN_CORRUPT)
        return rc ? fail_run(s, index, &why, err) : KILN_OK;
    fail_trial(s, index, KILN_CONV_WRONG, &why);
    return KILN_OK;
}

/* Makes the trial the best if it is faster and its result is correct.  A wrong result must not
 * become the best, because correct trials that are much slower would then be cut short. */
static enum kiln_code update_best(struct search *s, size_t index, struct kiln_err *err)
{
    const struct search_trial *t = &s->trials[index];
    if (s->best != SIZE_MAX && t->timing.median_ms >= best_ms(s))
        return KILN_OK;
    enum kiln_code rc = check_trial(s, index, err);
    if (!rc && t->state == KILN_CONV_TIMED)
        s->best = index;
    return rc;
}

static enum kiln_code time_first(struct search *s, size_t index, struct kiln_err *err)
{
    struct search_trial *t = &s->trials[index];
    const struct timing_limits limits = { .hopeless_ms = HOPELESS * best_ms(s),
                                          .limit_ms = FIRST_MS,
                                          .samples = FIRST_SAMPLES };
    struct kiln_err why = KILN_ERR_INIT;
    t->place = TRIAL_HELD;
    if (s->ops->time(s->context, index, &limits, &t->timing, &why))
        return fail_run(s, index, &why, err);
    t->state = t->timing.is_cut_short ? KILN_CONV_CUT_SHORT : KILN_CONV_TIMED;
    if (t->state == KILN_CONV_TIMED)
        return update_best(s, index, err);
    drop_trial(s, index);
    return KILN_OK;
}

/* Unloads the slowest loaded trial if more than FINALISTS trials are loaded, because loaded code
 * takes memory. */
static void limit_held(struct search *s)
{
    size_t slowest = SIZE_MAX;
    unsigned held = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (s->trials[i].place != TRIAL_HELD)
            continue;
        held++;
        if (slowest == SIZE_MAX ||
            s->trials[i].timing.median_ms > s->trials[slowest].timing.median_ms)
            slowest = i;
    }
    if (held > FINALISTS && slowest != s->best)
        drop_trial(s, slowest);
}

/* ---- search_try ---- */

static enum kiln_code request_trials(struct search *s, const struct search_source *source,
                                     size_t *next, struct kiln_err *err)
{
    while (*next < source->count && s->ops->is_ready(s->context)) {
        size_t index = source->indexes[(*next)++];
        if (s->trials[index].place != TRIAL_UNTRIED)
            continue;
        enum kiln_code rc = s->ops->ask(s->context, index, err);
        if (rc)
            return rc;
        s->trials[index].place = TRIAL_REQUESTED;
        s->open++;
    }
    return KILN_OK;
}

static enum kiln_code try_next(struct search *s, uint64_t until_ns, struct kiln_err *err)
{
    struct search_arrival next = { .why = KILN_ERR_INIT };
    uint64_t deadline = s->tried == s->failed ? s->give_up_ns : until_ns;
    enum kiln_code rc = s->ops->next(s->context, deadline, &next, err);
    if (rc)
        return rc;
    size_t index = next.trial;
    bool is_uncompiled = next.code == KILN_COMPILE_FAILED;
    s->open--;
    s->tried++;
    if (next.code)
        fail_trial(s, index, is_uncompiled ? KILN_CONV_NOT_COMPILED : KILN_CONV_NOT_RUN, &next.why);
    else
        rc = time_first(s, index, err);
    report_trial(s, index);
    limit_held(s);
    return rc;
}

/* Requests trials while fewer than the maximum number of compilations are in flight.  When all
 * trials were requested, asks the source for more. */
static enum kiln_code request_all(struct search *s, struct search_source *source, size_t *next,
                                  struct kiln_err *err)
{
    enum kiln_code rc = request_trials(s, source, next, err);
    while (!rc && source->more && *next >= source->count && s->ops->is_ready(s->context)) {
        size_t before = source->count;
        rc = source->more(s->context, source, err);
        if (rc || source->count == before)
            break;
        rc = request_trials(s, source, next, err);
    }
    return rc;
}

/* Returns whether a trial of the source is in flight or was not requested yet.  Looks from the end,
 * because the trials that were requested last are the likeliest to be in flight. */
static bool is_pending(const struct search *s, const struct search_source *source, size_t next)
{
    for (size_t i = next < source->count ? 0 : source->count; i > 0; i--) {
        if (s->trials[source->indexes[i - 1]].place == TRIAL_REQUESTED)
            return true;
    }
    return next < source->count;
}

enum kiln_code search_try(struct search *search, const size_t *indexes, size_t count,
                          uint64_t until_ns, struct kiln_err *err)
{
    struct search_source source = { .indexes = indexes, .count = count };
    return search_try_source(search, &source, until_ns, err);
}

enum kiln_code search_try_source(struct search *search, struct search_source *source,
                                 uint64_t until_ns, struct kiln_err *err)
{
    struct search *s = search;
    size_t next = 0;
    enum kiln_code rc = KILN_OK;
    bool is_first = s->tried == s->failed;
    while (!rc && !s->has_enough && (is_first || search_goes_on(s, until_ns))) {
        rc = request_all(s, source, &next, err);
        if (!rc && !is_pending(s, source, next))
            break;
        if (!rc)
            rc = try_next(s, until_ns, err);
        is_first = s->tried == s->failed;
    }
    if (rc == KILN_TIMED_OUT && s->tried > s->failed)
        return KILN_OK;
    return rc;
}

/* ---- search_halve ---- */

struct finalists {
    size_t list[FINALISTS + 1];
    unsigned count;
};

static void sort_finalists(const struct search *s, struct finalists *f)
{
    for (unsigned i = 1; i < f->count; i++) {
        size_t moved = f->list[i];
        unsigned at = i;
        double ms = s->trials[moved].timing.median_ms;
        for (; at > 0 && s->trials[f->list[at - 1]].timing.median_ms > ms; at--)
            f->list[at] = f->list[at - 1];
        f->list[at] = moved;
    }
}

static struct finalists held_trials(const struct search *s)
{
    struct finalists f = { .count = 0 };
    for (size_t i = 0; i < s->count && f.count <= FINALISTS; i++) {
        if (s->trials[i].place == TRIAL_HELD)
            f.list[f.count++] = i;
    }
    sort_finalists(s, &f);
    return f;
}

static enum kiln_code time_again(struct search *s, size_t index, unsigned samples,
                                 struct kiln_err *err)
{
    const struct timing_limits limits = { .limit_ms = FINAL_MS, .samples = samples };
    struct kiln_err why = KILN_ERR_INIT;
    struct timing timing;
    if (s->ops->time(s->context, index, &limits, &timing, &why))
        return fail_run(s, index, &why, err);
    s->trials[index].timing = timing;
    return KILN_OK;
}

/* Removes failed trials from |f|. */
static void keep_held(struct search *s, struct finalists *f)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < f->count; i++) {
        if (s->trials[f->list[i]].place == TRIAL_HELD)
            f->list[kept++] = f->list[i];
    }
    f->count = kept;
}

/* Checks the fastest finalist.  If its result is wrong, removes it, and checks the next one.  The
 * others are not checked: they cannot win this round, and a copy of a result may take as long as
 * hundreds of launches. */
static enum kiln_code check_leader(struct search *s, struct finalists *f, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    while (!rc && f->count > 0) {
        size_t leader = f->list[0];
        rc = check_trial(s, leader, err);
        if (s->trials[leader].place == TRIAL_HELD)
            break;
        report_trial(s, leader);
        keep_held(s, f);
    }
    return rc;
}

/* Times the finalists again, and checks the fastest one.  Removes failed trials from |f|.  After
 * |until_ns|, times only in the last round, whose |samples| is FINAL_SAMPLES. */
static enum kiln_code time_all(struct search *s, struct finalists *f, unsigned samples,
                               uint64_t until_ns, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    for (unsigned i = 0; i < f->count && !rc; i++) {
        if (samples < FINAL_SAMPLES && !search_goes_on(s, until_ns))
            break;
        rc = time_again(s, f->list[i], samples, err);
        if (s->trials[f->list[i]].place != TRIAL_HELD)
            report_trial(s, f->list[i]);
    }
    if (rc)
        return rc;
    keep_held(s, f);
    sort_finalists(s, f);
    return check_leader(s, f, err);
}

/* Keeps the best config, which was checked, among the first |left| finalists: others that are as
 * fast may come before it, and may fail. */
static void keep_best(const struct search *s, struct finalists *f, unsigned left)
{
    for (unsigned i = left; i < f->count; i++) {
        if (f->list[i] == s->best) {
            f->list[i] = f->list[left - 1];
            f->list[left - 1] = s->best;
        }
    }
}

enum kiln_code search_halve(struct search *search, uint64_t until_ns, struct kiln_err *err)
{
    struct search *s = search;
    struct finalists f = held_trials(s);
    enum kiln_code rc = KILN_OK;
    for (unsigned samples = 2 * FIRST_SAMPLES; !rc && f.count > 0; samples *= 2) {
        bool is_last = f.count <= 2 || samples >= FINAL_SAMPLES || !search_goes_on(s, until_ns);
        unsigned left = is_last && f.count > 2 ? 2 : f.count;
        keep_best(s, &f, left);
        for (unsigned i = left; i < f.count; i++)
            drop_trial(s, f.list[i]);
        f.count = left;
        rc = time_all(s, &f, is_last ? FINAL_SAMPLES : samples, until_ns, err);
        if (!rc)
            s->best = f.count > 0 ? f.list[0] : SIZE_MAX;
        if (is_last)
            break;
        left = (f.count + 1) / 2;
        for (unsigned i = left; i < f.count; i++)
            drop_trial(s, f.list[i]);
        f.count = left;
    }
    for (unsigned i = 1; !rc && i < f.count;
         i++) /* after a failure, keep all finalists: any of them may be the best */
        drop_trial(s, f.list[i]);
    return rc;
}

/* ---- search_refine ---- */

static bool find_step(const struct search *s, unsigned axis, uint16_t from, bool up,
                      uint16_t *ret_to)
{
    bool found = false;
    for (size_t i = 0; i < s->count; i++) {
        uint16_t v = s->trials[i].values[axis];
        if (axis >= s->trials[i].value_count || (up ? v <= from : v >= from))
            continue;
        if (!found || (up ? v < *ret_to : v > *ret_to))
            *ret_to = v;
        found = true;
    }
    return found;
}

struct steps {
    bool has_lower[SEARCH_AXES_MAX], has_upper[SEARCH_AXES_MAX];
    uint16_t lower[SEARCH_AXES_MAX], upper[SEARCH_AXES_MAX];
};

/* Returns the number of axes on which |t| is one step away from |best|, or SEARCH_AXES_MAX + 1 if
 * |t| is further away on any axis. */
static unsigned count_steps(const struct search_trial *t, const struct search_trial *best,
                            const struct steps *steps)
{
    unsigned away = 0;
    for (unsigned a = 0; a < best->value_count; a++) {
        if (t->values[a] == best->values[a])
            continue;
        bool is_near = (steps->has_lower[a] && t->values[a] == steps->lower[a]) ||
                       (steps->has_upper[a] && t->values[a] == steps->upper[a]);
        if (!is_near)
            return SEARCH_AXES_MAX + 1;
        away++;
    }
    return away;
}

/* Lists untried configs that are one step away from the best config on one axis.  If there are no
 * such configs, lists configs that are one step away on two axes, because some axes depend on each
 * other: for example, a larger tile needs more threads. */
static size_t list_neighbours(const struct search *s, size_t ret_list[NEIGHBOURS_MAX])
{
    const struct search_trial *best = &s->trials[s->best];
    struct steps steps = { .lower = { 0 } };
    size_t count = 0;
    for (unsigned a = 0; a < best->value_count; a++) {
        steps.has_lower[a] = find_step(s, a, best->values[a], /* up= */ false, &steps.lower[a]);
        steps.has_upper[a] = find_step(s, a, best->values[a], /* up= */ true, &steps.upper[a]);
    }
    for (unsigned away = 1; away <= 2 && count == 0; away++) {
        for (size_t i = 0; i < s->count && count < NEIGHBOURS_MAX; i++) {
            const struct search_trial *t = &s->trials[i];
            if (t->place == TRIAL_UNTRIED && t->value_count == best->value_count &&
                count_steps(t, best, &steps) == away)
                ret_list[count++] = i;
        }
    }
    return count;
}

enum kiln_code search_refine(struct search *search, uint64_t until_ns, struct kiln_err *err)
{
    struct search *s = search;
    enum kiln_code rc = KILN_OK;
    double before = __DBL_MAX__;
    while (!rc && s->best != SIZE_MAX && search_goes_on(s, until_ns) &&
           best_ms(s) < PROGRESS * before) {
        size_t list[NEIGHBOURS_MAX];
        size_t count = list_neighbours(s, list);
        before = best_ms(s);
        if (count == 0)
            break;
        rc = search_try(s, list, count, until_ns, err);
        if (!rc)
            rc = search_halve(s, until_ns, err);
    }
    return rc;
}
