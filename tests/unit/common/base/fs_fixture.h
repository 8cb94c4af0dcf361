/* SPDX-License-Identifier: MIT */
#pragma once

#include "common/base/fs.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

struct fixture {
    char directory[64];
    char path[96]; /* in the directory; does not exist yet */
    struct kiln_err err;
};

static inline int make_directory(void **state)
{
    static struct fixture f;
    f = (struct fixture){ .directory = "/tmp/kiln-test-fs-XXXXXX", .err = KILN_ERR_INIT };
    assert_non_null(mkdtemp(f.directory));
    snprintf(f.path, sizeof(f.path), "%s/thing", f.directory);
    *state = &f;
    return 0;
}

static inline int remove_directory(void **state)
{
    struct fixture *f = *state;
    fs_remove_tree(AT_FDCWD, f->directory);
    return 0;
}

FIXTURE(directory, make_directory, remove_directory);
