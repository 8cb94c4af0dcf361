/* SPDX-License-Identifier: MIT */
#include "engine/tuning/tuning_db_parts.h"

#include <errno.h>
#include <string.h>

struct tuning_change {
    struct tuning_db *owner;
    struct transaction transaction;
    struct buffer content;
    int64_t records, systems;
    bool changed_uncounted; /* a record was changed before its user's usage was counted */
    struct kiln_err failure;
};

/* Fails if the file was removed or replaced, because changes would then be lost silently. */
static enum kiln_code check_in_place(const struct tuning_db *db, struct kiln_err *err)
{
    struct stat seen;
    if (stat(db->path, &seen) == 0 ? seen.st_dev == db->device && seen.st_ino == db->inode
                                   : errno != ENOENT && errno != ENOTDIR)
        return KILN_OK; /* the file is in place, or stat failed for a reason that SQLite reports */
    return kiln_fail(err, KILN_UNAVAILABLE,
                     "the tuning database '%s' was removed or replaced while kilnd ran: put it "
                     "back, or restart kilnd to use the present file",
                     db->path);
}

enum kiln_code tuning_change_begin(struct tuning_db *db, struct tuning_change **ret_change,
                                   struct kiln_err *err)
{
    if (db->changing)
        return kiln_fail(err, KILN_BUSY,
                         "another change of the tuning database is in progress: try again");
    enum kiln_code rc = check_in_place(db, err);
    if (rc)
        return rc;
    KILN_AUTO(tuning_change) struct tuning_change *change = calloc(1, sizeof(*change));
    if (!change)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot change '%s': out of memory", db->path);
    buffer_init(&change->content, TUNING_CONTENT_MAX);
    rc = transaction_begin(&change->transaction, db->db, err);
    if (rc)
        return rc;
    change->owner = db;
    db->changing = true;
    *ret_change = KILN_TAKE(change);
    return KILN_OK;
}

/* Ends the accounting of a change that is rolled back. If the change altered a user's records
 * before they were counted, the count includes the alterations, which the rollback undoes. In that
 * case, the counts of all users are dropped. */
static void end_usage(const struct tuning_change *change)
{
    if (change->transaction.db && change->changed_uncounted)
        tuning_usage_forget(change->owner);
    else
        tuning_usage_settle(change->owner, /* is_committed= */ false);
}

void tuning_change_destroy(struct tuning_change *change)
{
    if (!change)
        return;
    if (change->owner) {
        end_usage(change);
        change->owner->changing = false;
    }
    transaction_done(&change->transaction);
    buffer_done(&change->content);
    free(change);
}

/* Remembers a failure, so that the change cannot be committed: SQLite may have rolled back, and a
 * commit would then store only the statements after the failure. */
static enum kiln_code note_result(struct tuning_change *change, enum kiln_code rc,
                                  struct kiln_err *err)
{
    if (rc)
        change->failure = *err;
    return rc;
}

static enum kiln_code refuse_failed(const struct tuning_change *change, struct kiln_err *err)
{
    if (!change->transaction.db)
        return kiln_fail(err, KILN_INVALID,
                         "a change of the tuning database was continued after its end");
    if (change->failure.code)
        *err = change->failure;
    return change->failure.code;
}

enum kiln_code tuning_change_commit(struct tuning_change *change, struct kiln_err *err)
{
    struct db *file = change->owner->db;
    enum kiln_code rc = refuse_failed(change, err);
    if (rc)
        return rc;
    rc = tuning_tally_add(file, TUNING_TALLY_RECORDS, change->records, err);
    if (!rc)
        rc = tuning_tally_add(file, TUNING_TALLY_SYSTEMS, change->systems, err);
    if (!rc)
        rc = transaction_commit(&change->transaction, err);
    if (rc)
        tuning_usage_forget(change->owner);
    else
        tuning_usage_settle(change->owner, /* is_committed= */ true);
    return note_result(change, rc, err);
}

/* Sets |ret_cost| to the bytes that the stored record counts toward its user's limit; 0: there is
 * no record. */
static enum kiln_code cost_there(struct db *file, const struct tuning_place *place,
                                 uint64_t *ret_cost, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(file, TUNING_RECORD_FIND);
    tuning_bind_place(&q, place);
    bool there = false;
    enum kiln_code rc = query_step(&q, &there, err);
    *ret_cost = !rc && there ? tuning_read_cost(&q, 0) : 0;
    return rc;
}

static enum kiln_code full_of_records(uint32_t uid, uint64_t has, uint64_t max,
                                      struct kiln_err *err)
{
    return kiln_fail(err, KILN_FULL,
                     "user %u has %llu tuning records, and the limit is %llu: remove some (kilnctl "
                     "db rm), or ask an administrator to raise the setting tuning_records_per_uid",
                     (unsigned)uid, (unsigned long long)has, (unsigned long long)max);
}

static enum kiln_code full_of_bytes(uint32_t uid, uint64_t has, uint64_t max, struct kiln_err *err)
{
    return kiln_fail(
        err, KILN_FULL,
        "the tuning records of user %u take %llu bytes, and the limit is %llu: remove some "
        "(kilnctl db rm), or ask an administrator to raise the setting tuning_bytes_per_uid",
        (unsigned)uid, (unsigned long long)has, (unsigned long long)max);
}

/* Returns KILN_FULL if the record would exceed its user's limits; the change can then continue.
 * |old| and |new| are the record's costs (tuning_record_cost) before and after; 0: no record. */
static enum kiln_code keep_to_quota(struct tuning_change *change, const struct tuning_place *place,
                                    uint64_t old, uint64_t new, struct kiln_err *err)
{
    struct tuning_db *db = change->owner;
    struct tuning_usage *usage = NULL;
    if (place->tier != TUNING_TIER_USER || (db->records_per_uid == 0 && db->bytes_per_uid == 0))
        return KILN_OK;
    enum kiln_code rc = tuning_usage_of(db, place->uid, &usage, err);
    if (rc)
        return note_result(change, rc, err);
    const struct tuning_amount *has = &usage->pending;
    if (db->records_per_uid > 0 && old == 0 && has->records >= db->records_per_uid)
        return full_of_records(place->uid, has->records, db->records_per_uid, err);
    if (db->bytes_per_uid > 0 && new > old && has->bytes + (new - old) > db->bytes_per_uid)
        return full_of_bytes(place->uid, has->bytes, db->bytes_per_uid, err);
    return KILN_OK;
}

static void count_one(struct tuning_change *change, const struct tuning_place *place, uint64_t old,
                      uint64_t new)
{
    int by = (new > 0) - (old > 0);
    change->records += by;
    struct tuning_usage *usage =
        place->tier == TUNING_TIER_USER ? tuning_usage_known(change->owner, place->uid) : NULL;
    change->changed_uncounted |= place->tier == TUNING_TIER_USER && !usage;
    if (!usage)
        return;
    usage->pending.records += (uint64_t)(int64_t)by;
    usage->pending.bytes += new - old;
}

static enum kiln_code put_record(struct tuning_change *change, const struct tuning_place *place,
                                 struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(change->owner->db, TUNING_RECORD_PUT);
    tuning_bind_place(&q, place);
    query_bind_bytes(&q, 7, buffer_view(&change->content));
    return query_run(&q, err);
}

static enum kiln_code remove_record(struct tuning_change *change, const struct tuning_place *place,
                                    struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(change->owner->db, TUNING_RECORD_REMOVE);
    tuning_bind_place(&q, place);
    return query_run(&q, err);
}

enum kiln_code tuning_change_record(struct tuning_change *change, const struct tuning_place *place,
                                    const struct tuning_row *rows, size_t count,
                                    struct kiln_err *err)
{
    uint64_t old = 0, new = 0;
    buffer_clear(&change->content);
    enum kiln_code rc = refuse_failed(change, err);
    if (!rc)
        rc = tuning_place_check(place, err);
    if (!rc && count > 0)
        rc = tuning_record_pack(place, rows, count, &change->content, err);
    if (rc)
        return rc;
    rc = note_result(change, cost_there(change->owner->db, place, &old, err), err);
    if (rc || (count == 0 && old == 0))
        return rc;
    if (count > 0) {
        new = tuning_record_cost(place->key.size + change->content.size, count);
        rc = keep_to_quota(change, place, old, new, err);
    }
    if (rc)
        return rc;
    rc = note_result(change,
                     count > 0 ? put_record(change, place, err) : remove_record(change, place, err),
                     err);
    if (!rc)
        count_one(change, place, old, new);
    return rc;
}

static enum kiln_code run_at_place(struct tuning_change *change, enum tuning_statement statement,
                                   const struct tuning_place *place, struct kiln_err *err)
{
    enum kiln_code rc = refuse_failed(change, err);
    if (rc)
        return rc;
    QUERY_AUTO struct query q = query_of(change->owner->db, statement);
    tuning_bind_place(&q, place);
    return note_result(change, query_run(&q, err), err);
}

enum kiln_code tuning_change_keep_before(struct tuning_change *change,
                                         const struct tuning_place *place, struct kiln_err *err)
{
    return run_at_place(change, TUNING_BEFORE_KEEP, place, err);
}

enum kiln_code tuning_change_note_written(struct tuning_change *change,
                                          const struct tuning_place *place, struct kiln_err *err)
{
    return run_at_place(change, TUNING_BEFORE_WRITTEN, place, err);
}

enum kiln_code tuning_change_forget_before(struct tuning_change *change, struct kiln_err *err)
{
    enum kiln_code rc = refuse_failed(change, err);
    if (rc)
        return rc;
    QUERY_AUTO struct query q = query_of(change->owner->db, TUNING_BEFORE_FORGET);
    return note_result(change, query_run(&q, err), err);
}

static void bind_system(struct query *q, enum tuning_kind kind, const char *database_id,
                        const char *backend)
{
    query_bind_u64(q, 1, kind);
    query_bind_text(q, 2, database_id);
    query_bind_text(q, 3, backend);
}

static enum kiln_code system_is_there(struct db *file, const struct tuning_system_file *system,
                                      bool *ret_there, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(file, TUNING_SYSTEM_FIND);
    bind_system(&q, system->kind, system->database_id, system->backend);
    return query_step(&q, ret_there, err);
}

static enum kiln_code put_system(struct tuning_change *change,
                                 const struct tuning_system_file *system, struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(change->owner->db, TUNING_SYSTEM_PUT);
    bind_system(&q, system->kind, system->database_id, system->backend);
    query_bind_bytes(&q, 4, buffer_view(&change->content));
    return query_run(&q, err);
}

enum kiln_code tuning_change_system(struct tuning_change *change,
                                    const struct tuning_system_file *file, struct kiln_err *err)
{
    bool there = false;
    enum kiln_code rc = refuse_failed(change, err);
    if (!rc)
        rc = tuning_system_check(file, err);
    if (rc)
        return rc;
    buffer_clear(&change->content);
    tuning_system_pack(file, &change->content);
    if (change->content.failed)
        return note_result(
            change, kiln_fail(err, KILN_NO_MEMORY, "cannot record an import: out of memory"), err);
    rc = system_is_there(change->owner->db, file, &there, err);
    if (!rc)
        rc = put_system(change, file, err);
    change->systems += !rc && !there;
    return note_result(change, rc, err);
}

enum kiln_code tuning_change_system_remove(struct tuning_change *change, enum tuning_kind kind,
                                           const char *database_id, const char *backend,
                                           struct kiln_err *err)
{
    enum kiln_code rc = refuse_failed(change, err);
    if (rc)
        return rc;
    QUERY_AUTO struct query q = query_of(change->owner->db, TUNING_SYSTEM_REMOVE);
    bind_system(&q, kind, database_id, backend);
    rc = query_run(&q, err);
    if (!rc)
        change->systems -= (int64_t)db_changes(change->owner->db);
    return note_result(change, rc, err);
}

static void bind_put(struct query *q, uint32_t uid, const struct tuning_put_token *token)
{
    query_bind_u64(q, 1, uid);
    query_bind_bytes(q, 2, bytes_of(token->bytes, sizeof(token->bytes)));
}

enum kiln_code tuning_db_has_put(struct tuning_db *db, uint32_t uid,
                                 const struct tuning_put_token *token, bool *ret_has,
                                 struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(db->db, TUNING_PUT_FIND);
    bind_put(&q, uid, token);
    return query_step(&q, ret_has, err);
}

static enum kiln_code add_put(struct db *file, uint32_t uid, const struct tuning_put_token *token,
                              struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(file, TUNING_PUT_ADD);
    bind_put(&q, uid, token);
    return query_run(&q, err);
}

static enum kiln_code forget_puts(struct db *file, uint32_t uid, struct kiln_err *err)
{
    QUERY_AUTO struct query of_user = query_of(file, TUNING_PUT_FORGET_UID);
    QUERY_AUTO struct query of_all = query_of(file, TUNING_PUT_FORGET);
    query_bind_u64(&of_user, 1, uid);
    query_bind_u64(&of_user, 2, TUNING_PUTS_UID);
    query_bind_u64(&of_all, 1, TUNING_PUTS_MAX);
    enum kiln_code rc = query_run(&of_user, err);
    return rc ? rc : query_run(&of_all, err);
}

enum kiln_code tuning_change_add_put(struct tuning_change *change, uint32_t uid,
                                     const struct tuning_put_token *token, struct kiln_err *err)
{
    struct db *file = change->owner->db;
    enum kiln_code rc = refuse_failed(change, err);
    if (rc)
        return rc;
    rc = add_put(file, uid, token, err);
    if (!rc)
        rc = forget_puts(file, uid, err);
    return note_result(change, rc, err);
}
