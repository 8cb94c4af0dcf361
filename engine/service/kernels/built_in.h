/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Supports an engine whose data is built into the program (static build). Such an engine may have
 * no directory to write to.
 *
 * Role       refuses requests that need a directory if there is none; explains what the program
 *            lacks when a plan fails; checks each item of the data once after its first use
 * Ownership  borrows the program's data; the engine owns the struct
 * Threading  the engine's thread
 */
#include "engine/service/internal.h"

struct built_in;

/* |data| is borrowed. NULL: nothing is built in. */
KILN_MUST_CHECK enum kiln_code built_in_create(const struct engine_data *data,
                                               struct built_in **ret_built_in,
                                               struct kiln_err *err);
void built_in_destroy(struct built_in *built_in);
bool built_in_exists(const struct engine *e);

/* Returns KILN_UNSUPPORTED if the request |command| writes files and there is no directory. */
KILN_MUST_CHECK enum kiln_code built_in_check_request(const struct engine *e, unsigned type,
                                                      const char *command, struct kiln_err *err);
struct unmet_plan { /* members are borrowed */
    const struct problem *problem;
    const struct target *target;
    const char *database_id;
    bool has_named_solver;
};
/* If data is built in, replaces |err| by an error that names the problem, the device and what the
 * user can do. |err| must have the code KILN_NOT_FOUND, or the code of the failure to choose a
 * compiler. */
void built_in_explain(struct engine *e, const struct unmet_plan *plan, struct kiln_err *err);
void built_in_report(struct engine *e);
struct json *built_in_describe_damage(const struct engine *e);
void built_in_tick(struct engine *e);
