/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Vendor libraries, opened when first needed and bound once through a symbol table.
 *
 * Role       the only dlopen of libkiln but fallback_entry.c's: it has no dependency on any GPU
 *            runtime
 * Ownership  a library stays open until the process ends: GPU runtimes start threads and
 *            register handlers, so closing one is not safe
 * Threading  any thread; a bound table is immutable; fork waits for a load (libclient/load_lock.h)
 *
 * Where it is looked for, and nowhere else once one of these has it:
 *   1. the file that |file_variable| names: then only there
 *   2. what this process has open already: the job's own runtime, whose memory and streams are to
 *      be used
 *   3. the directories given to dynamic_library_set_path, then those in |path_variable|
 *   4. where the dynamic loader looks
 */
#include "common/err.h"

#include <stddef.h>

struct dynamic_symbol {
    const char *name;
    size_t slot; /* offset of the function pointer inside the table */
    bool required;
};

struct dynamic_library {       /* static storage, one a vendor library */
    const char *kind;          /* "hip" */
    const char *what;          /* "the HIP runtime" */
    const char *file_variable; /* names a file to use instead of |names| */
    const char *path_variable; /* names directories, with colons between them */
    const char *const *names;  /* NULL-terminated, best first; as dlopen searches them */
    const struct dynamic_symbol *symbols;
    size_t symbol_count;
    void *table; /* filled by dynamic_library_use */
    char *path;  /* owned; directories, with colons between them; NULL: none */
    char *file;  /* owned; what was opened; NULL until then */
};

/* Opens and binds |library| unless that was done.  KILN_UNAVAILABLE names every file tried, or the
 * required symbol that is missing; the next call tries again. */
KILN_MUST_CHECK enum kiln_code dynamic_library_use(struct dynamic_library *library,
                                                   struct kiln_err *err);
/* Directories to look in, NULL or "": none.  KILN_INVALID for one that is not absolute, or where
 * the library is open already. */
KILN_MUST_CHECK enum kiln_code dynamic_library_set_path(struct dynamic_library *library,
                                                        const char *path, struct kiln_err *err);
/* The file that was opened; NULL until then.  Lives as long as the process. */
const char *dynamic_library_file(const struct dynamic_library *library);
