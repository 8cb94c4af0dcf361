/* SPDX-License-Identifier: MIT */
#include "daemon/embedded/places.h"

#include "common/fs.h"
#include "common/own_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#ifndef KILN_COMPILER_INSTALLED
#define KILN_COMPILER_INSTALLED "/usr/libexec/kiln/kiln-compiler"
#define KILN_COMPILER_FROM_LIBRARY "../libexec/kiln/kiln-compiler"
#endif
#ifndef KILN_TRANSFER_INSTALLED
#define KILN_TRANSFER_INSTALLED "/usr/libexec/kiln/kiln-transfer"
#define KILN_TRANSFER_FROM_LIBRARY "../libexec/kiln/kiln-transfer"
#endif
#ifndef KILN_LAUNCH_INSTALLED
#define KILN_LAUNCH_INSTALLED "/usr/libexec/kiln/kiln-launch"
#define KILN_LAUNCH_FROM_LIBRARY "../libexec/kiln/kiln-launch"
#endif
#define COMPILER_VARIABLE "KILN_COMPILER"

/* ---- folders ---- */

/* To the user that files are made as, not to the one who started the program. */
static bool is_writable(const char *folder)
{
    return faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) == 0;
}

static enum kiln_code make_private(const char *path, struct kiln_err *err)
{
    enum kiln_code rc = own_folder_make(path, err);
    if (!rc && !is_writable(path))
        rc = kiln_fail_errno(err, errno, "'%s' cannot be written to", path);
    return rc ? rc : fs_refuse_network(path, "XDG_CACHE_HOME and XDG_STATE_HOME", err);
}

/* Beside the store, so that whoever finds the one finds the other; where that is too long for a
 * socket, in the folder for such things. */
static enum kiln_code choose_socket(struct embedded_places *p, struct kiln_err *err)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    int size = snprintf(p->socket, sizeof(p->socket), "%s/kiln.sock", p->cache);
    if (size > 0 && (size_t)size < sizeof(p->socket))
        return KILN_OK;
    if (runtime && runtime[0] == '/')
        size = snprintf(p->socket, sizeof(p->socket), "%s/kiln/embedded.sock", runtime);
    if (size > 0 && (size_t)size < sizeof(p->socket)) {
        char folder[sizeof(p->socket)];
        snprintf(folder, sizeof(folder), "%s/kiln", runtime);
        return own_folder_make(folder, err);
    }
    return kiln_fail(err, KILN_INVALID,
                     "'%s/kiln.sock' is longer than the %zu bytes that sockets "
                     "allow, and XDG_RUNTIME_DIR is no way round it",
                     p->cache, sizeof(p->socket) - 1);
}

static void find_folders(struct embedded_places *p)
{
    struct kiln_err err = KILN_ERR_INIT;
    enum kiln_code rc = paths_embedded_cache(p->cache, &err);
    if (!rc)
        rc = paths_embedded_state(p->state, &err);
    if (!rc)
        rc = choose_socket(p, &err);
    if (!rc)
        rc = make_private(p->cache, &err);
    if (!rc)
        rc = make_private(p->state, &err);
    if (!rc)
        return;
    p->memory = true;
    snprintf(p->why, sizeof(p->why), "%s", err.text);
}

/* Its environment is that of somebody who may do less than it: the folders that the variables name
 * are that user's, and so would be what is run of them. */
static void distrust(struct embedded_places *p)
{
    static const char why[] = "this program has rights that whoever started it lacks (setuid, file "
                              "capabilities), whose environment says nothing that it can trust";
    p->memory = true;
    snprintf(p->why, sizeof(p->why), "%s", why);
    snprintf(p->no_compiler, sizeof(p->no_compiler), "%s", why);
}

/* ---- compilers ---- */

static bool is_program(char path[PATH_TEXT_MOST], const char *folder, const char *below)
{
    int size = snprintf(path, PATH_TEXT_MOST, "%s%s", folder, below);
    return size > 0 && size < PATH_TEXT_MOST && access(path, X_OK) == 0;
}

/* Beside the library in a build tree, at its place from there in an installed one. */
static void find_compiler(const struct embedded_options *o, struct embedded_places *p)
{
    static const char *const below[] = { "/../bin/kiln-compiler", "/" KILN_COMPILER_FROM_LIBRARY };
    const char *named = secure_getenv(COMPILER_VARIABLE);
    bool is_found = false;
    if (named && named[0]) {
        if (!is_program(p->compiler, named, ""))
            snprintf(p->no_compiler, sizeof(p->no_compiler),
                     "the program '%.300s' (" COMPILER_VARIABLE ") cannot be run", named);
        is_found = !p->no_compiler[0];
    } else {
        for (size_t i = 0; o->library_folder && i < 2 && !is_found; i++)
            is_found = is_program(p->compiler, o->library_folder, below[i]);
        is_found = is_found || is_program(p->compiler, KILN_COMPILER_INSTALLED, "");
        if (!is_found)
            snprintf(p->no_compiler, sizeof(p->no_compiler),
                     "kiln-compiler is not installed ('%s'): install it, or name it "
                     "in " COMPILER_VARIABLE,
                     KILN_COMPILER_INSTALLED);
    }
    if (!is_found)
        p->compiler[0] = '\0';
}

/* Whoever compiles is a child of it, and not of the job.  It is installed beside kiln-compiler. */
static void find_keeper(const struct embedded_options *o, struct embedded_places *p)
{
    static const char *const below[] = { "/../bin/kiln-launch", "/" KILN_LAUNCH_FROM_LIBRARY };
    char folder[PATH_TEXT_MOST];
    const char *slash = strrchr(p->compiler, '/');
    if (slash) {
        snprintf(folder, sizeof(folder), "%.*s", (int)(slash - p->compiler), p->compiler);
        if (is_program(p->keeper, folder, "/kiln-launch"))
            return;
    }
    for (size_t i = 0; o->library_folder && i < 2; i++) {
        if (is_program(p->keeper, o->library_folder, below[i]))
            return;
    }
    if (is_program(p->keeper, KILN_LAUNCH_INSTALLED, ""))
        return;
    p->compiler[0] = '\0';
    if (!p->no_compiler[0])
        snprintf(p->no_compiler, sizeof(p->no_compiler),
                 "kiln-launch, which keeps kiln-compiler, is not installed ('%s')",
                 KILN_LAUNCH_INSTALLED);
}

/* Where there is none, whoever wants something brought in is told so. */
static void find_transfer(const struct embedded_options *o, struct embedded_places *p)
{
    static const char *const below[] = { "/../bin/kiln-transfer", "/" KILN_TRANSFER_FROM_LIBRARY };
    for (size_t i = 0; o->library_folder && i < 2; i++) {
        if (is_program(p->transfer, o->library_folder, below[i]))
            return;
    }
    snprintf(p->transfer, sizeof(p->transfer), "%s", KILN_TRANSFER_INSTALLED);
}

static void find_temp(struct embedded_places *p)
{
    const char *const places[] = { getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp" };
    struct kiln_err why = KILN_ERR_INIT;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (places[i] && strlen(places[i]) < PATH_TEXT_MOST &&
            own_folder_check(places[i], &why) == KILN_OK && is_writable(places[i])) {
            snprintf(p->temp, sizeof(p->temp), "%s", places[i]);
            return;
        }
    }
    p->compiler[0] = '\0';
    snprintf(p->no_compiler, sizeof(p->no_compiler),
             "there is no folder for a compiler's temporary files: neither XDG_RUNTIME_DIR nor "
             "TMPDIR nor '/tmp' can be written to by this user, and be swapped by no other");
}

void embedded_places_find(const struct embedded_options *options,
                          struct embedded_places *ret_places)
{
    struct embedded_places *p = ret_places;
    memset(p, 0, sizeof(*p));
    if (getauxval(AT_SECURE)) {
        distrust(p);
        return;
    }
    if (options->memory)
        p->memory = true;
    else
        find_folders(p);
    find_transfer(options, p);
    if (!options->no_compilers)
        find_compiler(options, p);
    if (p->compiler[0] || !p->memory)
        find_keeper(options, p);
    if (options->no_compilers)
        return;
    if (p->compiler[0])
        find_temp(p);
    struct kiln_err ignored = KILN_ERR_INIT;
    char folder[PATH_TEXT_MOST];
    if (paths_config_folder(folder, &ignored) == KILN_OK)
        snprintf(p->trusted_keys, sizeof(p->trusted_keys), "%.*s/trusted-keys.d",
                 PATH_TEXT_MOST - 32, folder);
}
