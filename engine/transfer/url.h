/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A URL that a package may come from: https, http or file.
 *
 * Ownership  url_done; accepts a zeroed one
 * Threading  plain values
 */
#include "common/err.h"

#define URL_MAX 4096      /* bytes of a URL; some sign theirs with a kilobyte of query */
#define URL_SHOWN_MAX 256 /* so that a sentence has room for more */
#define URL_NAME_MAX 256  /* as of a file */

enum url_scheme { URL_HTTP, URL_HTTPS, URL_FILE };

struct url {
    enum url_scheme scheme;
    char *text;                /* owned: all of it, credentials too; never printed */
    char *path;                /* owned: of a file, unescaped; NULL for the others */
    char name[URL_NAME_MAX];   /* the path's last part, unescaped; "" when there is none */
    char shown[URL_SHOWN_MAX]; /* without credentials and query: what people may see */
};

/* KILN_INVALID: not such a URL. The message does not repeat it, as it may contain a password. */
KILN_MUST_CHECK enum kiln_code url_parse(const char *text, struct url *ret_url,
                                         struct kiln_err *err);
/* The same location with |suffix| appended to its path; the query is kept. */
KILN_MUST_CHECK enum kiln_code url_beside(const struct url *url, const char *suffix,
                                          struct url *ret_url, struct kiln_err *err);
void url_done(struct url *url);
static inline void url_auto(struct url *url) { url_done(url); }
