/* SPDX-License-Identifier: MIT */
#include "engine/fleet/fleet_trust.h"

#include "cli/kilnctl/command.h"
#include "cli/kilnctl/new_file.h"
#include "cli/output.h"
#include "common/base/fs.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define KEY_MAX 4096
#define PUBLIC_FORMAT "kiln-public-key-1"

struct trust_options {
    const char *targets, *directory;
    bool index;
};

#define AT(field) offsetof(struct trust_options, field)
static const struct option options[] = {
    { "targets", 0, OPTION_TEXT, AT(targets), "TARGETS",
      "the targets that the key may sign kernels for, such as 'gfx90a sm_90'; '*': all", 0, 0 },
    { "index", 0, OPTION_FLAG, AT(index), NULL, "the key may sign indices", 0, 0 },
    { "directory", 0, OPTION_TEXT, AT(directory), "DIR",
      "the directory of the setting fleet_keys (/etc/kiln/fleet-keys.d)", 0, 0 },
};
#undef AT

/* kiln_code and the KILN_E_ codes have the same numbers (common/base/err_codes.def). */
static int fail_as(struct kiln_error *err, const struct kiln_err *why)
{
    return cli_fail(err, why->code, "%s", why->text);
}

static int read_key(const char *path, struct json **ret_key, struct kiln_error *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    BUFFER_AUTO struct buffer text;
    buffer_init(&text, KEY_MAX);
    if (fs_read_file(path, KEY_MAX, &text, &why) ||
        json_parse(buffer_view(&text), path, ret_key, &why))
        return fail_as(err, &why);
    if (strcmp(json_get_text(*ret_key, "format", ""), PUBLIC_FORMAT) == 0)
        return KILN_E_OK;
    return cli_fail(err, KILN_E_INVALID, "'%s' is not a public key: name a file NAME.pub", path);
}

/* Makes a new object, because the file may already have the member "targets" or "index". */
static struct json *with_rights(const struct json *key, const struct trust_options *o)
{
    static const char *const members[] = { "format", "name", "key_id", "key" };
    struct json *trusted = json_object();
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        json_set_text(trusted, members[i], json_get_text(key, members[i], ""));
    if (o->targets)
        json_set_text(trusted, "targets", o->targets);
    if (o->index)
        json_set_bool(trusted, "index", true);
    return trusted;
}

static int find_path(const char *directory, const struct json *key, char path[PATH_MAX],
                     struct kiln_error *err)
{
    const char *name = json_get_text(key, "name", "");
    if (name[0] && !strchr(name, '/') && name[0] != '.' &&
        snprintf(path, PATH_MAX, "%s/%s.pub", directory, name) < PATH_MAX)
        return KILN_E_OK;
    return cli_fail(err, KILN_E_INVALID, "the key's name '%.80s' cannot be that of a file", name);
}

/* Refuses to replace another key, because that would revoke it. A file without a valid key may be
 * replaced. */
static int check_replaced(const char *path, const struct json *key, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *old = NULL;
    struct kiln_error ignored = { 0 };
    if (read_key(path, &old, &ignored) ||
        strcmp(json_get_text(old, "key", ""), json_get_text(key, "key", "")) == 0)
        return KILN_E_OK;
    return cli_fail(err, KILN_E_INVALID,
                    "'%s' has another key: make a key with another name (kilnctl pkg keygen), or "
                    "remove that file to revoke its key",
                    path);
}

static int write_key(const char *directory, const struct json *key, const char *path,
                     struct kiln_error *err)
{
    struct kiln_err why = KILN_ERR_INIT;
    KILN_AUTO(mem) char *text = json_print(key, /* indent= */ true);
    if (!text)
        return cli_fail(err, KILN_E_NO_MEMORY, "out of memory for a key");
    if (fs_make_directories_mode(directory, 0755, &why))
        return fail_as(err, &why);
    const struct new_file file = {
        .path = path, .replace = true, .mode = 0644, .from = -1, .data = text, .size = strlen(text)
    };
    return new_file_write(&file, err);
}

/* Reads the directory as kilnd does, and fails if kilnd would not accept one of its files. */
static int check_directory(const char *directory, const char *path, struct kiln_error *err)
{
    KILN_AUTO(fleet_trust) struct fleet_trust *trust = NULL;
    struct kiln_err why = KILN_ERR_INIT;
    const char *first_bad = "";
    if (fleet_trust_read(directory, &trust, &why))
        return fail_as(err, &why);
    if (fleet_trust_bad(trust, &first_bad) == 0)
        return KILN_E_OK;
    return cli_fail(err, KILN_E_INVALID,
                    "wrote '%s', but '%s' in that directory is not a valid key: remove it, or "
                    "trust it again",
                    path, first_bad);
}

static int run_fleet_trust(const struct invocation *invocation, struct kiln_error *err)
{
    const struct trust_options *o = invocation->options;
    const char *directory = o->directory ? o->directory : "/etc/kiln/fleet-keys.d";
    char path[PATH_MAX];
    KILN_AUTO(json) struct json *key = NULL;
    if (!o->targets && !o->index)
        return cli_fail(err, KILN_E_INVALID,
                        "fleet trust needs --targets, --index or both: what the key may sign");
    int rc = read_key(invocation->words[0], &key, err);
    if (rc)
        return rc;
    KILN_AUTO(json) struct json *trusted = with_rights(key, o);
    rc = find_path(directory, trusted, path, err);
    if (!rc)
        rc = check_replaced(path, trusted, err);
    if (!rc)
        rc = write_key(directory, trusted, path, err);
    if (!rc)
        rc = check_directory(directory, path, err);
    if (rc)
        return rc;
    if (invocation->common->json) {
        json_set_text(trusted, "file", path);
        return output_json(trusted, err);
    }
    output_clean(path, false);
    printf("wrote '%s'\n", path);
    return KILN_E_OK;
}

const struct command command_fleet_trust = {
    .name = "fleet trust",
    .words = "KEY.pub",
    .summary = "let this host use kernels that a key signs",
    .help = "Writes the public key, with what it may sign, into the directory of the setting\n"
            "fleet_keys.  kilnd reads the directory again within a minute.  To revoke the key,\n"
            "remove the file on every host.  Needs no kilnd.",
    .least_words = 1,
    .most_words = 1,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct trust_options),
    .run = run_fleet_trust,
};
