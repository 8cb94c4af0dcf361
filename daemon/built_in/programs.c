/* SPDX-License-Identifier: MIT */
#include "daemon/built_in/programs.h"

#include "common/base/own_directory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#ifndef KILN_COMPILER_INSTALLED
#define KILN_COMPILER_INSTALLED "/usr/libexec/kiln/kiln-compiler"
#endif
#ifndef KILN_LAUNCH_INSTALLED
#define KILN_LAUNCH_INSTALLED "/usr/libexec/kiln/kiln-launch"
#endif
#define COMPILER_VARIABLE "KILN_COMPILER"

static bool is_program(char path[PATH_TEXT_MAX], const char *text)
{
    int size = snprintf(path, PATH_TEXT_MAX, "%s", text);
    return size > 0 && size < PATH_TEXT_MAX && access(path, X_OK) == 0;
}

static enum kiln_code find_compiler(char path[PATH_TEXT_MAX], struct kiln_err *err)
{
    const char *named = secure_getenv(COMPILER_VARIABLE);
    if (named && named[0])
        return is_program(path, named)
                   ? KILN_OK
                   : kiln_fail(err, KILN_UNAVAILABLE,
                               "the program '%.300s' (" COMPILER_VARIABLE ") cannot be run", named);
    if (is_program(path, KILN_COMPILER_INSTALLED))
        return KILN_OK;
    return kiln_fail(err, KILN_UNAVAILABLE,
                     "kiln-compiler is not installed ('%s'): install it, or name it "
                     "in " COMPILER_VARIABLE,
                     KILN_COMPILER_INSTALLED);
}

static enum kiln_code find_launch(const char *compiler, char path[PATH_TEXT_MAX],
                                  struct kiln_err *err)
{
    char beside[PATH_TEXT_MAX + 16];
    const char *slash = strrchr(compiler, '/');
    int directory = slash ? (int)(slash - compiler) : 0;
    snprintf(beside, sizeof(beside), "%.*s/kiln-launch", directory, compiler);
    if ((slash && is_program(path, beside)) || is_program(path, KILN_LAUNCH_INSTALLED))
        return KILN_OK;
    return kiln_fail(err, KILN_UNAVAILABLE,
                     "kiln-launch, which starts kiln-compiler, is not installed ('%s')",
                     KILN_LAUNCH_INSTALLED);
}

static bool may_hold_files(const char *directory)
{
    struct kiln_err ignored = KILN_ERR_INIT;
    return directory && strlen(directory) < PATH_TEXT_MAX &&
           own_directory_check(directory, &ignored) == KILN_OK &&
           faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) == 0;
}

static enum kiln_code find_temp(char path[PATH_TEXT_MAX], struct kiln_err *err)
{
    const char *const places[] = { getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp" };
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (!may_hold_files(places[i]))
            continue;
        snprintf(path, PATH_TEXT_MAX, "%s", places[i]);
        return KILN_OK;
    }
    return kiln_fail(
        err, KILN_UNAVAILABLE,
        "there is no directory for a compiler's temporary files: XDG_RUNTIME_DIR, TMPDIR "
        "and '/tmp' must be writable by this user, and replaceable by no other");
}

enum kiln_code built_in_programs_find(struct built_in_programs *ret_programs, struct kiln_err *err)
{
    if (getauxval(AT_SECURE))
        return kiln_fail(err, KILN_UNAVAILABLE,
                         "this program has rights that the user who started it lacks (setuid, file "
                         "capabilities), so that it cannot trust the environment");
    enum kiln_code rc = find_compiler(ret_programs->compiler, err);
    if (!rc)
        rc = find_launch(ret_programs->compiler, ret_programs->launch, err);
    return rc ? rc : find_temp(ret_programs->temp, err);
}
