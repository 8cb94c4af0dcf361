/* SPDX-License-Identifier: MIT */
#pragma once

/* Prints a JSON object for people: one value per line, nested names joined by dots.  A number's
 * unit follows from the end of its name (_bytes, size, _s, _ns, created, last_used, ...).
 *
 * Threading  one thread at a time for each stream */
#include "cli/fail.h"
#include "common/base/json.h"

#include <stdio.h>

CLI_MUST_CHECK int show_object(const struct json *object, FILE *out, struct kiln_error *err);
/* Writes a value with its unit into |text|, truncated if it is too long. Returns |text|. */
const char *show_value(const char *name, const struct json *value, char *text, size_t size);
