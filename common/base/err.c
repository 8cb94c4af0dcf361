/* SPDX-License-Identifier: MIT */
#include "common/base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum retry { NEVER, SAME_HOST, LATER };

static const struct {
    const char *name;
    const char *text;
    enum retry retry;
} codes[] = {
#define KILN_CODE(name_, number, retry_, text_) \
    [number] = { .name = #name_, .text = text_, .retry = retry_ },
#include "common/base/err_codes.def"
#undef KILN_CODE
};

static bool is_known_code(enum kiln_code code)
{
    return (size_t)code < sizeof(codes) / sizeof(codes[0]) && codes[code].name;
}

static void append_text(char *buf, size_t cap, const char *tail)
{
    size_t used = strlen(buf);
    snprintf(buf + used, cap - used, "%s", tail);
}

KILN_PRINTF(3, 0)
static enum kiln_code record_error(struct kiln_err *err, enum kiln_code code, const char *fmt,
                                   va_list args)
{
    err->code = code;
    vsnprintf(err->text, sizeof(err->text), fmt, args);
    return code;
}

enum kiln_code kiln_fail(struct kiln_err *err, enum kiln_code code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    record_error(err, code, fmt, args);
    va_end(args);
    return code;
}

static enum kiln_code code_from_errno(int errnum)
{
    switch (errnum) {
    case ENOENT: return KILN_NOT_FOUND;
    case EINVAL: return KILN_INVALID;
    case EACCES:
    case EPERM: return KILN_DENIED;
    case EDQUOT:
    case ENOSPC: return KILN_FULL;
    case EAGAIN:
    case EBUSY: return KILN_BUSY;
    case ENOMEM: return KILN_NO_MEMORY;
    default: return KILN_IO;
    }
}

enum kiln_code kiln_fail_errno(struct kiln_err *err, int errnum, const char *fmt, ...)
{
    enum kiln_code code = code_from_errno(errnum);
    va_list args;
    va_start(args, fmt);
    record_error(err, code, fmt, args);
    va_end(args);
    append_text(err->text, sizeof(err->text), ": ");
    append_text(err->text, sizeof(err->text), strerror(errnum));
    return code;
}

enum kiln_code kiln_while(struct kiln_err *err, const char *fmt, ...)
{
    char inner[sizeof(err->text)];
    memcpy(inner, err->text, sizeof(inner));
    va_list args;
    va_start(args, fmt);
    record_error(err, err->code, fmt, args);
    va_end(args);
    append_text(err->text, sizeof(err->text), ": ");
    append_text(err->text, sizeof(err->text), inner);
    return err->code;
}

const char *kiln_code_name(enum kiln_code code)
{
    return is_known_code(code) ? codes[code].name : "?";
}
const char *kiln_code_text(enum kiln_code code)
{
    return is_known_code(code) ? codes[code].text : "?";
}
bool kiln_code_is_retryable(enum kiln_code code)
{
    return is_known_code(code) && codes[code].retry != NEVER;
}
