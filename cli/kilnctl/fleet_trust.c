/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/command.h"
#include "cli/kilnctl/fleet_key_file.h"
#include "cli/output.h"

#include <stdio.h>

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

static int fail_as(struct kiln_error *err, const struct kiln_err *why)
{
    return cli_fail(err, why->code, "%s", why->text);
}

/* Fails if the key is revoked, so that it does not become trusted by accident, for example through
 * a script that runs again. */
static int check_revoked(const char *directory, const struct json *key, struct kiln_error *err)
{
    char name[FLEET_REVOKED_NAME_MAX];
    uint8_t id[FLEET_KEY_ID_SIZE];
    if (!fleet_key_id(key, id) || !fleet_key_is_revoked(directory, id))
        return KILN_E_OK;
    fleet_revoked_name(id, name);
    return cli_fail(err, KILN_E_DENIED,
                    "this key is revoked on this host: to trust it again, first remove '%s/%s'",
                    directory, name);
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
    const char *directory = o->directory ? o->directory : FLEET_KEYS_DIRECTORY;
    char path[PATH_MAX];
    KILN_AUTO(json) struct json *key = NULL;
    if (!o->targets && !o->index)
        return cli_fail(err, KILN_E_INVALID,
                        "fleet trust needs --targets, --index or both: what the key may sign");
    int rc = fleet_key_read(invocation->words[0], &key, err);
    if (!rc)
        rc = check_revoked(directory, key, err);
    if (rc)
        return rc;
    KILN_AUTO(json)
    struct json *trusted =
        fleet_key_with_rights(key, &(struct fleet_rights){ o->targets, o->index });
    rc = fleet_key_write(directory, trusted, path, err);
    if (rc)
        return fleet_key_advise(err);
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
            "fleet_keys.  kilnd reads the directory again within a minute.  'fleet revoke' takes\n"
            "this back.  Needs no kilnd.",
    .least_words = 1,
    .most_words = 1,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct trust_options),
    .run = run_fleet_trust,
};
