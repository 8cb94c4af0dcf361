/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The tuning databases, as the rest of the engine sees them.
 *
 * Role       owns the databases, the queue of their changes, and the leases. If the databases
 *            cannot be opened, kilnd still serves kernels; it refuses tuning requests, and says why
 * Ownership  the engine owns the struct; tables and texts that it returns are borrowed
 * Threading  the engine's thread
 */
#include "engine/service/internal.h"

struct tuning_service;

/* Fails only if a later try cannot succeed: the directory is on a network filesystem, tuning.db
 * is from a newer kiln, or memory ran out. */
KILN_MUST_CHECK enum kiln_code tuning_service_create(const struct engine_options *options,
                                                     struct tuning_service **ret_service,
                                                     struct kiln_err *err);
void tuning_service_destroy(struct tuning_service *service);
/* Reports what opening the databases found. */
void tuning_service_start(struct engine *e);
/* The limits also apply to databases that are opened later. */
void tuning_service_set_limits(struct engine *e, const struct engine_options *options);
/* Must run about once a second. Opens the databases if that failed before, and reports progress. */
void tuning_service_tick(struct engine *e);
/* Ends waiting changes with KILN_UNAVAILABLE. */
void tuning_service_drain(struct engine *e);

/* Returns NULL if the databases could not be opened. */
struct tuning *tuning_databases(const struct engine *e);
struct lease_table *tuning_leases(const struct engine *e);
const char *tuning_directory(const struct engine *e);
/* Returns KILN_UNAVAILABLE with the reason if the databases are not open. */
KILN_MUST_CHECK enum kiln_code tuning_ready(const struct engine *e, struct kiln_err *err);
struct json *tuning_service_describe(const struct engine *e);
