/* SPDX-License-Identifier: MIT */
#include "common/base/clock.h"
#include "engine/service/kernels/toolchain_waits.h"
#include "engine/service/requests/fetch_input.h"

#include <string.h>

/* Bytes charged for an item. An item takes less memory, but the charge also limits the time that
 * the loop needs to answer or cancel the items. */
#define ITEM_COST 1024u

struct item {
    struct fetch_ticket ticket;
    struct fetch_request *request;
    struct list_link link;
    struct result_options options;
    /* The members from here on are set while the item is ready. */
    struct object *object; /* owned reference; NULL: not found, or failed */
    enum kiln_code code;
    enum tier tier;
    struct digest key;
};

_Static_assert(sizeof(struct item) <= ITEM_COST, "an item is charged for its memory");

/* Maximum number of bytes of objects that are sent inside the frames of one request. Further
 * objects are sent as descriptors, which use no memory while a slow client does not read. */
#define INLINE_BYTES (8u << 20)

struct fetch_request {
    struct deferred base;
    uint32_t remaining;
    uint64_t inline_left;
    struct list waiting; /* of struct item; owned, like |ready| */
    struct list ready;   /* items found in this loop iteration; they share frames */
    uint64_t batch;
    /* The members from here on describe the items of a batch whose fetch has not begun. */
    struct reader items; /* reads the frame, or |rest| once the handler has returned */
    uint32_t next, count;
    uint8_t *rest; /* owned; may be NULL */
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

static void go_on_later(struct fetch_request *rq)
{
    if (!rq->base.is_running)
        deferred_run(&rq->base, &go_on_step);
}

/* Keeps a result until the end of this loop iteration. Then other results may be ready, too, and
 * share its frame. */
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

/* Returns true if *ret_result has the answer. Otherwise, the item waits. */
static bool start_item(struct fetch_request *rq, const struct fetch_input *input,
                       const struct fetch_ticket *ticket, const struct digest *key,
                       struct fetch_result *ret_result)
{
    struct engine *e = rq->base.engine;
    struct kiln_err err = KILN_ERR_INIT;
    struct item *item = create_item(rq, ticket, &input->result, &err);
    if (!item) {
        fetch_refuse(e, ticket, key, &err);
        *ret_result = (struct fetch_result){ .err = err, .key = *key };
        return true;
    }
    if (!fetch_start(e, &input->fetch, key, &item->ticket, ret_result))
        return false;
    destroy_item(item);
    return true;
}

static struct fetch_ticket ticket_of(const struct caller *caller, const struct fetch_input *input)
{
    return (struct fetch_ticket){ .uid = caller->uid,
                                  .priority = input->priority,
                                  .no_object = input->result.no_object,
                                  .is_rtc = input->is_rtc,
                                  .ready = item_ready };
}

static bool begin_item(struct fetch_request *rq, const struct fetch_input *input,
                       struct fetch_result *ret_result)
{
    struct fetch_ticket ticket = ticket_of(rq->base.caller, input);
    struct digest key;
    ticket.batch = rq->batch;
    if (input->err.code) {
        *ret_result = (struct fetch_result){ .err = input->err };
        return true;
    }
    return fetch_at_hand(rq->base.engine, &input->fetch, &ticket, &key, ret_result) ||
           start_item(rq, input, &ticket, &key, ret_result);
}

static void answer_one(struct engine *e, struct caller *caller, uint64_t id,
                       const struct result_options *options, const struct fetch_result *result)
{
    struct result_list list;
    result_list_begin_frame(&list, e, caller);
    result_list_add(&list, options, result);
    result_list_send(&list, caller, id, 0);
}

/* Answers at once if the kernel is in memory, as it usually is. Otherwise, creates a deferred
 * request. */
static enum kiln_code handle_one(struct engine *e, struct caller *caller, uint64_t id,
                                 const struct fetch_input *input, struct kiln_err *err)
{
    struct fetch_result result;
    struct digest key;
    struct fetch_ticket ticket = ticket_of(caller, input);
    if (input->err.code)
        result = (struct fetch_result){ .err = input->err };
    if (input->err.code || fetch_at_hand(e, &input->fetch, &ticket, &key, &result)) {
        answer_one(e, caller, id, &input->result, &result);
        return KILN_OK;
    }
    struct fetch_request *rq = request_create(e, caller, id, 1, err);
    if (!rq) {
        fetch_refuse(e, &ticket, &key, err);
        return err->code;
    }
    if (!start_item(rq, input, &ticket, &key, &result))
        return KILN_OK;
    deferred_destroy(&rq->base);
    answer_one(e, caller, id, &input->result, &result);
    return KILN_OK;
}

enum kiln_code handle_fetch(struct engine *e, struct caller *caller,
                            const struct frame_header *header, struct bytes body,
                            struct kiln_err *err)
{
    struct fetch_input input = { .err = KILN_ERR_INIT };
    if (fetch_input_read_key(body, &input)) {
        *err = input.err;
        return err->code;
    }
    return handle_one(e, caller, header->request_id, &input, err);
}

enum kiln_code handle_fetch_name(struct engine *e, struct caller *caller,
                                 const struct frame_header *header, struct bytes body,
                                 struct kiln_err *err)
{
    struct fetch_input input = { .err = KILN_ERR_INIT };
    if (fetch_input_read_name(caller->uid, body, &input)) {
        *err = input.err;
        return err->code;
    }
    return handle_one(e, caller, header->request_id, &input, err);
}

static void begin_and_add(struct fetch_request *rq, struct fetch_input *input,
                          struct result_list *list)
{
    struct fetch_result result;
    input->result.index = rq->next++;
    if (!begin_item(rq, input, &result))
        return;
    add_result(rq, list, &input->result, &result);
    rq->remaining--;
}

static enum kiln_code answer_source(struct deferred *d)
{
    struct fetch_request *rq = (struct fetch_request *)d;
    BUFFER_AUTO struct buffer storage;
    buffer_init(&storage, 2 * LIMIT_OPTIONS_TEXT);
    struct fetch_input input = { .err = d->err };
    struct result_list list;
    if (!input.err.code)
        fetch_input_read_source(d->engine, d->body, &storage, &input);
    result_list_begin_frame(&list, d->engine, d->caller);
    begin_and_add(rq, &input, &list);
    send_results(rq, &list);
    return KILN_OK;
}

static const struct toolchain_need source_need = { .ask = fetch_input_ask_for_source,
                                                   .answer = answer_source };

/* Answers at once if the toolchain is known and the kernel is in memory, as usual. Otherwise,
 * creates a deferred request. */
enum kiln_code handle_fetch_source(struct engine *e, struct caller *caller,
                                   const struct frame_header *header, struct bytes body,
                                   struct kiln_err *err)
{
    BUFFER_AUTO struct buffer storage;
    buffer_init(&storage, 2 * LIMIT_OPTIONS_TEXT);
    struct fetch_input input = { .err = KILN_ERR_INIT };
    toolchains_refresh(e);
    if (fetch_input_read_source(e, body, &storage, &input) != KILN_BUSY)
        return handle_one(e, caller, header->request_id, &input, err);
    struct fetch_request *rq = request_create(e, caller, header->request_id, 1, err);
    if (!rq)
        return err->code;
    toolchains_need(&rq->base, &source_need, body);
    return KILN_OK;
}

static enum kiln_code answer_program(struct deferred *d)
{
    struct fetch_request *rq = (struct fetch_request *)d;
    struct fetch_input input = { .err = d->err };
    struct result_list list;
    if (!input.err.code && fetch_input_read_program(d->engine, d->body, &input) == KILN_BUSY &&
        !input.err.code)
        kiln_fail(&input.err, KILN_UNAVAILABLE,
                  "kilnd does not know yet whether it has this library");
    result_list_begin_frame(&list, d->engine, d->caller);
    begin_and_add(rq, &input, &list);
    send_results(rq, &list);
    return KILN_OK;
}

static const struct toolchain_need program_need = { .ask = fetch_input_ask_for_program,
                                                    .answer = answer_program };

enum kiln_code handle_compile_program(struct engine *e, struct caller *caller,
                                      const struct frame_header *header, struct bytes body,
                                      struct kiln_err *err)
{
    struct fetch_input input = { .err = KILN_ERR_INIT };
    toolchains_refresh(e);
    if (fetch_input_read_program(e, body, &input) != KILN_BUSY)
        return handle_one(e, caller, header->request_id, &input, err);
    struct fetch_request *rq = request_create(e, caller, header->request_id, 1, err);
    if (!rq)
        return err->code;
    toolchains_need(&rq->base, &program_need, body);
    return KILN_OK;
}

/* Number of small items after which the clock is read again. A hot item takes less than a
 * microsecond. */
#define ITEMS_A_CHECK 16u
#define LARGE_ITEM 4096

static void begin_next(struct fetch_request *rq, struct buffer *storage, struct result_list *list)
{
    struct engine *e = rq->base.engine;
    struct fetch_input input = { .err = KILN_ERR_INIT };
    enum kiln_code rc = fetch_input_read_next(e, rq->base.uid, &rq->items, storage, &input);
    if (rc == KILN_BUSY) /* the probe could not be started, or its result is already dropped */
        kiln_fail(
            &input.err, rc,
            "kilnd does not know yet which toolchain can compile this item: try again in a moment");
    begin_and_add(rq, &input, list);
}

/* Begins fetches until a slice of the loop's time is used up. Results that are available at once
 * share frames. */
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

/* Refuses the items whose fetches have not begun. Does not read these items: reading could take
 * 0.2 s, and other users' requests would wait. */
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

static enum kiln_code answer_batch(struct deferred *d)
{
    struct fetch_request *rq = (struct fetch_request *)d;
    struct reader r = reader_of(d->body);
    struct kiln_err err = KILN_ERR_INIT;
    struct result_list list;
    rq->items = reader_of(message_batch_read(&r).items);
    rq->batch = ++d->engine->metrics.batches;
    result_list_begin_frame(&list, d->engine, d->caller);
    begin_some(rq, &list);
    if (rq->next < rq->count && keep_rest(rq, &err))
        refuse_rest(rq, &list, &err);
    if (rq->next < rq->count)
        go_on_later(rq);
    send_results(rq, &list);
    return KILN_OK;
}

static const struct toolchain_need batch_need = { .ask = fetch_input_ask_for_batch,
                                                  .answer = answer_batch };

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
    struct fetch_request *rq = request_create(e, caller, header->request_id, m.count, err);
    if (!rq)
        return err->code;
    toolchains_need(&rq->base, &batch_need, body);
    return KILN_OK;
}
