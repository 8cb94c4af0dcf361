/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/command.h"
#include "cli/kilnctl/sign.h"
#include "cli/output.h"

struct keygen_options {
    const char *directory;
};

static const struct option options[] = {
    { "directory", 0, OPTION_TEXT, offsetof(struct keygen_options, directory), "DIR",
      "the directory for the keys (the working directory)", 0, 0 },
};

static int print_json(const char *directory, const char *name, struct kiln_error *err)
{
    char path[1024];
    KILN_AUTO(json) struct json *json = json_object();
    snprintf(path, sizeof(path), "%s/%s.key", directory, name);
    json_set_text(json, "secret", path);
    snprintf(path, sizeof(path), "%s/%s.pub", directory, name);
    json_set_text(json, "public", path);
    return output_json(json, err);
}

static int run_pkg_keygen(const struct invocation *invocation, struct kiln_error *err)
{
    const struct keygen_options *o = invocation->options;
    const char *directory = o->directory ? o->directory : ".", *name = invocation->words[0];
    int rc = sign_make_key(directory, name, err);
    if (rc)
        return rc;
    if (invocation->common->json)
        return print_json(directory, name, err);
    printf(
        "%s/%s.key  the secret key: keep it private; 'kilnctl pkg sign --key' uses it\n"
        "%s/%s.pub  the public key: copy it into the directory trusted_keys (see 'kilnctl config') "
        "of every host that should trust it\n",
        directory, name, directory, name);
    return KILN_E_OK;
}

const struct command command_pkg_keygen = {
    .name = "pkg keygen",
    .words = "NAME",
    .summary = "create a key pair for signing packages",
    .help =
        "Writes NAME.key (Ed25519; only you can read it) and NAME.pub.  Needs no kilnd, and never\n"
        "replaces a key.",
    .least_words = 1,
    .most_words = 1,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct keygen_options),
    .run = run_pkg_keygen,
};
