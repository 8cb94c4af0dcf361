/* SPDX-License-Identifier: MIT */
#include "libclient/fallback.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libkiln-embedded.so.0"
#define LIBRARY_VARIABLE "KILN_EMBEDDED_LIBRARY"

/* Once a process; it is never closed. */
static struct {
    pthread_mutex_t mutex;
    bool tried;
    const struct embedded_entry *entry; /* NULL: |err| says why */
    struct kiln_err err;
    char folder[PATH_MAX];
} library = { .mutex = PTHREAD_MUTEX_INITIALIZER };

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
        snprintf(tried, 512, "%s", dlerror());
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

/* Another thread of the parent may have been here. */
static void in_child(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    library.mutex = fresh;
    library.tried = library.entry;
}

static void load(void)
{
    char tried[512] = "";
    static bool is_watched;
    if (!is_watched)
        is_watched = pthread_atfork(/* prepare= */ NULL, /* parent= */ NULL, in_child) == 0;
    library.tried = true;
    void *dl = open_library(tried);
    if (!dl)
        kiln_fail(&library.err, KILN_UNAVAILABLE, "%s", tried);
    else if (find_entry(dl, &library.err))
        dlclose(dl);
    if (!library.entry)
        kiln_while(&library.err, "the engine for this process cannot be loaded");
}

bool fallback_is_first(void) { return false; }

enum kiln_code fallback_entry(const struct embedded_entry **ret_entry,
                              struct embedded_options *ret_options, struct kiln_err *err)
{
    pthread_mutex_lock(&library.mutex);
    if (!library.tried)
        load();
    *ret_entry = library.entry;
    *ret_options = (struct embedded_options){ .library_folder = library.folder };
    *err = library.entry ? *err : library.err;
    pthread_mutex_unlock(&library.mutex);
    return *ret_entry ? KILN_OK : err->code;
}
