/* SPDX-License-Identifier: MIT */
#pragma once

#include "tests/faults/trial.h"

/* Kinds of faults that are injected into every operation of the engine. */
#define ENGINE_KINDS (KINDS_OF_MEMORY | KINDS_OF_FILES | KINDS_OF_DEATH | BIT(KIND_INTERRUPTED))
/* An entry of a table of operations. |more|: bits of further kinds of faults for this operation. */
#define ENGINE_OPERATION(label, more, prepare, act, check)                                \
    {                                                                                     \
        .name = (label), .kinds = ENGINE_KINDS | (more), .at_once = 64, .run = trial_run, \
        .context = &(const struct trial_steps)                                            \
        {                                                                                 \
            prepare, act, check                                                           \
        }                                                                                 \
    }

extern const struct operation store_operations[];
extern const size_t store_operation_count;
extern const struct operation tuning_operations[];
extern const size_t tuning_operation_count;
extern const struct operation package_operations[];
extern const size_t package_operation_count;
