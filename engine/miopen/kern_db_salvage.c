/* SPDX-License-Identifier: MIT */
#include "engine/miopen/kern_db_salvage.h"
#include "common/base/clock.h"
#include "common/base/sorted_runs.h"
#include "common/protocol/limits.h"
#include "engine/db/page_scan.h"
#include "engine/miopen/kern_db_parts.h"

#include <string.h>

/* Limit for rows and for index entries. The largest of AMD's packages has some ten thousand. */
#define FOUND_MAX (1u << 20)
#define RECORD_MAX (LIMIT_CODE_OBJECT + 4u * KERN_DB_TEXT_MAX)
/* For each id, at most this many rows and index entries are checked. There can be several because
 * freed pages may contain old ones. */
#define OF_ONE_ID_MAX 64

struct found_key { /* an index entry */
    int64_t id;
    uint64_t hash; /* of name and arguments */
};

struct kern_salvage {
    struct page_scan *scan;                    /* owned */
    struct sorted_runs found_rows, found_keys; /* of struct page_cell and struct found_key, by id.
                                                  Empty once all items were moved to |rows| and
                                                  |keys| */
    struct buffer rows, keys;                  /* the same items, sorted by id */
    struct buffer record;                      /* the record that was read last */
    bool is_scanned, has_failed;
    uint64_t at;     /* id of the last group that was listed */
    size_t row, key; /* indices in |rows| and |keys| after that group */
};

/* ---- collecting rows and index entries ---- */

static uint64_t hash_name(struct bytes name, struct bytes args)
{
    return bytes_hash(args, bytes_hash(name, 0));
}

static bool looks_like_a_row(const struct page_cell *cell)
{
    static const uint8_t kinds[] = { PAGE_NULL, PAGE_TEXT, PAGE_TEXT,
                                     PAGE_BLOB, PAGE_TEXT, PAGE_NUMBER };
    return !cell->in_index && cell->id > 0 && cell->columns >= sizeof(kinds) &&
           memcmp(cell->kinds, kinds, sizeof(kinds)) == 0;
}

/* An index entry begins with name and arguments and ends with the row's id. */
static bool looks_like_a_key(const struct page_cell *cell)
{
    return cell->in_index && cell->columns >= 3 && cell->columns < PAGE_COLUMNS_MAX &&
           cell->kinds[0] == PAGE_TEXT && cell->kinds[1] == PAGE_TEXT &&
           cell->kinds[cell->columns - 1] == PAGE_NUMBER;
}

static bool read_record(struct kern_salvage *s, const struct page_cell *cell,
                        struct page_value values[PAGE_COLUMNS_MAX])
{
    buffer_clear(&s->record);
    return page_scan_read(s->scan, cell, &s->record, values);
}

static void add_found(struct kern_salvage *s, struct sorted_runs *found, const void *item)
{
    s->has_failed |= found->count == FOUND_MAX || !sorted_runs_add(found, item);
}

static bool on_cell(void *context, const struct page_cell *cell)
{
    struct kern_salvage *s = context;
    struct page_value v[PAGE_COLUMNS_MAX];
    if (looks_like_a_row(cell)) {
        add_found(s, &s->found_rows, cell);
    } else if (looks_like_a_key(cell) && cell->size <= 3 * KERN_DB_TEXT_MAX &&
               read_record(s, cell, v)) {
        struct found_key key = { .id = v[cell->columns - 1].number,
                                 .hash = hash_name(v[0].bytes, v[1].bytes) };
        add_found(s, &s->found_keys, &key);
    }
    return !s->has_failed;
}

static int by_id(int64_t a, int64_t b) { return (a > b) - (a < b); }

/* Of equal ids, the first in the file comes first. */
static int compare_rows(const void *a, const void *b, void *context)
{
    const struct page_cell *x = a, *y = b;
    int order = by_id(x->id, y->id);
    (void)context;
    if (!order)
        order = (x->page > y->page) - (x->page < y->page);
    return order ? order : (x->at > y->at) - (x->at < y->at);
}

static int compare_keys(const void *a, const void *b, void *context)
{
    (void)context;
    return by_id(((const struct found_key *)a)->id, ((const struct found_key *)b)->id);
}

static size_t row_count(const struct kern_salvage *s)
{
    return s->rows.size / sizeof(struct page_cell);
}

static size_t key_count(const struct kern_salvage *s)
{
    return s->keys.size / sizeof(struct found_key);
}

static const struct page_cell *rows_of(const struct kern_salvage *s)
{
    return (const struct page_cell *)(const void *)s->rows.data;
}

static const struct found_key *keys_of(const struct kern_salvage *s)
{
    return (const struct found_key *)(const void *)s->keys.data;
}

enum kiln_code kern_salvage_open(int fd, struct kern_salvage **ret_salvage, struct kiln_err *err)
{
    KILN_AUTO(kern_salvage) struct kern_salvage *s = calloc(1, sizeof(*s));
    if (!s)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read a damaged file");
    s->found_rows =
        (struct sorted_runs){ .item_size = sizeof(struct page_cell), .compare = compare_rows };
    s->found_keys =
        (struct sorted_runs){ .item_size = sizeof(struct found_key), .compare = compare_keys };
    buffer_init(&s->rows, FOUND_MAX * sizeof(struct page_cell));
    buffer_init(&s->keys, FOUND_MAX * sizeof(struct found_key));
    buffer_init(&s->record, RECORD_MAX);
    enum kiln_code rc = page_scan_open(fd, &s->scan, err);
    if (!rc)
        *ret_salvage = KILN_TAKE(s);
    return rc;
}

/* Looks through some pages, and sorts what was found in them. */
static void scan_some(struct kern_salvage *s, uint64_t end_ns)
{
    s->is_scanned = !page_scan_some(s->scan, end_ns, on_cell, s);
    s->has_failed |=
        !sorted_runs_end_run(&s->found_rows, NULL) || !sorted_runs_end_run(&s->found_keys, NULL);
    if (!s->is_scanned)
        return;
    sorted_runs_merge(&s->found_rows, NULL);
    sorted_runs_merge(&s->found_keys, NULL);
}

/* Moves sorted items from |found| to |to|. False: the time is up, and items may be left. */
static bool move_some(struct sorted_runs *found, struct buffer *to, uint64_t end_ns)
{
    for (const void *item; (item = sorted_runs_peek(found));) {
        buffer_put(to, item, found->item_size);
        sorted_runs_pop(found, NULL);
        if (clock_monotonic_ns() >= end_ns)
            return false;
    }
    sorted_runs_done(found);
    return true;
}

enum kiln_code kern_salvage_search(struct kern_salvage *s, uint64_t end_ns, bool *ret_more,
                                   struct kiln_err *err)
{
    *ret_more = !s->is_scanned;
    if (!s->is_scanned)
        scan_some(s, end_ns);
    else
        *ret_more = !move_some(&s->found_rows, &s->rows, end_ns) ||
                    !move_some(&s->found_keys, &s->keys, end_ns);
    if (s->has_failed || s->rows.failed || s->keys.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the rows of a damaged file");
    return KILN_OK;
}

void kern_salvage_destroy(struct kern_salvage *salvage)
{
    if (!salvage)
        return;
    page_scan_destroy(salvage->scan);
    sorted_runs_done(&salvage->found_rows);
    sorted_runs_done(&salvage->found_keys);
    buffer_done(&salvage->rows);
    buffer_done(&salvage->keys);
    buffer_done(&salvage->record);
    free(salvage);
}

uint64_t kern_salvage_count(const struct kern_salvage *salvage)
{
    const struct page_cell *rows = rows_of(salvage);
    uint64_t different = 0;
    for (size_t i = 0; i < row_count(salvage); i++)
        different += i == 0 || rows[i].id != rows[i - 1].id;
    return different;
}

/* ---- listing rows ---- */

struct group { /* all rows and index entries with one id */
    int64_t id;
    const struct page_cell *rows;
    size_t row_count;
    const struct found_key *keys;
    size_t key_count;
};

/* True if the index has entries for the id, but none with this name. If it has no readable entry
 * for the id, the row is accepted. */
static bool index_contradicts(const struct group *g, uint64_t hash)
{
    for (size_t i = 0; i < g->key_count; i++) {
        if (g->keys[i].hash == hash)
            return false;
    }
    return g->key_count > 0;
}

static bool read_row(struct kern_salvage *s, const struct page_cell *cell, struct kern_row *ret_row)
{
    struct page_value v[PAGE_COLUMNS_MAX];
    if (!read_record(s, cell, v))
        return false;
    *ret_row =
        (struct kern_row){ .id = (uint64_t)cell->id,
                           .name = v[1].bytes,
                           .args = v[2].bytes,
                           .stored = v[3].bytes,
                           .md5 = v[4].bytes,
                           .raw_size = v[5].number < 0 ? UINT64_MAX : (uint64_t)v[5].number };
    return kern_row_is_sane(ret_row);
}

/* Finds the row to list. There may be several with the same id: if damage hides that a page was
 * freed, it may still contain an older row. */
static bool best_row(struct kern_salvage *s, const struct group *g, struct kern_row *ret_row)
{
    for (size_t i = 0; i < g->row_count; i++) {
        if (read_row(s, &g->rows[i], ret_row) &&
            !index_contradicts(g, hash_name(ret_row->name, ret_row->args)))
            return true;
    }
    return false;
}

/* Returns all rows and index entries with the next higher id, and moves |row| and |key| past them.
 * False at the end. */
static bool next_group(const struct kern_salvage *s, size_t *row, size_t *key, struct group *ret_g)
{
    const struct page_cell *rows = rows_of(s);
    const struct found_key *keys = keys_of(s);
    size_t rows_end = row_count(s), keys_end = key_count(s);
    if (*row == rows_end && *key == keys_end)
        return false;
    int64_t id = *row < rows_end ? rows[*row].id : keys[*key].id;
    if (*key < keys_end && keys[*key].id < id)
        id = keys[*key].id;
    struct group g = { .id = id,
                       .rows = rows ? rows + *row : NULL,
                       .keys = keys ? keys + *key : NULL };
    while (*row < rows_end && rows[*row].id == id)
        ++*row, g.row_count += g.row_count < OF_ONE_ID_MAX;
    while (*key < keys_end && keys[*key].id == id)
        ++*key, g.key_count += g.key_count < OF_ONE_ID_MAX;
    *ret_g = g;
    return true;
}

enum kiln_code kern_salvage_each(struct kern_salvage *salvage, const struct kern_listing *listing,
                                 uint64_t *ret_lost, struct kiln_err *err)
{
    uint64_t lost = 0, count = listing->count;
    struct group g;
    struct kern_row found;
    bool go_on = count > 0;
    (void)err;
    if (listing->after == 0)
        page_scan_restart(salvage->scan);
    if (listing->after == 0 || listing->after != salvage->at)
        salvage->row = salvage->key = 0;
    while (go_on && next_group(salvage, &salvage->row, &salvage->key, &g)) {
        if (g.id <= 0 || (uint64_t)g.id <= listing->after)
            continue;
        salvage->at = (uint64_t)g.id;
        if (!best_row(salvage, &g, &found)) {
            lost++;
            go_on = !listing->lost || listing->lost(listing->context, (uint64_t)g.id);
            continue;
        }
        go_on = listing->each(listing->context, &found) && --count > 0;
    }
    *ret_lost = lost;
    return KILN_OK;
}
