/* SPDX-License-Identifier: MIT */
#include "libclient/device/dynamic_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

struct attempts { /* what went wrong, for the sentence */
    char tried[200];
    char reason[200]; /* of a file that is there and could not be used */
};

static void append(char *text, size_t size, const char *separator, const char *tail)
{
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used ? separator : "", tail);
}

static void *try_open(const char *name, struct attempts *attempts)
{
    void *dl = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (dl)
        return dl;
    const char *why = dlerror();
    append(attempts->tried, sizeof(attempts->tried), ", ", name);
    bool is_absent = why && strncmp(why, name, strlen(name)) == 0 && strstr(why, "No such file");
    if (why && !is_absent)
        append(attempts->reason, sizeof(attempts->reason), "; ", why);
    return NULL;
}

static void *open_first(const struct dynamic_library *library, struct kiln_err *err)
{
    struct attempts attempts = { "", "" };
    const char *named = getenv(library->variable);
    void *dl = NULL;
    if (named && named[0])
        dl = try_open(named, &attempts);
    else
        for (const char *const *name = library->names; *name && !dl; name++)
            dl = try_open(*name, &attempts);
    if (!dl)
        kiln_fail(err, KILN_UNAVAILABLE,
                  "cannot load %s (tried %s%s%s): install it, or name its file in %s",
                  library->what, attempts.tried, attempts.reason[0] ? "; " : "", attempts.reason,
                  library->variable);
    return dl;
}

static enum kiln_code bind_all(const struct dynamic_library *library, void *dl,
                               struct kiln_err *err)
{
    for (size_t i = 0; i < library->symbol_count; i++) {
        const struct dynamic_symbol *s = &library->symbols[i];
        void *address = dlsym(dl, s->name);
        if (!address && s->required)
            return kiln_fail(err, KILN_UNAVAILABLE,
                             "%s that is here lacks '%s': a newer one is needed", library->what,
                             s->name);
        memcpy((char *)library->table + s->slot, &address, sizeof(address));
    }
    return KILN_OK;
}

static enum kiln_code open_and_bind(struct dynamic_library *library, struct kiln_err *err)
{
    void *dl = open_first(library, err);
    if (!dl)
        return err->code;
    enum kiln_code rc = bind_all(library, dl, err);
    if (rc)
        dlclose(dl); /* nothing in it was called yet */
    library->is_bound = rc == KILN_OK;
    return rc;
}

enum kiln_code dynamic_library_use(struct dynamic_library *library, struct kiln_err *err)
{
    pthread_mutex_lock(&mutex);
    enum kiln_code rc = library->is_bound ? KILN_OK : open_and_bind(library, err);
    pthread_mutex_unlock(&mutex);
    return rc;
}
