/* SPDX-License-Identifier: MIT */
#pragma once

#include "tests/support/failing_calls.h"

/* From now on, fail_call("malloc", ...) also affects cJSON, although cJSON is not kiln's own
 * code. */
void json_allocations_can_fail(void);
