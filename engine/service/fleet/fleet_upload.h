/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Adds the kernels that this kilnd compiles to the fleet's tree.
 *
 * Role       reads kernels.db in the order in which kernels were stored, and saves the position. So
 *            there is no queue that could be lost: kernels wait in kernels.db, and after a crash,
 *            some uploads are repeated
 * Ownership  owns the builder's secret key
 * Threading  the engine's thread; records are made and signed on WORK_QUEUE_READ
 */
#include "common/base/err.h"
#include "engine/fleet/fleet_access.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct json;
struct kernel_store;
struct fleet_upload;

struct fleet_upload_options {
    const char *secret_key;      /* file of the builder's secret key; NULL or "": no uploads */
    const char *tree;            /* URL of the tree; NULL: unknown */
    const char *state_directory; /* has the file fleet-uploaded; NULL: the position is in memory
                                  * only */
};
/* Sets |ret_upload| to NULL if the options name no key. */
KILN_MUST_CHECK enum kiln_code fleet_upload_create(struct engine *e,
                                                   const struct fleet_upload_options *options,
                                                   struct fleet_upload **ret_upload,
                                                   struct kiln_err *err);
/* No upload may be in progress. Accepts NULL. */
void fleet_upload_destroy(struct fleet_upload *upload);
/* Begins the next uploads. Accepts NULL. Call it about once a second. */
void fleet_upload_tick(struct fleet_upload *upload);
/* Uploads without delay for one minute. Call it when other hosts wait for a kernel that this host
 * compiles. Accepts NULL. */
void fleet_upload_hurry(struct fleet_upload *upload);
/* Uploads a kernel that was stored at this moment, if uploads are not delayed. Accepts NULL. */
void fleet_upload_note_stored(struct fleet_upload *upload);
/* Returns how many attempts to add a kernel ended with |end|. Accepts NULL. */
uint64_t fleet_upload_ends(const struct fleet_upload *upload, enum fleet_end end);

struct fleet_waiting { /* kernels that wait to be added to the tree */
    uint64_t count;
    bool has_more; /* only the first kernels were counted */
};
/* Returns the id of the last kernel that was uploaded or left out. Accepts NULL. */
uint64_t fleet_upload_mark(const struct fleet_upload *upload);
/* Counts the waiting kernels after |mark|. Any thread may call this function. */
KILN_MUST_CHECK enum kiln_code fleet_waiting_count(struct kernel_store *store, uint64_t mark,
                                                   struct fleet_waiting *ret_waiting,
                                                   struct kiln_err *err);
/* Returns JSON for the answer to a status request; NULL if |upload| is NULL. */
struct json *fleet_upload_describe(const struct fleet_upload *upload,
                                   const struct fleet_waiting *waiting);
