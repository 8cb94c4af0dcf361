/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The -DKILN_... options of a program, as every kernel family reads them (kernels/README.md).
 *
 * Role       writes the options.  No other code writes them, so a problem always has the same text,
 *            and thus the same cache key
 * Ownership  the caller owns the text's storage
 * Threading  no shared state
 */
#include "common/protocol/problem.h"

struct option_text {
    char *data; /* NUL-terminated after each call that appends */
    size_t size, used;
};

/* Appends -DKILN_<name>=<value>.  Text that does not fit is cut off. */
void option_define(struct option_text *text, const char *name, uint32_t value);
void option_define_extent(struct option_text *text, const char *name, struct extent value);
/* Appends all properties except the batch size: DIRECTION TYPE C K GROUPS, IN OUT FILTER PAD STRIDE
 * DILATION, X_LAST W_LAST Y_LAST. */
void option_define_problem(struct option_text *text, const struct problem *p);
