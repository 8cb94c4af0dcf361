/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_metrics.h"
#include "engine/store/kernel_store_parts.h"

#include "common/base/clock.h"

/* How far in the future a stored sample may be. A later sample is deleted: the clock was wrong when
 * it was taken. */
#define AHEAD_MAX_S 86400u

#define NAME(name) #name,
const char *const kernel_history_names[HISTORY_COLUMNS] = { KERNEL_HISTORY(NAME, NAME) };

struct history_put {
    const struct kernel_sample *sample;
    uint64_t kept_s;
    bool written;
};

static enum kiln_code add_sample(struct db *db, const struct kernel_sample *s, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(db, KERNEL_ADD_SAMPLE);
    query_bind_u64(&q, 1, store_time(s->time));
    query_bind_u64(&q, 2, store_time(s->span_s));
    for (int i = 0; i < HISTORY_COLUMNS; i++)
        query_bind_u64(&q, 3 + i, s->values[i] < KERNEL_SUM_MAX ? s->values[i] : KERNEL_SUM_MAX);
    return query_run(&q, err);
}

static enum kiln_code forget_samples(struct db *db, const struct history_put *put,
                                     struct kiln_err *err)
{
    uint64_t now = store_time(put->sample->time);
    QUERY_AUTO struct query q = query_of(db, KERNEL_FORGET_SAMPLES);
    query_bind_u64(&q, 1, now > put->kept_s ? now - put->kept_s : 0);
    query_bind_u64(&q, 2, now + AHEAD_MAX_S);
    return query_run(&q, err);
}

static enum kiln_code put_sample_work(struct kernel_store *store, void *context,
                                      struct kiln_err *err)
{
    struct history_put *put = context;
    TRANSACTION_AUTO struct transaction t = { 0 };
    enum kiln_code rc = store_before_batch(store, err);
    if (!rc)
        rc = transaction_begin(&t, store->writer, err);
    if (!rc)
        rc = forget_samples(store->writer, put, err);
    if (!rc)
        rc = add_sample(store->writer, put->sample, err);
    if (!rc)
        rc = transaction_commit(&t, err);
    put->written = rc == KILN_OK;
    return rc;
}

enum kiln_code kernel_store_history_put(struct kernel_store *store,
                                        const struct kernel_sample *sample, uint64_t kept_s,
                                        bool *ret_written, struct kiln_err *err)
{
    struct history_put put = { .sample = sample, .kept_s = kept_s };
    enum kiln_code rc = store_write(store, STORE_BACKGROUND, put_sample_work, &put, err);
    *ret_written = put.written;
    return rc ? kiln_while(err, "writing a sample of the counters") : KILN_OK;
}

enum kiln_code kernel_store_history(struct kernel_store *store,
                                    const struct kernel_history_range *range,
                                    void (*each)(void *context, const struct kernel_sample *sample),
                                    void *context, struct kiln_err *err)
{
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    enum kiln_code rc = store_reader_take(store, &reader, err);
    if (rc || !reader)
        return rc;
    QUERY_AUTO struct query q = query_of(reader->db, KERNEL_SAMPLES);
    query_bind_u64(&q, 1, store_time(range->since));
    query_bind_u64(&q, 2, range->step_s ? store_time(range->step_s) : 1);
    query_bind_u64(&q, 3, range->max);
    while (query_next(&q, &rc, err)) {
        struct kernel_sample sample = { .time = query_u64(&q, 1), .span_s = query_u64(&q, 2) };
        for (int i = 0; i < HISTORY_COLUMNS; i++)
            sample.values[i] = query_u64(&q, 3 + i);
        each(context, &sample);
    }
    return store_note_read(store, rc);
}

enum kiln_code kernel_store_slowest(struct kernel_store *store,
                                    const struct kernel_slowest_request *request,
                                    void (*each)(void *, const struct kernel_record *),
                                    void *context, struct kiln_err *err)
{
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    enum kiln_code rc = store_reader_take(store, &reader, err);
    if (rc || !reader)
        return rc;
    QUERY_AUTO struct query q = query_of(reader->db, KERNEL_SLOWEST);
    query_bind_i64(&q, 1, request->uid ? (int64_t)*request->uid : -1);
    query_bind_u64(&q, 2, request->max);
    rc = store_report_records(&q, each, context, err);
    return store_note_read(store, rc);
}
