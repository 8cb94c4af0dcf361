/* SPDX-License-Identifier: MIT */
#include "engine/miopen/names/miopen_files.h"
#include "engine/service/fleet/fleet_records.h"
#include "engine/service/tuning/tuning_query.h"

#include "common/base/clock.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static const struct admin_member export_members[] = {
    { "kind", MEMBER_TEXT },   { "database_id", MEMBER_TEXT }, { "backend", MEMBER_TEXT },
    { "tier", MEMBER_TEXT },   { "merged", MEMBER_FLAG },      { "dialect", MEMBER_TEXT },
    { "format", MEMBER_TEXT }, { "version", MEMBER_TEXT },     { 0 },
};

struct export
{
    struct tuning_export what;
    bool has_kind, is_sqlite;
    enum tuning_kind kind;
    char database_id[DATABASE_ID_MAX];
    char backend[TUNING_BACKEND_TEXT];
    char version[MIOPEN_VERSION_TEXT]; /* as in MIOpen's names of user files */
    struct tuning_file_name names[ADMIN_FILES_MAX];
    size_t count, written;
    struct tuning_exporter *exporter;
    struct json *files;
    struct tuning_selection tiers;
    struct tuning_walk walk;
    bool more;
};

static enum kiln_code read_words(const struct json *q, struct export *x, struct kiln_err *err)
{
    const char *dialect = json_get_text(q, "dialect", NULL);
    const char *format = json_get_text(q, "format", "sqlite");
    x->what.converts = dialect != NULL;
    x->what.dialect = dialect && strcmp(dialect, "old") == 0 ? FIND_OLD : FIND_NEW;
    if (dialect && strcmp(dialect, "old") != 0 && strcmp(dialect, "new") != 0)
        return kiln_fail(err, KILN_INVALID, "'dialect' must be 'old' or 'new', not '%.40s'",
                         dialect);
    x->is_sqlite = strcmp(format, "sqlite") == 0;
    if (!x->is_sqlite && strcmp(format, "text") != 0)
        return kiln_fail(err, KILN_INVALID, "'format' must be 'text' or 'sqlite', not '%.40s'",
                         format);
    return KILN_OK;
}

static enum kiln_code read_version(const struct json *q, struct export *x, struct kiln_err *err)
{
    const char *version = json_get_text(q, "version", "");
    if (!*version)
        return KILN_OK;
    enum kiln_code rc = database_version_check(bytes_of_text(version), err);
    if (rc)
        return rc;
    miopen_version_write(version, '_', x->version);
    if (strlen(x->version) >= sizeof(x->names->version))
        return kiln_fail(err, KILN_INVALID, "the version '%.40s' is too long for a file name",
                         version);
    return KILN_OK;
}

static enum kiln_code check_export(struct tuning_query *query, struct kiln_err *err)
{
    const struct json *q = query->base.question;
    struct export *x = query->state;
    enum kiln_code rc = tuning_tier_of_question(q, "tier", TUNING_TIER_SYSTEM, &x->what.tier, err);
    if (!rc)
        rc = tuning_kind_of_question(q, &x->kind, &x->has_kind, err);
    if (!rc)
        rc = tuning_database_id_of_question(q, x->database_id, err);
    if (!rc)
        rc = tuning_backend_of_question(q, x->backend, err);
    if (!rc)
        rc = read_words(q, x, err);
    if (!rc)
        rc = read_version(q, x, err);
    if (!rc && x->database_id[0])
        fleet_records_want(query->base.engine, x->database_id);
    x->what.uid = x->what.tier == TUNING_TIER_USER ? (uint32_t)query->base.uid : TUNING_NOBODY;
    x->what.merged = json_get_bool(q, "merged", false);
    return rc;
}

static bool is_wanted(const struct export *x, enum tuning_kind kind, const char *database_id,
                      const char *backend)
{
    return (!x->has_kind || x->kind == kind) &&
           (!x->database_id[0] || strcmp(x->database_id, database_id) == 0) &&
           (!x->backend[0] || kind == TUNING_PERF || strcmp(x->backend, backend) == 0);
}

static void note_name(struct export *x, enum tuning_kind kind, const char *database_id,
                      const char *backend)
{
    if (!is_wanted(x, kind, database_id, backend))
        return;
    for (size_t i = 0; i < x->count; i++) {
        const struct tuning_file_name *name = &x->names[i];
        if (name->kind == kind && strcmp(name->database_id, database_id) == 0 &&
            strcmp(name->backend, backend) == 0)
            return;
    }
    x->more |= x->count == ADMIN_FILES_MAX;
    if (x->more || strlen(database_id) >= DATABASE_ID_MAX || strlen(backend) >= TUNING_BACKEND_TEXT)
        return;
    struct tuning_file_name *name = &x->names[x->count++];
    /* MIOpen has SQLite files only for convolutions. */
    bool is_sqlite = kind == TUNING_PERF && x->is_sqlite && !backend[0];
    *name = (struct tuning_file_name){ .kind = kind,
                                       .format = is_sqlite ? TUNING_SQLITE : TUNING_TEXT };
    snprintf(name->database_id, sizeof(name->database_id), "%s", database_id);
    snprintf(name->backend, sizeof(name->backend), "%s", backend);
    name->is_user = x->version[0] || (x->what.tier == TUNING_TIER_USER && is_sqlite);
    /* A user's SQLite PerfDb is named after the version of its schema. */
    snprintf(name->version, sizeof(name->version), "%.39s",
             name->is_user && is_sqlite ? "1.1.0" : x->version);
}

static bool note_system(void *context, const struct tuning_system *system)
{
    note_name(context, system->file->kind, system->file->database_id, system->file->backend);
    return true;
}

static bool note_held(void *context, const struct tuning_held *held)
{
    struct export *x = context;
    enum tuning_tier tier = held->place.tier;
    if (tier == x->what.tier || (tier == TUNING_TIER_HOST && x->what.merged))
        note_name(x, held->place.kind, held->place.database_id, held->place.backend);
    return !x->more;
}

static void begin_gathering(struct export *x, const struct tuning *tuning)
{
    enum tuning_tier tier = x->what.tier;
    if (tier == TUNING_TIER_SYSTEM || x->what.merged)
        tuning_each_system(tuning, note_system, x);
    x->tiers = (struct tuning_selection){ .uid = x->what.uid, .by_uid = true };
    x->walk = (struct tuning_walk){ .selection = &x->tiers,
                                    .each = note_held,
                                    .context = x,
                                    .is_over = tier == TUNING_TIER_SYSTEM };
}

static enum kiln_code reserve_export_space(void *context, uint64_t bytes, struct kiln_err *err)
{
    return tuning_query_reserve_space(context, bytes, err);
}

static enum kiln_code begin_file(struct tuning_query *query, struct tuning *tuning,
                                 struct kiln_err *err)
{
    struct export *x = query->state;
    char path[PATH_MAX];
    tuning_query_path(query, path, sizeof(path));
    x->what.name = x->names[x->written];
    x->what.reserve_space = reserve_export_space;
    x->what.context = query;
    return tuning_exporter_create(tuning, &x->what, path, &x->exporter, err);
}

static void list_file(struct export *x, const struct tuning_counts *counts, uint64_t bytes)
{
    const struct tuning_file_name *name = &x->what.name;
    char shown[128];
    struct json *file = json_object();
    tuning_file_name_write(name, shown);
    json_set_text(file, "name", shown);
    json_set_text(file, "kind", tuning_kind_name(name->kind));
    json_set_text(file, "database_id", name->database_id);
    json_set_text(file, "backend", name->backend);
    json_set_u64(file, "records", counts->records);
    json_set_u64(file, "bytes", bytes);
    tuning_set_count(file, "damaged", counts->bad);
    json_append(x->files, file);
}

static enum kiln_code end_file(struct tuning_query *query, struct kiln_err *err)
{
    struct export *x = query->state;
    struct tuning_counts counts = { .records = 0 };
    char path[PATH_MAX];
    uint64_t bytes = 0;
    tuning_query_path(query, path, sizeof(path));
    enum kiln_code rc = tuning_exporter_finish(x->exporter, &counts, err);
    tuning_exporter_destroy(KILN_TAKE(x->exporter));
    if (rc == KILN_NOT_FOUND)
        return KILN_OK;
    if (!rc)
        rc = tuning_query_send_file(query, path, &bytes, err);
    if (!rc)
        list_file(x, &counts, bytes);
    return rc;
}

static enum kiln_code write_some(struct tuning_query *query, struct tuning *tuning, uint64_t end_ns,
                                 struct kiln_err *err)
{
    struct export *x = query->state;
    bool more = false;
    enum kiln_code rc = x->exporter ? KILN_OK : begin_file(query, tuning, err);
    if (!rc)
        rc = tuning_exporter_step(x->exporter, end_ns, &more, err);
    if (rc || more)
        return rc;
    rc = end_file(query, err);
    x->written++;
    if (!rc)
        tuning_progress_set_stage(query->progress, "writing", x->written, x->count);
    return rc;
}

static bool is_gathered(const struct export *x) { return x->files && x->walk.is_over; }

static enum kiln_code gather_some(struct tuning_query *query, const struct tuning *tuning,
                                  uint64_t end_ns, struct kiln_err *err)
{
    struct export *x = query->state;
    if (!x->files) {
        x->files = json_set_array(query->base.answer, "files");
        begin_gathering(x, tuning);
    }
    tuning_walk_step(tuning, &x->walk, end_ns);
    if (x->more)
        return kiln_fail(err, KILN_FULL,
                         "there are more than %d databases to export: name a database id or a kind",
                         ADMIN_FILES_MAX);
    return KILN_OK;
}

static enum kiln_code end_export(const struct tuning_query *query, struct kiln_err *err)
{
    const struct export *x = query->state;
    if (query->file_count == 0)
        return kiln_fail(err, KILN_NOT_FOUND, "there are no %s records%s%s to export",
                         tuning_tier_name(x->what.tier), x->database_id[0] ? " of " : "",
                         x->database_id);
    return KILN_OK;
}

static enum kiln_code work_export(struct tuning_query *query, struct tuning *tuning,
                                  struct kiln_err *err)
{
    struct export *x = query->state;
    const uint64_t end_ns = clock_monotonic_ns() + TUNING_STEP_NS;
    bool is_late = false;
    enum kiln_code rc = KILN_OK;
    if (!is_gathered(x)) {
        rc = gather_some(query, tuning, end_ns, err);
        is_late = clock_monotonic_ns() >= end_ns;
    }
    if (!rc && is_gathered(x) && x->written < x->count && !is_late)
        rc = write_some(query, tuning, end_ns, err);
    query->change.more = !is_gathered(x) || x->written < x->count;
    return rc || query->change.more ? rc : end_export(query, err);
}

static void export_done(void *state)
{
    struct export *x = state;
    tuning_exporter_destroy(x->exporter);
}

static const struct tuning_query_kind export_kind = {
    .members = export_members,
    .check = check_export,
    .work = work_export,
    .state_done = export_done,
    .state_size = sizeof(struct export),
};

TUNING_QUERY_HANDLER(tuning_export, export_kind)
