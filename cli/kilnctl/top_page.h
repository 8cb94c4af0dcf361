/* SPDX-License-Identifier: MIT */
#pragma once

/* Formats the page of kilnctl top as lines of text, for the screen and for --once.
 *
 * Ownership  a page is a plain value
 * Threading  one thread */
#include "cli/kilnctl/top_sample.h"

#define TOP_LINES_MAX 128
#define TOP_WIDTH_MAX 240

enum top_style { TOP_PLAIN, TOP_TITLE, TOP_WARNING };
enum top_sort { TOP_BY_AGE, TOP_BY_PROGRAM, TOP_BY_USER, TOP_SORTS };
extern const char *const top_sort_names[TOP_SORTS];

struct top_page {
    char lines[TOP_LINES_MAX][TOP_WIDTH_MAX + 1];
    enum top_style styles[TOP_LINES_MAX];
    size_t count;
};

struct top_view {
    const struct top_sample *sample; /* all zero if there is no sample yet */
    const struct top_rates *rates;
    const char *trouble; /* why there is no current sample; NULL if there is one */
    enum top_sort sort;
    size_t width, height;
};

void top_page_fill(const struct top_view *view, struct top_page *ret_page);
