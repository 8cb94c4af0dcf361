/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Arguments that may be URLs, and the checksum of such a file.
 *
 * Threading  pure functions
 */
#include "cli/fail.h"

#include <stdbool.h>

#define URL_LABEL_MAX 128

struct json;

/* Returns whether |word| is a URL, such as "https://..." or "file:///...". */
bool url_is(const char *word);
/* Returns the text to print for |word|, a path or a URL.  It is the last part, without credentials
 * and query, or "the file".  The result is a part of |word|, or |text|. */
const char *url_label(const char *word, char text[URL_LABEL_MAX]);
/* Sets "sha256" to |given|; converts the digits to lower case, as kilnd requires. */
CLI_MUST_CHECK int url_set_sha256(const char *given, struct json *ask, struct kiln_error *err);
