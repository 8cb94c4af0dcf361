/* SPDX-License-Identifier: MIT */
#pragma once

/* Each function makes a change to the store in one call, where kilnd makes many small steps. */
#include "engine/store/kernel_store.h"

static inline enum kiln_code kernel_store_clear(struct kernel_store *store,
                                                const struct kernel_filter *filter,
                                                uint64_t *ret_count, uint64_t *ret_bytes,
                                                struct kiln_err *err)
{
    struct kernel_clearing c = { .filter = *filter };
    enum kiln_code rc = KILN_OK;
    while (!rc && !c.is_over)
        rc = kernel_store_clear_some(store, &c, err);
    if (rc)
        return rc;
    *ret_count = c.count;
    *ret_bytes = c.bytes;
    return KILN_OK;
}

static inline enum kiln_code kernel_store_gc(struct kernel_store *store, const struct kernel_gc *gc,
                                             struct kernel_gc_result *ret_result,
                                             struct kiln_err *err)
{
    struct kernel_collecting c = { .gc = *gc };
    enum kiln_code rc = gc->dry_run ? KILN_OK : kernel_store_collect_begin(store, &c, err);
    while (!rc && c.phase != GC_OVER)
        rc = kernel_store_collect_some(store, &c, err);
    if (!rc)
        *ret_result = c.result;
    return rc;
}
