/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Arguments that may be URLs, and the checksum that a downloaded file must have.
 *
 * Threading  pure functions
 */
#include "cli/fail.h"

#include <stdbool.h>

#define URL_LABEL_MAX 128

struct json;

bool url_is(const char *word);
/* Returns a name to print for |word|, which is a path or a URL: its last part without the query, or
 * "the file" if a URL has none.  Returns a pointer into |word|, or |text|. */
const char *url_label(const char *word, char text[URL_LABEL_MAX]);
/* Returns the text that names |word| in messages: a path unchanged, but only the label of a URL,
 * because the URL may contain a password, or a signature in its query. */
const char *url_shown(const char *word, char text[URL_LABEL_MAX]);
/* Sets "sha256" to |given| in lower case, because kilnd requires lower case. */
CLI_MUST_CHECK int url_set_sha256(const char *given, struct json *ask, struct kiln_error *err);
