/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The memory of code objects that were sent to users as descriptors.
 *
 * Role       limits the memory that a user's processes hold.  An object's memory is kilnd's, but it
 *            is freed only when no process has the object open or mapped, and kilnd's other limits
 *            do not count what it has closed itself.  The memory counts for the user who received
 *            the object, from the first time it is sent until the kernel has freed it
 * Ownership  takes over the descriptor of an object that kilnd no longer needs, and closes it
 * Threading  the engine's thread
 *
 * An object is sent to the processes of one user only; another user gets a copy.  Otherwise,
 * nobody could tell which of the receivers still has it, and a user could keep objects at the
 * expense of others.
 */
#include "engine/store/object.h"

struct held_objects;

struct held_limits {
    uint64_t bytes_uid; /* maximum of one user; 0: nothing is counted or limited */
    uint64_t bytes;     /* a user may have at most half of what others leave of this */
};

/* A small object counts as this many bytes, because the kernel and kilnd need memory for each. */
#define HELD_OBJECT_MIN (64u << 10)
/* If inotify is not available, or has lost events and there is no /proc, an object counts this long
 * after kilnd has closed it. */
#define HELD_UNKNOWN_S 600

KILN_MUST_CHECK enum kiln_code held_objects_create(const struct held_limits *limits,
                                                   struct held_objects **ret_held,
                                                   struct kiln_err *err);
/* Call it when no object is left that was sent. */
void held_objects_destroy(struct held_objects *held);
void held_objects_set_limits(struct held_objects *held, const struct held_limits *limits);

/* Whether the object may be sent to the user as a descriptor: true if it was not yet reserved for
 * another user.  From now on, it is reserved for this user. */
static inline bool object_reserve(struct object *object, uid_t uid)
{
    if (!object->has_receiver)
        object->receiver = (uint32_t)uid;
    object->has_receiver = true;
    return object->receiver == (uint32_t)uid;
}

/* Call it before a descriptor of the object is sent to its receiver (object_reserve).  Counts the
 * object for that user, unless it is counted already.  KILN_BUSY: the user would have too much. */
KILN_MUST_CHECK enum kiln_code held_objects_count(struct held_objects *held, struct object *object,
                                                  struct kiln_err *err);
/* Whether held_objects_count would return KILN_BUSY. */
bool held_objects_exceed(struct held_objects *held, const struct object *object);
/* Returns an object that counts for the user and that kilnd still has; NULL: none.  Repeated calls
 * return such objects in turn, beginning with the one that was sent first. */
struct object *held_objects_next(struct held_objects *held, uid_t uid);
/* Forgets the objects that are free by now. */
void held_objects_sweep(struct held_objects *held);

uint64_t held_objects_bytes(const struct held_objects *held);
/* Objects that kilnd has closed, and whose memory is not free. */
unsigned held_objects_closed(const struct held_objects *held);
/* Objects so far for which inotify could not be used. */
uint64_t held_objects_unwatched(const struct held_objects *held);

/* For object.c, in place of close(2): closes |fd|, the last descriptor that kilnd has of the object
 * of |entry|. */
void held_object_close(struct held_object *entry, int fd);
