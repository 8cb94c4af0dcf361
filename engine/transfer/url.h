/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A URL that a package may come from: https, http or file.
 *
 * Ownership  a url owns its texts: call url_done, which accepts a zeroed url
 * Threading  plain values
 */
#include "common/base/err.h"

#define URL_MAX 4096
#define URL_SHOWN_MAX 256
#define URL_NAME_MAX 256

enum url_scheme { URL_HTTP, URL_HTTPS, URL_FILE };

struct url {
    enum url_scheme scheme;
    char *text; /* owned; has the credentials: never print it */
    /* Owned; unescaped; NULL unless it is a file URL. */
    char *path;
    char name[URL_NAME_MAX];   /* the last part of the path, unescaped; "": none */
    char shown[URL_SHOWN_MAX]; /* for messages: without credentials and query */
};

/* Parses a URL. If this fails, the error message does not contain the URL, which may have a
 * password. */
KILN_MUST_CHECK enum kiln_code url_parse(const char *text, struct url *ret_url,
                                         struct kiln_err *err);
/* Appends |suffix| to the path.  The query does not change. */
KILN_MUST_CHECK enum kiln_code url_beside(const struct url *url, const char *suffix,
                                          struct url *ret_url, struct kiln_err *err);
void url_done(struct url *url);
static inline void url_auto(struct url *url) { url_done(url); }
