/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Parses and prints the values of settings.
 *
 * Threading  pure functions
 */
#include "common/base/json.h"
#include "common/base/paths.h"

enum setting_type {
    SETTING_PATH,
    SETTING_TEXT,
    SETTING_SIZE,
    SETTING_DURATION,
    SETTING_COUNT,
    SETTING_CHOICE
};

enum setting_applies { SETTING_NOW, SETTING_RESTART };

struct setting { /* one row of config.def */
    const char *key;
    enum setting_type type;
    enum setting_applies applies; /* when a change counts */
    const char *standard;         /* the default, as text */
    const char *rule;
    const char *help;
};

struct setting_value {
    uint64_t number;          /* SIZE: bytes; DURATION: milliseconds; COUNT; CHOICE: which word */
    char text[PATH_TEXT_MAX]; /* PATH, TEXT, CHOICE */
};

/* The message says what a value of that type looks like; the caller adds its origin. */
KILN_MUST_CHECK enum kiln_code setting_parse(const struct setting *setting, const char *text,
                                             struct setting_value *ret_value, struct kiln_err *err);
/* Text as above, or a number: bytes, seconds, a count. */
KILN_MUST_CHECK enum kiln_code setting_from_json(const struct setting *setting,
                                                 const struct json *json,
                                                 struct setting_value *ret_value,
                                                 struct kiln_err *err);
/* As setting_parse would read it: "512MiB", "5m". */
void setting_print(const struct setting *setting, const struct setting_value *value, char *text,
                   size_t size);
