/* SPDX-License-Identifier: MIT */
#pragma once

/* Handles arguments that may be URLs, and the checksum of a downloaded file.
 *
 * Threading  pure functions */
#include "cli/fail.h"

#include <stdbool.h>

#define URL_LABEL_MAX 128

struct json;

bool url_is(const char *word);
/* Returns a short name of |word|, a path or a URL: its last part, without a URL's query. If a URL
 * has no last part, returns "the file". Returns a pointer into |word|, or |text|. */
const char *url_label(const char *word, char text[URL_LABEL_MAX]);
/* Returns the name of |word| for messages: a path unchanged. Of a URL, returns only the url_label,
 * because the URL may contain a password, or a signature in its query. */
const char *url_shown(const char *word, char text[URL_LABEL_MAX]);
/* Sets "sha256" in |ask| to |given| in lower case, as kilnd requires. */
CLI_MUST_CHECK int url_set_sha256(const char *given, struct json *ask, struct kiln_error *err);
