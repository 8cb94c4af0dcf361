/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A queue that is fair between users.  All work of users waits in such queues.
 *
 * Role       keeps waiting items, with limits in total and for each user.  The next item belongs to
 *            the user who has been served least
 * Ownership  borrows items from fair_queue_push until fair_queue_pop or fair_queue_remove
 * Threading  has no lock: use it on one thread, or hold the owner's lock
 *
 * The algorithm is start-time fair queuing (Goyal, Vin, Cheng, 1996). Each user has a virtual time:
 * the sum of the costs of the user's items so far. Costs can have any unit. The user with the
 * lowest virtual time is served next. Each item costs one unit when it is popped; fair_queue_settle
 * adds the rest once the true cost is known. The queue's virtual time is that of the user served
 * last. A user who returns after a pause starts at the queue's virtual time, so a pause gives no
 * advantage. When nothing waits and nothing runs, the queue's virtual time becomes the highest
 * virtual time of all users. So the queue forgets how much each user was served until then, which
 * no longer matters. Example:
 *
 *     user 1 pushes a b c, user 2 then pushes d    popped: a d b c
 */
#include "common/base/cleanup.h"
#include "common/base/err.h"
#include "common/base/list.h"

#include <stdint.h>
#include <sys/types.h>

#define FAIR_QUEUE_UNIT 1000000u /* 1 ms if costs are in ns */

struct fair_item { /* embedded by the caller, who zeroes it first */
    struct list_link link;
    struct fair_user *user;
    bool lets_pass; /* true: if |may_start| rejects this item, later items of the same user may
                     * start */
};

struct fair_queue_options {
    unsigned max;     /* 0: no limit */
    unsigned max_uid; /* 0: no limit */
    const char *noun;
    uint64_t unit;
};

struct fair_queue {
    struct fair_queue_options options;
    struct list users;
    unsigned count;
    unsigned running; /* items that were popped but not settled; only valid if the owner calls
                       * fair_queue_settle */
    uint64_t now;
    bool is_closed;
};

void fair_queue_init(struct fair_queue *queue, const struct fair_queue_options *options);
/* The queue must be empty.  Accepts a zeroed queue. */
void fair_queue_done(struct fair_queue *queue);

/* Returns KILN_BUSY if too many items wait, and KILN_UNAVAILABLE if the queue is closed. */
KILN_MUST_CHECK enum kiln_code fair_queue_push(struct fair_queue *queue, uid_t uid,
                                               struct fair_item *item, struct kiln_err *err);
/* Checks limits that apply to several queues together. |waiting| is the number of items in all
 * these queues, |waiting_uid| the number of items of |uid|. Returns KILN_BUSY if one more item
 * would exceed a limit. */
KILN_MUST_CHECK enum kiln_code fair_queue_check(const struct fair_queue_options *limits,
                                                unsigned waiting, uid_t uid, unsigned waiting_uid,
                                                struct kiln_err *err);
/* Pushes an item into a queue without limits. Cannot fail: if there is no memory for a new user
 * |uid|, the item is queued for |reserved|, a user for whom fair_queue_reserve was called. */
void fair_queue_push_unlimited(struct fair_queue *queue, uid_t uid, uid_t reserved,
                               struct fair_item *item);
/* Pops the next item, and charges its user one unit (the option |unit|).  Returns NULL if no item
 * waits. */
struct fair_item *fair_queue_pop(struct fair_queue *queue);
/* Pops the next item that |may_start| accepts; NULL accepts all. If |may_start| rejects an item,
 * the later items of the same user are skipped, unless the rejected item has |lets_pass|. Returns
 * NULL if no item may start. */
typedef bool fair_filter(void *context, const struct fair_item *item);
struct fair_item *fair_queue_pop_if(struct fair_queue *queue, fair_filter *may_start,
                                    void *context);
struct fair_item *fair_queue_peek_if(const struct fair_queue *queue, fair_filter *may_start,
                                     void *context);
/* Pops |item| ahead of |next|, the item that fair_queue_peek_if returned. The queue's virtual time
 * becomes that of |next|'s user, so that users who have to wait for |item| lose nothing. */
void fair_queue_pop_before(struct fair_queue *queue, struct fair_item *item,
                           const struct fair_item *next);
bool fair_queue_remove(struct fair_queue *queue, struct fair_item *item);
/* Charges |uid| for a popped item whose work has ended.  |cost| is the item's total cost, of which
 * fair_queue_pop has charged one unit. Call this function once for each popped item. */
void fair_queue_settle(struct fair_queue *queue, uid_t uid, uint64_t cost);
/* Moves a waiting item from |from| to |to|, which may be the same queue, and makes it the last item
 * of |uid|. Ignores the limits. Returns false if memory runs out; the item then stays where it
 * is. */
bool fair_queue_move(struct fair_queue *from, struct fair_item *item, struct fair_queue *to,
                     uid_t uid);
/* Keeps |uid| as a user of the queue until the matching fair_queue_release.  Until then, a push for
 * |uid| cannot fail for lack of memory.  Returns false if memory runs out. */
KILN_MUST_CHECK bool fair_queue_reserve(struct fair_queue *queue, uid_t uid);
void fair_queue_release(struct fair_queue *queue, uid_t uid);
/* Refuses new items.  Waiting items can still be popped. */
void fair_queue_close(struct fair_queue *queue);

unsigned fair_queue_count_of(const struct fair_queue *queue, uid_t uid);
/* Returns whether more than |count| items of the same user are before |item|. */
bool fair_queue_is_behind(const struct fair_item *item, unsigned count);
void fair_queue_each_user(const struct fair_queue *queue,
                          void (*visit)(void *context, uid_t uid, unsigned waiting), void *context);
