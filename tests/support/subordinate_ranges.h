/* SPDX-License-Identifier: MIT */
#pragma once

#include "common/base/subordinate_uids.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Makes the code under test read |text| as the content of /etc/subuid. */
static inline void set_subordinate_ranges(const char *text)
{
    char path[64];
    struct kiln_err err = KILN_ERR_INIT;
    int fd = memfd_create("subuid", MFD_CLOEXEC);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    must(subordinate_uids_read(path, &err), err);
    close(fd);
}
