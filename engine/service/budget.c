/* SPDX-License-Identifier: MIT */
#include "engine/service/budget.h"

struct share { /* the charges of one user */
    struct share *next;
    uid_t uid;
    uint64_t taken;
};

struct budget {
    uint64_t limit;
    uint64_t limit_uid;
    uint64_t taken;
    struct share *shares; /* owned; as long as there are users who wait */
};

enum kiln_code budget_create(uint64_t limit, uint64_t limit_uid, struct budget **ret_budget,
                             struct kiln_err *err)
{
    struct budget *b = calloc(1, sizeof(*b));
    if (!b)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make the budget of waiting requests");
    b->limit = limit;
    b->limit_uid = limit_uid;
    *ret_budget = b;
    return KILN_OK;
}

void budget_destroy(struct budget *b)
{
    while (b && b->shares) {
        struct share *s = b->shares;
        b->shares = s->next;
        free(s);
    }
    free(b);
}

void budget_set_limits(struct budget *b, uint64_t limit, uint64_t limit_uid)
{
    b->limit = limit;
    b->limit_uid = limit_uid;
}

static struct share **find_share(struct budget *b, uid_t uid)
{
    struct share **at = &b->shares;
    while (*at && (*at)->uid != uid)
        at = &(*at)->next;
    return at;
}

enum kiln_code budget_take(struct budget *b, uid_t uid, uint64_t bytes, struct kiln_err *err)
{
    if (bytes == 0)
        return KILN_OK; /* a share of nothing would have no end */
    struct share **at = find_share(b, uid);
    uint64_t taken = *at ? (*at)->taken : 0;
    if (taken > b->limit_uid || bytes > b->limit_uid - taken)
        return kiln_fail(err, KILN_BUSY,
                         "%llu bytes of requests by user %u wait already, %llu may: ask again when "
                         "some are done (setting queue_bytes_per_uid)",
                         (unsigned long long)taken, (unsigned)uid,
                         (unsigned long long)b->limit_uid);
    if (b->taken > b->limit || bytes > b->limit - b->taken)
        return kiln_fail(err, KILN_BUSY,
                         "%llu bytes of requests wait already, %llu may: ask again when some are "
                         "done (setting queue_bytes)",
                         (unsigned long long)b->taken, (unsigned long long)b->limit);
    if (!*at) {
        *at = calloc(1, sizeof(**at));
        if (!*at)
            return kiln_fail(err, KILN_NO_MEMORY, "cannot keep a request");
        (*at)->uid = uid;
    }
    (*at)->taken += bytes;
    b->taken += bytes;
    return KILN_OK;
}

void budget_return(struct budget *b, uid_t uid, uint64_t bytes)
{
    if (bytes == 0)
        return;
    struct share **at = find_share(b, uid);
    struct share *s = *at;
    s->taken -= bytes;
    b->taken -= bytes;
    if (s->taken > 0)
        return;
    *at = s->next;
    free(s);
}

uint64_t budget_taken(const struct budget *b) { return b->taken; }
