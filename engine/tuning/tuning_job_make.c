/* SPDX-License-Identifier: MIT */
#include "engine/tuning/claim.h"
#include "engine/tuning/tuning_job.h"
#include "engine/tuning/tuning_share.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static enum kiln_code create_job(struct tuning *t, enum job_type type, struct tuning_job **ret_job,
                                 struct kiln_err *err)
{
    if (!t->db && type != JOB_PUT)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "this program has no tuning databases on disk: use kilnd");
    struct tuning_job *job = calloc(1, sizeof(*job));
    if (!job)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot change tuning records: out of memory");
    job->tuning = t;
    job->type = type;
    *ret_job = job;
    return KILN_OK;
}

enum kiln_code job_no_memory(struct kiln_err *err)
{
    return kiln_fail(err, KILN_NO_MEMORY, "cannot change tuning records: out of memory");
}

static char *copy_text(const char *text) { return strdup(text ? text : ""); }

/* Refuses a '/', because these texts become part of an index's file name. */
static enum kiln_code check_name(const struct tuning_file_name *name, struct kiln_err *err)
{
    if (*name->database_id && !strchr(name->database_id, '/') && !strchr(name->backend, '/'))
        return KILN_OK;
    return kiln_fail(err, KILN_INVALID, "'%s' is not a database id such as gfx90a68",
                     name->database_id);
}

static enum kiln_code create_reading(struct tuning *t, enum job_type type,
                                     const struct tuning_import *import,
                                     struct tuning_job **ret_job, struct kiln_err *err)
{
    KILN_AUTO(tuning_job) struct tuning_job *job = NULL;
    enum kiln_code rc = check_name(&import->name, err);
    if (!rc)
        rc = create_job(t, type, &job, err);
    if (rc)
        return rc;
    job->import = *import;
    snprintf(job->import.name.backend, sizeof(job->import.name.backend), "%s",
             tuning_backend(import->name.kind, import->name.database_id, import->name.backend));
    job->import.path = copy_text(import->path);
    job->import.source_name = copy_text(import->source_name);
    job->import.library = copy_text(import->library);
    if (!job->import.path || !job->import.source_name || !job->import.library)
        return job_no_memory(err);
    *ret_job = KILN_TAKE(job);
    return KILN_OK;
}

enum kiln_code tuning_job_import(struct tuning *t, const struct tuning_import *import,
                                 struct tuning_job **ret_job, struct kiln_err *err)
{
    return create_reading(t, JOB_IMPORT, import, ret_job, err);
}

enum kiln_code tuning_job_merge(struct tuning *t, const struct tuning_import *import,
                                struct tuning_job **ret_job, struct kiln_err *err)
{
    if (import->tier == TUNING_TIER_SYSTEM)
        return kiln_fail(err, KILN_INVALID,
                         "a system database is replaced, never merged: import the file, or merge "
                         "it into the host's or the user's records");
    return create_reading(t, JOB_MERGE, import, ret_job, err);
}

static bool is_amount(double ms) { return ms >= 0 && ms <= TUNING_FIGURE_MAX; }

/* Checks that every part is valid in text, because records are exported as text and parsed
 * again. */
enum kiln_code job_check_row(const struct tuning_place *place, const struct tuning_row *measured,
                             struct kiln_err *err)
{
    struct tuning_row checked = *measured, *row = &checked;
    struct tuning_entry entry;
    struct problem problem;
    row->place = *place;
    enum kiln_code rc = tuning_word_check("key", row->place.key, /* commas= */ true, err);
    if (!rc && (!is_amount(row->measured.median_ms) || !is_amount(row->measured.spread_ms)))
        rc = kiln_fail(err, KILN_INVALID,
                       "a measured time must be 0 to %g ms, not %g with spread %g",
                       TUNING_FIGURE_MAX, row->measured.median_ms, row->measured.spread_ms);
    if (!rc)
        rc = tuning_word_check("id of an entry", row->id, /* commas= */ false, err);
    if (!rc && row->values.size > TUNING_VALUE_MAX)
        rc = kiln_fail(err, KILN_INVALID, "an entry has %zu bytes; at most %u are allowed",
                       row->values.size, TUNING_VALUE_MAX);
    if (!rc && !tuning_row_entry(row, &entry))
        rc = kiln_fail(err, KILN_INVALID, "the entry '%.*s' is not valid in a %s record",
                       (int)(row->id.size < 60 ? row->id.size : 60), (const char *)row->id.data,
                       tuning_kind_name(row->place.kind));
    if (!rc)
        rc = tuning_solver_check(entry.solver, err);
    bool is_known = !rc && claim_problem(place->kind, place->key, &problem);
    return rc ? rc : claim_check(is_known ? &problem : NULL, &row->measured, err);
}

static enum kiln_code check_put(const struct tuning_place *place, const struct tuning_row *row,
                                struct kiln_err *err)
{
    if (tuning_row_is_of_fleet(row))
        return kiln_fail(err, KILN_INVALID,
                         "the library of a measurement must not begin with '" TUNING_FLEET_ORIGIN
                         "': only records of the fleet have this");
    return job_check_row(place, row, err);
}

void job_cap_samples(struct record *record)
{
    for (size_t i = 0; i < record->count; i++) {
        if (record->rows[i].measured.samples > MERGE_SAMPLES_MAX)
            record->rows[i].measured.samples = MERGE_SAMPLES_MAX;
    }
}

/* Returns a copy of |place|. If the backend is empty, the copy has the backend of the device. A
 * copy in the host tier has no owner. */
static struct tuning_place normal_place(const struct tuning_place *place)
{
    struct tuning_place usual = *place;
    usual.backend = tuning_backend(place->kind, place->database_id, place->backend);
    if (place->tier == TUNING_TIER_HOST)
        usual.uid = TUNING_NOBODY;
    return usual;
}

static bool has_entry(const struct tuning_held *held, struct bytes id)
{
    for (size_t i = 0; i < held->row_count; i++) {
        if (bytes_equal(held->rows[i].id, id))
            return true;
    }
    return false;
}

static bool has_all(const struct tuning_held *held, const struct tuning_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!has_entry(held, rows[i].id))
            return false;
    }
    return true;
}

/* Checks the limits of a program without tuning.db. New measurements of existing entries are always
 * allowed. */
static enum kiln_code check_memory(const struct tuning *t, const struct tuning_place *place,
                                   const struct tuning_row *rows, size_t count,
                                   struct kiln_err *err)
{
    uint64_t max = t->records_per_uid;
    const struct tuning_held *held = tuning_table_find(t->table, place);
    if (held && has_all(held, rows, count))
        return KILN_OK;
    if (t->bytes_per_uid > 0 && tuning_table_bytes(t->table) >= t->bytes_per_uid)
        return kiln_fail(err, KILN_FULL,
                         "the records take %llu bytes in memory, which is the limit of this "
                         "program (setting tuning_bytes_per_uid)",
                         (unsigned long long)tuning_table_bytes(t->table));
    if (max == 0 || held || tuning_table_count_of(t->table, place->uid) < max)
        return KILN_OK;
    return kiln_fail(err, KILN_FULL,
                     "%llu records are in memory, which is the limit of this program (setting "
                     "tuning_records_per_uid)",
                     (unsigned long long)max);
}

enum kiln_code tuning_job_put(struct tuning *t, const struct tuning_row *rows, size_t count,
                              struct tuning_job **ret_job, struct kiln_err *err)
{
    KILN_AUTO(tuning_job) struct tuning_job *job = NULL;
    enum kiln_code rc = KILN_OK;
    if (count == 0 || count > TUNING_ENTRIES_MAX)
        return kiln_fail(err, KILN_INVALID, "a record must have 1 to %u entries; this one has %zu",
                         TUNING_ENTRIES_MAX, count);
    if (t->without_user)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "this kiln was built with KILN_DISABLE_USERDB: it stores no records");
    for (size_t i = 0; !rc && i < count; i++)
        rc = check_put(&rows[0].place, &rows[i], err);
    struct tuning_place place = normal_place(&rows[0].place);
    if (!rc && !t->db)
        rc = check_memory(t, &place, rows, count, err);
    if (!rc)
        rc = create_job(t, JOB_PUT, &job, err);
    if (rc)
        return rc;
    rc = record_list_add(&job->given, record_create(&place, rows, count), err);
    if (rc)
        return rc;
    job_cap_samples(job->given.records[0]);
    *ret_job = KILN_TAKE(job);
    return KILN_OK;
}

void tuning_job_once(struct tuning_job *job, const struct tuning_put_token *token)
{
    job->token = *token;
    job->is_once = true;
}

static bool copy_keys(struct tuning_job *job, const struct tuning_selection *from)
{
    job->selection.keys = NULL;
    job->selection.key_count = 0;
    if (from->key_count == 0)
        return true;
    struct tuning_key *keys = calloc(from->key_count, sizeof(*keys));
    job->selection.keys = keys;
    for (; keys && job->selection.key_count < from->key_count; job->selection.key_count++) {
        const struct tuning_key *key = &from->keys[job->selection.key_count];
        const uint8_t *bytes = (const uint8_t *)bytes_to_text(key->key);
        if (!bytes)
            return false;
        keys[job->selection.key_count] = (struct tuning_key){ key->kind, { bytes, key->key.size } };
    }
    return keys != NULL;
}

static void free_keys(const struct tuning_selection *selection)
{
    for (size_t i = 0; i < selection->key_count; i++)
        free((uint8_t *)selection->keys[i].key.data);
    free((struct tuning_key *)selection->keys);
}

static enum kiln_code create_selecting_job(struct tuning *t, enum job_type type,
                                           const struct tuning_selection *selection,
                                           struct tuning_job **ret_job, struct kiln_err *err)
{
    KILN_AUTO(tuning_job) struct tuning_job *job = NULL;
    enum kiln_code rc = create_job(t, type, &job, err);
    if (rc)
        return rc;
    job->selection = *selection;
    job->selection.database_id = copy_text(selection->database_id);
    job->selection.backend = copy_text(selection->backend);
    job->selection.solver = copy_text(selection->solver);
    job->selection.origin = copy_text(selection->origin);
    job->selection.key =
        (struct bytes){ (const uint8_t *)bytes_to_text(selection->key), selection->key.size };
    bool copied = copy_keys(job, selection);
    if (!copied || !job->selection.database_id || !job->selection.backend ||
        !job->selection.solver || !job->selection.origin || !job->selection.key.data)
        return job_no_memory(err);
    *ret_job = KILN_TAKE(job);
    return KILN_OK;
}

enum kiln_code tuning_job_promote(struct tuning *t, const struct tuning_selection *selection,
                                  const struct tuning_promotion *promotion,
                                  struct tuning_job **ret_job, struct kiln_err *err)
{
    struct tuning_selection of_users = *selection;
    of_users.tier = TUNING_TIER_USER;
    enum kiln_code rc = create_selecting_job(t, JOB_PROMOTE, &of_users, ret_job, err);
    if (!rc)
        (*ret_job)->promotion = *promotion;
    return rc;
}

enum kiln_code tuning_job_undo_promotion(struct tuning *t, struct tuning_job **ret_job,
                                         struct kiln_err *err)
{
    return create_job(t, JOB_UNDO_PROMOTION, ret_job, err);
}

enum kiln_code tuning_job_restate(struct tuning *t, const char *database_id,
                                  struct record_list *records, struct tuning_job **ret_job,
                                  struct kiln_err *err)
{
    KILN_AUTO(tuning_job) struct tuning_job *job = NULL;
    struct record_list taken = *records;
    *records = (struct record_list){ 0 };
    const struct tuning_selection of_host = { .tier = TUNING_TIER_HOST,
                                              .database_id = database_id,
                                              .origin = TUNING_FLEET_ORIGIN };
    enum kiln_code rc = create_selecting_job(t, JOB_RESTATE, &of_host, &job, err);
    if (rc) {
        record_list_done(&taken);
        return rc;
    }
    job->statements = taken;
    rc = tuning_table_create(&job->merged, err);
    if (!rc)
        *ret_job = KILN_TAKE(job);
    return rc;
}

void tuning_job_restate_keep(struct tuning_job *job, tuning_keep *keeps, const void *context)
{
    job->keeps = keeps;
    job->keeps_context = context;
}

enum kiln_code tuning_job_remove(struct tuning *t, const struct tuning_selection *selection,
                                 struct tuning_job **ret_job, struct kiln_err *err)
{
    struct tuning_selection of_user = *selection;
    if (selection->by_uid && selection->tier == TUNING_TIER_NONE)
        of_user.tier = TUNING_TIER_USER;
    return create_selecting_job(t, JOB_REMOVE, &of_user, ret_job, err);
}

enum kiln_code tuning_job_remove_system(struct tuning *t, const struct tuning_selection *database,
                                        struct tuning_job **ret_job, struct kiln_err *err)
{
    const enum tuning_kind kind = database->kind;
    const char *id = database->database_id;
    const struct tuning_selection selection = {
        .kind = kind, .database_id = id, .backend = tuning_backend(kind, id, database->backend)
    };
    const struct system_slot *slot = system_slot_find(t, kind, id, selection.backend);
    if (!slot)
        return kiln_fail(err, KILN_NOT_FOUND,
                         "there is no system %s database of '%s': 'kilnctl db stats' lists those "
                         "that were imported",
                         tuning_kind_name(kind), id);
    if (slot->item)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "the system %s database of '%s' is built into this program, so it cannot "
                         "be removed",
                         tuning_kind_name(kind), id);
    return create_selecting_job(t, JOB_REMOVE_SYSTEM, &selection, ret_job, err);
}

enum kiln_code tuning_job_vacuum(struct tuning *t, struct tuning_job **ret_job,
                                 struct kiln_err *err)
{
    return create_job(t, JOB_VACUUM, ret_job, err);
}

enum kiln_code tuning_job_backup(struct tuning *t, const char *path, struct tuning_job **ret_job,
                                 struct kiln_err *err)
{
    KILN_AUTO(tuning_job) struct tuning_job *job = NULL;
    enum kiln_code rc = create_job(t, JOB_BACKUP, &job, err);
    if (rc)
        return rc;
    job->path = copy_text(path);
    if (!job->path)
        return job_no_memory(err);
    *ret_job = KILN_TAKE(job);
    return KILN_OK;
}

/* Ignores a failure: the next start removes the file. */
void job_remove_index(const struct tuning *t, const char *name)
{
    KILN_AUTO(mem) char *path = NULL;
    if (asprintf(&path, "%s/%s", t->directory, name) < 0)
        path = NULL;
    if (path)
        unlink(path);
}

void tuning_job_destroy(struct tuning_job *job)
{
    if (!job)
        return;
    while (job->is_on_disk && !tuning_job_take(job->tuning, job)) {
    }
    if (job->new_index)
        job_remove_index(job->tuning, job->new_index);
    tuning_job_clear(job);
    tuning_job_give_up(job);
    record_list_done(&job->changes);
    record_list_done(&job->statements);
    tuning_table_destroy(job->merged);
    system_slot_destroy(job->slot);
    free((char *)job->import.path);
    free((char *)job->import.source_name);
    free((char *)job->import.library);
    free((char *)job->selection.database_id);
    free((char *)job->selection.backend);
    free((char *)job->selection.solver);
    free((char *)job->selection.origin);
    free((char *)job->selection.key.data);
    free_keys(&job->selection);
    free(job->new_index);
    free(job->path);
    free(job);
}
