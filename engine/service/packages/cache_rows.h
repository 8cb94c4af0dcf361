/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The rows of a kernel cache of MIOpen, which a user imports.
 *
 * Role       unpacks and checks one object after the other, in steps that end after a few
 *            milliseconds. So a file that was made to unpack slowly delays only its own user
 * Ownership  owns the open file, and the objects until cache_rows_pop returns them
 * Threading  one thread at a time for each cache_rows
 */
#include "engine/miopen/kern_db.h"
#include "engine/store/object.h"

/* Limits of a step: its duration, and the total size of the objects that it unpacks. */
#define CACHE_STEP_NS 20000000u
#define CACHE_STEP_BYTES (4u << 20)

/* Maximum size of an imported object, both packed and unpacked. The largest object in AMD's
 * packages has 19 MiB. */
#define LIMIT_IMPORTED_OBJECT (64u << 20)

struct cache_rows;

struct cache_object {
    uint64_t id;
    struct bytes name, args; /* a NUL follows each; they point into |texts| */
    struct buffer texts;
    struct object *object;
};

struct cache_listener {
    void (*damaged)(void *context, uint64_t id, struct bytes name, const struct kiln_err *why);
    void *context;
};

KILN_MUST_CHECK enum kiln_code cache_rows_open(const char *path, struct cache_rows **ret_rows,
                                               struct kiln_err *err);
void cache_rows_destroy(struct cache_rows *rows);
KILN_DEFINE_AUTO(cache_rows)

/* Does one step: unpacks rows until it reaches one of the limits above. Returns KILN_CORRUPT if
 * damage to the file prevents reading further rows. */
KILN_MUST_CHECK enum kiln_code cache_rows_unpack(struct cache_rows *rows,
                                                 const struct cache_listener *listener,
                                                 struct kiln_err *err);
/* Returns false if no object of the latest step is left. */
bool cache_rows_pop(struct cache_rows *rows, struct cache_object *ret_object);
void cache_object_done(struct cache_object *object);
bool cache_rows_is_over(const struct cache_rows *rows);
/* Returns the memory of the object that is being unpacked, or 0. */
uint64_t cache_rows_bytes(const struct cache_rows *rows);
