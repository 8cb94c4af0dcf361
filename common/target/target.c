/* SPDX-License-Identifier: MIT */
#include "common/target/target.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXAMPLES "gfx90a, gfx90a:sramecc+:xnack-, sm_90 or opencl:<device>"

static enum kiln_code refuse_target(struct bytes text, const char *why, struct kiln_err *err)
{
    int shown = text.size > 80 ? 80 : (int)text.size;
    return kiln_fail(err, KILN_INVALID,
                     "'%.*s' is not a target: %s; name one, for example " EXAMPLES, shown,
                     (const char *)text.data, why);
}

static bool letters_are_fine(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = text.data[i];
        if (!isalnum(c) && !(c && strchr("_.:+-", c)))
            return false;
    }
    return true;
}

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool all_alnum(const char *text)
{
    for (; *text; text++) {
        if (!isalnum((unsigned char)*text))
            return false;
    }
    return true;
}

/* Rewrites gfx90a:xnack-:sramecc+ as gfx90a:sramecc+:xnack-. */
static bool canonical_amd(char text[LIMIT_TARGET_TEXT], const char **ret_why)
{
    char arch[32], sramecc = 0, xnack = 0;
    char copy[LIMIT_TARGET_TEXT];
    snprintf(copy, sizeof(copy), "%s", text);
    char *rest = NULL;
    char *part = strtok_r(copy, ":", &rest);
    *ret_why = "an arch is 'gfx' and at least three digits or letters";
    if (!part || strlen(part) < 6 || strlen(part) >= sizeof(arch) || !all_alnum(part))
        return false;
    *ret_why = "features are sramecc+, sramecc-, xnack+ or xnack-";
    snprintf(arch, sizeof(arch), "%s", part);
    while ((part = strtok_r(NULL, ":", &rest))) {
        char *slot = starts_with(part, "sramecc") ? &sramecc : &xnack;
        size_t name = slot == &sramecc ? 7 : 5;
        if (slot == &xnack && !starts_with(part, "xnack"))
            return false;
        if (*slot || (part[name] != '+' && part[name] != '-') || part[name + 1])
            return false;
        *slot = part[name];
    }
    int at = snprintf(text, LIMIT_TARGET_TEXT, "%s", arch);
    if (sramecc)
        at += snprintf(text + at, LIMIT_TARGET_TEXT - (size_t)at, ":sramecc%c", sramecc);
    if (xnack)
        snprintf(text + at, LIMIT_TARGET_TEXT - (size_t)at, ":xnack%c", xnack);
    return true;
}

static bool is_nvidia(const char *text)
{
    const char *at = text + 3;
    size_t digits = strspn(at, "0123456789");
    at += digits;
    return digits >= 2 && digits <= 3 && (*at == '\0' || ((*at == 'a' || *at == 'f') && !at[1]));
}

enum kiln_code target_parse(struct bytes text, struct target *ret_target, struct kiln_err *err)
{
    const char *why = NULL;
    struct target t = { 0 };
    if (text.size == 0)
        return kiln_fail(err, KILN_INVALID, "no target was given: name one, for example " EXAMPLES);
    if (text.size >= sizeof(t.text))
        return refuse_target(text, "it is too long", err);
    if (!letters_are_fine(text))
        return refuse_target(text, "only letters, digits and _ . : + - are allowed", err);
    memcpy(t.text, text.data, text.size);
    if (starts_with(t.text, "gfx")) {
        t.family = TARGET_AMDGPU;
        if (!canonical_amd(t.text, &why))
            return refuse_target(text, why, err);
    } else if (starts_with(t.text, "sm_")) {
        t.family = TARGET_NVIDIA;
        if (!is_nvidia(t.text))
            return refuse_target(text, "two or three digits must follow 'sm_'", err);
    } else if (starts_with(t.text, "opencl:") && t.text[7]) {
        t.family = TARGET_OPENCL;
    } else {
        return refuse_target(text, "its beginning is unknown", err);
    }
    *ret_target = t;
    return KILN_OK;
}

static const char *const backends[] = {
    [TARGET_AMDGPU] = "HIP",
    [TARGET_NVIDIA] = "CUDA",
    [TARGET_OPENCL] = "OpenCL",
};

const char *target_backend(enum target_family family) { return backends[family]; }

bool target_is_backend(struct bytes word)
{
    for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++) {
        if (bytes_equal_text(word, backends[i]))
            return true;
    }
    return false;
}

unsigned target_capability(const struct target *t)
{
    return t->family == TARGET_NVIDIA ? (unsigned)strtoul(t->text + strlen("sm_"), NULL, 10) : 0;
}

void target_arch(const struct target *t, char *arch, size_t size)
{
    size_t most = t->family == TARGET_AMDGPU ? strcspn(t->text, ":") : strlen(t->text);
    snprintf(arch, size, "%.*s", (int)most, t->text);
}

bool target_with_xnack(const struct target *t, const char *mode, struct target *ret_target)
{
    char text[LIMIT_TARGET_TEXT + 16];
    struct kiln_err ignored = KILN_ERR_INIT;
    const char *xnack = strstr(t->text, ":xnack");
    int base = (int)(xnack ? (size_t)(xnack - t->text) : strlen(t->text));
    snprintf(text, sizeof(text), "%.*s%s%s", base, t->text, *mode ? ":xnack" : "", mode);
    return t->family == TARGET_AMDGPU && strcmp(text, t->text) != 0 &&
           !target_parse(bytes_of_text(text), ret_target, &ignored);
}
