/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An engine whose data is built into the program, perhaps without any directory to write to.
 *
 * Role       refuses what needs a directory where there is none, says what is missing in the
 * program when a plan fails, and has each item checked once after its first use Threading  the
 * engine's thread
 */
#include "engine/service/internal.h"

/* KILN_UNSUPPORTED for a request that writes files, where the engine has no directory; |command| is
 * what people know it by. */
KILN_MUST_CHECK enum kiln_code built_in_check_request(const struct engine *e, unsigned type,
                                                      const char *command, struct kiln_err *err);
struct built_in_wish { /* what a plan was asked for; borrowed */
    const struct problem *problem;
    const struct target *target;
    const char *database_id;
    bool has_named_solver; /* it is not the one that was chosen when the program was built */
};
/* |err| says why no plan can be given, with KILN_NOT_FOUND or a code of no compiler; where data is
 * built in it becomes a sentence that names problem, device and what to do. */
void built_in_explain(struct engine *e, const struct built_in_wish *wish, struct kiln_err *err);
/* Reports what was found to be damaged when the engine was opened. */
void built_in_report(struct engine *e);
/* The names of the items that are damaged, as far as that is known: an array, the caller's. */
struct json *built_in_describe_damage(const struct engine *e);
/* A step of an item's check, where one is due. */
void built_in_tick(struct engine *e);
