/* SPDX-License-Identifier: MIT */
#include "engine/service/budget.h"

#include "common/base/list.h"
#include "common/base/subordinate_uids.h"

struct share {
    struct list_link link;
    uid_t uid;
    uint64_t taken;
};

struct budget {
    uint64_t limit;
    uint64_t limit_uid;
    uint64_t taken;
    uint64_t peak; /* since the last budget_take_peak */
    struct list shares;
};

enum kiln_code budget_create(uint64_t limit, uint64_t limit_uid, struct budget **ret_budget,
                             struct kiln_err *err)
{
    struct budget *b = calloc(1, sizeof(*b));
    if (!b)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make the budget of waiting requests");
    list_init(&b->shares);
    b->limit = limit;
    b->limit_uid = limit_uid;
    *ret_budget = b;
    return KILN_OK;
}

void budget_destroy(struct budget *b)
{
    if (!b)
        return;
    LIST_EACH (&b->shares, struct share, link, s)
        free(s);
    free(b);
}

void budget_set_limits(struct budget *b, uint64_t limit, uint64_t limit_uid)
{
    b->limit = limit;
    b->limit_uid = limit_uid;
}

static struct share *find_share(struct budget *b, uid_t uid)
{
    LIST_EACH (&b->shares, struct share, link, s)
        if (is_one_user(s->uid, uid))
            return s;
    return NULL;
}

static enum kiln_code check_limits(const struct budget *b, const struct share *s, uid_t uid,
                                   uint64_t bytes, struct kiln_err *err)
{
    uint64_t taken = s ? s->taken : 0, others = b->taken - taken;
    uint64_t share = b->limit > others ? (b->limit - others) / 2 : 0;
    if (taken > b->limit_uid || bytes > b->limit_uid - taken)
        return kiln_fail(
            err, KILN_BUSY,
            "waiting requests of user %u hold %llu bytes, and the limit of the setting "
            "queue_bytes_per_uid is %llu: try again when some are done",
            (unsigned)uid, (unsigned long long)taken, (unsigned long long)b->limit_uid);
    if (taken > share || bytes > share - taken)
        return kiln_fail(err, KILN_BUSY,
                         "waiting requests of other users hold %llu bytes, and user %u may hold "
                         "half of what is left of %llu, the setting queue_bytes: try again when "
                         "some are done",
                         (unsigned long long)others, (unsigned)uid, (unsigned long long)b->limit);
    return KILN_OK;
}

enum kiln_code budget_take(struct budget *b, uid_t uid, uint64_t bytes, struct kiln_err *err)
{
    if (bytes == 0)
        return KILN_OK;
    struct share *s = find_share(b, uid);
    enum kiln_code rc = check_limits(b, s, uid, bytes, err);
    if (rc)
        return rc;
    if (!s) {
        s = calloc(1, sizeof(*s));
        if (!s)
            return kiln_fail(err, KILN_NO_MEMORY, "cannot keep the request: out of memory");
        s->uid = uid;
        list_prepend(&b->shares, &s->link);
    }
    s->taken += bytes;
    b->taken += bytes;
    b->peak = b->taken > b->peak ? b->taken : b->peak;
    return KILN_OK;
}

void budget_return(struct budget *b, uid_t uid, uint64_t bytes)
{
    if (bytes == 0)
        return;
    struct share *s = find_share(b, uid);
    s->taken -= bytes;
    b->taken -= bytes;
    if (s->taken > 0)
        return;
    list_remove(&s->link);
    free(s);
}

uint64_t budget_taken(const struct budget *b) { return b->taken; }

uint64_t budget_take_peak(struct budget *b)
{
    uint64_t peak = b->peak;
    b->peak = b->taken;
    return peak;
}
