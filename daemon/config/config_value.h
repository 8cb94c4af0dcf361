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
    enum setting_applies applies; /* when a changed value takes effect */
    const char *standard;         /* the default value as text */
    const char *rule;
    const char *help;
};

struct setting_value {
    /* For SIZE in bytes, for DURATION in milliseconds; for COUNT the number; for CHOICE the
     * word's index. */
    uint64_t number;
    char text[PATH_TEXT_MAX]; /* for PATH, TEXT and CHOICE */
};

/* Parses a value.  On failure, the message describes a valid value of that type; the caller adds
 * the origin. */
KILN_MUST_CHECK enum kiln_code setting_parse(const struct setting *setting, const char *text,
                                             struct setting_value *ret_value, struct kiln_err *err);
/* Reads a JSON value: a text, as for setting_parse, or a number.  A number is in bytes for SIZE and
 * in seconds for DURATION. */
KILN_MUST_CHECK enum kiln_code setting_from_json(const struct setting *setting,
                                                 const struct json *json,
                                                 struct setting_value *ret_value,
                                                 struct kiln_err *err);
/* Writes a value in the form that setting_parse reads, such as "512MiB" or "5m". */
void setting_print(const struct setting *setting, const struct setting_value *value, char *text,
                   size_t size);
