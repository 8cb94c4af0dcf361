/* SPDX-License-Identifier: MIT */
#include "engine/tuning/tuning_index.h"

#include "engine/digest/sha256.h"
#include "engine/tuning/tuning_index_format.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define VERIFY_STEP (4u << 20)
#define VERIFY_PIECE (256u << 10)

struct tuning_index {
    const uint8_t *map; /* owned, or borrowed if |fd| is -1 */
    int fd;             /* owned; -1: the index is an image in memory */
    size_t size;
    /* A copy of the file's header, in little-endian; the members below have the machine's byte
     * order. */
    struct index_header header;
    uint64_t entries;
    struct hash_key key;
    struct bytes parts[INDEX_PARTS];
    _Atomic uint64_t damaged;
    _Atomic unsigned refs;
};

static enum kiln_code check_file(const struct stat *st, struct kiln_err *err)
{
    if (!S_ISREG(st->st_mode))
        return kiln_fail(err, KILN_DENIED, "it is not a regular file");
    if (st->st_uid != geteuid() && st->st_uid != 0)
        return kiln_fail(err, KILN_DENIED, "it belongs to uid %u: import the database again",
                         st->st_uid);
    if (st->st_mode & (S_IWGRP | S_IWOTH))
        return kiln_fail(err, KILN_DENIED, "others may write to it (mode %04o): chmod go-w",
                         st->st_mode & 07777);
    if ((uint64_t)st->st_size < sizeof(struct index_header) || (uint64_t)st->st_size > SIZE_MAX / 2)
        return kiln_fail(
            err, KILN_CORRUPT,
            "its size of %lld bytes is impossible for an index: import the database again",
            (long long)st->st_size);
    return KILN_OK;
}

static enum kiln_code map_file(const char *path, struct tuning_index *index, struct kiln_err *err)
{
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0)
        return kiln_fail_errno(err, errno, "cannot open it");
    enum kiln_code rc = check_file(&st, err);
    if (rc)
        return rc;
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return kiln_fail_errno(err, errno, "cannot map it");
    index->map = map;
    index->fd = fd;
    index->size = (size_t)st.st_size;
    fd = -1;
    return KILN_OK;
}

static enum kiln_code check_header(const struct tuning_index *index, struct kiln_err *err)
{
    const struct index_header *h = &index->header;
    if (memcmp(h->magic, INDEX_MAGIC, sizeof(h->magic)) != 0)
        return kiln_fail(err, KILN_CORRUPT, "it is not an index: import the database again");
    if (le32toh(h->version) != INDEX_VERSION)
        return kiln_fail(
            err, KILN_UNSUPPORTED,
            "it has format %u, but this kiln reads format %u: import the database again",
            le32toh(h->version), INDEX_VERSION);
    if (le64toh(h->check) != index_header_check(h) || le32toh(h->kind) > TUNING_PERF)
        return kiln_fail(err, KILN_CORRUPT, "its header is damaged: import the database again");
    if (le64toh(h->file_size) != index->size)
        return kiln_fail(err, KILN_CORRUPT,
                         "it has %zu of %" PRIu64 " bytes: import the database again", index->size,
                         le64toh(h->file_size));
    return KILN_OK;
}

static const struct {
    size_t unit;
    bool is_hash_table;
} part_rules[INDEX_PARTS] = {
    [PART_RECORDS] = { .unit = sizeof(struct index_record) },
    [PART_KEY_SLOTS] = { .unit = sizeof(struct index_slot), .is_hash_table = true },
    [PART_FAMILIES] = { .unit = sizeof(struct index_family) },
    [PART_FAMILY_SLOTS] = { .unit = sizeof(struct index_slot), .is_hash_table = true },
    [PART_MEMBERS] = { .unit = sizeof(uint32_t) },
    [PART_IDS] = { .unit = sizeof(uint64_t) },
    [PART_NAMES] = { .unit = 1 },
    [PART_TEXT] = { .unit = 1 },
};

static bool is_part(const struct tuning_index *index, int part, uint64_t offset, uint64_t size)
{
    size_t unit = part_rules[part].unit;
    uint64_t count = size / unit;
    return offset % 8 == 0 && offset >= sizeof(struct index_header) && offset <= index->size &&
           size <= index->size - offset && size % unit == 0 &&
           (!part_rules[part].is_hash_table || (count > 0 && (count & (count - 1)) == 0));
}

static enum kiln_code find_parts(struct tuning_index *index, struct kiln_err *err)
{
    for (int i = 0; i < INDEX_PARTS; i++) {
        uint64_t offset = le64toh(index->header.parts[i].offset);
        uint64_t size = le64toh(index->header.parts[i].size);
        if (!is_part(index, i, offset, size))
            return kiln_fail(err, KILN_CORRUPT,
                             "the position of its part %d is impossible: import the database again",
                             i);
        index->parts[i] = bytes_of(index->map + offset, size);
    }
    return KILN_OK;
}

static enum kiln_code read_header(struct tuning_index *index, struct kiln_err *err)
{
    memcpy(&index->header, index->map, sizeof(index->header));
    enum kiln_code rc = check_header(index, err);
    if (!rc)
        rc = find_parts(index, err);
    index->entries = le64toh(index->header.entries);
    for (int i = 0; i < 2; i++)
        index->key.words[i] = le64toh(index->header.hash_key[i]);
    return rc;
}

enum kiln_code tuning_index_open(const char *path, struct tuning_index **ret_index,
                                 struct kiln_err *err)
{
    KILN_AUTO(tuning_index) struct tuning_index *index = calloc(1, sizeof(*index));
    if (!index)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to open the index '%s'", path);
    enum kiln_code rc = map_file(path, index, err);
    if (!rc)
        rc = read_header(index, err);
    if (rc)
        return kiln_while(err, "opening the index '%s'", path);
    *ret_index = KILN_TAKE(index);
    return KILN_OK;
}

enum kiln_code tuning_index_open_image(struct bytes image, const char *name,
                                       struct tuning_index **ret_index, struct kiln_err *err)
{
    KILN_AUTO(tuning_index) struct tuning_index *index = calloc(1, sizeof(*index));
    if (!index)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to open the index '%s'", name);
    index->map = image.data;
    index->fd = -1;
    index->size = image.size;
    enum kiln_code rc = KILN_OK;
    if (image.size < sizeof(struct index_header) || (uintptr_t)image.data % sizeof(uint64_t) != 0)
        rc = kiln_fail(err, KILN_CORRUPT, "the %zu bytes at %p are not an index", image.size,
                       (const void *)image.data);
    if (!rc)
        rc = read_header(index, err);
    if (rc)
        return kiln_while(err, "opening the index of '%s'", name);
    *ret_index = KILN_TAKE(index);
    return KILN_OK;
}

struct tuning_index *tuning_index_ref(struct tuning_index *index)
{
    atomic_fetch_add(&index->refs, 1);
    return index;
}

void tuning_index_destroy(struct tuning_index *index)
{
    if (!index || atomic_fetch_sub(&index->refs, 1) > 0)
        return;
    if (index->map && index->fd >= 0) {
        munmap((void *)(uintptr_t)index->map, index->size);
        close(index->fd);
    }
    free(index);
}

static enum kiln_code digest_image(const struct tuning_index *index,
                                   struct tuning_index_check *check, size_t end)
{
    sha256_put(&check->sum, bytes_of(index->map + check->at, end - check->at));
    check->at = end;
    return KILN_OK;
}

/* Reads the file, because a page that the disk cannot read would raise SIGBUS in the mapping. */
static enum kiln_code digest_file(const struct tuning_index *index,
                                  struct tuning_index_check *check, size_t end,
                                  struct kiln_err *err)
{
    KILN_AUTO(mem) uint8_t *piece = malloc(VERIFY_PIECE);
    if (!piece)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot check the index: out of memory");
    while (check->at < end) {
        size_t left = end - check->at;
        ssize_t got =
            pread(index->fd, piece, left < VERIFY_PIECE ? left : VERIFY_PIECE, (off_t)check->at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kiln_fail_errno(err, errno, "cannot read the index");
        if (got == 0)
            return kiln_fail(err, KILN_CORRUPT,
                             "the index is damaged: it ends after %zu of %zu bytes; import the "
                             "database again",
                             check->at, index->size);
        sha256_put(&check->sum, bytes_of(piece, (size_t)got));
        check->at += (size_t)got;
    }
    return KILN_OK;
}

static enum kiln_code compare_digest(const struct tuning_index *index,
                                     struct tuning_index_check *check, struct kiln_err *err)
{
    struct digest digest = sha256_end(&check->sum), wanted = tuning_index_digest(index);
    if (digest_equal(&digest, &wanted))
        return KILN_OK;
    return kiln_fail(err, KILN_CORRUPT,
                     "the index is damaged: its contents do not match their checksum; import the "
                     "database again");
}

enum kiln_code tuning_index_check_step(const struct tuning_index *index,
                                       struct tuning_index_check *check, bool *ret_more,
                                       struct kiln_err *err)
{
    if (check->at == 0) {
        check->at = offsetof(struct index_header, kind);
        sha256_init(&check->sum);
    }
    size_t left = index->size - check->at;
    size_t end = check->at + (left < VERIFY_STEP ? left : VERIFY_STEP);
    enum kiln_code rc =
        index->fd >= 0 ? digest_file(index, check, end, err) : digest_image(index, check, end);
    *ret_more = !rc && end < index->size;
    return rc || *ret_more ? rc : compare_digest(index, check, err);
}

enum tuning_kind tuning_index_kind(const struct tuning_index *index)
{
    return (enum tuning_kind)le32toh(index->header.kind);
}

struct digest tuning_index_digest(const struct tuning_index *index)
{
    struct digest digest;
    memcpy(digest.bytes, index->header.digest, sizeof(digest.bytes));
    return digest;
}

uint64_t tuning_index_count(const struct tuning_index *index)
{
    return index->parts[PART_RECORDS].size / sizeof(struct index_record);
}

uint64_t tuning_index_entries(const struct tuning_index *index) { return index->entries; }

struct bytes tuning_index_text(const struct tuning_index *index) { return index->parts[PART_TEXT]; }

uint64_t tuning_index_bytes(const struct tuning_index *index) { return index->size; }

uint64_t tuning_index_damaged(const struct tuning_index *index)
{
    return atomic_load_explicit(&index->damaged, memory_order_relaxed);
}

static void count_damage(struct tuning_index *index)
{
    atomic_fetch_add_explicit(&index->damaged, 1, memory_order_relaxed);
}

/* Returns false if the range is not inside the part: a damaged file may contain any offset. */
static bool cut_part(const struct tuning_index *index, enum index_part part, uint64_t offset,
                     uint64_t size, struct bytes *ret)
{
    struct bytes all = index->parts[part];
    if (offset > all.size || size > all.size - offset)
        return false;
    *ret = bytes_of(all.data + offset, size);
    return true;
}

static bool cut_item(const struct tuning_index *index, enum index_part part, uint64_t place,
                     void *ret, size_t size)
{
    struct bytes view;
    if (place > UINT32_MAX || !cut_part(index, part, place * size, size, &view))
        return false;
    memcpy(ret, view.data, size);
    return true;
}

static bool read_family(const struct tuning_index *index, uint32_t place, struct bytes *ret_name,
                        struct index_family *ret_family)
{
    struct index_family f;
    return cut_item(index, PART_FAMILIES, place, &f, sizeof(f)) &&
           le32toh(f.name_size) <= FAMILY_NAME_MAX &&
           cut_part(index, PART_NAMES, le64toh(f.name), le32toh(f.name_size), ret_name) &&
           le64toh(f.check) == index_family_check(&f, *ret_name) && (*ret_family = f, true);
}

/* Reads a record without the names of its families; |ret_stored| says where these names are. */
static bool read_record(const struct tuning_index *index, uint64_t place,
                        struct index_record *ret_stored, struct tuning_index_record *ret)
{
    struct index_record s;
    struct bytes text, ids;
    if (!cut_item(index, PART_RECORDS, place, &s, sizeof(s)))
        return false;
    uint32_t key_size = le32toh(s.key_size), value_size = le32toh(s.value_size);
    uint32_t id_count = le32toh(s.id_count);
    if (key_size > INDEX_KEY_MAX || value_size > INDEX_VALUE_MAX || id_count > INDEX_IDS_MAX ||
        !cut_part(index, PART_TEXT, le64toh(s.text), (uint64_t)key_size + value_size, &text) ||
        !cut_part(index, PART_IDS, le32toh(s.first_id) * sizeof(uint64_t),
                  id_count * sizeof(uint64_t), &ids) ||
        le64toh(s.check) != index_record_check(&s, text, ids))
        return false;
    *ret_stored = s;
    *ret = (struct tuning_index_record){
        .key = bytes_of(text.data, key_size),
        .value = bytes_of(text.data + key_size, value_size),
        .kin = { .batch = le64toh(s.batch), .volume = le64toh(s.volume) },
        .number = le64toh(s.number),
        .ids = id_count ? (const uint64_t *)(const void *)ids.data : NULL,
        .id_count = id_count,
    };
    return true;
}

/* Iterates over the slots that may belong to a name: those from its hash to the next free slot
 * (linear probing) that have its tag. */
struct probe {
    const struct tuning_index *index;
    enum index_part part;
    uint32_t tag;
    size_t at, left; /* |left| ends the iteration if a damaged table has no free slot */
};

static struct probe probe_for(const struct tuning_index *index, enum index_part part,
                              struct bytes name)
{
    uint64_t hash = keyed_hash(name, &index->key);
    size_t count = index->parts[part].size / sizeof(struct index_slot);
    return (struct probe){ .index = index,
                           .part = part,
                           .tag = (uint32_t)(hash >> 32),
                           .at = hash & (count - 1),
                           .left = count };
}

static bool probe_next(struct probe *p, uint32_t *ret_place)
{
    size_t mask = p->index->parts[p->part].size / sizeof(struct index_slot) - 1;
    for (; p->left > 0; p->left--) {
        struct index_slot slot;
        memcpy(&slot, p->index->parts[p->part].data + p->at * sizeof(slot), sizeof(slot));
        if (!slot.place)
            return false;
        p->at = (p->at + 1) & mask;
        if (le32toh(slot.tag) != p->tag)
            continue;
        p->left--;
        *ret_place = le32toh(slot.place) - 1;
        return true;
    }
    return false;
}

bool tuning_index_find(struct tuning_index *index, struct bytes key, struct bytes *ret_value)
{
    struct probe probe = probe_for(index, PART_KEY_SLOTS, key);
    uint32_t place;
    while (probe_next(&probe, &place)) {
        struct index_record stored;
        struct tuning_index_record record;
        if (!read_record(index, place, &stored, &record)) {
            count_damage(index);
            continue;
        }
        if (bytes_equal(record.key, key)) {
            *ret_value = record.value;
            return true;
        }
    }
    return false;
}

static bool read_whole_record(struct tuning_index *index, uint64_t place,
                              struct index_record *ret_stored, struct tuning_index_record *ret)
{
    if (!read_record(index, place, ret_stored, ret))
        return false;
    for (int f = 0; f < FAMILIES; f++) {
        struct index_family unused;
        uint32_t family = le32toh(ret_stored->families[f]);
        if (family != INDEX_NONE && !read_family(index, family, &ret->kin.families[f], &unused))
            return false;
    }
    return true;
}

bool tuning_index_at(struct tuning_index *index, uint64_t place, struct tuning_index_record *ret)
{
    struct index_record stored;
    struct tuning_index_record record;
    if (place >= tuning_index_count(index))
        return false;
    if (!read_whole_record(index, place, &stored, &record)) {
        count_damage(index);
        return false;
    }
    *ret = record;
    return true;
}

/* Reads the record that entry |member| of PART_MEMBERS refers to. Returns false if the record is
 * damaged, or is not in the family at |place|. */
static bool read_member(struct tuning_index *index, uint64_t member, enum family family,
                        uint32_t place, struct tuning_index_record *ret_record)
{
    uint32_t record_place;
    struct index_record stored;
    bool fine = cut_item(index, PART_MEMBERS, member, &record_place, sizeof(record_place)) &&
                read_whole_record(index, le32toh(record_place), &stored, ret_record) &&
                le32toh(stored.families[family]) == place;
    if (!fine)
        count_damage(index);
    return fine;
}

void tuning_index_family(struct tuning_index *index, struct bytes family,
                         bool (*each)(void *context, const struct tuning_index_record *record),
                         void *context)
{
    if (family.size == 0 || family.data[0] >= FAMILIES)
        return;
    struct probe probe = probe_for(index, PART_FAMILY_SLOTS, family);
    uint32_t place;
    while (probe_next(&probe, &place)) {
        struct index_family found;
        struct bytes name;
        if (!read_family(index, place, &name, &found)) {
            count_damage(index);
            continue;
        }
        if (!bytes_equal(name, family))
            continue;
        uint64_t first = le32toh(found.first);
        struct tuning_index_record record;
        for (uint32_t i = 0; i < le32toh(found.count); i++) {
            if (read_member(index, first + i, family.data[0], place, &record) &&
                !each(context, &record))
                return;
        }
        return;
    }
}
