/* SPDX-License-Identifier: MIT */
#include "engine/service/tuning/tuning_query.h"

#include "common/base/clock.h"
#include "common/base/hash_table.h"
#include "engine/digest/checksum.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct admin_member verify_members[] = {
    { "driver", MEMBER_TEXT }, { "toolchain", MEMBER_TEXT }, { "database_id", MEMBER_TEXT }, { 0 }
};

struct newest { /* the newest measurement of a device; texts are in the same allocation */
    struct hash_link link;
    uint64_t measured_at;
    const char *device, *driver, *toolchain;
    char texts[];
};

enum stage {
    STAGE_NEWEST,
    STAGE_STALE,
    STAGE_SYSTEM,
};

struct verify {
    char driver[TUNING_ORIGIN_TEXT], toolchain[TUNING_ORIGIN_TEXT], database_id[DATABASE_ID_MAX];
    struct tuning_query *query;
    enum stage stage;
    struct tuning_selection selection;
    struct tuning_walk walk;
    struct hash_table devices;
    struct hash_key key;
    uint64_t bytes, charged;
    bool is_out_of_memory;
    uint64_t checked, unchecked; /* |unchecked|: records of databases that cannot be opened */
    uint64_t stale;
    uint64_t damaged;
    unsigned next, seen; /* system databases: the one to check next, and those visited so far */
    struct tuning_index *index;
    struct tuning_index_check check;
    char what[200];
    bool is_db_checked;
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
    v->stage = v->driver[0] || v->toolchain[0] ? STAGE_STALE : STAGE_NEWEST;
    v->selection = (struct tuning_selection){ .database_id = v->database_id,
                                              .by_uid = query->base.role != ROLE_ADMIN,
                                              .uid = (uint32_t)query->base.uid };
    return rc ? rc : hash_key_draw(&v->key, err);
}

static const char *text_of(const char *text) { return text ? text : ""; }

/* Returns false for an entry without an origin, such as an imported one. Such an entry cannot be
 * recognized as stale. */
static bool has_origin(const struct tuning_row *row)
{
    const struct tuning_origin *o = &row->measured.origin;
    return text_of(o->driver)[0] || text_of(o->toolchain)[0];
}

static struct newest *find_newest(const struct verify *v, const char *device)
{
    HASH_EACH (&v->devices, keyed_hash(bytes_of_text(device), &v->key), struct newest, link, newest)
        if (strcmp(newest->device, device) == 0)
            return newest;
    return NULL;
}

static size_t size_of(const struct newest *newest)
{
    return sizeof(*newest) + strlen(newest->device) + strlen(newest->driver) +
           strlen(newest->toolchain) + 3;
}

static const char *append_text(char **at, const char *text)
{
    char *copy = *at;
    *at = stpcpy(copy, text) + 1;
    return copy;
}

static struct newest *copy_newest(const struct tuning_measurement *m)
{
    const struct newest from = { .measured_at = m->measured_at,
                                 .device = text_of(m->origin.device),
                                 .driver = text_of(m->origin.driver),
                                 .toolchain = text_of(m->origin.toolchain) };
    struct newest *copy = calloc(1, size_of(&from));
    if (!copy)
        return NULL;
    char *at = copy->texts;
    copy->measured_at = from.measured_at;
    copy->device = append_text(&at, from.device);
    copy->driver = append_text(&at, from.driver);
    copy->toolchain = append_text(&at, from.toolchain);
    return copy;
}

static void drop_newest(struct verify *v, struct newest *newest)
{
    hash_table_remove(&v->devices, &newest->link);
    v->bytes -= size_of(newest);
    free(newest);
}

static void note_newest(struct verify *v, const struct tuning_measurement *m)
{
    const char *device = text_of(m->origin.device);
    struct newest *known = find_newest(v, device);
    if (known && known->measured_at >= m->measured_at)
        return;
    struct newest *newest = copy_newest(m);
    if (!newest) {
        v->is_out_of_memory = true;
        return;
    }
    if (known)
        drop_newest(v, known);
    hash_table_add(&v->devices, &newest->link, keyed_hash(bytes_of_text(device), &v->key));
    v->bytes += size_of(newest);
}

static bool note_record(void *context, const struct tuning_held *held)
{
    struct verify *v = context;
    for (size_t i = 0; i < held->row_count && !v->is_out_of_memory; i++) {
        if (has_origin(&held->rows[i]))
            note_newest(v, &held->rows[i].measured);
    }
    return !v->is_out_of_memory;
}

static void report_stale(struct verify *v, const struct tuning_place *place,
                         const struct tuning_row *row)
{
    const struct tuning_origin *o = &row->measured.origin;
    v->stale++;
    if (tuning_progress_leave_out(v->query->progress, "stale"))
        return;
    struct json *j = json_object();
    json_set_text(j, "tier", tuning_tier_name(place->tier));
    /* The user who measured the record, even if the record is in the host tier. */
    json_set_u64(j, "uid", row->measured.uid);
    json_set_text(j, "kind", tuning_kind_name(place->kind));
    json_set_text(j, "database_id", place->database_id);
    json_set_bytes(j, "key", place->key);
    json_set_bytes(j, "solver", row->id);
    json_set_text(j, "driver", text_of(o->driver));
    json_set_text(j, "toolchain", text_of(o->toolchain));
    json_set_u64(j, "measured_at", row->measured.measured_at);
    tuning_progress_add(v->query->progress, "stale", j);
}

static bool is_stale(const struct verify *v, const struct tuning_origin *origin)
{
    if (v->driver[0] || v->toolchain[0])
        return tuning_is_stale(origin, v->driver, v->toolchain);
    /* NULL if all records of the device were stored after STAGE_NEWEST had passed their place. */
    const struct newest *newest = find_newest(v, text_of(origin->device));
    return newest && tuning_is_stale(origin, newest->driver, newest->toolchain);
}

static bool check_record(void *context, const struct tuning_held *held)
{
    struct verify *v = context;
    if (tuning_progress_is_stopped(v->query->progress))
        return false;
    v->checked++;
    for (size_t i = 0; i < held->row_count; i++) {
        const struct tuning_row *row = &held->rows[i];
        if (has_origin(row) && is_stale(v, &row->measured.origin))
            report_stale(v, &held->place, row);
    }
    return true;
}

static enum kiln_code walk_some(struct verify *v, const struct tuning *tuning, struct kiln_err *err)
{
    v->walk.selection = &v->selection;
    v->walk.each = v->stage == STAGE_NEWEST ? note_record : check_record;
    v->walk.context = v;
    tuning_walk_step(tuning, &v->walk, clock_monotonic_ns() + TUNING_STEP_NS);
    if (v->walk.is_over) {
        v->stage++;
        v->walk = (struct tuning_walk){ .cursor = 0 };
    }
    if (v->is_out_of_memory)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot check the records: out of memory");
    return KILN_OK;
}

static void report_damaged(struct verify *v, const char *what, const char *why)
{
    struct json *j = json_object();
    json_set_text(j, "what", what);
    json_set_text(j, "why", why);
    tuning_progress_add(v->query->progress, "damaged", j);
    v->damaged++;
}

static void report_index(struct verify *v, const struct tuning_system *system)
{
    const struct tuning_system_file *file = system->file;
    snprintf(v->what, sizeof(v->what), "system %s database of %s%s%s", tuning_kind_name(file->kind),
             file->database_id, file->backend[0] ? ", " : "", file->backend);
    if (!system->index) {
        v->unchecked += file->records;
        report_damaged(v, v->what, system->why);
        return;
    }
    v->checked += file->records;
    v->index = tuning_index_ref((struct tuning_index *)system->index);
    v->check = (struct tuning_index_check){ .at = 0 };
}

static bool begin_system(void *context, const struct tuning_system *system)
{
    struct verify *v = context;
    if (v->seen++ < v->next)
        return true;
    v->next++;
    if (v->database_id[0] && strcmp(v->database_id, system->file->database_id) != 0)
        return true;
    report_index(v, system);
    return false;
}

static void end_system(struct verify *v)
{
    tuning_index_destroy(v->index);
    v->index = NULL;
    tuning_progress_set_stage(v->query->progress, "reading", v->checked, 0);
}

static void check_some(struct verify *v)
{
    struct kiln_err why = KILN_ERR_INIT;
    bool more = false;
    if (tuning_index_check_step(v->index, &v->check, &more, &why) != KILN_OK)
        report_damaged(v, v->what, why.text);
    if (!more)
        end_system(v);
}

static bool check_systems(struct verify *v, const struct tuning *tuning)
{
    const unsigned before = v->next;
    v->seen = 0;
    if (!v->index)
        tuning_each_system(tuning, begin_system, v);
    if (v->index)
        check_some(v);
    return v->next > before || v->index;
}

static enum kiln_code begin_step(struct tuning_query *query, struct tuning *tuning,
                                 struct kiln_err *err)
{
    struct verify *v = query->state;
    (void)tuning;
    if (v->bytes <= v->charged)
        return KILN_OK;
    if (deferred_charge(&query->base, v->bytes - v->charged, err))
        return kiln_while(err, "checking records of many devices");
    v->charged = v->bytes;
    return KILN_OK;
}

static enum kiln_code work_verify(struct tuning_query *query, struct tuning *tuning,
                                  struct kiln_err *err)
{
    struct verify *v = query->state;
    struct kiln_err why = KILN_ERR_INIT;
    query->change.more = true;
    if (v->stage != STAGE_SYSTEM)
        return walk_some(v, tuning, err);
    if (check_systems(v, tuning))
        return KILN_OK;
    query->change.more = false;
    /* Only administrators may check tuning.db, because this takes one long step, during which other
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

static void verify_done(void *state)
{
    struct verify *v = state;
    HASH_ALL (&v->devices, struct newest, link, newest)
        drop_newest(v, newest);
    hash_table_done(&v->devices);
    tuning_index_destroy(v->index);
}

static const struct tuning_query_kind verify_kind = {
    .members = verify_members,
    .check = check_verify,
    .begin = begin_step,
    .work = work_verify,
    .finish = finish_verify,
    .state_done = verify_done,
    .state_size = sizeof(struct verify),
};

TUNING_QUERY_HANDLER(tuning_verify, verify_kind)
