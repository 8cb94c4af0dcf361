/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The one queue in which users' work waits.
 *
 * Role       bounded, in all and for each user; fair: the next item is that of the user who has
 *            been served least; items can be removed, and the queue can be closed and emptied
 * Ownership  borrows items from fair_queue_push until fair_queue_pop or fair_queue_remove
 * Threading  none of its own; one thread, or whoever owns it holds a lock
 *
 * The algorithm is start-time fair queuing (Goyal, Vin, Cheng, 1996).  Each user has a virtual
 * time: what they were served so far, in any unit of cost.  The user with the least is served
 * next and pays for it: one unit for each item, and what fair_queue_charge adds once the true cost
 * is known.  A user who comes back after a pause begins at the queue's virtual time, that of the
 * user served last, so a pause earns no credit:
 *
 *     user 1 pushes a b c, user 2 then pushes d    popped: a d b c
 */
#include "common/cleanup.h"
#include "common/err.h"
#include "common/list.h"

#include <stdint.h>
#include <sys/types.h>

#define FAIR_QUEUE_UNIT \
    1000000u /* what an item costs: so many nanoseconds, where costs are times */

struct fair_item { /* embed it, zeroed */
    struct list_link link;
    struct fair_user *user; /* NULL: not in a queue */
};

struct fair_queue_options {
    unsigned max;     /* items that wait, of all users */
    unsigned max_uid; /* of one user */
    const char *noun; /* of what waits, plural, for messages: "compiles" */
};

struct fair_queue {
    struct fair_queue_options options;
    struct list users; /* of struct fair_user; owned */
    unsigned count;    /* items */
    uint64_t now;      /* virtual time */
    bool is_closed;
};

void fair_queue_init(struct fair_queue *queue, const struct fair_queue_options *options);
/* Only when it is empty; accepts one that was zeroed and never initialized. */
void fair_queue_done(struct fair_queue *queue);

/* KILN_BUSY, with the limit and what to do, when too many wait; KILN_UNAVAILABLE when closed. */
KILN_MUST_CHECK enum kiln_code fair_queue_push(struct fair_queue *queue, uid_t uid,
                                               struct fair_item *item, struct kiln_err *err);
/* The next item, or NULL.  Its user pays FAIR_QUEUE_UNIT. */
struct fair_item *fair_queue_pop(struct fair_queue *queue);
/* The item that fair_queue_pop would return. */
struct fair_item *fair_queue_peek(const struct fair_queue *queue);
/* Both, passing over users whose first item may not start now; NULL: none may. */
typedef bool fair_filter(void *context, const struct fair_item *item);
struct fair_item *fair_queue_pop_if(struct fair_queue *queue, fair_filter *may_start,
                                    void *context);
struct fair_item *fair_queue_peek_if(const struct fair_queue *queue, fair_filter *may_start,
                                     void *context);
/* True: it was waiting, and is the caller's again. */
bool fair_queue_remove(struct fair_queue *queue, struct fair_item *item);
/* |uid| used |cost| more than was paid. */
void fair_queue_charge(struct fair_queue *queue, uid_t uid, uint64_t cost);
/* Moves a waiting item of |from| to the end of |uid|'s in |to|, which may be the same queue; limits
 * do not count.  False: no memory, the item stays. */
bool fair_queue_move(struct fair_queue *from, struct fair_item *item, struct fair_queue *to,
                     uid_t uid);
/* Until as many calls of fair_queue_release, a push for |uid| needs no memory: within the limits,
 * it cannot fail.  False: no memory. */
KILN_MUST_CHECK bool fair_queue_reserve(struct fair_queue *queue, uid_t uid);
void fair_queue_release(struct fair_queue *queue, uid_t uid);
/* From now on every push fails; what waits can still be popped. */
void fair_queue_close(struct fair_queue *queue);

unsigned fair_queue_count_of(const struct fair_queue *queue, uid_t uid);
/* How many of the same user's items come before it. */
unsigned fair_queue_place_of(const struct fair_item *item);
/* Once for each user of whom something waits. */
void fair_queue_each_user(const struct fair_queue *queue,
                          void (*visit)(void *context, uid_t uid, unsigned waiting), void *context);
