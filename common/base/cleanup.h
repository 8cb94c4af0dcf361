/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Scope-bound ownership (GCC and Clang).
 *
 * A local marked KILN_AUTO(type) is destroyed when its scope ends.  KILN_TAKE moves ownership out:
 *
 *     KILN_AUTO(store) struct store *s = calloc(1, sizeof(*s));
 *     ...                        // any early return cleans up
 *     *ret_store = KILN_TAKE(s);   // now the caller owns it
 *
 * Every destructor accepts NULL and half-built objects.
 *
 * Ownership  a marked local owns its object until KILN_TAKE or the end of its scope
 * Threading  no shared state
 */
#include <stdlib.h>
#include <unistd.h>

#define KILN_AUTO(type) __attribute__((cleanup(type##_auto)))

#define KILN_DEFINE_AUTO(type) \
    static inline void type##_auto(struct type **p) { type##_destroy(*p); }

#define KILN_TAKE(ptr)               \
    __extension__({                  \
        __typeof__(ptr) took_ = ptr; \
        (ptr) = NULL;                \
        took_;                       \
    })

static inline void mem_auto(void *p) { free(*(void **)p); }
static inline void fd_auto(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}
static inline void fd_close(int *fd)
{
    fd_auto(fd);
    *fd = -1;
}
