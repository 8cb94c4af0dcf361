/* SPDX-License-Identifier: MIT */
#include "engine/service/fleet/fleet_statements.h"

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "common/base/hex.h"
#include "engine/digest/sha256.h"
#include "engine/fleet/fleet_record.h"
#include "engine/fleet/fleet_series.h"
#include "engine/tuning/tuning_share.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY_TEXT 256u

/* Copies the last packs that fit into the limits: they have the newest blocks. A compaction leaves
 * one pack in a shard, unless the shard is very large. */
static void copy_packs(struct fleet_statements *s, const struct fleet_index *index)
{
    uint64_t bytes = 0;
    s->first_pack = fleet_index_packs(index);
    for (; s->first_pack > 0 && s->wanted < FLEET_RECORDS_PACKS_MAX; s->first_pack--) {
        bytes += fleet_index_pack(index, s->first_pack - 1).size;
        if (bytes > FLEET_RECORDS_BYTES_MAX)
            break;
        s->wanted++;
    }
    for (uint32_t i = 0; i < s->wanted; i++)
        s->names[i] = fleet_index_pack(index, s->first_pack + i);
    s->is_cut = s->first_pack > 0;
}

bool fleet_statements_begin(struct fleet_statements *s, const struct fleet_index *index,
                            struct trusted *trusted)
{
    uint32_t count = fleet_index_count(index);
    *s = (struct fleet_statements){ .trusted = trusted_ref(trusted) };
    copy_packs(s, index);
    s->is_cut |= count > FLEET_SERIES_MAX;
    s->place_count = count < FLEET_SERIES_MAX ? count : FLEET_SERIES_MAX;
    s->places = calloc(s->place_count + 1, sizeof(*s->places));
    for (uint32_t i = 0; s->places && i < s->place_count; i++)
        s->places[i] = fleet_index_entry(index, i).place;
    s->shard = fleet_index_shard(index);
    memcpy(s->target, s->shard.target.data, s->shard.target.size);
    s->shard.target.data = (const uint8_t *)s->target;
    s->shard.toolchain = bytes_of_text(FLEET_TUNING);
    return s->places != NULL;
}

void fleet_statements_done(struct fleet_statements *s)
{
    for (unsigned i = 0; i < s->pack_count; i++)
        close(s->packs[i]);
    free(s->places);
    record_list_done(&s->records);
    trusted_unref(s->trusted);
    *s = (struct fleet_statements){ 0 };
}

struct statement {
    struct fleet_record record; /* borrows from its pack */
    bool is_read;
};

struct reading {
    struct fleet_statements *s;
    const char *database_id;
    struct buffer packs[FLEET_RECORDS_PACKS_MAX];
    struct statement *list; /* owned */
    size_t count;
    struct fleet_reader reader;
    struct tuning_share *share; /* owned */
    uint64_t unpacked;
};

static void refuse(struct reading *r, enum fleet_fault fault) { r->s->faults[fault]++; }

static void find_statements(struct reading *r)
{
    const uint64_t now = clock_wall_s();
    struct fleet_statements *s = r->s;
    for (uint32_t i = 0; i < s->place_count; i++) {
        const struct fleet_place *place = &s->places[i];
        if (place->pack < s->first_pack)
            continue;
        const struct buffer *pack = &r->packs[place->pack - s->first_pack];
        struct fleet_record *record = &r->list[r->count].record;
        bool is_within = (uint64_t)place->offset + place->size <= pack->size;
        if (is_within &&
            fleet_record_read(bytes_of(pack->data + place->offset, place->size), record) &&
            record->size == place->size) {
            record->claim.time = fleet_series_time(&record->claim, now);
            r->count++;
        } else {
            refuse(r, FLEET_FAULT_MALFORMED);
        }
    }
}

static int compare_statements(const void *a, const void *b)
{
    const struct statement *x = a, *y = b;
    return fleet_series_compare(&x->record.claim, &y->record.claim);
}

/* Sets the library of all entries to the fleet's, with the id of the key that signed them. */
static void name_origin(struct tuning_share *share, const uint8_t builder[FLEET_KEY_ID_SIZE],
                        char libraries[][LIBRARY_TEXT])
{
    char id[2 * FLEET_KEY_ID_SIZE + 1];
    hex_write(builder, FLEET_KEY_ID_SIZE, id);
    for (size_t i = 0; i < share->count; i++) {
        const char *library = share->rows[i].measured.origin.library;
        snprintf(libraries[i], LIBRARY_TEXT, TUNING_FLEET_ORIGIN "%s%s%.200s", id,
                 library && *library ? " " : "", library ? library : "");
        share->rows[i].measured.origin.library = libraries[i];
        share->rows[i].measured.uid = 0;
    }
}

static bool is_full(const struct fleet_statements *s)
{
    return s->records.count >= FLEET_RECORDS_MAX || s->records.bytes >= FLEET_RECORDS_BYTES_MAX * 2;
}

/* Keeps the records before the damage, if there is any: a block is complete, or its signer is
 * faulty. */
static enum kiln_code take_records(struct reading *r, const struct fleet_claim *claim,
                                   struct bytes block, struct kiln_err *err)
{
    static const size_t most = TUNING_ENTRIES_MAX;
    struct fleet_statements *s = r->s;
    KILN_AUTO(mem) char(*libraries)[LIBRARY_TEXT] = malloc(most * sizeof(*libraries));
    enum tuning_share_step step = TUNING_SHARE_DAMAGED;
    enum kiln_code rc = KILN_OK;
    if (!libraries)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for records of the fleet");
    if (tuning_share_open(r->share, block, r->database_id))
        step = tuning_share_next(r->share);
    while (!rc && step == TUNING_SHARE_RECORD && !is_full(s)) {
        name_origin(r->share, claim->builder, libraries);
        s->entries += r->share->count;
        rc = record_list_add(&s->records,
                             record_create(&r->share->place, r->share->rows, r->share->count), err);
        step = tuning_share_next(r->share);
    }
    if (step == TUNING_SHARE_DAMAGED)
        refuse(r, FLEET_FAULT_MALFORMED);
    s->is_cut |= is_full(s);
    return rc;
}

/* Reads a block. Sets |is_read| unless the block must not be used. */
static enum kiln_code read_statement(struct reading *r, struct statement *statement,
                                     struct kiln_err *err)
{
    const struct fleet_claim *claim = &statement->record.claim;
    struct kiln_err why = KILN_ERR_INIT;
    struct bytes raw;
    if (r->unpacked >= FLEET_RECORDS_BYTES_MAX) {
        r->s->is_cut = true;
        return KILN_OK;
    }
    r->reader.fault = FLEET_FAULT_NONE;
    enum kiln_code rc =
        fleet_record_open(&r->reader, &statement->record, &claim->object, &raw, &why);
    if (rc == KILN_CORRUPT)
        refuse(r, r->reader.fault);
    if (rc == KILN_NO_MEMORY)
        *err = why;
    statement->is_read = !rc;
    r->unpacked += rc ? 0 : raw.size;
    return rc ? (rc == KILN_NO_MEMORY ? rc : KILN_OK) : take_records(r, claim, raw, err);
}

static bool was_replaced(const struct reading *r, size_t i)
{
    for (; i > 0 && fleet_series_equal(&r->list[i - 1].record.claim, &r->list[i].record.claim); i--)
        if (r->list[i - 1].is_read)
            return true;
    return false;
}

static enum kiln_code read_pack(struct reading *r, unsigned number, struct kiln_err *err)
{
    struct fleet_statements *s = r->s;
    struct buffer *pack = &r->packs[number];
    enum kiln_code rc = fs_read_fd(s->packs[number], s->names[number].size, pack, err);
    if (rc)
        return rc;
    const struct digest digest = sha256_of(buffer_view(pack));
    if (digest_equal(&digest, &s->names[number].sha256))
        return KILN_OK;
    refuse(r, FLEET_FAULT_WRONG_BYTES);
    return kiln_fail(err, KILN_CORRUPT, "a pack of the fleet's tuning records is damaged");
}

static enum kiln_code read_packs(struct reading *r, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    for (unsigned i = 0; !rc && i < r->s->wanted; i++)
        rc = read_pack(r, i, err);
    return rc;
}

static enum kiln_code read_all(struct reading *r, struct kiln_err *err)
{
    KILN_AUTO(codec) struct codec *codec = NULL;
    enum kiln_code rc = codec_create(&codec, err);
    if (!rc)
        rc = read_packs(r, err);
    if (rc)
        return rc;
    r->reader =
        (struct fleet_reader){ .trust = r->s->trusted->keys, .codec = codec, .shard = r->s->shard };
    find_statements(r);
    qsort(r->list, r->count, sizeof(*r->list), compare_statements);
    for (size_t i = 0; !rc && i < r->count; i++)
        if (!was_replaced(r, i))
            rc = read_statement(r, &r->list[i], err);
    return rc;
}

void fleet_statements_read(struct fleet_statements *s, const char *database_id)
{
    struct reading r = { .s = s, .database_id = database_id };
    for (unsigned i = 0; i < s->wanted; i++)
        buffer_init(&r.packs[i], s->names[i].size);
    r.list = calloc(s->place_count + 1, sizeof(*r.list));
    r.share = malloc(sizeof(*r.share));
    s->rc = r.list && r.share
                ? read_all(&r, &s->err)
                : kiln_fail(&s->err, KILN_NO_MEMORY, "no memory for records of the fleet");
    for (unsigned i = 0; i < s->wanted; i++)
        buffer_done(&r.packs[i]);
    free(r.list);
    free(r.share);
}
