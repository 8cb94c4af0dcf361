/* SPDX-License-Identifier: MIT */
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kiln_err err = KILN_ERR_INIT;
    KILN_AUTO(kern_db) struct kern_db *db = NULL;
    uint64_t rows = 0;
    if (kern_db_open(fuzz_file("gfx90a68.kdb", bytes_of(data, size)), &db, &err))
        return 0;
    struct reading reading = { .db = db };
    (void)!kern_db_count(db, &rows, &err);
    struct kern_listing listing = { .count = ROWS_MAX, .each = on_row, .context = &reading };
    (void)!kern_db_each(db, &listing, &err);
    listing.after = 1;
    listing.count = 4;
    (void)!kern_db_each(db, &listing, &err);
    (void)!kern_db_check(db, &err);
    return 0;
}
