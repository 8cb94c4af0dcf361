/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_spool.h"

#include "common/base/array.h"

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
