/* SPDX-License-Identifier: MIT */
/* Tests kilnd's settings from a file, environment variables and flags. If kilnd accepts the
 * settings and prints them, it must also accept the printed text. */
#include "tests/fuzz/fuzz.h"

#include "daemon/config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 8

static void print_again(const struct config *config)
{
    struct kiln_err err = KILN_ERR_INIT;
    for (int key = 0; key < CONFIG_KEYS; key++) {
        char text[PATH_TEXT_MAX];
        struct setting_value again = { 0 };
        const struct setting *setting = &config_table[key];
        setting_print(setting, &config->entries[key].value, text, sizeof(text));
        struct json *reported = config_describe(&config->entries[key], (enum config_key)key);
        json_destroy(reported);
        if (!*text || setting->type == SETTING_PATH || setting->type == SETTING_TEXT)
            continue;
        fuzz_expect(setting_parse(setting, text, &again, &err) == KILN_OK,
                    "a setting can be read as it is printed");
        fuzz_expect(again.number == config->entries[key].value.number, "to the same number");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct config config;
    struct kiln_err err = KILN_ERR_INIT;
    struct reader r = reader_of(bytes_of(data, size));
    const char *environment[WORDS_MAX + 2] = { 0 };
    const char *argv[WORDS_MAX + 4] = { "kilnd", "--config",
                                        fuzz_file("kilnd.json", fuzz_part(&r)) };
    char *words[2 * WORDS_MAX] = { 0 };
    int argc = 3;
    unsigned variables = 0, count = 0;
    environment[variables++] = "HOME=/nonexistent";
    while (reader_left(&r) > 0 && argc < WORDS_MAX + 3 && variables < WORDS_MAX + 1) {
        bool is_variable = reader_u8(&r) & 1;
        words[count] = fuzz_text(fuzz_part(&r));
        if (is_variable)
            environment[variables++] = words[count++];
        else
            argv[argc++] = words[count++];
    }
    enum kiln_code rc = config_load(argc, argv, environment, &config, &err);
    if (!rc && (config.request == CONFIG_RUN || config.request == CONFIG_CHECK))
        print_again(&config);
    fuzz_expect(!rc || err.text[0], "a refusal is a sentence");
    for (unsigned i = 0; i < count; i++)
        free(words[i]);
    return 0;
}
