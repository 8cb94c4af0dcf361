/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_spool.h"

#include "common/base/array.h"
#include "engine/fleet/fleet_series.h"

#include <string.h>

void fleet_spool_init(struct fleet_spool *spool, size_t size)
{
    *spool = (struct fleet_spool){ .full_at = size };
    buffer_init(&spool->records, 2 * size);
}

void fleet_spool_done(struct fleet_spool *spool)
{
    buffer_done(&spool->records);
    free(spool->list);
    *spool = (struct fleet_spool){ 0 };
}

bool fleet_spool_is_full(const struct fleet_spool *spool)
{
    return spool->records.size >= spool->full_at;
}

enum kiln_code fleet_spool_add(struct fleet_spool *spool, struct bytes content,
                               const struct fleet_claim *claim, struct kiln_err *err)
{
    struct fleet_spooled added = { .key = claim->key,
                                   .time = claim->time,
                                   .offset = spool->records.size,
                                   .size = (uint32_t)content.size };
    if (!ARRAY_RESERVE(spool->list, spool->count, spool->capacity, 64))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the names of kernels");
    buffer_put(&spool->records, content.data, content.size);
    if (spool->records.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the records of a pack");
    spool->list[spool->count++] = added;
    return KILN_OK;
}

void fleet_spool_cut(struct fleet_spool *spool, size_t count)
{
    if (count >= spool->count)
        return;
    spool->records.size = spool->list[count].offset;
    spool->count = count;
}

static int compare_spooled(const void *a, const void *b)
{
    const struct fleet_spooled *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return memcmp(x->key.bytes, y->key.bytes, DIGEST_SIZE);
}

void fleet_spool_sort(struct fleet_spool *spool)
{
    if (spool->count > 0)
        qsort(spool->list, spool->count, sizeof(*spool->list), compare_spooled);
}

struct bytes fleet_spool_content(const struct fleet_spool *spool, size_t number)
{
    const struct fleet_spooled *one = &spool->list[number];
    return bytes_of(spool->records.data + one->offset, one->size);
}

struct series_record {
    struct fleet_claim claim;
    struct fleet_spooled spooled;
};

static int compare_series(const void *a, const void *b)
{
    const struct series_record *x = a, *y = b;
    return fleet_series_compare(&x->claim, &y->claim);
}

/* Replaces the list by the first record of each series in |all|. */
static void keep_first(struct fleet_spool *spool, const struct series_record *all)
{
    size_t kept = 0, count = spool->count;
    for (size_t i = 0; i < count; i++)
        if (i == 0 || !fleet_series_equal(&all[i - 1].claim, &all[i].claim))
            spool->list[kept++] = all[i].spooled;
    spool->count = kept;
}

enum kiln_code fleet_spool_keep_newest(struct fleet_spool *spool, size_t max, uint64_t now,
                                       struct kiln_err *err)
{
    KILN_AUTO(mem) struct series_record *all = calloc(spool->count + 1, sizeof(*all));
    if (!all)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the series of a shard");
    for (size_t i = 0; i < spool->count; i++) {
        struct fleet_record record;
        if (!fleet_record_read(fleet_spool_content(spool, i), &record))
            return kiln_fail(err, KILN_CORRUPT, "a record of a series is malformed");
        record.claim.time = spool->list[i].time = fleet_series_time(&record.claim, now);
        all[i] = (struct series_record){ record.claim, spool->list[i] };
    }
    qsort(all, spool->count, sizeof(*all), compare_series);
    keep_first(spool, all);
    fleet_spool_sort(spool);
    if (spool->count > max) {
        memmove(spool->list, spool->list + (spool->count - max), max * sizeof(*spool->list));
        spool->count = max;
    }
    return KILN_OK;
}
