/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Opens a compiler library with dlopen, and binds its functions through a table of symbols.
 *
 * Ownership  a library stays open for the life of the process: most cannot be unloaded safely
 *            (threads, exit handlers), and the process is recycled anyway
 * Threading  one thread
 */
#include "common/base/err.h"

#include <stddef.h>

struct library_search {
    const char *what;               /* "the HIP runtime compiler", for messages */
    const char *const *directories; /* "": the dynamic linker searches; NULL-terminated */
    const char *const *names;       /* file names, best first; NULL-terminated */
    const char *advice;             /* what to install or to set */
};

struct library_symbol {
    const char *name; /* NULL ends an array of them */
    size_t slot;      /* offset of the pointer inside the table */
    bool required;
};

/* Opens the first library that loads;  |ret_path| receives its file.  KILN_UNAVAILABLE lists
 * what was tried. */
KILN_MUST_CHECK enum kiln_code library_open(const struct library_search *search, void **ret_dl,
                                            char *ret_path, size_t path_size, struct kiln_err *err);
/* Fills |table|; KILN_UNAVAILABLE naming the first required symbol that is missing. */
KILN_MUST_CHECK enum kiln_code library_bind(void *dl, const char *what,
                                            const struct library_symbol *symbols, void *table,
                                            struct kiln_err *err);
