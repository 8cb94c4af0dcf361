/* SPDX-License-Identifier: MIT */

/*
 * Prints the programs' tables of options, commands and settings as one JSON object.  The build
 * generates the manual pages and completions from this object.  This program is not installed.
 */
#include "cli/driver/options.h"
#include "cli/exit_status.h"
#include "cli/kilnctl/command.h"

#include <kiln/problem.h>

#include <stdlib.h>

static const char *const kinds[] = {
    [OPTION_FLAG] = "flag",     [OPTION_TEXT] = "text", [OPTION_VERBATIM] = "text",
    [OPTION_NUMBER] = "number", [OPTION_SIZE] = "size", [OPTION_TIME] = "time",
    [OPTION_LIST] = "list",
};

static struct json *options_json(const struct option *options, size_t count)
{
    struct json *all = json_array();
    for (size_t i = 0; i < count; i++) {
        const struct option *o = &options[i];
        struct json *one = json_object();
        json_set_text(one, "name", o->name);
        json_set_text(one, "letter", o->letter ? (const char[]){ o->letter, '\0' } : "");
        json_set_text(one, "kind", kinds[o->kind]);
        json_set_text(one, "value", o->value ? o->value : "");
        json_set_text(one, "help", o->help);
        json_append(all, one);
    }
    return all;
}

static struct json *command_json(const struct command *command)
{
    struct json *json = json_object();
    json_set_text(json, "name", command->name);
    json_set_text(json, "words", command->words);
    json_set_text(json, "summary", command->summary);
    json_set_text(json, "help", command->help);
    json_set_bool(json, "many", command->most_words > 1);
    json_set(json, "options", options_json(command->options, command->option_count));
    return json;
}

static struct json *kilnctl_json(void)
{
    struct json *json = json_object(), *commands = json_array();
    const struct command *command = NULL;
    for (size_t i = 0; (command = command_at(i)); i++)
        json_append(commands, command_json(command));
    json_set(json, "commands", commands);
    return json;
}

static struct json *driver_json(void)
{
    struct option_table own = driver_option_table();
    struct json *json = json_object(), *flags = json_array();
    const char *name = NULL, *help = NULL;
    char letter = 0;
    for (unsigned i = 0; (help = kiln_driver_flag(i, &letter, &name)); i++) {
        struct json *flag = json_object();
        json_set_text(flag, "name", name);
        json_set_text(flag, "letter", letter ? (const char[]){ letter, '\0' } : "");
        json_set_text(flag, "help", help);
        json_append(flags, flag);
    }
    json_set(json, "options", options_json(own.options, own.count));
    json_set(json, "flags", flags);
    return json;
}

static struct json *settings_json(void)
{
    static const struct {
        const char *key, *type, *applies, *standard, *rule, *help;
    } settings[] = {
#define SETTING(key, type, applies, standard, rule, help) \
    { #key, #type, #applies, standard, rule, help },
#include "daemon/config/config.def"
#undef SETTING
    };
    struct json *all = json_array();
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        struct json *one = json_object();
        json_set_text(one, "key", settings[i].key);
        json_set_text(one, "type", settings[i].type);
        json_set_text(one, "applies", settings[i].applies);
        json_set_text(one, "default", settings[i].standard);
        json_set_text(one, "rule", settings[i].rule);
        json_set_text(one, "help", settings[i].help);
        json_append(all, one);
    }
    return all;
}

int main(void)
{
    KILN_AUTO(json) struct json *all = json_object();
    json_set_text(all, "version", KILN_VERSION);
    json_set_text(all, "exit_status", exit_status_help());
    json_set(all, "options", options_json(session_option_table, SESSION_OPTION_COUNT));
    json_set(all, "kilnctl", kilnctl_json());
    json_set(all, "kiln-driver", driver_json());
    json_set(all, "settings", settings_json());
    KILN_AUTO(mem) char *text = json_print(all, true);
    if (!text || puts(text) == EOF || fflush(stdout) == EOF) {
        fputs("manual_tables: cannot print the tables\n", stderr);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
