/* SPDX-License-Identifier: MIT */
#include "engine/compile/library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#define PATH_LENGTH_MAX 512

/* Stores dlerror()'s first message about a file that exists but cannot be loaded, for example
 * because a library that the file needs is missing. Ignores messages that a file is absent: these
 * messages begin with |path|. */
static void keep_reason(const char *path, char *reason, size_t size)
{
    const char *text = dlerror();
    if (!text || *reason)
        return;
    bool absent = strncmp(text, path, strlen(path)) == 0 && strstr(text, "No such file");
    if (!absent)
        snprintf(reason, size, "%s", text);
}

static void *open_first(const struct library_search *search, char *reason, size_t size)
{
    char path[PATH_LENGTH_MAX];
    for (const char *const *name = search->names; *name; name++) {
        for (const char *const *directory = search->directories; *directory; directory++) {
            int length =
                snprintf(path, sizeof(path), "%s%s%s", *directory, **directory ? "/" : "", *name);
            if (length < 0 || (size_t)length >= sizeof(path))
                continue;
            void *dl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
            if (dl)
                return dl;
            keep_reason(path, reason, size);
        }
    }
    return NULL;
}

enum kiln_code library_open(const struct library_search *search, void **ret_dl, char *ret_path,
                            size_t path_size, struct kiln_err *err)
{
    char reason[160] = "";
    void *dl = open_first(search, reason, sizeof(reason));
    if (!dl)
        return kiln_fail(err, KILN_UNAVAILABLE, "%s is not installed: cannot load '%s'%s%s%s; %s",
                         search->what, search->names[0], *reason ? " (" : "", reason,
                         *reason ? ")" : "", search->advice);
    struct link_map *map = NULL;
    if (dlinfo(dl, RTLD_DI_LINKMAP, &map) == 0 && map)
        snprintf(ret_path, path_size, "%s", map->l_name);
    *ret_dl = dl;
    return KILN_OK;
}

enum kiln_code library_bind(void *dl, const char *what, const struct library_symbol *symbols,
                            void *table, struct kiln_err *err)
{
    for (const struct library_symbol *symbol = symbols; symbol->name; symbol++) {
        void *address = dlsym(dl, symbol->name);
        if (!address && symbol->required)
            return kiln_fail(err, KILN_UNAVAILABLE, "%s lacks the function '%s'", what,
                             symbol->name);
        memcpy((char *)table + symbol->slot, &address, sizeof(address));
    }
    return KILN_OK;
}
