/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_verify.h"

#include "engine/digest/sha256.h"
#include "engine/fleet/fleet_pointer.h"
#include "engine/fleet/fleet_record.h"
#include "engine/fleet/fleet_series.h"

#include <stdio.h>
#include <string.h>

#define INDEX_DIRECTORY "v1/i"
#define WHAT_MAX (FLEET_NAME_MAX + 32)
/* Limits of the records that are read at the same time. A single record may be larger. */
#define BATCH_MAX 64u
#define BATCH_BYTES (8u << 20)

struct verifying {
    struct fleet_verification *all;
    struct codec *codec;         /* owned */
    struct fleet_index *index;   /* owned */
    struct target target;        /* of |index| */
    struct fleet_entry *entries; /* owned; of |index|, in the order of the packs */
    struct fleet_file files[BATCH_MAX];
};

static void note_bad(struct verifying *v, const char *what, const char *why)
{
    v->all->bad_count++;
    v->all->bad(v->all->context, what, why);
}

/* Returns whether |record| may be the one that |entry| names. Compares only the first bytes of the
 * keys, because an index stores no more. */
static bool has_prefix(const struct fleet_record *record, const struct fleet_entry *entry)
{
    return memcmp(record->claim.key.bytes, entry->key.bytes, 8) == 0;
}

static enum kiln_code verify_record(struct verifying *v, struct bytes content,
                                    const struct fleet_entry *entry, const char **ret_why,
                                    struct kiln_err *err)
{
    struct fleet_record record;
    struct bytes raw;
    struct fleet_reader reader = { .trust = v->all->trust,
                                   .codec = v->codec,
                                   .shard = fleet_index_shard(v->index) };
    *ret_why = NULL;
    if (!fleet_record_read(content, &record) || record.size != content.size) {
        *ret_why = fleet_fault_text(FLEET_FAULT_MALFORMED);
        return KILN_OK;
    }
    if (!has_prefix(&record, entry)) {
        *ret_why = fleet_fault_text(FLEET_FAULT_OTHER_THING);
        return KILN_OK;
    }
    enum kiln_code rc = fleet_record_open(&reader, &record, &record.claim.key, &raw, err);
    bool is_code = !fleet_shard_has_series(&reader.shard);
    if (!rc && is_code && v->all->check_object(raw, &v->target, err))
        *ret_why = "it is not code for the target";
    else if (rc == KILN_CORRUPT)
        *ret_why = fleet_fault_text(reader.fault);
    else if (rc == KILN_NOT_FOUND)
        *ret_why = "only a newer kiln can unpack it";
    return rc == KILN_CORRUPT || rc == KILN_NOT_FOUND ? KILN_OK : rc;
}

/* ---- packs ---- */

static const char *why_not_read(const struct fleet_file *file)
{
    return file->rc == KILN_NOT_FOUND ? "its pack is missing"
                                      : fleet_fault_text(FLEET_FAULT_MALFORMED);
}

static enum kiln_code verify_entry(struct verifying *v, const struct fleet_entry *entry,
                                   const struct fleet_file *file, struct kiln_err *err)
{
    char what[WHAT_MAX];
    const char *why = NULL;
    enum kiln_code rc = KILN_OK;
    if (file->rc == KILN_NO_MEMORY) {
        *err = file->err;
        return file->rc;
    }
    if (file->rc || entry->place.size > FLEET_RECORD_MAX)
        why = why_not_read(file);
    else
        rc = verify_record(v, buffer_view(&file->content), entry, &why, err);
    if (rc)
        return rc;
    const struct fleet_shard shard = fleet_index_shard(v->index);
    v->all->blocks += fleet_shard_has_series(&shard);
    v->all->kernels += !fleet_shard_has_series(&shard);
    v->all->bytes += entry->place.size;
    if (!why)
        return KILN_OK;
    snprintf(what, sizeof(what), "%s at %u", file->name, entry->place.offset);
    note_bad(v, what, why);
    return KILN_OK;
}

/* Counts the entries from |first| on that are read at the same time. */
static uint32_t batch_size(const struct verifying *v, uint32_t first)
{
    uint64_t bytes = 0;
    uint32_t count = 0, left = fleet_index_count(v->index) - first;
    while (count < left && count < BATCH_MAX && bytes < BATCH_BYTES)
        bytes += v->entries[first + count++].place.size;
    return count;
}

static void name_part(struct verifying *v, struct fleet_file *file, const struct fleet_place *place)
{
    const struct fleet_pack pack = fleet_index_pack(v->index, place->pack);
    file->offset = place->offset;
    file->size = place->size < FLEET_RECORD_MAX ? place->size : FLEET_RECORD_MAX;
    buffer_init(&file->content, file->size);
    fleet_name_pack(&pack.sha256, file->name);
}

static enum kiln_code verify_batch(struct verifying *v, uint32_t first, uint32_t count,
                                   struct kiln_err *err)
{
    struct fleet_store *store = v->all->store;
    for (uint32_t i = 0; i < count; i++)
        name_part(v, &v->files[i], &v->entries[first + i].place);
    enum kiln_code rc = store->ops->read(store, v->files, count, err);
    for (uint32_t i = 0; i < count; i++) {
        if (!rc)
            rc = verify_entry(v, &v->entries[first + i], &v->files[i], err);
        buffer_done(&v->files[i].content);
    }
    return rc;
}

static int by_place(const void *a, const void *b)
{
    const struct fleet_place *x = &((const struct fleet_entry *)a)->place,
                             *y = &((const struct fleet_entry *)b)->place;
    if (x->pack != y->pack)
        return x->pack < y->pack ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static enum kiln_code verify_packs(struct verifying *v, struct kiln_err *err)
{
    uint32_t count = fleet_index_count(v->index);
    enum kiln_code rc = KILN_OK;
    v->entries = calloc(count ? count : 1, sizeof(*v->entries));
    if (!v->entries)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the entries of an index");
    for (uint32_t i = 0; i < count; i++)
        v->entries[i] = fleet_index_entry(v->index, i);
    qsort(v->entries, count, sizeof(*v->entries), by_place);
    for (uint32_t first = 0; !rc && first < count;) {
        uint32_t size = batch_size(v, first);
        rc = verify_batch(v, first, size, err);
        first += size;
    }
    return rc;
}

/* ---- indices ---- */

/* Reads a whole file. The caller frees the content. Returns an error only if the store fails. */
static enum kiln_code read_file(const struct verifying *v, struct fleet_file *file,
                                struct kiln_err *err)
{
    struct fleet_store *store = v->all->store;
    enum kiln_code rc = store->ops->read(store, file, 1, err);
    bool is_answer = file->rc == KILN_OK || file->rc == KILN_NOT_FOUND || file->rc == KILN_FULL ||
                     file->rc == KILN_CORRUPT;
    if (rc || is_answer)
        return rc;
    *err = file->err;
    return file->rc;
}

/* Returns whether the index is the one that the shard's directory and the pointer name. */
static bool is_right_index(const struct fleet_index *index, const char *id,
                           const struct fleet_pointer *pointer)
{
    char found[FLEET_SHARD_ID_SIZE];
    const struct fleet_shard shard = fleet_index_shard(index);
    fleet_shard_id(&shard, found);
    return strcmp(found, id) == 0 && fleet_index_epoch(index) == pointer->epoch;
}

static enum fleet_fault open_content(struct verifying *v, struct buffer *content, const char *id,
                                     const struct fleet_pointer *pointer, struct kiln_err *err)
{
    enum fleet_fault fault = FLEET_FAULT_NONE;
    struct digest digest = sha256_of(buffer_view(content));
    if (!digest_equal(&digest, &pointer->sha256))
        return FLEET_FAULT_WRONG_BYTES;
    if (fleet_index_open(content, v->all->trust, &v->index, &fault, err))
        return fault;
    if (!is_right_index(v->index, id, pointer))
        return FLEET_FAULT_OTHER_THING;
    const struct fleet_shard shard = fleet_index_shard(v->index);
    bool is_code = !fleet_shard_has_series(&shard);
    return is_code && target_parse(shard.target, &v->target, err) ? FLEET_FAULT_MALFORMED
                                                                  : FLEET_FAULT_NONE;
}

static enum kiln_code open_index(struct verifying *v, const char *id,
                                 const struct fleet_pointer *pointer, struct kiln_err *err)
{
    enum fleet_fault fault = FLEET_FAULT_MALFORMED;
    struct fleet_file file = { .offset = 0 };
    buffer_init(&file.content, FLEET_INDEX_MAX);
    fleet_name_index(id, &pointer->sha256, file.name);
    enum kiln_code rc = read_file(v, &file, err);
    if (!rc && !file.rc)
        fault = open_content(v, &file.content, id, pointer, err);
    buffer_done(&file.content);
    if (rc || (!fault && !v->index)) /* memory ran out */
        return rc ? rc : err->code;
    if (fault)
        note_bad(v, file.name,
                 file.rc == KILN_NOT_FOUND ? "it is missing" : fleet_fault_text(fault));
    return KILN_OK;
}

static enum kiln_code verify_shard(struct verifying *v, const char *id, struct kiln_err *err)
{
    struct fleet_pointer pointer;
    struct fleet_file file = { .offset = 0 };
    buffer_init(&file.content, FLEET_POINTER_MAX);
    fleet_name_pointer(id, file.name);
    uint64_t bad_before = v->all->bad_count;
    enum kiln_code rc = read_file(v, &file, err);
    bool is_read = !rc && !file.rc && fleet_pointer_read(buffer_view(&file.content), &pointer);
    buffer_done(&file.content);
    if (!rc && !is_read)
        note_bad(v, file.name, fleet_fault_text(FLEET_FAULT_MALFORMED));
    if (is_read)
        rc = open_index(v, id, &pointer, err);
    if (rc || !v->index || v->all->bad_count > bad_before)
        return rc;
    v->all->shards++;
    return verify_packs(v, err);
}

static enum kiln_code visit_shard(void *context, const struct fleet_listed *listed,
                                  struct kiln_err *err)
{
    struct verifying *v = context;
    if (!listed->is_directory)
        return KILN_OK;
    enum kiln_code rc = verify_shard(v, listed->name, err);
    fleet_index_destroy(v->index);
    free(v->entries);
    v->index = NULL;
    v->entries = NULL;
    return rc;
}

enum kiln_code fleet_verify(struct fleet_verification *verification, struct kiln_err *err)
{
    KILN_AUTO(mem) struct verifying *v = calloc(1, sizeof(*v));
    struct fleet_store *store = verification->store;
    if (!v)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a check of the fleet's tree");
    v->all = verification;
    enum kiln_code rc = codec_create(&v->codec, err);
    if (!rc)
        rc = store->ops->list(store, INDEX_DIRECTORY, visit_shard, v, err);
    codec_destroy(v->codec);
    return rc;
}
