/* SPDX-License-Identifier: MIT */
#include "libclient/connection/fallback.h"

#include "libclient/load_lock.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libkiln-embedded.so.0"
#define LIBRARY_VARIABLE "KILN_EMBEDDED_LIBRARY"

/* Once a process; it is never closed.  By the load lock. */
static struct {
    bool tried;
    const struct embedded_entry *entry; /* NULL: |err| says why */
    struct kiln_err err;
    char folder[PATH_MAX];
} library;

/* A variable decides what code runs: not that of whoever started a privileged program. */
static void *open_named(char tried[512])
{
    const char *named = secure_getenv(LIBRARY_VARIABLE);
    if (!named || !named[0])
        return NULL;
    void *dl = dlopen(named, RTLD_NOW | RTLD_LOCAL);
    if (!dl)
        snprintf(tried, 512, "%s", dlerror());
    return dl;
}

static void *open_beside_us(void)
{
    Dl_info us;
    char path[PATH_MAX];
    const char *slash = dladdr(&library, &us) && us.dli_fname ? strrchr(us.dli_fname, '/') : NULL;
    if (!slash)
        return NULL;
    int size =
        snprintf(path, sizeof(path), "%.*s/" LIBRARY, (int)(slash - us.dli_fname), us.dli_fname);
    return size > 0 && (size_t)size < sizeof(path) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

static void *open_library(char tried[512])
{
    const char *named = secure_getenv(LIBRARY_VARIABLE);
    if (named && named[0])
        return open_named(tried);
    void *dl = open_beside_us();
    if (!dl)
        dl = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!dl)
        snprintf(tried, 512, "install the package libkiln-embedded0 (RPM: kiln-embedded): %s",
                 dlerror());
    return dl;
}

static enum kiln_code find_entry(void *dl, struct kiln_err *err)
{
    const struct embedded_entry *entry = dlsym(dl, EMBEDDED_ENTRY_SYMBOL);
    Dl_info info;
    if (!entry)
        return kiln_fail(err, KILN_UNAVAILABLE, "it has no '" EMBEDDED_ENTRY_SYMBOL "'");
    if (entry->version != EMBEDDED_ENTRY_VERSION || strcmp(entry->release, KILN_VERSION) != 0)
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "it is of another release than libkiln " KILN_VERSION);
    if (dladdr(entry, &info) && info.dli_fname)
        snprintf(library.folder, sizeof(library.folder), "%s", info.dli_fname);
    char *slash = strrchr(library.folder, '/');
    if (slash)
        *slash = '\0';
    library.entry = entry;
    return KILN_OK;
}

/* What turned out to be of no use; NULL. */
static void *load(void)
{
    char tried[512] = "";
    void *dl = open_library(tried);
    enum kiln_code rc =
        dl ? find_entry(dl, &library.err) : kiln_fail(&library.err, KILN_UNAVAILABLE, "%s", tried);
    library.tried = true;
    if (!rc)
        return NULL;
    kiln_while(&library.err, "the engine for this process cannot be loaded");
    return dl;
}

enum kiln_code fallback_entry(const struct embedded_entry **ret_entry,
                              struct embedded_options *ret_options, struct kiln_err *err)
{
    void *useless = NULL;
    load_lock();
    enum kiln_code rc = library.tried ? KILN_OK : load_check(err);
    if (!rc && !library.tried)
        useless = load();
    if (!rc && !library.entry) {
        *err = library.err;
        rc = err->code;
    }
    *ret_entry = library.entry;
    *ret_options = (struct embedded_options){ .library_folder = library.folder };
    load_unlock();
    if (useless)
        dlclose(useless);
    return rc;
}
