/* SPDX-License-Identifier: MIT */
#include "engine/tuning/tuning_db_parts.h"

#include "common/base/array.h"

_Static_assert(sizeof(struct tuning_row) <= TUNING_ENTRY_COST, "an entry in memory costs more");

uint64_t tuning_record_cost(size_t key_and_content, size_t entries)
{
    return key_and_content + (uint64_t)entries * TUNING_ENTRY_COST;
}

uint64_t tuning_read_cost(const struct query *q, int column)
{
    struct bytes entries = query_bytes(q, column + 1); /* little-endian, as in tuning_record_pack */
    size_t count = entries.size == 2 ? entries.data[0] | (size_t)entries.data[1] << 8 : 0;
    return tuning_record_cost(query_u64(q, column), count);
}

struct tuning_usage *tuning_usage_known(const struct tuning_db *db, uint32_t uid)
{
    for (size_t i = 0; i < db->usage_count; i++) {
        if (db->usages[i].uid == uid)
            return &db->usages[i];
    }
    return NULL;
}

static struct tuning_usage *usage_add(struct tuning_db *db)
{
    if (!ARRAY_RESERVE(db->usages, db->usage_count, db->usage_max, 16))
        return NULL;
    return &db->usages[db->usage_count];
}

static enum kiln_code count_usage(struct db *file, uint32_t uid, struct tuning_amount *ret_amount,
                                  struct kiln_err *err)
{
    QUERY_AUTO struct query q = query_of(file, TUNING_RECORD_SIZES_UID);
    query_bind_u64(&q, 1, TUNING_TIER_USER);
    query_bind_u64(&q, 2, uid);
    struct tuning_amount amount = { 0 };
    bool row = false;
    enum kiln_code rc = query_step(&q, &row, err);
    for (; !rc && row; rc = query_step(&q, &row, err)) {
        amount.records++;
        amount.bytes += tuning_read_cost(&q, 0);
    }
    *ret_amount = amount;
    return rc;
}

enum kiln_code tuning_usage_of(struct tuning_db *db, uint32_t uid, struct tuning_usage **ret_usage,
                               struct kiln_err *err)
{
    struct tuning_amount amount;
    *ret_usage = tuning_usage_known(db, uid);
    if (*ret_usage)
        return KILN_OK;
    enum kiln_code rc = count_usage(db->db, uid, &amount, err);
    struct tuning_usage *usage = rc ? NULL : usage_add(db);
    if (rc)
        return rc;
    if (!usage)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot count a user's records: out of memory");
    *usage = (struct tuning_usage){ .uid = uid, .kept = amount, .pending = amount };
    db->usage_count++;
    *ret_usage = usage;
    return KILN_OK;
}

void tuning_usage_settle(struct tuning_db *db, bool is_committed)
{
    for (size_t i = 0; i < db->usage_count; i++) {
        struct tuning_usage *usage = &db->usages[i];
        if (is_committed)
            usage->kept = usage->pending;
        else
            usage->pending = usage->kept;
    }
}

void tuning_usage_forget(struct tuning_db *db) { db->usage_count = 0; }
