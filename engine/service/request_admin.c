/* SPDX-License-Identifier: MIT */
/*
 * The administrative requests: JSON in, JSON out.
 *
 * Those that read or write the store run on a lane and answer when it is done; what they need of
 * the engine itself is added on the engine's thread afterwards.
 */
#include "common/clock.h"
#include "engine/service/fetch.h"

#include <stdio.h>
#include <string.h>

#define LIST_PAGE 1000 /* kernels in one answer: about 300 KB of JSON */
#define MATCHES_SHOWN 2

struct admin {
    struct service_waiter waiter; /* first member */
    struct task task;
    struct engine *engine;
    struct json *question; /* owned */
    struct json *answer;   /* owned */
    enum kiln_code rc;
    struct kiln_err err;
    /* On a lane; fills answer, or rc and err. */
    enum kiln_code (*work)(struct admin *a);
    /* On the engine's thread after it; may be NULL. */
    void (*finish)(struct admin *a);
    struct digest removed; /* kernel_remove: the key to drop from the hot set */
};

static void send_json(struct engine *e, struct caller *caller, uint64_t id,
                      const struct json *answer, uint16_t flags)
{
    KILN_AUTO(mem) char *text = json_print(answer, false);
    if (!text || strlen(text) > LIMIT_FRAME_BODY) {
        struct kiln_err why = { .code = KILN_NO_MEMORY, .text = "cannot build the answer" };
        service_refuse(e, caller, id, &why, NULL);
        return;
    }
    struct reply reply = {
        .type = MESSAGE_json, .request_id = id, .flags = flags, .body = bytes_of_text(text)
    };
    caller->ops->reply(caller, &reply);
}

static enum kiln_code read_question(const struct frame_header *header, struct bytes body,
                                    struct json **ret_question, struct kiln_err *err)
{
    char origin[64];
    snprintf(origin, sizeof(origin), "body of '%s'", message_name(header->type));
    if (body.size == 0)
        body = bytes_of_text("{}");
    enum kiln_code rc = json_parse(body, origin, ret_question, err);
    if (!rc && !json_is_object(*ret_question)) {
        json_destroy(KILN_TAKE(*ret_question));
        return kiln_fail(err, KILN_INVALID, "%s is not a JSON object", origin);
    }
    return rc;
}

/* ---- running on a lane ---- */

static void admin_destroy(struct admin *a)
{
    service_waiter_remove(&a->waiter);
    json_destroy(a->question);
    json_destroy(a->answer);
    free(a);
}

static void cancel_admin(struct service_waiter *w) { service_waiter_remove(w); } /* freed in done */

static struct admin *admin_of_task(struct task *t)
{
    return (struct admin *)(void *)((char *)t - offsetof(struct admin, task));
}

static void admin_work(struct task *task)
{
    struct admin *a = admin_of_task(task);
    a->rc = a->work(a);
}

static void admin_done(struct task *task)
{
    struct admin *a = admin_of_task(task);
    struct engine *e = a->engine;
    engine_task_ended(e);
    if (!a->rc && a->finish)
        a->finish(a);
    struct caller *caller = a->waiter.caller;
    uint64_t id = a->waiter.request_id;
    service_waiter_remove(&a->waiter);
    if (caller && a->rc)
        service_refuse(e, caller, id, &a->err, NULL);
    else if (caller)
        send_json(e, caller, id, a->answer, 0);
    admin_destroy(a);
}

static enum kiln_code run(struct engine *e, struct caller *caller,
                          const struct frame_header *header, struct bytes body, enum lane lane,
                          enum kiln_code (*work)(struct admin *), void (*finish)(struct admin *),
                          struct kiln_err *err)
{
    KILN_AUTO(json) struct json *question = NULL;
    enum kiln_code rc = read_question(header, body, &question, err);
    if (rc)
        return rc;
    struct admin *a = calloc(1, sizeof(*a));
    if (!a)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep the request '%s'",
                         message_name(header->type));
    a->engine = e;
    a->question = KILN_TAKE(question);
    a->answer = json_object();
    a->err = KILN_ERR_INIT;
    a->work = work;
    a->finish = finish;
    a->task = (struct task){ .work = admin_work, .done = admin_done };
    service_waiter_add(&a->waiter, e, caller, header->request_id, cancel_admin);
    engine_run(e, lane, &a->task);
    return KILN_OK;
}

/* ---- stats, status, config ---- */

static enum kiln_code work_usage(struct admin *a)
{
    struct kernel_usage usage;
    enum kiln_code rc = kernel_store_usage(a->engine->store, &usage, &a->err);
    if (rc)
        return rc;
    struct json *store = json_object();
    json_set_u64(store, "objects", usage.objects);
    json_set_u64(store, "stored_bytes", usage.stored_bytes);
    json_set_u64(store, "raw_bytes", usage.raw_bytes);
    json_set_u64(store, "limit_bytes", usage.limit_bytes);
    json_set(a->answer, "store", store);
    return KILN_OK;
}

static void add_counter(struct json *stats, struct json *hits, const char *name, uint64_t value)
{
    if (strncmp(name, "hits_", 5) == 0)
        json_set_u64(hits, name + 5, value);
    else
        json_set_u64(stats, name, value);
}

static void finish_stats(struct admin *a)
{
    struct engine *e = a->engine;
    const struct json *store = json_get(a->answer, "store");
    struct json *stats = json_object();
    struct json *hits = json_object();
#define STAT(name, purpose) add_counter(stats, hits, #name, e->stats.name);
#include "engine/service/stats.def"
#undef STAT
    json_set(stats, "hits", hits);
    json_set_u64(stats, "store_bytes", json_get_u64(store, "stored_bytes", 0));
    json_set_u64(stats, "store_objects", json_get_u64(store, "objects", 0));
    json_set_u64(stats, "hot_bytes", hot_set_bytes(e->hot));
    json_set_u64(stats, "hot_objects", hot_set_count(e->hot));
    json_set_u64(stats, "queued", compile_queue_waiting(e->queue));
    json_set_u64(stats, "compiling", compile_queue_running(e->queue));
    if (e->host)
        e->host->add_stats(e->host, stats);
    json_destroy(a->answer);
    a->answer = stats;
}

enum kiln_code handle_stats(struct engine *e, struct caller *caller,
                            const struct frame_header *header, struct bytes body,
                            struct kiln_err *err)
{
    return run(e, caller, header, body, LANE_READ, work_usage, finish_stats, err);
}

static struct json *toolchain_to_json(const struct toolchain *tc)
{
    static const char *const families[] = { "amdgpu", "nvidia", "opencl" };
    char hex[DIGEST_HEX_SIZE];
    digest_to_hex(&tc->identity, hex);
    struct json *j = json_object();
    json_set_text(j, "name", tc->name);
    json_set_text(j, "version", tc->version);
    json_set_text(j, "path", tc->path);
    json_set_text(j, "family", families[tc->family]);
    json_set_text(j, "identity", hex);
    return j;
}

static void finish_status(struct admin *a)
{
    struct engine *e = a->engine;
    struct json *hot = json_object();
    json_set_u64(hot, "objects", hot_set_count(e->hot));
    json_set_u64(hot, "bytes", hot_set_bytes(e->hot));
    json_set_u64(hot, "limit_bytes", e->hot_limit_bytes);
    json_set_u64(hot, "evictions", hot_set_evictions(e->hot));
    json_set(a->answer, "hot", hot);
    struct json *queue = json_object();
    json_set_u64(queue, "waiting", compile_queue_waiting(e->queue));
    json_set_u64(queue, "running", compile_queue_running(e->queue));
    json_set_u64(queue, "remembered_failures", failure_memory_count(e->failures));
    json_set(a->answer, "queue", queue);
    struct json *toolchains = json_array();
    for (size_t i = 0; i < toolchain_table_count(e->toolchains); i++)
        json_append(toolchains, toolchain_to_json(toolchain_table_at(e->toolchains, i)));
    json_set(a->answer, "toolchains", toolchains);
    json_set_bool(a->answer, "draining", e->draining);
    if (e->notice[0])
        json_set_text(a->answer, "notice", e->notice);
    if (!e->described && e->describe_failure[0])
        json_set_text(a->answer, "toolchains_unknown", e->describe_failure);
    if (e->host)
        e->host->add_status(e->host, a->answer);
}

enum kiln_code handle_status(struct engine *e, struct caller *caller,
                             const struct frame_header *header, struct bytes body,
                             struct kiln_err *err)
{
    return run(e, caller, header, body, LANE_READ, work_usage, finish_status, err);
}

enum kiln_code handle_config(struct engine *e, struct caller *caller,
                             const struct frame_header *header, struct bytes body,
                             struct kiln_err *err)
{
    (void)body;
    if (!e->host)
        return kiln_fail(err, KILN_UNSUPPORTED, "there is no configuration in this process");
    KILN_AUTO(json) struct json *config = e->host->config(e->host);
    send_json(e, caller, header->request_id, config, 0);
    return KILN_OK;
}

/* ---- toolchains ---- */

/* Starts what is not known yet of |target|; every toolchain of its family is asked. */
static void probe_all(struct engine *e, const struct target *target)
{
    for (size_t i = 0; i < toolchain_table_count(e->toolchains); i++) {
        const struct toolchain *tc = toolchain_table_at(e->toolchains, i);
        if (tc->family == target->family &&
            toolchain_probe_state(e->toolchains, tc, target) == PROBE_UNKNOWN)
            toolchains_probe(e, tc, target);
    }
}

static enum kiln_code probe_wanted(struct engine *e, const struct json *question,
                                   struct kiln_err *err)
{
    struct target target;
    const struct json *list = json_get(question, "probe");
    for (const struct json *j = json_first(list); j; j = json_next(j)) {
        enum kiln_code rc = target_parse(bytes_of_text(json_as_text(j, "")), &target, err);
        if (rc)
            return rc;
        probe_all(e, &target);
    }
    bool all = json_get_bool(question, "all", false);
    for (size_t i = 0; all && toolchain_known_targets[i]; i++) {
        enum kiln_code rc = target_parse(bytes_of_text(toolchain_known_targets[i]), &target, err);
        if (rc)
            return rc;
        probe_all(e, &target);
    }
    return KILN_OK;
}

static void add_target(struct engine *e, const struct toolchain *tc, const char *text,
                       struct json *targets)
{
    struct target target;
    struct kiln_err ignored = KILN_ERR_INIT;
    if (target_parse(bytes_of_text(text), &target, &ignored))
        return;
    enum probe_state state = toolchain_probe_state(e->toolchains, tc, &target);
    if (target.family != tc->family || state == PROBE_UNKNOWN)
        return;
    struct json *j = json_object();
    json_set_text(j, "target", target.text);
    json_set_bool(j, "works", state == PROBE_WORKS);
    if (state == PROBE_FAILS)
        json_set_text(j, "detail", toolchain_probe_detail(e->toolchains, tc, &target));
    json_append(targets, j);
}

static struct json *toolchain_with_targets(struct engine *e, const struct toolchain *tc,
                                           const struct json *question)
{
    struct json *targets = json_array();
    if (tc->only_target[0])
        add_target(e, tc, tc->only_target, targets);
    for (size_t i = 0; toolchain_known_targets[i]; i++)
        add_target(e, tc, toolchain_known_targets[i], targets);
    const struct json *asked = json_get(question, "probe");
    for (const struct json *j = json_first(asked); j; j = json_next(j)) {
        bool known = strcmp(json_as_text(j, ""), tc->only_target) == 0;
        for (size_t i = 0; toolchain_known_targets[i]; i++)
            known |= strcmp(json_as_text(j, ""), toolchain_known_targets[i]) == 0;
        if (!known)
            add_target(e, tc, json_as_text(j, ""), targets);
    }
    struct json *row = toolchain_to_json(tc);
    json_set(row, "targets", targets);
    return row;
}

enum kiln_code handle_toolchains(struct engine *e, struct caller *caller,
                                 const struct frame_header *header, struct bytes body,
                                 struct kiln_err *err)
{
    KILN_AUTO(json) struct json *question = NULL;
    enum kiln_code rc = read_question(header, body, &question, err);
    if (!rc && !e->described) {
        const struct toolchain *ignored = NULL;
        struct target any;
        rc = target_parse(bytes_of_text("gfx906"), &any, err);
        if (!rc)
            rc = toolchains_resolve(e, &any, (struct bytes){ 0 }, &ignored, err);
        return rc == KILN_BUSY ? toolchains_park(e, caller, header, body, err) : rc;
    }
    if (!rc)
        rc = probe_wanted(e, question, err);
    if (rc)
        return rc;
    if (!toolchains_settled(e))
        return toolchains_park(e, caller, header, body, err);
    KILN_AUTO(json) struct json *answer = json_object();
    struct json *rows = json_array();
    for (size_t i = 0; i < toolchain_table_count(e->toolchains); i++)
        json_append(rows,
                    toolchain_with_targets(e, toolchain_table_at(e->toolchains, i), question));
    json_set(answer, "toolchains", rows);
    send_json(e, caller, header->request_id, answer, 0);
    return KILN_OK;
}

/* ---- stored kernels ---- */

static struct json *kernel_to_json(const struct kernel_record *r)
{
    char hex[DIGEST_HEX_SIZE];
    struct json *j = json_object();
    digest_to_hex(&r->key, hex);
    json_set_text(j, "key", hex);
    json_set_text(j, "target", r->target);
    json_set_text(j, "toolchain", r->toolchain);
    json_set_text(j, "program", r->program);
    json_set_text(j, "options", r->options);
    json_set_u64(j, "size", r->raw_size);
    json_set_u64(j, "stored", r->stored_size);
    json_set_number(j, "compile_s", (double)r->compile_ns / 1e9);
    json_set_u64(j, "created", r->created);
    json_set_u64(j, "last_used", r->last_used);
    json_set_u64(j, "uses", r->uses);
    json_set_u64(j, "uid", r->uid);
    return j;
}

static struct kernel_filter filter_of(const struct json *question)
{
    uint64_t older = json_get_u64(question, "older_than_s", 0);
    uint64_t now = clock_wall_s();
    return (struct kernel_filter){
        .target = json_get_text(question, "target", ""),
        .program = json_get_text(question, "program", ""),
        .older_than = older && older < now ? now - older : 0,
    };
}

static void list_one(void *context, const struct kernel_record *r)
{
    struct admin *a = context;
    json_append(a->answer, kernel_to_json(r));
}

static enum kiln_code work_list(struct admin *a)
{
    struct kernel_filter filter = filter_of(a->question);
    const char *after = json_get_text(a->question, "after", NULL);
    struct digest start;
    if (after && !digest_from_hex(after, &start))
        return kiln_fail(&a->err, KILN_INVALID, "'after' is not a key: '%.70s'", after);
    uint64_t count = json_get_u64(a->question, "count", LIST_PAGE);
    if (count == 0 || count > LIST_PAGE)
        count = LIST_PAGE;
    struct json *answer = a->answer;
    a->answer = json_array();
    enum kiln_code rc = kernel_store_list(a->engine->store, &filter, after ? &start : NULL,
                                          (size_t)count, list_one, a, &a->err);
    const struct json *last = NULL;
    for (const struct json *j = json_first(a->answer); j; j = json_next(j))
        last = j;
    if (json_count(a->answer) == count)
        json_set_text(answer, "next", json_get_text(last, "key", ""));
    json_set(answer, "kernels", a->answer);
    a->answer = answer;
    return rc;
}

enum kiln_code handle_kernel_list(struct engine *e, struct caller *caller,
                                  const struct frame_header *header, struct bytes body,
                                  struct kiln_err *err)
{
    return run(e, caller, header, body, LANE_READ, work_list, NULL, err);
}

/* The one stored kernel whose key begins with the question's. */
static enum kiln_code find_one(struct admin *a, struct digest *ret_key)
{
    const char *prefix = json_get_text(a->question, "key", "");
    size_t count = 0;
    struct digest keys[MATCHES_SHOWN];
    if (!prefix[0] || strlen(prefix) >= DIGEST_HEX_SIZE ||
        strspn(prefix, "0123456789abcdefABCDEF") != strlen(prefix))
        return kiln_fail(
            &a->err, KILN_INVALID,
            "'%.70s' is not a key or the beginning of one (1 to 64 hexadecimal digits)", prefix);
    enum kiln_code rc =
        kernel_store_match(a->engine->store, prefix, keys, MATCHES_SHOWN, &count, &a->err);
    if (rc)
        return rc;
    if (count == 0)
        return kiln_fail(&a->err, KILN_NOT_FOUND, "no stored kernel's key begins with '%s'",
                         prefix);
    if (count > 1)
        return kiln_fail(&a->err, KILN_INVALID, "several keys begin with '%s': give more digits",
                         prefix);
    *ret_key = keys[0];
    return KILN_OK;
}

static void show_one(void *context, const struct kernel_record *r)
{
    struct admin *a = context;
    char hex[DIGEST_HEX_SIZE];
    json_destroy(a->answer);
    a->answer = kernel_to_json(r);
    digest_to_hex(&r->object, hex);
    json_set_text(a->answer, "object", hex);
    digest_to_hex(&r->toolchain_id, hex);
    json_set_text(a->answer, "toolchain_id", hex);
    a->removed = r->key; /* here: the key shown */
}

static enum kiln_code work_show(struct admin *a)
{
    struct digest key;
    enum kiln_code rc = find_one(a, &key);
    if (!rc)
        rc = kernel_store_show(a->engine->store, &key, show_one, a, &a->err);
    return rc;
}

static void finish_show(struct admin *a)
{
    bool hot = hot_set_find(a->engine->hot, &a->removed) != NULL;
    json_set_text(a->answer, "tier", tier_name(hot ? TIER_HOT : TIER_DISK));
}

enum kiln_code handle_kernel_show(struct engine *e, struct caller *caller,
                                  const struct frame_header *header, struct bytes body,
                                  struct kiln_err *err)
{
    return run(e, caller, header, body, LANE_READ, work_show, finish_show, err);
}

static enum kiln_code work_remove(struct admin *a)
{
    enum kiln_code rc = find_one(a, &a->removed);
    if (!rc)
        rc = kernel_store_remove(a->engine->store, &a->removed, &a->err);
    json_set_u64(a->answer, "removed", rc ? 0 : 1);
    return rc;
}

static void finish_remove(struct admin *a) { hot_set_remove(a->engine->hot, &a->removed); }

enum kiln_code handle_kernel_remove(struct engine *e, struct caller *caller,
                                    const struct frame_header *header, struct bytes body,
                                    struct kiln_err *err)
{
    return run(e, caller, header, body, LANE_WRITE, work_remove, finish_remove, err);
}

static enum kiln_code work_clear(struct admin *a)
{
    struct kernel_filter filter = filter_of(a->question);
    bool all = json_get_bool(a->question, "all", false);
    bool dry_run = json_get_bool(a->question, "dry_run", false);
    if (!all && !filter.target[0] && !filter.program[0] && !filter.older_than)
        return kiln_fail(&a->err, KILN_INVALID,
                         "clear what? give target, program, older_than_s or all");
    uint64_t count = 0;
    uint64_t bytes = 0;
    enum kiln_code rc =
        kernel_store_clear(a->engine->store, &filter, dry_run, &count, &bytes, &a->err);
    json_set_u64(a->answer, "kernels", count);
    json_set_u64(a->answer, "bytes", bytes);
    json_set_bool(a->answer, "dry_run", dry_run);
    return rc;
}

/* The hot set knows keys only, so whatever was cleared, all of it goes: the disk fills it again.
 * Failures are forgotten as well: who clears wants a fresh try. */
static void finish_clear(struct admin *a)
{
    if (json_get_bool(a->answer, "dry_run", false))
        return;
    hot_set_clear(a->engine->hot);
    failure_memory_clear(a->engine->failures);
    event_text(a->engine, "cleared", "kernels were cleared by request");
}

enum kiln_code handle_clear(struct engine *e, struct caller *caller,
                            const struct frame_header *header, struct bytes body,
                            struct kiln_err *err)
{
    return run(e, caller, header, body, LANE_WRITE, work_clear, finish_clear, err);
}

/* ---- events ---- */

enum kiln_code handle_events(struct engine *e, struct caller *caller,
                             const struct frame_header *header, struct bytes body,
                             struct kiln_err *err)
{
    KILN_AUTO(json) struct json *question = NULL;
    enum kiln_code rc = read_question(header, body, &question, err);
    if (rc)
        return rc;
    caller->wants_events = true;
    caller->events_request = header->request_id;
    KILN_AUTO(json) struct json *first = json_object();
    json_set_text(first, "event", "subscribed");
    json_set_u64(first, "time", clock_wall_s());
    send_json(e, caller, header->request_id, first, FRAME_MORE);
    return KILN_OK;
}
