/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Writes to the store that nobody waits for: what was compiled, what is damaged, what was used.
 *
 * Role       each is one task on the write lane; a failure is counted and reported, and costs
 *            nobody an answer
 * Threading  the engine's thread
 */
#include "engine/service/kernels/name_key.h"
#include "engine/service/kernels/source.h"

struct store_upkeep; /* the marks, and what is under way */

KILN_MUST_CHECK enum kiln_code store_upkeep_create(struct store_upkeep **ret_upkeep,
                                                   struct kiln_err *err);
void store_upkeep_destroy(struct store_upkeep *upkeep);

/* Takes |source|; adds a reference to |object|. */
void store_later(struct engine *e, const struct digest *key, struct source *source,
                 struct object *object);
void quarantine_later(struct engine *e, const struct digest *key);
/* A row of a package: the package stays as it is, what was wrong is kept beside the store's own.
 * |name| is what was asked for where somebody else than the package found it wrong, so that it is
 * not looked at again; it may be NULL. */
void quarantine_package(struct engine *e, const struct package_found *found,
                        const struct kernel_name *name);

/* Marks a use; written with the next recency. */
void recency_touch(struct engine *e, const struct digest *key);
/* Writes the marks if that is due; |force| writes them anyway. */
void recency_write(struct engine *e, bool force);
/* Now and then: one short step of what nobody asks for (kernel_store_tidy). */
void store_tidy(struct engine *e);
