/* SPDX-License-Identifier: MIT */
#include "daemon/config/config_value.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct unit {
    const char *name;
    uint64_t factor;
};

/* The largest that divides a value comes out when printing: binary ones first. */
static const struct unit sizes[] = {
    { "TiB", 1ull << 40 },
    { "GiB", 1ull << 30 },
    { "MiB", 1ull << 20 },
    { "KiB", 1ull << 10 },
    { "TB", 1000000000000ull },
    { "GB", 1000000000ull },
    { "MB", 1000000ull },
    { "kB", 1000ull },
    { "T", 1ull << 40 },
    { "G", 1ull << 30 },
    { "M", 1ull << 20 },
    { "K", 1ull << 10 },
    { "B", 1 },
    { "", 1 },
    { NULL, 0 },
};

static const struct unit durations[] = {
    { "d", 86400000 }, { "h", 3600000 }, { "m", 60000 }, { "s", 1000 },
    { "ms", 1 },       { "", 1000 },     { NULL, 0 },
};

static const struct unit counts[] = { { "", 1 }, { NULL, 0 } };

static const struct {
    const struct unit *units;
    const char *looks_like;
} types[] = {
    [SETTING_SIZE] = { sizes, "a size such as 512MiB, 20GB or 20G" },
    [SETTING_DURATION] = { durations, "a duration such as 30s, 10m or 1h" },
    [SETTING_COUNT] = { counts, "a whole number" },
};

static const struct unit *find_unit(const struct unit *units, const char *name)
{
    while (units->name && strcmp(units->name, name) != 0)
        units++;
    return units->name ? units : NULL;
}

static bool parse_number(const struct unit *units, const char *text, uint64_t *ret_number)
{
    char *end;
    if (!isdigit((unsigned char)text[0]))
        return false;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    while (*end == ' ')
        end++;
    const struct unit *unit = find_unit(units, end);
    if (errno || !unit || __builtin_mul_overflow(number, unit->factor, ret_number))
        return false;
    return true;
}

static bool is_in_range(const struct setting *s, uint64_t number)
{
    char least[32];
    const char *dots = strstr(s->rule, "..");
    uint64_t low, high;
    if (!dots || (size_t)(dots - s->rule) >= sizeof(least))
        return true;
    memcpy(least, s->rule, (size_t)(dots - s->rule));
    least[dots - s->rule] = '\0';
    const struct unit *units = types[s->type].units;
    return !parse_number(units, least, &low) || !parse_number(units, dots + 2, &high) ||
           (number >= low && number <= high);
}

static enum kiln_code take_number(const struct setting *s, const char *text, uint64_t number,
                                  struct setting_value *ret_value, struct kiln_err *err)
{
    if (!is_in_range(s, number))
        return kiln_fail(err, KILN_INVALID, "'%s' is not within %s", text, s->rule);
    *ret_value = (struct setting_value){ .number = number };
    return KILN_OK;
}

static enum kiln_code parse_choice(const struct setting *s, const char *text,
                                   struct setting_value *ret_value, struct kiln_err *err)
{
    size_t size = strlen(text);
    uint64_t index = 0;
    for (const char *at = s->rule; size > 0; index++) {
        size_t word = strcspn(at, "|");
        if (word == size && strncmp(at, text, size) == 0) {
            *ret_value = (struct setting_value){ .number = index };
            memcpy(ret_value->text, text, size);
            return KILN_OK;
        }
        if (at[word] == '\0')
            break;
        at += word + 1;
    }
    return kiln_fail(err, KILN_INVALID, "'%s' is not one of %s", text, s->rule);
}

static enum kiln_code parse_text(const struct setting *s, const char *text,
                                 struct setting_value *ret_value, struct kiln_err *err)
{
    if (s->type == SETTING_PATH && !*text)
        return kiln_fail(err, KILN_INVALID, "a path must not be empty");
    struct setting_value value = { 0 };
    size_t size = strlen(text);
    if (size >= sizeof(value.text))
        return kiln_fail(err, KILN_INVALID, "a text of %zu bytes is too long", size);
    memcpy(value.text, text, size);
    *ret_value = value;
    return KILN_OK;
}

enum kiln_code setting_parse(const struct setting *s, const char *text,
                             struct setting_value *ret_value, struct kiln_err *err)
{
    if (s->type == SETTING_CHOICE)
        return parse_choice(s, text, ret_value, err);
    if (s->type == SETTING_PATH || s->type == SETTING_TEXT)
        return parse_text(s, text, ret_value, err);
    uint64_t number;
    if (!parse_number(types[s->type].units, text, &number))
        return kiln_fail(err, KILN_INVALID, "'%s' is not %s", text, types[s->type].looks_like);
    return take_number(s, text, number, ret_value, err);
}

static enum kiln_code number_from_json(const struct setting *s, double number,
                                       struct setting_value *ret_value, struct kiln_err *err)
{
    char text[64];
    snprintf(text, sizeof(text), "%.17g", number);
    double scaled = s->type == SETTING_DURATION ? number * 1000 : number;
    if (!(scaled >= 0) || scaled > 9e15 || floor(scaled) != scaled)
        return kiln_fail(err, KILN_INVALID, "%s is not %s", text, types[s->type].looks_like);
    return take_number(s, text, (uint64_t)scaled, ret_value, err);
}

enum kiln_code setting_from_json(const struct setting *s, const struct json *json,
                                 struct setting_value *ret_value, struct kiln_err *err)
{
    bool is_number =
        s->type == SETTING_SIZE || s->type == SETTING_DURATION || s->type == SETTING_COUNT;
    if (json_is_text(json))
        return setting_parse(s, json_as_text(json, ""), ret_value, err);
    if (is_number && json_is_number(json))
        return number_from_json(s, json_as_number(json, -1), ret_value, err);
    return kiln_fail(err, KILN_INVALID, "the value must be %s",
                     is_number ? types[s->type].looks_like : "a text");
}

static void print_number(const struct unit *units, uint64_t number, char *text, size_t size)
{
    while (units[1].name && (number == 0 || number % units->factor != 0))
        units++;
    snprintf(text, size, "%llu%s", (unsigned long long)(number / units->factor), units->name);
}

void setting_print(const struct setting *s, const struct setting_value *value, char *text,
                   size_t size)
{
    if (s->type == SETTING_DURATION && value->number == 0)
        snprintf(text, size, "0s");
    else if (s->type == SETTING_SIZE || s->type == SETTING_DURATION || s->type == SETTING_COUNT)
        print_number(types[s->type].units, value->number, text, size);
    else
        snprintf(text, size, "%s", value->text);
}
