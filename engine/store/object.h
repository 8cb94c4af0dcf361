/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One code object in memory: a sealed memfd that can be passed to any number of one user's clients.
 *
 * Role       what all parts of the engine use for a code object
 * Ownership  reference-counted; dropping the last reference closes the descriptor
 * Threading  created on any thread; references are counted on one thread (the daemon's loop)
 */
#include "common/base/digest.h"
#include "common/base/err.h"
#include "common/protocol/limits.h"

#include <stdint.h>

/* The largest object that is also mapped, so that a reply can contain its bytes
 * (docs/decisions/0004-small-objects-inline.md). */
#define OBJECT_INLINE_MAX LIMIT_INLINE_OBJECT

#define ORIGIN_PROGRAM_MAX 96

struct held_object;
struct hot_entry;

/* kernels.db stores these numbers. */
enum object_kind {
    OBJECT_CODE,
    OBJECT_RTC_RESULT, /* what a run-time compiler returned to a program (libkiln-rtc) */
    OBJECT_RTC_FILES,
    OBJECT_RTC_MARK,
    OBJECT_KINDS
};

struct object_origin { /* what the object was compiled from */
    char target[LIMIT_TARGET_TEXT];
    char program[ORIGIN_PROGRAM_MAX];
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
    struct held_object *held; /* NULL: no descriptor was sent yet */
    /* Called instead of close(2) to close |fd|; may be NULL. */
    void (*close)(void *context, int fd);
    void *close_context;
    struct hot_entry *hot_entry;  /* borrowed, for hot_set.c; NULL: not in the hot set */
    struct object_origin *origin; /* owned; NULL: unknown, or already recorded by the service */
    uint32_t accounting_kind;     /* for the service: the accounting row that counts the hits */
    uint64_t counted_in;          /* for the service: the batch in which the last hit was counted */
};

/* Takes ownership of |fd|, also on failure. Seals the memfd if necessary. Returns KILN_INVALID
 * if it cannot be sealed. */
KILN_MUST_CHECK enum kiln_code object_from_memfd(int fd, uint64_t compile_ns,
                                                 struct object **ret_object, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code object_from_bytes(struct bytes content, uint64_t compile_ns,
                                                 struct object **ret_object, struct kiln_err *err);
/* Takes ownership of |fd|, also on failure. |fd| is a sealed memfd, or a file that nobody writes to
 * and that is only passed on as a descriptor. The caller must have checked |digest|. compile_ns is
 * 0 until the caller sets it. */
KILN_MUST_CHECK enum kiln_code object_from_checked(int fd, uint64_t size,
                                                   const struct digest *digest,
                                                   struct object **ret_object,
                                                   struct kiln_err *err);
/* Copies an object. The copy has its own memfd, with the same bytes and properties. */
KILN_MUST_CHECK enum kiln_code object_copy(const struct object *object, struct object **ret_copy,
                                           struct kiln_err *err);
struct object_copying {
    const struct object *original; /* borrowed; the caller sets it and zeroes the other members */
    uint64_t copied;
    bool is_open;
    int fd; /* owned if |is_open| */
};
/* Copies at most |size_max| more bytes. |ret_copy| is NULL until all bytes are copied. */
KILN_MUST_CHECK enum kiln_code object_copy_some(struct object_copying *copying, uint64_t size_max,
                                                struct object **ret_copy, struct kiln_err *err);
/* Drops an incomplete copy. Accepts a zeroed struct. */
void object_copying_done(struct object_copying *copying);
struct object *object_ref(struct object *object);
/* Accepts NULL; returns NULL. */
struct object *object_unref(struct object *object);

/* The caller may use the bytes until object_view_done. */
struct object_view {
    struct bytes bytes;
    void *mapping; /* owned; NULL when borrowed from the object */
};
KILN_MUST_CHECK enum kiln_code object_view_open(const struct object *object,
                                                struct object_view *ret_view, struct kiln_err *err);
void object_view_done(struct object_view *view);
#define OBJECT_VIEW_AUTO __attribute__((cleanup(object_view_done)))
