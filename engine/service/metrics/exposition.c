/* SPDX-License-Identifier: MIT */
#include "engine/service/metrics/exposition.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NUMBER_TEXT 48
#define NS_PER_SECOND 1000000000u

static void put_text(struct buffer *out, const char *text) { buffer_put(out, text, strlen(text)); }

static void put_escaped(struct buffer *out, const char *text, bool is_label)
{
    for (; *text; text++) {
        if (*text == '\\')
            put_text(out, "\\\\");
        else if (*text == '\n')
            put_text(out, "\\n");
        else if (*text == '"' && is_label)
            put_text(out, "\\\"");
        else
            buffer_put(out, text, 1);
    }
}

void exposition_begin(struct buffer *out, const struct metric *metric)
{
    static const char *const types[] = { "counter", "gauge", "histogram" };
    put_text(out, "# HELP ");
    put_text(out, metric->name);
    put_text(out, " ");
    put_escaped(out, metric->help, /* is_label= */ false);
    put_text(out, "\n# TYPE ");
    put_text(out, metric->name);
    put_text(out, " ");
    put_text(out, types[metric->type]);
    put_text(out, "\n");
}

/* Writes for example {tier="hot",le="0.5"}, or nothing if there are no labels. */
static void put_labels(struct buffer *out, const struct metric *metric, const char *const *values,
                       const char *end)
{
    const char *name = metric->labels;
    const char *before = "{";
    for (size_t i = 0; *name; i++, before = ",") {
        size_t size = strcspn(name, " ");
        put_text(out, before);
        buffer_put(out, name, size);
        put_text(out, "=\"");
        put_escaped(out, values[i], /* is_label= */ true);
        put_text(out, "\"");
        name += size + (name[size] == ' ');
    }
    if (end) {
        put_text(out, before);
        put_text(out, "le=\"");
        put_text(out, end);
        put_text(out, "\"");
        before = ",";
    }
    if (before[0] == ',')
        put_text(out, "}");
}

struct sample {
    const char *suffix;
    const char *const *values;
    const char *end; /* upper end of the bucket; NULL: the sample is not a bucket */
    const char *number;
};

static void put_sample(struct buffer *out, const struct metric *metric, const struct sample *sample)
{
    put_text(out, metric->name);
    put_text(out, sample->suffix);
    put_labels(out, metric, sample->values, sample->end);
    put_text(out, " ");
    put_text(out, sample->number);
    put_text(out, "\n");
}

/* Writes seconds exactly, without trailing zeros: "0.001024", "12". */
static const char *seconds_text(uint64_t whole, uint64_t ns, char text[NUMBER_TEXT])
{
    int size = snprintf(text, NUMBER_TEXT, "%" PRIu64 ".%09" PRIu64, whole, ns);
    while (text[size - 1] == '0')
        text[--size] = '\0';
    if (text[size - 1] == '.')
        text[size - 1] = '\0';
    return text;
}

void exposition_number(struct buffer *out, const struct metric *metric, const char *const *values,
                       uint64_t number)
{
    char text[NUMBER_TEXT];
    snprintf(text, sizeof(text), "%" PRIu64, number);
    put_sample(out, metric, &(struct sample){ "", values, NULL, text });
}

void exposition_micros(struct buffer *out, const struct metric *metric, const char *const *values,
                       uint64_t micros)
{
    char text[NUMBER_TEXT];
    seconds_text(micros / 1000000, micros % 1000000 * 1000, text);
    put_sample(out, metric, &(struct sample){ "", values, NULL, text });
}

void exposition_histogram(struct buffer *out, const struct metric *metric,
                          const char *const *values, const struct histogram *histogram,
                          const struct exposition_range *range)
{
    char end[NUMBER_TEXT], number[NUMBER_TEXT];
    for (unsigned i = range->first; i <= range->last; i += range->step) {
        uint64_t ns = UINT64_C(1) << i;
        seconds_text(ns / NS_PER_SECOND, ns % NS_PER_SECOND, end);
        snprintf(number, sizeof(number), "%" PRIu64, histogram_at_most(histogram, i));
        put_sample(out, metric, &(struct sample){ "_bucket", values, end, number });
    }
    snprintf(number, sizeof(number), "%" PRIu64, histogram_count(histogram));
    put_sample(out, metric, &(struct sample){ "_bucket", values, "+Inf", number });
    seconds_text(histogram->sum_ns / NS_PER_SECOND, histogram->sum_ns % NS_PER_SECOND, end);
    put_sample(out, metric, &(struct sample){ "_sum", values, NULL, end });
    put_sample(out, metric, &(struct sample){ "_count", values, NULL, number });
}
