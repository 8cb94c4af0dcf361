/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A chart of columns over time as inline SVG.  Labels are HTML next to the SVG, so that the labels
 * keep their size on narrow screens.
 *
 * Threading  one thread at a time for each stream
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CHART_LAYERS 5

struct chart_column {
    uint64_t time, span_s;
    double layers[CHART_LAYERS]; /* from the bottom; unused layers are 0 */
    char label[160];
};

struct chart {
    const char *name;
    const char *classes[CHART_LAYERS];
    const char *words[CHART_LAYERS]; /* the legend; NULL ends the list */
    const struct chart_column *columns;
    size_t count;
    uint64_t begin, end;
    double top;
    const char *top_label, *middle_label;
};

void chart_write(const struct chart *chart, FILE *out);
/* Returns a round number of seconds for the end of an axis: at least |most|. */
double chart_round_top(double most);
