/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Operations of the engine that faults strike, by the part that they are of.
 */
#include "tests/faults/trial.h"

extern const struct operation store_operations[];
extern const size_t store_operation_count;
extern const struct operation tuning_operations[];
extern const size_t tuning_operation_count;
extern const struct operation package_operations[];
extern const size_t package_operation_count;
