/* SPDX-License-Identifier: MIT */
#include "engine/service/fleet/fleet_records.h"
#include "engine/service/tuning/tuning_query.h"
#include "engine/service/tuning/tuning_state.h"
#include "engine/solver/solver.h"

#include <string.h>

static const struct admin_member show_members[] = {
    { "problem", MEMBER_TEXT },
    { "database_id", MEMBER_TEXT },
    { "backend", MEMBER_TEXT },
    { "nearest", MEMBER_FLAG },
    { "driver", MEMBER_TEXT },
    { "toolchain", MEMBER_TEXT },
    { 0 },
};

static void set_word(struct json *to, const char *name, const char *text)
{
    if (text && *text)
        json_set_text(to, name, text);
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
    if (tuning_is_stale(&m->origin, q->driver, q->toolchain))
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

struct showing {
    struct tuning *tuning;
    struct tuning_question q;
    bool ignores_stale;
    unsigned records;
    uint64_t left_out;
};

static bool is_left_out(const struct showing *s, const struct tuning_row *row)
{
    return s->ignores_stale && row &&
           tuning_is_stale(&row->measured.origin, s->q.driver, s->q.toolchain);
}

static struct json *entry_of(const struct showing *s, const struct tuning_entry *entry,
                             const struct tuning_row *row)
{
    struct json *j = json_object();
    json_set_bytes(j, "solver", entry->solver);
    if (solver_find(entry->solver))
        json_set_bool(j, "kilns", true);
    if (s->q.kind == TUNING_FIND) {
        json_set_bytes(j, "algorithm", entry->algorithm);
        json_set_number(j, "time_ms", entry->time_ms);
        json_set_u64(j, "workspace", entry->workspace);
    } else {
        json_set_bytes(j, "params", entry->params);
    }
    if (row)
        add_measurement(j, &row->measured, &s->q);
    if (is_left_out(s, row))
        json_set_bool(j, "left_out", true);
    return j;
}

/* Adds the entries that a look-up uses or, if |left_out| is set, those that it ignores. Returns the
 * number of added entries. */
static unsigned add_entries(const struct showing *s, const struct tuning_answer *answer,
                            bool left_out, struct json *entries)
{
    struct bytes left = answer->value;
    struct tuning_entry entry;
    struct kiln_err ignored = KILN_ERR_INIT;
    unsigned count = 0;
    while (tuning_entry_next(s->q.kind, &left, &entry, &ignored) == KILN_OK) {
        const struct tuning_row *row = row_of(answer, entry.id);
        if (is_left_out(s, row) != left_out)
            continue;
        json_append(entries, entry_of(s, &entry, row));
        count++;
    }
    return count;
}

static void add_record(struct showing *s, struct json *records, const struct tuning_answer *answer)
{
    struct json *j = json_object(), *entries = json_array();
    json_set_text(j, "tier", tuning_tier_name(answer->tier));
    if (answer->tier == TUNING_TIER_USER)
        json_set_u64(j, "uid", s->q.uid);
    json_set_text(j, "database_id", answer->database_id);
    json_set_bytes(j, "key", answer->key);
    if (answer->is_near) {
        json_set_bool(j, "near", true);
        json_set_number(j, "batch_ratio", answer->batch_ratio);
        json_set_number(j, "spatial_ratio", answer->spatial_ratio);
    }
    if (answer->is_stale)
        json_set_bool(j, "stale", true);
    add_entries(s, answer, /* left_out= */ false, entries);
    unsigned left_out = add_entries(s, answer, /* left_out= */ true, entries);
    tuning_set_count(j, "left_out", left_out);
    json_set(j, "entries", entries);
    json_append(records, j);
    s->left_out += left_out;
    s->records++;
}

/* Returns whether look-ups use the record. They use all imported records, which have no rows. */
static bool is_usable(const struct showing *s, const struct tuning_answer *answer)
{
    bool usable = answer->row_count == 0;
    for (size_t i = 0; i < answer->row_count && !usable; i++)
        usable = !is_left_out(s, &answer->rows[i]);
    return usable;
}

static unsigned add_answers(struct showing *s, struct json *records,
                            const struct tuning_answer *answers, unsigned count, bool usable)
{
    unsigned added = 0;
    for (unsigned i = 0; i < count; i++) {
        if (is_usable(s, &answers[i]) != usable)
            continue;
        add_record(s, records, &answers[i]);
        added++;
    }
    return added;
}

static void add_nearest(struct showing *s, struct json *records)
{
    struct tuning_answer answer;
    struct kiln_err ignored = KILN_ERR_INIT;
    if (tuning_find(s->tuning, &s->q, &answer, &ignored) == KILN_OK)
        add_record(s, records, &answer);
}

static struct json *records_of(struct showing *s, enum tuning_kind kind, struct bytes key)
{
    struct json *records = json_array();
    struct tuning_answer answers[3];
    s->q.kind = kind;
    s->q.key = key;
    unsigned count = key.size > 0 ? tuning_find_all(s->tuning, &s->q, answers) : 0;
    unsigned used = add_answers(s, records, answers, count, /* usable= */ true);
    if (used == 0 && s->q.nearest && key.size > 0)
        add_nearest(s, records);
    add_answers(s, records, answers, count, /* usable= */ false);
    return records;
}

static struct json *show_problem(struct showing *s, const struct tuning_keys *keys, unsigned index)
{
    char driver[1024] = "";
    struct json *j = json_object();
    if (keys->count > 0)
        problem_to_driver(&keys->problems[index], driver, sizeof(driver));
    struct bytes find = tuning_keys_at(keys, TUNING_FIND, index);
    struct bytes perf = tuning_keys_at(keys, TUNING_PERF, index);
    set_word(j, "driver", driver);
    json_set_bytes(j, "find_key", find);
    json_set_bytes(j, "perf_key", perf);
    json_set(j, "find", records_of(s, TUNING_FIND, find));
    json_set(j, "perf", records_of(s, TUNING_PERF, perf));
    return j;
}

struct show {
    struct tuning_question q;
    struct tuning_keys keys;
    char database_id[DATABASE_ID_MAX], backend[TUNING_BACKEND_TEXT];
    char driver[TUNING_ORIGIN_TEXT], toolchain[TUNING_ORIGIN_TEXT];
};

static enum kiln_code read_show(const struct json *q, const struct caller *caller,
                                struct show *show, struct kiln_err *err)
{
    struct bytes backend = bytes_of_text(json_get_text(q, "backend", ""));
    enum tuning_kind kind = bytes_equal_text(backend, TUNING_BATCHNORM) ? TUNING_PERF : TUNING_FIND;
    enum kiln_code rc = tuning_keys_of(json_get_text(q, "problem", ""), &show->keys, err);
    if (!rc)
        rc = tuning_database_id_of_question(q, show->database_id, err);
    if (!rc && !show->database_id[0])
        rc = kiln_fail(err, KILN_INVALID,
                       "the request names no device: give its database id, such as 'gfx90a68'");
    if (!rc)
        rc = tuning_backend_take(kind, show->database_id, backend, show->backend, err);
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
    fleet_records_want(e, show.database_id);
    struct json *problems = json_set_array(answer, "problems");
    struct showing s = { .tuning = e->tuning->databases,
                         .q = show.q,
                         .ignores_stale = e->tuning->options.stale == TUNING_IGNORE };
    for (unsigned i = 0; i < tuning_keys_count(&show.keys); i++)
        json_append(problems, show_problem(&s, &show.keys, i));
    if (s.records == 0 && show.keys.why.code) {
        *err = show.keys.why;
        return err->code;
    }
    tuning_set_count(answer, "left_out", s.left_out);
    admin_send(e, caller, header->request_id, answer, 0);
    return KILN_OK;
}

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
    const struct tuning *tuning = e->tuning->databases;
    struct tuning_stats s = tuning_stats_of(tuning);
    tuning_each_system(tuning, add_system, json_set_array(answer, "system"));
    add_tiers(answer, tuning, &s, caller->uid);
    json_set_u64(answer, "misses", s.misses);
    json_set_u64(answer, "near", s.near);
    json_set_u64(answer, "stale", s.stale);
    json_set_u64(answer, "ignored", s.ignored);
    json_set_u64(answer, "damaged", s.damaged);
    json_set_u64(answer, "left_out", s.left_out);
    json_set_u64(answer, "memory_bytes", s.memory_bytes);
    json_set_u64(answer, "disk_bytes", s.disk_bytes);
    json_set_u64(answer, "mapped_bytes", s.mapped_bytes);
    json_set_u64(answer, "leases", lease_count(e->tuning->leases));
    json_set_text(answer, "policy", policies[e->tuning->options.stale]);
    if (e->tuning->notice[0])
        json_set_text(answer, "salvage", e->tuning->notice);
    admin_send(e, caller, header->request_id, answer, 0);
    return KILN_OK;
}
