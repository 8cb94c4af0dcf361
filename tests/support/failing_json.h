/* SPDX-License-Identifier: MIT */
#pragma once

/* Makes cJSON's allocations fail, too, because failing_calls.h replaces only kiln's own calls. */
#include "tests/support/failing_calls.h"

/* For the rest of the program, a failing "malloc" also means cJSON's calls. */
void json_allocations_can_fail(void);
