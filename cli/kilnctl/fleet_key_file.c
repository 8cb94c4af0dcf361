/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/fleet_key_file.h"

#include "cli/kilnctl/new_file.h"
#include "common/base/fs.h"
#include "common/base/hex.h"
#include "common/base/json.h"

#include <stdio.h>
#include <string.h>

#define KEY_MAX 4096
#define PUBLIC_FORMAT "kiln-public-key-1"

/* kiln_code and the KILN_E_ codes have the same numbers (common/base/err_codes.def). */
static int fail_as(struct kiln_error *err, const struct kiln_err *why)
{
    return cli_fail(err, why->code, "%s", why->text);
}

int fleet_key_read(const char *path, struct json **ret_key, struct kiln_error *err)
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

/* Copies the key without its rights. Then adds |rights| as the members "targets" and "index". */
struct json *fleet_key_with_rights(const struct json *key, const struct fleet_rights *rights)
{
    static const char *const members[] = { "format", "name", "key_id", "key" };
    struct json *trusted = json_object();
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        json_set_text(trusted, members[i], json_get_text(key, members[i], ""));
    if (rights->targets)
        json_set_text(trusted, "targets", rights->targets);
    if (rights->index)
        json_set_bool(trusted, "index", true);
    return trusted;
}

bool fleet_key_id(const struct json *key, uint8_t ret_id[FLEET_KEY_ID_SIZE])
{
    return hex_read(json_get_text(key, "key_id", ""), ret_id, FLEET_KEY_ID_SIZE);
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

int fleet_key_advise(struct kiln_error *err)
{
    size_t used = strlen(err->text);
    if (err->code == KILN_E_DENIED)
        snprintf(err->text + used, sizeof(err->text) - used,
                 ": run the command as root, or name another directory with --directory");
    return err->code;
}

/* Fails if the file |path| has another key, because replacing that key would revoke it. A file
 * without a valid key may be replaced. */
static int check_replaced(const char *path, const struct json *key, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *old = NULL;
    struct kiln_error ignored = { 0 };
    if (fleet_key_read(path, &old, &ignored) ||
        strcmp(json_get_text(old, "key", ""), json_get_text(key, "key", "")) == 0)
        return KILN_E_OK;
    return cli_fail(err, KILN_E_INVALID,
                    "'%s' has another key: make a key with another name (kilnctl fleet enrol "
                    "--name), or remove that file to revoke its key",
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

int fleet_key_write(const char *directory, const struct json *key, char ret_path[PATH_MAX],
                    struct kiln_error *err)
{
    int rc = find_path(directory, key, ret_path, err);
    if (!rc)
        rc = check_replaced(ret_path, key, err);
    return rc ? rc : write_key(directory, key, ret_path, err);
}
