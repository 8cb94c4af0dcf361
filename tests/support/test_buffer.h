/* SPDX-License-Identifier: MIT */
#pragma once

#include "common/base/bytes.h"
#include "tests/support/test.h"

static inline void test_buffer_done(void *buffer) { buffer_done(buffer); }

/* Like buffer_init, but the end of the test frees |b|, which must still exist then. */
static inline void test_buffer(struct buffer *b, size_t limit)
{
    buffer_init(b, limit);
    test_at_end(test_buffer_done, b);
}
