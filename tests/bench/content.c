/* SPDX-License-Identifier: MIT */
#include "tests/bench/content.h"

#include "common/base/clock.h"
#include "common/base/fs.h"
#include "common/base/random.h"
#include "engine/store/kernel_store.h"

#include <string.h>

#define PAGE 4096u

static uint64_t seed_of(const struct content *c, size_t index)
{
    uint64_t seed = ((uint64_t)c->kind << 56) ^ ((uint64_t)c->size << 24) ^ index;
    return random_next(&seed);
}

const char *content_kind_name(enum content_kind kind)
{
    switch (kind) {
    case CONTENT_RANDOM: return "random";
    case CONTENT_POOR: return "poor";
    case CONTENT_CODE: return "code";
    }
    return "?";
}

/* Returns a word of imitated machine code, in which few instructions are frequent. One word in
 * eight is random. The others come from a set of 256 words, of which the first are the most
 * frequent. */
static uint64_t code_word(uint64_t *state)
{
    uint64_t r = random_next(state);
    if ((r & 7) == 0)
        return r >> 8;
    uint64_t rank = ((r >> 8) & 0xff) * ((r >> 16) & 0xff) >> 8;
    return rank * 0x9e3779b97f4a7c15u;
}

/* Returns how many bytes are not padding. Code objects pad their sections to pages; here, 3 tenths
 * of the bytes are zeros. bzip2 then compresses to a third and unpacks 60 MB/s, as with MIOpen's
 * kernels. */
static size_t filled_size(const struct content *c)
{
    return c->kind == CONTENT_CODE ? c->size - c->size * 3 / 10 : c->size;
}

static uint64_t word_of(enum content_kind kind, uint64_t *state)
{
    switch (kind) {
    case CONTENT_CODE: return code_word(state);
    case CONTENT_POOR: return random_next(state) & 0x7f7f7f7f7f7f7f7fu;
    case CONTENT_RANDOM: break;
    }
    return random_next(state);
}

void content_make(const struct content *c, size_t index, uint8_t *bytes)
{
    uint64_t state = seed_of(c, index);
    size_t filled = filled_size(c);
    for (size_t at = 0; at < filled; at += sizeof(uint64_t)) {
        uint64_t word = word_of(c->kind, &state);
        size_t left = filled - at;
        memcpy(bytes + at, &word, left < sizeof(word) ? left : sizeof(word));
    }
    memset(bytes + filled, 0, c->size - filled);
}

struct digest content_key(const struct content *c, size_t index)
{
    uint64_t state = ~seed_of(c, index);
    struct digest key;
    for (size_t at = 0; at < sizeof(key.bytes); at += sizeof(uint64_t)) {
        uint64_t word = random_next(&state);
        memcpy(key.bytes + at, &word, sizeof(word));
    }
    return key;
}

uint64_t content_touch(const struct content *c, const void *bytes)
{
    const volatile uint8_t *at = bytes;
    uint64_t sum = 0;
    size_t end = c->touch ? c->touch : c->size;
    for (size_t i = 0; i < end; i += PAGE)
        sum += at[i];
    return sum;
}

enum kiln_code content_memfd(const struct content *c, size_t index, int *ret_fd,
                             struct kiln_err *err)
{
    KILN_AUTO(mem) uint8_t *bytes = malloc(c->size);
    if (!bytes)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make an object of %zu bytes", c->size);
    content_make(c, index, bytes);
    KILN_AUTO(fd) int fd = -1;
    enum kiln_code rc = fs_memfd("bench", &fd, err);
    if (!rc)
        rc = fs_write_all(fd, bytes_of(bytes, c->size), err);
    if (!rc)
        rc = fs_seal(fd, err);
    if (rc)
        return rc;
    *ret_fd = fd;
    fd = -1;
    return KILN_OK;
}

static enum kiln_code put_one(struct kernel_store *store, const struct content *c, size_t index,
                              uint8_t *bytes, struct kiln_err *err)
{
    content_make(c, index, bytes);
    struct object *object = NULL;
    enum kiln_code rc = object_from_bytes(bytes_of(bytes, c->size), 100000000u, &object, err);
    if (rc)
        return rc;
    struct kernel_record record = {
        .key = content_key(c, index),
        .object = object->digest,
        .target = "gfx90a",
        .toolchain = "bench",
        .program = "bench.cl",
        .options = "-DBENCH=1",
        .raw_size = c->size,
        .compile_ns = 100000000u,
        .created = clock_wall_s(),
        .last_used = clock_wall_s(),
        .uid = getuid(),
    };
    uint64_t evicted = 0;
    rc = kernel_store_put(store, &record, object, &evicted, err);
    object_unref(object);
    if (!rc && evicted)
        return kiln_fail(err, KILN_FULL, "the store evicted while it was being filled");
    return rc;
}

enum kiln_code content_store(const struct content *c, const char *directory, struct kiln_err *err)
{
    struct kernel_store_options options = {
        .directory = directory,
        .limit_bytes = 64ull << 30,
        .readers = 1,
    };
    KILN_AUTO(kernel_store) struct kernel_store *store = NULL;
    char notice[512];
    enum kiln_code rc = kernel_store_open(&options, &store, notice, err);
    if (rc)
        return kiln_while(err, "filling the store in '%s'", directory);
    KILN_AUTO(mem) uint8_t *bytes = malloc(c->size);
    if (!bytes)
        return kiln_fail(err, KILN_NO_MEMORY, "cannot make an object of %zu bytes", c->size);
    for (size_t i = 0; i < c->count && !rc; i++)
        rc = put_one(store, c, i, bytes, err);
    return rc;
}
