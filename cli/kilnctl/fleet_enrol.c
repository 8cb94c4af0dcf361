/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/command.h"
#include "cli/kilnctl/fleet_key_file.h"
#include "cli/kilnctl/sign.h"
#include "cli/kilnctl/trace_tree.h"
#include "cli/output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAME_SIZE 65
#define KEY_DIRECTORY "/etc/kiln"

struct enrol_options {
    const char *targets, *name, *directory;
    bool index;
};

#define AT(field) offsetof(struct enrol_options, field)
static const struct option options[] = {
    { "targets", 0, OPTION_TEXT, AT(targets), "TARGETS",
      "the targets that the host signs kernels for, such as 'gfx90a sm_90'; '*': all", 0, 0 },
    { "index", 0, OPTION_FLAG, AT(index), NULL, "the host also runs 'fleet compact'", 0, 0 },
    { "name", 0, OPTION_TEXT, AT(name), "NAME", "the name of the key (the host's name)", 0, 0 },
    { "directory", 0, OPTION_TEXT, AT(directory), "DIR", "the directory for the keys (/etc/kiln)",
      0, 0 },
};
#undef AT

static int name_host(char name[NAME_SIZE], struct kiln_error *err)
{
    if (gethostname(name, NAME_SIZE) != 0 || strnlen(name, NAME_SIZE) == NAME_SIZE)
        return cli_fail(err, KILN_E_INVALID, "the host's name cannot be read: use --name");
    name[strcspn(name, ".")] = '\0';
    return KILN_E_OK;
}

/* Makes the key pair NAME.key and NAME.pub, unless NAME.key exists. */
static int make_key(const char *directory, const char *name, struct kiln_error *err)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/%s.key", directory, name) >= PATH_MAX)
        return cli_fail(err, KILN_E_INVALID, "the directory's path is too long");
    if (access(path, F_OK) == 0)
        return KILN_E_OK;
    return errno == ENOENT
               ? sign_make_key(directory, name, err)
               : cli_fail(err, KILN_E_IO, "cannot examine '%s': %s", path, strerror(errno));
}

static int write_rights(const char *directory, const char *name, const struct fleet_rights *rights,
                        struct json **ret_key, struct kiln_error *err)
{
    char path[PATH_MAX];
    KILN_AUTO(json) struct json *key = NULL;
    if (snprintf(path, sizeof(path), "%s/%s.pub", directory, name) >= PATH_MAX)
        return cli_fail(err, KILN_E_INVALID, "the directory's path is too long");
    int rc = fleet_key_read(path, &key, err);
    if (rc)
        return rc;
    *ret_key = fleet_key_with_rights(key, rights);
    return fleet_key_write(directory, *ret_key, path, err);
}

static void print_steps(const struct enrol_options *o, const char *directory, const char *name)
{
    char line[PATH_MAX + 160];
    snprintf(line, sizeof(line), "%s/%s.key", directory, name);
    output_clean(line, false);
    printf("%s\n    the secret key: keep it private\n", line);
    if (o->targets && strcmp(o->targets, TRACE_TARGET) == 0)
        printf("    traces: use 'kilnctl trace push --key'\n");
    else if (o->targets)
        printf("    kernels: use 'kilnctl fleet push --key', or set fleet_builder to this file;\n"
               "    only kilnd's user may then be able to read it (chown)\n");
    if (o->index)
        printf("    index: use 'kilnctl fleet compact --key'\n");
    snprintf(line, sizeof(line), "%s/%s.pub", directory, name);
    output_clean(line, false);
    printf("%s\n    the public key: copy this file into fleet_keys (%s) of all\n"
           "    hosts of the fleet, also of this one\n",
           line, FLEET_KEYS_DIRECTORY);
}

static int run_fleet_enrol(const struct invocation *invocation, struct kiln_error *err)
{
    const struct enrol_options *o = invocation->options;
    const char *directory = o->directory ? o->directory : KEY_DIRECTORY;
    char host[NAME_SIZE] = "", path[PATH_MAX];
    KILN_AUTO(json) struct json *key = NULL;
    if (!o->targets && !o->index)
        return cli_fail(err, KILN_E_INVALID,
                        "fleet enrol needs --targets, --index or both: what this host signs");
    int rc = o->name ? KILN_E_OK : name_host(host, err);
    const char *name = o->name ? o->name : host;
    if (!rc)
        rc = make_key(directory, name, err);
    if (!rc)
        rc = write_rights(directory, name, &(struct fleet_rights){ o->targets, o->index }, &key,
                          err);
    if (rc)
        return fleet_key_advise(err);
    if (!invocation->common->json) {
        print_steps(o, directory, name);
        return KILN_E_OK;
    }
    snprintf(path, sizeof(path), "%.3900s/%.100s.key", directory, name);
    json_set_text(key, "secret", path);
    snprintf(path, sizeof(path), "%.3900s/%.100s.pub", directory, name);
    json_set_text(key, "public", path);
    return output_json(key, err);
}

const struct command command_fleet_enrol = {
    .name = "fleet enrol",
    .words = "",
    .summary = "make this host's key for the fleet",
    .help =
        "Makes a key pair with the host's name, unless there is one, and writes what the key may\n"
        "sign into the public key's file.  Copy that file into the directory of the setting\n"
        "fleet_keys on all hosts of the fleet; the file needs no further change.  Needs no kilnd.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct enrol_options),
    .run = run_fleet_enrol,
};
