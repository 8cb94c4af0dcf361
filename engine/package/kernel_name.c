/* SPDX-License-Identifier: MIT */
#include "engine/package/kernel_name.h"

#include "common/messages.h"
#include "engine/digest/sha256.h"

#include <string.h>

#define NAME_DIGITS 12 /* 48 bits: beside the program's name, enough to tell its versions apart */

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

static enum kiln_code put_headers(struct sha256 *s, const struct package_source *source,
                                  struct kiln_err *err)
{
    struct message_header headers[LIMIT_HEADERS];
    struct reader r = reader_of(source->headers);
    for (uint32_t i = 0; i < source->header_count && i < LIMIT_HEADERS; i++)
        headers[i] = message_header_read(&r);
    if (r.failed || reader_left(&r) || source->header_count > LIMIT_HEADERS)
        return kiln_fail(err, KILN_INVALID, "the headers of '%.*s' are not %u whole records",
                         (int)source->program.size, (const char *)source->program.data,
                         (unsigned)source->header_count);
    qsort(headers, source->header_count, sizeof(headers[0]), by_name);
    put_number(s, source->header_count);
    for (uint32_t i = 0; i < source->header_count; i++) {
        sha256_put_sized(s, headers[i].name);
        sha256_put_sized(s, headers[i].text);
    }
    return KILN_OK;
}

static bool has_nul(struct bytes text) { return text.size && memchr(text.data, '\0', text.size); }

enum kiln_code package_kernel_name(const struct package_source *source, struct buffer *ret_name,
                                   struct kiln_err *err)
{
    if (source->program.size == 0 || source->program.size > LIMIT_PROGRAM_NAME ||
        has_nul(source->program))
        return kiln_fail(err, KILN_INVALID, "a program needs a name of 1 to %u letters",
                         LIMIT_PROGRAM_NAME);
    struct sha256 s;
    sha256_init(&s);
    sha256_put_sized(&s, bytes_of_text("kiln-kernel-name-1"));
    sha256_put_sized(&s, source->source);
    enum kiln_code rc = put_headers(&s, source, err);
    if (rc)
        return rc;
    put_number(&s, source->abi);
    struct digest digest = sha256_end(&s);
    char hex[DIGEST_HEX_SIZE];
    digest_to_hex(&digest, hex);

    buffer_put(ret_name, source->program.data, source->program.size);
    buffer_put(ret_name, ".", 1);
    buffer_put(ret_name, hex, NAME_DIGITS);
    buffer_put(ret_name, ".o", 2);
    return ret_name->failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory for a kernel's name")
                            : KILN_OK;
}

enum kiln_code package_kernel_args(const struct package_source *source, const struct target *target,
                                   struct buffer *ret_args, struct kiln_err *err)
{
    if (has_nul(source->options))
        return kiln_fail(err, KILN_INVALID, "the options of '%.*s' have a NUL in them",
                         (int)source->program.size, (const char *)source->program.data);
    buffer_put(ret_args, source->options.data, source->options.size);
    if (target->family == TARGET_AMDGPU) {
        static const char option[] = " -mcpu=";
        char arch[LIMIT_TARGET_TEXT];
        target_arch(target, arch, sizeof(arch));
        buffer_put(ret_args, option, sizeof(option) - 1);
        buffer_put(ret_args, arch, strlen(arch));
    }
    return ret_args->failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory for a kernel's arguments")
                            : KILN_OK;
}
