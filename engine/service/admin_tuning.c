/* SPDX-License-Identifier: MIT */
/* The requests tuning_show and tuning_stats. */
#include "engine/service/tuning_ask.h"

#include <string.h>

/* ---- show ---- */

static const struct admin_member show_members[] = {
    { "problem", MEMBER_TEXT },
    { "database_id", MEMBER_TEXT },
    { "backend", MEMBER_TEXT },
    { "nearest", MEMBER_FLAG },
    { "driver", MEMBER_TEXT },
    { "toolchain", MEMBER_TEXT },
    { 0 },
};

static void set_bytes(struct json *to, const char *name, struct bytes text)
{
    KILN_AUTO(mem) char *copy = bytes_to_text(text);
    if (copy)
        json_set_text(to, name, copy);
}

static void set_word(struct json *to, const char *name, const char *text)
{
    if (text && *text)
        json_set_text(to, name, text);
}

static bool is_other(const char *theirs, const char *ours)
{
    return theirs && *theirs && *ours && strcmp(theirs, ours) != 0;
}

static void add_measurement(struct json *to, const struct tuning_measurement *m,
                            const struct tuning_question *q)
{
    if (m->samples > 0) {
        json_set_u64(to, "samples", m->samples);
        json_set_number(to, "median_ms", m->median_ms);
        json_set_number(to, "spread_ms", m->spread_ms);
    }
    if (m->measured_at > 0)
        json_set_u64(to, "measured_at", m->measured_at);
    json_set_u64(to, "uid", m->uid);
    set_word(to, "device", m->origin.device);
    set_word(to, "device_uuid", m->origin.device_uuid);
    set_word(to, "driver", m->origin.driver);
    set_word(to, "toolchain", m->origin.toolchain);
    set_word(to, "library", m->origin.library);
    tuning_set_count(to, "clock_mhz", m->origin.clock_mhz);
    if (is_other(m->origin.driver, q->driver) || is_other(m->origin.toolchain, q->toolchain))
        json_set_bool(to, "stale", true);
}

static const struct tuning_row *row_of(const struct tuning_answer *answer, struct bytes id)
{
    for (size_t i = 0; answer->rows && i < answer->row_count; i++) {
        if (bytes_equal(answer->rows[i].id, id))
            return &answer->rows[i];
    }
    return NULL;
}

static struct json *entries_of(const struct tuning_answer *answer, const struct tuning_question *q)
{
    struct json *entries = json_array();
    struct bytes left = answer->value;
    struct tuning_entry entry;
    struct kiln_err ignored = KILN_ERR_INIT;
    while (tuning_entry_next(q->kind, &left, &entry, &ignored) == KILN_OK) {
        struct json *j = json_object();
        const struct tuning_row *row = row_of(answer, entry.id);
        set_bytes(j, "solver", entry.solver);
        if (q->kind == TUNING_FIND) {
            set_bytes(j, "algorithm", entry.algorithm);
            json_set_number(j, "time_ms", entry.time_ms);
            json_set_u64(j, "workspace", entry.workspace);
        } else {
            set_bytes(j, "params", entry.params);
        }
        if (row)
            add_measurement(j, &row->measured, q);
        json_append(entries, j);
    }
    return entries;
}

static void add_record(struct json *records, const struct tuning_answer *answer,
                       const struct tuning_question *q)
{
    struct json *j = json_object();
    json_set_text(j, "tier", tuning_tier_name(answer->tier));
    if (answer->tier == TUNING_TIER_USER)
        json_set_u64(j, "uid", q->uid);
    json_set_text(j, "database_id", answer->database_id);
    set_bytes(j, "key", answer->key);
    if (answer->is_near) {
        json_set_bool(j, "near", true);
        json_set_number(j, "batch_ratio", answer->batch_ratio);
        json_set_number(j, "spatial_ratio", answer->spatial_ratio);
    }
    if (answer->is_stale)
        json_set_bool(j, "stale", true);
    json_set(j, "entries", entries_of(answer, q));
    json_append(records, j);
}

/* Each tier that has something; where none has, the nearest, if that is wanted. */
static struct json *records_of(struct tuning *tuning, const struct tuning_question *question,
                               enum tuning_kind kind, struct bytes key)
{
    struct json *records = json_array();
    struct tuning_answer answers[3];
    struct kiln_err ignored = KILN_ERR_INIT;
    struct tuning_question q = *question;
    q.kind = kind;
    q.key = key;
    q.backend = kind == TUNING_FIND ? q.backend : "";
    unsigned count = key.size > 0 ? tuning_find_all(tuning, &q, answers) : 0;
    for (unsigned i = 0; i < count; i++)
        add_record(records, &answers[i], &q);
    if (count == 0 && q.nearest && key.size > 0 &&
        tuning_find(tuning, &q, &answers[0], &ignored) == KILN_OK)
        add_record(records, &answers[0], &q);
    return records;
}

static struct json *show_problem(struct tuning *tuning, const struct tuning_question *q,
                                 const struct tuning_keys *keys, unsigned index)
{
    char driver[1024] = "";
    struct json *j = json_object();
    struct bytes find = keys->verbatim, perf = keys->verbatim;
    if (keys->count > 0) {
        problem_to_driver(&keys->problems[index], driver, sizeof(driver));
        find = bytes_of_text(keys->find[index]);
        perf = bytes_of_text(keys->perf[index]);
    }
    set_word(j, "driver", driver);
    set_bytes(j, "find_key", find);
    set_bytes(j, "perf_key", perf);
    json_set(j, "find", records_of(tuning, q, TUNING_FIND, find));
    json_set(j, "perf", records_of(tuning, q, TUNING_PERF, perf));
    return j;
}

struct show { /* a question, checked */
    struct tuning_question q;
    struct tuning_keys keys;
    char database_id[DATABASE_ID_MOST], backend[TUNING_BACKEND_TEXT];
    char driver[TUNING_ORIGIN_TEXT], toolchain[TUNING_ORIGIN_TEXT];
};

static enum kiln_code read_show(const struct json *q, const struct caller *caller,
                                struct show *show, struct kiln_err *err)
{
    enum kiln_code rc = tuning_keys_of(json_get_text(q, "problem", ""), &show->keys, err);
    if (!rc)
        rc = tuning_database_id_word(q, show->database_id, err);
    if (!rc && !show->database_id[0])
        rc = kiln_fail(err, KILN_INVALID, "for which device: give its database id, as 'gfx90a68'");
    if (!rc)
        rc = tuning_backend_take(TUNING_FIND, bytes_of_text(json_get_text(q, "backend", "")),
                                 show->backend, err);
    if (!rc)
        rc = tuning_text_take("driver", bytes_of_text(json_get_text(q, "driver", "")),
                              sizeof(show->driver), show->driver, err);
    if (!rc)
        rc = tuning_text_take("toolchain", bytes_of_text(json_get_text(q, "toolchain", "")),
                              sizeof(show->toolchain), show->toolchain, err);
    show->q = (struct tuning_question){ .database_id = show->database_id,
                                        .backend = show->backend,
                                        .uid = (uint32_t)caller->uid,
                                        .driver = show->driver,
                                        .toolchain = show->toolchain,
                                        .nearest = json_get_bool(q, "nearest", false) };
    return rc;
}

enum kiln_code handle_tuning_show(struct engine *e, struct caller *caller,
                                  const struct frame_header *header, struct bytes body,
                                  struct kiln_err *err)
{
    KILN_AUTO(json) struct json *question = NULL;
    KILN_AUTO(json) struct json *answer = json_object();
    struct show show;
    enum kiln_code rc = admin_read(header, body, show_members, &question, err);
    if (!rc)
        rc = read_show(question, caller, &show, err);
    if (!rc)
        rc = tuning_ready(e, err);
    if (rc)
        return rc;
    struct json *problems = json_array();
    json_set(answer, "problems", problems);
    unsigned count = show.keys.count > 0 ? show.keys.count : 1;
    for (unsigned i = 0; i < count; i++)
        json_append(problems, show_problem(e->tuning, &show.q, &show.keys, i));
    admin_send(e, caller, header->request_id, answer, 0);
    return KILN_OK;
}

/* ---- stats ---- */

static bool add_system(void *context, const struct tuning_system *system)
{
    struct json *j = json_object();
    const struct tuning_system_file *file = system->file;
    json_set_text(j, "kind", tuning_kind_name(file->kind));
    json_set_text(j, "database_id", file->database_id);
    json_set_text(j, "backend", file->backend);
    json_set_text(j, "source", file->source);
    json_set_u64(j, "records", file->records);
    json_set_u64(j, "entries", file->entries);
    json_set_u64(j, "rejected", file->rejected);
    json_set_u64(j, "imported_at", file->imported_at);
    json_set_u64(j, "uid", file->uid);
    json_set_u64(j, "mapped_bytes", system->index ? tuning_index_bytes(system->index) : 0);
    json_set_text(j, "state", system->index ? "ok" : "damaged");
    if (!system->index)
        json_set_text(j, "why", system->why);
    json_append(context, j);
    return true;
}

static void add_tiers(struct json *answer, const struct tuning *tuning,
                      const struct tuning_stats *s, uid_t uid)
{
    struct json *host = json_object(), *user = json_object(), *hits = json_object();
    json_set_u64(host, "records", s->host_records);
    json_set_u64(user, "records", s->user_records);
    json_set_u64(user, "own", tuning_count_of(tuning, (uint32_t)uid));
    json_set_u64(hits, "system", s->hits[0]);
    json_set_u64(hits, "host", s->hits[1]);
    json_set_u64(hits, "user", s->hits[2]);
    json_set(answer, "host", host);
    json_set(answer, "user", user);
    json_set(answer, "hits", hits);
}

enum kiln_code handle_tuning_stats(struct engine *e, struct caller *caller,
                                   const struct frame_header *header, struct bytes body,
                                   struct kiln_err *err)
{
    static const char *const policies[] = { "trust", "warn", "ignore" };
    KILN_AUTO(json) struct json *question = NULL;
    KILN_AUTO(json) struct json *answer = json_object();
    enum kiln_code rc = admin_read(header, body, admin_no_members, &question, err);
    if (!rc)
        rc = tuning_ready(e, err);
    if (rc)
        return rc;
    struct tuning_stats s = tuning_stats_of(e->tuning);
    struct json *system = json_array();
    json_set(answer, "system", system);
    tuning_each_system(e->tuning, add_system, system);
    add_tiers(answer, e->tuning, &s, caller->uid);
    json_set_u64(answer, "misses", s.misses);
    json_set_u64(answer, "near", s.near);
    json_set_u64(answer, "stale", s.stale);
    json_set_u64(answer, "damaged", s.damaged);
    json_set_u64(answer, "left_out", s.left_out);
    json_set_u64(answer, "memory_bytes", s.memory_bytes);
    json_set_u64(answer, "disk_bytes", s.disk_bytes);
    json_set_u64(answer, "mapped_bytes", s.mapped_bytes);
    json_set_u64(answer, "leases", lease_count(e->leases));
    json_set_text(answer, "policy", policies[e->tuning_options.stale]);
    if (e->tuning_notice[0])
        json_set_text(answer, "salvage", e->tuning_notice);
    admin_send(e, caller, header->request_id, answer, 0);
    return KILN_OK;
}
