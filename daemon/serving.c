/* SPDX-License-Identifier: MIT */
#include "daemon/serving.h"

#include "daemon/start_wait.h"
#include "engine/jobs/transfer_limits.h"

#define TICK_MS 1000
#define SHARE_MS 100
#define DRAIN_TICK_MS 10
/* Time limit of a transfer.  It also ends a transfer from a server that sends just enough to avoid
 * the stall limit. */
#define TRANSFER_MAX_MS (24u * 3600 * 1000)
/* A transfer that is silent for this time is killed.  Normal silences are shorter: libcurl's stall
 * limit (a minute), the pause between two attempts (a minute), and hashing or syncing 8 GiB on a
 * slow disk. */
#define TRANSFER_SILENCE_MS (10u * 60 * 1000)
#define TRANSFER_EXIT_MS 5000

const struct transfers_options TRANSFERS_STANDARD = {
    .timeout_ms = TRANSFER_MAX_MS,
    .silence_ms = TRANSFER_SILENCE_MS,
    .exit_ms = TRANSFER_EXIT_MS,
};

static void on_server_closed(void *context)
{
    struct serving *s = context;
    s->server = NULL;
}

static void on_pool_closed(void *context)
{
    struct serving *s = context;
    s->pool = NULL;
}

static void on_transfers_closed(void *context)
{
    struct serving *s = context;
    s->transfers = NULL;
}

static void on_fleet_closed(void *context)
{
    struct serving *s = context;
    s->fleet = NULL;
}

void serving_close(struct serving *s)
{
    if (!s->loop || s->phase == SERVING_CLOSES)
        return;
    s->phase = SERVING_CLOSES;
    if (s->closing)
        s->closing(s);
    if (s->server)
        server_close(s->server, on_server_closed, s);
    if (s->engine)
        engine_close(s->engine);
    s->engine = NULL;
    if (s->pool)
        pool_close(s->pool, on_pool_closed, s);
    if (s->transfers)
        transfers_close(s->transfers, on_transfers_closed, s);
    if (s->fleet)
        fleet_process_close(s->fleet, on_fleet_closed, s);
    loop_timer_close(&s->tick);
    loop_timer_close(&s->share);
}

void serving_end(struct serving *s)
{
    closer_destroy(s->closer);
    work_queues_destroy(s->work_queues);
    loop_destroy(s->loop);
    s->closer = NULL;
    s->work_queues = NULL;
    s->loop = NULL;
}

/* Ends the pending requests to the fleet.  Their results would only fill the store. */
static void stop_fleet(struct serving *s)
{
    if (s->fleet)
        fleet_process_stop(s->fleet);
}

static void stop_running_work(struct serving *s)
{
    server_drop_sessions(s->server);
    if (s->pool)
        pool_stop(s->pool);
    if (s->transfers)
        transfers_stop(s->transfers);
}

static bool is_idle(struct serving *s)
{
    return server_is_empty(s->server) && (!s->pool || pool_out(s->pool) == 0) &&
           (!s->transfers || transfers_out(s->transfers) == 0) &&
           (!s->fleet || fleet_process_out(s->fleet) == 0) && engine_idle(s->engine) &&
           !(s->is_busy && s->is_busy(s));
}

static void on_drain_tick(struct loop_timer *timer)
{
    struct serving *s = LOOP_OWNER_OF(struct serving, tick, timer);
    bool late = loop_now_ms(s->loop) >= s->deadline_ms;
    server_check_times(s->server, loop_now_ms(s->loop));
    if (late)
        stop_running_work(s);
    if (is_idle(s))
        serving_close(s);
}

void serving_drain(struct serving *s, uint64_t timeout_ms)
{
    s->phase = SERVING_DRAINS;
    s->deadline_ms = loop_now_ms(s->loop) + timeout_ms;
    server_drain(s->server);
    engine_drain(s->engine);
    stop_fleet(s);
    loop_timer_stop(&s->share);
    s->tick.fire = on_drain_tick;
    loop_timer_start(&s->tick, 0, DRAIN_TICK_MS);
}

void serving_hurry(struct serving *s) { s->deadline_ms = 0; }

static void on_compiles_wait(struct loop_timer *timer)
{
    struct serving *s = LOOP_OWNER_OF(struct serving, share, timer);
    engine_share_compilers(s->engine);
    if (engine_pulse(s->engine).waiting == 0)
        loop_timer_stop(timer);
}

static void on_tick(struct loop_timer *timer)
{
    struct serving *s = LOOP_OWNER_OF(struct serving, tick, timer);
    engine_tick(s->engine);
    if (engine_pulse(s->engine).waiting > 0 && !loop_timer_is_running(&s->share))
        loop_timer_start(&s->share, SHARE_MS, SHARE_MS);
    if (s->ticked)
        s->ticked(s);
}

enum kiln_code serving_begin(struct serving *s, struct kiln_err *err)
{
    enum kiln_code rc = loop_create(&s->loop, err);
    if (!rc) {
        loop_timer_init(s->loop, &s->tick, &s->owner, on_tick);
        loop_timer_init(s->loop, &s->share, &s->owner, on_compiles_wait);
    }
    return rc;
}

static enum kiln_code open_pool(struct serving *s, const struct serving_options *o,
                                struct kiln_err *err)
{
    struct pool_options options = *o->pool;
    options.loop = s->loop;
    options.work_queues = s->work_queues;
    return pool_create(&options, &s->pool, err);
}

static enum kiln_code open_transfers(struct serving *s, const struct serving_options *o,
                                     struct kiln_err *err)
{
    struct transfers_options options = *o->transfers;
    options.loop = s->loop;
    options.work_queues = s->work_queues;
    return transfers_create(&options, &s->transfers, err);
}

static enum kiln_code open_fleet(struct serving *s, const struct serving_options *o,
                                 struct kiln_err *err)
{
    if (!o->fleet)
        return KILN_OK;
    struct fleet_process_options options = *o->fleet;
    options.loop = s->loop;
    options.work_queues = s->work_queues;
    return fleet_process_create(&options, &s->fleet, err);
}

static void init_executor(struct serving *s)
{
    const struct executor_uv_parts parts = { .loop = s->loop,
                                             .work_queues = s->work_queues,
                                             .pool = s->pool,
                                             .transfers = s->transfers,
                                             .fleet = s->fleet,
                                             .closer = s->closer };
    executor_uv_init(&s->executor, &parts);
}

struct engine_opening {
    struct engine_options options;
    struct engine **ret_engine;
};

static enum kiln_code open_engine_once(void *context, struct kiln_err *err)
{
    const struct engine_opening *o = context;
    return engine_open(&o->options, o->ret_engine, err);
}

static enum kiln_code open_engine(struct serving *s, const struct serving_options *o,
                                  struct kiln_err *err)
{
    struct engine_opening opening = { .options = *o->engine, .ret_engine = &s->engine };
    opening.options.executor = &s->executor.base;
    opening.options.readers = o->readers;
    return start_wait(open_engine_once, &opening, err);
}

static enum kiln_code open_server(struct serving *s, const struct serving_options *o,
                                  struct kiln_err *err)
{
    const struct server_options options = { .loop = s->loop,
                                            .engine = s->engine,
                                            .listener = o->listener,
                                            .closer = s->closer,
                                            .publish_group = o->publish_group,
                                            .own_user_only = o->own_user_only,
                                            .limits = o->limits };
    return server_create(&options, &s->server, err);
}

enum kiln_code serving_open(struct serving *s, const struct serving_options *options,
                            struct kiln_err *err)
{
    enum kiln_code rc = work_queues_create(s->loop, options->readers, &s->work_queues, err);
    if (!rc)
        rc = open_pool(s, options, err);
    if (!rc)
        rc = open_transfers(s, options, err);
    if (!rc)
        rc = open_fleet(s, options, err);
    if (!rc)
        rc = closer_create(&CLOSER_LIMITS_DEFAULT, &s->closer, err);
    if (rc)
        return rc;
    init_executor(s);
    rc = open_engine(s, options, err);
    return rc ? rc : open_server(s, options, err);
}

void serving_start(struct serving *s)
{
    engine_start(s->engine);
    loop_timer_start(&s->tick, TICK_MS, TICK_MS);
}
