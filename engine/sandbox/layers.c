/* SPDX-License-Identifier: MIT */
#include "engine/sandbox/layers.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *advice;
} layers[LAYERS] = {
#define LAYER(name, purpose, advice) [LAYER_##name] = { #name, advice },
#include "engine/sandbox/layers.def"
#undef LAYER
};

const char *layer_name(enum sandbox_layer layer) { return layers[layer].name; }

static void append_text(char text[LAYERS_TEXT_MAX], const char *separator, const char *more)
{
    size_t used = strlen(text);
    snprintf(text + used, LAYERS_TEXT_MAX - used, "%s%s", used ? separator : "", more);
}

void report_missing(const struct sandbox_report *report, char text[LAYERS_TEXT_MAX])
{
    text[0] = '\0';
    for (enum sandbox_layer l = 0; l < LAYERS; l++) {
        if (!report_has(report, l))
            append_text(text, ", ", layers[l].name);
    }
}

const char *report_advice(const struct sandbox_report *report)
{
    for (enum sandbox_layer l = 0; l < LAYERS; l++) {
        if (!report_has(report, l))
            return layers[l].advice;
    }
    return "";
}

void report_worsen(struct sandbox_report *report, const struct sandbox_report *other)
{
    if (report->has & ~other->has)
        append_text(report->why, "; ", other->why);
    report->has &= other->has;
    if (other->landlock < report->landlock)
        report->landlock = other->landlock;
}

void report_add_reason(struct sandbox_report *report, enum sandbox_layer layer, const char *reason)
{
    append_text(report->why, "; ", layers[layer].name);
    append_text(report->why, ": ", reason);
}
