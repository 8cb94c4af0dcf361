/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The hot set, described for the kilnd that follows: an index in bytes, and the descriptors that it
 * speaks of, in its order.
 *
 * Role       objects stay in memory while no kilnd runs, because somebody else holds their sealed
 *            memfds; the index says what they are
 * Format     engine/store/hot_image.c; why it is believed: decision 12
 * Ownership  an image borrows the descriptors from the hot set
 * Threading  the engine's thread
 */
#include "engine/store/hot_set.h"

/* More than any kilnd keeps in memory: what an index may speak of. */
#define HOT_IMAGE_OBJECTS_MOST 1000000u

struct hot_image {
    struct buffer index; /* owned */
    int *fds;            /* owned array; borrowed descriptors, until the set changes */
    size_t count;
};
void hot_image_done(struct hot_image *image);
#define HOT_IMAGE_AUTO __attribute__((cleanup(hot_image_done)))

/* Whose image it is: another one's is not used. */
struct hot_image_origin {
    uint32_t uid;           /* kilnd's */
    uint64_t sequence;      /* the highest is the newest */
    struct digest packages; /* those that objects may be from */
};

/* What objects were made of is in somebody else's books. */
struct hot_image_books {
    /* Borrowed until the next call. */
    const struct object_origin *(*look_up)(void *context, const struct object *object);
    void (*note)(void *context, struct object *object, const struct object_origin *origin);
    void *context;
};

/* Of |objects_most| objects at most, those used last. */
KILN_MUST_CHECK enum kiln_code hot_image_write(const struct hot_set *set,
                                               const struct hot_image_origin *origin,
                                               const struct hot_image_books *books,
                                               size_t objects_most, struct hot_image *ret_image,
                                               struct kiln_err *err);

struct hot_image_taken {
    size_t objects; /* now in the set, unless it had no room */
    size_t refused; /* whose descriptor is not what the index says */
};
/* The sequence of |index|, 0 for what is none. */
uint64_t hot_image_sequence(struct bytes index);
/* Fills |set|.  Takes descriptors that it uses, writing -1.  KILN_CORRUPT for nonsense,
 * KILN_UNSUPPORTED for one of another version, KILN_NOT_FOUND with a sentence where |origin| is
 * another one: then nothing was taken. */
KILN_MUST_CHECK enum kiln_code hot_image_read(struct hot_set *set, struct bytes index,
                                              const struct hot_image_origin *origin,
                                              const struct hot_image_books *books, int *fds,
                                              size_t count, struct hot_image_taken *ret_taken,
                                              struct kiln_err *err);
