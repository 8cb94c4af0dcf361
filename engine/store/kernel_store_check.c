/* SPDX-License-Identifier: MIT */
#include "engine/store/kernel_store_parts.h"

#include <stdio.h>
#include <string.h>

static uint64_t size_of(const char *path)
{
    struct stat seen;
    return stat(path, &seen) == 0 ? (uint64_t)seen.st_size : 0;
}

/* Damage is what was asked for, not a failure of asking. */
static enum kiln_code check_pages(struct db *db, struct kernel_check *check, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(db, KERNEL_CHECK);
    bool row = false;
    enum kiln_code rc = query_step(&q, &row, err);
    if (rc && rc != KILN_CORRUPT)
        return rc;
    const char *answer = rc ? err->text : row ? query_text(&q, 0) : "";
    check->checked = true;
    if (rc || strcmp(answer, "ok") != 0)
        snprintf(check->damage, sizeof(check->damage), "%.*s", (int)sizeof(check->damage) - 1,
                 answer);
    return KILN_OK;
}

enum kiln_code kernel_store_check(struct kernel_store *store, uint64_t most,
                                  struct kernel_check *ret_check, struct kiln_err *err)
{
    struct kernel_check check = { .directory = store->directory };
    KILN_AUTO(store_reader) struct store_reader *reader = NULL;
    enum kiln_code rc = store_reader_take(store, &reader, err);
    if (!rc && reader) {
        check.bytes = size_of(store->path) + size_of(store->log_path);
        if (check.bytes <= most)
            rc = check_pages(reader->db, &check, err);
        if (!rc && !check.damage[0])
            rc =
                store_note_read(store, store_number(reader->db, KERNEL_NEWEST, &check.newest, err));
    }
    if (rc)
        return kiln_while(err, "checking the kernel cache");
    *ret_check = check;
    return KILN_OK;
}
