/* SPDX-License-Identifier: MIT */
#pragma once

#include "common/base/fs.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

struct fixture {
    const char *directory;
    char path[96]; /* a path in the directory; no file exists there yet */
    struct kiln_err err;
};

SET_UP(make_directory)
{
    *f = (struct fixture){ .directory = test_directory(), .err = KILN_ERR_INIT };
    snprintf(f->path, sizeof(f->path), "%s/thing", f->directory);
}

FIXTURE(directory, make_directory, NULL);
