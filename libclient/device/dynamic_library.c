/* SPDX-License-Identifier: MIT */
#include "libclient/device/dynamic_library.h"

#include "common/base/cleanup.h"
#include "libclient/load_lock.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define FILE_MAX 4096

struct attempts { /* the attempts to open a library, which the message of a failure lists */
    char tried[200];
    char reason[200];
};

static void append_text(char *text, size_t size, const char *separator, const char *tail)
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
    append_text(attempts->tried, sizeof(attempts->tried), ", ", name);
    bool is_absent = why && strncmp(why, name, strlen(name)) == 0 && strstr(why, "No such file");
    if (why && !is_absent)
        append_text(attempts->reason, sizeof(attempts->reason), "; ", why);
    return NULL;
}

static void *find_loaded(const struct dynamic_library *library)
{
    void *dl = NULL;
    for (const char *const *name = library->names; *name && !dl; name++)
        dl = dlopen(*name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    return dl;
}

static void *try_directories(const struct dynamic_library *library, const char *path,
                             struct attempts *attempts)
{
    char file[FILE_MAX];
    void *dl = NULL;
    while (path && *path && !dl) {
        size_t size = strcspn(path, ":");
        for (const char *const *name = library->names; size && *name && !dl; name++) {
            int length = snprintf(file, sizeof(file), "%.*s/%s", (int)size, path, *name);
            if (!strchr(*name, '/') && length > 0 && (size_t)length < sizeof(file))
                dl = try_open(file, attempts);
        }
        path += size + (path[size] == ':');
    }
    return dl;
}

static enum kiln_code check_directories(const char *path, const char *origin, struct kiln_err *err)
{
    while (path && *path) {
        size_t size = strcspn(path, ":");
        if (size && path[0] != '/')
            return kiln_fail(
                err, KILN_INVALID,
                "'%.*s' in %s is not an absolute path: give absolute directories, separated "
                "by ':'",
                size > 200 ? 200 : (int)size, path, origin);
        path += size + (path[size] == ':');
    }
    return KILN_OK;
}

static void *try_names(const struct dynamic_library *library, struct attempts *attempts)
{
    void *dl = NULL;
    for (const char *const *name = library->names; *name && !dl; name++)
        dl = try_open(*name, attempts);
    return dl;
}

static void *search_library(const struct dynamic_library *library, const char *more,
                            struct attempts *attempts)
{
    void *dl = find_loaded(library);
    if (!dl)
        dl = try_directories(library, library->path, attempts);
    if (!dl)
        dl = try_directories(library, more, attempts);
    return dl ? dl : try_names(library, attempts);
}

/* A privileged (setuid) program ignores the environment variables, because its caller could use
 * them to run other code. */
static enum kiln_code open_first(const struct dynamic_library *library, void **ret_dl,
                                 struct kiln_err *err)
{
    struct attempts attempts = { "", "" };
    const char *named = secure_getenv(library->file_variable);
    const char *more = secure_getenv(library->path_variable);
    enum kiln_code rc = check_directories(more, library->path_variable, err);
    if (rc)
        return rc;
    *ret_dl =
        named && named[0] ? try_open(named, &attempts) : search_library(library, more, &attempts);
    if (*ret_dl)
        return KILN_OK;
    return kiln_fail(
        err, KILN_UNAVAILABLE,
        "cannot load %s (tried %s%s%s): install it, or set %s to its file or %s to its "
        "directory",
        library->what, attempts.tried, attempts.reason[0] ? "; " : "", attempts.reason,
        library->file_variable, library->path_variable);
}

static const char *file_of(void *address)
{
    Dl_info info;
    return dladdr(address, &info) && info.dli_fname ? info.dli_fname : "";
}

static enum kiln_code bind_all(const struct dynamic_library *library, void *dl, char **ret_file,
                               struct kiln_err *err)
{
    const char *file = "";
    for (size_t i = 0; i < library->symbol_count; i++) {
        const struct dynamic_symbol *s = &library->symbols[i];
        void *address = dlsym(dl, s->name);
        if (address && !file[0])
            file = file_of(address);
        if (!address && s->required)
            return kiln_fail(err, KILN_UNAVAILABLE, "%s%s%s lacks '%s': install a newer version",
                             library->what, file[0] ? ", " : "", file, s->name);
        memcpy((char *)library->table + s->slot, &address, sizeof(address));
    }
    *ret_file = strdup(file);
    return *ret_file ? KILN_OK : kiln_fail(err, KILN_NO_MEMORY, "no memory for a file's name");
}

/* Opens the library and looks up its symbols.  If a symbol is missing, |ret_useless| receives the
 * opened library, for the caller to close. */
static enum kiln_code open_and_bind(struct dynamic_library *library, void **ret_useless,
                                    struct kiln_err *err)
{
    void *dl = NULL;
    enum kiln_code rc = load_check(err);
    if (!rc)
        rc = open_first(library, &dl, err);
    if (rc)
        return rc;
    rc = bind_all(library, dl, &library->file, err);
    if (rc)
        *ret_useless = dl;
    return rc;
}

enum kiln_code dynamic_library_use(struct dynamic_library *library, struct kiln_err *err)
{
    void *useless = NULL;
    load_lock();
    enum kiln_code rc = library->file ? KILN_OK : open_and_bind(library, &useless, err);
    load_unlock();
    if (useless)
        dlclose(useless); /* safe, because no function of the library was called */
    return rc;
}

static enum kiln_code set_path(struct dynamic_library *library, const char *path,
                               struct kiln_err *err)
{
    if (library->file)
        return kiln_fail(err, KILN_INVALID,
                         "%s is open already (%s): set the search path before the first device is "
                         "opened or listed",
                         library->what, library->file);
    char *copy = path && path[0] ? strdup(path) : NULL;
    if (path && path[0] && !copy)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a search path");
    free(library->path);
    library->path = copy;
    return KILN_OK;
}

enum kiln_code dynamic_library_set_path(struct dynamic_library *library, const char *path,
                                        struct kiln_err *err)
{
    enum kiln_code rc = check_directories(path, "the search path", err);
    if (rc)
        return rc;
    load_lock();
    rc = set_path(library, path, err);
    load_unlock();
    return rc;
}

const char *dynamic_library_file(const struct dynamic_library *library)
{
    load_lock();
    const char *file = library->file;
    load_unlock();
    return file;
}
