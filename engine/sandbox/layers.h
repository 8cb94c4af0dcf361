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

/* Room for the names of all, and for why each is missing, cut where it is too long. */
#define LAYERS_TEXT_MAX 400

struct sandbox_report {
    uint32_t has;              /* one bit a layer: seen to be in force, not just asked for */
    uint32_t landlock;         /* the version in force; 0: none */
    char why[LAYERS_TEXT_MAX]; /* "network: Operation not permitted; ..."; "" when all are there */
};

/* "no_new_privileges" */
const char *layer_name(enum sandbox_layer layer);
/* What compilers can do without it; how to get it. */
const char *layer_purpose(enum sandbox_layer layer);
const char *layer_advice(enum sandbox_layer layer);

static inline bool report_has(const struct sandbox_report *report, enum sandbox_layer layer)
{
    return (report->has >> layer) & 1u;
}

/* "network, ipc"; "" when none is missing. */
void report_missing(const struct sandbox_report *report, char text[LAYERS_TEXT_MAX]);
/* The advice of the first that is missing; "" when none is. */
const char *report_advice(const struct sandbox_report *report);
/* |report| of two: what both have, and why of what the |other| alone lacks. */
void report_worsen(struct sandbox_report *report, const struct sandbox_report *other);
/* Adds why |layer| is missing. */
void report_add_reason(struct sandbox_report *report, enum sandbox_layer layer, const char *reason);
