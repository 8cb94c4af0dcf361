/* SPDX-License-Identifier: MIT */
/*
 * Fetches many kernels at once.  Looks in the in-process cache first.  Requests the other kernels
 * in as few 'batch' messages as the limits allow.  All messages are in flight together, and kilnd
 * answers each item as soon as it is ready.
 */
#include "libclient/kernels/fetch.h"

#include "common/base/array.h"
#include "libclient/sized.h"

#include <string.h>

/* Maximum bytes of a message with several items.  An item with a large source may have more bytes,
 * up to the limit of a frame, and is then the only item of its message. */
#define CHUNK_BYTES (LIMIT_FRAME_BODY / 4)

/* A block of memory for several kernels is only created if at least this many bytes are still
 * expected. */
#define BLOCK_MIN (KERNEL_BLOCK_SIZE / 2)

struct ready {
    size_t index;
    struct kiln_kernel *kernel;
    enum kiln_code code;
    struct failure *failure;
};

struct chunk {
    struct request request;
    struct buffer frame; /* the whole frame, kept in case it must be sent again */
    struct buffer items;
    struct batch *batch;
    /* The caller's index of each item, or SIZE_MAX once the item is answered. */
    size_t *indexes;
    uint32_t count, capacity, answered;
    /* items that a stopping daemon did not process, and that the next one gets */
    uint32_t deferred;
};

struct batch {
    struct kiln_client *client;
    const char *const *keys;
    const struct kiln_kernel_source *sources;
    size_t count;
    uint64_t wanted_ns;
    kiln_kernel_ready *ready;
    void *context;
    bool is_stopped;
    struct waiter waiter;
    struct chunk **chunks;
    size_t chunk_count;
    struct ready *queue;
    size_t queued, capacity;
    struct kernel_block *block;
};

static const struct kiln_kernel_source *source_at(const struct batch *b, size_t index)
{
    return sized_at(b->sources, b->sources->size, index);
}

/* ---- answers ---- */

static void report_item(struct batch *b, size_t index, struct kiln_kernel *kernel,
                        const struct failure *failure, enum kiln_code code)
{
    if (kernel) {
        b->is_stopped = b->ready(b->context, index, kernel, NULL) != 0;
        return;
    }
    struct kiln_error error;
    failure_return(failure, code, &error);
    b->is_stopped = b->ready(b->context, index, NULL, &error) != 0;
}

static void ready_done(struct ready *r)
{
    kernel_destroy(r->kernel);
    if (r->failure)
        failure_done(r->failure);
    free(r->failure);
}

static void note_item(const struct batch *b, const struct ready *r)
{
    struct bytes target =
        b->sources ? bytes_of_text(source_at(b, r->index)->target) : bytes_of(NULL, 0);
    trace_answer(b->client->trace, b->wanted_ns, target, b->keys ? b->keys[r->index] : NULL,
                 r->kernel);
}

/* Runs on the caller's thread without the multiplexer's mutex, so the callback may call libkiln. */
static void report_queued(struct batch *b)
{
    for (size_t i = 0; i < b->queued; i++) {
        struct ready *r = &b->queue[i];
        if (b->client->trace)
            note_item(b, r);
        if (r->kernel)
            fetch_remember(b->client, b->sources ? source_at(b, r->index) : NULL, r->kernel);
        if (!b->is_stopped)
            report_item(b, r->index, r->kernel, r->failure, r->code);
        ready_done(r);
    }
    b->queued = 0;
}

static bool grow_queue(struct batch *b, size_t more)
{
    if (b->capacity - b->queued >= more)
        return true;
    struct ready *queue = realloc(b->queue, (b->queued + more) * sizeof(*queue));
    if (!queue)
        return false;
    b->queue = queue;
    b->capacity = b->queued + more;
    return true;
}

static enum kiln_code accept_result(struct chunk *c, const struct message_result *o,
                                    const struct reply *reply, struct failure *failure)
{
    struct batch *b = c->batch;
    if (o->index >= c->count)
        return kiln_fail(&failure->err, KILN_CORRUPT, "kilnd answers item %u of a batch of %u",
                         o->index, c->count);
    if (c->indexes[o->index] == SIZE_MAX) {
        if (c->request.sends > 1)
            return KILN_OK; /* the item was reported before the connection was lost */
        return kiln_fail(&failure->err, KILN_CORRUPT, "kilnd answers item %u twice", o->index);
    }
    struct ready *r = &b->queue[b->queued];
    *r = (struct ready){ .index = c->indexes[o->index] };
    struct failure why = FAILURE_INIT;
    bool damaged;
    r->code = fetch_result(o, reply, &r->kernel, &damaged, &why);
    if (damaged) {
        *failure = why;
        return KILN_CORRUPT;
    }
    if (reply_puts_off(reply, r->code)) {
        failure_done(&why);
        c->deferred++;
        return KILN_OK;
    }
    if (r->code) {
        r->failure = malloc(sizeof(*r->failure));
        if (!r->failure) {
            failure_done(&why);
            return kiln_fail(&failure->err, KILN_NO_MEMORY, "no memory for a failure's text");
        }
        *r->failure = why;
    }
    c->indexes[o->index] = SIZE_MAX;
    c->answered++;
    b->queued++;
    return KILN_OK;
}

/* Replaces the batch's block by a new one if the block is full and at least BLOCK_MIN bytes are
 * still expected.  Assumes that the remaining kernels are as large as those in this frame. */
static void choose_block(const struct chunk *c, const struct message_kernels *m)
{
    struct batch *b = c->batch;
    size_t each = m->count ? m->results.size / m->count : 0;
    if (kernel_block_has_space(b->block, m->results.size) ||
        (c->count - c->answered) * each < BLOCK_MIN)
        return;
    kernel_block_unref(b->block);
    b->block = kernel_block_create();
}

static enum kiln_code accept_results(struct request *request, const struct reply *reply,
                                     struct failure *failure)
{
    struct chunk *c = request->context;
    struct reader r = reader_of(reply->body);
    struct message_kernels m = message_kernels_read(&r);
    if (reply->header->type != MESSAGE_kernels || r.failed || r.at != r.end ||
        m.count > LIMIT_BATCH_ITEMS)
        return kiln_fail(&failure->err, KILN_CORRUPT, "kilnd's answer to a batch is damaged");
    if (!grow_queue(c->batch, m.count))
        return kiln_fail(&failure->err, KILN_NO_MEMORY, "no memory for %u kernels", m.count);
    choose_block(c, &m);
    struct reply with_block = *reply;
    with_block.block = c->batch->block;
    struct reader results = reader_of(m.results);
    enum kiln_code rc = KILN_OK;
    for (uint32_t i = 0; i < m.count && !rc; i++) {
        struct message_result o = message_result_read(&results);
        if (results.failed)
            break;
        rc = accept_result(c, &o, &with_block, failure);
    }
    if (!rc && (results.failed || results.at != results.end))
        rc = kiln_fail(&failure->err, KILN_CORRUPT, "kilnd's results do not match their count");
    if (rc || (reply->header->flags & FRAME_MORE) || c->answered == c->count)
        return rc;
    if (c->answered + c->deferred < c->count)
        return kiln_fail(&failure->err, KILN_CORRUPT, "kilnd answers %u items of a batch of %u",
                         c->answered, c->count);
    c->deferred = 0;
    return kiln_fail(&failure->err, KILN_UNAVAILABLE, "kilnd is stopping");
}

/* ---- requests ---- */

static void chunk_destroy(struct chunk *c)
{
    if (!c)
        return;
    if (c->request.id)
        multiplexer_abandon(c->batch->client->multiplexer, &c->request);
    failure_done(&c->request.failure);
    buffer_done(&c->frame);
    buffer_done(&c->items);
    free(c->indexes);
    free(c);
}

static void batch_done(struct batch *b)
{
    for (size_t i = 0; i < b->chunk_count; i++)
        chunk_destroy(b->chunks[i]);
    for (size_t i = 0; i < b->queued; i++)
        ready_done(&b->queue[i]);
    free(b->chunks);
    free(b->queue);
    kernel_block_unref(b->block);
    waiter_done(&b->waiter);
}

static struct chunk *add_chunk(struct batch *b, struct kiln_err *err)
{
    struct chunk **chunks = realloc(b->chunks, (b->chunk_count + 1) * sizeof(struct chunk *));
    struct chunk *c = calloc(1, sizeof(*c));
    if (chunks)
        b->chunks = chunks;
    if (!chunks || !c) {
        free(c);
        kiln_fail(err, KILN_NO_MEMORY, "no memory for a batch of %zu kernels", b->count);
        return NULL;
    }
    c->batch = b;
    buffer_init(&c->items, LIMIT_FRAME_BODY);
    c->request = (struct request){ .type = MESSAGE_batch,
                                   .frame = &c->frame,
                                   .waiter = &b->waiter,
                                   .accept = accept_results,
                                   .context = c };
    b->chunks[b->chunk_count++] = c;
    return c;
}

static enum kiln_code submit_chunk(struct batch *b, struct chunk *c, struct kiln_err *err)
{
    client_frame_init(&c->frame);
    struct message_batch m = { .count = c->count, .items = buffer_view(&c->items) };
    message_batch_write(&c->frame, &m);
    c->frame.failed |= c->items.failed;
    buffer_done(&c->items);
    if (c->frame.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a batch of %zu kernels", b->count);
    return multiplexer_submit(b->client->multiplexer, &c->request, err);
}

static bool append_item(struct chunk *c, size_t index, uint8_t kind, struct bytes request)
{
    if (!ARRAY_RESERVE(c->indexes, c->count, c->capacity, 64))
        return false;
    struct message_batch_item item = { .kind = kind, .request = request };
    message_batch_item_write(&c->items, &item);
    c->indexes[c->count++] = index;
    return !c->items.failed;
}

static void write_item(struct batch *b, size_t index, const struct digest *key, struct buffer *body)
{
    if (b->sources) {
        source_write(body, source_at(b, index), b->client->no_cache ? FETCH_NO_CACHE : 0);
        return;
    }
    message_fetch_write(
        body, &(struct message_fetch){ .key = *key, .inline_limit = LIMIT_INLINE_OBJECT });
}

static enum kiln_code add_request(struct batch *b, size_t index, const struct digest *key,
                                  struct buffer *scratch, struct kiln_err *err)
{
    buffer_clear(scratch);
    write_item(b, index, key, scratch);
    /* The reserved 16 bytes suffice for the item's kind, two lengths and the number of items. */
    if (scratch->failed || scratch->size > LIMIT_FRAME_BODY - 16)
        return kiln_fail(err, KILN_INVALID, "source and headers exceed the limit of %u bytes",
                         LIMIT_FRAME_BODY);
    struct chunk *c = b->chunk_count ? b->chunks[b->chunk_count - 1] : NULL;
    if (c && (c->count == LIMIT_BATCH_ITEMS || c->items.size + scratch->size > CHUNK_BYTES)) {
        enum kiln_code rc = submit_chunk(b, c, err);
        if (rc)
            return rc;
        c = NULL;
    }
    if (!c)
        c = add_chunk(b, err);
    if (!c)
        return KILN_NO_MEMORY;
    if (!append_item(c, index, b->sources ? 1 : 0, buffer_view(scratch)))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a batch of %zu kernels", b->count);
    return KILN_OK;
}

static enum kiln_code check_stopped(const struct batch *b, struct kiln_err *err)
{
    return b->is_stopped ? kiln_fail(err, KILN_CANCELLED,
                                     "the callback stopped the batch of %zu kernels", b->count)
                         : KILN_OK;
}

static enum kiln_code begin_item(struct batch *b, size_t index, struct buffer *scratch,
                                 struct kiln_err *err)
{
    struct digest key;
    struct failure f = FAILURE_INIT;
    enum kiln_code rc = b->sources ? source_check(source_at(b, index), &f.err)
                                   : fetch_key(b->keys[index], &key, &f.err);
    if (!rc && b->keys)
        rc = client_check_cache(b->client, &f.err);
    __attribute__((cleanup(kernel_auto))) struct kiln_kernel *kernel = NULL;
    if (!rc)
        kernel = b->sources ? fetch_known_source(b->client, source_at(b, index))
                            : fetch_known_key(b->client, &key);
    if (!rc && !kernel)
        rc = add_request(b, index, &key, scratch, &f.err);
    if (rc == KILN_NO_MEMORY) {
        *err = f.err;
        return rc;
    }
    if (rc || kernel)
        report_item(b, index, kernel, &f, rc);
    return check_stopped(b, err);
}

static enum kiln_code begin_items(struct batch *b, struct kiln_err *err)
{
    BUFFER_AUTO struct buffer scratch;
    buffer_init(&scratch, LIMIT_FRAME_BODY);
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; i < b->count && !rc; i++)
        rc = begin_item(b, i, &scratch, err);
    if (!rc && b->chunk_count)
        rc = submit_chunk(b, b->chunks[b->chunk_count - 1], err);
    return rc;
}

static enum kiln_code check_chunks(struct batch *b, size_t *ret_open, struct failure *failure)
{
    *ret_open = 0;
    for (size_t i = 0; i < b->chunk_count; i++) {
        struct request *rq = &b->chunks[i]->request;
        if (!rq->ended) {
            ++*ret_open;
        } else if (rq->code) {
            *failure = rq->failure;
            rq->failure.log = NULL;
            return rq->code;
        }
    }
    return KILN_OK;
}

static enum kiln_code run_batch(struct batch *b, uint64_t deadline_ns, struct failure *failure)
{
    enum kiln_code rc = begin_items(b, &failure->err);
    size_t open = 0;
    if (!rc)
        rc = check_chunks(b, &open, failure);
    while (!rc && open) {
        rc = multiplexer_wait(b->client->multiplexer, &b->waiter, deadline_ns, &failure->err);
        report_queued(b);
        if (b->is_stopped)
            return check_stopped(b, &failure->err);
        if (!rc)
            rc = check_chunks(b, &open, failure);
    }
    return rc;
}

int kiln_kernel_fetch_batch(struct kiln_client *client, const struct kiln_kernel_batch *batch,
                            struct kiln_error *err)
{
    FAILURE_AUTO struct failure f = FAILURE_INIT;
    uint64_t deadline_ns;
    if (!batch || !sized_is_fine(batch->size, SIZED_TO(struct kiln_kernel_batch, timeout_ms)))
        return error_argument(err, "kiln_kernel_batch.size is not set: give it sizeof the struct");
    enum kiln_code rc = client_enter(client, batch->timeout_ms, &deadline_ns, &f.err);
    if (rc)
        return failure_return(&f, rc, err);
    const struct kiln_kernel_source *sources = batch->sources;
    if (!batch->ready || (batch->count && (batch->keys == NULL) == (sources == NULL)))
        return error_argument(err, "kiln_kernel_batch needs a callback, and either keys or "
                                   "sources");
    if (sources && sources->size > SIZED_MAX)
        return error_argument(err, "kiln_kernel_source.size is not set: give it sizeof the struct");
    __attribute__((cleanup(batch_done))) struct batch b = { .client = client,
                                                            .keys = batch->keys,
                                                            .sources = sources,
                                                            .count = batch->count,
                                                            .wanted_ns = trace_now(client->trace),
                                                            .ready = batch->ready,
                                                            .context = batch->context };
    waiter_init(&b.waiter);
    return failure_return(&f, run_batch(&b, deadline_ns, &f), err);
}
