/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The memory of code objects that were sent to users as descriptors.
 *
 * Role       limits the memory that a user's processes hold. An object counts toward the limit of
 *            the user who received it, from the first time it is sent until Linux has freed
 *            its memory. Linux frees the memory only when no process has the object open or
 *            mapped, so an object still counts after kilnd has closed it
 * Ownership  takes over the descriptor of an object that kilnd no longer needs, and closes it
 * Threading  the engine's thread
 *
 * An object is sent to the processes of one user only; another user gets a copy. If several users
 * shared an object, kilnd could not tell which of them still has it, and one user could hold memory
 * that counts toward another user's limit.
 */
#include "engine/store/object.h"

struct held_objects;

struct held_limits {
    uint64_t bytes_uid; /* maximum for one user; 0: nothing is counted or limited */
    /* Maximum for all users together. One user may use at most half of what the other users leave
     * free: if the others use 60 of 100 bytes, at most 20. */
    uint64_t bytes;
};

/* The minimum number of bytes that an object counts, however small it is, because Linux and kilnd
 * need memory for each object. */
#define HELD_OBJECT_MIN (64u << 10)
/* Number of seconds that a closed object still counts if kilnd cannot find out whether its memory
 * is free: inotify is not available, or events were lost and /proc is missing. */
#define HELD_UNKNOWN_S 600

KILN_MUST_CHECK enum kiln_code held_objects_create(const struct held_limits *limits,
                                                   struct held_objects **ret_held,
                                                   struct kiln_err *err);
/* Frees the struct. Call this function only after kilnd has closed all objects that it sent to
 * users. */
void held_objects_destroy(struct held_objects *held);
void held_objects_set_limits(struct held_objects *held, const struct held_limits *limits);

/* Reserves the object for |uid|. Returns false if the object is already reserved for another
 * user. */
static inline bool object_reserve(struct object *object, uid_t uid)
{
    if (!object->has_receiver)
        object->receiver = (uint32_t)uid;
    object->has_receiver = true;
    return object->receiver == (uint32_t)uid;
}

/* Begins to count the object toward the limits of its receiver (object_reserve), unless it is
 * counted already. Call this function before a descriptor of the object is sent. Returns KILN_BUSY
 * if the user would exceed a limit. */
KILN_MUST_CHECK enum kiln_code held_objects_count(struct held_objects *held, struct object *object,
                                                  struct kiln_err *err);
bool held_objects_exceed(struct held_objects *held, const struct object *object);
/* Returns an object that counts toward the user's limit and that kilnd still has open, or NULL if
 * there is none. Repeated calls return such objects in turn, beginning with the one that was sent
 * first. */
struct object *held_objects_next(struct held_objects *held, uid_t uid);
/* Stops counting the objects whose memory Linux has freed. */
void held_objects_sweep(struct held_objects *held);

uint64_t held_objects_bytes(const struct held_objects *held);
/* Number of objects that kilnd has closed, but whose memory is not free yet. */
unsigned held_objects_closed(const struct held_objects *held);
/* Number of objects so far for which inotify could not report that their memory was freed. */
uint64_t held_objects_unwatched(const struct held_objects *held);

/* Closes |fd|, the last descriptor that kilnd has of |entry|'s object, and watches whether
 * Linux frees the object's memory. object.c calls this function instead of close(2). */
void held_object_close(struct held_object *entry, int fd);
