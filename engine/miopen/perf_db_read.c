/* SPDX-License-Identifier: MIT */
#include "common/miopen/tuning_text.h"
#include "engine/db/query.h"
#include "engine/miopen/perf_db_rows.h"
#include "engine/miopen/tuning_file.h"
#include "engine/miopen/tuning_ids.h"
#include "engine/miopen/tuning_keys.h"
#include "engine/miopen/tuning_reader.h"

#include "common/base/clock.h"

#include <stdio.h>
#include <string.h>

#define CACHE_KIB 2048
#define VALUE_MAX (16u << 20)
#define PROGRESS_EACH 4096u

static const char *const columns[] = {
    "id",
#define PERF_DB_NUMBER(name) #name,
#define PERF_DB_TEXT(name) #name,
#include "engine/miopen/perf_db_columns.def"
#undef PERF_DB_NUMBER
#undef PERF_DB_TEXT
};
#define COLUMNS (sizeof(columns) / sizeof(columns[0]))
static const struct db_table table = { "config", columns, COLUMNS };

static const char *const statement = "select id"
#define PERF_DB_NUMBER(name) ", " #name
#define PERF_DB_TEXT(name) ", " #name
#include "engine/miopen/perf_db_columns.def"
#undef PERF_DB_NUMBER
#undef PERF_DB_TEXT
                                     ", case when typeof(id) <> 'integer' then 'id'"
#define PERF_DB_NUMBER(name) " when typeof(" #name ") <> 'integer' then '" #name "'"
#define PERF_DB_TEXT(name) " when typeof(" #name ") <> 'text' then '" #name "'"
#include "engine/miopen/perf_db_columns.def"
#undef PERF_DB_NUMBER
#undef PERF_DB_TEXT
                                     " else '' end from config";

struct perf_db_reader {
    const struct tuning_reader_events *events;
    struct perf_db_rows rows;
    struct db *db;
    /* Reads the table config. Its |db| is NULL until all rows of perf_db were read. */
    struct query query;
    uint64_t left; /* how many more rows the table config can have in a file of this size; if it has
                    * more, the file is damaged */
    uint64_t next;
    uint64_t reported;
    int64_t config_id;
    size_t key_start;
    bool is_in_record; /* while the rows of perf_db for |config_id| are read */
    struct tuning_keys keys;
    struct buffer key_texts;
    struct buffer value;
    struct tuning_ids solvers;
    uint64_t ids[TUNING_ENTRIES_MAX];
};

static enum kiln_code report_bad(const struct perf_db_reader *r, uint64_t id, const char *why)
{
    return r->events->bad(r->events->context, id, why) ? KILN_OK : KILN_CANCELLED;
}

static void put_number(struct buffer *to, uint64_t number)
{
    char digits[20];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    buffer_put(to, digits + at, sizeof(digits) - at);
}

/* Appends one column to a key. An 'x' separates the columns of a key, so no column may contain
 * one. */
static enum kiln_code put_word(struct buffer *to, const char *column, struct bytes word,
                               struct kiln_err *err)
{
    enum kiln_code rc = tuning_word_check(column, word, false, err);
    if (!rc && memchr(word.data, 'x', word.size))
        rc = kiln_fail(err, KILN_INVALID, "the %s contains an 'x'", column);
    if (!rc)
        buffer_put(to, word.data, word.size);
    return rc;
}

static bool is_text(size_t column) { return column >= COLUMNS - 3; }

static enum kiln_code put_column(struct buffer *to, const struct query *q, size_t column,
                                 struct kiln_err *err)
{
    if (column > 1)
        buffer_put_u8(to, 'x');
    if (is_text(column))
        return put_word(to, columns[column], query_bytes(q, (int)column), err);
    int64_t number = query_i64(q, (int)column);
    if (number == INT64_MIN)
        return kiln_fail(err, KILN_INVALID, "its %s is out of range", columns[column]);
    if (number < 0) /* AMD's gfx1030_36.db has an in_h of -5 */
        buffer_put_u8(to, '-');
    put_number(to, (uint64_t)(number < 0 ? -number : number));
    return KILN_OK;
}

static enum kiln_code put_key(struct buffer *to, const struct query *q, struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    size_t start = to->size;
    for (size_t i = 1; !rc && i < COLUMNS; i++)
        rc = put_column(to, q, i, err);
    if (!rc && to->failed)
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for the keys of a PerfDb");
    if (!rc && to->size - start > TUNING_KEY_MAX)
        rc = kiln_fail(err, KILN_INVALID, "its key has more than %u bytes", TUNING_KEY_MAX);
    return rc;
}

static enum kiln_code add_config(struct perf_db_reader *r, const struct query *q, size_t *ret_start,
                                 struct kiln_err *err)
{
    struct buffer *texts = &r->key_texts;
    const char *wrong = query_text(q, COLUMNS);
    int64_t id = query_i64(q, 0);
    size_t start = texts->size;
    bool known = false;
    if (*wrong)
        return kiln_fail(err, KILN_INVALID, "its %s has the wrong type", wrong);
    if (id < 1 || id <= r->config_id)
        return kiln_fail(err, KILN_INVALID, "its id %lld is out of order", (long long)id);
    r->config_id = id;
    enum kiln_code rc = put_key(texts, q, err);
    if (!rc)
        rc = tuning_keys_add(&r->keys, texts->data,
                             bytes_of(texts->data + start, texts->size - start), &known, err);
    if (!rc && known)
        rc = kiln_fail(err, KILN_INVALID, "there is an earlier row of the same problem");
    if (rc)
        texts->size = start;
    *ret_start = start;
    return rc;
}

static const char *refusal_of_row(const struct perf_db_reader *r, struct bytes solver,
                                  struct bytes params)
{
    if (tuning_ids_has(&r->solvers, solver))
        return "there is an earlier row of the same problem and solver";
    if (r->solvers.count == TUNING_ENTRIES_MAX)
        return "its problem has too many rows";
    if (r->value.size + solver.size + params.size + 2 > TUNING_VALUE_MAX)
        return "the rows of its problem are too long";
    return NULL;
}

static enum kiln_code report_row(const struct perf_db_reader *r, const struct perf_db_row *row,
                                 const char *why)
{
    char text[160];
    snprintf(text, sizeof(text), "row of perf_db: %s", why);
    return report_bad(r, (uint64_t)row->id, text);
}

static enum kiln_code add_row(struct perf_db_reader *r, const struct perf_db_row *row)
{
    struct bytes solver = perf_db_row_solver(&r->rows, row);
    struct bytes params = perf_db_row_params(&r->rows, row);
    const char *why = refusal_of_row(r, solver, params);
    if (why)
        return report_row(r, row, why);
    tuning_entry_write_perf(&r->value, solver, params);
    r->ids[r->solvers.count] = (uint64_t)row->id;
    (void)tuning_ids_add(&r->solvers, solver); /* cannot fail, as refusal_of_row has checked */
    return KILN_OK;
}

static void pop_row(struct perf_db_reader *r)
{
    perf_db_rows_pop(&r->rows);
    r->next++;
}

/* Reports the remaining rows of perf_db whose config id is less than |id| as bad: the table config
 * has no valid row with these ids. Sets |ret_more| if the time is up. */
static enum kiln_code report_dangling(struct perf_db_reader *r, int64_t id, uint64_t end_ns,
                                      bool *ret_more)
{
    const struct perf_db_row *row = NULL;
    enum kiln_code rc = KILN_OK;
    *ret_more = false;
    while (!rc && !*ret_more && (row = perf_db_rows_peek(&r->rows)) && row->config < id) {
        char why[80];
        snprintf(why, sizeof(why), "the table config has no good row %lld", (long long)row->config);
        rc = report_row(r, row, why);
        pop_row(r);
        *ret_more = clock_monotonic_ns() >= end_ns;
    }
    return rc;
}

static enum kiln_code read_rows(struct perf_db_reader *r, uint64_t end_ns, bool *ret_more)
{
    const struct perf_db_row *row = NULL;
    enum kiln_code rc = report_dangling(r, r->config_id, end_ns, ret_more);
    while (!rc && !*ret_more && (row = perf_db_rows_peek(&r->rows)) &&
           row->config == r->config_id) {
        rc = add_row(r, row);
        pop_row(r);
        *ret_more = clock_monotonic_ns() >= end_ns;
    }
    return rc;
}

static void report_progress(struct perf_db_reader *r, bool end)
{
    const struct tuning_reader_events *e = r->events;
    if (!e->progress || (!end && r->next - r->reported < PROGRESS_EACH))
        return;
    e->progress(e->context, r->next, r->rows.rows.count);
    r->reported = r->next;
}

static enum kiln_code emit_record(struct perf_db_reader *r, struct kiln_err *err)
{
    if (r->value.failed)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read a PerfDb");
    struct tuning_record record = { .key = bytes_of(r->key_texts.data + r->key_start,
                                                    r->key_texts.size - r->key_start),
                                    .value = buffer_view(&r->value),
                                    .entry_count = r->solvers.count,
                                    .line = (uint64_t)r->config_id,
                                    .ids = r->solvers.count ? r->ids : NULL,
                                    .id_count = r->solvers.count };
    report_progress(r, false);
    return r->events->record(r->events->context, &record) ? KILN_OK : KILN_CANCELLED;
}

static enum kiln_code begin_record(struct perf_db_reader *r, struct kiln_err *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    enum kiln_code rc = add_config(r, &r->query, &r->key_start, &why);
    if (rc == KILN_INVALID) {
        char text[200];
        snprintf(text, sizeof(text), "row of config: %.160s", why.text);
        return report_bad(r, query_u64(&r->query, 0), text);
    }
    if (rc)
        *err = why;
    tuning_ids_clear(&r->solvers);
    r->value.size = 0;
    r->is_in_record = !rc;
    return rc;
}

static enum kiln_code next_config(struct perf_db_reader *r, struct kiln_err *err)
{
    bool row = false;
    enum kiln_code rc = query_step(&r->query, &row, err);
    if (!rc && row)
        rc = begin_record(r, err);
    if (!rc && r->left-- == 0)
        rc = kiln_fail(err, KILN_CORRUPT,
                       "the table config has more rows than fit into the file: it is damaged");
    if (!rc && !row)
        query_done(&r->query);
    return rc;
}

static enum kiln_code continue_record(struct perf_db_reader *r, uint64_t end_ns,
                                      struct kiln_err *err)
{
    bool more = false;
    enum kiln_code rc = read_rows(r, end_ns, &more);
    if (rc || more)
        return rc;
    r->is_in_record = false;
    return emit_record(r, err);
}

static enum kiln_code end_configs(struct perf_db_reader *r, uint64_t end_ns, bool *ret_more)
{
    enum kiln_code rc = report_dangling(r, INT64_MAX, end_ns, ret_more);
    if (!rc && !*ret_more)
        report_progress(r, true);
    return rc;
}

static enum kiln_code read_configs(struct perf_db_reader *r, uint64_t end_ns, bool *ret_more,
                                   struct kiln_err *err)
{
    const size_t keys = r->key_texts.size;
    while (r->query.db) {
        enum kiln_code rc = r->is_in_record ? continue_record(r, end_ns, err) : next_config(r, err);
        if (rc || r->key_texts.size - keys >= TUNING_READ_BYTES || clock_monotonic_ns() >= end_ns)
            return rc;
    }
    return end_configs(r, end_ns, ret_more);
}

enum kiln_code perf_db_reader_step(struct perf_db_reader *r,
                                   const struct tuning_reader_events *events, uint64_t end_ns,
                                   bool *ret_more, struct kiln_err *err)
{
    r->events = events;
    *ret_more = true;
    if (!r->rows.db)
        return read_configs(r, end_ns, ret_more, err);
    bool more = false;
    enum kiln_code rc = perf_db_rows_step(&r->rows, events, end_ns, &more, err);
    if (!rc && !more) {
        rc = tuning_keys_init(&r->keys, r->rows.rows.count, err);
        r->query = query_of(r->db, 0);
    }
    return rc == KILN_CORRUPT ? kiln_while(err, "not a PerfDb of MIOpen") : rc;
}

uint64_t perf_db_reader_bytes(const struct perf_db_reader *r)
{
    return sizeof(*r) + perf_db_rows_bytes(&r->rows) + tuning_keys_bytes(&r->keys) +
           r->key_texts.size + r->value.size;
}

void perf_db_reader_destroy(struct perf_db_reader *r)
{
    if (!r)
        return;
    if (r->query.db)
        query_done(&r->query);
    perf_db_rows_done(&r->rows);
    tuning_keys_done(&r->keys);
    buffer_done(&r->key_texts);
    buffer_done(&r->value);
    db_destroy(r->db);
    free(r);
}

enum kiln_code perf_db_reader_open(const char *path, struct perf_db_reader **ret_reader,
                                   struct kiln_err *err)
{
    KILN_AUTO(perf_db_reader) struct perf_db_reader *r = calloc(1, sizeof(*r));
    if (!r)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to read '%s'", path);
    struct db_options options = { .path = path,
                                  .statements = &statement,
                                  .statement_count = 1,
                                  .value_max = VALUE_MAX,
                                  .cache_kib = CACHE_KIB,
                                  .read_only = true,
                                  .immutable = true,
                                  .foreign = true,
                                  .table = &table };
    enum kiln_code rc = db_open(&options, &r->db, err);
    if (!rc)
        rc = perf_db_rows_open(&options, &r->rows, err);
    if (rc == KILN_CORRUPT)
        return kiln_while(err, "not a PerfDb of MIOpen");
    if (rc)
        return rc;
    r->left = perf_db_rows_max(r->rows.file_size);
    /* A key can be longer than its row in the file: a number that is stored in one byte may become
     * "127x". */
    buffer_init(&r->key_texts, 8 * r->rows.file_size + 2 * TUNING_KEY_MAX);
    buffer_init(&r->value, TUNING_VALUE_MAX + 1);
    rc = tuning_ids_init(&r->solvers, err);
    if (!rc)
        *ret_reader = KILN_TAKE(r);
    return rc;
}
