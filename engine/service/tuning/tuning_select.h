/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The measured records that a promote or remove request selects.
 *
 * Ownership  the selection borrows from its own struct (so do not copy it) and from the question
 * Threading  plain values
 */
#include "engine/service/tuning/tuning_validation.h"

#define TUNING_SELECTED_KEYS 6 /* a command line names up to three problems, each with two keys */

struct tuning_selected {
    struct tuning_selection selection;
    struct tuning_key selected_keys[TUNING_SELECTED_KEYS];
    bool selects_some; /* the question has conditions, so not all records are selected */
    struct tuning_keys keys;
    char database_id[DATABASE_ID_MAX], backend[TUNING_BACKEND_TEXT];
};

/* Reads database_id, kind, backend, problem, solver, origin and older_than. If the problem is
 * neither a command line nor a key of MIOpen, |keys.why| says why. An imported record may still
 * have this text as its key. */
KILN_MUST_CHECK enum kiln_code tuning_select(const struct json *question, enum tuning_tier tier,
                                             struct tuning_selected *ret_selected,
                                             struct kiln_err *err);
void tuning_select_uid(struct tuning_selected *selected, uint32_t uid);
