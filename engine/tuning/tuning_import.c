/* SPDX-License-Identifier: MIT */
#include "engine/miopen/tuning_keys.h"
#include "engine/miopen/tuning_reader.h"
#include "engine/tuning/claim.h"
#include "engine/tuning/tuning_job.h"
#include "engine/tuning/tuning_record.h"

#include "common/base/clock.h"

#include <stdio.h>
#include <sys/stat.h>

struct tuning_reading {
    struct tuning_job *job;
    struct tuning_reader *reader;
    struct tuning_index_builder *builder; /* owned; for the system tier. In other tiers NULL: the
                                           * records are kept in memory */
    struct tuning_row rows[TUNING_ENTRIES_MAX];
    struct tuning_keys keys; /* to detect repeated keys; a conversion can make two keys the same */
    struct buffer key_texts;
    uint64_t size;
    uint64_t fresh;
    enum kiln_code rc;
    struct kiln_err *err;
};

void job_reading_destroy(struct tuning_reading *r)
{
    if (!r)
        return;
    tuning_reader_destroy(r->reader);
    tuning_index_builder_destroy(r->builder);
    tuning_keys_done(&r->keys);
    buffer_done(&r->key_texts);
    free(r);
}

uint64_t job_reading_bytes(const struct tuning_reading *r)
{
    if (!r)
        return 0;
    return sizeof(*r) + tuning_reader_bytes(r->reader) + tuning_index_builder_bytes(r->builder) +
           tuning_keys_bytes(&r->keys) + r->key_texts.size;
}

struct named {
    char text[PROBLEM_KEY_MAX];
    struct bytes key;
    struct problem problem;
    bool has_problem;
    struct family_names names;
    struct kinship kin;
};

/* Converts a FindDb key, as in old text PerfDbs, into a PerfDb key. A problem whose tensors differ
 * in layout has no PerfDb key, so the record keeps its FindDb key, and |why| says so. */
static void convert_key(struct named *named, struct kiln_err *why)
{
    const struct problem *problem = &named->problem;
    size_t size = perf_key_write(problem, named->text);
    if (size == 0) {
        kiln_fail(why, KILN_UNSUPPORTED, "a PerfDb has no key for tensors that differ in layout");
        return;
    }
    named->key = bytes_of(named->text, size);
    named->kin = kinship_of_key(TUNING_PERF, named->key, &named->names);
}

/* If kiln cannot parse the key or describe its problem, keeps the key verbatim, and |why| says why.
 * AMD's own files have such keys. */
static void name_record(const struct tuning_job *job, struct bytes key, struct named *named,
                        struct kiln_err *why)
{
    struct kiln_err as_find = KILN_ERR_INIT;
    struct problem *problem = &named->problem;
    bool is_perf = job->import.name.kind == TUNING_PERF;
    named->key = key;
    named->has_problem = false;
    named->kin = (struct kinship){ 0 };
    enum kiln_code rc =
        is_perf ? perf_key_parse(key, problem, why) : find_key_parse(key, problem, why);
    bool is_find = !is_perf;
    if (is_perf && rc == KILN_INVALID) {
        enum kiln_code found = find_key_parse(key, problem, &as_find);
        is_find = found != KILN_INVALID;
        rc = is_find ? found : rc;
        *why = is_find ? as_find : *why;
    }
    if (rc)
        return;
    named->has_problem = true;
    if (is_perf == is_find)
        convert_key(named, why);
    else
        named->kin = kinship_of(problem, &named->names);
}

static enum kiln_code check_entries(const struct tuning_job *job, struct bytes value,
                                    const struct named *named, struct kiln_err *err)
{
    struct tuning_entry entry;
    struct kiln_err ignored = KILN_ERR_INIT;
    enum tuning_kind kind = job->import.name.kind;
    const struct problem *problem = named->has_problem ? &named->problem : NULL;
    char direction = problem ? *direction_name((enum direction)problem->direction) : 0;
    const double floor_ms = problem && kind == TUNING_FIND ? claim_floor_ms(problem) : 0;
    enum kiln_code rc = KILN_OK;
    while (!rc && tuning_entry_next(kind, &value, &entry, &ignored) == KILN_OK) {
        /* If kiln does not know the problem, the algorithm may have any name, such as "fusion". */
        rc = problem ? tuning_entry_check(kind, &entry, direction, err)
                     : tuning_solver_check(entry.solver, err);
        if (!rc && kind == TUNING_FIND)
            rc = claim_check_time(floor_ms, entry.time_ms, err);
    }
    return rc;
}

static bool index_record(struct tuning_reading *r, const struct tuning_record *record,
                         const struct named *named)
{
    struct tuning_index_record line = { .key = named->key,
                                        .value = record->value,
                                        .kin = named->kin,
                                        .number = record->line,
                                        .ids = record->ids,
                                        .id_count = record->id_count };
    r->rc = tuning_index_builder_add(r->builder, &line, r->err);
    return r->rc == KILN_OK;
}

static struct tuning_measurement imported_by(const struct tuning_import *import)
{
    return (struct tuning_measurement){ .origin = { "", "", "", "", import->library, 0 },
                                        .uid = import->uid };
}

static uint64_t size_of(const struct record *record)
{
    uint64_t size = record->place.key.size + record->count * TUNING_ENTRY_COST;
    for (size_t i = 0; i < record->count; i++)
        size += record->rows[i].id.size + record->rows[i].values.size;
    return size;
}

static void fail_full(struct tuning_reading *r, const char *what, uint64_t max)
{
    r->rc = kiln_fail(r->err, KILN_FULL,
                      "with '%s', user %u would exceed %s, which is %llu for one user: remove some "
                      "records (kilnctl db rm)",
                      r->job->import.source_name, (unsigned)r->job->import.uid, what,
                      (unsigned long long)max);
}

/* Ends the import if its records alone exceed the user's limits, before they fill the memory. */
static void check_limits(struct tuning_reading *r, const struct record *record)
{
    const struct tuning *t = r->job->tuning;
    if (r->job->import.tier != TUNING_TIER_USER)
        return;
    r->size += size_of(record);
    r->fresh += !tuning_table_find(t->table, &record->place);
    uint64_t records = r->fresh + tuning_table_count_of(t->table, record->place.uid);
    if (t->records_per_uid > 0 && r->fresh > 0 && records > t->records_per_uid)
        fail_full(r, "the limit of measured records (setting tuning_records_per_uid)",
                  t->records_per_uid);
    else if (t->bytes_per_uid > 0 && r->size > t->bytes_per_uid)
        fail_full(r, "the limit of bytes in measured records (setting tuning_bytes_per_uid)",
                  t->bytes_per_uid);
}

/* Refuses a record with a repeated key. In SQLite files, the reader has checked this already. */
static enum kiln_code check_repeated(struct tuning_reading *r, struct bytes key,
                                     struct kiln_err *err)
{
    bool is_known = false;
    size_t start = r->key_texts.size;
    const struct tuning_file_name *name = &r->job->import.name;
    if (r->builder || name->kind != TUNING_PERF || name->format == TUNING_SQLITE)
        return KILN_OK;
    buffer_put(&r->key_texts, key.data, key.size);
    if (r->key_texts.failed)
        return job_no_memory(err);
    enum kiln_code rc = tuning_keys_add(
        &r->keys, r->key_texts.data, bytes_of(r->key_texts.data + start, key.size), &is_known, err);
    if (is_known)
        r->key_texts.size = start;
    return is_known
               ? kiln_fail(err, KILN_INVALID, "its problem is repeated; the first record counts")
               : rc;
}

static bool keep_record(struct tuning_reading *r, const struct tuning_record *record,
                        const struct named *named)
{
    const struct tuning_import *import = &r->job->import;
    struct record_list *given = &r->job->given;
    struct tuning_place place = { .tier = import->tier,
                                  .uid = import->tier == TUNING_TIER_USER ? import->uid
                                                                          : TUNING_NOBODY,
                                  .kind = import->name.kind,
                                  .database_id = import->name.database_id,
                                  .backend = import->name.backend,
                                  .key = named->key };
    struct bytes left = record->value;
    struct tuning_entry entry;
    size_t count = 0;
    while (count < TUNING_ENTRIES_MAX &&
           tuning_entry_next(import->name.kind, &left, &entry, r->err) == KILN_OK)
        r->rows[count++] = (struct tuning_row){
            .place = place, .id = entry.id, .values = entry.values, .measured = imported_by(import)
        };
    if (count == 0)
        return true;
    r->rc = record_list_add(given, record_create(&place, r->rows, count), r->err);
    if (!r->rc)
        check_limits(r, given->records[given->count - 1]);
    return r->rc == KILN_OK;
}

static bool on_bad(void *context, uint64_t line, const char *why)
{
    struct tuning_reading *r = context;
    const struct tuning_job_events *events = r->job->events;
    r->job->counts.bad++;
    if (events && events->bad)
        events->bad(events->context, line, why);
    if (r->job->import.strict)
        r->rc = kiln_fail(r->err, KILN_INVALID, "'%s', %s %llu: %s", r->job->import.source_name,
                          r->job->import.name.format == TUNING_TEXT ? "line" : "row",
                          (unsigned long long)line, why);
    return r->rc == KILN_OK;
}

static void on_verbatim(struct tuning_reading *r, const struct tuning_record *record,
                        const struct kiln_err *why)
{
    const struct tuning_job_events *events = r->job->events;
    r->job->counts.verbatim++;
    if (events && events->verbatim)
        events->verbatim(events->context, record->line, record->key, why->text);
}

static bool on_record(void *context, const struct tuning_record *record)
{
    struct tuning_reading *r = context;
    struct kiln_err why = KILN_ERR_INIT;
    struct named named;
    struct kiln_err wrong = KILN_ERR_INIT;
    name_record(r->job, record->key, &named, &why);
    if (check_entries(r->job, record->value, &named, &wrong) != KILN_OK ||
        check_repeated(r, named.key, &wrong) == KILN_INVALID)
        return on_bad(r, record->line, wrong.text);
    if (wrong.code == KILN_NO_MEMORY) {
        *r->err = wrong;
        r->rc = wrong.code;
        return false;
    }
    r->job->counts.records++;
    r->job->counts.entries += record->entry_count;
    if (named.kin.batch == 0)
        on_verbatim(r, record, &why);
    return r->builder ? index_record(r, record, &named) : keep_record(r, record, &named);
}

static void on_progress(void *context, uint64_t done, uint64_t total)
{
    struct tuning_reading *r = context;
    job_progress(r->job, "reading", done, total);
}

static enum kiln_code check_room(const struct tuning_job *job, struct kiln_err *err)
{
    const struct tuning_file_name *name = &job->import.name;
    if (job->tuning->system_count < SYSTEMS_MAX ||
        system_slot_find_imported(job->tuning, name->kind, name->database_id, name->backend))
        return KILN_OK;
    return kiln_fail(err, KILN_FULL,
                     "there are %u system databases already, which is the maximum: remove one with "
                     "'kilnctl db rm --tier system'",
                     SYSTEMS_MAX);
}

/* Returns a unique name, because the database's old index is still in use. */
static char *new_index_name(const struct tuning_file_name *name)
{
    char *text = NULL;
    uint64_t unique = clock_monotonic_ns() ^ clock_wall_s() << 32;
    int size =
        asprintf(&text, "%s-%s%s%s-%llx.kti", tuning_kind_name(name->kind), name->database_id,
                 *name->backend ? "." : "", name->backend, (unsigned long long)unique);
    return size < 0 ? NULL : text;
}

static char *path_in_directory(const struct tuning *t, const char *name)
{
    char *path = NULL;
    return asprintf(&path, "%s/%s", t->directory, name) < 0 ? NULL : path;
}

static enum kiln_code write_index(struct tuning_job *job, struct tuning_index_builder *builder,
                                  struct kiln_err *err)
{
    const struct tuning_file_name *name = &job->import.name;
    struct tuning_system_file file = { .kind = name->kind,
                                       .database_id = name->database_id,
                                       .backend = name->backend,
                                       .source = job->import.source_name,
                                       .records = job->counts.records,
                                       .entries = job->counts.entries,
                                       .rejected = job->counts.bad,
                                       .imported_at = clock_wall_s(),
                                       .uid = job->import.uid };
    const struct system_slot *old =
        system_slot_find(job->tuning, name->kind, name->database_id, name->backend);
    job->counts.before = old ? old->file.records : 0;
    job->new_index = new_index_name(name);
    KILN_AUTO(mem)
    char *path = job->new_index ? path_in_directory(job->tuning, job->new_index) : NULL;
    if (!path)
        return job_no_memory(err);
    job_progress(job, "writing", 0, job->counts.records);
    file.index_file = job->new_index;
    enum kiln_code rc = tuning_index_builder_write(builder, path, &file.digest, err);
    if (!rc)
        rc = system_slot_open(job->tuning, &file, &job->slot, err);
    if (!rc && !job->slot->index)
        rc = kiln_fail(err, KILN_IO, "%s", job->slot->why);
    return rc;
}

static enum kiln_code open_file(struct tuning_reading *r, struct kiln_err *err)
{
    const struct tuning_import *import = &r->job->import;
    struct stat seen;
    if (stat(import->path, &seen) == 0)
        r->job->counts.bytes = (uint64_t)seen.st_size;
    if (tuning_reader_open(import->path, import->name.kind, import->name.format, &r->reader, err))
        return kiln_while(err, "reading '%s'", import->source_name);
    return KILN_OK;
}

static enum kiln_code begin_reading(struct tuning_job *job, struct kiln_err *err)
{
    bool is_system = job->import.tier == TUNING_TIER_SYSTEM;
    struct tuning_reading *r = calloc(1, sizeof(*r));
    job->reading = r;
    if (!r)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot read tuning records: out of memory");
    r->job = job;
    buffer_init(&r->key_texts, SIZE_MAX);
    enum kiln_code rc = is_system ? check_room(job, err) : KILN_OK;
    if (!rc && !is_system)
        rc = tuning_keys_init(&r->keys, /* expected= */ 0, err);
    if (!rc && is_system)
        rc = tuning_index_builder_create(job->import.name.kind, &r->builder, err);
    return rc ? rc : open_file(r, err);
}

static enum kiln_code read_some(struct tuning_reading *r, uint64_t end_ns, bool *ret_more,
                                struct kiln_err *err)
{
    const struct tuning_reader_events events = {
        .record = on_record, .bad = on_bad, .progress = on_progress, .context = r
    };
    struct kiln_err reader_err = KILN_ERR_INIT;
    r->err = err;
    enum kiln_code rc = tuning_reader_step(r->reader, &events, end_ns, ret_more, &reader_err);
    if (r->rc)
        return r->rc;
    if (rc)
        *err = reader_err;
    return rc ? kiln_while(err, "reading '%s'", r->job->import.source_name) : KILN_OK;
}

static enum kiln_code end_system(struct tuning_job *job, struct kiln_err *err)
{
    if (job->counts.records == 0)
        return kiln_fail(err, KILN_INVALID,
                         "'%s' contains no readable record: nothing was imported",
                         job->import.source_name);
    enum kiln_code rc = check_room(job, err); /* other imports may have run meanwhile */
    return rc ? rc : write_index(job, job->reading->builder, err);
}

enum kiln_code job_read(struct tuning_job *job, uint64_t end_ns, bool *ret_more,
                        struct kiln_err *err)
{
    *ret_more = false;
    enum kiln_code rc = job->reading ? KILN_OK : begin_reading(job, err);
    if (!rc)
        rc = read_some(job->reading, end_ns, ret_more, err);
    if (rc || *ret_more)
        return rc;
    if (job->reading->builder)
        rc = end_system(job, err);
    job_reading_destroy(job->reading);
    job->reading = NULL;
    return rc;
}
