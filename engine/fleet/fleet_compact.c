/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_compact.h"

#include "common/base/array.h"
#include "common/protocol/limits.h"
#include "engine/digest/sha256.h"
#include "engine/fleet/fleet_pointer.h"
#include "engine/fleet/fleet_tree.h"

#include <stdio.h>
#include <string.h>

#define LOOSE_DIRECTORY "v1/k"
#define SHORT_TEXT 64

struct loose { /* not verified yet */
    struct digest key;
    uint64_t time;
};

struct shard_work {
    struct fleet_compaction *all;
    struct codec *codec; /* borrowed */
    const char *id;
    struct fleet_index *old; /* owned; the current index; NULL: the shard has none yet */
    char target[LIMIT_TARGET_TEXT], toolchain[SHORT_TEXT];
    struct digest toolchain_id;
    struct loose *loose; /* owned, like the arrays below */
    struct fleet_pack *packs;
    struct fleet_entry *entries;
    size_t loose_count, loose_capacity;
    uint32_t pack_count, pack_capacity, entry_count, entry_capacity;
    struct buffer pack; /* owned; the content of the pack that is being made */
};

static void shard_work_done(struct shard_work *w)
{
    fleet_index_destroy(w->old);
    buffer_done(&w->pack);
    free(w->loose);
    free(w->packs);
    free(w->entries);
}

static struct fleet_shard shard_of(const struct shard_work *w)
{
    return (struct fleet_shard){ bytes_of_text(w->target), bytes_of_text(w->toolchain),
                                 w->toolchain_id };
}

/* Copies the shard's texts. Returns false if a text is too long, or if the id of |shard| is not the
 * name of the directory. */
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
    char name[FLEET_NAME_MAX];
    enum fleet_fault fault = FLEET_FAULT_NONE;
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, FLEET_INDEX_MAX);
    fleet_name_index(w->id, &pointer->sha256, name);
    enum kiln_code rc = fleet_tree_read(w->all->root, name, &content, err);
    if (!rc)
        rc = fleet_index_open(&content, w->all->trust, &w->old, &fault, err);
    if (rc)
        return rc;
    const struct fleet_shard shard = fleet_index_shard(w->old);
    if (!take_shard(w, &shard) || fleet_index_epoch(w->old) != pointer->epoch)
        return kiln_fail(err, KILN_CORRUPT, "'%s' is the index of something else", name);
    return KILN_OK;
}

/* Reads the current index. A damaged pointer is an error: a new index would begin with a low epoch,
 * and all hosts would refuse it. */
static enum kiln_code read_old(struct shard_work *w, struct kiln_err *err)
{
    char name[FLEET_NAME_MAX];
    struct fleet_pointer pointer;
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, FLEET_POINTER_MAX);
    fleet_name_pointer(w->id, name);
    enum kiln_code rc = fleet_tree_read(w->all->root, name, &text, err);
    if (rc == KILN_NOT_FOUND)
        return KILN_OK;
    if (!rc && !fleet_pointer_read(buffer_view(&text), &pointer))
        rc = kiln_fail(err, KILN_CORRUPT, "'%s' of the fleet's tree is damaged", name);
    return rc ? rc : open_old(w, &pointer, err);
}

static enum kiln_code read_loose(const struct shard_work *w, const struct digest *key,
                                 struct buffer *ret_content, struct kiln_err *err)
{
    char name[FLEET_NAME_MAX];
    fleet_name_loose(w->id, key, name);
    return fleet_tree_read(w->all->root, name, ret_content, err);
}

/* Counts a file that is not used. The compaction continues whatever is wrong with the file, because
 * any program may have written it. */
static enum kiln_code skip_loose(struct shard_work *w, enum kiln_code rc, enum fleet_fault fault)
{
    if (rc == KILN_NO_MEMORY)
        return rc;
    w->all->refused[fault] += rc != KILN_NOT_FOUND;
    return KILN_OK;
}

/* Returns false unless |content| is exactly one record of this shard. */
static bool read_record(struct shard_work *w, struct bytes content, struct fleet_record *ret_record)
{
    return fleet_record_read(content, ret_record) && ret_record->size == content.size &&
           take_shard(w, &ret_record->claim.shard);
}

static enum kiln_code note_loose(void *context, const char *entry, struct kiln_err *err)
{
    struct shard_work *w = context;
    struct digest key;
    struct fleet_place place;
    struct fleet_record record;
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, FLEET_RECORD_MAX);
    if (!digest_from_hex(entry, &key) || (w->old && fleet_index_find(w->old, &key, &place)))
        return KILN_OK;
    enum kiln_code rc = read_loose(w, &key, &content, err);
    if (!rc && !read_record(w, buffer_view(&content), &record))
        rc = KILN_CORRUPT;
    if (rc)
        return skip_loose(w, rc, FLEET_FAULT_MALFORMED);
    if (!ARRAY_RESERVE(w->loose, w->loose_count, w->loose_capacity, 64))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the names of kernels");
    w->loose[w->loose_count++] = (struct loose){ key, record.claim.time };
    return KILN_OK;
}

static int compare_loose(const void *a, const void *b)
{
    const struct loose *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return memcmp(x->key.bytes, y->key.bytes, DIGEST_SIZE);
}

static enum kiln_code flush_pack(struct shard_work *w, struct kiln_err *err)
{
    char name[FLEET_NAME_MAX];
    if (w->pack.size == 0)
        return KILN_OK;
    struct fleet_pack *pack = &w->packs[w->pack_count - 1];
    *pack = (struct fleet_pack){ sha256_of(buffer_view(&w->pack)), (uint32_t)w->pack.size };
    fleet_name_pack(&pack->sha256, name);
    enum kiln_code rc =
        fleet_tree_add(w->all->root, name, buffer_view(&w->pack), /* ret_added= */ NULL, err);
    w->all->packs += !rc;
    buffer_clear(&w->pack);
    return rc;
}

/* Makes space for one more record, in a new pack if the last one is full. */
static enum kiln_code reserve_record(struct shard_work *w, struct kiln_err *err)
{
    bool is_new = w->pack.size == 0 || w->pack.size >= w->all->pack_max;
    enum kiln_code rc = is_new ? flush_pack(w, err) : KILN_OK;
    if (rc)
        return rc;
    if (!ARRAY_RESERVE(w->entries, w->entry_count, w->entry_capacity, 64u) ||
        !ARRAY_RESERVE(w->packs, w->pack_count, w->pack_capacity, 8u))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for an index of the fleet");
    if (is_new && w->pack_count == FLEET_PACKS_MAX)
        return kiln_fail(err, KILN_FULL, "the shard '%s' would have more than %u packs", w->id,
                         FLEET_PACKS_MAX);
    w->pack_count += is_new;
    return KILN_OK;
}

static enum kiln_code add_record(struct shard_work *w, const struct digest *key,
                                 struct bytes content, struct kiln_err *err)
{
    enum kiln_code rc = reserve_record(w, err);
    if (rc)
        return rc;
    w->entries[w->entry_count++] =
        (struct fleet_entry){ .key = *key,
                              .place = { .pack = (uint16_t)(w->pack_count - 1),
                                         .offset = (uint32_t)w->pack.size,
                                         .size = (uint32_t)content.size } };
    buffer_put(&w->pack, content.data, content.size);
    w->all->kernels++;
    return w->pack.failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory for a pack") : KILN_OK;
}

/* Packs a loose record. Reads the file again, because it may have changed since it was listed, and
 * verifies the bytes that are packed. */
static enum kiln_code pack_loose(struct shard_work *w, const struct loose *loose,
                                 struct kiln_err *err)
{
    struct fleet_reader reader = { w->all->trust, w->codec, shard_of(w), FLEET_FAULT_MALFORMED };
    struct fleet_record record;
    struct bytes raw;
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, FLEET_RECORD_MAX);
    enum kiln_code rc = read_loose(w, &loose->key, &content, err);
    if (!rc && !read_record(w, buffer_view(&content), &record))
        rc = KILN_CORRUPT;
    if (!rc)
        rc = fleet_record_open(&reader, &record, &loose->key, &raw, err);
    return rc ? skip_loose(w, rc, reader.fault)
              : add_record(w, &loose->key, buffer_view(&content), err);
}

static enum kiln_code copy_old(struct shard_work *w, struct kiln_err *err)
{
    uint32_t packs = w->old ? fleet_index_packs(w->old) : 0;
    uint32_t entries = w->old ? fleet_index_count(w->old) : 0;
    w->pack_capacity = packs + 8;
    w->entry_capacity = entries + 64;
    w->packs = calloc(w->pack_capacity, sizeof(*w->packs));
    w->entries = calloc(w->entry_capacity, sizeof(*w->entries));
    if (!w->packs || !w->entries)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for an index of the fleet");
    for (; w->pack_count < packs; w->pack_count++)
        w->packs[w->pack_count] = fleet_index_pack(w->old, w->pack_count);
    for (; w->entry_count < entries; w->entry_count++)
        w->entries[w->entry_count] = fleet_index_entry(w->old, w->entry_count);
    return KILN_OK;
}

static enum kiln_code publish_index(struct shard_work *w, struct kiln_err *err)
{
    char name[FLEET_NAME_MAX], text[FLEET_POINTER_MAX];
    struct fleet_index_draft draft = { .shard = shard_of(w),
                                       .epoch = w->old ? fleet_index_epoch(w->old) + 1 : 1,
                                       .time = w->all->now,
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
    rc = fleet_tree_add(w->all->root, name, buffer_view(&content), /* ret_added= */ NULL, err);
    if (rc)
        return rc;
    fleet_pointer_write(&pointer, text);
    fleet_name_pointer(w->id, name);
    rc = fleet_tree_replace(w->all->root, name, bytes_of_text(text), err);
    w->all->shards += !rc;
    return rc;
}

static enum kiln_code work_on_shard(struct shard_work *w, struct kiln_err *err)
{
    char directory[FLEET_NAME_MAX];
    fleet_name_loose_directory(w->id, directory);
    enum kiln_code rc = read_old(w, err);
    if (!rc)
        rc = fleet_tree_list(w->all->root, directory, note_loose, w, err);
    if (rc || w->loose_count == 0)
        return rc;
    qsort(w->loose, w->loose_count, sizeof(*w->loose), compare_loose);
    rc = copy_old(w, err);
    for (size_t i = 0; !rc && i < w->loose_count; i++)
        rc = pack_loose(w, &w->loose[i], err);
    if (!rc && w->pack.size == 0) /* all records were skipped */
        return KILN_OK;
    if (!rc)
        rc = flush_pack(w, err);
    return rc ? rc : publish_index(w, err);
}

struct compaction_run {
    struct fleet_compaction *all;
    struct codec *codec; /* owned */
};

static enum kiln_code compact_shard(void *context, const char *entry, struct kiln_err *err)
{
    struct compaction_run *run = context;
    struct shard_work w = { .all = run->all, .codec = run->codec, .id = entry };
    if (strlen(entry) != FLEET_SHARD_ID_SIZE - 1)
        return KILN_OK;
    buffer_init(&w.pack, (size_t)run->all->pack_max + FLEET_RECORD_MAX);
    enum kiln_code rc = work_on_shard(&w, err);
    shard_work_done(&w);
    return rc ? kiln_while(err, "compacting the shard '%s'", entry) : KILN_OK;
}

enum kiln_code fleet_compact(struct fleet_compaction *compaction, struct kiln_err *err)
{
    KILN_AUTO(codec) struct codec *codec = NULL;
    struct compaction_run run = { .all = compaction };
    enum kiln_code rc = codec_create(&codec, err);
    run.codec = codec;
    return rc ? rc : fleet_tree_list(compaction->root, LOOSE_DIRECTORY, compact_shard, &run, err);
}
