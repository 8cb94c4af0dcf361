/* SPDX-License-Identifier: MIT */
#include "daemon/config/config.h"

#include "common/base/fs.h"
#include "common/base/url_text.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME "kilnd.json"
#define VARIABLE_PREFIX "KILND_"
#define FILE_MAX (1u << 20)

const struct setting config_table[CONFIG_KEYS] = {
#define SETTING(key_, type_, applies_, standard_, rule_, help_) \
    [CONFIG_##key_] = { .key = #key_,                           \
                        .type = SETTING_##type_,                \
                        .applies = SETTING_##applies_,          \
                        .standard = (standard_),                \
                        .rule = (rule_),                        \
                        .help = (help_) },
#include "daemon/config/config.def"
#undef SETTING
};

void config_flag_name(const char *key, char name[64])
{
    snprintf(name, 64, "--%s", key);
    for (char *at = name; *at; at++)
        *at = *at == '_' ? '-' : *at;
}

void config_variable_name(const char *key, char name[64])
{
    snprintf(name, 64, VARIABLE_PREFIX "%s", key);
    for (char *at = name; *at; at++)
        *at = (char)toupper((unsigned char)*at);
}

uint64_t config_number(const struct config *config, enum config_key key)
{
    return config->entries[key].value.number;
}

const char *config_text(const struct config *config, enum config_key key)
{
    return config->entries[key].value.text;
}

static int find_key(const char *key)
{
    for (int i = 0; i < CONFIG_KEYS; i++) {
        if (strcmp(config_table[i].key, key) == 0)
            return i;
    }
    return -1;
}

static void set_origin(struct config_entry *entry, const char *kind, const char *name)
{
    snprintf(entry->origin, sizeof(entry->origin), "%s%s%s", kind, *kind ? " " : "", name);
}

static enum kiln_code take_member(struct config *config, const char *path,
                                  const struct json *member, bool seen[CONFIG_KEYS],
                                  struct kiln_err *err)
{
    int key = find_key(json_name(member));
    if (key < 0)
        return kiln_fail(err, KILN_INVALID, "'%s': unknown key '%s'", path, json_name(member));
    if (seen[key])
        return kiln_fail(err, KILN_INVALID, "'%s': key '%s' occurs twice: keep one", path,
                         json_name(member));
    seen[key] = true;
    enum kiln_code rc =
        setting_from_json(&config_table[key], member, &config->entries[key].value, err);
    if (rc)
        return kiln_while(err, "'%s': key '%s'", path, json_name(member));
    set_origin(&config->entries[key], "", path);
    return KILN_OK;
}

static enum kiln_code take_file(struct config *config, const char *path, struct kiln_err *err)
{
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, FILE_MAX);
    enum kiln_code rc = fs_read_file(path, FILE_MAX, &text, err);
    if (rc)
        return rc;
    KILN_AUTO(json) struct json *json = NULL;
    rc = json_parse(buffer_view(&text), path, &json, err);
    if (rc)
        return rc;
    if (!json_is_object(json))
        return kiln_fail(err, KILN_INVALID, "'%s': not a JSON object of settings", path);
    bool seen[CONFIG_KEYS] = { false };
    for (const struct json *m = json_first(json); m && !rc; m = json_next(m))
        rc = take_member(config, path, m, seen, err);
    return rc;
}

static enum kiln_code take_file_if_there(struct config *config, const char *path,
                                         struct kiln_err *err)
{
    if (access(path, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR))
        return KILN_OK;
    return take_file(config, path, err);
}

static int is_json_name(const struct dirent *entry)
{
    size_t size = strlen(entry->d_name);
    return entry->d_name[0] != '.' && size > 5 && strcmp(entry->d_name + size - 5, ".json") == 0;
}

static enum kiln_code take_drop_ins(struct config *config, const char *directory,
                                    struct kiln_err *err)
{
    char path[PATH_TEXT_MAX + 300];
    snprintf(path, sizeof(path), "%s/" FILE_NAME ".d", directory);
    struct dirent **names;
    int count = scandir(path, &names, is_json_name, alphasort);
    if (count < 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? KILN_OK
                   : kiln_fail_errno(err, errno, "cannot list '%s'", path);
    enum kiln_code rc = KILN_OK;
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof(path), "%s/" FILE_NAME ".d/%s", directory, names[i]->d_name);
        if (!rc)
            rc = take_file(config, path, err);
        free(names[i]);
    }
    free(names);
    return rc;
}

static enum kiln_code take_files(struct config *config, const char *instead, struct kiln_err *err)
{
    if (instead)
        return take_file(config, instead, err);
    char directory[PATH_TEXT_MAX];
    char path[PATH_TEXT_MAX + sizeof(FILE_NAME) + 1];
    struct kiln_err none = KILN_ERR_INIT;
    if (paths_config_directory(directory, &none) != KILN_OK)
        return KILN_OK;
    snprintf(path, sizeof(path), "%s/" FILE_NAME, directory);
    enum kiln_code rc = take_file_if_there(config, path, err);
    return rc ? rc : take_drop_ins(config, directory, err);
}

static enum kiln_code take_variable(struct config *config, const char *name, const char *value,
                                    struct kiln_err *err)
{
    char known[64];
    for (int i = 0; i < CONFIG_KEYS; i++) {
        config_variable_name(config_table[i].key, known);
        if (strcmp(known, name) != 0)
            continue;
        enum kiln_code rc = setting_parse(&config_table[i], value, &config->entries[i].value, err);
        if (rc)
            return kiln_while(err, "variable %s", name);
        set_origin(&config->entries[i], "variable", name);
        return KILN_OK;
    }
    return kiln_fail(err, KILN_INVALID, "unknown variable %s: see kilnd --help", name);
}

static enum kiln_code take_variables(struct config *config, const char *const *environment,
                                     const char **ret_file, struct kiln_err *err)
{
    for (; *environment; environment++) {
        const char *equals = strchr(*environment, '=');
        char name[64];
        if (strncmp(*environment, VARIABLE_PREFIX, sizeof(VARIABLE_PREFIX) - 1) != 0 || !equals)
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)(equals - *environment), *environment);
        if (strcmp(name, VARIABLE_PREFIX "CONFIG") == 0) {
            *ret_file = equals + 1;
            continue;
        }
        enum kiln_code rc = take_variable(config, name, equals + 1, err);
        if (rc)
            return rc;
    }
    return KILN_OK;
}

struct flag {
    char name[64];
    const char *value;
};

static struct flag split_argument(const char *argument)
{
    const char *equals = strchr(argument, '=');
    size_t size = equals ? (size_t)(equals - argument) : strlen(argument);
    struct flag flag = { .value = equals ? equals + 1 : NULL };
    snprintf(flag.name, sizeof(flag.name), "%.*s", (int)(size < 64 ? size : 63), argument);
    return flag;
}

static bool take_request(struct config *config, const struct flag *flag)
{
    static const struct {
        const char *name;
        enum config_request request;
    } requests[] = {
        { "--help", CONFIG_HELP },
        { "-h", CONFIG_HELP },
        { "--version", CONFIG_VERSION },
        { "--check-config", CONFIG_CHECK },
    };
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        if (!flag->value && strcmp(requests[i].name, flag->name) == 0) {
            config->request = requests[i].request;
            return true;
        }
    }
    bool is_private = !flag->value && strcmp(flag->name, "--private") == 0;
    config->is_private |= is_private;
    return is_private;
}

static enum kiln_code take_flag(struct config *config, const struct flag *flag,
                                const char **ret_file, struct kiln_err *err)
{
    char known[64];
    if (strcmp(flag->name, "--config") == 0) {
        *ret_file = flag->value;
        return KILN_OK;
    }
    for (int i = 0; i < CONFIG_KEYS; i++) {
        config_flag_name(config_table[i].key, known);
        if (strcmp(known, flag->name) != 0)
            continue;
        enum kiln_code rc =
            setting_parse(&config_table[i], flag->value, &config->entries[i].value, err);
        if (rc)
            return kiln_while(err, "flag %s", flag->name);
        set_origin(&config->entries[i], "flag", flag->name);
        return KILN_OK;
    }
    return kiln_fail(err, KILN_INVALID, "unknown flag '%s': see kilnd --help", flag->name);
}

static bool is_known(const char *name)
{
    char known[64];
    bool found = strcmp(name, "--config") == 0;
    for (int i = 0; i < CONFIG_KEYS && !found; i++) {
        config_flag_name(config_table[i].key, known);
        found = strcmp(known, name) == 0;
    }
    return found;
}

static enum kiln_code take_flags(struct config *config, int argc, const char *const *argv,
                                 const char **ret_file, struct kiln_err *err)
{
    for (int i = 0; i < argc; i++) {
        struct flag flag = split_argument(argv[i]);
        if (take_request(config, &flag))
            continue;
        if (!flag.value && is_known(flag.name)) {
            if (++i == argc)
                return kiln_fail(err, KILN_INVALID, "flag '%s' needs a value", flag.name);
            flag.value = argv[i];
        }
        enum kiln_code rc = take_flag(config, &flag, ret_file, err);
        if (rc)
            return rc;
    }
    return KILN_OK;
}

static enum kiln_code take_standards(struct config *config, struct kiln_err *err)
{
    for (int i = 0; i < CONFIG_KEYS; i++) {
        const struct setting *setting = &config_table[i];
        set_origin(&config->entries[i], "", "default");
        if (!*setting->standard)
            continue;
        enum kiln_code rc =
            setting_parse(setting, setting->standard, &config->entries[i].value, err);
        if (rc)
            return kiln_while(err, "default of '%s'", setting->key);
    }
    return KILN_OK;
}

bool config_is_default(const struct config *config, enum config_key key)
{
    return strcmp(config->entries[key].origin, "default") == 0;
}

/* Reads the variables and the flags twice: first to find --config, which names the configuration
 * file, and again after that file, because variables and flags override the file's settings. */
enum kiln_code config_load(int argc, const char *const *argv, const char *const *environment,
                           struct config *ret_config, struct kiln_err *err)
{
    KILN_AUTO(mem) struct config *c = calloc(1, sizeof(*c));
    if (!c)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the configuration");
    const char *file = NULL;
    enum kiln_code rc = take_flags(c, argc - 1, argv + 1, &file, err);
    if (!rc && !file)
        rc = take_variables(c, environment, &file, err);
    if (!rc && (c->request == CONFIG_HELP || c->request == CONFIG_VERSION)) {
        *ret_config = *c;
        return KILN_OK;
    }
    if (!rc)
        rc = take_standards(c, err);
    if (!rc && (file || !c->is_private))
        rc = take_files(c, file, err);
    if (!rc)
        rc = take_variables(c, environment, &file, err);
    if (!rc)
        rc = take_flags(c, argc - 1, argv + 1, &file, err);
    if (!rc && c->is_private)
        rc = config_make_private(c, err);
    if (!rc)
        rc = config_fill_defaults(c, err);
    if (!rc)
        *ret_config = *c;
    return rc;
}

struct json *config_describe(const struct config_entry *entry, enum config_key key)
{
    char text[PATH_TEXT_MAX], shown[PATH_TEXT_MAX];
    struct json *one = json_object();
    setting_print(&config_table[key], &entry->value, text, sizeof(text));
    url_without_secrets(text, shown, sizeof(shown));
    json_set_text(one, "value", shown);
    json_set_text(one, "origin", entry->origin);
    return one;
}
