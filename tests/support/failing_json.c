/* SPDX-License-Identifier: MIT */
#include "tests/support/failing_json.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

/* cJSON allocates with this function, whose call of malloc() can fail (failing_calls.c). Calls
 * inside cJSON would reach libc's malloc() directly. */
static void *allocate(size_t size) { return malloc(size); }

void json_allocations_can_fail(void)
{
    cJSON_Hooks hooks = { .malloc_fn = allocate, .free_fn = free };
    cJSON_InitHooks(&hooks);
}
