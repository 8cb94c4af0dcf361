/* SPDX-License-Identifier: MIT */
#pragma once

/* Writes HTML piece by piece.  Write untrusted text (names of programs, targets, users) only with
 * html_text or html_element, which escape it.
 *
 * Threading  one thread at a time for each stream */
#include "cli/fail.h"

#include <stdio.h>

/* Writes |text| with HTML's special characters escaped. Control characters and invalid UTF-8 become
 * '?'. */
void html_text(FILE *out, const char *text);
/* Writes <tag class="class">text</tag>, where only the text is escaped. |class| may be "". */
void html_element(FILE *out, const char *tag, const char *class, const char *fmt, ...)
    CLI_PRINTF(4, 5);
/* Writes <section> and its heading.  |explanation| may be "". */
void html_begin_section(FILE *out, const char *title, const char *explanation);
/* Writes a table cell with a bar whose length is the share of |part| in |whole|. */
void html_share_cell(FILE *out, double part, double whole);
