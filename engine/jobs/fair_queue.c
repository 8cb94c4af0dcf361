/* SPDX-License-Identifier: MIT */
#include "engine/jobs/fair_queue.h"

#include "common/base/subordinate_uids.h"

#include <stdlib.h>

struct fair_user {
    struct list_link link;
    struct list items;
    unsigned count;
    unsigned reserved;
    uid_t uid;
    uint64_t served;
};

void fair_queue_init(struct fair_queue *queue, const struct fair_queue_options *options)
{
    *queue = (struct fair_queue){ .options = *options };
    if (!queue->options.unit)
        queue->options.unit = FAIR_QUEUE_UNIT;
    list_init(&queue->users);
}

static void drop_user(struct fair_user *user)
{
    list_remove(&user->link);
    free(user);
}

void fair_queue_done(struct fair_queue *queue)
{
    if (!queue->users.head.next)
        return;
    LIST_EACH (&queue->users, struct fair_user, link, user)
        drop_user(user);
}

static struct fair_user *find_user(const struct fair_queue *queue, uid_t uid)
{
    LIST_EACH (&queue->users, struct fair_user, link, user) {
        if (is_one_user(user->uid, uid))
            return user;
    }
    return NULL;
}

static struct fair_user *find_or_add_user(struct fair_queue *queue, uid_t uid)
{
    struct fair_user *user = find_user(queue, uid);
    if (!user) {
        user = calloc(1, sizeof(*user));
        if (!user)
            return NULL;
        user->uid = uid;
        list_init(&user->items);
        list_append(&queue->users, &user->link);
    }
    if (user->count == 0 && user->served < queue->now)
        user->served = queue->now; /* no credit for the time in which the user had no items */
    return user;
}

static void end_busy_time(struct fair_queue *queue)
{
    if (queue->count > 0 || queue->running > 0)
        return;
    LIST_EACH (&queue->users, const struct fair_user, link, user)
        queue->now = user->served > queue->now ? user->served : queue->now;
}

static void forget_idle_users(struct fair_queue *queue)
{
    LIST_EACH (&queue->users, struct fair_user, link, user) {
        if (user->count == 0 && user->reserved == 0 && user->served <= queue->now)
            drop_user(user);
    }
}

static void add_item(struct fair_queue *queue, struct fair_user *user, struct fair_item *item)
{
    item->user = user;
    list_append(&user->items, &item->link);
    user->count++;
    queue->count++;
}

static void take_item(struct fair_queue *queue, struct fair_item *item)
{
    list_remove(&item->link);
    item->user->count--;
    item->user = NULL;
    queue->count--;
}

enum kiln_code fair_queue_check(const struct fair_queue_options *limits, unsigned waiting,
                                uid_t uid, unsigned waiting_uid, struct kiln_err *err)
{
    if (limits->max && waiting >= limits->max)
        return kiln_fail(err, KILN_BUSY,
                         "%u %s are waiting, which is the maximum: try again when some are done",
                         waiting, limits->noun);
    if (limits->max_uid && waiting_uid >= limits->max_uid)
        return kiln_fail(err, KILN_BUSY,
                         "%u %s of user %u are waiting, which is the maximum of one user: try "
                         "again when some are done",
                         limits->max_uid, limits->noun, (unsigned)uid);
    return KILN_OK;
}

static enum kiln_code check_push(const struct fair_queue *queue, uid_t uid, struct kiln_err *err)
{
    if (queue->is_closed)
        return kiln_fail(err, KILN_UNAVAILABLE, "kilnd is stopping: try again when it is back");
    return fair_queue_check(&queue->options, queue->count, uid, fair_queue_count_of(queue, uid),
                            err);
}

enum kiln_code fair_queue_push(struct fair_queue *queue, uid_t uid, struct fair_item *item,
                               struct kiln_err *err)
{
    enum kiln_code rc = check_push(queue, uid, err);
    if (rc)
        return rc;
    struct fair_user *user = find_or_add_user(queue, uid);
    if (!user)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to queue more %s", queue->options.noun);
    add_item(queue, user, item);
    return KILN_OK;
}

void fair_queue_push_unlimited(struct fair_queue *queue, uid_t uid, uid_t reserved,
                               struct fair_item *item)
{
    struct fair_user *user = find_or_add_user(queue, uid);
    add_item(queue, user ? user : find_or_add_user(queue, reserved), item);
}

static struct fair_item *first_item(const struct fair_user *user, fair_filter *may_start,
                                    void *context)
{
    LIST_EACH (&user->items, struct fair_item, link, item) {
        if (!may_start || may_start(context, item))
            return item;
        if (!item->lets_pass)
            return NULL;
    }
    return NULL;
}

/* Returns the first item of the user with the lowest virtual time. Of several such users, the first
 * in the list is chosen; new users, and users who were just served, are at the end. */
struct fair_item *fair_queue_peek_if(const struct fair_queue *queue, fair_filter *may_start,
                                     void *context)
{
    struct fair_item *next = NULL;
    LIST_EACH (&queue->users, const struct fair_user, link, user) {
        if (next && user->served >= next->user->served)
            continue;
        struct fair_item *first = first_item(user, may_start, context);
        next = first ? first : next;
    }
    return next;
}

void fair_queue_pop_before(struct fair_queue *queue, struct fair_item *item,
                           const struct fair_item *next)
{
    struct fair_user *user = item->user;
    if (next->user->served > queue->now)
        queue->now = next->user->served;
    take_item(queue, item);
    queue->running++;
    if (user->served < queue->now) /* no credit for the time in which this user's items could not
                                    * start */
        user->served = queue->now;
    user->served += queue->options.unit;
    list_remove(&user->link); /* at the end of the list, the user comes after others with the same
                               * virtual time */
    list_append(&queue->users, &user->link);
}

struct fair_item *fair_queue_pop_if(struct fair_queue *queue, fair_filter *may_start, void *context)
{
    struct fair_item *item = fair_queue_peek_if(queue, may_start, context);
    if (item)
        fair_queue_pop_before(queue, item, item);
    return item;
}

struct fair_item *fair_queue_pop(struct fair_queue *queue)
{
    return fair_queue_pop_if(queue, /* may_start= */ NULL, /* context= */ NULL);
}

bool fair_queue_remove(struct fair_queue *queue, struct fair_item *item)
{
    if (!item->user)
        return false;
    take_item(queue, item);
    end_busy_time(queue);
    forget_idle_users(queue);
    return true;
}

void fair_queue_settle(struct fair_queue *queue, uid_t uid, uint64_t cost)
{
    struct fair_user *user = cost > queue->options.unit ? find_or_add_user(queue, uid) : NULL;
    if (user) /* NULL if memory ran out: not charging one item does little harm */
        user->served += cost - queue->options.unit;
    queue->running--;
    end_busy_time(queue);
    forget_idle_users(queue);
}

bool fair_queue_reserve(struct fair_queue *queue, uid_t uid)
{
    struct fair_user *user = find_or_add_user(queue, uid);
    if (user)
        user->reserved++;
    return user != NULL;
}

void fair_queue_release(struct fair_queue *queue, uid_t uid)
{
    find_user(queue, uid)->reserved--;
    forget_idle_users(queue);
}

bool fair_queue_move(struct fair_queue *from, struct fair_item *item, struct fair_queue *to,
                     uid_t uid)
{
    struct fair_user *user = find_or_add_user(to, uid);
    if (!user)
        return false;
    take_item(from, item);
    add_item(to, user, item);
    forget_idle_users(from);
    return true;
}

void fair_queue_close(struct fair_queue *queue) { queue->is_closed = true; }

unsigned fair_queue_count_of(const struct fair_queue *queue, uid_t uid)
{
    const struct fair_user *user = find_user(queue, uid);
    return user ? user->count : 0;
}

bool fair_queue_is_behind(const struct fair_item *item, unsigned count)
{
    const struct list_link *link = item->link.previous;
    for (unsigned i = 0; i < count && link != &item->user->items.head; i++)
        link = link->previous;
    return link != &item->user->items.head;
}

void fair_queue_each_user(const struct fair_queue *queue,
                          void (*visit)(void *context, uid_t uid, unsigned waiting), void *context)
{
    LIST_EACH (&queue->users, struct fair_user, link, user) {
        if (user->count > 0)
            visit(context, user->uid, user->count);
    }
}
