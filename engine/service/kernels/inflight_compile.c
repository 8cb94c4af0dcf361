/* SPDX-License-Identifier: MIT */
#include "engine/service/kernels/inflight_compile.h"

#include "common/base/clock.h"
#include "engine/compile/code_object.h"
#include "engine/service/fleet/fleet_tier.h"
#include "engine/service/kernels/inflight_deliver.h"
#include "engine/service/kernels/store_tasks.h"

#include <sys/mman.h>

static enum kiln_code check_object(const struct object *object, const struct compile_job *job,
                                   struct kiln_err *err)
{
    struct target target;
    enum kiln_code rc = target_parse(job->target, &target, err);
    if (rc)
        return rc;
    void *map = mmap(NULL, object->size, PROT_READ, MAP_SHARED, object->fd, 0);
    if (map == MAP_FAILED)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot map a code object of %llu bytes",
                         (unsigned long long)object->size);
    rc = code_object_check(bytes_of(map, object->size), &target, err);
    munmap(map, object->size);
    return rc;
}

static void seal_work(struct task *task)
{
    struct inflight *f = inflight_of_task(task);
    struct compile_result *result = &f->order.task.result;
    int fd = result->object_fd;
    result->object_fd = -1;
    f->found = object_from_memfd(fd, result->wall_ns, &f->object, &result->err);
    if (!f->found && !f->source->job.is_program) /* the client checks a program's object */
        f->found = check_object(f->object, &f->source->job, &result->err);
}

/* Returns whether every user would get this failure, as when the compiler rejects the source. */
static bool fails_for_all(const struct inflight *f)
{
    enum compile_end end = f->order.task.result.end;
    return end == COMPILE_REFUSED || end == COMPILE_DONE;
}

static void remember_failure(struct inflight *f, const struct kiln_err *why)
{
    bool lasting =
        why->code == KILN_COMPILE_FAILED || why->code == KILN_INVALID || why->code == KILN_CORRUPT;
    bool is_outdated = f->generation != hot_set_generation(f->engine->hot);
    /* if outdated, a package may have the kernel by now */
    if (!lasting || f->no_cache || is_outdated)
        return;
    const struct failure_report report = { .key = &f->asked,
                                           .uid = f->uid,
                                           .is_for_all = fails_for_all(f),
                                           .log = f->order.task.result.log,
                                           .err = *why };
    failure_memory_add(f->engine->failures, &report, clock_monotonic_ns());
}

static void fail_compile(struct inflight *f, const struct kiln_err *why)
{
    f->engine->stats.compile_errors++;
    remember_failure(f, why);
    event_kernel(f->engine, "compile_failed", &f->asked, f->source, &f->order.task.result);
    inflight_deliver_failure(f, why, f->order.task.result.log);
}

static void count_compile(struct inflight *f, unsigned result)
{
    metrics_compile_ended(&f->engine->metrics, f->source->job.toolchain, result,
                          f->order.task.result.wall_ns);
}

static void seal_done(struct task *task)
{
    struct inflight *f = inflight_of_task(task);
    engine_task_ended(f->engine);
    count_compile(f, f->found ? COMPILED_INVALID : COMPILE_DONE);
    if (f->found) {
        struct kiln_err *why = &f->order.task.result.err;
        kiln_while(why, "the compiler's result for '%s'",
                   (const char *)f->source->job.program.data);
        fail_compile(f, why);
        return;
    }
    if (f->source->job.is_program) {
        f->object->kind = OBJECT_RTC_RESULT;
        f->engine->stats.client_programs++;
    }
    inflight_label_object(f);
    accounting_compiled(f->engine->metrics.accounting, f->uid, f->object->accounting_kind,
                        accounting_worth(f->object->compile_ns));
    event_kernel(f->engine, "compiled", &f->asked, f->source, &f->order.task.result);
    if (!f->no_cache)
        store_later(f->engine, &f->asked, KILN_TAKE(f->source), f->object);
    inflight_deliver_object(f, TIER_COMPILED);
}

static void compile_done(struct compile_order *order)
{
    struct inflight *f = (struct inflight *)order;
    struct compile_result *result = &order->task.result;
    fleet_leases_next(f->engine);
    if (order->started_ns)
        histogram_observe(&f->engine->metrics.queue, order->started_ns - order->queued_ns, 1);
    if (result->end == COMPILE_OUTDATED)
        toolchains_describe_soon(f->engine);
    if (result->end == COMPILE_UNAVAILABLE || result->end == COMPILE_OUTDATED) {
        inflight_deliver_failure(
            f, &result->err,
            result->log); /* the compiler failed, not this kernel, so the failure is not stored */
        return;
    }
    f->engine->stats.compiles++;
    if (result->end != COMPILE_DONE) {
        count_compile(f, result->end);
        fail_compile(f, &result->err);
        return;
    }
    f->stage = SEALING;
    f->task = (struct task){ .work = seal_work, .done = seal_done };
    engine_run(f->engine, f->uid, WORK_QUEUE_READ, &f->task);
}

static enum priority wanted_priority(const struct inflight *f)
{
    LIST_EACH (&f->tickets, struct fetch_ticket, waiting, t)
        if (t->priority == PRIORITY_INTERACTIVE)
            return PRIORITY_INTERACTIVE;
    return PRIORITY_PREFETCH;
}

enum kiln_code inflight_submit(struct inflight *f, struct kiln_err *err)
{
    f->stage = QUEUED;
    f->order.task.job = f->source->job;
    f->order.uid = f->uid;
    f->order.priority = wanted_priority(f);
    f->order.done = compile_done;
    enum kiln_code rc = compile_queue_submit(f->engine->queue, &f->order, err);
    if (rc)
        return rc;
    LIST_EACH (&f->tickets, struct fetch_ticket, waiting, t)
        compile_queue_share(f->engine->queue, &f->order, t->uid);
    return KILN_OK;
}

void inflight_join_queue(struct inflight *f, struct fetch_ticket *ticket)
{
    struct engine *e = f->engine;
    e->stats.coalesced++;
    inflight_attach(f, ticket);
    if (f->stage == FLEET)
        fleet_tier_join(f->fleet, ticket->uid, ticket->priority);
    if (f->stage != QUEUED)
        return;
    compile_queue_set_abandoned(e->queue, &f->order, false);
    if (ticket->priority == PRIORITY_INTERACTIVE)
        compile_queue_promote(e->queue, &f->order);
    compile_queue_share(e->queue, &f->order, ticket->uid);
}

static void submit_or_fail(struct inflight *f)
{
    struct kiln_err err = KILN_ERR_INIT;
    if (inflight_submit(f, &err))
        inflight_deliver_failure(f, &err, NULL);
}

static void fleet_answered(void *context, struct object *object)
{
    struct inflight *f = context;
    if (!object) {
        submit_or_fail(f);
        return;
    }
    f->object = object_ref(object);
    inflight_deliver_object(f, TIER_FLEET);
}

/* Asks the fleet for the kernel. Returns false if the fleet does not have it, or must not be asked.
 * The fleet is never asked for a program's result, because hosts share only kernels
 * (fleet_kernel_is_own). */
static bool ask_fleet(struct inflight *f)
{
    const struct compile_job *job = &f->source->job;
    const struct fleet_asked asked = {
        .key = f->asked,
        .shard = { job->target, job->toolchain, job->toolchain_id },
        .uid = f->uid,
        .priority = wanted_priority(f),
        .expected_ns = metrics_compile_expected(&f->engine->metrics, job->toolchain),
        .answered = fleet_answered,
        .context = f,
    };
    if (job->is_program || !fleet_tier_ask(f->engine, &asked, &f->fleet))
        return false;
    f->stage = FLEET;
    return true;
}

void inflight_compile_or_join(struct inflight *f)
{
    struct inflight *other = inflight_find(f->engine, &f->asked);
    if (!other || other == f) {
        inflight_enter_table(f, &f->asked);
        if (!ask_fleet(f))
            submit_or_fail(f);
        return;
    }
    if (!other->source && other->stage == LOOKING)
        other->source = KILN_TAKE(f->source);
    LIST_EACH (&f->tickets, struct fetch_ticket, waiting, t) {
        inflight_detach(t);
        inflight_join_queue(other, t);
    }
    inflight_destroy(f);
}
