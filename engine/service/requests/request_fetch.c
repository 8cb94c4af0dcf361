/* SPDX-License-Identifier: MIT */
/* The requests fetch, fetch_source and batch. */
#include "common/base/clock.h"
#include "engine/compile/headers.h"
#include "engine/compile/options.h"
#include "engine/service/requests/results.h"
#include "engine/store/kernel_name.h"

#include <string.h>

/* Bytes that a waiting item is charged. They exceed its memory, because the charge also limits the
 * time that the loop needs to answer or cancel the items. */
#define ITEM_COST 1024u

struct item {                   /* waits for its kernel, or for the end of the loop iteration */
    struct fetch_ticket ticket; /* first member */
    struct fetch_request *request;
    struct list_link link; /* in |waiting| or |ready| of its request */
    struct result_options options;
    /* Set once the item is ready, until it is sent: */
    struct object *object; /* owned reference; NULL: not found, or failed */
    enum kiln_code code;
    enum tier tier;
    struct digest key;
};

_Static_assert(sizeof(struct item) <= ITEM_COST, "an item is charged for its memory");

/* Bytes of objects that are sent to one request inside frames. All further objects are sent as
 * descriptors, because those use no memory while a slow client does not read. */
#define INLINE_BYTES (8u << 20)

struct fetch_request {
    struct deferred base; /* first member */
    uint32_t remaining;   /* items that are not ready */
    uint64_t inline_left; /* bytes */
    struct list waiting;  /* of struct item; owned, as is |ready| */
    struct list ready;    /* found in this loop iteration: they share frames */
    uint64_t batch;       /* number of the batch; 0: none */
    /* The items of a batch that were not begun: */
    struct reader items; /* reads the frame, or |rest| once the handler has returned */
    uint32_t next, count;
    uint8_t *rest; /* owned; NULL: none */
};

static void destroy_item(struct item *item)
{
    list_remove(&item->link);
    object_unref(item->object);
    deferred_refund(&item->request->base, ITEM_COST);
    free(item);
}

static bool stop_fetch(struct deferred *d)
{
    struct fetch_request *rq = (struct fetch_request *)d;
    LIST_EACH (&rq->waiting, struct item, link, item)
        fetch_cancel(d->engine, &item->ticket);
    return true;
}

static void release_fetch(struct deferred *d)
{
    struct fetch_request *rq = (struct fetch_request *)d;
    LIST_EACH (&rq->waiting, struct item, link, item)
        destroy_item(item);
    LIST_EACH (&rq->ready, struct item, link, item)
        destroy_item(item);
    free(rq->rest);
}

static const struct deferred_kind fetch_kind = { .size = sizeof(struct fetch_request),
                                                 .stop = stop_fetch,
                                                 .release = release_fetch };

/* Adds a result to the current frame. If the frame is full, sends it first, with the flag
 * FRAME_MORE. */
static void add_result(struct fetch_request *rq, struct result_list *list,
                       struct result_options *options, const struct fetch_result *result)
{
    struct caller *caller = rq->base.caller;
    uint64_t size = result->object ? result->object->size : 0;
    if (result_list_is_full(list)) {
        result_list_send(list, caller, rq->base.request_id, FRAME_MORE);
        result_list_begin_frame(list, rq->base.engine, caller);
    }
    if (size > rq->inline_left)
        options->inline_limit = 0;
    if (size <= options->inline_limit)
        rq->inline_left -= size;
    result_list_add(list, options, result);
}

static void add_ready(struct fetch_request *rq, struct result_list *list)
{
    LIST_EACH (&rq->ready, struct item, link, item) {
        const struct fetch_result result = { .err = { .code = item->code },
                                             .tier = item->tier,
                                             .key = item->key,
                                             .object = item->object };
        add_result(rq, list, &item->options, &result);
        destroy_item(item);
    }
}

/* Sends the frame. If it has the last results, the request is ended first. */
static void send_results(struct fetch_request *rq, struct result_list *list)
{
    struct caller *caller = rq->base.caller;
    uint64_t id = rq->base.request_id;
    bool more = rq->remaining > 0;
    if (!more)
        deferred_destroy(&rq->base);
    if (list->count)
        result_list_send(list, caller, id, more ? FRAME_MORE : 0);
}

static void go_on(struct deferred *d);
static const struct deferred_step go_on_step = { .done = go_on };

/* Calls go_on at the end of this loop iteration. */
static void go_on_later(struct fetch_request *rq)
{
    if (!rq->base.is_running)
        deferred_run(&rq->base, &go_on_step);
}

/* Keeps a result until the end of this loop iteration. Other results of its request may be ready by
 * then. */
static void keep_ready(struct item *item, const struct fetch_result *result)
{
    struct fetch_request *rq = item->request;
    item->object = result->object ? object_ref(result->object) : NULL;
    item->code = result->err.code;
    item->tier = result->tier;
    item->key = result->key;
    list_remove(&item->link);
    list_append(&rq->ready, &item->link);
    go_on_later(rq);
}

static void item_ready(struct fetch_ticket *ticket, const struct fetch_result *result)
{
    struct item *item = (struct item *)ticket;
    struct fetch_request *rq = item->request;
    struct result_list list;
    rq->remaining--;
    bool has_text = result->err.text[0] || result->log;
    if (!has_text && rq->remaining > 0) {
        keep_ready(item, result);
        return;
    }
    result_list_begin_frame(&list, rq->base.engine, rq->base.caller);
    add_ready(rq, &list);
    add_result(rq, &list, &item->options, result);
    destroy_item(item);
    send_results(rq, &list);
}

static struct fetch_request *request_create(struct engine *e, struct caller *caller, uint64_t id,
                                            uint32_t count, struct kiln_err *err)
{
    struct fetch_request *rq = deferred_create(&fetch_kind, e, caller, id, err);
    if (!rq)
        return NULL;
    rq->count = rq->remaining = count;
    rq->inline_left = INLINE_BYTES;
    list_init(&rq->waiting);
    list_init(&rq->ready);
    deferred_wait(&rq->base);
    return rq;
}

/* Returns NULL if the user's budget is used up, or memory ran out. */
static struct item *create_item(struct fetch_request *rq, const struct fetch_ticket *ticket,
                                const struct result_options *options, struct kiln_err *err)
{
    if (deferred_charge(&rq->base, ITEM_COST, err))
        return NULL;
    struct item *item = calloc(1, sizeof(*item));
    if (!item) {
        deferred_refund(&rq->base, ITEM_COST);
        kiln_fail(err, KILN_NO_MEMORY, "cannot keep the request: out of memory");
        return NULL;
    }
    item->ticket = *ticket;
    item->request = rq;
    item->options = *options;
    list_append(&rq->waiting, &item->link);
    return item;
}

/* One item of a request, as read from the frame, with everything that its fetch needs. */
struct item_request {
    struct result_options result;
    enum priority priority;
    struct fetch_options fetch; /* its pointers point into this struct */
    struct target target;       /* only for an item with a source */
    struct compile_job job;
    struct kernel_name name; /* only for an item with a name */
    struct digest shared_key;
    struct kiln_err err; /* code not OK: this item fails */
};

static enum kiln_code canonical_options(struct bytes text, struct buffer *storage,
                                        struct bytes *ret_options, struct kiln_err *err)
{
    buffer_clear(storage);
    enum kiln_code rc = options_canonicalise(text, storage, err);
    *ret_options = buffer_view(storage);
    return rc;
}

/* Finds the toolchain of an item. KILN_BUSY: a probe is under way, so the request must call
 * toolchains_wait. */
static enum kiln_code find_toolchain(struct engine *e, uid_t uid,
                                     const struct message_fetch_source *m, struct item_request *w)
{
    const struct toolchain_question question = { .uid = uid,
                                                 .target = &w->target,
                                                 .forced = m->toolchain };
    enum kiln_code rc = target_parse(m->target, &w->target, &w->err);
    return rc ? rc : toolchains_resolve(e, &question, &w->fetch.tc, &w->err);
}

static enum kiln_code check_source(struct engine *e, uid_t uid,
                                   const struct message_fetch_source *m, struct buffer *storage,
                                   struct item_request *w)
{
    struct kiln_err *err = &w->err;
    enum kiln_code rc = program_name_check(m->program, err);
    if (!rc && m->source.size == 0)
        rc = kiln_fail(err, KILN_INVALID, "program '%.*s' has no source", (int)m->program.size,
                       (const char *)m->program.data);
    if (!rc)
        rc = headers_check(m->headers, m->header_count, err);
    if (!rc)
        rc = canonical_options(m->options, storage, &w->job.options, err);
    return rc ? rc : find_toolchain(e, uid, m, w);
}

/* Reads an item with a source. KILN_BUSY: a probe is under way, so the request must call
 * toolchains_wait. Other failures concern only this item and are stored in |ret_item|. */
static enum kiln_code read_source(struct engine *e, uid_t uid, struct bytes body,
                                  struct buffer *storage, struct item_request *ret_item)
{
    struct reader r = reader_of(body);
    struct message_fetch_source m = message_fetch_source_read(&r);
    struct item_request *w = ret_item;
    w->fetch.job = &w->job;
    w->fetch.no_cache = m.flags & FETCH_NO_CACHE;
    w->priority = m.priority ? PRIORITY_PREFETCH : PRIORITY_INTERACTIVE;
    w->result.inline_limit = m.inline_limit;
    w->result.no_object = m.flags & FETCH_NO_OBJECT;
    enum kiln_code rc = message_body_check(&r, MESSAGE_fetch_source, &w->err);
    if (!rc)
        rc = check_source(e, uid, &m, storage, w);
    if (rc)
        return rc;
    w->job.kind = COMPILE_KERNEL;
    w->job.origin = COMPILE_OF_CLIENT;
    w->job.toolchain = bytes_of_text(w->fetch.tc->name);
    w->job.target = bytes_of_text(w->target.text);
    w->job.program = m.program;
    w->job.source = m.source;
    w->job.header_count = m.header_count;
    w->job.headers = m.headers;
    return KILN_OK;
}

static enum kiln_code read_key(struct bytes body, struct item_request *ret_item)
{
    struct reader r = reader_of(body);
    struct message_fetch m = message_fetch_read(&r);
    ret_item->fetch.key = m.key;
    ret_item->result.inline_limit = m.inline_limit;
    return message_body_check(&r, MESSAGE_fetch, &ret_item->err);
}

/* Searches the caller's imports, then those for all users, then packages. */
static enum kiln_code read_name(uid_t uid, struct bytes body, struct item_request *w)
{
    struct reader r = reader_of(body);
    struct message_fetch_name m = message_fetch_name_read(&r);
    w->result.inline_limit = m.inline_limit;
    enum kiln_code rc = message_body_check(&r, MESSAGE_fetch_name, &w->err);
    if (!rc)
        rc = kernel_name_take(m.database_id, m.name, m.args, &w->name, &w->err);
    if (rc)
        return rc;
    w->fetch.key = kernel_name_key(uid, m.database_id, m.name, m.args);
    w->shared_key = kernel_name_key(KERNEL_SCOPE_EVERYONE, m.database_id, m.name, m.args);
    w->fetch.name = &w->name;
    w->fetch.shared_key = &w->shared_key;
    return KILN_OK;
}

/* Makes an item whose kernel is not in memory wait for it. Returns true if *ret_result holds the
 * answer already. */
static bool start_item(struct fetch_request *rq, const struct item_request *w,
                       const struct fetch_ticket *ticket, const struct digest *key,
                       struct fetch_result *ret_result)
{
    struct engine *e = rq->base.engine;
    struct kiln_err err = KILN_ERR_INIT;
    struct item *item = create_item(rq, ticket, &w->result, &err);
    if (!item) {
        fetch_refuse(e, ticket, key, &err);
        *ret_result = (struct fetch_result){ .err = err, .key = *key };
        return true;
    }
    if (!fetch_start(e, &w->fetch, key, &item->ticket, ret_result))
        return false;
    destroy_item(item);
    return true;
}

static struct fetch_ticket ticket_of(const struct caller *caller, const struct item_request *w)
{
    return (
        struct fetch_ticket){ .uid = caller->uid, .priority = w->priority, .ready = item_ready };
}

/* Returns true if *ret_result holds the answer. */
static bool begin_item(struct fetch_request *rq, const struct item_request *w,
                       struct fetch_result *ret_result)
{
    struct fetch_ticket ticket = ticket_of(rq->base.caller, w);
    struct digest key;
    ticket.batch = rq->batch;
    if (w->err.code) {
        *ret_result = (struct fetch_result){ .err = w->err };
        return true;
    }
    return fetch_at_hand(rq->base.engine, &w->fetch, &ticket, &key, ret_result) ||
           start_item(rq, w, &ticket, &key, ret_result);
}

static void answer_one(struct engine *e, struct caller *caller, uint64_t id,
                       const struct result_options *options, const struct fetch_result *result)
{
    struct result_list list;
    result_list_begin_frame(&list, e, caller);
    result_list_add(&list, options, result);
    result_list_send(&list, caller, id, 0);
}

/* Handles a request for one kernel. A kernel in memory, the usual case, needs no deferred
 * request. */
static enum kiln_code handle_one(struct engine *e, struct caller *caller, uint64_t id,
                                 const struct item_request *w, struct kiln_err *err)
{
    struct fetch_result result;
    struct digest key;
    struct fetch_ticket ticket = ticket_of(caller, w);
    if (w->err.code)
        result = (struct fetch_result){ .err = w->err };
    if (w->err.code || fetch_at_hand(e, &w->fetch, &ticket, &key, &result)) {
        answer_one(e, caller, id, &w->result, &result);
        return KILN_OK;
    }
    struct fetch_request *rq = request_create(e, caller, id, 1, err);
    if (!rq) {
        fetch_refuse(e, &ticket, &key, err);
        return err->code;
    }
    if (!start_item(rq, w, &ticket, &key, &result))
        return KILN_OK;
    deferred_destroy(&rq->base);
    answer_one(e, caller, id, &w->result, &result);
    return KILN_OK;
}

enum kiln_code handle_fetch(struct engine *e, struct caller *caller,
                            const struct frame_header *header, struct bytes body,
                            struct kiln_err *err)
{
    struct item_request w = { .err = KILN_ERR_INIT };
    if (read_key(body, &w)) {
        *err = w.err;
        return err->code;
    }
    return handle_one(e, caller, header->request_id, &w, err);
}

enum kiln_code handle_fetch_name(struct engine *e, struct caller *caller,
                                 const struct frame_header *header, struct bytes body,
                                 struct kiln_err *err)
{
    struct item_request w = { .err = KILN_ERR_INIT };
    if (read_name(caller->uid, body, &w)) {
        *err = w.err;
        return err->code;
    }
    return handle_one(e, caller, header->request_id, &w, err);
}

enum kiln_code handle_fetch_source(struct engine *e, struct caller *caller,
                                   const struct frame_header *header, struct bytes body,
                                   struct kiln_err *err)
{
    BUFFER_AUTO struct buffer storage;
    buffer_init(&storage, 2 * LIMIT_OPTIONS_TEXT);
    struct item_request w = { .err = KILN_ERR_INIT };
    enum kiln_code rc = read_source(e, caller->uid, body, &storage, &w);
    if (rc == KILN_BUSY)
        return toolchains_wait(e, caller, header, body, err);
    return handle_one(e, caller, header->request_id, &w, err);
}

/* ---- batch ---- */

static enum kiln_code read_item(struct engine *e, uid_t uid, struct reader *items,
                                struct buffer *storage, struct item_request *w)
{
    struct message_batch_item m = message_batch_item_read(items);
    if (items->failed)
        return kiln_fail(&w->err, KILN_INVALID, "the batch ends too early");
    if (m.kind == 0)
        return read_key(m.request, w);
    if (m.kind == 1)
        return read_source(e, uid, m.request, storage, w);
    if (m.kind == 2)
        return read_name(uid, m.request, w);
    return kiln_fail(&w->err, KILN_INVALID, "batch item of unknown kind %u", (unsigned)m.kind);
}

/* The clock is read only once for this many small items, because a hot item takes less than a
 * microsecond. */
#define ITEMS_A_CHECK 16u
#define LARGE_ITEM 4096

/* New targets that one batch may name. The number is limited because each needs probes. */
#define NEW_TARGETS_MAX 16

struct new_targets {
    struct target list[NEW_TARGETS_MAX];
    size_t count;
};

static enum kiln_code note_target(struct new_targets *seen, const struct target *target,
                                  struct kiln_err *err)
{
    for (size_t i = 0; i < seen->count; i++) {
        if (strcmp(seen->list[i].text, target->text) == 0)
            return KILN_OK;
    }
    if (seen->count == NEW_TARGETS_MAX)
        return kiln_fail(err, KILN_INVALID, "a batch may name at most %d new targets",
                         NEW_TARGETS_MAX);
    seen->list[seen->count++] = *target;
    return KILN_OK;
}

/* Checks that the toolchains of all items are known, before any item begins. KILN_BUSY if one is
 * not. Most batches are for one target, so the last target that passed is remembered. The check is
 * not divided into slices, because it only looks at the targets and toolchains of at most
 * LIMIT_BATCH_ITEMS items. */
static enum kiln_code look_ahead(struct engine *e, uid_t uid, const struct message_batch *m,
                                 struct kiln_err *err)
{
    struct reader items = reader_of(m->items);
    struct new_targets seen = { .count = 0 };
    struct message_fetch_source fine = { .target.size = 0 };
    for (uint32_t i = 0; i < m->count; i++) {
        struct message_batch_item item = message_batch_item_read(&items);
        if (item.kind != 1)
            continue;
        struct reader r = reader_of(item.request);
        struct message_fetch_source source = message_fetch_source_read(&r);
        if (bytes_equal(source.target, fine.target) &&
            bytes_equal(source.toolchain, fine.toolchain))
            continue;
        struct item_request w = { .err = KILN_ERR_INIT };
        enum kiln_code rc = find_toolchain(e, uid, &source, &w);
        if (!rc)
            fine = source;
        if (rc != KILN_BUSY)
            continue; /* continue, so that the probes of other targets start as well */
        rc = note_target(&seen, &w.target, err);
        if (rc)
            return rc;
    }
    if (items.failed || reader_left(&items))
        return kiln_fail(err, KILN_INVALID, "the batch's items do not add up to its count of %u",
                         (unsigned)m->count);
    return seen.count ? KILN_BUSY : KILN_OK;
}

static void begin_next(struct fetch_request *rq, struct buffer *storage, struct result_list *list)
{
    struct engine *e = rq->base.engine;
    struct item_request w = { .err = KILN_ERR_INIT };
    struct fetch_result result;
    enum kiln_code rc = read_item(e, rq->base.uid, &rq->items, storage, &w);
    if (rc && !w.err.code) { /* rare: look_ahead has checked that this cannot happen */
        toolchains_keep_asked(e);
        kiln_fail(
            &w.err, rc,
            "kilnd does not know yet which toolchain can compile this item: try again in a moment");
    }
    w.result.index = rq->next++;
    if (!begin_item(rq, &w, &result))
        return;
    add_result(rq, list, &w.result, &result);
    rq->remaining--;
}

/* Begins items until a slice of the loop's time is used up. Results that are available at once
 * share frames. The others follow as they become ready. */
static void begin_some(struct fetch_request *rq, struct result_list *list)
{
    BUFFER_AUTO struct buffer storage;
    buffer_init(&storage, 2 * LIMIT_OPTIONS_TEXT);
    const uint64_t end_ns = clock_monotonic_ns() + TASK_SLICE_NS;
    for (unsigned begun = 1; rq->next < rq->count; begun++) {
        const uint8_t *at = rq->items.at;
        begin_next(rq, &storage, list);
        bool is_large = rq->items.at - at > LARGE_ITEM;
        if ((is_large || begun % ITEMS_A_CHECK == 0) && clock_monotonic_ns() > end_ns)
            return;
    }
}

/* Keeps the items that were not begun for later. KILN_BUSY: the user's budget is used up. */
static enum kiln_code keep_rest(struct fetch_request *rq, struct kiln_err *err)
{
    size_t size = reader_left(&rq->items);
    if (deferred_charge(&rq->base, size, err))
        return err->code;
    rq->rest = malloc(size);
    if (!rq->rest)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot keep the batch: out of memory");
    memcpy(rq->rest, rq->items.at, size);
    rq->items = reader_of(bytes_of(rq->rest, size));
    return KILN_OK;
}

/* Refuses the items that were not begun without reading them. Reading them may take 0.2 s, in which
 * other users' requests would wait. */
static void refuse_rest(struct fetch_request *rq, struct result_list *list,
                        const struct kiln_err *why)
{
    static const struct digest unknown;
    struct engine *e = rq->base.engine;
    const struct fetch_ticket ticket = { .uid = rq->base.uid,
                                         .batch = rq->batch,
                                         .began_ns = clock_monotonic_ns() };
    for (; rq->next < rq->count; rq->remaining--) {
        struct result_options options = { .index = rq->next++ };
        const struct fetch_result result = { .err = *why };
        e->stats.fetches++;
        fetch_refuse(e, &ticket, &unknown, why);
        add_result(rq, list, &options, &result);
    }
}

/* Sends what is ready, and begins more items if some are left. */
static void go_on(struct deferred *d)
{
    struct fetch_request *rq = (struct fetch_request *)d;
    struct result_list list;
    if (!d->caller) {
        deferred_destroy(d);
        return;
    }
    result_list_begin_frame(&list, d->engine, d->caller);
    add_ready(rq, &list);
    begin_some(rq, &list);
    if (rq->next < rq->count)
        go_on_later(rq);
    send_results(rq, &list);
}

static void begin_batch(struct fetch_request *rq, struct bytes items)
{
    struct kiln_err err = KILN_ERR_INIT;
    struct result_list list;
    rq->items = reader_of(items);
    rq->batch = ++rq->base.engine->metrics.batches;
    result_list_begin_frame(&list, rq->base.engine, rq->base.caller);
    begin_some(rq, &list);
    if (rq->next < rq->count && keep_rest(rq, &err))
        refuse_rest(rq, &list, &err);
    if (rq->next < rq->count)
        go_on_later(rq);
    send_results(rq, &list);
}

enum kiln_code handle_batch(struct engine *e, struct caller *caller,
                            const struct frame_header *header, struct bytes body,
                            struct kiln_err *err)
{
    struct reader r = reader_of(body);
    struct message_batch m = message_batch_read(&r);
    enum kiln_code rc = message_body_check(&r, MESSAGE_batch, err);
    if (rc)
        return rc;
    if (m.count == 0 || m.count > LIMIT_BATCH_ITEMS)
        return kiln_fail(err, KILN_INVALID, "a batch has 1 to %u items, not %u", LIMIT_BATCH_ITEMS,
                         (unsigned)m.count);
    rc = look_ahead(e, caller->uid, &m, err);
    if (rc == KILN_BUSY)
        return toolchains_wait(e, caller, header, body, err);
    if (rc)
        return rc;
    struct fetch_request *rq = request_create(e, caller, header->request_id, m.count, err);
    if (!rq)
        return err->code;
    begin_batch(rq, m.items);
    return KILN_OK;
}
