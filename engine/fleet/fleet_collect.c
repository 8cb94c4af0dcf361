/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_collect.h"

#include "engine/fleet/fleet_index.h"
#include "engine/fleet/fleet_pointer.h"
#include "engine/fleet/fleet_series.h"

#include <stdlib.h>

static enum kiln_code read_file(struct fleet_store *store, struct fleet_file *file, size_t size_max,
                                struct kiln_err *err)
{
    file->offset = file->size = 0;
    buffer_init(&file->content, size_max);
    enum kiln_code rc = store->ops->read(store, file, 1, err);
    if (!rc && file->rc)
        *err = file->err;
    return rc ? rc : file->rc;
}

static enum kiln_code read_pointer(struct fleet_collection *c, const char *id,
                                   struct fleet_pointer *ret_pointer, struct kiln_err *err)
{
    struct fleet_file file;
    fleet_name_pointer(id, file.name);
    enum kiln_code rc = read_file(c->store, &file, FLEET_POINTER_MAX, err);
    if (!rc && !fleet_pointer_read(buffer_view(&file.content), ret_pointer))
        rc = kiln_fail(err, KILN_CORRUPT, "'%s' of the fleet's tree is damaged", file.name);
    buffer_done(&file.content);
    return rc;
}

static enum kiln_code read_index(struct fleet_collection *c, struct kiln_err *err)
{
    enum fleet_fault fault = FLEET_FAULT_NONE;
    struct fleet_pointer pointer;
    struct fleet_file file;
    char id[FLEET_SHARD_ID_SIZE];
    fleet_shard_id(&c->shard, id);
    enum kiln_code rc = read_pointer(c, id, &pointer, err);
    if (rc)
        return rc;
    fleet_name_index(id, &pointer.sha256, file.name);
    rc = read_file(c->store, &file, FLEET_INDEX_MAX, err);
    if (!rc)
        rc = fleet_index_open(&file.content, c->trust, &c->index, &fault, err);
    buffer_done(&file.content);
    if (rc)
        return rc;
    const struct fleet_shard found = fleet_index_shard(c->index);
    if (!fleet_shard_equal(&found, &c->shard) || fleet_index_epoch(c->index) != pointer.epoch)
        return kiln_fail(err, KILN_CORRUPT, "'%s' is the index of something else", file.name);
    return KILN_OK;
}

/* Reads the packs from the last one, which has the newest records, while they are within the
 * limit. */
static enum kiln_code read_packs(struct fleet_collection *c, struct kiln_err *err)
{
    uint32_t count = fleet_index_packs(c->index);
    uint64_t bytes = 0;
    enum kiln_code rc = KILN_OK;
    c->packs = calloc((size_t)count + 1, sizeof(*c->packs));
    if (!c->packs)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for packs of the fleet");
    c->first_pack = count;
    while (!rc && c->first_pack > 0) {
        const struct fleet_pack pack = fleet_index_pack(c->index, c->first_pack - 1);
        struct fleet_file file;
        bytes += pack.size;
        if (bytes > c->bytes_max)
            return KILN_OK;
        fleet_name_pack(&pack.sha256, file.name);
        rc = read_file(c->store, &file, pack.size, err);
        c->packs[--c->first_pack] = file.content;
    }
    return rc;
}

static int compare_records(const void *a, const void *b)
{
    const struct fleet_claim *x = &((const struct fleet_record *)a)->claim;
    const struct fleet_claim *y = &((const struct fleet_record *)b)->claim;
    if (x->time != y->time)
        return x->time > y->time ? -1 : 1;
    return fleet_series_compare(x, y);
}

static enum kiln_code list_records(struct fleet_collection *c, struct kiln_err *err)
{
    uint32_t entries = fleet_index_count(c->index);
    c->records = calloc((size_t)entries + 1, sizeof(*c->records));
    if (!c->records)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for records of the fleet");
    for (uint32_t i = 0; i < entries; i++) {
        const struct fleet_place place = fleet_index_entry(c->index, i).place;
        if (place.pack < c->first_pack)
            continue;
        const struct buffer *pack = &c->packs[place.pack];
        struct fleet_record *record = &c->records[c->count];
        bool is_within = (uint64_t)place.offset + place.size <= pack->size;
        if (is_within &&
            fleet_record_read(bytes_of(pack->data + place.offset, place.size), record) &&
            record->size == place.size) {
            record->claim.time = fleet_series_time(&record->claim, c->now);
            c->count++;
        } else {
            c->malformed++;
        }
    }
    qsort(c->records, c->count, sizeof(*c->records), compare_records);
    return KILN_OK;
}

enum kiln_code fleet_collect(struct fleet_collection *c, struct kiln_err *err)
{
    enum kiln_code rc = read_index(c, err);
    if (!rc)
        rc = read_packs(c, err);
    return rc ? rc : list_records(c, err);
}

void fleet_collection_done(struct fleet_collection *c)
{
    uint32_t packs = c->index ? fleet_index_packs(c->index) : 0;
    for (uint32_t i = 0; c->packs && i < packs; i++)
        buffer_done(&c->packs[i]);
    free(c->packs);
    free(c->records);
    fleet_index_destroy(c->index);
    c->packs = NULL;
    c->records = NULL;
    c->index = NULL;
    c->count = 0;
}
