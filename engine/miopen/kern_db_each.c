/* SPDX-License-Identifier: MIT */
#include "engine/miopen/kern_db_parts.h"

/* All listed rows together may have at most this many times the size of the file. Rows of a genuine
 * file do not overlap, but the rows of a crafted file could all use the same pages. */
#define LISTED_MAX 2

struct progress {             /* the progress of a listing */
    struct kern_listing left; /* the rows that are still to be listed */
    uint64_t lost;
    bool stopped; /* the caller's callback stopped the listing */
};

static enum kiln_code query_number(struct kern_db *db, enum kern_db_statement statement,
                                   uint64_t *ret_number, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(db->db, statement);
    bool row = false;
    enum kiln_code rc = query_step(&q, &row, err);
    if (!rc)
        *ret_number = query_u64(&q, 0);
    return rc;
}

/* Compares the number of rows in the index and in the table. SQLite does not notice all damage: if
 * a page states fewer cells than it has, the others are hidden. */
static enum kiln_code compare_counts(struct kern_db *db, struct kiln_err *err)
{
    uint64_t in_index = 0, in_table = 0;
    if (db->compared)
        return KILN_OK;
    db->compared = true;
    enum kiln_code rc = query_number(db, KERN_DB_COUNT, &in_index, err);
    if (!rc)
        rc = query_number(db, KERN_DB_COUNT_ROWS, &in_table, err);
    if (!rc && in_index != in_table)
        rc = kiln_fail(err, KILN_CORRUPT, "the index of '%s' has %llu rows, but the table has %llu",
                       db->path, (unsigned long long)in_index, (unsigned long long)in_table);
    return rc;
}

/* Checks that the index has the row. KILN_CORRUPT: it has not, so the index or the row is
 * damaged. */
static enum kiln_code confirm_row(struct kern_db *db, const struct kern_row *row,
                                  struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(db->db, KERN_DB_CONFIRM);
    bool known = false;
    query_bind_text_view(&q, 1, row->name);
    query_bind_text_view(&q, 2, row->args);
    query_bind_u64(&q, 3, row->id);
    enum kiln_code rc = query_step(&q, &known, err);
    if (!rc && !known)
        rc = kiln_fail(err, KILN_CORRUPT, "row %llu of '%s' is not in its index",
                       (unsigned long long)row->id, db->path);
    return rc;
}

static enum kiln_code check_row(struct kern_db *db, const struct progress *p,
                                const struct kern_row *row, struct kiln_err *err)
{
    db->listed += row->name.size + row->args.size + row->stored.size;
    if (row->id <= p->left.after || db->listed > LISTED_MAX * db->size)
        return kiln_fail(err, KILN_CORRUPT, "the rows of '%s' overlap", db->path);
    return db->indexed && kern_row_is_sane(row) ? confirm_row(db, row, err) : KILN_OK;
}

static enum kiln_code list_by_sqlite(struct kern_db *db, struct progress *p, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(db->db, KERN_DB_NEXT);
    query_bind_u64(&q, 1, p->left.after);
    bool there = p->left.count > 0;
    enum kiln_code rc = KILN_OK;
    while (!rc && p->left.count > 0 && !p->stopped) {
        rc = query_step(&q, &there, err);
        if (rc || !there)
            return rc;
        struct kern_row row = kern_db_row(&q);
        rc = check_row(db, p, &row, err);
        if (rc)
            return rc;
        p->left.after = row.id;
        if (!kern_row_is_sane(&row)) {
            p->lost++;
            p->stopped = p->left.lost && !p->left.lost(p->left.context, row.id);
            continue;
        }
        p->left.count--;
        p->stopped = !p->left.each(p->left.context, &row);
    }
    return rc;
}

static enum kiln_code list_by_pages(struct kern_db *db, struct progress *p, struct kiln_err *err)
{
    uint64_t lost = 0;
    enum kiln_code rc = KILN_OK;
    if (!db->salvage && db->fd < 0)
        return kiln_fail(err, KILN_CORRUPT, "'%s' is damaged", db->path);
    if (!db->salvage)
        rc = kern_salvage_open(db->fd, &db->salvage, err);
    if (!rc)
        rc = kern_db_search(db, p->left.end_ns ? p->left.end_ns : UINT64_MAX, err);
    if (!rc && !db->is_searching)
        rc = kern_salvage_each(db->salvage, &p->left, &lost, err);
    p->lost += lost;
    return rc;
}

enum kiln_code kern_db_each(struct kern_db *db, const struct kern_listing *listing,
                            uint64_t *ret_lost, struct kiln_err *err)
{
    struct progress p = { .left = *listing };
    enum kiln_code rc = KILN_OK;
    if (listing->after == 0)
        db->listed = 0;
    if (!db->salvage)
        rc = compare_counts(db, err);
    if (!rc && !db->salvage)
        rc = list_by_sqlite(db, &p, err);
    if (rc == KILN_CORRUPT || db->salvage)
        rc = list_by_pages(db, &p, err);
    if (!rc)
        *ret_lost = p.lost;
    return rc;
}

bool kern_db_is_damaged(const struct kern_db *db) { return db->log_damaged || db->salvage != NULL; }
