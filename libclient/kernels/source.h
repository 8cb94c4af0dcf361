/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Checks kernel sources of a caller, derives their identity, and encodes them as a message.
 *
 * Ownership  borrows everything from the caller's struct
 * Threading  pure functions
 */
#include "libclient/client.h"

#include <kiln/kernel.h>

#define SOURCE_PARTS_MAX (5 + 2 * LIMIT_HEADERS)

struct source_identity { /* everything that determines the answer, so not the priority */
    struct bytes parts[SOURCE_PARTS_MAX];
    size_t count;
};

KILN_MUST_CHECK enum kiln_code source_check(const struct kiln_kernel_source *source,
                                            struct kiln_err *err);
/* |source| must have passed source_check. */
void source_identify(const struct kiln_kernel_source *source, struct source_identity *ret_identity);
struct answer_identity source_answer_identity(const struct source_identity *identity);
/* Appends the body of a fetch_source message with the FETCH_... |flags|.  If the body is too large,
 * the buffer is marked as failed. */
void source_write(struct buffer *body, const struct kiln_kernel_source *source, uint8_t flags);
