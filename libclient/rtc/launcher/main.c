/* SPDX-License-Identifier: MIT */
/*
 * kiln-cc: starts a compiler, or takes the output of an earlier compile from kilnd.
 *
 *   command.[ch]  reads the compiler's command line
 *   launch.[ch]   one compile: the key, the result, the compiler's process
 *   replay.[ch]   reads the notes of the compiler's processes
 *
 * With the name kiln-ptxas, the program starts ptxas.
 */
#include "libclient/rtc/launcher/launch.h"
#include "libclient/rtc/notes.h"
#include "libclient/rtc/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef KILN_LIBDIR_FROM_PROGRAM
#define KILN_LIBDIR_FROM_PROGRAM "../lib"
#endif
#define LIBRARY "libkiln-rtc.so.0"
#define STATUS_NOT_FOUND 127

static const char help[] =
    "Usage: kiln-cc COMPILER [ARGUMENT...]\n"
    "       kiln-ptxas [ARGUMENT...]\n"
    "\n"
    "Starts a compiler for GPUs, clang or ptxas.  If kilnd has the output of the same\n"
    "compile by this user, writes this output and does not start the compiler.  If the\n"
    "compile does more than write one file (-o), or has an option that kiln-cc does not\n"
    "know, starts the compiler unchanged.\n"
    "\n"
    "kiln-ptxas starts the program KILN_PTXAS, or else the first ptxas in PATH.\n"
    "KILN_RTC=off switches kiln-cc off; with KILN_RTC_DEBUG=1, it says what it did.\n";

static bool is_compiler(const char *path)
{
    struct stat seen, own;
    return stat(path, &seen) == 0 && S_ISREG(seen.st_mode) && access(path, X_OK) == 0 &&
           stat("/proc/self/exe", &own) == 0 &&
           (seen.st_dev != own.st_dev || seen.st_ino != own.st_ino);
}

static bool find_in_path(const char *name, char ret_path[PATH_MAX])
{
    const char *at = getenv("PATH");
    while (at && *at) {
        size_t size = strcspn(at, ":");
        int length = snprintf(ret_path, PATH_MAX, "%.*s/%s", (int)size, at, name);
        if (size && length < PATH_MAX && is_compiler(ret_path))
            return true;
        at += size + (at[size] == ':');
    }
    return false;
}

static bool find_compiler(const char *name, char ret_path[PATH_MAX])
{
    const char *given = getenv("KILN_PTXAS");
    if (strcmp(name, "ptxas") == 0 && given && *given)
        name = given;
    if (!strchr(name, '/'))
        return find_in_path(name, ret_path);
    snprintf(ret_path, PATH_MAX, "%s", name);
    return is_compiler(ret_path);
}

static bool is_preloadable(const char *path)
{
    return access(path, R_OK) == 0 && !path[strcspn(path, " :")];
}

static bool find_library(char ret_path[PATH_MAX])
{
    static const char *const places[] = { "../lib", KILN_LIBDIR_FROM_PROGRAM };
    char self[PATH_MAX], place[2 * PATH_MAX];
    const char *given = getenv("KILN_RTC_LIBRARY");
    if (given && *given) {
        snprintf(ret_path, PATH_MAX, "%s", given);
        return is_preloadable(ret_path);
    }
    char *slash = realpath("/proc/self/exe", self) ? strrchr(self, '/') : NULL;
    for (size_t i = 0; slash && i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(place, sizeof(place), "%.*s/%s/" LIBRARY, (int)(slash - self), self, places[i]);
        if (realpath(place, ret_path) && is_preloadable(ret_path))
            return true;
    }
    return false;
}

/* Returns the exit status, or -1 with the reason why kilnd cannot take part. */
static int answer(struct command *command, const char **ret_reason)
{
    char library[PATH_MAX];
    *ret_reason = "KILN_RTC=off";
    if (settings_mode() == RTC_OFF)
        return -1;
    *ret_reason = "another kiln-cc notes the files of this process";
    if (getenv(NOTES_VARIABLE))
        return -1;
    *ret_reason = "standard input, output or error is closed";
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0) /* another file, such as kilnd's socket, would get the number */
            return -1;
    if ((*ret_reason = command_read(command)))
        return -1;
    *ret_reason = LIBRARY " cannot be found or preloaded";
    return find_library(library) ? launch_compile(command, library, ret_reason) : -1;
}

static int start(const char *name, char **arguments, bool is_ptxas)
{
    char path[PATH_MAX];
    const char *reason;
    if (!find_compiler(name, path)) {
        fprintf(stderr, "kiln-cc: there is no program '%s'%s\n", name,
                is_ptxas ? ": set KILN_PTXAS to its path, or add its directory to PATH" : "");
        return STATUS_NOT_FOUND;
    }
    const char *slash = strrchr(path, '/');
    settings_note_library(slash ? slash + 1 : path, path);
    struct command command = { .compiler = path, .arguments = arguments, .is_ptxas = is_ptxas };
    if (is_ptxas)
        arguments[0] = path;
    int rc = answer(&command, &reason);
    if (rc >= 0)
        return rc;
    settings_count_forwarded(reason, name);
    settings_write_report();
    execv(path, arguments);
    fprintf(stderr, "kiln-cc: cannot run '%s': %s\n", path, strerror(errno));
    return STATUS_NOT_FOUND;
}

int main(int argc, char **argv)
{
    static char ptxas[] = "ptxas";
    setenv("KILN_FALLBACK_NOTICE", "off", 0); /* only the compiler may write to standard error */
    const char *slash = argc ? strrchr(argv[0], '/') : NULL;
    const char *name = slash ? slash + 1 : argc ? argv[0] : "";
    if (strcmp(name, "kiln-ptxas") == 0)
        return start(ptxas, argv, true);
    if (argc < 2 || strcmp(argv[1], "--help") == 0) {
        fputs(help, argc < 2 ? stderr : stdout);
        return argc < 2 ? 2 : 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("kiln-cc " KILN_VERSION);
        return 0;
    }
    return start(argv[1], argv + 1, false);
}
