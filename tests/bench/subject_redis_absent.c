/* SPDX-License-Identifier: MIT */

/* Built in place of subject_redis.c if its libraries are missing. */
#include "tests/bench/subject.h"

enum kiln_code redis_fill(const struct content *content, const char *socket, struct kiln_err *err)
{
    (void)content;
    (void)socket;
    return kiln_fail(err, KILN_UNAVAILABLE,
                     "built without libhiredis: install libhiredis-dev and build again");
}

const struct subject_ops subject_redis = { .name = "redis" };
