/* SPDX-License-Identifier: MIT */
#include "engine/service/requests/cache_writer.h"

#include "common/base/clock.h"
#include "engine/miopen/kern_db.h"

#include <string.h>

/* Maximum number of kernels that are read before the store's connection is returned, so that other
 * look-ups can use the connection. */
#define KERNELS_A_READ 256
#define PIECE (256u << 10)

struct large {
    struct buffer copy; /* owned: object, name and arguments */
    struct kern_packing *packing;
};

struct cache_writer {
    struct cache_writer_options options;
    struct kern_db_writer *db;
    struct kernel_position position;
    bool is_read;
    struct large large;
    uint64_t granted, needed;
    uint64_t kernels;
    uint64_t end_ns, bytes;
    enum kiln_code rc;
    struct kiln_err *err;
};

enum kiln_code cache_writer_open(const struct cache_writer_options *options,
                                 struct cache_writer **ret_writer, struct kiln_err *err)
{
    KILN_AUTO(cache_writer) struct cache_writer *w = calloc(1, sizeof(*w));
    if (!w)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot export a cache");
    w->options = *options;
    enum kiln_code rc = kern_db_create(options->path, &w->db, err);
    if (!rc)
        *ret_writer = KILN_TAKE(w);
    return rc;
}

static void large_done(struct large *large)
{
    kern_packing_destroy(large->packing);
    buffer_done(&large->copy);
    *large = (struct large){ 0 };
}

static uint64_t memory_of(const struct kernel_record *r, struct bytes raw)
{
    return 2 * (uint64_t)(raw.size + strlen(r->program) + strlen(r->options));
}

void cache_writer_destroy(struct cache_writer *writer)
{
    if (!writer)
        return;
    large_done(&writer->large);
    kern_db_writer_destroy(writer->db);
    free(writer);
}

bool cache_writer_is_over(const struct cache_writer *writer)
{
    return writer->is_read && !writer->large.packing;
}

uint64_t cache_writer_bytes(const struct cache_writer *writer) { return writer->needed; }

void cache_writer_grant(struct cache_writer *writer, uint64_t bytes) { writer->granted = bytes; }

uint64_t cache_writer_kernels(const struct cache_writer *writer) { return writer->kernels; }

enum kiln_code cache_writer_finish(struct cache_writer *writer, struct kiln_err *err)
{
    return kern_db_writer_finish(writer->db, err);
}

static bool is_time_up(const struct cache_writer *w)
{
    return w->bytes >= CACHE_WRITER_STEP_BYTES || clock_monotonic_ns() >= w->end_ns;
}

/* Copies the kernel, because the store's bytes are only valid during this call. */
static enum kiln_code begin_large(struct large *large, const struct kernel_record *r,
                                  struct bytes raw, struct kiln_err *err)
{
    size_t name = strlen(r->program), args = strlen(r->options);
    buffer_init(&large->copy, raw.size + name + args);
    buffer_put(&large->copy, raw.data, raw.size);
    buffer_put(&large->copy, r->program, name);
    buffer_put(&large->copy, r->options, args);
    if (large->copy.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a kernel of %zu bytes", raw.size);
    const uint8_t *at = large->copy.data;
    const struct kern_name full = { bytes_of(at + raw.size, name),
                                    bytes_of(at + raw.size + name, args) };
    return kern_packing_begin(&full, bytes_of(at, raw.size), &large->packing, err);
}

static enum kiln_code continue_large(struct cache_writer *w, struct kiln_err *err)
{
    bool more = false;
    enum kiln_code rc = kern_packing_continue(w->large.packing, PIECE, &more, err);
    w->bytes += PIECE;
    if (rc || more)
        return rc;
    rc = kern_db_writer_put(w->db, w->large.packing, err);
    w->kernels += !rc;
    w->needed = 0;
    large_done(&w->large);
    return rc;
}

static bool write_kernel(void *context, const struct kernel_record *r, struct bytes raw)
{
    struct cache_writer *w = context;
    if (raw.size == 0) { /* damaged: left out, so MIOpen compiles it again */
        w->options.damaged(w->options.context, &r->key);
        return !is_time_up(w);
    }
    if (raw.size > PIECE) {
        w->needed = memory_of(r, raw);
        if (w->needed > w->granted) {
            w->position.id = r->id - 1; /* the next step reads this kernel again */
            return false;
        }
        w->rc = begin_large(&w->large, r, raw, w->err);
        return false;
    }
    w->rc = kern_db_writer_add(w->db, bytes_of_text(r->program), bytes_of_text(r->options), raw,
                               w->err);
    w->kernels += !w->rc;
    w->bytes += raw.size;
    return !w->rc && !is_time_up(w);
}

static enum kiln_code write_kernels(struct cache_writer *w, struct kiln_err *err)
{
    const struct kernel_export kernels = { .uid = w->options.uid,
                                           .database_id = w->options.database_id,
                                           .max = KERNELS_A_READ,
                                           .each = write_kernel,
                                           .context = w };
    enum kiln_code rc =
        kernel_store_each_named(w->options.store, &kernels, &w->position, &w->is_read, err);
    return rc ? rc : w->rc;
}

enum kiln_code cache_writer_write(struct cache_writer *w, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    if (!w->large.packing)
        w->needed = 0; /* the kernel that needed memory may have been removed */
    w->end_ns = clock_monotonic_ns() + CACHE_WRITER_STEP_NS;
    w->bytes = 0;
    w->err = err;
    do
        rc = w->large.packing ? continue_large(w, err) : write_kernels(w, err);
    while (!rc && !cache_writer_is_over(w) && !is_time_up(w) && w->needed <= w->granted);
    return rc;
}
