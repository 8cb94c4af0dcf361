/* SPDX-License-Identifier: MIT */
#include "engine/solver/options.h"

#include <stdio.h>

static void define(struct option_text *text, const char *name, const char *axis, uint32_t value)
{
    int length = snprintf(text->data + text->used, text->size - text->used, "%s-DKILN_%s%s=%u",
                          text->used ? " " : "", name, axis, (unsigned)value);
    text->used += (size_t)length;
    if (text->used >= text->size)
        text->used = text->size - 1;
}

void option_define(struct option_text *text, const char *name, uint32_t value)
{
    define(text, name, "", value);
}

void option_define_extent(struct option_text *text, const char *name, struct extent value)
{
    define(text, name, "_D", value.d);
    define(text, name, "_H", value.h);
    define(text, name, "_W", value.w);
}

void option_define_problem(struct option_text *text, const struct problem *p)
{
    option_define(text, "DIRECTION", p->direction);
    option_define(text, "TYPE", p->type);
    option_define(text, "C", p->c);
    option_define(text, "K", p->k);
    option_define(text, "GROUPS", p->groups);
    option_define_extent(text, "IN", p->in);
    option_define_extent(text, "OUT", problem_output(p));
    option_define_extent(text, "FILTER", p->filter);
    option_define_extent(text, "PAD", p->pad);
    option_define_extent(text, "STRIDE", p->stride);
    option_define_extent(text, "DILATION", p->dilation);
    option_define(text, "X_LAST", p->x_layout == LAYOUT_CHANNELS_LAST);
    option_define(text, "W_LAST", p->w_layout == LAYOUT_CHANNELS_LAST);
    option_define(text, "Y_LAST", p->y_layout == LAYOUT_CHANNELS_LAST);
}
