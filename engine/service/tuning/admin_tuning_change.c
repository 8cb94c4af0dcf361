/* SPDX-License-Identifier: MIT */
#include "engine/service/tuning/tuning_query.h"
#include "engine/service/tuning/tuning_select.h"
#include "engine/service/tuning/tuning_service.h"

#include <limits.h>

static void answer_counts(struct tuning_query *query)
{
    const struct tuning_counts *c = &query->change.counts;
    json_set_u64(query->base.answer, "records", c->records);
    json_set_u64(query->base.answer, "entries", c->entries);
    json_set_u64(query->base.answer, "replaced", c->replaced);
}

struct change {
    struct tuning_selected selected;
    enum tuning_tier tier;
    struct tuning_promotion promotion;
    bool undoes;
};

/* Refuses a text that is neither a problem nor a record's key. Call it after the search, because
 * only the search finds keys that an import stored unparsed. |found| excludes records that the user
 * may not change, so the user does not learn that such a record exists. */
static void refuse_unknown(struct tuning_query *query, uint64_t found)
{
    const struct change *c = query->state;
    const struct kiln_err *why = &c->selected.keys.why;
    if (found > 0 || !why->code)
        return;
    query->base.rc = why->code;
    query->base.err = *why;
}

static const struct admin_member promote_members[] = {
    { "database_id", MEMBER_TEXT }, { "kind", MEMBER_TEXT },   { "backend", MEMBER_TEXT },
    { "problem", MEMBER_TEXT },     { "solver", MEMBER_TEXT }, { "uid", MEMBER_COUNT },
    { "dry_run", MEMBER_FLAG },     { "undo", MEMBER_FLAG },   { 0 },
};

static enum kiln_code check_uid(const struct json *question, uint32_t *ret_uid, bool *ret_has,
                                struct kiln_err *err)
{
    uint64_t uid = json_get_u64(question, "uid", 0);
    *ret_has = json_get(question, "uid") != NULL;
    *ret_uid = (uint32_t)uid;
    if (uid >= TUNING_NOBODY)
        return kiln_fail(err, KILN_INVALID, "there is no user %llu", (unsigned long long)uid);
    return KILN_OK;
}

static enum kiln_code check_promote(struct tuning_query *query, struct kiln_err *err)
{
    struct change *c = query->state;
    const struct json *q = query->base.question;
    uint32_t uid = 0;
    bool has_uid = false;
    c->undoes = json_get_bool(q, "undo", false);
    if (c->undoes && json_count(q) > 1)
        return kiln_fail(err, KILN_INVALID,
                         "'undo' undoes the last promotion as a whole: give nothing else");
    enum kiln_code rc = tuning_select(q, TUNING_TIER_USER, &c->selected, err);
    if (!rc)
        rc = check_uid(q, &uid, &has_uid, err);
    if (!rc && has_uid)
        tuning_select_uid(&c->selected, uid);
    c->promotion = (struct tuning_promotion){ .needs_two = !has_uid,
                                              .caller = (uint32_t)query->base.uid,
                                              .is_dry_run = json_get_bool(q, "dry_run", false) };
    return rc;
}

static enum kiln_code begin_promote(struct tuning_query *query, struct tuning *tuning,
                                    struct kiln_err *err)
{
    const struct change *c = query->state;
    if (c->undoes)
        return tuning_job_undo_promotion(tuning, &query->change.job, err);
    return tuning_job_promote(tuning, &c->selected.selection, &c->promotion, &query->change.job,
                              err);
}

static void finish_promote(struct tuning_query *query)
{
    const struct change *c = query->state;
    const struct tuning_counts *counts = &query->change.counts;
    refuse_unknown(query, counts->records);
    answer_counts(query);
    if (c->undoes) {
        json_set_u64(query->base.answer, "removed", counts->removed);
        json_set_u64(query->base.answer, "left", counts->conflicts);
        return;
    }
    json_set_u64(query->base.answer, "added", counts->added);
    json_set_u64(query->base.answer, "conflicts", counts->conflicts);
    json_set_u64(query->base.answer, "held", counts->held);
    json_set_bool(query->base.answer, "dry_run", c->promotion.is_dry_run);
}

static const struct tuning_query_kind promote_kind = {
    .members = promote_members,
    .check = check_promote,
    .begin = begin_promote,
    .finish = finish_promote,
    .state_size = sizeof(struct change),
};

TUNING_QUERY_HANDLER(tuning_promote, promote_kind)

static const struct admin_member remove_members[] = {
    { "tier", MEMBER_TEXT },
    { "uid", MEMBER_COUNT },
    { "database_id", MEMBER_TEXT },
    { "kind", MEMBER_TEXT },
    { "backend", MEMBER_TEXT },
    { "problem", MEMBER_TEXT },
    { "solver", MEMBER_TEXT },
    { "older_than", MEMBER_COUNT },
    { "origin", MEMBER_TEXT },
    { "all", MEMBER_FLAG },
    { 0 },
};

static enum kiln_code check_system(const struct json *q, const struct tuning_selected *s,
                                   struct kiln_err *err)
{
    if (!s->selection.by_kind || !s->database_id[0])
        return kiln_fail(err, KILN_INVALID,
                         "the request names no system database: give its database id and its kind");
    if (json_get(q, "problem") || json_get(q, "solver") || json_get(q, "older_than") ||
        json_get(q, "origin") || json_get(q, "uid"))
        return kiln_fail(err, KILN_INVALID,
                         "a system database is removed as a whole: give only its database id, its "
                         "kind and its backend");
    return KILN_OK;
}

static enum kiln_code select_owner(struct tuning_query *query, struct tuning_selected *s,
                                   struct kiln_err *err)
{
    uint32_t uid = 0;
    bool has_uid = false;
    enum kiln_code rc = check_uid(query->base.question, &uid, &has_uid, err);
    if (rc)
        return rc;
    if (has_uid && uid != (uint32_t)query->base.uid && query->base.role != ROLE_ADMIN)
        return kiln_fail(err, KILN_DENIED,
                         "only an administrator may remove another user's records");
    tuning_select_uid(s, has_uid ? uid : (uint32_t)query->base.uid);
    return KILN_OK;
}

static enum kiln_code check_remove(struct tuning_query *query, struct kiln_err *err)
{
    struct change *c = query->state;
    const struct json *q = query->base.question;
    enum kiln_code rc = tuning_tier_of_question(q, "tier", TUNING_TIER_NONE, &c->tier, err);
    if (!rc && c->tier == TUNING_TIER_NONE)
        rc = kiln_fail(err, KILN_INVALID,
                       "the request names no tier: give 'user', 'host' or 'system'");
    if (!rc)
        rc = tuning_publisher_check(query->base.role, c->tier, err);
    if (!rc)
        rc = tuning_select(q, c->tier, &c->selected, err);
    if (rc)
        return rc;
    if (c->tier == TUNING_TIER_SYSTEM)
        return check_system(q, &c->selected, err);
    if (!c->selected.selects_some && !json_get_bool(q, "all", false))
        return kiln_fail(err, KILN_INVALID,
                         "the request selects no %s records: name a database id, a kind, a "
                         "problem, a solver or an age, or set 'all'",
                         tuning_tier_name(c->tier));
    return c->tier == TUNING_TIER_USER ? select_owner(query, &c->selected, err) : KILN_OK;
}

static enum kiln_code begin_remove(struct tuning_query *query, struct tuning *tuning,
                                   struct kiln_err *err)
{
    const struct change *c = query->state;
    const struct tuning_selection *s = &c->selected.selection;
    if (c->tier == TUNING_TIER_SYSTEM)
        return tuning_job_remove_system(tuning, s, &query->change.job, err);
    return tuning_job_remove(tuning, s, &query->change.job, err);
}

static void finish_remove(struct tuning_query *query)
{
    refuse_unknown(query, query->change.counts.removed);
    answer_counts(query);
    json_set_u64(query->base.answer, "removed", query->change.counts.removed);
}

static const struct tuning_query_kind remove_kind = {
    .members = remove_members,
    .check = check_remove,
    .begin = begin_remove,
    .finish = finish_remove,
    .state_size = sizeof(struct change),
};

TUNING_QUERY_HANDLER(tuning_remove, remove_kind)

static enum kiln_code begin_vacuum(struct tuning_query *query, struct tuning *tuning,
                                   struct kiln_err *err)
{
    return tuning_job_vacuum(tuning, &query->change.job, err);
}

static void finish_vacuum(struct tuning_query *query)
{
    json_set_u64(query->base.answer, "freed", query->change.counts.bytes);
    json_set_u64(query->base.answer, "bytes",
                 tuning_stats_of(tuning_databases(query->base.engine)).disk_bytes);
}

static const struct tuning_query_kind vacuum_kind = { .members = admin_no_members,
                                                      .begin = begin_vacuum,
                                                      .finish = finish_vacuum };

TUNING_QUERY_HANDLER(tuning_vacuum, vacuum_kind)

struct backup {
    char path[PATH_MAX];
    uint64_t bytes;
    bool has_space;
};

static enum kiln_code begin_backup(struct tuning_query *query, struct tuning *tuning,
                                   struct kiln_err *err)
{
    struct backup *b = query->state;
    if (!b->has_space) /* the first step only checks the free space, on the work queue */
        return KILN_OK;
    tuning_query_path(query, b->path, sizeof(b->path));
    return tuning_job_backup(tuning, b->path, &query->change.job, err);
}

static enum kiln_code work_backup(struct tuning_query *query, struct tuning *tuning,
                                  struct kiln_err *err)
{
    struct backup *b = query->state;
    (void)tuning;
    if (!b->has_space) {
        b->has_space = query->change.more = true;
        return tuning_query_reserve_space(query, 0, err);
    }
    return tuning_query_send_file(query, b->path, &b->bytes, err);
}

static void finish_backup(struct tuning_query *query)
{
    const struct backup *b = query->state;
    json_set_u64(query->base.answer, "bytes", b->bytes);
}

static const struct tuning_query_kind backup_kind = {
    .members = admin_no_members,
    .begin = begin_backup,
    .work = work_backup,
    .finish = finish_backup,
    .state_size = sizeof(struct backup),
};

TUNING_QUERY_HANDLER(tuning_backup, backup_kind)
