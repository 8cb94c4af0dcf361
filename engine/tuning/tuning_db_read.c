/* SPDX-License-Identifier: MIT */
#include "engine/tuning/tuning_db_parts.h"

#include <string.h>

void tuning_bind_place(struct query *q, const struct tuning_place *place)
{
    query_bind_u64(q, 1, place->tier);
    query_bind_u64(q, 2, place->uid);
    query_bind_u64(q, 3, place->kind);
    query_bind_text(q, 4, place->database_id);
    query_bind_text(q, 5, place->backend);
    query_bind_bytes(q, 6, place->key);
}

bool tuning_read_place(const struct query *q, struct tuning_place *ret_place)
{
    int64_t tier = query_i64(q, 0), uid = query_i64(q, 1), kind = query_i64(q, 2);
    if (tier < TUNING_TIER_NONE || tier > TUNING_TIER_USER || uid < 0 || uid > TUNING_NOBODY ||
        kind < TUNING_FIND || kind > TUNING_PERF)
        return false;
    *ret_place = (struct tuning_place){ .tier = (enum tuning_tier)tier,
                                        .uid = (uint32_t)uid,
                                        .kind = (enum tuning_kind)kind,
                                        .database_id = query_text(q, 3),
                                        .backend = query_text(q, 4),
                                        .key = query_bytes(q, 5) };
    return true;
}

struct visit { /* if both callbacks are NULL, rows are only checked */
    bool (*each)(void *context, const struct tuning_place *place, const struct tuning_row *rows,
                 size_t count);
    bool (*before)(void *context, const struct tuning_place *place, const struct tuning_row *rows,
                   size_t count, bool is_unchanged);
    void *context;
    const struct tuning_place *after;
};

/* Reads a record. In the table before_promotion, an empty content means that no record existed
 * before the promotion. */
static bool read_record(const struct query *q, struct tuning_place *place, struct tuning_row *rows,
                        size_t *ret_count)
{
    struct bytes content = query_bytes(q, 6);
    *ret_count = 0;
    return tuning_read_place(q, place) &&
           (content.size == 0 || tuning_record_unpack(place, content, rows, ret_count));
}

static enum kiln_code each_record(struct db *file, enum tuning_statement statement,
                                  struct tuning_row *rows, const struct visit *visit,
                                  struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(file, statement);
    if (visit->after)
        tuning_bind_place(&q, visit->after);
    bool more = true, go_on = true;
    enum kiln_code rc = KILN_OK;
    while (!rc && more && go_on) {
        struct tuning_place place;
        size_t count = 0;
        rc = query_step(&q, &more, err);
        if (rc || !more)
            break;
        if (!read_record(&q, &place, rows, &count) ||
            (count == 0 && statement != TUNING_BEFORE_EACH))
            rc = kiln_fail(err, KILN_CORRUPT,
                           "a record of the tuning database failed its check: restart kilnd, which "
                           "then recovers the others");
        if (!rc && visit->each)
            go_on = visit->each(visit->context, &place, rows, count);
        if (!rc && visit->before)
            go_on = visit->before(visit->context, &place, rows, count, query_i64(&q, 7) != 0);
    }
    return rc;
}

static enum kiln_code each_system(struct db *file,
                                  bool (*each)(void *, const struct tuning_system_file *),
                                  void *context, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(file, TUNING_SYSTEM_EACH);
    bool more = true, go_on = true;
    enum kiln_code rc = KILN_OK;
    while (!rc && more && go_on) {
        rc = query_step(&q, &more, err);
        if (rc || !more)
            break;
        struct tuning_system_file system = { .kind = query_i64(&q, 0) == TUNING_FIND ? TUNING_FIND
                                                                                     : TUNING_PERF,
                                             .database_id = query_text(&q, 1),
                                             .backend = query_text(&q, 2) };
        if (!tuning_system_unpack(&system, query_bytes(&q, 3)))
            return kiln_fail(err, KILN_CORRUPT,
                             "the tuning database's entry for an imported database failed its "
                             "check: restart kilnd, which then recovers the others");
        if (each)
            go_on = each(context, &system);
    }
    return rc;
}

enum kiln_code tuning_db_each(struct tuning_db *db,
                              bool (*each)(void *context, const struct tuning_place *place,
                                           const struct tuning_row *rows, size_t count),
                              void *context, struct kiln_err *err)
{
    const struct visit visit = { .each = each, .context = context };
    return each_record(db->db, TUNING_RECORD_EACH, db->rows, &visit, err);
}

enum kiln_code tuning_db_each_after(struct tuning_db *db, const struct tuning_place *after,
                                    bool (*each)(void *context, const struct tuning_place *place,
                                                 const struct tuning_row *rows, size_t count),
                                    void *context, struct kiln_err *err)
{
    const struct visit visit = { .each = each, .context = context, .after = after };
    return each_record(db->db, TUNING_RECORD_AFTER, db->rows, &visit, err);
}

enum kiln_code tuning_db_each_before(struct tuning_db *db,
                                     bool (*each)(void *context, const struct tuning_place *place,
                                                  const struct tuning_row *rows, size_t count,
                                                  bool is_unchanged),
                                     void *context, struct kiln_err *err)
{
    const struct visit visit = { .before = each, .context = context };
    return each_record(db->db, TUNING_BEFORE_EACH, db->rows, &visit, err);
}

enum kiln_code tuning_db_each_system(struct tuning_db *db,
                                     bool (*each)(void *context,
                                                  const struct tuning_system_file *file),
                                     void *context, struct kiln_err *err)
{
    return each_system(db->db, each, context, err);
}

enum kiln_code tuning_number(struct db *file, enum tuning_statement statement, uint64_t *ret_number,
                             struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(file, statement);
    bool row = false;
    enum kiln_code rc = query_step(&q, &row, err);
    if (!rc)
        *ret_number = row ? query_u64(&q, 0) : 0;
    return rc;
}

enum kiln_code tuning_tally_add(struct db *file, enum tuning_tally tally, int64_t count,
                                struct kiln_err *err)
{
    if (count == 0)
        return KILN_OK;
    QUERY_AUTO struct query q = query_of(file, TUNING_TALLY_ADD);
    query_bind_u64(&q, 1, tally);
    query_bind_i64(&q, 2, count);
    enum kiln_code rc = query_run(&q, err);
    if (!rc && db_changes(file) != 1)
        rc = kiln_fail(err, KILN_CORRUPT, "the tuning database has no count of its rows");
    return rc;
}

static enum kiln_code check_tally(struct db *file, enum tuning_tally tally,
                                  enum tuning_statement counting, struct kiln_err *err)
{
    uint64_t counted = 0;
    QUERY_AUTO struct query q = query_of(file, TUNING_TALLY_GET);
    query_bind_u64(&q, 1, tally);
    bool row = false;
    enum kiln_code rc = query_step(&q, &row, err);
    if (!rc)
        rc = tuning_number(file, counting, &counted, err);
    if (rc)
        return rc;
    if (!row || query_u64(&q, 0) != counted || query_i64(&q, 1) != -1 - (int64_t)counted)
        return kiln_fail(err, KILN_CORRUPT,
                         "the tuning database has %llu rows, but its own count differs",
                         (unsigned long long)counted);
    return KILN_OK;
}

static enum kiln_code check_pages(struct db *file, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(file, TUNING_CHECK);
    bool row = false;
    enum kiln_code rc = query_step(&q, &row, err);
    if (rc)
        return rc;
    const char *answer = row ? query_text(&q, 0) : "";
    if (strcmp(answer, "ok") != 0)
        return kiln_fail(err, KILN_CORRUPT, "SQLite finds it damaged: %.200s", answer);
    return KILN_OK;
}

enum kiln_code tuning_file_check(struct db *file, struct tuning_row *rows, struct kiln_err *err)
{
    enum kiln_code rc = check_pages(file, err);
    if (!rc)
        rc = each_record(file, TUNING_RECORD_EACH, rows, &(struct visit){ 0 }, err);
    if (!rc)
        rc = each_system(file, NULL, NULL, err);
    if (!rc)
        rc = check_tally(file, TUNING_TALLY_RECORDS, TUNING_RECORD_COUNT, err);
    return rc ? rc : check_tally(file, TUNING_TALLY_SYSTEMS, TUNING_SYSTEM_COUNT, err);
}
