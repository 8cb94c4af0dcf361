/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/db_words.h"

#include "cli/output.h"
#include "common/base/json.h"
#include "common/base/units.h"
#include "engine/miopen/names/miopen_files.h"

#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Returns NULL for 2.19: some builds of 2.19 use the old dialect, and others the new one. */
const char *db_dialect_of(const char *version)
{
    unsigned release = version ? miopen_release(version) : 0;
    return release == 0 || release == 2019 ? NULL : release < 2019 ? "old" : "new";
}

const char *db_format_of(const char *version)
{
    unsigned release = version ? miopen_release(version) : 0;
    const struct miopen_file *text = miopen_file_find(MIOPEN_SYSTEM, "gfx90a68.db.txt");
    return release == 0 ? NULL : miopen_file_is_of(text, release) ? "text" : "sqlite";
}

bool db_word_is(const char *word, const char *choices)
{
    size_t size = strlen(word);
    for (const char *at = choices; *at; at += strspn(at, " ")) {
        size_t choice = strcspn(at, " ");
        if (choice == size && memcmp(at, word, size) == 0)
            return true;
        at += choice;
    }
    return false;
}

static void list_choices(const char *choices, char text[64])
{
    size_t used = 0;
    for (; *choices && used < 61; choices++) {
        if (*choices == ' ')
            text[used++] = ',';
        text[used++] = *choices;
    }
    text[used] = '\0';
}

int db_check_word(const char *option, const char *given, const char *choices,
                  struct kiln_error *err)
{
    char listed[64];
    if (!given || db_word_is(given, choices))
        return KILN_E_OK;
    list_choices(choices, listed);
    return cli_fail(err, KILN_E_INVALID, "'%.80s' of --%s is not one of: %s", given, option,
                    listed);
}

const char *db_user_name(const struct json *json, char text[DB_NAME_MAX])
{
    const struct json *uid = json_get(json, "uid");
    uint64_t number = json_get_u64(json, "uid", UINT32_MAX);
    const struct passwd *user = number < UINT32_MAX ? getpwuid((uid_t)number) : NULL;
    if (!uid)
        snprintf(text, DB_NAME_MAX, "-");
    else if (user)
        snprintf(text, DB_NAME_MAX, "%.60s", user->pw_name);
    else
        snprintf(text, DB_NAME_MAX, "uid %llu", (unsigned long long)number);
    return text;
}

const char *db_count(uint64_t count, const char *noun, char text[DB_NAME_MAX])
{
    char number[UNITS_TEXT_MAX];
    size_t size = strlen(noun);
    bool to_ies = count != 1 && size > 0 && noun[size - 1] == 'y';
    snprintf(text, DB_NAME_MAX, "%s %.*s%s", units_count(count, number), (int)(size - to_ies), noun,
             to_ies       ? "ies"
             : count == 1 ? ""
                          : "s");
    return text;
}

void db_say(const char *fmt, ...)
{
    char line[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    output_clean(line, false);
    puts(line);
}

void db_print_conflict(void *context, const struct json *item)
{
    (void)context;
    db_say("conflict: %.400s: %.500s", json_get_text(item, "key", "?"),
           json_get_text(item, "why", "?"));
}
