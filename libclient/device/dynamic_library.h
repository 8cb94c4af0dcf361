/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Opens vendor libraries when they are first needed, and looks up a list of their functions once.
 *
 * Role       the only dlopen of libkiln, so that libkiln depends on no GPU runtime
 * Ownership  a library stays open until the process ends, because GPU runtimes start threads and
 *            register handlers, so closing them is not safe
 * Threading  any thread; a bound table is immutable; fork() waits until a load ends
 *            (libclient/load_lock.h)
 *
 * The search order is:
 *   1. the file that |file_variable| names; if this variable is set, nothing else is searched
 *   2. a library that is open in this process already, because it is the job's own runtime, whose
 *      memory and streams libkiln uses
 *   3. the directories of dynamic_library_set_path, then those in |path_variable|
 *   4. the dynamic loader's own places
 */
#include "common/base/err.h"

#include <stddef.h>

struct dynamic_symbol {
    const char *name;
    size_t slot; /* offset of the function pointer inside the table */
    bool required;
};

struct dynamic_library {
    const char *kind;
    const char *what;
    /* environment variable that names a file to use instead of |names| */
    const char *file_variable;
    const char *path_variable; /* environment variable with directories, separated by colons */
    const char *const *names;  /* NULL-terminated, best first; passed to dlopen */
    const struct dynamic_symbol *symbols;
    size_t symbol_count;
    void *table;
    char *path;
    char *file;
};

/* Opens and binds |library|, unless it is open already.  Returns KILN_UNAVAILABLE on failure.  The
 * message names every file that was tried, or the required symbol that is missing.  The next call
 * tries again. */
KILN_MUST_CHECK enum kiln_code dynamic_library_use(struct dynamic_library *library,
                                                   struct kiln_err *err);
/* Sets the directories to search first; NULL or "" means none.  Returns KILN_INVALID if a directory
 * is not an absolute path, or if the library is open already. */
KILN_MUST_CHECK enum kiln_code dynamic_library_set_path(struct dynamic_library *library,
                                                        const char *path, struct kiln_err *err);
/* Returns NULL if no file is open.  The path is valid until the process exits. */
const char *dynamic_library_file(const struct dynamic_library *library);
