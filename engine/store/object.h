/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One code object in memory: a sealed memfd that can be passed to any number of one user's clients.
 *
 * Role       what all parts of the engine use for a code object: the store creates objects, the hot
 *            set caches them, replies contain them
 * Ownership  reference-counted; dropping the last reference closes the descriptor
 * Threading  created on any thread; references are counted on one thread (the daemon's loop)
 */
#include "common/base/digest.h"
#include "common/base/err.h"
#include "common/protocol/limits.h"

#include <stdint.h>

/* The bytes of objects up to this size are also mapped, so that a reply can contain them
 * (docs/decisions/0004-small-objects-inline.md). */
#define OBJECT_INLINE_MAX LIMIT_INLINE_OBJECT

#define ORIGIN_PROGRAM_MAX 96

struct held_object;
struct hot_entry;

/* The kind of an object. kernels.db stores these numbers. */
enum object_kind {
    OBJECT_CODE,
    OBJECT_RTC_RESULT, /* all that a run-time compiler returned to a program (libkiln-rtc) */
    OBJECT_RTC_FILES,  /* libkiln-rtc's lists of the files that a compile reads */
    OBJECT_RTC_MARK,   /* libkiln-rtc's mark that a compile has ended */
    OBJECT_KINDS
};

struct object_origin { /* what the object was compiled from, for usage accounting */
    char target[LIMIT_TARGET_TEXT];
    char program[ORIGIN_PROGRAM_MAX]; /* longer names are truncated */
};

struct object {
    unsigned references;
    int fd;               /* owned memfd, sealed: shrink, grow, write, seal */
    uint64_t size;        /* bytes */
    struct digest digest; /* SHA-256 of the bytes */
    uint64_t compile_ns;  /* wall-clock time of the compile; 0: unknown */
    const uint8_t *data;  /* owned mapping; NULL when size > OBJECT_INLINE_MAX */
    enum object_kind kind;
    bool is_private;          /* only |owner| may fetch it */
    bool is_named;            /* public, and in the hot set under a name that |owner| requested */
    uint32_t owner;           /* uid */
    bool has_receiver;        /* for held_objects.h: only |receiver| may get a descriptor */
    uint32_t receiver;        /* uid */
    struct held_object *held; /* borrowed; NULL: no descriptor was sent yet */
    /* Closes |fd| in place of close(2); NULL: nothing special. For exported_files.h. */
    void (*close)(void *context, int fd);
    void *close_context;          /* borrowed */
    struct hot_entry *hot_entry;  /* borrowed, for hot_set.c; NULL: not hot */
    struct object_origin *origin; /* owned; NULL: unknown, or already recorded by the service */
    uint32_t accounting_kind;     /* for the service: the accounting row that counts the hits */
    uint64_t counted_in;          /* for the service: the batch in which the last hit was counted */
};

/* Takes ownership of |fd|, also on failure. Seals the memfd if necessary and computes the
 * digest. KILN_INVALID: |fd| cannot be sealed. */
KILN_MUST_CHECK enum kiln_code object_from_memfd(int fd, uint64_t compile_ns,
                                                 struct object **ret_object, struct kiln_err *err);
/* Copies |content| into a new sealed memfd. */
KILN_MUST_CHECK enum kiln_code object_from_bytes(struct bytes content, uint64_t compile_ns,
                                                 struct object **ret_object, struct kiln_err *err);
/* Like object_from_memfd, for content whose digest the caller has just checked. Takes ownership of
 * the sealed |fd|, even on failure. compile_ns is 0 until the caller sets it. |fd| may also be an
 * unsealed file if nobody writes to it and it is only passed on as a descriptor. */
KILN_MUST_CHECK enum kiln_code object_from_checked(int fd, uint64_t size,
                                                   const struct digest *digest,
                                                   struct object **ret_object,
                                                   struct kiln_err *err);
/* Makes an object with the same bytes and properties in another memfd. */
KILN_MUST_CHECK enum kiln_code object_copy(const struct object *object, struct object **ret_copy,
                                           struct kiln_err *err);
/* A copy like that of object_copy, which is made in steps. */
struct object_copying {
    const struct object *original; /* borrowed; set by the caller, who zeroes the other members */
    uint64_t copied;               /* bytes so far */
    bool is_open;
    int fd; /* owned if |is_open| */
};
/* Copies at most |size_max| more bytes.  |ret_copy| is NULL until all bytes were copied. */
KILN_MUST_CHECK enum kiln_code object_copy_some(struct object_copying *copying, uint64_t size_max,
                                                struct object **ret_copy, struct kiln_err *err);
/* Drops a copy that is not complete.  Accepts a zeroed struct. */
void object_copying_done(struct object_copying *copying);
struct object *object_ref(struct object *object);
/* Drops a reference. Accepts NULL; returns NULL. */
struct object *object_unref(struct object *object);

/* Gives access to an object's bytes while the view is open, through the object's own mapping or a
 * temporary one. */
struct object_view {
    struct bytes bytes;
    void *mapping; /* owned; NULL when borrowed from the object */
};
KILN_MUST_CHECK enum kiln_code object_view_open(const struct object *object,
                                                struct object_view *ret_view, struct kiln_err *err);
/* Accepts a zeroed view. */
void object_view_done(struct object_view *view);
#define OBJECT_VIEW_AUTO __attribute__((cleanup(object_view_done)))
