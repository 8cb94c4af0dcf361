/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A JSON object for people: one line a value, nested names joined by dots, numbers in the unit
 * that the end of their name tells (_bytes, size, _s, _ns, created, last_used, ...).
 */
#include "cli/fail.h"
#include "common/json.h"

#include <stdio.h>

CLI_MUST_CHECK int show_object(const struct json *object, FILE *out, struct kiln_error *err);
/* One value as such a line has it; |text| is cut where it does not fit.  Returns |text|. */
const char *show_value(const char *name, const struct json *value, char *text, size_t size);
