/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Vendor libraries, opened when first needed and bound once through a symbol table.
 *
 * Role       the only dlopen of libkiln: it has no dependency on any GPU runtime
 * Ownership  a library stays open until the process ends: GPU runtimes start threads and
 *            register handlers, so closing one is not safe
 * Threading  dynamic_library_use from any thread; a bound table is immutable
 */
#include "common/err.h"

#include <stddef.h>

struct dynamic_symbol {
    const char *name;
    size_t slot; /* offset of the function pointer inside the table */
    bool required;
};

struct dynamic_library {      /* static storage, one a vendor library */
    const char *what;         /* "the OpenCL loader" */
    const char *variable;     /* names a file to use instead of |names| */
    const char *const *names; /* NULL-terminated, best first; as dlopen searches them */
    const struct dynamic_symbol *symbols;
    size_t symbol_count;
    void *table; /* filled by dynamic_library_use */
    bool is_bound;
};

/* Opens and binds |library| unless that was done.  KILN_UNAVAILABLE names every file tried, or the
 * required symbol that is missing; the next call tries again. */
KILN_MUST_CHECK enum kiln_code dynamic_library_use(struct dynamic_library *library,
                                                   struct kiln_err *err);
