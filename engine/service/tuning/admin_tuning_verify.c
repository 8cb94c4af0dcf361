/* SPDX-License-Identifier: MIT */
/* The request tuning_verify: reports what should be measured again, and what is damaged. */
#include "engine/service/tuning/tuning_query.h"

#include "common/base/array.h"

#include <stdio.h>
#include <string.h>

static const struct admin_member verify_members[] = {
    { "driver", MEMBER_TEXT }, { "toolchain", MEMBER_TEXT }, { "database_id", MEMBER_TEXT }, { 0 }
};

struct entry { /* a measured entry; borrowed from the databases */
    const struct tuning_place *place;
    const struct tuning_row *row;
};

struct verify { /* is query->state */
    char driver[TUNING_ORIGIN_TEXT], toolchain[TUNING_ORIGIN_TEXT], database_id[DATABASE_ID_MAX];
    struct tuning_query *query;
    struct entry *entries; /* owned during work */
    size_t count, capacity;
    bool is_out_of_memory;
    uint64_t checked, unchecked; /* records that were checked, and records of databases that cannot
                                  * be opened */
    uint64_t stale;              /* stale entries */
    uint64_t damaged;            /* number of damaged databases */
    unsigned step, seen; /* |step|: index of the system database to check next; |seen|: number of
                          * databases visited in this step */
    bool is_checked;     /* a database was checked in this step */
    bool is_stale_known;
    bool is_db_checked; /* tuning.db was checked, which needs an administrator */
};

static enum kiln_code check_verify(struct tuning_query *query, struct kiln_err *err)
{
    const struct json *q = query->base.question;
    struct verify *v = query->state;
    v->query = query;
    enum kiln_code rc = tuning_database_id_of_question(q, v->database_id, err);
    if (!rc)
        rc = tuning_text_take("driver", bytes_of_text(json_get_text(q, "driver", "")),
                              sizeof(v->driver), v->driver, err);
    if (!rc)
        rc = tuning_text_take("toolchain", bytes_of_text(json_get_text(q, "toolchain", "")),
                              sizeof(v->toolchain), v->toolchain, err);
    return rc;
}

/* ---- stale records ---- */

static bool is_known(const char *text) { return text && *text; }

/* Collects the entries of a record. Skips entries without an origin, such as imported ones, because
 * kiln cannot know whether they are stale. */
static bool gather_record(void *context, const struct tuning_held *held)
{
    struct verify *v = context;
    if (tuning_progress_is_stopped(v->query->progress))
        return false;
    v->checked++;
    for (size_t i = 0; i < held->row_count; i++) {
        const struct tuning_origin *o = &held->rows[i].measured.origin;
        if (!is_known(o->driver) && !is_known(o->toolchain))
            continue;
        v->is_out_of_memory = !ARRAY_RESERVE(v->entries, v->count, v->capacity, 1024);
        if (v->is_out_of_memory)
            return false;
        v->entries[v->count++] = (struct entry){ &held->place, &held->rows[i] };
    }
    return true;
}

static const char *device_of(const struct entry *e)
{
    return e->row->measured.origin.device ? e->row->measured.origin.device : "";
}

/* Sorts by device, and within a device from the newest entry to the oldest. */
static int compare_entries(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int order = strcmp(device_of(x), device_of(y));
    uint64_t at_x = x->row->measured.measured_at, at_y = y->row->measured.measured_at;
    return order ? order : (at_x < at_y) - (at_x > at_y);
}

static void report_stale(struct verify *v, const struct entry *e)
{
    const struct tuning_origin *o = &e->row->measured.origin;
    v->stale++;
    if (tuning_progress_leave_out(v->query->progress, "stale"))
        return;
    struct json *j = json_object();
    json_set_text(j, "tier", tuning_tier_name(e->place->tier));
    json_set_u64(j, "uid",
                 e->row->measured.uid); /* the user who measured it, even in a record of the host */
    json_set_text(j, "kind", tuning_kind_name(e->place->kind));
    json_set_text(j, "database_id", e->place->database_id);
    json_set_bytes(j, "key", e->place->key);
    json_set_bytes(j, "solver", e->row->id);
    json_set_text(j, "driver", o->driver ? o->driver : "");
    json_set_text(j, "toolchain", o->toolchain ? o->toolchain : "");
    json_set_u64(j, "measured_at", e->row->measured.measured_at);
    tuning_progress_add(v->query->progress, "stale", j);
}

/* Looks for stale entries. Compares each entry with the driver and toolchain of the question or, if
 * there are none, with those of the device's newest measurement. */
static void check_entries(struct verify *v)
{
    bool is_given = v->driver[0] || v->toolchain[0];
    const struct tuning_origin given = { .driver = v->driver, .toolchain = v->toolchain };
    const struct entry *newest = NULL;
    for (size_t i = 0; i < v->count; i++) {
        const struct entry *e = &v->entries[i];
        if (!newest || strcmp(device_of(newest), device_of(e)) != 0)
            newest = e;
        const struct tuning_origin *wanted = is_given ? &given : &newest->row->measured.origin;
        if (tuning_is_stale(&e->row->measured.origin, wanted->driver, wanted->toolchain))
            report_stale(v, e);
    }
}

static enum kiln_code find_stale(struct verify *v, const struct tuning *tuning,
                                 struct kiln_err *err)
{
    const struct tuning_selection selection = { .database_id = v->database_id,
                                                .by_uid = v->query->base.role != ROLE_ADMIN,
                                                .uid = (uint32_t)v->query->base.uid };
    tuning_each(tuning, &selection, gather_record, v);
    if (v->is_out_of_memory)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot check the records: out of memory");
    if (v->count > 0)
        qsort(v->entries, v->count, sizeof(*v->entries), compare_entries);
    check_entries(v);
    return KILN_OK;
}

/* ---- damaged databases ---- */

static void report_damaged(struct verify *v, const char *what, const char *why)
{
    struct json *j = json_object();
    json_set_text(j, "what", what);
    json_set_text(j, "why", why);
    tuning_progress_add(v->query->progress, "damaged", j);
    v->damaged++;
}

static bool check_system(void *context, const struct tuning_system *system)
{
    struct verify *v = context;
    if (v->seen++ < v->step)
        return true;
    v->step++;
    v->is_checked = true;
    struct kiln_err why = KILN_ERR_INIT;
    char what[200];
    const struct tuning_system_file *file = system->file;
    if (v->database_id[0] && strcmp(v->database_id, file->database_id) != 0)
        return false;
    snprintf(what, sizeof(what), "system %s database of %s%s%s", tuning_kind_name(file->kind),
             file->database_id, file->backend[0] ? ", " : "", file->backend);
    if (!system->index) {
        v->unchecked += file->records;
        report_damaged(v, what, system->why);
    } else {
        v->checked += file->records;
        if (tuning_index_verify(system->index, &why) != KILN_OK)
            report_damaged(v, what, why.text);
    }
    tuning_progress_set_stage(v->query->progress, "reading", v->checked, 0);
    return false;
}

/* Checks the next system database. Returns false if all were checked. */
static bool check_next_system(struct verify *v, const struct tuning *tuning)
{
    v->seen = 0;
    v->is_checked = false;
    tuning_each_system(tuning, check_system, v);
    return v->is_checked;
}

/* Does one step. The first step checks the measured entries, each of the next ones a system
 * database, and the last one tuning.db. */
static enum kiln_code work_verify(struct tuning_query *query, struct tuning *tuning,
                                  struct kiln_err *err)
{
    struct verify *v = query->state;
    struct kiln_err why = KILN_ERR_INIT;
    query->change.more = true;
    if (!v->is_stale_known) {
        enum kiln_code rc = find_stale(v, tuning, err);
        free(v->entries);
        v->entries = NULL;
        v->is_stale_known = true;
        return rc;
    }
    if (check_next_system(v, tuning))
        return KILN_OK;
    query->change.more = false;
    /* Only administrators may check tuning.db, because it takes one long step, during which other
     * users wait. */
    v->is_db_checked = query->base.role == ROLE_ADMIN;
    if (v->is_db_checked && tuning_check_db(tuning, &why) != KILN_OK)
        report_damaged(v, "tuning.db", why.text);
    return KILN_OK;
}

static void finish_verify(struct tuning_query *query)
{
    const struct verify *v = query->state;
    json_set_u64(query->base.answer, "checked", v->checked);
    tuning_set_count(query->base.answer, "unchecked", v->unchecked);
    json_set_u64(query->base.answer, "stale", v->stale);
    json_set_u64(query->base.answer, "damaged", v->damaged);
    json_set_bool(query->base.answer, "tuning_db_checked", v->is_db_checked);
}

static const struct tuning_query_kind verify_kind = {
    .members = verify_members,
    .check = check_verify,
    .work = work_verify,
    .finish = finish_verify,
    .state_size = sizeof(struct verify),
};

enum kiln_code handle_tuning_verify(struct engine *e, struct caller *caller,
                                    const struct frame_header *header, struct bytes body,
                                    struct kiln_err *err)
{
    return tuning_query_run(e, &(struct request){ caller, header, body }, &verify_kind, err);
}
