/* SPDX-License-Identifier: MIT */
#include "engine/package/kernel_name.h"

#include "common/protocol/limits.h"
#include "engine/digest/sha256_headers.h"

#include <string.h>

#define NAME_DIGITS 12

static bool has_nul(struct bytes text) { return text.size && memchr(text.data, '\0', text.size); }

enum kiln_code package_kernel_name(const struct package_source *source, struct buffer *ret_name,
                                   struct kiln_err *err)
{
    if (source->program.size == 0 || source->program.size > LIMIT_PROGRAM_NAME ||
        has_nul(source->program))
        return kiln_fail(err, KILN_INVALID,
                         "the program's name must have 1 to %u bytes, none of them NUL",
                         LIMIT_PROGRAM_NAME);
    struct sha256 s;
    sha256_init(&s);
    sha256_put_sized(&s, bytes_of_text("kiln-kernel-name-1"));
    sha256_put_sized(&s, source->source);
    if (!sha256_put_headers(&s, source->headers, source->header_count))
        return kiln_fail(err, KILN_INVALID, "the headers of '%.*s' are not %u complete records",
                         (int)source->program.size, (const char *)source->program.data,
                         (unsigned)source->header_count);
    sha256_put_number(&s, source->abi);
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
        return kiln_fail(err, KILN_INVALID, "the options of '%.*s' contain a NUL",
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
