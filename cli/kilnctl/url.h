/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Words of a command line that may lead to a file elsewhere, and what such a file must be.
 *
 * Threading  pure functions
 */
#include "cli/fail.h"

#include <stdbool.h>

#define URL_LABEL_MAX 128

struct json;

/* "https://...", "file:///..." */
bool url_is(const char *word);
/* What to call |word|, a path or a URL, in what people read: the last part of it, of a URL without
 * credentials and query; "the file" where there is none.  Returns |word|'s part or |text|. */
const char *url_label(const char *word, char text[URL_LABEL_MAX]);
/* Sets "sha256" to |given|, whose digits may be in either case; kilnd wants them small. */
CLI_MUST_CHECK int url_set_sha256(const char *given, struct json *ask, struct kiln_error *err);
