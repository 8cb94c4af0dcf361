/* SPDX-License-Identifier: MIT */
/* A probe compiles one line, to find out whether a toolchain builds for a target. */
#include "engine/service/kernels/toolchains.h"

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "common/base/subordinate_uids.h"
#include "engine/service/fleet/fleet_tier.h"
#include "engine/service/internal.h"
#include "engine/service/kernels/built_in.h"
#include "engine/service/kernels/store_tasks.h"

#include <stdio.h>
#include <string.h>

#define DESCRIPTION_MAX (64u << 10)
#define DESCRIBE_AGAIN_NS 10000000000u
/* Time after which kiln asks again which compilers are installed, to notice upgrades. Until then,
 * kernels that an upgraded compiler makes have the old compiler's identity. They are not served
 * once kiln knows the new identity. */
#define DESCRIBE_FRESH_NS 60000000000u
#define FAILURE_NS 600000000000u /* ten minutes, as long as a compile failure is stored */
#define NOT_NOW_NS 1000000000u
/* Maximum number of probes of one user at the same time; each of them starts a process. No batch
 * needs more. A longer list of targets (`kilnctl toolchain ls`) is probed in parts. */
#define PROBES_MAX_UID 64u
#define FAILED_PROBES_MAX 96 /* more failures than one list of targets can cause */

/* A probe that failed for a reason that may be temporary. */
struct failed_probe {
    char toolchain[16];
    struct target target;
    uint64_t until_ns;
};

struct toolchain_probes {
    struct list under_way;
    uint64_t describe_at_ns;
    struct failed_probe failures[FAILED_PROBES_MAX];
    unsigned next_failure;
    char describe_failure[512];
    bool is_described;
    bool reported_no_toolchain;
};

/* The probe of |target|, or, if |target| is empty, the describe job, which lists the toolchains. */
struct probe {
    struct compile_order order;
    struct engine *engine;
    struct list_link link;
    uid_t uid; /* the user who asked first, and whose limit counts the probe */
    struct list watches;
    /* The second step of the describe job, which reads the stored results of probes. */
    struct task task;
    struct list cached_probes; /* of struct cached_probe; filled on a work queue */
    struct toolchain tc;       /* a copy, because the table may change meanwhile */
    struct target target;
};

#define EACH_PROBE(e, p) LIST_EACH (&(e)->probes->under_way, struct probe, link, p)

enum kiln_code toolchains_create(struct toolchain_probes **ret_probes, struct kiln_err *err)
{
    struct toolchain_probes *probes = calloc(1, sizeof(*probes));
    if (!probes)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep probes of toolchains");
    list_init(&probes->under_way);
    *ret_probes = probes;
    return KILN_OK;
}

void toolchains_destroy(struct toolchain_probes *probes) { free(probes); }

bool toolchains_described(const struct engine *e, const char **ret_failure)
{
    *ret_failure = e->probes->describe_failure;
    return e->probes->is_described;
}

void toolchains_describe_soon(struct engine *e) { e->probes->describe_at_ns = 0; }

void probe_watch_start(struct probe_watch *watch, struct probe *p)
{
    watch->probe = p;
    list_append(&p->watches, &watch->link);
}

void probe_watch_stop(struct probe_watch *watch)
{
    list_remove(&watch->link);
    probe_drop_unless_watched(watch->probe);
}

void probe_drop_unless_watched(struct probe *p)
{
    struct engine *e = p->engine;
    if (!list_is_empty(&p->watches) || !p->target.text[0] ||
        !compile_queue_cancel(e->queue, &p->order))
        return;
    list_remove(&p->link);
    free(p);
}

static void end_watches(struct probe *p)
{
    LIST_EACH (&p->watches, struct probe_watch, link, watch) {
        list_remove(&watch->link);
        watch->ended(watch);
    }
}

static void end_probe(struct probe *p)
{
    list_remove(&p->link);
    end_watches(p);
    compile_result_done(&p->order.task.result);
    free(p);
}

static enum kiln_code start_probe(struct engine *e, struct probe *p, enum compile_kind kind,
                                  void (*done)(struct compile_order *), struct kiln_err *err)
{
    p->engine = e;
    list_init(&p->watches);
    list_init(&p->cached_probes);
    p->order.priority = PRIORITY_INTERACTIVE;
    p->order.done = done;
    p->order.task.job = (struct compile_job){
        .kind = kind,
        .origin = kind == COMPILE_PROBE ? COMPILE_OF_CLIENT : COMPILE_OF_KILN,
        .toolchain = bytes_of_text(p->tc.name),
        .target = bytes_of_text(p->target.text),
    };
    enum kiln_code rc = compile_queue_submit(e->queue, &p->order, err);
    if (rc)
        return rc;
    list_prepend(&e->probes->under_way, &p->link);
    return KILN_OK;
}

static enum kiln_code read_description(struct engine *e, const struct compile_result *result,
                                       struct kiln_err *err)
{
    if (result->end != COMPILE_DONE) {
        *err = result->err;
        return err->code;
    }
    BUFFER_AUTO struct buffer json;
    buffer_init(&json, DESCRIPTION_MAX);
    enum kiln_code rc = fs_read_fd(result->object_fd, DESCRIPTION_MAX, &json, err);
    if (!rc)
        rc = toolchain_table_describe(e->toolchains, buffer_view(&json), err);
    return rc;
}

struct cached_probe {
    struct list_link link;
    struct digest toolchain_id;
    struct target target;
    bool works;
    char detail[512];
};

static void add_cached_probe(void *context, const struct kernel_probe *stored)
{
    struct probe *p = context;
    struct kiln_err ignored = KILN_ERR_INIT;
    struct cached_probe *m = calloc(1, sizeof(*m));
    if (!m || target_parse(bytes_of_text(stored->target), &m->target, &ignored)) {
        free(m); /* kiln probes again when needed */
        return;
    }
    m->toolchain_id = stored->toolchain_id;
    m->works = stored->works;
    snprintf(m->detail, sizeof(m->detail), "%s", stored->detail);
    list_append(&p->cached_probes, &m->link);
}

static struct probe *probe_of_task(struct task *t)
{
    return (struct probe *)(void *)((char *)t - offsetof(struct probe, task));
}

static void cached_probes_work(struct task *task)
{
    struct probe *p = probe_of_task(task);
    struct kiln_err ignored = KILN_ERR_INIT;
    if (kernel_store_probes(p->engine->store, add_cached_probe, p, &ignored))
        return;
}

static void learn_probe(struct engine *e, const struct cached_probe *m)
{
    for (size_t i = 0; i < toolchain_table_count(e->toolchains); i++) {
        const struct toolchain *tc = toolchain_table_at(e->toolchains, i);
        if (digest_equal(&tc->identity, &m->toolchain_id))
            toolchain_probe_learn(e->toolchains, tc, &m->target,
                                  m->works ? PROBE_WORKS : PROBE_FAILS, m->detail);
    }
}

/* Reports that no compiler is installed, but only once until a compiler is found. */
static void report_missing_toolchains(struct engine *e)
{
    bool none = toolchain_table_count(e->toolchains) == 0;
    if (none && !e->probes->reported_no_toolchain)
        event_report(e, "toolchains_none",
                     "no compiler was found: kernels come only from the cache and from packages; "
                     "install a compiler, and check with 'kilnctl doctor' that kilnd finds it");
    e->probes->reported_no_toolchain = none;
}

static void cached_probes_done(struct task *task)
{
    struct probe *p = probe_of_task(task);
    struct engine *e = p->engine;
    engine_task_ended(e);
    LIST_EACH (&p->cached_probes, struct cached_probe, link, m) {
        learn_probe(e, m);
        free(m);
    }
    report_missing_toolchains(e);
    e->probes->is_described = true;
    e->probes->describe_at_ns = clock_monotonic_ns() + DESCRIBE_FRESH_NS;
    end_probe(p);
}

static void describe_done(struct compile_order *order)
{
    struct probe *p = (struct probe *)order;
    struct engine *e = p->engine;
    struct kiln_err err = KILN_ERR_INIT;
    if (read_description(e, &order->task.result, &err) == KILN_OK) {
        p->task = (struct task){ .work = cached_probes_work, .done = cached_probes_done };
        engine_run(e, e->own_uid, WORK_QUEUE_READ, &p->task);
        return;
    }
    kiln_while(&err, "asking which toolchains are installed");
    if (!e->draining)
        event_report(e, "toolchains_unknown", err.text);
    memcpy(e->probes->describe_failure, err.text, sizeof(e->probes->describe_failure));
    e->probes->describe_at_ns = clock_monotonic_ns() + DESCRIBE_AGAIN_NS;
    end_probe(p);
}

static bool compilers_are_off(struct engine *e)
{
    if (e->executor->ops->compile_slots(e->executor) > 0)
        return false;
    snprintf(e->probes->describe_failure, sizeof(e->probes->describe_failure), "%s",
             built_in_exists(e) ? "no compiler is used (KILN_EMBED_COMPILE is not on)"
                                : "compilers are switched off (the setting 'workers' is 0)");
    e->probes->describe_at_ns = UINT64_MAX;
    return true;
}

void toolchains_describe(struct engine *e)
{
    if (compilers_are_off(e))
        return;
    EACH_PROBE(e, other)
    {
        if (!other->target.text[0])
            return;
    }
    struct kiln_err err = KILN_ERR_INIT;
    struct probe *p = calloc(1, sizeof(*p));
    if (p)
        p->order.uid = (uid_t)-1; /* counts toward no user's limit */
    if (!p || start_probe(e, p, COMPILE_DESCRIBE, describe_done, &err)) {
        free(p);
        memcpy(e->probes->describe_failure, err.text, sizeof(e->probes->describe_failure));
        e->probes->describe_at_ns = clock_monotonic_ns() + DESCRIBE_AGAIN_NS;
    }
}

struct probe_put_task {
    struct store_write base;
    struct digest toolchain_id;
    struct target target;
    bool works;
    char detail[512];
};

static enum kiln_code put_probe(struct store_write *w, struct kiln_err *err)
{
    const struct probe_put_task *r = (const struct probe_put_task *)w;
    const struct kernel_probe probe = { .toolchain_id = r->toolchain_id,
                                        .target = r->target.text,
                                        .works = r->works,
                                        .detail = r->detail };
    return kernel_store_probe_put(w->engine->store, &probe, err);
}

static void store_probe(struct engine *e, const struct probe *p, bool works, const char *detail)
{
    struct probe_put_task *r = calloc(1, sizeof(*r));
    if (!r)
        return; /* the result is not stored: kiln probes again after its next start */
    r->base.write = put_probe;
    r->toolchain_id = p->tc.identity;
    r->target = p->target;
    r->works = works;
    memcpy(r->detail, detail, strnlen(detail, sizeof(r->detail) - 1));
    store_write_run(e, e->own_uid, &r->base);
}

static void forget_failure(struct engine *e, struct failed_probe *f)
{
    const struct toolchain *tc = toolchain_table_find(e->toolchains, bytes_of_text(f->toolchain));
    if (tc && toolchain_probe_state(e->toolchains, tc, &f->target) != PROBE_WORKS)
        toolchain_probe_learn(e->toolchains, tc, &f->target, PROBE_UNKNOWN, NULL);
    f->until_ns = 0;
}

/* Notes that a probe failed because of a crash, a time-out, or a lack of memory or workers. kiln
 * tries the probe again after a while. If there are too many failures, for example because of
 * made-up targets, the oldest one is forgotten. */
static void note_failure(struct engine *e, const struct probe *p, enum compile_end end)
{
    uint64_t life = end == COMPILE_UNAVAILABLE ? NOT_NOW_NS : FAILURE_NS;
    struct toolchain_probes *probes = e->probes;
    struct failed_probe *f = &probes->failures[probes->next_failure++ % FAILED_PROBES_MAX];
    if (f->until_ns)
        forget_failure(e, f);
    *f = (struct failed_probe){ .target = p->target, .until_ns = clock_monotonic_ns() + life };
    memcpy(f->toolchain, p->tc.name, sizeof(f->toolchain));
}

static void forget_old_failures(struct engine *e)
{
    uint64_t now = clock_monotonic_ns();
    for (size_t i = 0; i < FAILED_PROBES_MAX; i++) {
        struct failed_probe *f = &e->probes->failures[i];
        if (f->until_ns && f->until_ns <= now)
            forget_failure(e, f);
    }
}

/* Call this function only at the beginning of a request. It drops old results, but a request that
 * has waited for a probe needs the result of the probe, even an old one. */
void toolchains_refresh(struct engine *e)
{
    if (e->probes->describe_at_ns <= clock_monotonic_ns())
        toolchains_describe(e);
    forget_old_failures(e);
}

static void describe_failed_probe(const struct compile_result *result, char detail[512])
{
    const char *log = result->log ? result->log : "";
    log += strspn(log, " \t\r\n");
    int line = (int)strcspn(log, "\r\n");
    snprintf(detail, 512, line ? "%.240s (%.*s)" : "%.240s", result->err.text,
             line < 240 ? line : 240, log);
}

static struct fleet_shard shard_of_probe(const struct probe *p)
{
    return (struct fleet_shard){ bytes_of_text(p->target.text), bytes_of_text(p->tc.name),
                                 p->tc.identity };
}

void toolchains_note_works(struct engine *e, const struct fleet_shard *shard)
{
    EACH_PROBE(e, p)
    {
        const struct fleet_shard wanted = shard_of_probe(p);
        if (!fleet_shard_equal(&wanted, shard))
            continue;
        toolchain_probe_learn(e->toolchains, &p->tc, &p->target, PROBE_WORKS, NULL);
        end_watches(p);
        return;
    }
}

static enum probe_state state_after(enum compile_end end)
{
    return end == COMPILE_DONE          ? PROBE_WORKS
           : end == COMPILE_UNAVAILABLE ? PROBE_NOT_NOW
                                        : PROBE_FAILS;
}

static void probe_done(struct compile_order *order)
{
    struct probe *p = (struct probe *)order;
    struct engine *e = p->engine;
    const struct compile_result *result = &order->task.result;
    bool works = result->end == COMPILE_DONE;
    char detail[512] = "";
    if (!works)
        describe_failed_probe(result, detail);
    e->stats.probes++;
    const struct toolchain *tc = toolchain_table_find(e->toolchains, bytes_of_text(p->tc.name));
    if (tc && digest_equal(&tc->identity, &p->tc.identity)) {
        toolchain_probe_learn(e->toolchains, tc, &p->target, state_after(result->end),
                              works ? NULL : detail);
        if (works || result->end == COMPILE_REFUSED)
            store_probe(e, p, works, detail);
        else
            note_failure(e, p, result->end);
    }
    end_probe(p);
}

struct probe *toolchains_probe_start(struct engine *e, uid_t uid, const struct toolchain *tc,
                                     const struct target *target, struct kiln_err *err)
{
    unsigned own = 0;
    EACH_PROBE(e, p)
    {
        own += is_one_user(p->uid, uid) && p->target.text[0];
        if (strcmp(p->tc.name, tc->name) != 0 || strcmp(p->target.text, target->text) != 0)
            continue;
        compile_queue_share(e->queue, &p->order, uid);
        return p;
    }
    if (own >= PROBES_MAX_UID) {
        kiln_fail(err, KILN_UNAVAILABLE,
                  "%u probes of new targets are under way for user %u, which is the maximum: try "
                  "%s again when they have ended",
                  own, (unsigned)uid, target->text);
        return NULL;
    }
    struct probe *p = calloc(1, sizeof(*p));
    if (!p) {
        kiln_fail(err, KILN_NO_MEMORY, "cannot try %s for %s", tc->name, target->text);
        return NULL;
    }
    p->tc = *tc;
    p->target = *target;
    p->uid = p->order.uid = uid;
    if (start_probe(e, p, COMPILE_PROBE, probe_done, err) == KILN_OK) {
        const struct fleet_shard shard = shard_of_probe(p);
        if (fleet_tier_load(e, &shard))
            toolchains_note_works(e, &shard);
        return p;
    }
    free(p);
    kiln_while(err, "trying %s for %s", tc->name, target->text);
    err->code = KILN_UNAVAILABLE; /* KILN_BUSY would mean that a probe was started */
    return NULL;
}

enum kiln_code toolchains_check_description(const struct engine *e, struct probe **ret_describe,
                                            struct kiln_err *err)
{
    if (e->probes->is_described)
        return KILN_OK;
    /* No probe starts before the describe job has ended, so the first entry is this job. */
    *ret_describe = LIST_FIRST(&e->probes->under_way, struct probe, link);
    if (*ret_describe)
        return KILN_BUSY;
    return kiln_fail(err, KILN_UNAVAILABLE, "no toolchain to compile with: %s",
                     e->probes->describe_failure);
}

enum kiln_code toolchains_find(const struct engine *e, const struct target *target,
                               struct bytes forced, const struct toolchain **ret_toolchain,
                               struct kiln_err *err)
{
    struct probe *ignored;
    enum kiln_code rc = toolchains_check_description(e, &ignored, err);
    return rc ? rc : toolchain_choose(e->toolchains, target, forced, ret_toolchain, err);
}

bool toolchains_tried(const struct engine *e, const struct toolchain *tc, struct bytes target)
{
    struct target t;
    struct kiln_err ignored = KILN_ERR_INIT;
    return target_parse(target, &t, &ignored) == KILN_OK &&
           toolchain_probe_state(e->toolchains, tc, &t) == PROBE_WORKS;
}

bool toolchains_settled(const struct engine *e) { return list_is_empty(&e->probes->under_way); }
