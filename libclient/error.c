/* SPDX-License-Identifier: MIT */
#include "libclient/failure.h"

#include <stdio.h>
#include <string.h>

#define KILN_CODE(name, number, retry, text)                                   \
    _Static_assert(KILN_E_##name == (number), "KILN_E_" #name " differs from " \
                                              "common/base/err_codes.def");
#include "common/base/err_codes.def"
#undef KILN_CODE

enum {
    KNOWN_CODES =
#define KILN_CODE(name, number, retry, text) 1 +
#include "common/base/err_codes.def"
#undef KILN_CODE
        0
};
_Static_assert(KNOWN_CODES == KILN_E_UNSUPPORTED + 1, "<kiln/error.h> lacks a code");

static bool is_known(unsigned code) { return code < KNOWN_CODES; }

/* Copies |text|, which comes from the socket and may contain anything.  Control characters become
 * blanks. */
static void copy_text(char *to, size_t size, struct bytes text)
{
    size_t count = text.size < size - 1 ? text.size : size - 1;
    for (size_t i = 0; i < count; i++) {
        unsigned char c = text.data[i];
        to[i] = (char)(c < ' ' || c == 127 ? ' ' : c);
    }
    to[count] = '\0';
}

/* Keeps line ends and tabs.  Other control characters could affect a terminal, so they become
 * blanks. */
static char *copy_log(struct bytes log)
{
    char *text = log.size ? bytes_to_text(log) : NULL;
    for (size_t i = 0; text && i < log.size; i++) {
        unsigned char c = (unsigned char)text[i];
        if ((c < ' ' && c != '\n' && c != '\t') || c == 127)
            text[i] = ' ';
    }
    return text;
}

enum kiln_code failure_said(struct failure *f, unsigned code, struct bytes text, struct bytes log)
{
    failure_done(f);
    if (code == KILN_OK || !is_known(code))
        return kiln_fail(&f->err, KILN_CORRUPT,
                         "kilnd reports a failure with code %u, which this libkiln does not know: "
                         "use matching versions of libkiln and kilnd",
                         code);
    f->err.code = (enum kiln_code)code;
    copy_text(f->err.text, sizeof(f->err.text), text);
    if (f->err.text[0] == '\0')
        kiln_fail(&f->err, f->err.code, "%s", kiln_code_text(f->err.code));
    f->log = copy_log(log);
    return f->err.code;
}

static void write_error(struct kiln_error *to, enum kiln_code code, const char *text,
                        const char *log)
{
    to->code = (int)code;
    snprintf(to->text, sizeof(to->text), "%s", text[0] ? text : kiln_code_text(code));
    snprintf(to->log, sizeof(to->log), "%s", log ? log : "");
}

int failure_return(const struct failure *f, enum kiln_code code, struct kiln_error *ret_error)
{
    if (code && ret_error)
        write_error(ret_error, code, f->err.code == code ? f->err.text : "", f->log);
    return (int)code;
}

int error_return(const struct kiln_err *err, enum kiln_code code, struct kiln_error *ret_error)
{
    if (code && ret_error)
        write_error(ret_error, code, err->code == code ? err->text : "", NULL);
    return (int)code;
}

enum kiln_code error_take(int code, const struct kiln_error *error, struct kiln_err *err)
{
    return code ? kiln_fail(err, (enum kiln_code)code, "%s", error->text) : KILN_OK;
}

int error_argument(struct kiln_error *ret_error, const char *fmt, ...)
{
    char text[sizeof(ret_error->text)];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (ret_error)
        write_error(ret_error, KILN_INVALID, text, NULL);
    return KILN_E_INVALID;
}

const char *kiln_error_name(int code)
{
    return is_known((unsigned)code) ? kiln_code_name((enum kiln_code)code) : "?";
}

const char *kiln_error_text(int code)
{
    return is_known((unsigned)code) ? kiln_code_text((enum kiln_code)code) : "?";
}

int kiln_error_is_retryable(int code)
{
    return is_known((unsigned)code) && kiln_code_is_retryable((enum kiln_code)code);
}
