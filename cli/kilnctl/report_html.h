/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * HTML written piece by piece.  What comes from elsewhere (names of programs, targets, users) goes
 * through html_text or html_attribute, whatever is in it.
 *
 * Threading  one stream, one thread
 */
#include "cli/fail.h"

#include <stdio.h>

/* Escaped; control characters and what is no UTF-8 become '?'. */
void html_text(FILE *out, const char *text);
/* An element: <tag class="class">text</tag>.  |tag| and |class| are ours; |class| may be "". */
void html_element(FILE *out, const char *tag, const char *class, const char *fmt, ...)
    CLI_PRINTF(4, 5);
