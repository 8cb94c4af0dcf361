/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The layers of a compiler's sandbox: their names, and which of them a process has.
 *
 * Ownership  plain values
 * Threading  no shared state
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sandbox_layer {
#define LAYER(name, purpose, advice) LAYER_##name,
#include "engine/sandbox/layers.def"
#undef LAYER
    LAYERS,
};

#define LAYERS_ALL ((1u << LAYERS) - 1)

#define LAYERS_TEXT_MAX 400

struct sandbox_report {
    uint32_t has;      /* one bit for each layer that was verified to be in force */
    uint32_t landlock; /* the version in force; 0: none */
    /* Why layers are missing, such as "network: Operation not permitted; ..."; "" if none is. */
    char why[LAYERS_TEXT_MAX];
};

const char *layer_name(enum sandbox_layer layer);

static inline bool report_has(const struct sandbox_report *report, enum sandbox_layer layer)
{
    return (report->has >> layer) & 1u;
}

/* Writes the names of the missing layers, such as "network, ipc"; "" if none is missing. */
void report_missing(const struct sandbox_report *report, char text[LAYERS_TEXT_MAX]);
const char *report_advice(const struct sandbox_report *report);
/* Removes the layers that |other| does not have, and adds |other|'s reasons. */
void report_worsen(struct sandbox_report *report, const struct sandbox_report *other);
void report_add_reason(struct sandbox_report *report, enum sandbox_layer layer, const char *reason);
