/* SPDX-License-Identifier: MIT */
#include "engine/solver/perf_config.h"

#include <stdio.h>

void perf_config_write(const struct perf_config *config, char ret_text[PERF_CONFIG_TEXT_MAX])
{
    size_t used = 0;
    ret_text[0] = '\0';
    for (uint32_t i = 0; i < config->count; i++)
        used += (size_t)snprintf(ret_text + used, PERF_CONFIG_TEXT_MAX - used, "%s%u", i ? "," : "",
                                 (unsigned)config->values[i]);
}

bool perf_axis_has(const struct perf_axis *axis, uint16_t value)
{
    for (uint32_t i = 0; i < axis->count; i++)
        if (axis->values[i] == value)
            return true;
    return false;
}

/* Accepts no sign, blanks or leading zeros. */
static bool read_value(const char **at, const char *end, uint16_t *ret_value)
{
    const char *begin = *at;
    uint32_t value = 0;
    while (*at < end && **at >= '0' && **at <= '9' && value <= UINT16_MAX)
        value = value * 10 + (uint32_t)(*(*at)++ - '0');
    *ret_value = (uint16_t)value;
    return *at > begin && value <= UINT16_MAX && (*begin != '0' || *at == begin + 1);
}

enum kiln_code perf_config_read(struct bytes text, const struct perf_space *space,
                                struct perf_config *ret_config, struct kiln_err *err)
{
    const char *at = (const char *)text.data, *end = at + text.size;
    struct perf_config config = { .count = space->count };
    for (uint32_t i = 0; i < space->count; i++) {
        if (i && (at == end || *at++ != ','))
            return kiln_fail(err, KILN_INVALID, "a perf config of this solver has %u values",
                             (unsigned)space->count);
        if (!read_value(&at, end, &config.values[i]) ||
            !perf_axis_has(&space->axes[i], config.values[i]))
            return kiln_fail(err, KILN_INVALID, "value %u of the perf config is not allowed for %s",
                             (unsigned)i + 1, space->axes[i].name);
    }
    if (at != end)
        return kiln_fail(err, KILN_INVALID, "a perf config of this solver has %u values",
                         (unsigned)space->count);
    *ret_config = config;
    return KILN_OK;
}

uint32_t perf_space_parts(const struct perf_space *space)
{
    return space->count == 0 ? 0 : space->part_count ? space->part_count : 1;
}

static const struct perf_axis *axes_of(const struct perf_space *space, uint32_t part)
{
    return space->part_count ? space->parts + (size_t)part * space->count : space->axes;
}

uint32_t perf_part_size(const struct perf_space *space, uint32_t part)
{
    const struct perf_axis *axes = axes_of(space, part);
    uint32_t size = 1;
    for (uint32_t i = 0; i < space->count; i++)
        size *= axes[i].count;
    return size;
}

uint32_t perf_space_size(const struct perf_space *space)
{
    uint32_t size = 0;
    for (uint32_t part = 0; part < perf_space_parts(space); part++)
        size += perf_part_size(space, part);
    return size;
}

void perf_space_at(const struct perf_space *space, uint32_t index, struct perf_config *ret_config)
{
    uint32_t part = 0, size;
    for (; index >= (size = perf_part_size(space, part)); part++)
        index -= size;
    const struct perf_axis *axes = axes_of(space, part);
    *ret_config = (struct perf_config){ .count = space->count };
    for (uint32_t i = space->count; i-- > 0; index /= axes[i].count)
        ret_config->values[i] = axes[i].values[index % axes[i].count];
}
