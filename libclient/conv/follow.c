/* SPDX-License-Identifier: MIT */
#include "libclient/conv/follow.h"

#include "common/base/clock.h"
#include "libclient/conv/loadable.h"
#include "libclient/device/device.h"
#include "libclient/failure.h"
#include "libclient/plans/plan.h"

#include <kiln/solutions.h>
#include <string.h>

#define MS 1000000ull
#define OPEN_NS (60000 * MS)
/* Requests about records take at most 1 / REST_PART of the thread's time. */
#define REST_PART 20u
/* A find records its solvers one after the other, which counts as one change. */
#define REST_MIN_NS (50 * MS)
#define IDLE_MIN_NS (250 * MS)
#define IDLE_MAX_NS (4000 * MS)

void follow_done(struct follow *follow) { watch_close(&follow->watch); }

static uint64_t count_reconnects(const struct kiln_client *client)
{
    struct multiplexer_status status;
    multiplexer_status(client->multiplexer, &status);
    return status.reconnects;
}

/* Without a counter, for example of an older kilnd, the job keeps what it measures itself. */
static void open_counter(struct follow *f, uint64_t now_ns)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    FAILURE_AUTO struct failure failure = FAILURE_INIT;
    uint64_t deadline_ns;
    f->opened_ns = now_ns;
    if (client_enter(f->client, 0, &deadline_ns, &ignored) == KILN_OK)
        (void)!watch_open(&f->watch, f->client, deadline_ns, &failure);
    f->reconnects = count_reconnects(f->client);
}

static bool is_due(const struct follow *f, uint64_t now_ns)
{
    return f->opened_ns == 0 || now_ns - f->opened_ns >= OPEN_NS ||
           f->reconnects != count_reconnects(f->client);
}

bool follow_has_changed(struct follow *follow)
{
    struct follow *f = follow;
    uint64_t now_ns = clock_monotonic_ns();
    if (is_due(f, now_ns))
        open_counter(f, now_ns);
    uint64_t counter = watch_read(&f->watch);
    if (counter == f->seen || now_ns < f->next_ns)
        return false;
    f->seen = counter;
    f->idle_ns = 0;
    f->looked_ns = now_ns;
    return true;
}

void follow_rest(struct follow *follow)
{
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t rest_ns = (now_ns - follow->looked_ns) * REST_PART;
    follow->next_ns = now_ns + (rest_ns > REST_MIN_NS ? rest_ns : REST_MIN_NS);
}

uint64_t follow_idle_ns(struct follow *follow)
{
    if (!follow_is_possible(follow))
        return OPEN_NS;
    uint64_t idle_ns = follow->idle_ns ? 2 * follow->idle_ns : IDLE_MIN_NS;
    follow->idle_ns = idle_ns < IDLE_MAX_NS ? idle_ns : IDLE_MAX_NS;
    return follow->idle_ns;
}

bool follow_is_possible(const struct follow *follow) { return follow->watch.counter != NULL; }

static double time_of(const struct kiln_solution *s)
{
    return s->best_ms > 0 ? s->best_ms : s->find_ms;
}

static const char *config_of(const struct kiln_solution *s)
{
    return s->best_config[0] ? s->best_config : s->config;
}

/* Returns whether the record of a solver says how fast the plan is. The plan of a similar problem
 * may have a tuned config, which only a tune of this problem measures. A generic plan has no
 * record: it is a stand-in for every plan that has one. */
static bool has_time_for(const struct kiln_solution *s, const struct kiln_plan *plan)
{
    if (kiln_plan_source(plan) == KILN_PLAN_GENERIC)
        return true;
    return strcmp(s->solver, kiln_plan_solver(plan)) == 0 &&
           (kiln_plan_source(plan) != KILN_PLAN_NEAREST || s->best_config[0] ||
            strcmp(s->config, kiln_plan_config(plan)) == 0);
}

/* Returns whether the records have a faster choice than the job's plan. A find records one solver
 * after the other, so its records say nothing before they contain the plan's solver. */
static bool is_outdone(const struct kiln_solutions *list, const struct kiln_plan *plan)
{
    struct kiln_solution best = { .size = sizeof(best) };
    bool is_comparable = false;
    for (unsigned i = 0; i < kiln_solutions_count(list); i++) {
        struct kiln_solution s = { .size = sizeof(s) };
        if (kiln_solutions_at(list, i, &s, NULL) || !(s.find_ms > 0))
            continue;
        is_comparable |= has_time_for(&s, plan);
        if (!(best.find_ms > 0) || time_of(&s) < time_of(&best))
            best = s;
    }
    return is_comparable && (strcmp(best.solver, kiln_plan_solver(plan)) != 0 ||
                             strcmp(config_of(&best), kiln_plan_config(plan)) != 0);
}

struct kiln_plan *follow_ask(const struct follow *follow, const struct follow_question *question)
{
    struct kiln_error ignored;
    struct kiln_err unused = KILN_ERR_INIT;
    struct kiln_solutions *list = NULL;
    struct kiln_plan *plan = NULL;
    struct kiln_device *device = question->options->device;
    const char *driver = kiln_device_driver(device);
    const struct kiln_plan_options asked = { .size = sizeof(asked),
                                             .target = kiln_device_target(device),
                                             .database_id = kiln_device_database_id(device),
                                             .driver = driver[0] ? driver : NULL,
                                             .priority = KILN_PREFETCH,
                                             .timeout_ms = question->options->timeout_ms,
                                             .no_packages =
                                                 atomic_load(&device->refuses_packages) };
    const struct loadable_request request = {
        .client = follow->client, .device = device, .problem = question->problem, .options = &asked
    };
    if (kiln_solutions_get(follow->client, question->problem, &asked, &list, &ignored))
        return NULL;
    if (is_outdone(list, question->incumbent)) {
        plans_forget(follow->client, question->wire);
        if (loadable_plan_get(&request, &plan, &unused))
            plan = NULL;
    }
    kiln_solutions_free(list);
    return plan;
}
