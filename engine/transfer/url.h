/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A URL that a package may come from: https, http or file.
 *
 * Ownership  a url owns its texts: call url_done, which accepts a zeroed url
 * Threading  plain values
 */
#include "common/base/err.h"

/* Maximum bytes of a URL; signed URLs have a query of about 1000 bytes. */
#define URL_MAX 4096
#define URL_SHOWN_MAX 256 /* maximum bytes of a URL as part of a message */
#define URL_NAME_MAX 256  /* maximum bytes of a file name */

enum url_scheme { URL_HTTP, URL_HTTPS, URL_FILE };

struct url {
    enum url_scheme scheme;
    char *text; /* owned; the whole URL with its credentials; never print it */
    /* Owned; the path of a file URL, unescaped; NULL for other schemes. */
    char *path;
    char name[URL_NAME_MAX];   /* the last part of the path, unescaped; "": none */
    char shown[URL_SHOWN_MAX]; /* for messages: without credentials and query */
};

/* Parses a URL.  Returns KILN_INVALID if it is not a valid URL of the three kinds.  The message
 * does not contain the URL, which may have a password. */
KILN_MUST_CHECK enum kiln_code url_parse(const char *text, struct url *ret_url,
                                         struct kiln_err *err);
/* Copies |url|, and appends |suffix| to the path of the copy.  The query does not change. */
KILN_MUST_CHECK enum kiln_code url_beside(const struct url *url, const char *suffix,
                                          struct url *ret_url, struct kiln_err *err);
void url_done(struct url *url);
static inline void url_auto(struct url *url) { url_done(url); }
