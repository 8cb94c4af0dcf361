/* SPDX-License-Identifier: MIT */
#include "engine/db/connection.h"

#include <stdio.h>

/* The largest valid schema number; no newer kiln will use a larger one. A file with a larger number
 * is damaged. */
#define NUMBER_MAX 9999

struct state {
    int64_t application_id;
    int64_t number;
    int64_t tables;
};

static enum kiln_code read_state(struct db *db, struct state *ret_state, struct kiln_err *err)
{
    struct state s;
    enum kiln_code rc = db_number(db, "pragma application_id", &s.application_id, err);
    if (!rc)
        rc = db_number(db, "pragma user_version", &s.number, err);
    if (!rc)
        rc = db_number(db, "select count(*) from sqlite_schema", &s.tables, err);
    if (!rc)
        *ret_state = s;
    return rc;
}

static enum kiln_code check_state(const struct db *db, const struct db_schema *schema,
                                  const struct state *s, struct kiln_err *err)
{
    bool fresh = s->application_id == 0 && s->number == 0 && s->tables == 0;
    if (!fresh && (s->application_id != schema->application_id || s->number < 1 ||
                   s->number > NUMBER_MAX || s->tables == 0))
        return kiln_fail(err, KILN_CORRUPT, "'%s' is not a %s database of kiln", db->path,
                         schema->name);
    if (s->number > (int64_t)schema->count)
        return kiln_fail(
            err, KILN_UNSUPPORTED,
            "'%s' has schema %lld, but this version of kiln knows only up to %u: run the "
            "newer version, or set another directory",
            db->path, (long long)s->number, schema->count);
    return KILN_OK;
}

static enum kiln_code apply_migration(struct db *db, const struct db_schema *schema,
                                      unsigned number, struct kiln_err *err)
{
    const struct db_migration *m = &schema->migrations[number - 1];
    KILN_AUTO(mem) char *sql = bytes_to_text(bytes_of(m->sql, *m->size));
    if (!sql)
        return kiln_fail(err, KILN_NO_MEMORY,
                         "cannot bring the schema of '%s' up to date: out of memory", db->path);
    char doing[64];
    snprintf(doing, sizeof(doing), "apply migration %u of the %s schema to", number, schema->name);
    return db_exec(db, sql, doing, err);
}

static enum kiln_code mark_schema(struct db *db, const struct db_schema *schema,
                                  struct kiln_err *err)
{
    char sql[96];
    snprintf(sql, sizeof(sql), "pragma application_id = %d; pragma user_version = %u",
             (int)schema->application_id, schema->count);
    return db_exec(db, sql, "mark", err);
}

enum kiln_code db_check_schema(struct db *db, const struct db_schema *schema, struct kiln_err *err)
{
    struct state s;
    enum kiln_code rc = read_state(db, &s, err);
    if (!rc)
        rc = check_state(db, schema, &s, err);
    if (!rc && s.number != (int64_t)schema->count)
        rc = kiln_fail(
            err, KILN_UNSUPPORTED,
            "'%s' has schema %lld, and this version of kiln needs %u: kiln migrates it as "
            "soon as it may write to it",
            db->path, (long long)s.number, schema->count);
    return rc;
}

enum kiln_code db_migrate(struct db *db, const struct db_schema *schema, struct kiln_err *err)
{
    struct state s;
    enum kiln_code rc = read_state(db, &s, err);
    if (!rc)
        rc = check_state(db, schema, &s, err);
    if (rc || s.number == (int64_t)schema->count)
        return rc;

    TRANSACTION_AUTO struct transaction t = { 0 };
    rc = transaction_begin(&t, db, err);
    if (!rc)
        rc = read_state(db, &s, err); /* another process may have migrated the file meanwhile */
    if (!rc)
        rc = check_state(db, schema, &s, err);
    for (unsigned n = (unsigned)s.number + 1; !rc && n <= schema->count; n++)
        rc = apply_migration(db, schema, n, err);
    if (!rc)
        rc = mark_schema(db, schema, err);
    return rc ? rc : transaction_commit(&t, err);
}
