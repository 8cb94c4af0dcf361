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
    SETTING_TREE, /* the URL of a fleet's tree, or "" */
    SETTING_SIZE,
    SETTING_DURATION,
    SETTING_COUNT,
    SETTING_CHOICE
};

enum setting_applies { SETTING_NOW, SETTING_RESTART };

struct setting {
    const char *key;
    enum setting_type type;
    enum setting_applies applies;
    const char *standard;
    const char *rule;
    const char *help;
};

struct setting_value {
    /* SIZE: bytes.  DURATION: milliseconds.  COUNT: the number.  CHOICE: the word's index. */
    uint64_t number;
    char text[PATH_TEXT_MAX]; /* for PATH, TEXT, TREE and CHOICE */
};

/* On failure, the message describes a valid value; the caller adds where the value came from. */
KILN_MUST_CHECK enum kiln_code setting_parse(const struct setting *setting, const char *text,
                                             struct setting_value *ret_value, struct kiln_err *err);
/* Reads a JSON text like setting_parse, or a JSON number: of bytes for SIZE, of seconds for
 * DURATION. */
KILN_MUST_CHECK enum kiln_code setting_from_json(const struct setting *setting,
                                                 const struct json *json,
                                                 struct setting_value *ret_value,
                                                 struct kiln_err *err);
void setting_print(const struct setting *setting, const struct setting_value *value, char *text,
                   size_t size);
