/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_compact.h"

#include "common/base/array.h"
#include "common/protocol/limits.h"
#include "engine/digest/sha256.h"
#include "engine/fleet/fleet_pointer.h"
#include "engine/fleet/fleet_series.h"
#include "engine/fleet/fleet_spool.h"

#include <stdio.h>
#include <string.h>

#define LOOSE_DIRECTORY "v1/k"
#define SHORT_TEXT 64
/* Maximum number of small packs in a shard. A pack is small if it has fewer than |pack_max| / 2
 * bytes. If there are more small packs, the compaction merges them. */
#define SMALL_PACKS_MAX 16u
/* Approximate maximum size, in bytes, of the records that a compaction keeps in memory. If a shard
 * has more, the compaction packs it in several steps, and writes an index after each step. */
#define SPOOL_MAX (256u << 20)
/* Number of records to read at the same time. If the store is far away, reading the records one
 * after the other would take too long. */
#define BATCH_MAX 16u

struct shard_work {
    struct fleet_compaction *all;
    struct codec *codec; /* borrowed */
    const char *id;
    struct fleet_file pointer; /* owned */
    struct fleet_index *old;   /* owned; the current index; NULL: the shard has none yet */
    char target[LIMIT_TARGET_TEXT], toolchain[SHORT_TEXT];
    struct digest toolchain_id;
    struct digest *keys; /* owned; keys of the loose records that |old| lacks; not verified yet */
    size_t key_count, key_capacity;
    struct fleet_spool spool; /* owned; the records for the new packs */
    uint64_t kernels;         /* loose records in |spool| */
    bool has_more;            /* the spool is full, so another index must follow */
    /* A key was revoked after |old| was made, so kernels that it signed leave the index. */
    bool purges;
    bool merges_small; /* |old| has many small packs */
    bool merges_all;   /* the shard has series */
    uint64_t revoked;  /* records of revoked keys that were seen */
    /* Owned; for each pack of |old|, whether |spool| has its records. */
    bool *merged;
    uint32_t merged_count;
    /* Owned; the content of the new index. */
    struct fleet_pack *packs;
    struct fleet_entry *entries;
    uint32_t pack_count, entry_count;
};

static void shard_work_done(struct shard_work *w)
{
    buffer_done(&w->pointer.content);
    fleet_index_destroy(w->old);
    fleet_spool_done(&w->spool);
    free(w->keys);
    free(w->merged);
    free(w->packs);
    free(w->entries);
}

static void note_problem(struct fleet_compaction *all, const char *what, const char *why)
{
    all->problems++;
    all->problem(all->context, what, why);
}

/* Reads one file. The caller frees the content, also after an error. */
static enum kiln_code read_file(const struct shard_work *w, struct fleet_file *file,
                                struct kiln_err *err)
{
    struct fleet_store *store = w->all->store;
    enum kiln_code rc = store->ops->read(store, file, 1, err);
    if (!rc && file->rc)
        *err = file->err;
    return rc ? rc : file->rc;
}

static struct fleet_shard shard_of(const struct shard_work *w)
{
    return (struct fleet_shard){ bytes_of_text(w->target), bytes_of_text(w->toolchain),
                                 w->toolchain_id };
}

/* Copies the texts of |shard| to |w|. Returns false if a text is too long, or if |shard| does not
 * have the id after which the shard's directory is named (|w->id|). */
static bool take_shard(struct shard_work *w, const struct fleet_shard *shard)
{
    char id[FLEET_SHARD_ID_SIZE];
    fleet_shard_id(shard, id);
    if (strcmp(id, w->id) != 0 || shard->target.size >= sizeof(w->target) ||
        shard->toolchain.size >= sizeof(w->toolchain))
        return false;
    snprintf(w->target, sizeof(w->target), "%.*s", (int)shard->target.size,
             (const char *)shard->target.data);
    snprintf(w->toolchain, sizeof(w->toolchain), "%.*s", (int)shard->toolchain.size,
             (const char *)shard->toolchain.data);
    w->toolchain_id = shard->toolchain_id;
    return true;
}

static enum kiln_code open_old(struct shard_work *w, const struct fleet_pointer *pointer,
                               struct kiln_err *err)
{
    enum fleet_fault fault = FLEET_FAULT_NONE;
    struct fleet_file file = { .offset = 0 };
    buffer_init(&file.content, FLEET_INDEX_MAX);
    fleet_name_index(w->id, &pointer->sha256, file.name);
    enum kiln_code rc = read_file(w, &file, err);
    if (!rc)
        rc = fleet_index_open(&file.content, w->all->trust, &w->old, &fault, err);
    buffer_done(&file.content);
    if (rc)
        return rc;
    const struct fleet_shard shard = fleet_index_shard(w->old);
    if (!take_shard(w, &shard) || fleet_index_epoch(w->old) != pointer->epoch)
        return kiln_fail(err, KILN_CORRUPT, "'%s' is the index of something else", file.name);
    return KILN_OK;
}

/* Reads the current index. A damaged pointer is an error: the packs of the current index are not
 * known then, so a new index would leave out their records. */
static enum kiln_code read_old(struct shard_work *w, struct kiln_err *err)
{
    struct fleet_pointer pointer;
    buffer_init(&w->pointer.content, FLEET_POINTER_MAX);
    fleet_name_pointer(w->id, w->pointer.name);
    enum kiln_code rc = read_file(w, &w->pointer, err);
    if (rc == KILN_NOT_FOUND)
        return KILN_OK;
    if (!rc && !fleet_pointer_read(buffer_view(&w->pointer.content), &pointer))
        rc = kiln_fail(err, KILN_CORRUPT, "'%s' of the fleet's tree is damaged", w->pointer.name);
    return rc ? rc : open_old(w, &pointer, err);
}

/* ---- loose records ---- */

static enum kiln_code note_loose(void *context, const struct fleet_listed *listed,
                                 struct kiln_err *err)
{
    struct shard_work *w = context;
    struct digest key;
    struct fleet_place place;
    if (!digest_from_hex(listed->name, &key) || (w->old && fleet_index_find(w->old, &key, &place)))
        return KILN_OK;
    if (!ARRAY_RESERVE(w->keys, w->key_count, w->key_capacity, 64))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the names of kernels");
    w->keys[w->key_count++] = key;
    return KILN_OK;
}

/* Returns whether readers may use the record again when keys change: its key is not trusted now, or
 * not for this target, but it is not revoked. */
static bool may_become_trusted(const struct shard_work *w, enum fleet_fault fault,
                               const struct fleet_record *record)
{
    return (fault == FLEET_FAULT_UNTRUSTED || fault == FLEET_FAULT_NOT_ALLOWED) &&
           !fleet_trust_has_revoked(w->all->trust, record->claim.builder);
}

/* Verifies a record, and appends it to the spool. |key| is NULL if the record is from a pack; then
 * it stays if it may become trusted. Returns KILN_CORRUPT if readers would refuse the record, and
 * counts the reason. Returns KILN_NOT_FOUND if only a newer kiln can unpack the record. */
static enum kiln_code spool_record(struct shard_work *w, struct bytes content,
                                   const struct digest *key, struct kiln_err *err)
{
    struct fleet_reader reader = { .trust = w->all->trust, .codec = w->codec };
    struct fleet_record record;
    struct bytes raw;
    enum kiln_code rc = KILN_CORRUPT;
    reader.fault = FLEET_FAULT_MALFORMED;
    if (fleet_record_read(content, &record) && record.size == content.size &&
        take_shard(w, &record.claim.shard)) {
        reader.shard = shard_of(w);
        rc = fleet_record_open(&reader, &record, key ? key : &record.claim.key, &raw, err);
    }
    if (rc == KILN_CORRUPT && !key && may_become_trusted(w, reader.fault, &record))
        rc = KILN_OK;
    if (rc == KILN_CORRUPT) {
        w->all->refused[reader.fault]++;
        w->revoked += reader.fault == FLEET_FAULT_UNTRUSTED &&
                      fleet_trust_has_revoked(w->all->trust, record.claim.builder);
    }
    return rc ? rc : fleet_spool_add(&w->spool, content, &record.claim, err);
}

/* Verifies the record of a loose file, and appends it to the spool. Leaves out a record that is not
 * valid: any program may have written the file, so it must not stop the compaction. */
static enum kiln_code spool_loose(struct shard_work *w, const struct fleet_file *file,
                                  const struct digest *key, struct kiln_err *err)
{
    size_t before = w->spool.count;
    enum kiln_code rc = file->rc;
    if (!rc)
        rc = spool_record(w, buffer_view(&file->content), key, err);
    else if (rc != KILN_NO_MEMORY && rc != KILN_NOT_FOUND)
        w->all->refused[FLEET_FAULT_MALFORMED]++;
    w->kernels += w->spool.count - before;
    return rc == KILN_NO_MEMORY ? rc : KILN_OK;
}

static enum kiln_code spool_batch(struct shard_work *w, const struct digest *keys, size_t count,
                                  struct kiln_err *err)
{
    struct fleet_file files[BATCH_MAX];
    for (size_t i = 0; i < count; i++) {
        files[i].offset = files[i].size = 0;
        buffer_init(&files[i].content, FLEET_RECORD_MAX);
        fleet_name_loose(w->id, &keys[i], files[i].name);
    }
    enum kiln_code rc = w->all->store->ops->read(w->all->store, files, count, err);
    for (size_t i = 0; i < count; i++) {
        if (!rc)
            rc = spool_loose(w, &files[i], &keys[i], err);
        buffer_done(&files[i].content);
    }
    return rc;
}

static enum kiln_code spool_all_loose(struct shard_work *w, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    size_t done = 0;
    while (!rc && done < w->key_count && !fleet_spool_is_full(&w->spool)) {
        size_t left = w->key_count - done, count = left < BATCH_MAX ? left : BATCH_MAX;
        rc = spool_batch(w, &w->keys[done], count, err);
        done += count;
    }
    w->has_more |= done < w->key_count;
    return rc;
}

/* ---- small packs ---- */

static bool is_small(const struct shard_work *w, uint32_t number)
{
    return fleet_index_pack(w->old, number).size < w->all->pack_max / 2;
}

static uint32_t count_small(const struct shard_work *w)
{
    uint32_t small = 0;
    for (uint32_t i = 0; w->old && i < fleet_index_packs(w->old); i++)
        small += is_small(w, i);
    return small;
}

static bool is_pack(struct shard_work *w, const struct fleet_file *file,
                    const struct fleet_pack *pack)
{
    char why[FLEET_NAME_MAX + 64];
    struct digest digest = sha256_of(buffer_view(&file->content));
    if (!file->rc && digest_equal(&digest, &pack->sha256))
        return true;
    snprintf(why, sizeof(why), "'%s' of the fleet's tree is damaged", file->name);
    note_problem(w->all, w->id, file->rc ? file->err.text : why);
    return false;
}

/* Appends the pack's records to the spool. Leaves out records that no reader can use, for example
 * because a key was revoked. */
static enum kiln_code spool_pack(struct shard_work *w, uint32_t number, struct bytes pack,
                                 struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    for (uint32_t i = 0; !rc && i < fleet_index_count(w->old); i++) {
        const struct fleet_entry entry = fleet_index_entry(w->old, i);
        const struct fleet_place *place = &entry.place;
        if (place->pack != number)
            continue;
        /* fleet_index_open has checked that the place is within a pack of this size. */
        rc =
            spool_record(w, bytes_of(pack.data + place->offset, place->size), /* key= */ NULL, err);
        rc = rc == KILN_CORRUPT ? KILN_OK : rc;
    }
    return rc;
}

/* Puts the records of one pack into the spool. A pack that is damaged or missing, or that has a
 * record which only a newer kiln can unpack, remains in the index. So does a pack that is not small
 * and has no record of a revoked key. */
static enum kiln_code merge_pack(struct shard_work *w, uint32_t number, struct fleet_file *file,
                                 struct kiln_err *err)
{
    const struct fleet_pack pack = fleet_index_pack(w->old, number);
    uint64_t refused[FLEET_FAULTS], revoked = w->revoked;
    size_t before = w->spool.count;
    memcpy(refused, w->all->refused, sizeof(refused));
    fleet_name_pack(&pack.sha256, file->name);
    enum kiln_code rc = w->all->store->ops->read(w->all->store, file, 1, err);
    if (rc || !is_pack(w, file, &pack))
        return rc;
    rc = spool_pack(w, number, buffer_view(&file->content), err);
    if (rc && rc != KILN_NOT_FOUND)
        return rc;
    bool is_wanted =
        w->merges_all || w->revoked > revoked || (w->merges_small && is_small(w, number));
    w->merged[number] = !rc && is_wanted;
    w->merged_count += w->merged[number];
    if (w->merged[number])
        return KILN_OK;
    fleet_spool_cut(&w->spool, before);
    memcpy(w->all->refused, refused, sizeof(refused));
    return KILN_OK;
}

static enum kiln_code merge_number(struct shard_work *w, uint32_t number, struct kiln_err *err)
{
    struct fleet_file file = { .offset = 0 };
    buffer_init(&file.content, fleet_index_pack(w->old, number).size);
    enum kiln_code rc = merge_pack(w, number, &file, err);
    buffer_done(&file.content);
    return rc;
}

static bool has_series(const struct shard_work *w)
{
    const struct fleet_shard shard = shard_of(w);
    return fleet_shard_has_series(&shard);
}

/* Merges the small packs if there are many of them, so that the number of packs does not grow
 * without end. In a shard with series, merges all packs, because new records may replace old
 * ones. After a revocation, examines all packs. */
static enum kiln_code merge_packs(struct shard_work *w, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    w->merges_all = w->old && has_series(w);
    w->merges_small = count_small(w) > SMALL_PACKS_MAX;
    for (uint32_t i = 0; !rc && w->old && i < fleet_index_packs(w->old); i++) {
        if (!w->merges_all && !w->purges && !(w->merges_small && is_small(w, i)))
            continue;
        if (fleet_spool_is_full(&w->spool))
            w->has_more = true;
        else
            rc = merge_number(w, i, err);
    }
    return rc;
}

/* Removes records that newer ones of their series replace, and counts the new ones that are left.
 */
static enum kiln_code settle_series(struct shard_work *w, struct kiln_err *err)
{
    struct fleet_place place;
    if (w->has_more)
        return kiln_fail(err, KILN_FULL,
                         "the records have too many bytes: delete the oldest files in v1/k/%s",
                         w->id);
    enum kiln_code rc = fleet_spool_keep_newest(&w->spool, FLEET_SERIES_MAX, w->all->now, err);
    w->kernels = 0;
    for (size_t i = 0; !rc && i < w->spool.count; i++)
        w->kernels += !w->old || !fleet_index_find(w->old, &w->spool.list[i].key, &place);
    return rc;
}

/* ---- the new index ---- */

/* Counts the kernels of each pack that is not merged. Returns the sum. */
static uint64_t count_entries(const struct shard_work *w, uint32_t counts[FLEET_PACKS_MAX])
{
    uint64_t sum = 0;
    memset(counts, 0, FLEET_PACKS_MAX * sizeof(*counts));
    for (uint32_t i = 0; i < fleet_index_count(w->old); i++) {
        uint16_t pack = fleet_index_entry(w->old, i).place.pack;
        counts[pack] += !w->merged[pack];
        sum += !w->merged[pack];
    }
    return sum;
}

/* Leaves out the oldest packs of a full index, which are the first, until the new kernels fit. So
 * the fleet goes on to share new kernels, and forgets the oldest ones. */
static void drop_oldest(struct shard_work *w, uint64_t added_packs)
{
    uint32_t counts[FLEET_PACKS_MAX];
    uint64_t keys_max = w->all->keys_max ? w->all->keys_max : FLEET_KEYS_MAX;
    uint64_t entries = count_entries(w, counts);
    uint32_t packs = fleet_index_packs(w->old) - w->merged_count;
    for (uint32_t i = 0; i < fleet_index_packs(w->old); i++) {
        if (entries + w->spool.count <= keys_max && packs + added_packs <= FLEET_PACKS_MAX)
            return;
        if (w->merged[i])
            continue;
        w->merged[i] = true;
        entries -= counts[i];
        packs--;
        w->all->dropped += counts[i];
    }
}

static enum kiln_code reserve_index(struct shard_work *w, struct kiln_err *err)
{
    uint32_t packs = w->old ? fleet_index_packs(w->old) : 0;
    uint32_t entries = w->old ? fleet_index_count(w->old) : 0;
    uint64_t added = w->spool.records.size / w->all->pack_max + 1;
    if (w->old)
        drop_oldest(w, added);
    w->packs = calloc(packs + (size_t)added, sizeof(*w->packs));
    w->entries = calloc(entries + w->spool.count, sizeof(*w->entries));
    return w->packs && w->entries
               ? KILN_OK
               : kiln_fail(err, KILN_NO_MEMORY, "no memory for an index of the fleet");
}

static enum kiln_code copy_old(struct shard_work *w, struct kiln_err *err)
{
    uint16_t numbers[FLEET_PACKS_MAX];
    enum kiln_code rc = reserve_index(w, err);
    if (rc || !w->old)
        return rc;
    for (uint32_t i = 0; i < fleet_index_packs(w->old); i++) {
        numbers[i] = (uint16_t)w->pack_count;
        if (!w->merged[i])
            w->packs[w->pack_count++] = fleet_index_pack(w->old, i);
    }
    for (uint32_t i = 0; i < fleet_index_count(w->old); i++) {
        struct fleet_entry entry = fleet_index_entry(w->old, i);
        if (w->merged[entry.place.pack])
            continue;
        entry.place.pack = numbers[entry.place.pack];
        w->entries[w->entry_count++] = entry;
    }
    return KILN_OK;
}

/* Writes the next pack, which begins with the record |first|. Sets |ret_end| to the first record of
 * the pack that follows. */
static enum kiln_code write_pack(struct shard_work *w, size_t first, size_t *ret_end,
                                 struct kiln_err *err)
{
    char name[FLEET_NAME_MAX];
    size_t i = first;
    BUFFER_AUTO struct buffer pack;
    buffer_init(&pack, (size_t)w->all->pack_max + FLEET_RECORD_MAX);
    for (; i < w->spool.count && pack.size < w->all->pack_max; i++) {
        struct bytes content = fleet_spool_content(&w->spool, i);
        w->entries[w->entry_count++] =
            (struct fleet_entry){ .key = w->spool.list[i].key,
                                  .place = { .pack = (uint16_t)w->pack_count,
                                             .offset = (uint32_t)pack.size,
                                             .size = (uint32_t)content.size } };
        buffer_put(&pack, content.data, content.size);
    }
    *ret_end = i;
    if (pack.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a pack");
    struct digest digest = sha256_of(buffer_view(&pack));
    w->packs[w->pack_count++] = (struct fleet_pack){ digest, (uint32_t)pack.size };
    fleet_name_pack(&digest, name);
    return w->all->store->ops->add(w->all->store, name, buffer_view(&pack), NULL, err);
}

static enum kiln_code write_packs(struct shard_work *w, struct kiln_err *err)
{
    enum kiln_code rc = copy_old(w, err);
    uint32_t before = w->pack_count;
    fleet_spool_sort(&w->spool);
    for (size_t i = 0; !rc && i < w->spool.count;)
        rc = write_pack(w, i, &i, err);
    if (!rc)
        w->all->packs += w->pack_count - before;
    return rc;
}

/* Returns the epoch of the new index: the current time, unless the old index has a higher epoch.
 * The time is higher than the epoch of every earlier index, even of one that was lost. */
static uint64_t next_epoch(const struct shard_work *w)
{
    uint64_t least = w->old ? fleet_index_epoch(w->old) + 1 : 1;
    return w->all->now > least ? w->all->now : least;
}

/* Returns the time of the new index. It stays the same until all packs are purged, so that the next
 * step goes on with this. */
static uint64_t time_of_index(const struct shard_work *w)
{
    return w->purges && w->has_more ? fleet_index_time(w->old) : w->all->now;
}

static enum kiln_code publish_index(struct shard_work *w, struct kiln_err *err)
{
    char name[FLEET_NAME_MAX], text[FLEET_POINTER_MAX];
    struct fleet_index_draft draft = { .shard = shard_of(w),
                                       .epoch = next_epoch(w),
                                       .time = time_of_index(w),
                                       .packs = w->packs,
                                       .pack_count = w->pack_count,
                                       .entries = w->entries,
                                       .entry_count = w->entry_count };
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, FLEET_INDEX_MAX);
    enum kiln_code rc = fleet_index_write(&draft, w->all->signer, &content, err);
    if (rc)
        return rc;
    struct fleet_pointer pointer = { draft.epoch, sha256_of(buffer_view(&content)) };
    fleet_name_index(w->id, &pointer.sha256, name);
    struct fleet_store *store = w->all->store;
    rc = store->ops->add(store, name, buffer_view(&content), NULL, err);
    if (rc)
        return rc;
    fleet_pointer_write(&pointer, text);
    rc = store->ops->replace(store, &w->pointer, bytes_of_text(text), err);
    if (rc)
        return rc;
    w->all->indices++;
    *(has_series(w) ? &w->all->blocks : &w->all->kernels) += w->kernels;
    w->all->merged += w->merged_count;
    return KILN_OK;
}

static enum kiln_code collect_records(struct shard_work *w, struct kiln_err *err)
{
    struct fleet_store *store = w->all->store;
    char directory[FLEET_NAME_MAX];
    fleet_name_loose_directory(w->id, directory);
    enum kiln_code rc = read_old(w, err);
    if (!rc)
        rc = store->ops->list(store, directory, note_loose, w, err);
    w->purges = w->old && fleet_trust_revoked_at(w->all->trust) >= fleet_index_time(w->old);
    if (rc || (w->key_count == 0 && !w->purges))
        return rc;
    w->merged = calloc(FLEET_PACKS_MAX, sizeof(*w->merged));
    if (!w->merged)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a compaction");
    rc = merge_packs(w, err);
    if (!rc)
        rc = spool_all_loose(w, err);
    return !rc && has_series(w) ? settle_series(w, err) : rc;
}

static enum kiln_code work_on_shard(struct shard_work *w, struct kiln_err *err)
{
    enum kiln_code rc = collect_records(w, err);
    if (rc || (w->kernels == 0 && !w->has_more && !w->purges)) /* nothing new */
        return rc;
    rc = write_packs(w, err);
    return rc ? rc : publish_index(w, err);
}

struct compaction_run {
    struct fleet_compaction *all;
    struct codec *codec; /* owned */
};

static enum kiln_code compact_once(struct compaction_run *run, const char *id, bool *ret_has_more,
                                   struct kiln_err *err)
{
    struct shard_work w = { .all = run->all, .codec = run->codec, .id = id };
    fleet_spool_init(&w.spool, run->all->spool_max ? run->all->spool_max : SPOOL_MAX);
    enum kiln_code rc = work_on_shard(&w, err);
    *ret_has_more = w.has_more;
    shard_work_done(&w);
    return rc;
}

/* Compacts one shard. Reports a failure, but returns KILN_OK, so that a damaged shard does not
 * prevent the compaction of the other shards. */
static enum kiln_code compact_shard(void *context, const struct fleet_listed *listed,
                                    struct kiln_err *err)
{
    struct compaction_run *run = context;
    bool has_more = strlen(listed->name) == FLEET_SHARD_ID_SIZE - 1;
    enum kiln_code rc = KILN_OK;
    while (!rc && has_more)
        rc = compact_once(run, listed->name, &has_more, err);
    if (rc)
        note_problem(run->all, listed->name, err->text);
    return KILN_OK;
}

enum kiln_code fleet_compact(struct fleet_compaction *compaction, struct kiln_err *err)
{
    KILN_AUTO(codec) struct codec *codec = NULL;
    struct fleet_store *store = compaction->store;
    struct compaction_run run = { .all = compaction };
    enum kiln_code rc = codec_create(&codec, err);
    run.codec = codec;
    return rc ? rc : store->ops->list(store, LOOSE_DIRECTORY, compact_shard, &run, err);
}
