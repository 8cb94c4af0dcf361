/* SPDX-License-Identifier: MIT */
#pragma once

/* Buffers of a fixture, which the end of the test frees. */
#include "common/base/bytes.h"
#include "tests/support/test.h"

static inline void test_buffer_done(void *buffer) { buffer_done(buffer); }

/* Like buffer_init. |b| must still exist at the end of the test. */
static inline void test_buffer(struct buffer *b, size_t limit)
{
    buffer_init(b, limit);
    test_at_end(test_buffer_done, b);
}
