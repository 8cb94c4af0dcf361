/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The argument list of a compiler: fixed options first, then the options of the job.
 *
 * Ownership  owns its texts (arguments_done, which accepts a zeroed list)
 * Threading  plain values; after a failure, |failed| stays true and further additions do nothing
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

struct arguments {
    char **items; /* owned, NULL-terminated when not empty */
    size_t count;
    size_t capacity;
    bool failed;
};

void arguments_done(struct arguments *a);
#define ARGUMENTS_AUTO __attribute__((cleanup(arguments_done)))

void arguments_add(struct arguments *a, const char *fmt, ...) KILN_PRINTF(2, 3);
/* Adds each option of a canonical options text. |translate| adds one option to |a| in the form that
 * this compiler expects. If |translate| is NULL, options are added unchanged. */
void arguments_add_options(struct arguments *a, struct bytes options,
                           void (*translate)(struct arguments *a, const char *option));
bool options_name(struct bytes options, const char *start);
/* The caller frees the text.  Returns NULL if out of memory. */
char *arguments_join(const struct arguments *a);
