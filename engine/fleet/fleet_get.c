/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_get.h"

static const struct {
    const char *label, *text;
} ends[] = {
#define FLEET_GET_END(name, label, text) [FLEET_GET_##name] = { (label), (text) },
#include "engine/fleet/fleet_get_ends.def"
#undef FLEET_GET_END
};

const char *fleet_get_end_label(enum fleet_get_end end) { return ends[end].label; }

const char *fleet_get_end_text(enum fleet_get_end end) { return ends[end].text; }
