/* SPDX-License-Identifier: MIT */
#include "engine/db/new_file.h"
#include "engine/db/query.h"
#include "engine/miopen/tuning_file.h"

#include <string.h>

/* Exactly MIOpen's text, because SQLite stores this text in the file (in sqlite_schema). */
static const char schema[] =
    "CREATE TABLE IF NOT EXISTS `config` (`id` INTEGER PRIMARY KEY ASC,`layout` TEXT NOT NULL,"
    "`data_type` TEXT NOT NULL,`direction` TEXT NOT NULL,`spatial_dim` INT NOT NULL,"
    "`in_channels` INT NOT NULL,`in_h` INT NOT NULL,`in_w` INT NOT NULL,`in_d` INT NOT NULL,"
    "`fil_h` INT NOT NULL,`fil_w` INT NOT NULL,`fil_d` INT NOT NULL,`out_channels` INT NOT NULL,"
    "`batchsize` INT NOT NULL,`pad_h` INT NOT NULL,`pad_w` INT NOT NULL,`pad_d` INT NOT NULL,"
    "`conv_stride_h` INT NOT NULL,`conv_stride_w` INT NOT NULL,`conv_stride_d` INT NOT NULL,"
    "`dilation_h` INT NOT NULL,`dilation_w` INT NOT NULL,`dilation_d` INT NOT NULL,"
    "`bias` INT NOT NULL,`group_count` INT NOT NULL);"
    "CREATE UNIQUE INDEX IF NOT EXISTS `idx_config` ON config( layout,data_type,direction, "
    "spatial_dim,in_channels,in_h,in_w,in_d,fil_h,fil_w,fil_d,out_channels,batchsize,pad_h,pad_w,"
    "pad_d,conv_stride_h,conv_stride_w,conv_stride_d,dilation_h,dilation_w,dilation_d,bias,"
    "group_count );"
    "CREATE TABLE IF NOT EXISTS `perf_db` (`id` INTEGER PRIMARY KEY ASC,`solver` TEXT NOT NULL,"
    "`config` INTEGER NOT NULL,`params` TEXT NOT NULL);"
    "CREATE UNIQUE INDEX IF NOT EXISTS `idx_perf_db` ON perf_db(solver, config);";

enum { ADD_CONFIG, ADD_ROW, REMOVE_ROWS, REMOVE_CONFIG };
static const char *const statements[] = {
    [ADD_CONFIG] = "insert or ignore into config (id"
#define PERF_DB_NUMBER(name) ", " #name
#define PERF_DB_TEXT(name) ", " #name
#include "engine/miopen/perf_db_columns.def"
#undef PERF_DB_NUMBER
#undef PERF_DB_TEXT
                   ") values (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,"
                   "?20,?21,?22,?23,?24,?25)",
    [ADD_ROW] = "insert or ignore into perf_db (id, solver, config, params) values (?1,?2,?3,?4)",
    [REMOVE_ROWS] = "delete from perf_db where id = ?1",
    [REMOVE_CONFIG] = "delete from config where id = ?1",
};

static const struct {
    const char *name;
    bool number;
} columns[] = {
#define PERF_DB_NUMBER(name) { #name, true },
#define PERF_DB_TEXT(name) { #name, false },
#include "engine/miopen/perf_db_columns.def"
#undef PERF_DB_NUMBER
#undef PERF_DB_TEXT
};
#define COLUMNS (sizeof(columns) / sizeof(columns[0]))

struct perf_db_writer {
    struct db *db; /* owned; NULL once finished or failed */
    uint64_t last_config, last_id;
};

enum kiln_code perf_db_create(const char *path, struct perf_db_writer **ret_writer,
                              struct kiln_err *err)
{
    KILN_AUTO(perf_db_writer) struct perf_db_writer *writer = calloc(1, sizeof(*writer));
    if (!writer)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to write '%s'", path);
    struct db_new_file_options options = { .path = path,
                                           .setup = schema,
                                           .statements = statements,
                                           .statement_count =
                                               sizeof(statements) / sizeof(statements[0]),
                                           .value_max = 2 * TUNING_VALUE_MAX };
    enum kiln_code rc = db_new_file(&options, &writer->db, err);
    if (!rc)
        *ret_writer = KILN_TAKE(writer);
    return rc;
}

void perf_db_writer_destroy(struct perf_db_writer *writer)
{
    if (!writer)
        return;
    db_new_file_abandon(writer->db);
    free(writer);
}

struct key_parts {
    struct bytes texts[COLUMNS];
    int64_t numbers[COLUMNS];
};

/* Accepts only the canonical spelling, so that reading the file gives the same key. */
static bool parse_number(struct bytes text, int64_t *ret_number)
{
    int64_t number = 0;
    size_t sign = text.size > 1 && text.data[0] == '-' && text.data[1] != '0' ? 1 : 0;
    if (text.size == 0 || (text.size > 1 && text.data[sign] == '0'))
        return false;
    for (size_t i = sign; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9' ||
            __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, text.data[i] - '0', &number))
            return false;
    }
    *ret_number = sign ? -number : number;
    return true;
}

static struct bytes cut_part(struct bytes *key)
{
    const uint8_t *x = key->size ? memchr(key->data, 'x', key->size) : NULL;
    struct bytes part = bytes_of(key->data, x ? (size_t)(x - key->data) : key->size);
    *key = bytes_of(key->data + part.size + (x ? 1 : 0), key->size - part.size - (x ? 1 : 0));
    return part;
}

static enum kiln_code parse_key(struct bytes key, struct key_parts *parts, struct kiln_err *err)
{
    enum kiln_code rc = tuning_word_check("key", key, /* commas= */ false, err);
    bool end = false;
    for (size_t i = 0; !rc && i < COLUMNS; i++) {
        struct bytes part = cut_part(&key);
        end = part.data + part.size == key.data;
        parts->texts[i] = part;
        if (columns[i].number ? !parse_number(part, &parts->numbers[i]) : part.size == 0)
            rc = kiln_fail(
                err, KILN_INVALID,
                "'%.*s' is not a valid %s: a PerfDb key has 21 numbers, layout, type and "
                "direction, joined by 'x'",
                part.size > 60 ? 60 : (int)part.size, (const char *)part.data, columns[i].name);
    }
    if (!rc && (key.size || !end))
        rc = kiln_fail(err, KILN_INVALID, "the key has more than %zu parts", COLUMNS);
    return rc;
}

static enum kiln_code check_value(struct bytes value, const uint64_t *ids, struct kiln_err *err)
{
    struct tuning_entry e;
    enum kiln_code rc = KILN_OK;
    if (value.size > TUNING_VALUE_MAX)
        return kiln_fail(err, KILN_INVALID, "the record has %zu bytes; the limit is %u", value.size,
                         TUNING_VALUE_MAX);
    for (size_t i = 0; !rc; i++) {
        rc = tuning_entry_next(TUNING_PERF, &value, &e, err);
        if (!rc && i == TUNING_ENTRIES_MAX)
            rc = kiln_fail(err, KILN_INVALID, "the record has more than %u entries",
                           TUNING_ENTRIES_MAX);
        if (!rc && ids && (ids[i] == 0 || ids[i] > INT64_MAX))
            rc = kiln_fail(err, KILN_INVALID, "%llu is not a valid row id",
                           (unsigned long long)ids[i]);
    }
    return rc == KILN_NOT_FOUND ? KILN_OK : rc;
}

static uint64_t max_of(uint64_t a, uint64_t b) { return a > b ? a : b; }

static enum kiln_code run_insert(struct perf_db_writer *writer, struct query *q, bool *ret_changed,
                                 struct kiln_err *err)
{
    enum kiln_code rc = query_run(q, err);
    if (!rc)
        *ret_changed = db_changes(writer->db) > 0;
    return rc;
}

static enum kiln_code add_config(struct perf_db_writer *writer, const struct key_parts *parts,
                                 uint64_t id, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(writer->db, ADD_CONFIG);
    bool added = false;
    query_bind_u64(&q, 1, id);
    for (size_t i = 0; i < COLUMNS; i++) {
        if (columns[i].number)
            query_bind_i64(&q, (int)i + 2, parts->numbers[i]);
        else
            query_bind_text_view(&q, (int)i + 2, parts->texts[i]);
    }
    enum kiln_code rc = run_insert(writer, &q, &added, err);
    if (!rc && !added)
        rc = kiln_fail(err, KILN_INVALID, "its key or config id %llu exists already",
                       (unsigned long long)id);
    return rc;
}

static enum kiln_code add_row(struct perf_db_writer *writer, const struct tuning_entry *e,
                              uint64_t config, uint64_t id, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(writer->db, ADD_ROW);
    bool added = false;
    query_bind_u64(&q, 1, id);
    query_bind_text_view(&q, 2, e->solver);
    query_bind_u64(&q, 3, config);
    query_bind_text_view(&q, 4, e->params);
    enum kiln_code rc = run_insert(writer, &q, &added, err);
    if (!rc && !added)
        rc = kiln_fail(err, KILN_INVALID, "its solver '%.*s' or row id %llu exists already",
                       e->solver.size > 80 ? 80 : (int)e->solver.size, (const char *)e->solver.data,
                       (unsigned long long)id);
    return rc;
}

static enum kiln_code remove_row(struct perf_db_writer *writer, size_t statement, uint64_t id,
                                 struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(writer->db, statement);
    query_bind_u64(&q, 1, id);
    return query_run(&q, err);
}

/* Removes the rows of a record that could not be added.  |err| keeps the error of the addition.  If
 * the removal also fails, |err| gets the error of the removal, and the file is then unusable. */
static enum kiln_code undo_record(struct perf_db_writer *writer, uint64_t config,
                                  const uint64_t *ids, size_t count, struct kiln_err *err)
{
    struct kiln_err why = *err;
    enum kiln_code rc = remove_row(writer, REMOVE_CONFIG, config, err);
    for (size_t i = 0; !rc && i < count; i++)
        rc = remove_row(writer, REMOVE_ROWS, ids[i], err);
    if (!rc)
        *err = why;
    return rc ? rc : KILN_INVALID;
}

/* Adds the rows of a record. If |ids| is NULL, the rows get the ids after the highest one so
 * far. */
static enum kiln_code add_rows(struct perf_db_writer *writer, struct bytes value, uint64_t config,
                               const uint64_t *ids, struct kiln_err *err)
{
    uint64_t used[TUNING_ENTRIES_MAX], last = writer->last_id;
    struct tuning_entry e;
    size_t count = 0;
    enum kiln_code rc = tuning_entry_next(TUNING_PERF, &value, &e, err);
    while (!rc) {
        used[count] = ids ? ids[count] : last + 1;
        rc = add_row(writer, &e, config, used[count], err);
        if (rc)
            break;
        last = max_of(last, used[count++]);
        rc = tuning_entry_next(TUNING_PERF, &value, &e, err);
    }
    if (rc == KILN_INVALID)
        return undo_record(writer, config, used, count, err);
    if (rc == KILN_NOT_FOUND)
        writer->last_id = last;
    return rc == KILN_NOT_FOUND ? KILN_OK : rc;
}

enum kiln_code perf_db_writer_add(struct perf_db_writer *writer, const struct tuning_record *record,
                                  struct kiln_err *err)
{
    struct key_parts parts = { 0 };
    uint64_t config = record->line ? record->line : writer->last_config + 1;
    enum kiln_code rc = parse_key(record->key, &parts, err);
    if (!rc)
        rc = check_value(record->value, record->ids, err);
    if (!rc && config > INT64_MAX)
        rc = kiln_fail(err, KILN_INVALID, "%llu is not a valid config id",
                       (unsigned long long)config);
    if (!rc)
        rc = add_config(writer, &parts, config, err);
    if (!rc)
        rc = add_rows(writer, record->value, config, record->ids, err);
    if (!rc)
        writer->last_config = max_of(writer->last_config, config);
    return rc;
}

enum kiln_code perf_db_writer_finish(struct perf_db_writer *writer, struct kiln_err *err)
{
    struct db *db = writer->db;
    writer->db = NULL;
    return db_new_file_finish(db, err);
}
