/* SPDX-License-Identifier: MIT */
#include "common/base/fs.h"
#include "engine/digest/sha256.h"
#include "engine/tuning/tuning_index_format.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

struct slots {
    struct index_slot *at;
    size_t count; /* a power of two, at least twice the number of entries */
};

struct built_family {
    uint64_t name;
    uint32_t name_size, count;
};

struct tuning_index_builder {
    enum tuning_kind kind;
    uint64_t entries;
    struct buffer records;
    struct buffer ids, names, text;
    struct buffer families;
    struct slots family_of;
    struct hash_key key;
};

static void slots_done(struct slots *s) { free(s->at); }

static bool slots_init(struct slots *s, size_t entries)
{
    s->count = 8;
    while (s->count < entries * 2)
        s->count *= 2;
    s->at = calloc(s->count, sizeof(*s->at));
    return s->at;
}

/* Returns the slot that |is_same| accepts, or else the first free slot. */
static struct index_slot *slot_of(const struct slots *s, uint64_t hash,
                                  bool (*is_same)(const struct tuning_index_builder *builder,
                                                  uint32_t place, struct bytes name),
                                  const struct tuning_index_builder *builder, struct bytes name)
{
    size_t at = hash & (s->count - 1);
    for (; s->at[at].place; at = (at + 1) & (s->count - 1))
        if (le32toh(s->at[at].tag) == hash >> 32 &&
            is_same(builder, le32toh(s->at[at].place) - 1, name))
            break;
    return &s->at[at];
}

static struct index_slot slot_for(uint64_t hash, size_t place)
{
    return (struct index_slot){ .tag = htole32((uint32_t)(hash >> 32)),
                                .place = htole32((uint32_t)place + 1) };
}

static struct built_family *families_of(const struct tuning_index_builder *b)
{
    return (struct built_family *)(void *)b->families.data;
}

static size_t family_count(const struct tuning_index_builder *b)
{
    return b->families.size / sizeof(struct built_family);
}

static struct bytes family_name(const struct tuning_index_builder *b, size_t family)
{
    const struct built_family *f = &families_of(b)[family];
    return bytes_of(b->names.data + f->name, f->name_size);
}

static bool is_family(const struct tuning_index_builder *b, uint32_t place, struct bytes name)
{
    return bytes_equal(family_name(b, place), name);
}

static const struct index_record *records_of(const struct tuning_index_builder *b)
{
    return (const struct index_record *)(void *)b->records.data;
}

static size_t record_count(const struct tuning_index_builder *b)
{
    return b->records.size / sizeof(struct index_record);
}

static struct bytes record_key(const struct tuning_index_builder *b, size_t place)
{
    const struct index_record *r = &records_of(b)[place];
    return bytes_of(b->text.data + le64toh(r->text), le32toh(r->key_size));
}

static bool is_key(const struct tuning_index_builder *b, uint32_t place, struct bytes key)
{
    return bytes_equal(record_key(b, place), key);
}

static bool fill_family_slots(const struct tuning_index_builder *b, const struct hash_key *key,
                              size_t entries, struct slots *ret_slots)
{
    if (!slots_init(ret_slots, entries))
        return false;
    for (size_t i = 0; i < family_count(b); i++) {
        uint64_t hash = keyed_hash(family_name(b, i), key);
        *slot_of(ret_slots, hash, is_family, b, family_name(b, i)) = slot_for(hash, i);
    }
    return true;
}

static bool grow_family_slots(struct tuning_index_builder *b)
{
    struct slots larger;
    if (!fill_family_slots(b, &b->key, b->family_of.count, &larger))
        return false;
    slots_done(&b->family_of);
    b->family_of = larger;
    return true;
}

static bool join_family(struct tuning_index_builder *b, struct bytes name, uint32_t *ret_family)
{
    *ret_family = INDEX_NONE;
    if (name.size == 0)
        return true;
    if (family_count(b) * 2 >= b->family_of.count && !grow_family_slots(b))
        return false;
    uint64_t hash = keyed_hash(name, &b->key);
    struct index_slot *slot = slot_of(&b->family_of, hash, is_family, b, name);
    if (!slot->place) {
        struct built_family fresh = { .name = b->names.size, .name_size = (uint32_t)name.size };
        buffer_put(&b->names, name.data, name.size);
        buffer_put(&b->families, &fresh, sizeof(fresh));
        if (b->names.failed || b->families.failed)
            return false;
        *slot = slot_for(hash, family_count(b) - 1);
    }
    *ret_family = le32toh(slot->place) - 1;
    families_of(b)[*ret_family].count++;
    return true;
}

static bool is_family_name(struct bytes name, enum family family)
{
    return name.size == 0 || (name.size <= FAMILY_NAME_MAX && name.data[0] == family);
}

static enum kiln_code check_size(const struct tuning_index_builder *b,
                                 const struct tuning_index_record *r, struct kiln_err *err)
{
    if (r->key.size == 0 || r->key.size > INDEX_KEY_MAX)
        return kiln_fail(err, KILN_INVALID, "a key has %zu bytes; 1 to %u are allowed", r->key.size,
                         INDEX_KEY_MAX);
    if (r->value.size > INDEX_VALUE_MAX)
        return kiln_fail(err, KILN_INVALID, "a value has %zu bytes; at most %u are allowed",
                         r->value.size, INDEX_VALUE_MAX);
    if (r->id_count > INDEX_IDS_MAX)
        return kiln_fail(err, KILN_INVALID, "a record has %zu rows; at most %u are allowed",
                         r->id_count, INDEX_IDS_MAX);
    for (int f = 0; f < FAMILIES; f++)
        if (!is_family_name(r->kin.families[f], f))
            return kiln_fail(err, KILN_INVALID,
                             "a family name of %zu bytes is too long or lacks the first byte %d",
                             r->kin.families[f].size, f);
    if (record_count(b) == INDEX_RECORDS_MAX ||
        b->text.size + r->key.size + r->value.size > INDEX_TEXT_MAX)
        return kiln_fail(err, KILN_INVALID,
                         "more than %u records or %llu MiB of text; split the database",
                         INDEX_RECORDS_MAX, INDEX_TEXT_MAX >> 20);
    return KILN_OK;
}

static uint64_t entries_in(struct bytes value)
{
    uint64_t entries = value.size > 0;
    for (size_t at = 0; at < value.size; at++) {
        const uint8_t *found = memchr(value.data + at, ';', value.size - at);
        if (!found)
            break;
        entries++;
        at = (size_t)(found - value.data);
    }
    return entries;
}

static struct index_record record_for(const struct tuning_index_builder *b,
                                      const struct tuning_index_record *r)
{
    return (struct index_record){ .text = htole64(b->text.size),
                                  .key_size = htole32((uint32_t)r->key.size),
                                  .value_size = htole32((uint32_t)r->value.size),
                                  .batch = htole64(r->kin.batch),
                                  .volume = htole64(r->kin.volume),
                                  .number = htole64(r->number),
                                  .first_id = htole32((uint32_t)(b->ids.size / sizeof(uint64_t))),
                                  .id_count = htole32((uint32_t)r->id_count) };
}

/* Returns the bytes that were added to the buffer after offset |at|. If there are none, adds no
 * offset to |b->data|, because it may be NULL. */
static struct bytes added_since(const struct buffer *b, size_t at)
{
    return at < b->size ? bytes_of(b->data + at, b->size - at) : (struct bytes){ 0 };
}

enum kiln_code tuning_index_builder_add(struct tuning_index_builder *b,
                                        const struct tuning_index_record *r, struct kiln_err *err)
{
    enum kiln_code rc = check_size(b, r, err);
    if (rc)
        return rc;
    struct index_record stored = record_for(b, r);
    bool ok = true;
    for (int f = 0; f < FAMILIES && ok; f++) {
        uint32_t family;
        ok = join_family(b, r->kin.families[f], &family);
        stored.families[f] = htole32(family);
    }
    size_t text_at = b->text.size, ids_at = b->ids.size;
    buffer_put(&b->text, r->key.data, r->key.size);
    buffer_put(&b->text, r->value.data, r->value.size);
    for (size_t i = 0; i < r->id_count; i++)
        buffer_put_u64(&b->ids, r->ids[i]);
    if (!ok || b->text.failed || b->ids.failed) {
        /* The buffers contain only a part of the record, so the index must not be written. */
        b->text.failed = true;
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to index a database");
    }
    stored.check = htole64(
        index_record_check(&stored, added_since(&b->text, text_at), added_since(&b->ids, ids_at)));
    buffer_put(&b->records, &stored, sizeof(stored));
    if (b->records.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to index a database");
    b->entries += entries_in(r->value);
    return KILN_OK;
}

enum kiln_code tuning_index_builder_create(enum tuning_kind kind,
                                           struct tuning_index_builder **ret_builder,
                                           struct kiln_err *err)
{
    KILN_AUTO(tuning_index_builder) struct tuning_index_builder *b = calloc(1, sizeof(*b));
    if (!b || !slots_init(&b->family_of, 0))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to index a database");
    enum kiln_code rc = hash_key_draw(&b->key, err);
    if (rc)
        return rc;
    b->kind = kind;
    buffer_init(&b->records, SIZE_MAX);
    buffer_init(&b->ids, SIZE_MAX);
    buffer_init(&b->names, SIZE_MAX);
    buffer_init(&b->text, SIZE_MAX);
    buffer_init(&b->families, SIZE_MAX);
    *ret_builder = KILN_TAKE(b);
    return KILN_OK;
}

void tuning_index_builder_destroy(struct tuning_index_builder *b)
{
    if (!b)
        return;
    buffer_done(&b->records);
    buffer_done(&b->ids);
    buffer_done(&b->names);
    buffer_done(&b->text);
    buffer_done(&b->families);
    slots_done(&b->family_of);
    free(b);
}

uint64_t tuning_index_builder_bytes(const struct tuning_index_builder *b)
{
    if (!b)
        return 0;
    return sizeof(*b) + b->records.size + b->ids.size + b->names.size + b->text.size +
           b->families.size + b->family_of.count * sizeof(struct index_slot);
}

struct image {
    struct index_header header;
    struct slots key_slots, family_slots;
    struct index_family *families;
    uint32_t *members;
    struct bytes parts[INDEX_PARTS];
};

static void image_done(struct image *i)
{
    slots_done(&i->key_slots);
    slots_done(&i->family_slots);
    free(i->families);
    free(i->members);
}
#define IMAGE_AUTO __attribute__((cleanup(image_done)))

/* Derives the hash key from all records. So the same content gives the same file, and the author
 * of a file cannot choose keys that all have the same slot. */
static struct hash_key key_for(const struct tuning_index_builder *b)
{
    struct digest digest = sha256_of(buffer_view(&b->records));
    struct hash_key key;
    memcpy(&key, digest.bytes, sizeof(key));
    return (struct hash_key){ { le64toh(key.words[0]), le64toh(key.words[1]) } };
}

static bool fill_key_slots(const struct tuning_index_builder *b, const struct hash_key *key,
                           struct slots *s)
{
    if (!slots_init(s, record_count(b)))
        return false;
    for (size_t i = 0; i < record_count(b); i++) {
        uint64_t hash = keyed_hash(record_key(b, i), key);
        struct index_slot *slot = slot_of(s, hash, is_key, b, record_key(b, i));
        if (!slot->place)
            *slot = slot_for(hash, i);
    }
    return true;
}

static void list_member(uint32_t *members, struct index_family *family, size_t record)
{
    uint32_t count = le32toh(family->count);
    members[le32toh(family->first) + count] = htole32((uint32_t)record);
    family->count = htole32(count + 1);
}

/* Lists members in source order. */
static void fill_families(const struct tuning_index_builder *b, struct image *image)
{
    uint32_t first = 0;
    for (size_t i = 0; i < family_count(b); i++) {
        const struct built_family *built = &families_of(b)[i];
        image->families[i] = (struct index_family){ .name = htole64(built->name),
                                                    .name_size = htole32(built->name_size),
                                                    .first = htole32(first) };
        first += built->count;
    }
    for (size_t i = 0; i < record_count(b); i++)
        for (int f = 0; f < FAMILIES; f++)
            if (le32toh(records_of(b)[i].families[f]) != INDEX_NONE)
                list_member(image->members, &image->families[le32toh(records_of(b)[i].families[f])],
                            i);
    for (size_t i = 0; i < family_count(b); i++)
        image->families[i].check =
            htole64(index_family_check(&image->families[i], family_name(b, i)));
}

static void lay_out(const struct tuning_index_builder *b, struct image *image)
{
    image->parts[PART_RECORDS] = buffer_view(&b->records);
    image->parts[PART_KEY_SLOTS] =
        bytes_of(image->key_slots.at, image->key_slots.count * sizeof(struct index_slot));
    image->parts[PART_FAMILIES] =
        bytes_of(image->families, family_count(b) * sizeof(struct index_family));
    image->parts[PART_FAMILY_SLOTS] =
        bytes_of(image->family_slots.at, image->family_slots.count * sizeof(struct index_slot));
    size_t members = 0;
    for (size_t i = 0; i < family_count(b); i++)
        members += families_of(b)[i].count;
    image->parts[PART_MEMBERS] = bytes_of(image->members, members * sizeof(uint32_t));
    image->parts[PART_IDS] = buffer_view(&b->ids);
    image->parts[PART_NAMES] = buffer_view(&b->names);
    image->parts[PART_TEXT] = buffer_view(&b->text);
}

static size_t padding_after(struct bytes part) { return -part.size & 7; }

static void fill_header(const struct tuning_index_builder *b, const struct hash_key *key,
                        struct image *image)
{
    struct index_header *h = &image->header;
    *h = (struct index_header){ .version = htole32(INDEX_VERSION),
                                .kind = htole32(b->kind),
                                .entries = htole64(b->entries),
                                .hash_key = { htole64(key->words[0]), htole64(key->words[1]) } };
    memcpy(h->magic, INDEX_MAGIC, sizeof(h->magic));
    uint64_t offset = sizeof(*h);
    for (int i = 0; i < INDEX_PARTS; i++) {
        h->parts[i] = (struct index_extent){ htole64(offset), htole64(image->parts[i].size) };
        offset += image->parts[i].size + padding_after(image->parts[i]);
    }
    h->file_size = htole64(offset);
}

static void sign_header(struct image *image)
{
    static const uint8_t zeros[8];
    struct index_header *h = &image->header;
    struct sha256 sha;
    sha256_init(&sha);
    sha256_put(&sha, bytes_of(&h->kind, sizeof(*h) - offsetof(struct index_header, kind)));
    for (int i = 0; i < INDEX_PARTS; i++) {
        sha256_put(&sha, image->parts[i]);
        sha256_put(&sha, bytes_of(zeros, padding_after(image->parts[i])));
    }
    struct digest digest = sha256_end(&sha);
    memcpy(h->digest, digest.bytes, sizeof(h->digest));
    h->check = htole64(index_header_check(h));
}

static enum kiln_code image_make(const struct tuning_index_builder *b, struct image *image,
                                 struct kiln_err *err)
{
    struct hash_key key = key_for(b);
    image->families = calloc(family_count(b) + 1, sizeof(*image->families));
    image->members = calloc(record_count(b) * FAMILIES + 1, sizeof(*image->members));
    if (b->text.failed || b->records.failed || !image->families || !image->members ||
        !fill_key_slots(b, &key, &image->key_slots) ||
        !fill_family_slots(b, &key, family_count(b), &image->family_slots))
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to index a database");
    fill_families(b, image);
    lay_out(b, image);
    fill_header(b, &key, image);
    return KILN_OK;
}

/* Begins writing to the disk before the digest is computed, which saves a fifth of the time. */
static enum kiln_code write_image(void *context, int fd, struct kiln_err *err)
{
    static const uint8_t zeros[8];
    struct image *image = context;
    struct bytes header = bytes_of(&image->header, sizeof(image->header));
    enum kiln_code rc = fs_write_all(fd, header, err);
    for (int i = 0; i < INDEX_PARTS && !rc; i++) {
        rc = fs_write_all(fd, image->parts[i], err);
        if (!rc)
            rc = fs_write_all(fd, bytes_of(zeros, padding_after(image->parts[i])), err);
    }
    if (rc)
        return rc;
    (void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    sign_header(image);
    if (lseek(fd, 0, SEEK_SET) != 0)
        return kiln_fail_errno(err, errno, "cannot seek to the header");
    return fs_write_all(fd, header, err);
}

enum kiln_code tuning_index_builder_write(struct tuning_index_builder *b, const char *path,
                                          struct digest *ret_digest, struct kiln_err *err)
{
    IMAGE_AUTO struct image image = { 0 };
    enum kiln_code rc = image_make(b, &image, err);
    if (!rc)
        rc = fs_replace_file_by(path, 0600, write_image, &image, err);
    if (!rc)
        memcpy(ret_digest->bytes, image.header.digest, sizeof(ret_digest->bytes));
    return rc;
}
