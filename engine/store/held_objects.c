/* SPDX-License-Identifier: MIT */
#include "engine/store/held_objects.h"

#include "common/base/clock.h"
#include "common/base/hash_table.h"
#include "common/base/list.h"
#include "common/base/subordinate_uids.h"
#include "common/base/units.h"
#include "engine/store/file_watches.h"

#define PAGE 4096u

struct holder {
    struct list_link link;
    uid_t uid;
    uint64_t bytes;
    unsigned count;
    struct list open; /* of struct held_object: objects that kilnd still has open */
};

struct held_object {
    struct held_objects *held;
    struct holder *holder;
    uint64_t bytes;
    struct object *object; /* borrowed; NULL: kilnd has closed it */
    struct list_link link; /* in |open| of its holder, or in |unwatched| */
    struct hash_link by_watch;
    int watch;
    uint64_t closed_s;
};

struct held_objects {
    struct held_limits limits;
    uint64_t bytes;
    struct list holders;       /* of struct holder; owned */
    struct hash_table watched; /* of struct held_object; owned */
    struct list unwatched;     /* of struct held_object, the oldest first; owned */
    struct file_watches watches;
    uint64_t unwatched_count;
};

enum kiln_code held_objects_create(const struct held_limits *limits, struct held_objects **ret_held,
                                   struct kiln_err *err)
{
    struct held_objects *h = calloc(1, sizeof(*h));
    if (!h)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make the list of held objects");
    h->limits = *limits;
    file_watches_init(&h->watches);
    list_init(&h->holders);
    list_init(&h->unwatched);
    *ret_held = h;
    return KILN_OK;
}

void held_objects_set_limits(struct held_objects *h, const struct held_limits *limits)
{
    h->limits = *limits;
}

static struct holder *find_holder(const struct held_objects *h, uid_t uid)
{
    LIST_EACH (&h->holders, struct holder, link, one)
        if (is_one_user(one->uid, uid))
            return one;
    return NULL;
}

static struct holder *add_holder(struct held_objects *h, uid_t uid)
{
    struct holder *holder = calloc(1, sizeof(*holder));
    if (!holder)
        return NULL;
    holder->uid = uid;
    list_init(&holder->open);
    list_prepend(&h->holders, &holder->link);
    return holder;
}

static void remove_if_unused(struct holder *holder)
{
    if (holder->count > 0)
        return;
    list_remove(&holder->link);
    free(holder);
}

static void forget(struct held_object *entry)
{
    struct holder *holder = entry->holder;
    entry->held->bytes -= entry->bytes;
    holder->bytes -= entry->bytes;
    holder->count--;
    list_remove(&entry->link);
    hash_table_remove(&entry->held->watched, &entry->by_watch);
    free(entry);
    remove_if_unused(holder);
}

void held_objects_destroy(struct held_objects *h)
{
    if (!h)
        return;
    HASH_ALL (&h->watched, struct held_object, by_watch, entry)
        forget(entry);
    LIST_EACH (&h->unwatched, struct held_object, link, entry)
        forget(entry);
    hash_table_done(&h->watched);
    file_watches_done(&h->watches);
    free(h);
}

static uint64_t cost_of(const struct object *object)
{
    uint64_t pages = (object->size + PAGE - 1) / PAGE * PAGE;
    return pages > HELD_OBJECT_MIN ? pages : HELD_OBJECT_MIN;
}

static uint64_t share_of(const struct held_objects *h, const struct holder *holder)
{
    uint64_t others = h->bytes - (holder ? holder->bytes : 0);
    uint64_t left = h->limits.bytes > others ? (h->limits.bytes - others) / 2 : 0;
    return left < h->limits.bytes_uid ? left : h->limits.bytes_uid;
}

static bool is_counted(const struct held_objects *h, const struct object *object)
{
    return object->held || h->limits.bytes_uid == 0;
}

bool held_objects_exceed(struct held_objects *h, const struct object *object)
{
    const struct holder *holder = find_holder(h, object->receiver);
    uint64_t has = holder ? holder->bytes : 0;
    return !is_counted(h, object) && has + cost_of(object) > share_of(h, holder);
}

static enum kiln_code refuse(const struct held_objects *h, const struct object *object,
                             struct kiln_err *err)
{
    const struct holder *holder = find_holder(h, object->receiver);
    char has[UNITS_TEXT_MAX], share[UNITS_TEXT_MAX];
    return kiln_fail(
        err, KILN_BUSY,
        "user %u has received code objects of %s whose memory is not free, and at most "
        "%s are permitted now (setting hot_limit): close kernels that are no longer "
        "used, or end processes that keep them, then try again",
        (unsigned)object->receiver, units_size(holder ? holder->bytes : 0, has),
        units_size(share_of(h, holder), share));
}

static enum kiln_code add_entry(struct held_objects *h, struct object *object, struct kiln_err *err)
{
    struct held_object *entry = calloc(1, sizeof(*entry));
    struct holder *holder = find_holder(h, object->receiver);
    if (entry && !holder)
        holder = add_holder(h, object->receiver);
    if (!entry || !holder) {
        free(entry);
        return kiln_fail(err, KILN_NO_MEMORY, "cannot send a code object: out of memory");
    }
    *entry = (struct held_object){
        .held = h, .holder = holder, .bytes = cost_of(object), .object = object
    };
    list_append(&holder->open, &entry->link);
    holder->count++;
    holder->bytes += entry->bytes;
    h->bytes += entry->bytes;
    object->held = entry;
    return KILN_OK;
}

enum kiln_code held_objects_count(struct held_objects *h, struct object *object,
                                  struct kiln_err *err)
{
    if (is_counted(h, object))
        return KILN_OK;
    if (held_objects_exceed(h, object))
        held_objects_sweep(h);
    if (held_objects_exceed(h, object))
        return refuse(h, object, err);
    return add_entry(h, object, err);
}

struct object *held_objects_next(struct held_objects *h, uid_t uid)
{
    struct holder *holder = find_holder(h, uid);
    struct held_object *entry = holder ? LIST_POP(&holder->open, struct held_object, link) : NULL;
    if (!entry)
        return NULL;
    list_append(&holder->open, &entry->link);
    return entry->object;
}

static void count_unwatched(struct held_object *entry)
{
    struct held_objects *h = entry->held;
    hash_table_remove(&h->watched, &entry->by_watch);
    entry->closed_s = clock_monotonic_ns() / 1000000000u;
    list_append(&h->unwatched, &entry->link);
    h->unwatched_count++;
}

void held_object_close(struct held_object *entry, int fd)
{
    struct held_objects *h = entry->held;
    list_remove(&entry->link);
    entry->object = NULL;
    entry->watch = file_watches_add(&h->watches, fd);
    close(fd); /* if no other process has the file, Linux queues the event now */
    if (entry->watch < 0)
        count_unwatched(entry);
    else
        hash_table_add(&h->watched, &entry->by_watch, (uint64_t)entry->watch);
    held_objects_sweep(h);
}

static void forget_watched(struct held_objects *h, int watch)
{
    HASH_EACH (&h->watched, (uint64_t)watch, struct held_object, by_watch, entry) {
        forget(entry);
        return;
    }
}

/* Called after Linux has dropped events, because more than fs.inotify.max_queued_events were
 * queued. Finds the freed objects without events: the watch of a freed object no longer exists. */
static void lose_events(struct held_objects *h)
{
    struct file_watch_list left;
    file_watches_list(&h->watches, &left);
    HASH_ALL (&h->watched, struct held_object, by_watch, entry)
        if (!left.watches)
            count_unwatched(entry);
        else if (!file_watch_list_has(&left, entry->watch))
            forget(entry);
    file_watch_list_done(&left);
}

void held_objects_sweep(struct held_objects *h)
{
    int watch;
    while ((watch = file_watches_next(&h->watches)) != FILE_WATCHES_END)
        if (watch == FILE_WATCHES_LOST)
            lose_events(h);
        else
            forget_watched(h, watch);
    if (list_is_empty(&h->unwatched))
        return;
    uint64_t now_s = clock_monotonic_ns() / 1000000000u;
    LIST_EACH (&h->unwatched, struct held_object, link, entry) {
        if (now_s < entry->closed_s + HELD_UNKNOWN_S)
            return;
        forget(entry);
    }
}

uint64_t held_objects_bytes(const struct held_objects *h) { return h->bytes; }

unsigned held_objects_closed(const struct held_objects *h)
{
    unsigned count = (unsigned)h->watched.count;
    LIST_EACH (&h->unwatched, struct held_object, link, entry)
        count++;
    return count;
}

uint64_t held_objects_unwatched(const struct held_objects *h) { return h->unwatched_count; }
