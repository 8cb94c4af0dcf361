/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_access.h"

static const struct {
    const char *label, *text;
} ends[] = {
#define FLEET_END(name, label, text) [FLEET_END_##name] = { (label), (text) },
#include "engine/fleet/fleet_ends.def"
#undef FLEET_END
};

const char *fleet_end_label(enum fleet_end end) { return ends[end].label; }

const char *fleet_end_text(enum fleet_end end) { return ends[end].text; }
