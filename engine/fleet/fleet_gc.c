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
#include "engine/fleet/fleet_pointer.h"
#include "engine/fleet/fleet_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMPORARY_BEGINNING ".writing-"

struct index_file {
    struct digest sha256;
    uint64_t modified; /* seconds since 1970 */
};

struct collection {
    struct fleet_gc *all;
    struct digest *packs; /* owned; packs of the indices that are kept, sorted */
    size_t pack_count, pack_capacity;
    /* The members below describe the shard that is being examined. */
    const char *shard_id;
    struct index_file *indices; /* owned; the oldest first */
    size_t index_count, index_capacity;
    struct fleet_index *current; /* owned; NULL: the shard has no valid index */
};

struct seen_file {
    char name[FLEET_NAME_MAX]; /* relative to the root */
    const char *entry;         /* the last part of |name| */
    uint64_t bytes, modified;
    bool is_directory;
};

typedef enum kiln_code visit_fn(struct collection *c, const struct seen_file *file,
                                struct kiln_err *err);

const char *fleet_waste_label(enum fleet_waste waste)
{
    static const char *const labels[] = { [FLEET_WASTE_LOOSE] = "loose",
                                          [FLEET_WASTE_INDEX] = "index",
                                          [FLEET_WASTE_PACK] = "pack",
                                          [FLEET_WASTE_LEASE] = "lease",
                                          [FLEET_WASTE_TEMPORARY] = "temporary" };
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
    if (gc->dry_run || unlinkat(gc->root, file->name, 0) == 0 || errno == ENOENT)
        return KILN_OK;
    return kiln_fail_errno(err, errno, "cannot delete '%s' of the fleet's tree", file->name);
}

/* ---- listing ---- */

static int is_entry(const struct dirent *entry)
{
    return entry->d_name[0] != '.' ||
           strncmp(entry->d_name, TEMPORARY_BEGINNING, strlen(TEMPORARY_BEGINNING)) == 0;
}

/* Returns false if the file is gone, if its name is too long, or if it is neither a regular file
 * nor a directory. */
static bool examine(const struct collection *c, const char *directory, const char *entry,
                    struct seen_file *ret_file)
{
    struct stat seen;
    int size = snprintf(ret_file->name, sizeof(ret_file->name), "%s/%s", directory, entry);
    if (size < 0 || (size_t)size >= sizeof(ret_file->name) ||
        fstatat(c->all->root, ret_file->name, &seen, AT_SYMLINK_NOFOLLOW) != 0 ||
        !(S_ISREG(seen.st_mode) || S_ISDIR(seen.st_mode)))
        return false;
    ret_file->entry = ret_file->name + strlen(directory) + 1;
    ret_file->bytes = (uint64_t)seen.st_size;
    ret_file->modified = seen.st_mtime > 0 ? (uint64_t)seen.st_mtime : 0;
    ret_file->is_directory = S_ISDIR(seen.st_mode);
    return true;
}

static enum kiln_code visit_entry(struct collection *c, const struct seen_file *file,
                                  visit_fn *visit, struct kiln_err *err)
{
    bool is_temporary = file->entry[0] == '.';
    if (!is_temporary)
        return visit(c, file, err);
    return !file->is_directory && age_of(c, file->modified) >= FLEET_GC_GRACE_S
               ? discard(c, file, FLEET_WASTE_TEMPORARY, err)
               : KILN_OK;
}

static enum kiln_code each_file(struct collection *c, const char *directory, visit_fn *visit,
                                struct kiln_err *err)
{
    struct dirent **entries = NULL;
    struct seen_file file;
    enum kiln_code rc = KILN_OK;
    int count = scandirat(c->all->root, directory, &entries, is_entry, NULL);
    if (count < 0 && errno != ENOENT)
        return kiln_fail_errno(err, errno, "cannot list '%s' of the fleet's tree", directory);
    for (int i = 0; i < count; i++) {
        if (!rc && examine(c, directory, entries[i]->d_name, &file))
            rc = visit_entry(c, &file, visit, err);
        free(entries[i]);
    }
    free(entries);
    return rc;
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

/* If the index is missing, damaged, or signed by an untrusted key, returns KILN_OK and sets
 * |ret_index| to NULL. */
static enum kiln_code open_index(const struct collection *c, const struct digest *sha256,
                                 struct fleet_index **ret_index, struct kiln_err *err)
{
    char name[FLEET_NAME_MAX];
    enum fleet_fault fault = FLEET_FAULT_NONE;
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, FLEET_INDEX_MAX);
    *ret_index = NULL;
    fleet_name_index(c->shard_id, sha256, name);
    enum kiln_code rc = fleet_tree_read(c->all->root, name, &content, err);
    if (rc)
        return rc == KILN_NO_MEMORY || rc == KILN_IO ? rc : KILN_OK;
    struct digest digest = sha256_of(buffer_view(&content));
    if (!digest_equal(&digest, sha256))
        return KILN_OK;
    rc = fleet_index_open(&content, c->all->trust, ret_index, &fault, err);
    return rc == KILN_CORRUPT ? KILN_OK : rc;
}

static enum kiln_code read_pointer(const struct collection *c, struct fleet_pointer *ret_pointer,
                                   bool *ret_valid, struct kiln_err *err)
{
    char name[FLEET_NAME_MAX];
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, FLEET_POINTER_MAX);
    *ret_valid = false;
    fleet_name_pointer(c->shard_id, name);
    enum kiln_code rc = fleet_tree_read(c->all->root, name, &text, err);
    if (rc)
        return rc == KILN_NOT_FOUND || rc == KILN_FULL ? KILN_OK : rc;
    *ret_valid = fleet_pointer_read(buffer_view(&text), ret_pointer);
    return KILN_OK;
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
    *index = (struct index_file){ .sha256 = sha256, .modified = file->modified };
    return KILN_OK;
}

static int by_time(const void *a, const void *b)
{
    const struct index_file *x = a, *y = b;
    return (x->modified > y->modified) - (x->modified < y->modified);
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
    if (index)
        rc = keep_packs(c, index, err);
    if (!rc && is_current)
        c->current = KILN_TAKE(index);
    return rc;
}

static enum kiln_code discard_index(struct collection *c, const struct index_file *index,
                                    struct kiln_err *err)
{
    char directory[FLEET_NAME_MAX], hex[DIGEST_HEX_SIZE], entry[DIGEST_HEX_SIZE + 4];
    struct seen_file file;
    digest_to_hex(&index->sha256, hex);
    snprintf(entry, sizeof(entry), "%s.idx", hex);
    snprintf(directory, sizeof(directory), "v1/i/%s", c->shard_id);
    return examine(c, directory, entry, &file) ? discard(c, &file, FLEET_WASTE_INDEX, err)
                                               : KILN_OK;
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

static enum kiln_code judge_loose(struct collection *c, const struct seen_file *file,
                                  struct kiln_err *err)
{
    struct fleet_gc *gc = c->all;
    struct fleet_place place;
    struct digest key;
    uint64_t age_s = age_of(c, file->modified);
    if (!read_name(file, "", &key))
        return KILN_OK;
    if (!c->current || !fleet_index_find(c->current, &key, &place)) {
        gc->unpacked++;
        gc->unpacked_age_s = age_s > gc->unpacked_age_s ? age_s : gc->unpacked_age_s;
        return KILN_OK;
    }
    return age_s >= FLEET_GC_GRACE_S ? discard(c, file, FLEET_WASTE_LOOSE, err) : KILN_OK;
}

static void forget_shard(struct collection *c)
{
    fleet_index_destroy(c->current);
    c->current = NULL;
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

static int by_digest(const void *a, const void *b) { return memcmp(a, b, DIGEST_SIZE); }

static enum kiln_code judge_pack(struct collection *c, const struct seen_file *file,
                                 struct kiln_err *err)
{
    struct digest sha256;
    if (!read_name(file, ".pack", &sha256) || c->all->unverified > 0 ||
        age_of(c, file->modified) < c->all->unused_s ||
        (c->pack_count > 0 &&
         bsearch(&sha256, c->packs, c->pack_count, sizeof(c->packs[0]), by_digest)))
        return KILN_OK;
    return discard(c, file, FLEET_WASTE_PACK, err);
}

static enum kiln_code collect(struct collection *c, struct kiln_err *err)
{
    enum kiln_code rc = each_file(c, "v1/i", visit_indices, err);
    if (!rc && c->pack_count > 0)
        qsort(c->packs, c->pack_count, sizeof(c->packs[0]), by_digest);
    if (!rc)
        rc = each_file(c, "v1/p", judge_pack, err);
    if (!rc)
        rc = each_file(c, "v1/k", visit_loose, err);
    return rc ? rc : each_file(c, "v1/l", visit_leases, err);
}

enum kiln_code fleet_gc(struct fleet_gc *gc, struct kiln_err *err)
{
    struct collection c = { .all = gc };
    enum kiln_code rc = collect(&c, err);
    forget_shard(&c);
    free(c.packs);
    free(c.indices);
    return rc;
}
