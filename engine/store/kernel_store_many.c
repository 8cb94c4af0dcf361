/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include "common/base/clock.h"

/* Limits of one step when many kernels are changed: time, changed kernels, examined kernels, and
 * moved pages of the file. */
#define STEP_NS 20000000u
#define STEP_KERNELS 512u
#define STEP_LOOKS 4096u
#define STEP_PAGES 1024u
/* Bytes of objects at which a batch ends; its last object may exceed them. Deleting 64 MiB takes 20
 * ms. */
#define BATCH_BYTES (4u << 20)

enum kiln_code store_count_matches(struct db *db, const struct kernel_filter *filter,
                                   uint64_t *ret_count, uint64_t *ret_bytes, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(db, KERNEL_COUNT_MATCHES);
    store_bind_filter(&q, filter);
    bool row = false;
    enum kiln_code rc = query_step(&q, &row, err);
    if (rc)
        return rc;
    *ret_count = row ? query_u64(&q, 0) : 0;
    *ret_bytes = row ? query_u64(&q, 1) : 0;
    return KILN_OK;
}

struct bulk_change {
    enum kernel_statement statement;
    const struct kernel_filter *filter;
    uint64_t after;
    uint64_t last;
    unsigned batch;
    bool is_needed;
    uint64_t changed;
};

static enum kiln_code change_batch(struct kernel_store *store, struct bulk_change *change,
                                   struct kiln_err *err)
{
    if (!change->is_needed)
        return KILN_OK;
    TRANSACTION_AUTO struct transaction t = { 0 };
    enum kiln_code rc = store_before_batch(store, err);
    if (!rc)
        rc = transaction_begin(&t, store->writer, err);
    if (rc)
        return rc;
    QUERY_AUTO struct query q = query_of(store->writer, change->statement);
    store_bind_filter(&q, change->filter);
    query_bind_u64(&q, 1, change->after);
    query_bind_u64(&q, 5, change->last);
    rc = query_run(&q, err);
    uint64_t changed = rc ? 0 : db_changes(store->writer);
    if (!rc)
        rc = transaction_commit(&t, err);
    change->changed += rc ? 0 : changed;
    return rc;
}

/* Sets |change|->last to the largest id in the next batch, or to 0 if no kernels are left. */
static enum kiln_code find_batch(struct kernel_store *store, struct bulk_change *change,
                                 struct kiln_err *err)
{
    change->after = change->last;
    change->last = 0;
    QUERY_AUTO struct query q = query_of(store->writer, KERNEL_NEXT_MATCHES);
    store_bind_filter(&q, change->filter);
    query_bind_u64(&q, 1, change->after);
    query_bind_u64(&q, 5, change->batch);
    query_bind_u64(&q, 15, BATCH_BYTES);
    bool row = false;
    enum kiln_code rc = query_step(&q, &row, err);
    if (!rc && row)
        change->last = query_u64(&q, 0);
    change->is_needed = !rc && row && query_u64(&q, 1) > 0;
    return rc;
}

static bool matches_everything(const struct kernel_filter *f)
{
    const char *const texts[] = { f->target, f->program, f->toolchain, f->database_id, f->package };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (texts[i] && *texts[i])
            return false;
    }
    return !digest_is_known(&f->toolchain_id) && !f->older_than && !f->by_scope && !f->by_uid &&
           !f->not_pinned && !f->by_reader && !f->kinds;
}

static unsigned next_batch(const struct kernel_store *store, const struct bulk_change *change)
{
    uint64_t batch = change->batch ? 2ull * change->batch : 1,
             left = STEP_KERNELS - change->changed;
    batch = batch < left ? batch : left;
    return batch < store_batch(store) ? (unsigned)batch : store_batch(store);
}

static enum kiln_code change_some(struct kernel_store *store, struct bulk_change *change,
                                  bool *ret_over, struct kiln_err *err)
{
    uint64_t end_ns = clock_monotonic_ns() + STEP_NS, after = change->last;
    enum kiln_code rc = KILN_OK;
    unsigned looks = 0;
    do {
        change->batch = next_batch(store, change);
        rc = find_batch(store, change, err);
        *ret_over = !rc && change->last <= change->after;
        if (rc || *ret_over)
            break;
        rc = change_batch(store, change, err);
        after = rc ? after : change->last;
        looks += change->batch;
    } while (!rc && change->changed < STEP_KERNELS && looks < STEP_LOOKS &&
             clock_monotonic_ns() < end_ns);
    change->last = after;
    store->pinned.is_known &= change->changed == 0;
    return rc;
}

static enum kiln_code remove_some(struct kernel_store *store, struct kernel_clearing *c,
                                  struct kiln_err *err)
{
    struct bulk_change change = { .statement = KERNEL_REMOVE_MATCHES,
                                  .filter = &c->filter,
                                  .last = c->after };
    uint64_t before = 0, after = 0;
    enum kiln_code rc = store_number(store->writer, KERNEL_STORED_BYTES, &before, err);
    if (!rc)
        rc = change_some(store, &change, &c->is_removed, err);
    if (!rc)
        rc = store_number(store->writer, KERNEL_STORED_BYTES, &after, err);
    c->after = change.last;
    c->count += change.changed;
    c->bytes += !rc && before > after ? before - after : 0;
    c->is_over = c->is_removed && c->count == 0;
    return rc;
}

static enum kiln_code truncate_some(struct kernel_store *store, struct kernel_clearing *c,
                                    struct kiln_err *err)
{
    struct store_space before = { 0 }, after = { 0 };
    enum kiln_code rc = store_measure(store, &before, err);
    if (!rc)
        rc = store_truncate(store, 0, STEP_PAGES, err);
    if (!rc)
        rc = store_measure(store, &after, err);
    c->is_over = !rc && (after.used >= after.file || after.file >= before.file);
    return rc;
}

enum kiln_code store_clear_some(struct kernel_store *store, struct kernel_clearing *c,
                                struct kiln_err *err)
{
    return c->is_removed ? truncate_some(store, c, err) : remove_some(store, c, err);
}

static enum kiln_code clear_work(struct kernel_store *store, void *context, struct kiln_err *err)
{
    struct kernel_clearing *c = context;
    enum kiln_code rc = store_clear_some(store, c, err);
    if (rc != KILN_FULL || !matches_everything(&c->filter))
        return rc;
    c->is_over = true; /* the disk is full, so no row can be deleted: remove the whole file */
    struct kernel_usage usage = { 0 };
    (void)!store_usage(store->writer, &usage, err);
    c->count += usage.kernels;
    c->bytes += usage.stored_bytes;
    return store_wipe(store, err);
}

static enum kiln_code count_matches(struct kernel_store *store, struct kernel_clearing *c,
                                    struct kiln_err *err)
{
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    enum kiln_code rc = store_reader_take(store, &reader, err);
    if (!rc && reader)
        rc = store_count_matches(reader->db, &c->filter, &c->count, &c->bytes, err);
    return store_note_read(store, rc);
}

enum kiln_code kernel_store_count(struct kernel_store *store, const struct kernel_filter *filter,
                                  uint64_t *ret_count, uint64_t *ret_bytes, struct kiln_err *err)
{
    struct kernel_clearing c = { .filter = *filter };
    if (count_matches(store, &c, err))
        return kiln_while(err, "counting kernels of the kernel cache");
    *ret_count = c.count;
    *ret_bytes = c.bytes;
    return KILN_OK;
}

/* Clears the store when the disk has no space even to open the file for writing. */
static enum kiln_code remove_unopened(struct kernel_store *store, struct kernel_clearing *c,
                                      struct kiln_err *err)
{
    (void)!count_matches(store, c, err);
    c->is_over = true;
    enum kiln_code rc = store_wipe(store, err);
    return store_health_note(store, STORE_AWAITED, rc, err);
}

enum kiln_code kernel_store_clear_some(struct kernel_store *store, struct kernel_clearing *c,
                                       struct kiln_err *err)
{
    enum kiln_code rc = store_write(store, STORE_AWAITED, clear_work, c, err);
    if (rc == KILN_FULL && !store->writer && matches_everything(&c->filter))
        rc = remove_unopened(store, c, err);
    return store_advise_space(store, rc, err) ? kiln_while(err, "clearing the kernel cache")
                                              : KILN_OK;
}

static enum kiln_code pin_work(struct kernel_store *store, void *context, struct kiln_err *err)
{
    struct kernel_pinning *p = context;
    struct bulk_change change = {
        .statement = p->pinned ? KERNEL_PIN_MATCHES : KERNEL_UNPIN_MATCHES,
        .filter = &p->filter,
        .last = p->after,
    };
    enum kiln_code rc = change_some(store, &change, &p->is_over, err);
    p->after = change.last;
    p->count += change.changed;
    return rc;
}

static enum kiln_code name_pinning(bool pinned, enum kiln_code rc, struct kiln_err *err)
{
    return rc ? kiln_while(err, pinned ? "pinning kernels" : "unpinning kernels") : KILN_OK;
}

enum kiln_code kernel_store_pin_some(struct kernel_store *store, struct kernel_pinning *p,
                                     struct kiln_err *err)
{
    return name_pinning(p->pinned, store_write(store, STORE_AWAITED, pin_work, p, err), err);
}

struct pin {
    const struct digest *key;
    bool pinned, is_found;
};

static enum kiln_code pin_one(struct kernel_store *store, void *context, struct kiln_err *err)
{
    struct pin *pin = context;
    store->pinned.is_known = false;
    enum kiln_code rc = store_before_batch(store, err);
    if (rc)
        return rc;
    QUERY_AUTO struct query q = query_of(store->writer, KERNEL_PIN);
    query_bind_bytes(&q, 1, digest_view(pin->key));
    query_bind_u64(&q, 2, pin->pinned);
    rc = query_run(&q, err);
    pin->is_found = !rc && db_changes(store->writer) > 0;
    return rc;
}

enum kiln_code kernel_store_pin(struct kernel_store *store, const struct digest *key, bool pinned,
                                bool *ret_found, struct kiln_err *err)
{
    struct pin pin = { .key = key, .pinned = pinned };
    enum kiln_code rc = store_write(store, STORE_AWAITED, pin_one, &pin, err);
    if (!rc)
        *ret_found = pin.is_found;
    return name_pinning(pinned, rc, err);
}
