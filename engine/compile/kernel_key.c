/* SPDX-License-Identifier: MIT */
#include "engine/compile/kernel_key.h"
#include "common/messages.h"
#include "engine/digest/sha256.h"

#include <string.h>

static int by_name(const void *left, const void *right)
{
    struct bytes a = ((const struct message_header *)left)->name;
    struct bytes b = ((const struct message_header *)right)->name;
    size_t common = a.size < b.size ? a.size : b.size;
    int order = common ? memcmp(a.data, b.data, common) : 0;
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

static void put_number(struct sha256 *s, uint32_t value)
{
    uint8_t raw[4];
    for (size_t i = 0; i < sizeof(raw); i++)
        raw[i] = (uint8_t)(value >> (8 * i));
    sha256_put_sized(s, bytes_of(raw, sizeof(raw)));
}

static void put_headers(struct sha256 *s, const struct compile_job *job)
{
    struct message_header headers[LIMIT_HEADERS];
    uint32_t count = job->header_count < LIMIT_HEADERS ? job->header_count : LIMIT_HEADERS;
    struct reader r = reader_of(job->headers);
    for (uint32_t i = 0; i < count; i++)
        headers[i] = message_header_read(&r);
    qsort(headers, count, sizeof(headers[0]), by_name);
    put_number(s, count);
    for (uint32_t i = 0; i < count; i++) {
        sha256_put_sized(s, headers[i].name);
        sha256_put_sized(s, headers[i].text);
    }
}

struct digest kernel_key(const struct compile_job *job, const struct digest *toolchain_identity)
{
    struct sha256 s;
    sha256_init(&s);
    sha256_put_sized(&s, bytes_of_text("kiln-key-1"));
    sha256_put_sized(&s, job->toolchain);
    sha256_put_sized(&s, job->target);
    sha256_put_sized(&s, bytes_of(toolchain_identity->bytes, sizeof(toolchain_identity->bytes)));
    sha256_put_sized(&s, job->program);
    sha256_put_sized(&s, job->options);
    sha256_put_sized(&s, job->source);
    put_headers(&s, job);
    put_number(&s, COMPILE_ABI);
    return sha256_end(&s);
}

struct digest kernel_source_id(const struct compile_job *job) { return sha256_of(job->source); }

struct digest kernel_headers_id(const struct compile_job *job)
{
    struct sha256 s;
    sha256_init(&s);
    put_headers(&s, job);
    return sha256_end(&s);
}
