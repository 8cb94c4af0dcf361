/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One code object in memory: a sealed memfd that can be handed to any number of clients.
 *
 * Role       the currency of the engine: the store makes them, the hot set keeps them, replies
 *            carry them
 * Ownership  counted; the descriptor is closed when the last reference goes
 * Threading  made on any thread; counted on one (the daemon's loop)
 */
#include "common/digest.h"
#include "common/err.h"
#include "common/limits.h"

#include <stdint.h>

/* Objects up to this size also keep their bytes mapped, so that they can travel inside a frame
 * (docs/decisions/0004-small-objects-inline.md). */
#define OBJECT_INLINE_MAX LIMIT_INLINE_OBJECT

#define ORIGIN_PROGRAM_MAX 96

struct object_origin { /* what it was made of, for the books */
    char target[LIMIT_TARGET_TEXT];
    char program[ORIGIN_PROGRAM_MAX]; /* longer names are cut */
};

struct object {
    unsigned references;
    int fd;                       /* owned memfd, sealed: shrink, grow, write, seal */
    uint64_t size;                /* bytes */
    struct digest digest;         /* SHA-256 of the bytes */
    uint64_t compile_ns;          /* what it cost to make, wall clock */
    const uint8_t *data;          /* owned mapping; NULL when size > OBJECT_INLINE_MAX */
    bool is_private;              /* only |owner| may have it */
    bool is_named;                /* everyone's, and hot under a name that |owner| asked for */
    uint32_t owner;               /* uid */
    struct object_origin *origin; /* owned; NULL: not known, or the service has noted it */
    uint32_t ledger_kind;         /* the service's: which of its rows counts the hits */
    uint64_t booked_for;          /* the service's: the batch that its last hit was booked for */
};

/* Takes over |fd| also on failure.  Seals it if it is not, refuses what cannot be sealed
 * (KILN_INVALID), computes the digest. */
KILN_MUST_CHECK enum kiln_code object_from_memfd(int fd, uint64_t compile_ns,
                                                 struct object **ret_object, struct kiln_err *err);
/* Copies |content| into a new sealed memfd. */
KILN_MUST_CHECK enum kiln_code object_from_bytes(struct bytes content, uint64_t compile_ns,
                                                 struct object **ret_object, struct kiln_err *err);
/* For bytes whose digest the caller has just checked: takes over the sealed |fd| also on failure.
 * A file that nobody writes to any more does as well, where it only goes out as a descriptor. */
KILN_MUST_CHECK enum kiln_code object_from_checked(int fd, uint64_t size,
                                                   const struct digest *digest, uint64_t compile_ns,
                                                   struct object **ret_object,
                                                   struct kiln_err *err);
struct object *object_ref(struct object *object);
/* Accepts NULL; returns NULL. */
struct object *object_unref(struct object *object);

/* The bytes for as long as the view lasts: the object's own mapping, else one made for the view. */
struct object_view {
    struct bytes bytes;
    void *mapping; /* owned; NULL when borrowed from the object */
};
KILN_MUST_CHECK enum kiln_code object_view_open(const struct object *object,
                                                struct object_view *ret_view, struct kiln_err *err);
/* Accepts a zeroed view. */
void object_view_done(struct object_view *view);
#define OBJECT_VIEW_AUTO __attribute__((cleanup(object_view_done)))
