/* SPDX-License-Identifier: MIT */
#include "daemon/config/config_value.h"

#include "common/base/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *const forms[] = {
    [SETTING_SIZE] = UNITS_SIZE_FORM,
    [SETTING_DURATION] = UNITS_TIME_FORM,
    [SETTING_COUNT] = "a whole number",
};

static bool is_number(const struct setting *s)
{
    return s->type == SETTING_SIZE || s->type == SETTING_DURATION || s->type == SETTING_COUNT;
}

static bool parse_number(const struct setting *s, const char *text, uint64_t *ret_number)
{
    switch (s->type) {
    case SETTING_SIZE: return units_parse_size(text, ret_number);
    case SETTING_DURATION: return units_parse_time(text, ret_number);
    default: return units_parse_number(text, UINT64_MAX, ret_number);
    }
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
    return !parse_number(s, least, &low) || !parse_number(s, dots + 2, &high) ||
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

static bool is_tree_url(const char *text)
{
    static const char *const starts[] = { "https://", "http://", "file:///" };
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
        if (strncasecmp(text, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

static enum kiln_code parse_text(const struct setting *s, const char *text,
                                 struct setting_value *ret_value, struct kiln_err *err)
{
    if (s->type == SETTING_PATH && !*text)
        return kiln_fail(err, KILN_INVALID, "a path must not be empty");
    if (s->type == SETTING_TREE && *text && !is_tree_url(text))
        return kiln_fail(err, KILN_INVALID,
                         "'%.200s' does not begin with https://, http:// or file:///", text);
    struct setting_value value = { 0 };
    size_t size = strlen(text);
    if (size >= sizeof(value.text))
        return kiln_fail(err, KILN_INVALID, "the text has %zu bytes; at most %zu are allowed", size,
                         sizeof(value.text) - 1);
    memcpy(value.text, text, size);
    *ret_value = value;
    return KILN_OK;
}

enum kiln_code setting_parse(const struct setting *s, const char *text,
                             struct setting_value *ret_value, struct kiln_err *err)
{
    if (s->type == SETTING_CHOICE)
        return parse_choice(s, text, ret_value, err);
    if (s->type == SETTING_PATH || s->type == SETTING_TEXT || s->type == SETTING_TREE)
        return parse_text(s, text, ret_value, err);
    uint64_t number;
    if (!parse_number(s, text, &number))
        return kiln_fail(err, KILN_INVALID, "'%s' is not %s", text, forms[s->type]);
    return take_number(s, text, number, ret_value, err);
}

static enum kiln_code number_from_json(const struct setting *s, double number,
                                       struct setting_value *ret_value, struct kiln_err *err)
{
    char text[64];
    snprintf(text, sizeof(text), "%.17g", number);
    double scaled = s->type == SETTING_DURATION ? number * 1000 : number;
    if (!(scaled >= 0) || scaled > 9e15 || floor(scaled) != scaled)
        return kiln_fail(err, KILN_INVALID, "%s is not %s", text, forms[s->type]);
    return take_number(s, text, (uint64_t)scaled, ret_value, err);
}

enum kiln_code setting_from_json(const struct setting *s, const struct json *json,
                                 struct setting_value *ret_value, struct kiln_err *err)
{
    if (json_is_text(json))
        return setting_parse(s, json_as_text(json, ""), ret_value, err);
    if (is_number(s) && json_is_number(json))
        return number_from_json(s, json_as_number(json, -1), ret_value, err);
    return kiln_fail(err, KILN_INVALID, "the value must be %s",
                     is_number(s) ? forms[s->type] : "a text");
}

void setting_print(const struct setting *s, const struct setting_value *value, char *text,
                   size_t size)
{
    char number[UNITS_TEXT_MAX];
    if (s->type == SETTING_SIZE)
        snprintf(text, size, "%s", units_exact_size(value->number, number));
    else if (s->type == SETTING_DURATION)
        snprintf(text, size, "%s", units_exact_time(value->number, number));
    else if (s->type == SETTING_COUNT)
        snprintf(text, size, "%llu", (unsigned long long)value->number);
    else
        snprintf(text, size, "%s", value->text);
}
