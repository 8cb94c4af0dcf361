/* SPDX-License-Identifier: MIT */
#include "engine/compile/headers.h"
#include "common/protocol/messages.h"

#include <ctype.h>
#include <string.h>

static int shown_size(struct bytes name) { return name.size > 80 ? 80 : (int)name.size; }

static bool part_is_fine(const char *part, size_t size)
{
    if (size == 0 || part[0] == '.' || part[0] == '-')
        return false;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)part[i];
        if (c >= 128 || !(isalnum(c) || c == '_' || c == '.' || c == '+' || c == '-'))
            return false;
    }
    return true;
}

bool header_name_is_fine(struct bytes name)
{
    if (name.size == 0 || name.size > LIMIT_PROGRAM_NAME)
        return false;
    const char *at = (const char *)name.data, *end = at + name.size;
    for (;;) {
        const char *slash = memchr(at, '/', (size_t)(end - at));
        if (!part_is_fine(at, (size_t)((slash ? slash : end) - at)))
            return false;
        if (!slash)
            return true;
        at = slash + 1;
    }
}

enum kiln_code program_name_check(struct bytes name, struct kiln_err *err)
{
    if (header_name_is_fine(name) && !memchr(name.data, '/', name.size))
        return KILN_OK;
    return kiln_fail(err, KILN_INVALID,
                     "'%.*s' is not a valid program name: use 1 to %u letters, digits and _ . + -, "
                     "no directories, no '.' or '-' at the beginning",
                     shown_size(name), (const char *)name.data, LIMIT_PROGRAM_NAME);
}

static bool seen_before(const struct bytes *names, uint32_t count, struct bytes name)
{
    for (uint32_t i = 0; i < count; i++) {
        if (bytes_equal(names[i], name))
            return true;
    }
    return false;
}

enum kiln_code headers_check(struct bytes records, uint32_t count, struct kiln_err *err)
{
    if (count > LIMIT_HEADERS)
        return kiln_fail(err, KILN_INVALID, "the source has %u headers, but at most %u are allowed",
                         (unsigned)count, LIMIT_HEADERS);
    struct bytes names[LIMIT_HEADERS];
    struct reader r = reader_of(records);
    for (uint32_t i = 0; i < count; i++) {
        struct message_header h = message_header_read(&r);
        if (r.failed)
            return kiln_fail(err, KILN_INVALID, "header %u of %u is truncated", (unsigned)i + 1,
                             (unsigned)count);
        if (!header_name_is_fine(h.name))
            return kiln_fail(err, KILN_INVALID,
                             "'%.*s' is not a valid header name: use a relative path of letters, "
                             "digits and _ . + - without '..'",
                             shown_size(h.name), (const char *)h.name.data);
        if (seen_before(names, i, h.name))
            return kiln_fail(err, KILN_INVALID, "header '%.*s' occurs twice", shown_size(h.name),
                             (const char *)h.name.data);
        names[i] = h.name;
    }
    if (r.at != r.end)
        return kiln_fail(err, KILN_INVALID, "%zu bytes follow the last of %u headers",
                         reader_left(&r), (unsigned)count);
    return KILN_OK;
}
