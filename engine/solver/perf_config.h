/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Perf configs: points of a solver's tuning space.
 *
 * Role       A space is the product of its axes, or the union of some smaller products within it,
 *            minus the points that the solver calls invalid.  This file numbers the points and
 *            converts them from and to PerfDb's text ("128,64,8,1")
 * Ownership  plain values
 * Threading  pure functions
 */
#include "common/base/bytes.h"
#include "common/base/err.h"

#define PERF_AXES_MAX 16
#define PERF_PARTS_MAX 8
#define PERF_CONFIG_TEXT_MAX (PERF_AXES_MAX * 6u)

struct perf_axis {
    const char *name;       /* such as "tile_m" */
    const uint16_t *values; /* static; in ascending order */
    uint32_t count;
};

#define PERF_VALUES(...) \
    (const uint16_t[]){ __VA_ARGS__ }, sizeof((const uint16_t[]){ __VA_ARGS__ }) / sizeof(uint16_t)

struct perf_space {
    const struct perf_axis *axes; /* static; each axis has all values that a config may have */
    uint32_t count;               /* 0: nothing to tune */
    /* Static; |count| axes for each part.  If |part_count| is 0, the product of |axes| is the only
     * part. Otherwise each part is a product of some of the values of each axis, and no point is in
     * two parts. */
    const struct perf_axis *parts;
    uint32_t part_count;
};

struct perf_config {
    uint32_t count;
    uint16_t values[PERF_AXES_MAX];
};

void perf_config_write(const struct perf_config *config, char ret_text[PERF_CONFIG_TEXT_MAX]);
/* Returns KILN_INVALID if the number of values is wrong or if a value is not on its axis.  Does not
 * check that the solver calls the point valid. */
KILN_MUST_CHECK enum kiln_code perf_config_read(struct bytes text, const struct perf_space *space,
                                                struct perf_config *ret_config,
                                                struct kiln_err *err);

/* Counts the points of all parts, valid or not.  For every solver, the number fits 32 bits. */
uint32_t perf_space_size(const struct perf_space *space);
/* Returns the number of parts: 1 if the space is one product, 0 if there is nothing to tune. */
uint32_t perf_space_parts(const struct perf_space *space);
uint32_t perf_part_size(const struct perf_space *space, uint32_t part);
/* Returns the point with number |index|. The points of a part follow those of the part before;
 * within a part, the last axis varies fastest. */
void perf_space_at(const struct perf_space *space, uint32_t index, struct perf_config *ret_config);
bool perf_axis_has(const struct perf_axis *axis, uint16_t value);
