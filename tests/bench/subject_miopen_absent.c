/* SPDX-License-Identifier: MIT */

/* Built in place of subject_miopen.c if its libraries are missing. */
#include "tests/bench/subject.h"

enum kiln_code miopen_fill(const struct content *content, const char *path, double *ret_ratio,
                           struct kiln_err *err)
{
    (void)content;
    (void)path;
    (void)ret_ratio;
    return kiln_fail(err, KILN_UNAVAILABLE,
                     "built without libbz2: install libbz2-dev and build again");
}

const struct subject_ops subject_miopen_kept = { .name = "miopen-kept" };
const struct subject_ops subject_miopen_fresh = { .name = "miopen-fresh" };
