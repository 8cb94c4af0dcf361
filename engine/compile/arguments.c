/* SPDX-License-Identifier: MIT */
#include "engine/compile/arguments.h"

#include "common/base/array.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void arguments_done(struct arguments *a)
{
    for (size_t i = 0; i < a->count; i++)
        free(a->items[i]);
    free(a->items);
    *a = (struct arguments){ 0 };
}

void arguments_add(struct arguments *a, const char *fmt, ...)
{
    char *item = NULL;
    va_list args;
    va_start(args, fmt);
    if (a->failed || !ARRAY_RESERVE(a->items, a->count + 1, a->capacity, 16) ||
        vasprintf(&item, fmt, args) < 0)
        a->failed = true;
    va_end(args);
    if (a->failed)
        return;
    a->items[a->count++] = item;
    a->items[a->count] = NULL;
}

void arguments_add_options(struct arguments *a, struct bytes options,
                           void (*translate)(struct arguments *a, const char *option))
{
    KILN_AUTO(mem) char *text = bytes_to_text(options);
    if (!text) {
        a->failed = true;
        return;
    }
    char *rest = NULL;
    for (char *o = strtok_r(text, " ", &rest); o; o = strtok_r(NULL, " ", &rest)) {
        if (translate)
            translate(a, o);
        else
            arguments_add(a, "%s", o);
    }
}

bool options_name(struct bytes options, const char *start)
{
    size_t length = strlen(start);
    for (size_t at = 0; at + length <= options.size; at++) {
        if ((at == 0 || options.data[at - 1] == ' ') &&
            memcmp(options.data + at, start, length) == 0)
            return true;
    }
    return false;
}

char *arguments_join(const struct arguments *a)
{
    size_t size = 1;
    for (size_t i = 0; i < a->count; i++)
        size += strlen(a->items[i]) + 1;
    char *text = malloc(size);
    if (!text)
        return NULL;
    char *at = text;
    *at = '\0';
    for (size_t i = 0; i < a->count; i++)
        at += sprintf(at, "%s%s", i ? " " : "", a->items[i]);
    return text;
}
