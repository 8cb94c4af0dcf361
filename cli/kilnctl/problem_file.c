/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/problem_file.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALL_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

static uint32_t *write_numbers(const struct problem_set *problems)
{
    uint32_t *numbers = calloc(problems->count + 1, PROBLEM_NUMBERS * sizeof(*numbers));
    for (size_t i = 0; numbers && i < problems->count; i++) {
        uint32_t *at = numbers + i * PROBLEM_NUMBERS;
        memcpy(at, &problems->problems[i].direction, PROBLEM_NUMBERS * sizeof(*at));
        for (size_t j = 0; j < PROBLEM_NUMBERS; j++)
            at[j] = htole32(at[j]);
    }
    return numbers;
}

static int fill_file(int fd, const uint32_t *numbers, size_t size)
{
    const char *from = (const char *)numbers;
    for (size_t at = 0; at < size;) {
        ssize_t put = write(fd, from + at, size - at);
        if (put < 0 && errno != EINTR)
            return errno;
        at += put > 0 ? (size_t)put : 0;
    }
    return fcntl(fd, F_ADD_SEALS, ALL_SEALS) == 0 ? 0 : errno;
}

int problem_file_make(const struct problem_set *problems, int *ret_fd, struct kiln_error *err)
{
    int fd = memfd_create("kiln-problems", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return cli_fail_errno(err, errno, "cannot make a memory file for the problems");
    uint32_t *numbers = write_numbers(problems);
    int errnum = numbers
                     ? fill_file(fd, numbers, problems->count * PROBLEM_NUMBERS * sizeof(*numbers))
                     : ENOMEM;
    free(numbers);
    if (errnum) {
        close(fd);
        return cli_fail_errno(err, errnum, "cannot write %zu problems", problems->count);
    }
    *ret_fd = fd;
    return KILN_E_OK;
}
