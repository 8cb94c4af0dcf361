/* SPDX-License-Identifier: MIT */
#include "common/protocol/private_directories.h"

#include "common/base/fs.h"
#include "common/base/own_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SOCKET_NAME "/kilnd.sock"
#define LOCK_NAME "/private.lock"

static enum kiln_code check_socket_length(const char *path, struct kiln_err *err)
{
    size_t most = sizeof(((struct private_directories *)0)->socket) - sizeof(SOCKET_NAME);
    if (strlen(path) <= most)
        return KILN_OK;
    return kiln_fail(err, KILN_INVALID,
                     "'%s" SOCKET_NAME
                     "' is too long for a socket: set XDG_CACHE_HOME to a shorter "
                     "path",
                     path);
}

static enum kiln_code make_writable_directory(const char *path, struct kiln_err *err)
{
    enum kiln_code rc = own_directory_make(path, err);
    if (!rc && faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) != 0)
        rc = kiln_fail_errno(err, errno, "cannot write to '%s'", path);
    return rc ? rc : fs_refuse_network(path, "XDG_CACHE_HOME and XDG_STATE_HOME", err);
}

struct kind {
    enum kiln_code (*find)(char path[PATH_TEXT_MAX], struct kiln_err *err);
    const char *temporary;
    bool has_socket;
};

static enum kiln_code make_directory(const struct kind *kind, const char *path,
                                     struct kiln_err *err)
{
    enum kiln_code rc = kind->has_socket ? check_socket_length(path, err) : KILN_OK;
    return rc ? rc : make_writable_directory(path, err);
}

static enum kiln_code make_temporary_directory(const struct kind *kind, char path[PATH_TEXT_MAX],
                                               struct kiln_err *err)
{
    const char *const places[] = { getenv("TMPDIR"), "/tmp" };
    enum kiln_code rc = KILN_INVALID;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (!places[i] || places[i][0] != '/' || strlen(places[i]) > PATH_TEXT_MAX / 2)
            continue;
        snprintf(path, PATH_TEXT_MAX, "%s/kiln-private-%u%s", places[i], (unsigned)geteuid(),
                 kind->temporary);
        rc = make_directory(kind, path, err);
        if (!rc)
            return KILN_OK;
    }
    return rc;
}

static enum kiln_code make_either_directory(const struct kind *kind, struct private_directories *f,
                                            char path[PATH_TEXT_MAX], struct kiln_err *err)
{
    if (kind->find(path, err) == KILN_OK && make_directory(kind, path, err) == KILN_OK)
        return KILN_OK;
    snprintf(f->why_temporary, sizeof(f->why_temporary), "%s", err->text);
    struct kiln_err second = KILN_ERR_INIT;
    if (make_temporary_directory(kind, path, &second) == KILN_OK)
        return KILN_OK;
    return kiln_fail(err, second.code, "no directory for a private kilnd: %s; and %s",
                     f->why_temporary, second.text);
}

enum kiln_code private_directories_find(struct private_directories *ret_directories,
                                        struct kiln_err *err)
{
    static const struct kind cache = { paths_private_cache, "", .has_socket = true };
    static const struct kind state = { paths_private_state, "/state", .has_socket = false };
    struct private_directories *f = ret_directories;
    *f = (struct private_directories){ .cache = "" };
    enum kiln_code rc = make_either_directory(&cache, f, f->cache, err);
    if (!rc)
        rc = make_either_directory(&state, f, f->state, err);
    if (rc)
        return rc;
    snprintf(f->socket, sizeof(f->socket), "%.*s" SOCKET_NAME,
             (int)(sizeof(f->socket) - sizeof(SOCKET_NAME)), f->cache);
    snprintf(f->lock, sizeof(f->lock), "%s" LOCK_NAME, f->state);
    return KILN_OK;
}
