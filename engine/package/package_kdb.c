/* SPDX-License-Identifier: MIT */
#include "engine/package/package_format.h"

#include "common/protocol/limits.h"
#include "engine/miopen/kern_db.h"

#include <stdio.h>

static enum kiln_code open_kdb(const struct package_place *place, void **ret_connection,
                               struct kiln_err *err)
{
    struct kern_db *db = NULL;
    enum kiln_code rc = place->image.size > 0
                            ? kern_db_open_image(place->image, place->path, &db, err)
                            : kern_db_open(place->path, &db, err);
    if (!rc)
        *ret_connection = db;
    return rc;
}

static void close_kdb(void *connection) { kern_db_destroy(connection); }

static enum kiln_code count_rows(void *connection, uint64_t *ret_rows, struct kiln_err *err)
{
    return kern_db_count(connection, ret_rows, err);
}

static enum kiln_code find_named(void *connection, const struct kern_name *name,
                                 struct buffer *ret_raw, bool *ret_damaged, struct kiln_err *err)
{
    return kern_db_find(connection, name, ret_raw, ret_damaged, err);
}

static bool list_row(void *context, const struct kern_row *row)
{
    const struct package_listing *listing = context;
    struct kiln_err ignored = KILN_ERR_INIT;
    /* Skips a damaged row before its texts are used, because they may be huge. */
    if (kern_row_check(row, &ignored))
        return true;
    struct package_row r = {
        .id = row->id,
        .name = row->name,
        .args = row->args,
        .stored_size = row->stored.size,
        .raw_size = row->raw_size ? row->raw_size : row->stored.size,
        .md5 = row->md5,
        .target = "",
        .toolchain = "",
        .program = "",
        .options = "",
    };
    return listing->each(listing->context, &r);
}

static enum kiln_code each_row(void *connection, const struct package_listing *listing,
                               struct kiln_err *err)
{
    const struct kern_listing rows = { .after = listing->after,
                                       .count = listing->count,
                                       .each = list_row,
                                       .context = (void *)(uintptr_t)listing };
    return kern_db_each(connection, &rows, err);
}

struct checking {
    const struct package_progress *progress;
    struct package_report *report;
    struct buffer raw;
    bool stopped;
};

static bool check_row(void *context, const struct kern_row *row)
{
    struct checking *c = context;
    struct kiln_err why = KILN_ERR_INIT;
    buffer_clear(&c->raw);
    if (kern_row_unpack(row, &c->raw, &why))
        package_report_damage(c->report, &why);
    else
        c->report->good++;
    uint64_t done = c->report->good + c->report->damaged;
    c->stopped =
        c->progress->report && !c->progress->report(c->progress->context, done, c->report->rows);
    return !c->stopped;
}

static enum kiln_code check_all(void *connection, const struct package_progress *progress,
                                struct package_report *report, struct kiln_err *err)
{
    struct checking c = { .progress = progress, .report = report };
    buffer_init(&c.raw, LIMIT_CODE_OBJECT);
    const struct kern_listing all = { .count = UINT64_MAX, .each = check_row, .context = &c };
    enum kiln_code rc = kern_db_each(connection, &all, err);
    buffer_done(&c.raw);
    if (c.stopped)
        return kiln_fail(err, KILN_CANCELLED, "the check was stopped");
    if (!rc && report->damaged == 0)
        rc = kern_db_check(connection, err);
    return rc;
}

const struct package_ops package_kdb_ops = {
    .name = "kdb",
    .format = PACKAGE_KDB,
    .open = open_kdb,
    .close = close_kdb,
    .rows = count_rows,
    .find_named = find_named,
    .each = each_row,
    .check = check_all,
};
