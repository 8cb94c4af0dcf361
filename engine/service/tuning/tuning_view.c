/* SPDX-License-Identifier: MIT */
#include "engine/service/tuning/tuning_view.h"

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "engine/miopen/tuning_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define TEXTS_MAX (1ull << 30)
/* Limits of a step: how long it reads, and how many bytes. When it reaches one of them, it sorts
 * what it has read. */
#define READ_NS 10000000u
#define READ_BYTES (4u << 20)

struct item {
    uint64_t at;
    uint32_t key_size, value_size;
};

void tuning_view_done(struct tuning_view *side)
{
    tuning_reader_destroy(side->reader);
    tuning_index_destroy(side->index);
    sorted_runs_done(&side->records);
    buffer_done(&side->texts);
    *side = (struct tuning_view){ .has_begun = false };
}

uint64_t tuning_view_bytes(const struct tuning_view *side)
{
    return side->texts.size + side->records.max * sizeof(struct item) +
           tuning_reader_bytes(side->reader);
}

/* Returns the address to which items' offsets are relative. Items have no pointers, because the
 * copied texts move in memory. */
static uint8_t *base_of(const struct tuning_view *side)
{
    return side->index ? (uint8_t *)tuning_index_text(side->index).data : side->texts.data;
}

static struct bytes key_at(const uint8_t *base, const struct item *item)
{
    return bytes_of(base + item->at, item->key_size);
}

/* Sorts the record that was read first before another one with the same key. */
static int by_key(const void *a, const void *b, void *base)
{
    const struct item *x = a, *y = b;
    int order = bytes_compare(key_at(base, x), key_at(base, y));
    return order ? order : (x->at > y->at) - (x->at < y->at);
}

bool tuning_view_peek(const struct tuning_view *side, struct tuning_view_record *ret_record)
{
    const struct item *item = sorted_runs_peek(&side->records);
    if (!item)
        return false;
    struct bytes key = key_at(base_of(side), item);
    *ret_record = (struct tuning_view_record){
        .key = key,
        .value = bytes_of(key.data + key.size, item->value_size),
        .is_repeated = side->has_last && bytes_equal(side->last_key, key),
    };
    return true;
}

void tuning_view_pop(struct tuning_view *side)
{
    side->last_key = key_at(base_of(side), sorted_runs_peek(&side->records));
    side->has_last = true;
    sorted_runs_pop(&side->records, base_of(side));
}

static bool is_stopped(const struct tuning_view *side)
{
    return side->is_too_long || side->is_out_of_memory || side->texts.failed ||
           tuning_progress_is_stopped(side->progress);
}

static bool add_item(struct tuning_view *side, struct item item)
{
    side->is_too_long |= side->records.count == TUNING_VIEW_RECORDS_MAX;
    if (!is_stopped(side))
        side->is_out_of_memory = !sorted_runs_add(&side->records, &item);
    return !is_stopped(side);
}

static bool add_copy(struct tuning_view *side, struct bytes key, struct bytes value)
{
    const struct item item = { side->texts.size, (uint32_t)key.size, (uint32_t)value.size };
    buffer_put(&side->texts, key.data, key.size);
    buffer_put(&side->texts, value.data, value.size);
    return add_item(side, item);
}

struct tier_step {
    struct tuning_view *side;
    size_t begin;
    bool is_late;
};

static bool add_held(void *context, const struct tuning_held *held)
{
    struct tier_step *step = context;
    struct tuning_view *side = step->side;
    if (!add_copy(side, held->place.key, held->value))
        return false;
    step->is_late =
        side->texts.size - step->begin >= READ_BYTES || clock_monotonic_ns() >= side->end_ns;
    return !step->is_late;
}

static enum kiln_code read_tier(struct tuning_view *side, struct tuning *tuning,
                                const struct tuning_view_source *from, bool *ret_more,
                                struct kiln_err *err)
{
    struct tier_step step = { .side = side, .begin = side->texts.size };
    struct tuning_place after = { .tier = from->tier,
                                  .uid = from->tier == TUNING_TIER_USER ? from->uid : TUNING_NOBODY,
                                  .kind = from->kind,
                                  .database_id = from->database_id,
                                  .backend = from->backend };
    KILN_AUTO(mem) char *last = NULL;
    if (side->records.count > 0) { /* |after.key| must be a copy, because |texts| moves in memory */
        const struct item *items = (const struct item *)(const void *)side->records.items;
        after.key = key_at(base_of(side), &items[side->records.count - 1]);
        last = bytes_to_text(after.key);
        after.key.data = (const uint8_t *)last;
        side->is_out_of_memory |= !last;
    }
    enum kiln_code rc =
        side->is_out_of_memory ? KILN_OK : tuning_each_after(tuning, &after, add_held, &step, err);
    *ret_more = !rc && step.is_late;
    return rc;
}

struct system_walk {
    struct tuning_view *side;
    const struct tuning_view_source *from;
    struct kiln_err *err;
    bool is_found;
    enum kiln_code rc;
};

static bool find_system(void *context, const struct tuning_system *system)
{
    struct system_walk *walk = context;
    const struct tuning_system_file *file = system->file;
    if (file->kind != walk->from->kind || strcmp(file->database_id, walk->from->database_id) != 0 ||
        strcmp(file->backend, walk->from->backend) != 0)
        return true;
    walk->is_found = true;
    if (system->index)
        walk->side->index = tuning_index_ref((struct tuning_index *)system->index);
    else
        walk->rc = kiln_fail(walk->err, KILN_CORRUPT, "%s", system->why);
    return false;
}

static enum kiln_code open_system(struct tuning_view *side, const struct tuning *tuning,
                                  const struct tuning_view_source *from, struct kiln_err *err)
{
    struct system_walk walk = { .side = side, .from = from, .err = err };
    tuning_each_system(tuning, find_system, &walk);
    if (walk.is_found)
        return walk.rc;
    return kiln_fail(err, KILN_NOT_FOUND,
                     "there is no system %s database of '%s': 'kilnctl db stats' lists those that "
                     "were imported",
                     tuning_kind_name(from->kind), from->database_id);
}

static void read_system(struct tuning_view *side, bool *ret_more)
{
    const uint8_t *base = base_of(side);
    uint64_t bytes = 0;
    struct tuning_index_record r;
    for (*ret_more = false; side->next < tuning_index_count(side->index);) {
        *ret_more = bytes >= READ_BYTES || clock_monotonic_ns() >= side->end_ns;
        if (*ret_more && bytes > 0)
            return;
        if (!tuning_index_at(side->index, side->next++, &r))
            continue;
        const struct item item = { (uint64_t)(r.key.data - base), (uint32_t)r.key.size,
                                   (uint32_t)r.value.size };
        bytes += r.key.size + r.value.size;
        if (!add_item(side, item))
            break;
    }
    *ret_more = false;
}

/* Converts the FindDb keys of old text PerfDbs to PerfDb keys. */
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
    return add_copy(side, key_of(side->kind, record->key, text), record->value);
}

static bool leave_out(void *context, uint64_t line, const char *why)
{
    const struct tuning_view *side = context;
    (void)line;
    (void)why;
    return !tuning_progress_is_stopped(side->progress);
}

static enum kiln_code read_format(const char *path, enum tuning_format *ret_format,
                                  struct kiln_err *err)
{
    static const char magic[16] = "SQLite format 3";
    char head[sizeof(magic)];
    KILN_AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return kiln_fail_errno(err, errno, "cannot open it");
    bool is_sqlite = fs_read_at(fd, head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
                     memcmp(head, magic, sizeof(magic)) == 0;
    *ret_format = is_sqlite ? TUNING_SQLITE : TUNING_TEXT;
    return KILN_OK;
}

static enum kiln_code open_file(struct tuning_view *side, const struct tuning_view_source *from,
                                struct kiln_err *err)
{
    enum tuning_format format = TUNING_TEXT;
    enum kiln_code rc = read_format(from->path, &format, err);
    if (!rc)
        rc = tuning_reader_open(from->path, from->kind, format, &side->reader, err);
    return rc ? kiln_while(err, "reading '%.100s'", from->name) : KILN_OK;
}

static enum kiln_code read_file(struct tuning_view *side, const struct tuning_view_source *from,
                                bool *ret_more, struct kiln_err *err)
{
    const struct tuning_reader_events events = { .record = add_record,
                                                 .bad = leave_out,
                                                 .context = side };
    enum kiln_code rc = tuning_reader_step(side->reader, &events, side->end_ns, ret_more, err);
    if (rc && !is_stopped(side))
        return kiln_while(err, "reading '%.100s'", from->name);
    return KILN_OK;
}

static enum kiln_code begin(struct tuning_view *side, const struct tuning *tuning,
                            const struct tuning_view_source *from, struct kiln_err *err)
{
    side->has_begun = true;
    side->kind = from->kind;
    side->records.item_size = sizeof(struct item);
    side->records.compare = by_key;
    buffer_init(&side->texts, TEXTS_MAX);
    if (from->tier == TUNING_TIER_NONE)
        return open_file(side, from, err);
    return from->tier == TUNING_TIER_SYSTEM ? open_system(side, tuning, from, err) : KILN_OK;
}

static enum kiln_code read_some(struct tuning_view *side, struct tuning *tuning,
                                const struct tuning_view_source *from, bool *ret_more,
                                struct kiln_err *err)
{
    side->end_ns = clock_monotonic_ns() + READ_NS;
    if (from->tier == TUNING_TIER_NONE)
        return read_file(side, from, ret_more, err);
    if (from->tier != TUNING_TIER_SYSTEM)
        return read_tier(side, tuning, from, ret_more, err);
    read_system(side, ret_more);
    return KILN_OK;
}

static enum kiln_code check_stopped(const struct tuning_view *side, struct kiln_err *err)
{
    if (tuning_progress_is_stopped(side->progress))
        return err->code = KILN_CANCELLED;
    if (side->is_too_long)
        return kiln_fail(err, KILN_FULL,
                         "there are more than %u records on one side, too many to compare",
                         TUNING_VIEW_RECORDS_MAX);
    if (side->is_out_of_memory || side->texts.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot compare so many records: out of memory");
    return KILN_OK;
}

enum kiln_code tuning_view_step(struct tuning_view *side, struct tuning *tuning,
                                const struct tuning_view_source *from, bool *ret_more,
                                struct kiln_err *err)
{
    *ret_more = false;
    enum kiln_code rc = side->has_begun ? KILN_OK : begin(side, tuning, from, err);
    if (!rc)
        rc = read_some(side, tuning, from, ret_more, err);
    if (!rc)
        side->is_out_of_memory |= !sorted_runs_end_run(&side->records, base_of(side));
    if (!rc)
        rc = check_stopped(side, err);
    if (rc || *ret_more)
        return rc;
    tuning_reader_destroy(side->reader);
    side->reader = NULL;
    sorted_runs_merge(&side->records, base_of(side));
    return KILN_OK;
}
