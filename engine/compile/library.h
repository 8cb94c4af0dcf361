/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Opens a compiler library with dlopen, and binds its functions through a table of symbols.
 *
 * Ownership  a library stays open for the life of the process: most libraries cannot be unloaded
 *            safely (threads, exit handlers), and worker processes are replaced regularly anyway
 * Threading  one thread
 */
#include "common/base/err.h"

#include <stddef.h>

struct library_search {
    const char *what;
    const char *const *directories; /* NULL-terminated; "": the dynamic linker's search path */
    const char *const *names;       /* best first; NULL-terminated */
    const char *advice;
};

struct library_symbol {
    const char *name;
    size_t slot;
    bool required;
};

/* Opens the first library that can be loaded.  If none can be loaded, returns KILN_UNAVAILABLE
 * with a message that lists what was tried. */
KILN_MUST_CHECK enum kiln_code library_open(const struct library_search *search, void **ret_dl,
                                            char *ret_path, size_t path_size, struct kiln_err *err);
KILN_MUST_CHECK enum kiln_code library_bind(void *dl, const char *what,
                                            const struct library_symbol *symbols, void *table,
                                            struct kiln_err *err);
