/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * URLs in messages and answers.
 *
 * Threading  pure functions
 */
#include <stddef.h>

/* Copies |url| without what may be secret: credentials, query and fragment of an http or https URL.
 * Copies any other text unchanged. Truncates the copy if it does not fit. */
void url_without_secrets(const char *url, char *text, size_t size);
