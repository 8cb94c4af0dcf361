/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Byte views, a growing buffer and a checked reader.  All numbers are little-endian.
 *
 * Role       encodes and decodes the contents of every frame
 * Ownership  struct bytes borrows; struct buffer owns its memory (buffer_done)
 * Threading  plain values, no shared state
 *
 * Failure is sticky: after one failed append or read, further calls do nothing.  The caller checks
 * |failed| once at the end.
 */
#include "common/base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes { /* borrowed; not NUL-terminated */
    const uint8_t *data;
    size_t size;
};

struct buffer {
    uint8_t *data; /* owned */
    size_t size;
    size_t capacity;
    size_t limit; /* an append beyond this size fails */
    bool failed;
};

struct reader {
    const uint8_t *at; /* borrowed */
    const uint8_t *end;
    bool failed;
};

static inline struct bytes bytes_of(const void *data, size_t size)
{
    return (struct bytes){ .data = data, .size = size };
}
struct bytes bytes_of_text(const char *text);
bool bytes_equal(struct bytes a, struct bytes b);
/* Compares like memcmp.  If one text is a prefix of the other, the shorter one comes first. */
int bytes_compare(struct bytes a, struct bytes b);
bool bytes_equal_text(struct bytes a, const char *text);
bool text_ends_with(const char *text, const char *end);
/* Computes the 64-bit FNV-1a hash, for hash tables; never for security.  The text of OpenCL targets
 * contains such hashes (common/target/opencl_target.h), so the function must not change. */
uint64_t bytes_hash(struct bytes b, uint64_t seed);
const char *bytes_pack_text(char **at, struct bytes b);
/* Returns NULL if out of memory. */
char *bytes_to_text(struct bytes b);

void buffer_init(struct buffer *b, size_t limit);
void buffer_done(struct buffer *b);
#define BUFFER_AUTO __attribute__((cleanup(buffer_done)))
static inline void buffer_clear(struct buffer *b)
{
    b->size = 0;
    b->failed = false;
}
void buffer_put(struct buffer *b, const void *data, size_t size);
void buffer_put_u8(struct buffer *b, uint8_t v);
void buffer_put_u16(struct buffer *b, uint16_t v);
void buffer_put_u32(struct buffer *b, uint32_t v);
void buffer_put_u64(struct buffer *b, uint64_t v);
/* Appends the length as u32, then the bytes. */
void buffer_put_sized(struct buffer *b, struct bytes v);
static inline struct bytes buffer_view(const struct buffer *b)
{
    return bytes_of(b->data, b->size);
}

/* After a failure every getter returns zero or an empty view. */
static inline struct reader reader_of(struct bytes b)
{
    return (struct reader){ .at = b.data, .end = b.data ? b.data + b.size : NULL };
}
uint8_t reader_u8(struct reader *r);
uint16_t reader_u16(struct reader *r);
uint32_t reader_u32(struct reader *r);
uint64_t reader_u64(struct reader *r);
/* The result borrows from the bytes that the reader was created with. */
struct bytes reader_take(struct reader *r, size_t size);
struct bytes reader_sized(struct reader *r);
size_t reader_left(const struct reader *r);
