/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The tuning databases, as the rest of the engine sees them.
 *
 * Role       owns all that the engine keeps for tuning: the databases, the queue of their changes,
 *            the leases.  Without databases kilnd still serves kernels; tuning requests are refused
 *            with the reason
 * Threading  the engine's thread
 */
#include "engine/service/internal.h"

struct tuning_service;

/* Fails where waiting would not help: a network filesystem, a newer tuning.db, no memory. */
KILN_MUST_CHECK enum kiln_code tuning_service_create(const struct engine_options *options,
                                                     struct tuning_service **ret_service,
                                                     struct kiln_err *err);
/* Accepts NULL. */
void tuning_service_destroy(struct tuning_service *service);
/* Reports what opening the databases found. */
void tuning_service_start(struct engine *e);
/* Limits of |options|, for databases that are open and for those that will be. */
void tuning_service_set_limits(struct engine *e, const struct engine_options *options);
/* About once a second: opens the databases if that failed before, and reports progress. */
void tuning_service_tick(struct engine *e);
/* Changes that wait end as KILN_UNAVAILABLE. */
void tuning_service_drain(struct engine *e);

/* Borrowed; NULL: they could not be opened. */
struct tuning *tuning_databases(const struct engine *e);
struct lease_table *tuning_leases(const struct engine *e);
/* Where tuning.db is; NULL: nowhere. */
const char *tuning_directory(const struct engine *e);
/* KILN_OK, or KILN_UNAVAILABLE with the reason. */
KILN_MUST_CHECK enum kiln_code tuning_ready(const struct engine *e, struct kiln_err *err);
/* For status: {"available": ..., "trouble": ..., "notice": ...}; the caller's. */
struct json *tuning_service_describe(const struct engine *e);
