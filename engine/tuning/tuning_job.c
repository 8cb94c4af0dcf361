/* SPDX-License-Identifier: MIT */
#include "engine/tuning/tuning_job.h"

#include "common/base/clock.h"

/* How long a step applies records. The rest of the step is for the commit. */
#define STORE_NS (TUNING_STEP_NS / 2)
/* If the write-ahead log has at least this many pages after a step, the job's next step checkpoints
 * it. SQLite itself does so in a commit that reaches 1000 pages. */
#define LOG_LONG 250u
/* Maximum number of records that a call of tuning_job_take copies into memory. The copy blocks the
 * engine's loop for about a millisecond. */
#define TAKE_STEP 250u
/* After a failed allocation, tuning_job_take tries again at most this many times. */
#define TAKE_RETRIES 10u
/* Maximum number of records in a step. Each record changes two or three pages, so the commit of a
 * step writes up to 3 MiB. */
#define STORE_MAX TAKE_STEP

const struct tuning_counts *tuning_job_counts(const struct tuning_job *job) { return &job->counts; }

uint64_t tuning_job_bytes(const struct tuning_job *job)
{
    if (job->type != JOB_IMPORT && job->type != JOB_MERGE && job->type != JOB_REMOVE)
        return 0;
    return job->given.bytes + job->changes.bytes + job_reading_bytes(job->reading);
}

void job_progress(const struct tuning_job *job, const char *step, uint64_t done, uint64_t total)
{
    if (job->events && job->events->progress)
        job->events->progress(job->events->context, step, done, total);
}

static enum kiln_code work_put(struct tuning_job *job, struct kiln_err *err)
{
    const struct record *given = job->given.records[0];
    bool is_done = false;
    enum kiln_code rc = KILN_OK;
    job->applied = job->given.count;
    if (job->is_once && job->tuning->db)
        rc = tuning_db_has_put(job->tuning->db, given->rows[0].measured.uid, &job->token, &is_done,
                               err);
    if (rc || is_done)
        return rc;
    job->counts.records = 1;
    job->counts.entries = given->count;
    return job_merge_record(job, &given->place, given->rows, given->count, err);
}

static size_t pick_others(const struct tuning_job *job, const struct tuning_held *held,
                          struct tuning_row *ret_rows)
{
    size_t count = 0;
    for (size_t i = 0; i < held->row_count; i++) {
        if (!tuning_row_is_selected(&job->selection, &held->rows[i]))
            ret_rows[count++] = held->rows[i];
    }
    return count;
}

/* Removes entries of the record at |place|. Other jobs may have changed this record since the
 * removal listed it. */
static enum kiln_code remove_at(struct tuning_job *job, const struct tuning_place *place,
                                struct kiln_err *err)
{
    const struct tuning_held *held = tuning_table_find(job->tuning->table, place);
    if (!held)
        return KILN_OK;
    KILN_AUTO(mem)
    struct tuning_row *rows = malloc(held->row_count * sizeof(*rows));
    if (!rows)
        return job_no_memory(err);
    size_t kept = pick_others(job, held, rows);
    job->counts.records++;
    job->counts.entries += held->row_count - kept;
    if (kept == held->row_count)
        return KILN_OK;
    job->counts.removed += kept == 0;
    job->counts.replaced += kept > 0;
    return record_list_add(&job->changes, record_create(&held->place, rows, kept), err);
}

struct listing {
    struct tuning_job *job;
    enum kiln_code rc;
    struct kiln_err *err;
};

static bool list_place(void *context, const struct tuning_held *held)
{
    struct listing *listing = context;
    listing->rc =
        record_list_add(&listing->job->given, record_create(&held->place, NULL, 0), listing->err);
    return listing->rc == KILN_OK;
}

static enum kiln_code list_selected(struct tuning_job *job, uint64_t end_ns, bool *ret_more,
                                    struct kiln_err *err)
{
    struct listing listing = { .job = job, .err = err };
    job->walk.selection = &job->selection;
    job->walk.each = list_place;
    job->walk.context = &listing;
    tuning_walk_step(job->tuning, &job->walk, end_ns);
    *ret_more = !job->walk.is_over;
    return listing.rc;
}

static enum kiln_code apply_next(struct tuning_job *job, struct kiln_err *err)
{
    struct record *next = job->given.records[job->applied];
    enum kiln_code rc = KILN_OK;
    switch (job->type) {
    case JOB_REMOVE: rc = remove_at(job, &next->place, err); break;
    case JOB_RESTATE:
        rc = job_restate_record(job, &next->place, next->rows, next->count, err);
        break;
    default: rc = job_merge_record(job, &next->place, next->rows, next->count, err);
    }
    job->given.records[job->applied++] = NULL; /* freed here, on the work queue, and not on the
                                                * engine's thread */
    record_destroy(next);
    return rc;
}

static enum kiln_code write_changes(struct tuning_job *job, struct tuning_change *change,
                                    struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    const struct record_list *list = &job->changes;
    for (; !rc && change && job->written < list->count; job->written++) {
        const struct record *r = list->records[job->written];
        rc = tuning_change_record(change, &r->place, r->rows, r->count, err);
    }
    return rc;
}

static enum kiln_code put_changes(struct tuning_job *job, struct tuning_change *change,
                                  uint64_t end_ns, struct kiln_err *err)
{
    enum kiln_code rc = write_changes(job, change, err);
    while (!rc && job->applied < job->given.count) {
        rc = apply_next(job, err);
        if (!rc)
            rc = write_changes(job, change, err);
        if (job->applied % 1000 == 0)
            job_progress(job, "writing", job->applied, job->given.count);
        if (job->changes.count >= STORE_MAX || clock_monotonic_ns() >= end_ns)
            break;
    }
    return rc;
}

/* Stores copies of the records that a promotion changes, so that the promotion can be undone. */
static enum kiln_code keep_before(const struct tuning_job *job, struct tuning_change *change,
                                  struct kiln_err *err)
{
    bool promotes = job->type == JOB_PROMOTE && job->changes.count > 0;
    enum kiln_code rc = KILN_OK;
    if (promotes || job->type == JOB_UNDO_PROMOTION)
        rc = tuning_change_forget_before(change, err);
    for (size_t i = 0; promotes && !rc && i < job->changes.count; i++)
        rc = tuning_change_keep_before(change, &job->changes.records[i]->place, err);
    return rc;
}

/* Stores checksums of what a promotion wrote, so that undoing the promotion can detect records that
 * were changed later. */
static enum kiln_code note_written(const struct tuning_job *job, struct tuning_change *change,
                                   struct kiln_err *err)
{
    enum kiln_code rc = KILN_OK;
    for (size_t i = 0; job->type == JOB_PROMOTE && !rc && i < job->changes.count; i++)
        rc = tuning_change_note_written(change, &job->changes.records[i]->place, err);
    return rc;
}

static bool is_last_step(const struct tuning_job *job)
{
    return job->is_worked_out && job->applied == job->given.count;
}

static enum kiln_code put_rest(const struct tuning_job *job, struct tuning_change *change,
                               struct kiln_err *err)
{
    enum kiln_code rc = note_written(job, change, err);
    if (!rc && job->is_once && job->counts.records > 0)
        rc = tuning_change_add_put(change, job->given.records[0]->rows[0].measured.uid, &job->token,
                                   err);
    if (!rc && job->slot)
        rc = tuning_change_system(change, &job->slot->file, err);
    if (!rc && job->type == JOB_REMOVE_SYSTEM)
        rc = tuning_change_system_remove(change, job->selection.kind, job->selection.database_id,
                                         job->selection.backend, err);
    return rc;
}

static enum kiln_code commit_changes(struct tuning_job *job, uint64_t end_ns, struct kiln_err *err)
{
    KILN_AUTO(tuning_change) struct tuning_change *change = NULL;
    if (!job->tuning->db) {
        job->is_on_disk = true;
        return KILN_OK;
    }
    enum kiln_code rc = tuning_change_begin(job->tuning->db, &change, err);
    if (!rc)
        rc = keep_before(job, change, err);
    if (!rc)
        rc = put_changes(job, change, end_ns, err);
    if (!rc && is_last_step(job))
        rc = put_rest(job, change, err);
    if (rc)
        return rc;
    rc = tuning_change_commit(change, err);
    /* The file of the new index stays even if the commit failed, because a failed commit may have
     * taken effect. The next start removes files that tuning.db does not list. */
    free(job->new_index);
    job->new_index = NULL;
    job->is_on_disk = rc == KILN_OK;
    job->needs_checkpoint =
        !rc && !is_last_step(job) && tuning_db_log_pages(job->tuning->db) >= LOG_LONG;
    return rc;
}

static enum kiln_code work_out(struct tuning_job *job, uint64_t end_ns, struct kiln_err *err)
{
    bool more = false;
    enum kiln_code rc = KILN_OK;
    switch (job->type) {
    case JOB_IMPORT:
    case JOB_MERGE: rc = job_read(job, end_ns, &more, err); break;
    case JOB_PUT: rc = work_put(job, err); break;
    case JOB_PROMOTE: rc = job_promote(job, err); break;
    case JOB_UNDO_PROMOTION: rc = job_undo_promotion(job, err); break;
    case JOB_REMOVE: rc = list_selected(job, end_ns, &more, err); break;
    case JOB_RESTATE: rc = job_list_restated(job, end_ns, &more, err); break;
    default: break;
    }
    job->is_worked_out = !rc && !more;
    return rc;
}

/* Checkpoints a long log. Otherwise, a later commit would do this, perhaps during another user's
 * put. If the checkpoint fails, a later commit tries again. */
static void checkpoint(struct tuning_job *job)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    job->needs_checkpoint = false;
    (void)!tuning_db_checkpoint(job->tuning->db, &ignored);
}

static enum kiln_code work_step(struct tuning_job *job, struct kiln_err *err)
{
    const uint64_t now_ns = clock_monotonic_ns(), end_ns = now_ns + STORE_NS;
    size_t stored = job->type == JOB_PUT ? 0 : job->applied;
    enum kiln_code rc = KILN_OK;
    if (!job->is_worked_out) {
        rc = work_out(job, now_ns + TUNING_STEP_NS, err);
        bool has_records = job->applied < job->given.count;
        if (rc || !job->is_worked_out || (has_records && clock_monotonic_ns() >= end_ns))
            return rc;
    }
    if (job->promotion.is_dry_run) {
        record_list_done(&job->changes);
        return KILN_OK;
    }
    rc = commit_changes(job, end_ns, err);
    if (rc && stored > 0)
        return kiln_while(err, "after %zu of %zu records were stored", stored, job->given.count);
    return rc;
}

enum kiln_code tuning_job_work(struct tuning_job *job, const struct tuning_job_events *events,
                               struct kiln_err *err)
{
    if (job->type == JOB_BACKUP)
        return tuning_db_backup(job->tuning->db, job->path, err);
    if (job->type == JOB_VACUUM)
        return tuning_db_vacuum(job->tuning->db, &job->counts.bytes, err);
    if (job->is_on_disk)
        tuning_job_clear(job);
    job->is_on_disk = false;
    if (job->needs_checkpoint) {
        checkpoint(job);
        return KILN_OK;
    }
    job->events = events;
    enum kiln_code rc = work_step(job, err);
    job->events = NULL;
    return rc;
}

bool tuning_job_has_more(const struct tuning_job *job)
{
    return job->type != JOB_BACKUP && job->type != JOB_VACUUM && !is_last_step(job);
}

static void forget_slot(struct tuning *t, const struct system_slot *slot)
{
    for (unsigned i = 0; i < t->system_count; i++) {
        if (t->systems[i] == slot)
            t->systems[i] = t->systems[--t->system_count];
    }
}

static void report_change(const struct tuning *t, enum tuning_tier tier, uint32_t owner)
{
    if (t->changed)
        t->changed(t->context, tier, owner);
}

/* Reports each owner once, if his records follow each other, as they do in most jobs. */
static void report_taken(const struct tuning *t, const struct tuning_job *job, size_t from)
{
    for (size_t i = from; i < job->taken; i++) {
        const struct tuning_place *place = &job->changes.records[i]->place;
        const struct tuning_place *before = i > from ? &job->changes.records[i - 1]->place : NULL;
        if (!before || before->tier != place->tier || before->uid != place->uid)
            report_change(t, place->tier, place->uid);
    }
}

static void take_system(struct tuning *t, struct tuning_job *job)
{
    bool removes = job->type == JOB_REMOVE_SYSTEM;
    if (!job->slot && !removes)
        return;
    struct system_slot *old =
        removes ? system_slot_find_imported(t, job->selection.kind, job->selection.database_id,
                                            job->selection.backend)
                : system_slot_find_imported(t, job->slot->file.kind, job->slot->file.database_id,
                                            job->slot->file.backend);
    if (old) {
        forget_slot(t, old);
        job->old = old;
    }
    if (job->slot)
        t->systems[t->system_count++] = KILN_TAKE(job->slot);
    if (old || !removes)
        report_change(t, TUNING_TIER_SYSTEM, TUNING_NOBODY);
}

bool tuning_job_take(struct tuning *t, struct tuning_job *job)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    take_system(t, job);
    size_t begin = job->taken, end = begin + TAKE_STEP;
    for (; job->taken < job->changes.count && job->taken < end; job->taken++) {
        const struct record *r = job->changes.records[job->taken];
        if (tuning_table_put(t->table, &r->place, r->rows, r->count, &ignored) == KILN_OK)
            continue;
        if (job->retries++ < TAKE_RETRIES)
            break;
        t->left_out++; /* look-ups get the old record until the next start */
    }
    report_taken(t, job, begin);
    return job->taken == job->changes.count;
}

void tuning_job_clear(struct tuning_job *job)
{
    if (job->old)
        job_remove_index(job->tuning, job->old->file.index_file);
    system_slot_destroy(job->old);
    job->old = NULL;
    tuning_table_destroy(job->pending);
    job->pending = NULL;
    if (job->taken == job->changes.count) {
        record_list_done(&job->changes);
        job->taken = job->written = 0;
    }
}

void tuning_job_give_up(struct tuning_job *job)
{
    job_reading_destroy(job->reading);
    job->reading = NULL;
    record_list_done(&job->given);
    job->applied = 0;
    record_list_done(&job->statements);
    tuning_table_destroy(job->merged);
    job->merged = NULL;
}
