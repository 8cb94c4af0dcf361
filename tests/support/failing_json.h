/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Lets cJSON's allocations fail, too: failing_calls.h replaces only kiln's own calls.
 */
#include "tests/support/failing_calls.h"

/* From now on, a failing "malloc" also means cJSON's, for the rest of the program. */
void json_allocations_can_fail(void);
