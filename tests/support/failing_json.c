/* SPDX-License-Identifier: MIT */
#include "tests/support/failing_json.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

/* cJSON gets this function as its allocator, because --wrap does not reach malloc() inside
 * cJSON. */
static void *allocate(size_t size) { return malloc(size); }

void json_allocations_can_fail(void)
{
    cJSON_Hooks hooks = { .malloc_fn = allocate, .free_fn = free };
    cJSON_InitHooks(&hooks);
}
