/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/nap.h"

#include <errno.h>
#include <time.h>

void nap_ms(unsigned ms)
{
    struct timespec left = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}
