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
    const char *what;               /* name for messages, such as "the HIP runtime compiler" */
    const char *const *directories; /* NULL-terminated; "" means that the dynamic linker searches */
    const char *const *names;       /* file names, best first; NULL-terminated */
    const char *advice;             /* shown in messages: what to install or to set */
};

struct library_symbol {
    const char *name; /* NULL in the last element of an array */
    size_t slot;      /* offset of the function pointer in the table */
    bool required;
};

/* Opens the first library that can be loaded.  |ret_path| receives the path of its file.  Returns
 * KILN_UNAVAILABLE if there is none; the message lists what was tried. */
KILN_MUST_CHECK enum kiln_code library_open(const struct library_search *search, void **ret_dl,
                                            char *ret_path, size_t path_size, struct kiln_err *err);
/* Fills |table|.  Returns KILN_UNAVAILABLE if a required symbol is missing; the message names the
 * first one. */
KILN_MUST_CHECK enum kiln_code library_bind(void *dl, const char *what,
                                            const struct library_symbol *symbols, void *table,
                                            struct kiln_err *err);
