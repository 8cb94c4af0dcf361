/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_verify.h"

#include "common/base/fs.h"
#include "engine/digest/sha256.h"
#include "engine/fleet/fleet_pointer.h"
#include "engine/fleet/fleet_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define INDEX_DIRECTORY "v1/i"
#define WHAT_MAX (FLEET_NAME_MAX + 32)

struct verifying {
    struct fleet_verification *all;
    struct codec *codec;       /* owned */
    struct fleet_index *index; /* owned */
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
    if (rc == KILN_CORRUPT)
        *ret_why = fleet_fault_text(reader.fault);
    else if (rc == KILN_NOT_FOUND)
        *ret_why = "only a newer kiln can unpack it";
    return rc == KILN_CORRUPT || rc == KILN_NOT_FOUND ? KILN_OK : rc;
}

static enum kiln_code read_part(int fd, const struct fleet_place *place, struct buffer *content,
                                struct kiln_err *err)
{
    buffer_init(content, place->size);
    content->data = malloc(place->size);
    if (!content->data)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a record of the fleet");
    ssize_t got = fs_read_at(fd, content->data, place->size, (off_t)place->offset);
    if (got < 0)
        return kiln_fail_errno(err, errno, "cannot read a pack of the fleet's tree");
    content->size = (size_t)got;
    return KILN_OK;
}

static enum kiln_code verify_entry(struct verifying *v, const struct fleet_entry *entry, int fd,
                                   const char *pack, struct kiln_err *err)
{
    char what[WHAT_MAX];
    const char *why = NULL;
    BUFFER_AUTO struct buffer content = { 0 };
    enum kiln_code rc = KILN_OK;
    if (fd < 0 || entry->place.size > FLEET_RECORD_MAX)
        why = fd < 0 ? "its pack is missing" : fleet_fault_text(FLEET_FAULT_MALFORMED);
    else
        rc = read_part(fd, &entry->place, &content, err);
    if (!rc && !why)
        rc = verify_record(v, buffer_view(&content), entry, &why, err);
    if (rc)
        return rc;
    v->all->kernels++;
    v->all->bytes += entry->place.size;
    if (!why)
        return KILN_OK;
    snprintf(what, sizeof(what), "%s at %u", pack, entry->place.offset);
    note_bad(v, what, why);
    return KILN_OK;
}

/* Searches the whole index for the entries of the pack, because the index is ordered by keys. */
static enum kiln_code verify_pack(struct verifying *v, uint32_t number, struct kiln_err *err)
{
    char name[FLEET_NAME_MAX];
    const struct fleet_pack pack = fleet_index_pack(v->index, number);
    fleet_name_pack(&pack.sha256, name);
    KILN_AUTO(fd) int fd = openat(v->all->root, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    enum kiln_code rc = KILN_OK;
    for (uint32_t i = 0; !rc && i < fleet_index_count(v->index); i++) {
        const struct fleet_entry entry = fleet_index_entry(v->index, i);
        if (entry.place.pack == number)
            rc = verify_entry(v, &entry, fd, name, err);
    }
    return rc;
}

static enum kiln_code open_index(struct verifying *v, const char *id,
                                 const struct fleet_pointer *pointer, struct kiln_err *err)
{
    char name[FLEET_NAME_MAX], found[FLEET_SHARD_ID_SIZE];
    enum fleet_fault fault = FLEET_FAULT_NONE;
    BUFFER_AUTO struct buffer content;
    buffer_init(&content, FLEET_INDEX_MAX);
    fleet_name_index(id, &pointer->sha256, name);
    enum kiln_code rc = fleet_tree_read(v->all->root, name, &content, err);
    struct digest digest = sha256_of(buffer_view(&content));
    if (!rc && !digest_equal(&digest, &pointer->sha256))
        fault = FLEET_FAULT_WRONG_BYTES;
    else if (!rc)
        rc = fleet_index_open(&content, v->all->trust, &v->index, &fault, err);
    if (v->index) {
        const struct fleet_shard shard = fleet_index_shard(v->index);
        fleet_shard_id(&shard, found);
        bool is_other = strcmp(found, id) != 0 || fleet_index_epoch(v->index) != pointer->epoch;
        fault = is_other ? FLEET_FAULT_OTHER_THING : fault;
    }
    if (rc == KILN_FULL)
        fault = FLEET_FAULT_MALFORMED;
    if (rc == KILN_NOT_FOUND || fault)
        note_bad(v, name, fault ? fleet_fault_text(fault) : "it is missing");
    return rc == KILN_NOT_FOUND || fault ? KILN_OK : rc;
}

static enum kiln_code verify_shard(struct verifying *v, const char *id, struct kiln_err *err)
{
    char name[FLEET_NAME_MAX];
    struct fleet_pointer pointer;
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, FLEET_POINTER_MAX);
    fleet_name_pointer(id, name);
    uint64_t bad_before = v->all->bad_count;
    enum kiln_code rc = fleet_tree_read(v->all->root, name, &text, err);
    if (rc == KILN_NOT_FOUND || rc == KILN_FULL ||
        (!rc && !fleet_pointer_read(buffer_view(&text), &pointer))) {
        note_bad(v, name, fleet_fault_text(FLEET_FAULT_MALFORMED));
        return KILN_OK;
    }
    if (!rc)
        rc = open_index(v, id, &pointer, err);
    if (rc || !v->index || v->all->bad_count > bad_before)
        return rc;
    v->all->shards++;
    for (uint32_t i = 0; !rc && i < fleet_index_packs(v->index); i++)
        rc = verify_pack(v, i, err);
    return rc;
}

static enum kiln_code visit_shard(void *context, const char *entry, struct kiln_err *err)
{
    struct verifying *v = context;
    enum kiln_code rc = verify_shard(v, entry, err);
    fleet_index_destroy(v->index);
    v->index = NULL;
    return rc;
}

enum kiln_code fleet_verify(struct fleet_verification *verification, struct kiln_err *err)
{
    struct verifying v = { .all = verification };
    enum kiln_code rc = codec_create(&v.codec, err);
    if (!rc)
        rc = fleet_tree_list(verification->root, INDEX_DIRECTORY, visit_shard, &v, err);
    codec_destroy(v.codec);
    return rc;
}
