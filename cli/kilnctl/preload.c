/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/preload.h"

#include "cli/fail.h"
#include "cli/kilnctl/own_place.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef KILN_LIBDIR_FROM_KILNCTL
#define KILN_LIBDIR_FROM_KILNCTL "../lib"
#endif
#define LIBRARY "libkiln-rtc.so.0"

static const char *const places[] = { "../lib", KILN_LIBDIR_FROM_KILNCTL };

static void find_own_library(char path[PATH_MAX])
{
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (own_place(places[i], LIBRARY, path))
            return;
    snprintf(path, PATH_MAX, "%s", LIBRARY);
}

/* Finds libkiln-rtc: the file in KILN_RTC_LIBRARY or, if that is not set, the one installed with
 * this program. Fails if the file cannot be read, or if its path cannot be in LD_PRELOAD. */
static int find_library(char path[PATH_MAX], struct kiln_error *err)
{
    const char *given = getenv("KILN_RTC_LIBRARY");
    if (given && *given)
        snprintf(path, PATH_MAX, "%s", given);
    else
        find_own_library(path);
    if (access(path, R_OK))
        return cli_fail_errno(
            err, errno,
            "'%.500s' cannot be read: install libkiln-rtc, or name the library in "
            "KILN_RTC_LIBRARY",
            path);
    if (path[strcspn(path, " :")])
        return cli_fail(err, KILN_E_INVALID,
                        "'%.500s' cannot be preloaded, because its path contains a space or a "
                        "colon: install kiln in another directory",
                        path);
    return KILN_E_OK;
}

static bool begins_with(const char *list, const char *library)
{
    size_t size = strlen(library);
    return strncmp(list, library, size) == 0 && (list[size] == ':' || list[size] == '\0');
}

int preload_value(char ret_value[PRELOAD_MAX], struct kiln_error *err)
{
    char library[PATH_MAX];
    const char *before = getenv("LD_PRELOAD");
    int rc = find_library(library, err);
    if (rc)
        return rc;
    if (before && begins_with(before, library))
        snprintf(library, sizeof(library), "%s", "");
    int size = snprintf(ret_value, PRELOAD_MAX, "%s%s%s", library,
                        library[0] && before && *before ? ":" : "", before ? before : "");
    if (size < 0 || size >= PRELOAD_MAX)
        return cli_fail(err, KILN_E_INVALID, "LD_PRELOAD is too long");
    return KILN_E_OK;
}
