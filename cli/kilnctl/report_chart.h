/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A chart of columns over time as inline SVG.  Labels are HTML next to it, so that they keep their
 * size on narrow screens.
 *
 * Threading  one thread at a time for each stream
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CHART_LAYERS 4

struct chart_column {
    /* Start of the column's period, in seconds since the epoch, and length of the period. */
    uint64_t time, span_s;
    double layers[CHART_LAYERS]; /* from the bottom; unused layers are 0 */
    char label[160];             /* text of the tooltip */
};

struct chart {
    const char *name;                   /* name of the chart for screen readers */
    const char *classes[CHART_LAYERS];  /* class of each layer in the page's style sheet */
    const char *words[CHART_LAYERS];    /* words of the legend; NULL ends the list */
    const struct chart_column *columns; /* in the order of time */
    size_t count;
    uint64_t begin, end; /* begin and end of the time axis */
    double top;          /* top of the value axis, more than 0 */
    const char *top_label, *middle_label;
};

void chart_write(const struct chart *chart, FILE *out);
