/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Kernel sources as a caller states them: checked, as an identity, as a message.
 *
 * Ownership  borrows everything from the caller's struct
 * Threading  pure functions
 */
#include "libclient/client.h"

#include <kiln/kernel.h>

#define SOURCE_PARTS_MAX (5 + 2 * LIMIT_HEADERS)

struct source_identity { /* what the answer depends on; not who asks or how urgently */
    struct bytes parts[SOURCE_PARTS_MAX];
    size_t count;
};

/* Refuses what lacks a part; the sentence names the field. */
KILN_MUST_CHECK enum kiln_code source_check(const struct kiln_kernel_source *source,
                                            struct kiln_err *err);
/* Of a checked source. */
void source_identify(const struct kiln_kernel_source *source, struct source_identity *ret_identity);
struct table_identity source_table_identity(const struct source_identity *identity);
/* Appends fetch_source's body, with FETCH_ |flags|.  A body that is too large fails the buffer. */
void source_write(struct buffer *body, const struct kiln_kernel_source *source, uint8_t flags);
