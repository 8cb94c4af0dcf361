/* SPDX-License-Identifier: MIT */
#include "cli/fail.h"

#include "common/base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int cli_fail(struct kiln_error *err, int code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(err->text, sizeof(err->text), fmt, args);
    va_end(args);
    err->code = code;
    err->log[0] = '\0';
    return code;
}

int cli_fail_errno(struct kiln_error *err, int errnum, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(err->text, sizeof(err->text), fmt, args);
    va_end(args);
    size_t used = strlen(err->text);
    snprintf(err->text + used, sizeof(err->text) - used, ": %s", strerror(errnum));
    err->code = errnum == ENOMEM                      ? KILN_E_NO_MEMORY
                : errnum == EACCES || errnum == EPERM ? KILN_E_DENIED
                                                      : KILN_E_IO;
    err->log[0] = '\0';
    return err->code;
}

int cli_fail_json(struct kiln_error *err, const struct kiln_err *why)
{
    int code = why->code == KILN_NO_MEMORY ? KILN_E_NO_MEMORY : KILN_E_CORRUPT;
    return cli_fail(err, code, "%s", why->text);
}

int cli_while(struct kiln_error *err, const char *fmt, ...)
{
    char inner[sizeof(err->text)];
    memcpy(inner, err->text, sizeof(inner));
    va_list args;
    va_start(args, fmt);
    vsnprintf(err->text, sizeof(err->text), fmt, args);
    va_end(args);
    size_t used = strlen(err->text);
    snprintf(err->text + used, sizeof(err->text) - used, ": %s", inner);
    return err->code;
}
