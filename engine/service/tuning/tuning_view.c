/* SPDX-License-Identifier: MIT */
#include "engine/service/tuning/tuning_view.h"

#include "common/array.h"
#include "common/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define TEXTS_MAX (1ull << 30)
#define STEP_BYTES (4u << 20) /* of a text file: some 30 ms */

static void unmap(struct tuning_view *side)
{
    if (side->map.data)
        munmap((void *)side->map.data, side->map.size);
    side->map = (struct bytes){ 0 };
}

void tuning_view_done(struct tuning_view *side)
{
    unmap(side);
    free(side->records);
    buffer_done(&side->texts);
    *side = (struct tuning_view){ .count = 0 };
}

static bool add_one(struct tuning_view *side, struct tuning_view_record record)
{
    side->is_too_long |= side->count == TUNING_VIEW_RECORDS_MAX;
    if (side->is_too_long || tuning_progress_is_stopped(side->progress))
        return false;
    if (!ARRAY_RESERVE(side->records, side->count, side->capacity, 4096)) {
        side->is_out_of_memory = true;
        return false;
    }
    side->records[side->count++] = record;
    return true;
}

static int compare_records(const void *a, const void *b)
{
    const struct tuning_view_record *x = a, *y = b;
    int order = bytes_compare(x->key, y->key);
    return order ? order : (x->at > y->at) - (x->at < y->at);
}

/* From here on the texts no longer move, so keys and values can point to them. */
static void point_to_copies(struct tuning_view *side)
{
    for (size_t i = 0; i < side->count; i++) {
        struct tuning_view_record *r = &side->records[i];
        r->key.data = side->texts.data + r->at;
        r->value.data = r->key.data + r->key.size;
    }
}

static bool add_copy(struct tuning_view *side, struct bytes key, struct bytes value)
{
    struct tuning_view_record copy = { .key = { NULL, key.size },
                                       .value = { NULL, value.size },
                                       .at = side->texts.size };
    buffer_put(&side->texts, key.data, key.size);
    buffer_put(&side->texts, value.data, value.size);
    return !side->texts.failed && add_one(side, copy);
}

static enum kiln_code sort_records(struct tuning_view *side, struct kiln_err *err)
{
    if (tuning_progress_is_stopped(side->progress))
        return err->code = KILN_CANCELLED;
    if (side->is_too_long)
        return kiln_fail(err, KILN_FULL,
                         "there are more than %u records on one side, too many to compare",
                         TUNING_VIEW_RECORDS_MAX);
    if (side->is_out_of_memory || side->texts.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot compare so many records: out of memory");
    if (side->count > 0)
        qsort(side->records, side->count, sizeof(*side->records), compare_records);
    return KILN_OK;
}

/* ---- a tier ---- */

static bool add_held(void *context, const struct tuning_held *held)
{
    return add_copy(context, held->place.key, held->value);
}

struct system_walk {
    struct tuning_view *side;
    const struct tuning_view_tier *tier;
    struct kiln_err *err;
    bool is_found;
    enum kiln_code rc;
};

static bool add_system(void *context, const struct tuning_system *system)
{
    struct system_walk *walk = context;
    const struct tuning_system_file *file = system->file;
    struct tuning_index_record record;
    if (file->kind != walk->tier->kind || strcmp(file->database_id, walk->tier->database_id) != 0 ||
        strcmp(file->backend, walk->tier->backend) != 0)
        return true;
    walk->is_found = true;
    if (!system->index)
        walk->rc = kiln_fail(walk->err, KILN_CORRUPT, "%s", system->why);
    /* Damage is not counted here: that needs a separate reader, and look-ups do it. */
    for (uint64_t i = 0; system->index && i < tuning_index_count(system->index); i++) {
        if (!tuning_index_at((struct tuning_index *)system->index, i, &record))
            continue;
        if (!add_one(walk->side,
                     (struct tuning_view_record){ .key = record.key, .value = record.value }))
            return false;
    }
    return false;
}

enum kiln_code tuning_view_of_tier(struct tuning_view *side, const struct tuning *tuning,
                                   const struct tuning_view_tier *tier, struct kiln_err *err)
{
    *side = (struct tuning_view){ .kind = tier->kind, .progress = side->progress };
    if (tier->tier == TUNING_TIER_SYSTEM) {
        struct system_walk walk = { .side = side, .tier = tier, .err = err };
        tuning_each_system(tuning, add_system, &walk);
        if (!walk.is_found)
            return kiln_fail(err, KILN_NOT_FOUND,
                             "there is no system %s database of '%s': 'kilnctl db stats' lists "
                             "those that were imported",
                             tuning_kind_name(tier->kind), tier->database_id);
        return walk.rc ? walk.rc : sort_records(side, err);
    }
    const struct tuning_selection selection = { .tier = tier->tier,
                                                .uid = tier->uid,
                                                .by_uid = true,
                                                .by_kind = true,
                                                .kind = tier->kind,
                                                .database_id = tier->database_id,
                                                .backend = tier->backend };
    buffer_init(&side->texts, TEXTS_MAX);
    tuning_each(tuning, &selection, add_held, side);
    point_to_copies(side);
    return sort_records(side, err);
}

/* ---- a file ---- */

/* Old text PerfDbs have FindDb's keys; stored records have today's keys. */
static struct bytes key_of(enum tuning_kind kind, struct bytes key, char text[PROBLEM_KEY_MAX])
{
    struct kiln_err ignored = KILN_ERR_INIT;
    struct problem problem;
    if (kind != TUNING_PERF || perf_key_parse(key, &problem, &ignored) == KILN_OK ||
        find_key_parse(key, &problem, &ignored) != KILN_OK)
        return key;
    size_t size = perf_key_write(&problem, text);
    return size > 0 ? bytes_of(text, size) : key;
}

static bool add_record(void *context, const struct tuning_record *record)
{
    struct tuning_view *side = context;
    char text[PROBLEM_KEY_MAX];
    struct bytes key = key_of(side->kind, record->key, text);
    return add_copy(side, key, record->value);
}

static bool leave_out(void *context, uint64_t line, const char *why)
{
    const struct tuning_view *side = context;
    (void)line;
    (void)why;
    return !tuning_progress_is_stopped(side->progress);
}

static enum kiln_code open_file(struct tuning_view *side, const char *path, struct kiln_err *err)
{
    static const char magic[16] = "SQLite format 3";
    const struct tuning_reader_events events = { .record = add_record,
                                                 .bad = leave_out,
                                                 .context = side };
    char head[sizeof(magic)];
    struct stat seen;
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &seen) != 0)
        return kiln_fail_errno(err, errno, "cannot read it");
    if (fs_read_at(fd, head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
        memcmp(head, magic, sizeof(magic)) == 0)
        return perf_db_read(path, &events, err);
    if (seen.st_size == 0)
        return KILN_OK;
    void *map = mmap(NULL, (size_t)seen.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return kiln_fail_errno(err, errno, "cannot map it");
    side->map = bytes_of(map, (size_t)seen.st_size);
    return KILN_OK;
}

/* Reads about STEP_BYTES, up to the end of a line. */
static enum kiln_code read_some_lines(struct tuning_view *side, struct kiln_err *err)
{
    const struct tuning_reader_events events = { .record = add_record,
                                                 .bad = leave_out,
                                                 .context = side };
    struct bytes rest = bytes_of(side->map.data + side->map_read, side->map.size - side->map_read);
    const uint8_t *stop = rest.size > STEP_BYTES
                              ? memchr(rest.data + STEP_BYTES, '\n', rest.size - STEP_BYTES)
                              : NULL;
    if (stop)
        rest.size = (size_t)(stop + 1 - rest.data);
    side->map_read += rest.size;
    enum kiln_code rc = tuning_text_read(side->kind, rest, &events, err);
    if (rc || side->map_read == side->map.size)
        unmap(side);
    return rc;
}

/* If several records have the same key, the first one in the file counts. The reader detects only
 * repetitions within one step. */
static void drop_repeated(struct tuning_view *side)
{
    size_t kept = 0;
    for (size_t i = 0; i < side->count; i++) {
        if (kept == 0 || !bytes_equal(side->records[kept - 1].key, side->records[i].key))
            side->records[kept++] = side->records[i];
    }
    side->count = kept;
}

static bool has_begun(const struct tuning_view *side) { return side->texts.limit > 0; }

enum kiln_code tuning_view_of_file(struct tuning_view *side, const struct tuning_view_file *file,
                                   bool *ret_more, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    *ret_more = false;
    if (!has_begun(side)) {
        side->kind = file->kind;
        buffer_init(&side->texts, TEXTS_MAX);
        rc = open_file(side, file->path, err);
    }
    if (!rc && side->map.data)
        rc = read_some_lines(side, err);
    if (side->is_out_of_memory || side->is_too_long || side->texts.failed ||
        tuning_progress_is_stopped(side->progress))
        return sort_records(side, err);
    if (rc)
        return kiln_while(err, "reading '%.100s'", file->name);
    *ret_more = side->map.data != NULL;
    if (*ret_more)
        return KILN_OK;
    point_to_copies(side);
    rc = sort_records(side, err);
    drop_repeated(side);
    return rc;
}
