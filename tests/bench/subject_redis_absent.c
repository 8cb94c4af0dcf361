/* SPDX-License-Identifier: MIT */

/* In place of subject_redis.c where the libraries were not there at build time. */
#include "tests/bench/subject.h"

enum kiln_code redis_fill(const struct content *content, const char *socket, struct kiln_err *err)
{
    (void)content;
    (void)socket;
    return kiln_fail(err, KILN_UNAVAILABLE,
                     "built without libhiredis: install libhiredis-dev and build again");
}

const struct subject_ops subject_redis = { .name = "redis" };
