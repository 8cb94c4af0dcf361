/* SPDX-License-Identifier: MIT */
/* An untrusted .kdb file, read in both ways. */
#include "tests/fuzz/fuzz.h"

#include "engine/miopen/kern_db.h"

#include <stdlib.h>

#define OBJECT_MAX (16u << 20)
#define ROWS_MAX 64

struct reading {
    struct kern_db *db;
    unsigned rows;
};

static bool on_row(void *context, const struct kern_row *row)
{
    struct reading *reading = context;
    struct kiln_err err = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer raw, found;
    bool damaged = false;
    buffer_init(&raw, OBJECT_MAX);
    buffer_init(&found, OBJECT_MAX);
    bool is_good = kern_row_unpack(row, &raw, &err) == KILN_OK;
    fuzz_expect(is_good || raw.size == 0, "of a damaged row nothing is taken");
    KILN_AUTO(mem) uint8_t *name = fuzz_copy(row->name);
    KILN_AUTO(mem) uint8_t *args = fuzz_copy(row->args);
    enum kiln_code rc = kern_db_find(
        reading->db,
        &(struct kern_name){ bytes_of(name, row->name.size), bytes_of(args, row->args.size) },
        &found, &damaged, &err);
    fuzz_expect(rc == KILN_OK || found.size == 0, "a miss finds nothing");
    return ++reading->rows < ROWS_MAX;
}

static bool on_lost(void *context, uint64_t id)
{
    const struct reading *reading = context;
    return id % 2 || reading->rows == 0;
}

static void read_file(const char *path, enum kern_db_mode mode)
{
    struct kiln_err err = KILN_ERR_INIT;
    KILN_AUTO(kern_db) struct kern_db *db = NULL;
    uint64_t lost = 0, rows = 0;
    if (kern_db_open(path, mode, &db, &err))
        return;
    struct reading reading = { .db = db };
    (void)!kern_db_count(db, &rows, &err);
    struct kern_listing listing = {
        .count = ROWS_MAX, .each = on_row, .lost = on_lost, .context = &reading
    };
    (void)!kern_db_each(db, &listing, &lost, &err);
    listing.after = 1;
    listing.count = 4;
    if (mode == KERN_DB_SALVAGE)
        (void)!kern_db_each(db, &listing, &lost, &err);
    kern_db_is_damaged(db);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file("gfx90a68.kdb", bytes_of(data, size));
    read_file(path, KERN_DB_IMMUTABLE);
    read_file(path, KERN_DB_SALVAGE);
    return 0;
}
