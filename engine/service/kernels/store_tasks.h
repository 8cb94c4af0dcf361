/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Background writes to the store: compiled kernels, damaged kernels, recency.
 *
 * Role       each write is one task on WORK_QUEUE_WRITE; its failure is counted and reported, and
 *            no request fails because of it
 * Ownership  the engine owns the struct; each write owns what it needs until it ends
 * Threading  the engine's thread
 */
#include "engine/service/kernels/name_key.h"
#include "engine/service/kernels/source.h"

struct store_write { /* embed it as the first member */
    struct task task;
    struct engine *engine;
    enum kiln_code (*write)(struct store_write *write, struct kiln_err *err); /* may block */
    /* Called on the engine's thread; must free the write. NULL: the write is only freed. */
    void (*written)(struct store_write *write);
    enum kiln_code rc;
    struct kiln_err err;
};
/* Runs a write, and takes ownership of it. |write| must be allocated with malloc. The caller sets
 * only its members |write| and |written|. */
void store_write_run(struct engine *e, uid_t uid, struct store_write *write);

struct store_upkeep;

/* The parameters limit the compiled objects that wait to be stored, in total and for one user. */
KILN_MUST_CHECK enum kiln_code store_upkeep_create(uint64_t waiting_bytes,
                                                   uint64_t waiting_bytes_uid,
                                                   struct store_upkeep **ret_upkeep,
                                                   struct kiln_err *err);
void store_upkeep_destroy(struct store_upkeep *upkeep);
void store_upkeep_set_limits(struct store_upkeep *upkeep, uint64_t waiting_bytes,
                             uint64_t waiting_bytes_uid);

/* Stores a compiled kernel in the background, unless too many objects of the user wait to be
 * stored. Takes ownership of |source|. */
void store_later(struct engine *e, const struct digest *key, struct source *source,
                 struct object *object);
/* Stores a kernel that this kilnd did not compile. |texts| is malloc'd memory that holds the texts
 * of |record|, and is freed with the write. */
void store_record_later(struct engine *e, const struct kernel_record *record, void *texts,
                        struct object *object);
void quarantine_later(struct engine *e, const struct digest *key);
/* Records damage in a package. |name| is the requested name, or NULL. If |found| does not say
 * which row is damaged, the package is no longer searched for |name|. */
void quarantine_package(struct engine *e, const struct package_found *found,
                        const struct kernel_name *name);

void recency_touch(struct engine *e, const struct digest *key);
/* Writes the marks of recency_touch to the store. If |force| is false, writes only when a write is
 * due. */
void recency_write(struct engine *e, bool force);
void store_tidy(struct engine *e);
