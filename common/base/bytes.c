/* SPDX-License-Identifier: MIT */
#include "common/base/bytes.h"

#include <endian.h>
#include <string.h>

struct bytes bytes_of_text(const char *text) { return bytes_of(text, text ? strlen(text) : 0); }

bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

int bytes_compare(struct bytes a, struct bytes b)
{
    size_t shared = a.size < b.size ? a.size : b.size;
    int order = shared ? memcmp(a.data, b.data, shared) : 0;
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

bool bytes_equal_text(struct bytes a, const char *text)
{
    return bytes_equal(a, bytes_of_text(text));
}

bool text_ends_with(const char *text, const char *end)
{
    size_t size = strlen(text), ending = strlen(end);
    return size >= ending && strcmp(text + size - ending, end) == 0;
}

uint64_t bytes_hash(struct bytes b, uint64_t seed)
{
    uint64_t h = seed ^ 0xcbf29ce484222325ULL;
    for (size_t i = 0; i < b.size; i++)
        h = (h ^ b.data[i]) * 0x100000001b3ULL;
    return h;
}

const char *bytes_pack_text(char **at, struct bytes b)
{
    char *copy = *at;
    if (b.size)
        memcpy(copy, b.data, b.size);
    copy[b.size] = '\0';
    *at += b.size + 1;
    return copy;
}

char *bytes_to_text(struct bytes b)
{
    char *text = malloc(b.size + 1);
    if (!text)
        return NULL;
    if (b.size)
        memcpy(text, b.data, b.size);
    text[b.size] = '\0';
    return text;
}

void buffer_init(struct buffer *b, size_t limit) { *b = (struct buffer){ .limit = limit }; }

void buffer_done(struct buffer *b)
{
    free(b->data);
    *b = (struct buffer){ 0 };
}

static bool grow_buffer(struct buffer *b, size_t more)
{
    if (more > b->limit || b->size > b->limit - more)
        return false;
    size_t capacity = b->capacity ? b->capacity * 2 : 256;
    if (capacity < b->size + more)
        capacity = b->size + more;
    if (capacity > b->limit)
        capacity = b->limit;
    uint8_t *data = realloc(b->data, capacity);
    if (!data)
        return false;
    b->data = data;
    b->capacity = capacity;
    return true;
}

static inline bool make_room(struct buffer *b, size_t more)
{
    if (!b->failed && more > b->capacity - b->size)
        b->failed = !grow_buffer(b, more);
    return !b->failed;
}

static inline void append_bytes(struct buffer *b, const void *data, size_t size)
{
    memcpy(b->data + b->size, data, size);
    b->size += size;
}

void buffer_put(struct buffer *b, const void *data, size_t size)
{
    if (make_room(b, size) && size)
        append_bytes(b, data, size);
}

static inline void put_number(struct buffer *b, const void *number, size_t size)
{
    if (make_room(b, size))
        append_bytes(b, number, size);
}

void buffer_put_u8(struct buffer *b, uint8_t v) { put_number(b, &v, sizeof(v)); }

void buffer_put_u16(struct buffer *b, uint16_t v)
{
    v = htole16(v);
    put_number(b, &v, sizeof(v));
}

void buffer_put_u32(struct buffer *b, uint32_t v)
{
    v = htole32(v);
    put_number(b, &v, sizeof(v));
}

void buffer_put_u64(struct buffer *b, uint64_t v)
{
    v = htole64(v);
    put_number(b, &v, sizeof(v));
}

void buffer_put_sized(struct buffer *b, struct bytes v)
{
    if (v.size > UINT32_MAX) {
        b->failed = true;
        return;
    }
    buffer_put_u32(b, (uint32_t)v.size);
    buffer_put(b, v.data, v.size);
}

size_t reader_left(const struct reader *r) { return r->failed ? 0 : (size_t)(r->end - r->at); }

struct bytes reader_take(struct reader *r, size_t size)
{
    if (r->failed || size > (size_t)(r->end - r->at)) {
        r->failed = true;
        return (struct bytes){ 0 };
    }
    struct bytes view = bytes_of(r->at, size);
    if (size)
        r->at += size;
    return view;
}

static inline void take_number(struct reader *r, void *ret_number, size_t size)
{
    if (r->failed || size > (size_t)(r->end - r->at)) {
        r->failed = true;
        return;
    }
    memcpy(ret_number, r->at, size);
    r->at += size;
}

uint8_t reader_u8(struct reader *r)
{
    uint8_t v = 0;
    take_number(r, &v, sizeof(v));
    return v;
}

uint16_t reader_u16(struct reader *r)
{
    uint16_t v = 0;
    take_number(r, &v, sizeof(v));
    return le16toh(v);
}

uint32_t reader_u32(struct reader *r)
{
    uint32_t v = 0;
    take_number(r, &v, sizeof(v));
    return le32toh(v);
}

uint64_t reader_u64(struct reader *r)
{
    uint64_t v = 0;
    take_number(r, &v, sizeof(v));
    return le64toh(v);
}

struct bytes reader_sized(struct reader *r)
{
    uint32_t size = reader_u32(r);
    return reader_take(r, size);
}
