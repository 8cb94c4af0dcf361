/* SPDX-License-Identifier: MIT */
/*
 * When a compaction writes a new index of a shard, the hosts stop using the previous one. So an
 * index is deleted if the next newer index file of its shard is at least |unused_s| old. A pack is
 * deleted if no remaining index names it, and if its own file is at least |unused_s| old. A younger
 * pack may belong to a compaction that has not written the index yet.
 */
#include "engine/fleet/fleet_gc.h"

#include "common/base/array.h"
#include "engine/digest/sha256.h"
#include "engine/fleet/fleet_collect.h"
#include "engine/fleet/fleet_index.h"
#include "engine/fleet/fleet_pointer.h"
#include "engine/fleet/fleet_record.h"
#include "engine/fleet/fleet_series.h"

#include <stdio.h>
#include <string.h>

/* Number of loose records to read at the same time. */
#define BATCH_MAX 16u
/* Maximum size of the packs of a shard with series that are read together. */
#define SERIES_BYTES_MAX (256u << 20)

struct index_file {
    struct digest sha256;
    uint64_t bytes, modified; /* |modified|: in seconds since 1970 */
};

struct seen_file {
    char name[FLEET_NAME_MAX]; /* relative to the root of the tree */
    const char *entry;         /* the last part of |name| */
    uint64_t bytes, modified;
    bool is_directory;
};

struct collection {
    struct fleet_gc *all;
    struct codec *codec;  /* owned */
    struct digest *packs; /* owned; packs of the indices that are kept, sorted */
    size_t pack_count, pack_capacity;
    struct digest *fresh; /* owned; packs that hosts may not use yet, sorted */
    size_t fresh_count, fresh_capacity;
    bool has_index; /* an index of the tree was verified; otherwise, all packs are kept */
    /* The members below describe the shard that is being examined. */
    const char *shard_id;
    struct index_file *indices; /* owned; the oldest first */
    size_t index_count, index_capacity;
    struct fleet_index *current;          /* owned; NULL: the shard has no valid index */
    struct fleet_collection series;       /* owned; what |current| names; see read_series */
    struct seen_file unpacked[BATCH_MAX]; /* loose records that |current| lacks */
    size_t unpacked_count;
};

typedef enum kiln_code visit_fn(struct collection *c, const struct seen_file *file,
                                struct kiln_err *err);

const char *fleet_waste_label(enum fleet_waste waste)
{
    static const char *const labels[] = {
        [FLEET_WASTE_LOOSE] = "loose", [FLEET_WASTE_USELESS] = "useless",
        [FLEET_WASTE_INDEX] = "index", [FLEET_WASTE_PACK] = "pack",
        [FLEET_WASTE_LEASE] = "lease", [FLEET_WASTE_TEMPORARY] = "temporary"
    };
    return labels[waste];
}

static uint64_t age_of(const struct collection *c, uint64_t since)
{
    return c->all->now > since ? c->all->now - since : 0;
}

static enum kiln_code discard(struct collection *c, const struct seen_file *file,
                              enum fleet_waste waste, struct kiln_err *err)
{
    struct fleet_gc *gc = c->all;
    const struct fleet_garbage garbage = {
        .name = file->name, .waste = waste, .bytes = file->bytes, .age_s = age_of(c, file->modified)
    };
    gc->found(gc->context, &garbage);
    gc->files[waste]++;
    gc->bytes[waste] += file->bytes;
    return gc->dry_run ? KILN_OK : gc->store->ops->remove(gc->store, file->name, err);
}

/* ---- listing ---- */

struct visiting {
    struct collection *collection;
    const char *directory;
    visit_fn *visit;
};

/* Returns false if the name is too long. */
static bool name_file(struct seen_file *file, const char *directory, const char *entry)
{
    int size = snprintf(file->name, sizeof(file->name), "%s/%s", directory, entry);
    file->entry = file->name + strlen(directory) + 1;
    return size > 0 && (size_t)size < sizeof(file->name);
}

static enum kiln_code visit_listed(void *context, const struct fleet_listed *listed,
                                   struct kiln_err *err)
{
    const struct visiting *v = context;
    struct collection *c = v->collection;
    struct seen_file file = { .bytes = listed->bytes,
                              .modified = listed->modified,
                              .is_directory = listed->is_directory };
    if (!name_file(&file, v->directory, listed->name))
        return KILN_OK;
    if (file.entry[0] != '.')
        return v->visit(c, &file, err);
    bool is_old = !file.is_directory && age_of(c, file.modified) >= FLEET_GC_GRACE_S;
    return is_old ? discard(c, &file, FLEET_WASTE_TEMPORARY, err) : KILN_OK;
}

static enum kiln_code each_file(struct collection *c, const char *directory, visit_fn *visit,
                                struct kiln_err *err)
{
    struct visiting visiting = { c, directory, visit };
    struct fleet_store *store = c->all->store;
    return store->ops->list(store, directory, visit_listed, &visiting, err);
}

/* Reads a whole file. The caller frees the content, also after an error. */
static enum kiln_code read_file(const struct collection *c, struct fleet_file *file,
                                struct kiln_err *err)
{
    struct fleet_store *store = c->all->store;
    enum kiln_code rc = store->ops->read(store, file, 1, err);
    if (!rc && file->rc)
        *err = file->err;
    return rc ? rc : file->rc;
}

/* Reads the digest at the beginning of a file's name, which must end with |ending|. */
static bool read_name(const struct seen_file *file, const char *ending, struct digest *ret_digest)
{
    char hex[DIGEST_HEX_SIZE];
    if (file->is_directory || strlen(file->entry) != DIGEST_HEX_SIZE - 1 + strlen(ending) ||
        strcmp(file->entry + DIGEST_HEX_SIZE - 1, ending) != 0)
        return false;
    snprintf(hex, sizeof(hex), "%s", file->entry);
    return digest_from_hex(hex, ret_digest);
}

/* ---- indices ---- */

/* Returns whether a file could not be read for a reason that says nothing about the file. Then
 * nothing may be deleted. */
static bool is_failure(enum kiln_code rc)
{
    return rc != KILN_OK && rc != KILN_NOT_FOUND && rc != KILN_FULL && rc != KILN_CORRUPT;
}

/* If the index is missing, damaged, or signed by an untrusted key, returns KILN_OK and sets
 * |ret_index| to NULL. */
static enum kiln_code open_index(const struct collection *c, const struct digest *sha256,
                                 struct fleet_index **ret_index, struct kiln_err *err)
{
    enum fleet_fault fault = FLEET_FAULT_NONE;
    struct fleet_file file = { .offset = 0 };
    buffer_init(&file.content, FLEET_INDEX_MAX);
    *ret_index = NULL;
    fleet_name_index(c->shard_id, sha256, file.name);
    enum kiln_code rc = read_file(c, &file, err);
    struct digest digest = sha256_of(buffer_view(&file.content));
    if (!rc && digest_equal(&digest, sha256))
        rc = fleet_index_open(&file.content, c->all->trust, ret_index, &fault, err);
    buffer_done(&file.content);
    return is_failure(rc) ? rc : KILN_OK;
}

static enum kiln_code read_pointer(const struct collection *c, struct fleet_pointer *ret_pointer,
                                   bool *ret_valid, struct kiln_err *err)
{
    struct fleet_file file = { .offset = 0 };
    buffer_init(&file.content, FLEET_POINTER_MAX);
    fleet_name_pointer(c->shard_id, file.name);
    enum kiln_code rc = read_file(c, &file, err);
    *ret_valid = !rc && fleet_pointer_read(buffer_view(&file.content), ret_pointer);
    buffer_done(&file.content);
    return is_failure(rc) ? rc : KILN_OK;
}

static enum kiln_code note_index(struct collection *c, const struct seen_file *file,
                                 struct kiln_err *err)
{
    struct index_file *index;
    struct digest sha256;
    if (!read_name(file, ".idx", &sha256))
        return KILN_OK;
    if (!ARRAY_RESERVE(c->indices, c->index_count, c->index_capacity, 64))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the names of indices");
    index = &c->indices[c->index_count++];
    *index =
        (struct index_file){ .sha256 = sha256, .bytes = file->bytes, .modified = file->modified };
    return KILN_OK;
}

static int by_time(const void *a, const void *b)
{
    const struct index_file *x = a, *y = b;
    return (x->modified > y->modified) - (x->modified < y->modified);
}

static int by_digest(const void *a, const void *b) { return memcmp(a, b, DIGEST_SIZE); }

static void sort_digests(struct digest *list, size_t count)
{
    if (count > 0)
        qsort(list, count, sizeof(*list), by_digest);
}

static bool has_digest(const struct digest *sorted, size_t count, const struct digest *digest)
{
    return count > 0 && bsearch(digest, sorted, count, sizeof(*sorted), by_digest);
}

static enum kiln_code keep_packs(struct collection *c, const struct fleet_index *index,
                                 struct kiln_err *err)
{
    for (uint32_t i = 0; i < fleet_index_packs(index); i++) {
        if (!ARRAY_RESERVE(c->packs, c->pack_count, c->pack_capacity, 64))
            return kiln_fail(err, KILN_NO_MEMORY, "no memory for the names of packs");
        c->packs[c->pack_count++] = fleet_index_pack(index, i).sha256;
    }
    return KILN_OK;
}

static enum kiln_code keep_index(struct collection *c, const struct digest *sha256, bool is_current,
                                 struct kiln_err *err)
{
    KILN_AUTO(fleet_index) struct fleet_index *index = NULL;
    enum kiln_code rc = open_index(c, sha256, &index, err);
    if (rc)
        return rc;
    c->all->unverified += !index;
    c->has_index |= index != NULL;
    if (index)
        rc = keep_packs(c, index, err);
    if (!rc && is_current)
        c->current = KILN_TAKE(index);
    return rc;
}

static enum kiln_code discard_index(struct collection *c, const struct index_file *index,
                                    struct kiln_err *err)
{
    struct seen_file file = { .bytes = index->bytes, .modified = index->modified };
    fleet_name_index(c->shard_id, &index->sha256, file.name);
    return discard(c, &file, FLEET_WASTE_INDEX, err);
}

/* Keeps or deletes an index that is not the one that the pointer names. */
static enum kiln_code judge_index(struct collection *c, size_t number, struct kiln_err *err)
{
    const struct index_file *index = &c->indices[number];
    const struct index_file *next = number + 1 < c->index_count ? index + 1 : index;
    return age_of(c, next->modified) >= c->all->unused_s
               ? discard_index(c, index, err)
               : keep_index(c, &index->sha256, /* is_current= */ false, err);
}

static enum kiln_code judge_indices(struct collection *c, struct kiln_err *err)
{
    struct fleet_pointer pointer;
    bool is_valid = false;
    enum kiln_code rc = read_pointer(c, &pointer, &is_valid, err);
    if (rc)
        return rc;
    if (!is_valid) { /* keeps all indices and packs: which index is in use is not known */
        c->all->unverified += c->index_count > 0;
        return KILN_OK;
    }
    rc = keep_index(c, &pointer.sha256, /* is_current= */ true, err);
    for (size_t i = 0; !rc && i < c->index_count; i++)
        if (!digest_equal(&c->indices[i].sha256, &pointer.sha256))
            rc = judge_index(c, i, err);
    return rc;
}

/* ---- the other files ---- */

/* Returns whether no host can ever use the record: its key is revoked, or its signature or its
 * bytes are wrong. An untrusted key may still become trusted. A record in another format counts as
 * useless only after |unused_s|, because a newer kiln may have written it. */
static bool is_useless(const struct collection *c, const struct fleet_file *file,
                       const struct digest *key, uint64_t age_s)
{
    struct fleet_record record;
    struct bytes raw;
    struct kiln_err ignored = KILN_ERR_INIT;
    char id[FLEET_SHARD_ID_SIZE];
    struct bytes content = buffer_view(&file->content);
    if (!fleet_record_read(content, &record) || record.size != content.size)
        return age_s >= c->all->unused_s;
    if (fleet_trust_has_revoked(c->all->trust, record.claim.builder))
        return true;
    struct fleet_reader reader = { .trust = c->all->trust,
                                   .codec = c->codec,
                                   .shard = record.claim.shard };
    fleet_shard_id(&record.claim.shard, id);
    if (fleet_record_open(&reader, &record, key, &raw, &ignored) != KILN_CORRUPT)
        return strcmp(id, c->shard_id) != 0;
    return reader.fault != FLEET_FAULT_UNTRUSTED && reader.fault != FLEET_FAULT_NOT_ALLOWED;
}

/* Reads the records of the current index at the first call. If they cannot be read, there are none,
 * so nothing counts as replaced. */
static void read_series(struct collection *c)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    if (c->series.store)
        return;
    c->series = (struct fleet_collection){ .store = c->all->store,
                                           .trust = c->all->trust,
                                           .shard = fleet_index_shard(c->current),
                                           .now = c->all->now,
                                           .bytes_max = SERIES_BYTES_MAX };
    if (fleet_collect(&c->series, &ignored))
        c->series.count = 0;
}

static bool is_valid(const struct collection *c, const struct fleet_record *record,
                     const struct digest *key)
{
    struct fleet_reader reader = { .trust = c->all->trust,
                                   .codec = c->codec,
                                   .shard = fleet_index_shard(c->current) };
    struct kiln_err ignored = KILN_ERR_INIT;
    struct bytes raw;
    return !fleet_record_open(&reader, record, key, &raw, &ignored);
}

/* Returns whether the record is valid, and the current index has a newer one of its series. */
static bool is_replaced(struct collection *c, struct bytes content, const struct digest *key)
{
    struct fleet_record record;
    struct fleet_shard shard;
    if (!c->current)
        return false;
    shard = fleet_index_shard(c->current);
    if (!fleet_shard_has_series(&shard) || !fleet_record_read(content, &record) ||
        !is_valid(c, &record, key))
        return false;
    read_series(c);
    record.claim.time = fleet_series_time(&record.claim, c->all->now);
    for (size_t i = 0; i < c->series.count; i++) {
        const struct fleet_record *packed = &c->series.records[i];
        if (fleet_series_equal(&packed->claim, &record.claim) &&
            fleet_series_compare(&packed->claim, &record.claim) < 0 &&
            is_valid(c, packed, &packed->claim.object))
            return true;
    }
    return false;
}

static enum kiln_code judge_unpacked(struct collection *c, const struct seen_file *file,
                                     const struct fleet_file *read, struct kiln_err *err)
{
    struct digest key;
    uint64_t age_s = age_of(c, file->modified);
    bool is_too_large = read->rc == KILN_FULL && age_s >= FLEET_GC_GRACE_S;
    if (is_too_large ||
        (!read->rc && read_name(file, "", &key) && is_useless(c, read, &key, age_s)))
        return discard(c, file, FLEET_WASTE_USELESS, err);
    if (!read->rc && age_s >= FLEET_GC_GRACE_S && read_name(file, "", &key) &&
        is_replaced(c, buffer_view(&read->content), &key))
        return discard(c, file, FLEET_WASTE_LOOSE, err);
    c->all->unpacked++;
    c->all->unpacked_age_s = age_s > c->all->unpacked_age_s ? age_s : c->all->unpacked_age_s;
    return KILN_OK;
}

static enum kiln_code judge_batch(struct collection *c, struct kiln_err *err)
{
    struct fleet_file files[BATCH_MAX];
    struct fleet_store *store = c->all->store;
    size_t count = c->unpacked_count;
    c->unpacked_count = 0;
    for (size_t i = 0; i < count; i++) {
        files[i].offset = files[i].size = 0;
        buffer_init(&files[i].content, FLEET_RECORD_MAX);
        snprintf(files[i].name, sizeof(files[i].name), "%s", c->unpacked[i].name);
    }
    enum kiln_code rc = count ? store->ops->read(store, files, count, err) : KILN_OK;
    for (size_t i = 0; i < count; i++) {
        if (!rc)
            rc = judge_unpacked(c, &c->unpacked[i], &files[i], err);
        buffer_done(&files[i].content);
    }
    return rc;
}

/* Returns whether the record was packed so lately that hosts may still use the previous index. */
static bool is_fresh(const struct collection *c, const struct fleet_place *place)
{
    const struct fleet_pack pack = fleet_index_pack(c->current, place->pack);
    return has_digest(c->fresh, c->fresh_count, &pack.sha256);
}

static enum kiln_code judge_loose(struct collection *c, const struct seen_file *file,
                                  struct kiln_err *err)
{
    struct fleet_place place;
    struct digest key;
    if (!read_name(file, "", &key))
        return KILN_OK;
    if (c->current && fleet_index_find(c->current, &key, &place))
        return age_of(c, file->modified) >= FLEET_GC_GRACE_S && !is_fresh(c, &place)
                   ? discard(c, file, FLEET_WASTE_LOOSE, err)
                   : KILN_OK;
    struct seen_file *unpacked = &c->unpacked[c->unpacked_count++];
    *unpacked = *file;
    unpacked->entry = unpacked->name + (file->entry - file->name);
    return c->unpacked_count == BATCH_MAX ? judge_batch(c, err) : KILN_OK;
}

static void forget_shard(struct collection *c)
{
    fleet_index_destroy(c->current);
    c->current = NULL;
    fleet_collection_done(&c->series);
    c->series.store = NULL;
    c->index_count = 0;
}

static bool is_shard(const struct seen_file *file)
{
    return file->is_directory && strlen(file->entry) == FLEET_SHARD_ID_SIZE - 1;
}

static enum kiln_code visit_indices(struct collection *c, const struct seen_file *file,
                                    struct kiln_err *err)
{
    if (!is_shard(file))
        return KILN_OK;
    c->shard_id = file->entry;
    enum kiln_code rc = each_file(c, file->name, note_index, err);
    if (!rc && c->index_count > 0)
        qsort(c->indices, c->index_count, sizeof(c->indices[0]), by_time);
    if (!rc)
        rc = judge_indices(c, err);
    forget_shard(c);
    return rc;
}

static enum kiln_code visit_loose(struct collection *c, const struct seen_file *file,
                                  struct kiln_err *err)
{
    struct fleet_pointer pointer;
    bool is_valid = false;
    if (!is_shard(file))
        return KILN_OK;
    c->shard_id = file->entry;
    enum kiln_code rc = read_pointer(c, &pointer, &is_valid, err);
    if (!rc && is_valid)
        rc = open_index(c, &pointer.sha256, &c->current, err);
    if (!rc)
        rc = each_file(c, file->name, judge_loose, err);
    if (!rc)
        rc = judge_batch(c, err);
    forget_shard(c);
    return rc;
}

static enum kiln_code judge_lease(struct collection *c, const struct seen_file *file,
                                  struct kiln_err *err)
{
    return !file->is_directory && age_of(c, file->modified) >= FLEET_GC_GRACE_S
               ? discard(c, file, FLEET_WASTE_LEASE, err)
               : KILN_OK;
}

static enum kiln_code visit_leases(struct collection *c, const struct seen_file *file,
                                   struct kiln_err *err)
{
    return file->is_directory ? each_file(c, file->name, judge_lease, err) : KILN_OK;
}

static enum kiln_code note_fresh(struct collection *c, const struct digest *pack,
                                 struct kiln_err *err)
{
    if (!ARRAY_RESERVE(c->fresh, c->fresh_count, c->fresh_capacity, 64))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the names of packs");
    c->fresh[c->fresh_count++] = *pack;
    return KILN_OK;
}

static enum kiln_code judge_pack(struct collection *c, const struct seen_file *file,
                                 struct kiln_err *err)
{
    struct digest sha256;
    if (!read_name(file, ".pack", &sha256))
        return KILN_OK;
    if (age_of(c, file->modified) < FLEET_GC_GRACE_S)
        return note_fresh(c, &sha256, err);
    if (c->all->unverified > 0 || !c->has_index || age_of(c, file->modified) < c->all->unused_s ||
        has_digest(c->packs, c->pack_count, &sha256))
        return KILN_OK;
    return discard(c, file, FLEET_WASTE_PACK, err);
}

static enum kiln_code collect(struct collection *c, struct kiln_err *err)
{
    enum kiln_code rc = each_file(c, "v1/i", visit_indices, err);
    sort_digests(c->packs, c->pack_count);
    if (!rc)
        rc = each_file(c, "v1/p", judge_pack, err);
    sort_digests(c->fresh, c->fresh_count);
    if (!rc)
        rc = each_file(c, "v1/k", visit_loose, err);
    return rc ? rc : each_file(c, "v1/l", visit_leases, err);
}

enum kiln_code fleet_gc(struct fleet_gc *gc, struct kiln_err *err)
{
    struct collection c = { .all = gc };
    enum kiln_code rc = codec_create(&c.codec, err);
    if (!rc)
        rc = collect(&c, err);
    forget_shard(&c);
    codec_destroy(c.codec);
    free(c.packs);
    free(c.fresh);
    free(c.indices);
    return rc;
}
