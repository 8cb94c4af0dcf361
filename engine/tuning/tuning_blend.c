/* SPDX-License-Identifier: MIT */
#include "engine/tuning/tuning_job.h"
#include "engine/tuning/tuning_record.h"
#include "engine/tuning/tuning_share.h"

#include <stdio.h>
#include <string.h>

struct blend {
    struct tuning_job *job;
    const struct tuning_place *place;
    struct tuning_row *rows;
    size_t count;
    size_t size;
    struct record_list owners; /* own the values that restate_time has rewritten */
    bool changed;
    struct kiln_err *err;
};

/* Returns whether |row| is an entry of |solver|. In FindDb's old dialect, the solver is not the id
 * of an entry, but one of its values. */
static bool is_of_solver(const struct tuning_row *row, struct bytes solver)
{
    struct tuning_entry entry;
    return tuning_row_entry(row, &entry) && bytes_equal(entry.solver, solver);
}

static struct tuning_row *row_of(struct blend *b, const struct tuning_row *from)
{
    for (size_t i = 0; i < b->count; i++) {
        if (bytes_equal(b->rows[i].id, from->id))
            return &b->rows[i];
    }
    struct tuning_entry entry;
    bool is_entry = b->place->kind == TUNING_FIND && tuning_row_entry(from, &entry);
    for (size_t i = 0; is_entry && i < b->count; i++) {
        if (is_of_solver(&b->rows[i], entry.solver))
            return &b->rows[i];
    }
    return NULL;
}

static void report_conflict(struct blend *b, struct bytes id, const char *why)
{
    struct tuning_job *job = b->job;
    char text[400];
    job->counts.conflicts++;
    snprintf(text, sizeof(text), "%.*s: %s", (int)(id.size < 100 ? id.size : 100),
             (const char *)id.data, why);
    if (job->events && job->events->conflict)
        job->events->conflict(job->events->context, b->place, text);
}

static size_t size_of(const struct tuning_row *row)
{
    return row->id.size + 1 + row->values.size + 1;
}

static enum kiln_code refuse_entry(struct blend *b, const struct tuning_row *from)
{
    if (b->job->type == JOB_PUT)
        return kiln_fail(b->err, KILN_FULL,
                         "a tuning record has at most %u entries and %u bytes, so '%.*s' does not "
                         "fit: remove entries of solvers that no longer exist (kilnctl db rm)",
                         TUNING_ENTRIES_MAX, TUNING_VALUE_MAX,
                         (int)(from->id.size < 60 ? from->id.size : 60),
                         (const char *)from->id.data);
    report_conflict(b, from->id, "omitted, because the record is full");
    return KILN_OK;
}

static bool fits_record(const struct blend *b, size_t without, const struct tuning_row *with)
{
    return b->size - without + size_of(with) <= TUNING_VALUE_MAX + 1;
}

static enum kiln_code add_entry(struct blend *b, const struct tuning_row *from)
{
    if (b->count == TUNING_ENTRIES_MAX || !fits_record(b, 0, from))
        return refuse_entry(b, from);
    b->rows[b->count++] = *from;
    b->size += size_of(from);
    b->changed = true;
    return KILN_OK;
}

static enum kiln_code restate_time(struct blend *b, struct tuning_row *row)
{
    struct tuning_entry entry;
    BUFFER_AUTO struct buffer written;
    buffer_init(&written, row->id.size + row->values.size + 1024);
    if (!tuning_row_entry(row, &entry))
        return KILN_OK; /* the values have no time */
    entry.time_ms = row->measured.median_ms;
    tuning_entry_write_find(&written, entry.dialect, &entry);
    if (written.failed)
        return job_no_memory(b->err);
    struct tuning_row restated = *row;
    size_t from = row->id.size + 1;
    restated.values = bytes_of(written.data + from, written.size - from);
    struct record *owner = record_create(&row->place, &restated, 1);
    enum kiln_code rc = record_list_add(&b->owners, owner, b->err);
    if (!rc)
        row->values = owner->rows[0].values;
    return rc;
}

/* Merges |from| into |into|. In a put, |from| replaces an entry of another device, driver or
 * toolchain, however many samples that entry has. */
static struct merge merge_rows(struct blend *b, struct tuning_row *into,
                               const struct tuning_row *from)
{
    if (b->job->type != JOB_PUT || merge_is_same_setting(into, from))
        return measurement_merge(b->place->kind, into, from);
    into->id = from->id;
    into->values = from->values;
    into->measured = from->measured;
    return (struct merge){ .result = MERGE_TAKEN };
}

static enum kiln_code blend_entry(struct blend *b, const struct tuning_row *from)
{
    struct tuning_row *there = row_of(b, from);
    if (!there)
        return add_entry(b, from);
    struct tuning_row into = *there;
    struct merge merge = merge_rows(b, &into, from);
    enum kiln_code rc = KILN_OK;
    if (merge.is_conflict)
        report_conflict(b, from->id, merge.why);
    if (merge.result == MERGE_SAME || merge.result == MERGE_KEPT)
        return KILN_OK;
    if (merge.result == MERGE_POOLED && b->place->kind == TUNING_FIND)
        rc = restate_time(b, &into);
    if (rc)
        return rc;
    if (!fits_record(b, size_of(there), &into))
        return refuse_entry(b, from);
    b->size += size_of(&into) - size_of(there);
    *there = into;
    b->changed = true;
    return KILN_OK;
}

/* Returns the stored record or, if this job has already changed it (a promotion may change a record
 * twice), the pending record. */
static const struct tuning_held *find_held(const struct tuning_job *job,
                                           const struct tuning_place *place, bool *ret_pending)
{
    const struct tuning_held *held = job->pending ? tuning_table_find(job->pending, place) : NULL;
    *ret_pending = held != NULL;
    return held ? held : tuning_table_find(job->tuning->table, place);
}

/* Adds the record to the job's changes. Copies it, because it may borrow texts from the pending
 * record, which tuning_table_put frees. */
static enum kiln_code keep_record(struct blend *b)
{
    struct tuning_job *job = b->job;
    struct record *record = record_create(b->place, b->rows, b->count);
    enum kiln_code rc = record_list_add(&job->changes, record, b->err);
    if (!rc && job->type != JOB_PUT && !job->pending)
        rc = tuning_table_create(&job->pending, b->err);
    if (!rc && job->pending)
        rc = tuning_table_put(job->pending, &record->place, record->rows, record->count, b->err);
    return rc;
}

/* Returns whether the blended record can be stored. Otherwise reports a conflict, and the new
 * entries are left out. Does not check puts, which fail as a whole later. */
static bool may_be_stored(struct blend *b, const struct tuning_row *from, enum kiln_code *ret_rc)
{
    struct kiln_err why = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer packed;
    char text[320];
    buffer_init(&packed, TUNING_CONTENT_MAX);
    if (b->job->type == JOB_PUT)
        return true;
    enum kiln_code rc = tuning_place_check(b->place, &why);
    if (!rc)
        rc = tuning_record_pack(b->place, b->rows, b->count, &packed, &why);
    if (rc == KILN_INVALID) {
        snprintf(text, sizeof(text),
                 "omitted with the other entries of user %u in this record: %.200s",
                 (unsigned)from->measured.uid, why.text);
        report_conflict(b, from->id, text);
        return false;
    }
    if (rc)
        *b->err = why;
    *ret_rc = rc;
    return rc == KILN_OK;
}

static void start_with(struct blend *b, const struct tuning_held *held)
{
    memcpy(b->rows, held->rows, held->row_count * sizeof(*b->rows));
    b->count = held->row_count;
    for (size_t i = 0; i < b->count; i++)
        b->size += size_of(&b->rows[i]);
}

/* Keeps measured entries of solvers that the imported record does not have. */
static enum kiln_code keep_measured(struct blend *b, const struct tuning_held *held)
{
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; !rc && i < held->row_count; i++) {
        const struct tuning_row *row = &held->rows[i];
        if (row->measured.samples > 0 && !row_of(b, row))
            rc = add_entry(b, row);
    }
    return rc;
}

enum kiln_code job_merge_record(struct tuning_job *job, const struct tuning_place *place,
                                const struct tuning_row *from, size_t count, struct kiln_err *err)
{
    bool is_pending;
    const struct tuning_held *held = find_held(job, place, &is_pending);
    /* An import replaces the stored record. If its file has two records with the same key, the
     * second one is merged into the first. */
    bool replaces = !held || (job->type == JOB_IMPORT && !is_pending);
    KILN_AUTO(mem)
    struct tuning_row *rows = malloc(((held ? held->row_count : 0) + count) * sizeof(*rows));
    if (!rows)
        return job_no_memory(err);
    struct blend b = { .job = job, .place = place, .rows = rows, .changed = replaces, .err = err };
    if (!replaces)
        start_with(&b, held);
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; !rc && i < count; i++)
        rc = blend_entry(&b, &from[i]);
    if (!rc && held && replaces)
        rc = keep_measured(&b, held);
    if (!rc && b.changed && b.count > 0 && may_be_stored(&b, from, &rc)) {
        job->counts.added += held == NULL;
        job->counts.replaced += held != NULL && !is_pending;
        rc = keep_record(&b);
    }
    record_list_done(&b.owners);
    return rc;
}

enum kiln_code job_merge_statement(struct tuning_job *job, const struct record *from,
                                   struct kiln_err *err)
{
    const struct tuning_held *held = tuning_table_find(job->merged, &from->place);
    enum kiln_code rc = KILN_OK;
    KILN_AUTO(mem)
    struct tuning_row *rows = malloc(((held ? held->row_count : 0) + from->count) * sizeof(*rows));
    if (!rows)
        return job_no_memory(err);
    struct blend b = { .job = job, .place = &from->place, .rows = rows, .err = err };
    if (held)
        start_with(&b, held);
    for (size_t i = 0; !rc && i < from->count; i++)
        rc = blend_entry(&b, &from->rows[i]);
    if (!rc && b.changed && may_be_stored(&b, from->rows, &rc))
        rc = tuning_table_put(job->merged, b.place, b.rows, b.count, err);
    record_list_done(&b.owners);
    return rc;
}

/* ---- the fleet's entries in the host's records ---- */

static void start_with_own(struct blend *b, const struct tuning_held *held)
{
    for (size_t i = 0; i < held->row_count; i++) {
        if (tuning_row_is_of_fleet(&held->rows[i]))
            continue;
        b->rows[b->count++] = held->rows[i];
        b->size += size_of(&held->rows[i]);
    }
}

/* The host's own entry always stays: after a revocation it could not be restored. */
static enum kiln_code add_of_fleet(struct blend *b, const struct tuning_row *fleet)
{
    return row_of(b, fleet) ? KILN_OK : add_entry(b, fleet);
}

static bool is_same_row(const struct tuning_row *a, const struct tuning_row *b)
{
    const struct tuning_measurement *x = &a->measured, *y = &b->measured;
    return bytes_equal(a->id, b->id) && bytes_equal(a->values, b->values) &&
           x->samples == y->samples && x->median_ms == y->median_ms &&
           x->spread_ms == y->spread_ms && x->measured_at == y->measured_at &&
           strcmp(x->origin.library, y->origin.library) == 0;
}

static bool is_as_stored(const struct blend *b, const struct tuning_held *held)
{
    if (!held || held->row_count != b->count)
        return !held && b->count == 0;
    for (size_t i = 0; i < b->count; i++)
        if (!is_same_row(&b->rows[i], &held->rows[i]))
            return false;
    return true;
}

enum kiln_code job_restate_record(struct tuning_job *job, const struct tuning_place *place,
                                  const struct tuning_row *fleet, size_t count,
                                  struct kiln_err *err)
{
    const struct tuning_held *held = tuning_table_find(job->tuning->table, place);
    size_t most = (held ? held->row_count : 0) + count;
    enum kiln_code rc = KILN_OK;
    KILN_AUTO(mem) struct tuning_row *rows = malloc((most + 1) * sizeof(*rows));
    if (!rows)
        return job_no_memory(err);
    struct blend b = { .job = job, .place = place, .rows = rows, .err = err };
    if (held)
        start_with_own(&b, held);
    for (size_t i = 0; !rc && i < count; i++)
        rc = add_of_fleet(&b, &fleet[i]);
    if (rc || is_as_stored(&b, held) || (b.count > 0 && !may_be_stored(&b, rows, &rc)))
        return rc;
    job->counts.records++;
    job->counts.entries += count;
    job->counts.added += !held;
    job->counts.replaced += held && b.count > 0;
    job->counts.removed += b.count == 0;
    return record_list_add(&job->changes, record_create(place, rows, b.count), err);
}
