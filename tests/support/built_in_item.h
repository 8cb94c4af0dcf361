/* SPDX-License-Identifier: MIT */
#pragma once

/* Passes a file's content to the engine as if it was built into a program. */
#include "engine/data/engine_data.h"
#include "engine/digest/sha256.h"
#include "tests/support/test_files.h"

struct image {
    unsigned char *bytes; /* valid until the end of the test; the test may change them */
    unsigned long size;
};

/* The returned item refers to |image|, which must exist as long as the item. */
static inline struct engine_item built_in_item(struct image *image, enum engine_item_kind kind,
                                               const char *name, const char *path)
{
    struct bytes content = test_read(path);
    image->bytes = (unsigned char *)(uintptr_t)content.data;
    image->size = content.size;
    return (struct engine_item){ .kind = kind,
                                 .name = name,
                                 .bytes = image->bytes,
                                 .size = &image->size,
                                 .digest = sha256_of(content) };
}
