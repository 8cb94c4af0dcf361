/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/python_path.h"

#include "cli/fail.h"
#include "cli/kilnctl/own_place.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef KILN_PYTHON_FROM_KILNCTL
#define KILN_PYTHON_FROM_KILNCTL ".."
#endif
#define START "torch/start"
#define FILE_OF_START "sitecustomize.py"

/* Where the Python package is, relative to kilnctl's directory. The first place is for a wheel,
 * where kilnctl is in the directory "bin" of the Python package. */
static const char *const places[] = { "..", KILN_PYTHON_FROM_KILNCTL };

static bool find_own_package(char file[PATH_MAX])
{
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (own_place(places[i], START "/" FILE_OF_START, file))
            return true;
    return false;
}

/* Finds the directory of sitecustomize.py in the Python package that KILN_PYTHON_PACKAGE names or,
 * if that is not set, in the one installed with this program. */
static int find_directory(char path[PATH_MAX], struct kiln_error *err)
{
    char file[PATH_MAX];
    const char *given = getenv("KILN_PYTHON_PACKAGE");
    bool is_given = given && *given;
    if (is_given) {
        int length = snprintf(file, sizeof(file), "%s/" START "/" FILE_OF_START, given);
        if (length >= PATH_MAX || given[0] != '/' || access(file, R_OK))
            return cli_fail(err, KILN_E_INVALID,
                            "KILN_PYTHON_PACKAGE is '%.300s', which is not the absolute path of "
                            "the directory 'kiln' of kiln's Python package",
                            given);
    } else if (!find_own_package(file)) {
        return cli_fail(err, KILN_E_NOT_FOUND,
                        "cannot find kiln's Python package: install python3-kiln, or name its "
                        "directory 'kiln' in KILN_PYTHON_PACKAGE");
    }
    snprintf(path, PATH_MAX, "%.*s", (int)(strlen(file) - strlen("/" FILE_OF_START)), file);
    if (strchr(path, ':'))
        return cli_fail(err, KILN_E_INVALID,
                        "'%.300s' cannot be in PYTHONPATH, because it contains a colon: install "
                        "kiln in another directory",
                        path);
    return KILN_E_OK;
}

static bool begins_with(const char *list, const char *directory)
{
    size_t size = strlen(directory);
    return strncmp(list, directory, size) == 0 && (list[size] == ':' || list[size] == '\0');
}

int python_path_value(char ret_value[PYTHON_PATH_MAX], struct kiln_error *err)
{
    char directory[PATH_MAX];
    const char *before = getenv("PYTHONPATH");
    int rc = find_directory(directory, err);
    if (rc)
        return rc;
    if (!before || !*before) /* an empty part of PYTHONPATH would mean the current directory */
        before = directory;
    int size = begins_with(before, directory)
                   ? snprintf(ret_value, PYTHON_PATH_MAX, "%s", before)
                   : snprintf(ret_value, PYTHON_PATH_MAX, "%s:%s", directory, before);
    if (size < 0 || size >= PYTHON_PATH_MAX)
        return cli_fail(err, KILN_E_INVALID, "PYTHONPATH is too long");
    return KILN_E_OK;
}
