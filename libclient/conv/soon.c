/* SPDX-License-Identifier: MIT */
/* KILN_FIND_SOON as the job sees it: its plans, refreshes, and the life of the thread. */
#include "libclient/conv/soon_parts.h"

#include "common/base/units.h"
#include "libclient/device/device.h"
#include "libclient/failure.h"
#include "libclient/plans/plan.h"
#include "libclient/plans/problem.h"
#include "libclient/sized.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define PLANS_VARIABLE "KILN_PLANS"
#define BUDGET_VARIABLE "KILN_SOON_BUDGET"
#define BUDGET_MS 50u
/* Maximum number of watched problems.  Plans of further problems are final. */
#define WATCHES_MAX 4096u

/* ---- settings ---- */

static enum kiln_code read_frozen(const struct work *work, bool *ret_frozen, struct kiln_err *err)
{
    const char *text = getenv(PLANS_VARIABLE);
    *ret_frozen = work->options.frozen;
    if (!text || !text[0])
        return KILN_OK;
    if (strcmp(text, "frozen") != 0)
        return kiln_fail(err, KILN_INVALID,
                         PLANS_VARIABLE " is '%.100s': set it to 'frozen', or do not set it", text);
    *ret_frozen = true;
    return KILN_OK;
}

static enum kiln_code read_budget(unsigned *ret_ms, struct kiln_err *err)
{
    const char *text = getenv(BUDGET_VARIABLE);
    uint64_t ms = BUDGET_MS;
    if (text && text[0] && !units_parse_number(text, PACE_MAX_MS, &ms))
        return kiln_fail(err, KILN_INVALID,
                         BUDGET_VARIABLE " is '%.100s': give milliseconds per second, 0 to %u",
                         text, PACE_MAX_MS);
    *ret_ms = (unsigned)ms;
    return KILN_OK;
}

/* ---- watched problems ---- */

static bool is_same_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

bool soon_is_same_work(const struct kiln_conv_options *a, const struct kiln_conv_options *b)
{
    return a->device == b->device && a->enforce == b->enforce && a->tier == b->tier &&
           a->no_record == b->no_record && is_same_text(a->solver, b->solver) &&
           is_same_text(a->toolchain, b->toolchain) && !a->journal == !b->journal &&
           is_same_text(a->journal, b->journal);
}

static bool is_watch_of(const struct soon_watch *w, const struct work *work)
{
    return memcmp(&w->wire, &work->problem, sizeof(w->wire)) == 0 &&
           soon_is_same_work(&w->options, &work->options);
}

static struct soon_watch *find_watch(struct soon *s, const struct work *work)
{
    LIST_EACH (&s->watches, struct soon_watch, link, w) {
        if (is_watch_of(w, work))
            return w;
    }
    return NULL;
}

static void soon_watch_destroy(struct soon_watch *w)
{
    if (!w)
        return;
    kiln_plan_unref(w->plan);
    device_unref(w->options.device);
    free((char *)(uintptr_t)w->options.solver);
    free((char *)(uintptr_t)w->options.toolchain);
    free((char *)(uintptr_t)w->options.journal);
    free(w);
}

static bool copy_text(const char **text)
{
    *text = *text ? strdup(*text) : NULL;
    return *text;
}

static struct soon_watch *create_watch(struct soon *s, const struct work *work)
{
    struct soon_watch *w = calloc(1, sizeof(*w));
    if (!w)
        return NULL;
    const struct kiln_conv_options *o = &work->options;
    w->soon = s;
    w->is_outdated = true;
    w->wire = work->problem;
    sized_copy(&w->problem, sizeof(w->problem), work->public_problem, work->public_problem->size);
    w->problem.size = sizeof(w->problem);
    w->options = (struct kiln_conv_options){ .size = sizeof(w->options),
                                             .device = device_ref(work->device),
                                             .timeout_ms = o->timeout_ms,
                                             .mode = KILN_FIND_HYBRID,
                                             .enforce = o->enforce,
                                             .budget_ms = o->budget_ms,
                                             .solver = o->solver,
                                             .toolchain = o->toolchain,
                                             .no_record = o->no_record,
                                             .tier = o->tier,
                                             .journal = o->journal };
    bool has_solver = copy_text(&w->options.solver), has_name = copy_text(&w->options.toolchain);
    bool has_journal = copy_text(&w->options.journal);
    if (has_solver == !!o->solver && has_name == !!o->toolchain && has_journal == !!o->journal)
        return w;
    soon_watch_destroy(w);
    return NULL;
}

/* ---- the thread ---- */

/* Starts the thread without signals, which are for the job's own threads. */
static enum kiln_code start_thread(struct soon *s, struct kiln_err *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&s->thread, NULL, soon_improve_plans, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    s->has_thread = rc == 0;
    return rc ? kiln_fail_errno(err, rc, "no thread can be started that looks for better plans")
              : KILN_OK;
}

/* ---- creation ---- */

/* Guards the creation of every struct soon, and the list |living|. */
static pthread_mutex_t living_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct list living = LIST_INIT(living);
/* Held while a thread is stopped.  Guards |has_thread| of every struct soon in |living|.  Comes
 * before |living_mutex|, and a find never takes it. */
static pthread_mutex_t joining_mutex = PTHREAD_MUTEX_INITIALIZER;

/* Stops the thread and waits for its end.  The caller holds |joining_mutex|. */
static void stop_thread(struct soon *s)
{
    if (!s->has_thread)
        return;
    pace_stop(&s->pace);
    pthread_mutex_lock(&s->mutex);
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->mutex);
    pthread_join(s->thread, NULL);
    s->has_thread = false;
}

static struct soon *find_running(void)
{
    struct soon *running = NULL;
    pthread_mutex_lock(&living_mutex);
    LIST_EACH (&living, struct soon, link, s)
        running = s->has_thread ? s : running;
    pthread_mutex_unlock(&living_mutex);
    return running;
}

/* Runs when the process exits: a thread must not use a GPU runtime that is being unloaded. */
static void stop_threads(void)
{
    struct soon *s;
    pthread_mutex_lock(&joining_mutex);
    while ((s = find_running()))
        stop_thread(s);
    pthread_mutex_unlock(&joining_mutex);
}

static void before_fork(void) { pthread_mutex_lock(&living_mutex); }

static void after_fork(void) { pthread_mutex_unlock(&living_mutex); }

/* A forked child has none of the threads, and nothing in it releases |joining_mutex|. */
static void in_child(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    LIST_EACH (&living, struct soon, link, s)
        s->has_thread = false;
    joining_mutex = fresh;
    after_fork();
}

static void watch_exit(void)
{
    (void)atexit(stop_threads);
    (void)pthread_atfork(before_fork, after_fork, in_child);
}

static void soon_free(struct soon *s)
{
    LIST_EACH (&s->watches, struct soon_watch, link, w) {
        list_remove(&w->link);
        soon_watch_destroy(w);
    }
    pace_done(&s->pace);
    follow_done(&s->follow);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

void soon_destroy(struct soon *soon, bool is_child)
{
    if (!soon || is_child)
        return;
    pthread_mutex_lock(&joining_mutex);
    pthread_mutex_lock(&living_mutex);
    list_remove(&soon->link);
    pthread_mutex_unlock(&living_mutex);
    stop_thread(soon);
    pthread_mutex_unlock(&joining_mutex);
    soon_free(soon);
}

static void init_cond(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

static enum kiln_code soon_create(struct kiln_client *client, unsigned budget_ms,
                                  struct soon **ret_soon, struct kiln_err *err)
{
    struct soon *s = calloc(1, sizeof(*s));
    if (!s)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to look for better plans");
    s->client = client;
    s->follow.client = client;
    s->watches = (struct list)LIST_INIT(s->watches);
    pthread_mutex_init(&s->mutex, NULL);
    init_cond(&s->changed);
    pace_init(&s->pace, budget_ms);
    atomic_init(&s->generation, 1);
    enum kiln_code rc = start_thread(s, err);
    if (rc)
        soon_free(s);
    else
        *ret_soon = s;
    return rc;
}

static enum kiln_code soon_of(struct kiln_client *client, unsigned budget_ms,
                              struct soon **ret_soon, struct kiln_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    enum kiln_code rc = KILN_OK;
    pthread_once(&once, watch_exit);
    pthread_mutex_lock(&living_mutex);
    struct soon *s = atomic_load(&client->soon);
    if (!s) {
        rc = soon_create(client, budget_ms, &s, err);
        if (!rc)
            list_append(&living, &s->link);
    }
    if (!rc) {
        client->destroy_soon = soon_destroy;
        atomic_store(&client->soon, s);
    }
    pthread_mutex_unlock(&living_mutex);
    if (!rc)
        *ret_soon = s;
    return rc;
}

/* ---- find ---- */

static enum kiln_code ask_plan(struct work *work, bool by_heuristic, bool will_improve,
                               struct kiln_err *err)
{
    struct kiln_plan_options options = work_plan_options(work, work->options.solver, NULL);
    options.nearest = 1;
    options.generic = will_improve && !options.no_packages;
    options.heuristic |= by_heuristic;
    return work_get_plan(work, &options, err);
}

/* Gets a plan by the problem's records, by those of a similar problem, or by the heuristic.  If a
 * better plan will replace it, generic kernels may stand in for kernels that are not stored.  A
 * recorded config that does not compile on this host must not cost the job its plan, nor must a
 * host without a compiler. */
static enum kiln_code get_plan(struct work *work, bool will_improve, struct kiln_err *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code rc = ask_plan(work, /* by_heuristic= */ false, will_improve, &why);
    if (rc == KILN_COMPILE_FAILED) {
        kiln_err_init(&why);
        rc = ask_plan(work, /* by_heuristic= */ true, will_improve, &why);
    }
    return !rc || work_get_generic(work, rc) ? KILN_OK : kiln_fail(err, rc, "%s", why.text);
}

/* Replaces a generic plan, because nothing will replace it later.  Keeps the plan if there is no
 * other one. */
static void replace_generic(struct work *work)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    struct kiln_plan *generic = work->result->plan;
    if (kiln_plan_source(generic) != KILN_PLAN_GENERIC)
        return;
    work->result->plan = NULL;
    if (get_plan(work, /* will_improve= */ false, &ignored))
        work->result->plan = generic;
    else
        kiln_plan_unref(generic);
}

static void mark_provisional(struct kiln_conv_result *result, struct soon_watch *w)
{
    struct kiln_plan *old = result->plan;
    result->watch = w;
    result->plan = kiln_plan_ref(w->plan);
    result->generation = atomic_load(&w->soon->generation);
    kiln_plan_unref(old);
}

/* Takes the best plan so far if the client watches the problem already.  Otherwise begins to watch
 * the problem if the result has a plan. */
static enum kiln_code watch_problem(struct soon *s, struct work *work, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    pthread_mutex_lock(&s->mutex);
    struct soon_watch *w = find_watch(s, work);
    if (!w && work->result->plan) {
        w = s->count < WATCHES_MAX ? create_watch(s, work) : NULL;
        rc = w ? KILN_OK
               : kiln_fail(err, KILN_FULL, "the client cannot watch more than %u problems",
                           s->count);
        if (w) {
            w->plan = kiln_plan_ref(work->result->plan);
            list_append(&s->watches, &w->link);
            s->count++;
            pthread_cond_signal(&s->changed);
        }
    }
    if (w) {
        w->finds += !work->result->watch; /* a find of a known problem calls this function twice */
        mark_provisional(work->result, w);
    }
    pthread_mutex_unlock(&s->mutex);
    return rc;
}

enum kiln_code soon_find(struct work *work, struct kiln_err *err)
{
    bool is_frozen;
    unsigned budget_ms = 0;
    struct soon *s = NULL;
    struct kiln_err *untuned = &work->result->not_recorded;
    enum kiln_code rc = read_frozen(work, &is_frozen, err);
    if (!rc)
        rc = read_budget(&budget_ms, err);
    /* Without a thread, the job still gets its plan, and learns why no better one will come. */
    bool is_watched = !rc && !is_frozen && soon_of(work->client, budget_ms, &s, untuned) == KILN_OK;
    if (is_watched)
        rc = watch_problem(s, work, err);
    if (!rc && !work->result->plan)
        rc = get_plan(work, is_watched, err);
    if (!rc && is_watched && watch_problem(s, work, untuned)) {
        (void)kiln_while(untuned, "this plan is final");
        replace_generic(work);
    }
    return rc ? rc : work_add_plan(work, err);
}

/* ---- public ---- */

uint64_t kiln_conv_generation(const struct kiln_client *client)
{
    struct soon *s = client ? atomic_load(&client->soon) : NULL;
    return s ? atomic_load_explicit(&s->generation, memory_order_acquire) : 0;
}

uint64_t kiln_conv_result_generation(const struct kiln_conv_result *result)
{
    return result->generation;
}

static void refresh(struct kiln_conv_result *result, struct kiln_conv_refreshed *ret_refreshed)
{
    struct soon_watch *w = result->watch;
    struct kiln_plan *old = NULL;
    *ret_refreshed = (struct kiln_conv_refreshed){ .size = ret_refreshed->size };
    if (!w)
        return;
    pthread_mutex_lock(&w->soon->mutex);
    if (w->plan != result->plan) {
        old = result->plan;
        result->plan = kiln_plan_ref(w->plan);
        ret_refreshed->is_new = 1;
    }
    result->generation = atomic_load(&w->soon->generation);
    ret_refreshed->is_tuned = w->stage == STAGE_TUNED;
    pthread_mutex_unlock(&w->soon->mutex);
    kiln_plan_unref(old);
}

int kiln_conv_plan_refresh(struct kiln_client *client, struct kiln_conv_result *result,
                           struct kiln_conv_refreshed *ret_refreshed, struct kiln_error *err)
{
    uint64_t unused;
    struct kiln_err e = KILN_ERR_INIT;
    struct kiln_conv_refreshed refreshed = { .size = sizeof(refreshed) };
    if (!result)
        return error_argument(err, "kiln_conv_plan_refresh needs a result");
    if (ret_refreshed &&
        !sized_is_fine(ret_refreshed->size, SIZED_TO(struct kiln_conv_refreshed, is_tuned)))
        return error_argument(err,
                              "kiln_conv_refreshed.size is not set: give it sizeof the struct");
    enum kiln_code rc = client_enter(client, 0, &unused, &e);
    if (!rc && result->watch && result->watch->soon->client != client)
        rc = kiln_fail(&e, KILN_INVALID, "the result belongs to another client");
    if (rc)
        return error_return(&e, rc, err);
    refresh(result, &refreshed);
    if (ret_refreshed) {
        size_t size = ret_refreshed->size;
        memcpy(ret_refreshed, &refreshed, size < sizeof(refreshed) ? size : sizeof(refreshed));
        ret_refreshed->size = size;
    }
    return KILN_E_OK;
}
