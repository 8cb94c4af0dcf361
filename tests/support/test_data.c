/* SPDX-License-Identifier: MIT */
#include "tests/support/test_data.h"

#include "common/base/fs.h"
#include "engine/codec/bzip2.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#define FILE_MAX (256u << 20)

bool test_data_find(const char *name, char ret_path[512])
{
    const char *directory = getenv("KILN_TEST_DATA");
    snprintf(ret_path, 512, "%s/%s", directory ? directory : KILN_TEST_DATA, name);
    return access(ret_path, R_OK) == 0;
}

void test_data_path(const char *name, char ret_path[512])
{
    SKIP_IF(!test_data_find(name, ret_path),
            "there is no '%s'; KILN_TEST_DATA may name its directory", ret_path);
}

void test_data_copy(const char *name, const char *path)
{
    char packed[128], from[512];
    struct kiln_err err = KILN_ERR_INIT;
    snprintf(packed, sizeof(packed), "%s.bz2", name);
    bool is_packed = test_data_find(packed, from);
    if (!is_packed)
        test_data_path(name, from);
    KILN_AUTO(fd) int in = open(from, O_RDONLY | O_CLOEXEC);
    KILN_AUTO(fd) int out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(in >= 0 && out >= 0);
    if (is_packed) {
        must(bzip2_unpack_file(in, out, FILE_MAX, NULL, &err), err);
        return;
    }
    BUFFER_AUTO struct buffer plain;
    buffer_init(&plain, FILE_MAX);
    must(fs_read_fd(in, FILE_MAX, &plain, &err), err);
    must(fs_write_all(out, buffer_view(&plain), &err), err);
}
