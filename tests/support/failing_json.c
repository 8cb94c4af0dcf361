/* SPDX-License-Identifier: MIT */
#include "tests/support/failing_json.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

/* This function calls the malloc() of failing_calls.c; the one inside cJSON would call libc's. */
static void *allocate(size_t size) { return malloc(size); }

void json_allocations_can_fail(void)
{
    cJSON_Hooks hooks = { .malloc_fn = allocate, .free_fn = free };
    cJSON_InitHooks(&hooks);
}
