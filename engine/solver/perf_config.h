/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Perf configs: points of a solver's tuning space.
 *
 * Role       a space is the product of its axes, or some smaller products within it, less what the
 *            solver calls invalid; here are its points by number, and as the text that PerfDb keeps
 *            ("128,64,8,1")
 * Ownership  plain values
 * Threading  pure functions
 */
#include "common/bytes.h"
#include "common/err.h"

#define PERF_AXES_MAX 16
#define PERF_PARTS_MAX 8
#define PERF_CONFIG_TEXT_MAX (PERF_AXES_MAX * 6u) /* bytes, with a terminating NUL */

struct perf_axis {
    const char *name;       /* "tile_m", for people and errors */
    const uint16_t *values; /* static, ascending */
    uint32_t count;         /* at least 1 */
};

/* The values of an axis, and how many: behind its name in an initializer of a static one. */
#define PERF_VALUES(...) \
    (const uint16_t[]){ __VA_ARGS__ }, sizeof((const uint16_t[]){ __VA_ARGS__ }) / sizeof(uint16_t)

struct perf_space {
    const struct perf_axis *axes; /* static; each with all values that a config may have */
    uint32_t count;               /* of axes; 0: nothing to tune */
    /* Static, |count| for each part; 0 parts: the product of |axes| is the only one.  Else products
     * with some of the values, which have no point in common: one axis decides about others. */
    const struct perf_axis *parts;
    uint32_t part_count;
};

struct perf_config {
    uint32_t count; /* as many as there are axes */
    uint16_t values[PERF_AXES_MAX];
};

/* Values separated by commas, in the order of the axes. */
void perf_config_write(const struct perf_config *config, char ret_text[PERF_CONFIG_TEXT_MAX]);
/* KILN_INVALID names the axis whose value is none of it, or says that the count is another.  Does
 * not ask whether the point is valid. */
KILN_MUST_CHECK enum kiln_code perf_config_read(struct bytes text, const struct perf_space *space,
                                                struct perf_config *ret_config,
                                                struct kiln_err *err);

/* Points of all parts, valid or not; every solver's fit 32 bits. */
uint32_t perf_space_size(const struct perf_space *space);
/* 1 where the space is one product, 0 where there is nothing to tune. */
uint32_t perf_space_parts(const struct perf_space *space);
uint32_t perf_part_size(const struct perf_space *space, uint32_t part);
/* The |index|-th: part after part, in each of which the last axis turns fastest. */
void perf_space_at(const struct perf_space *space, uint32_t index, struct perf_config *ret_config);
bool perf_axis_has(const struct perf_axis *axis, uint16_t value);
