/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/new_file.h"
#include "cli/kilnctl/several.h"
#include "cli/kilnctl/sign.h"
#include "cli/kilnctl/snapshot.h"
#include "cli/output.h"

/* JSON numbers above this are not exact. */
#define VERSION_MAX ((uint64_t)1 << 53)

struct sign_options {
    const char *key;
    struct option_number version;
};

static const struct option options[] = {
    { "key", 0, OPTION_TEXT, offsetof(struct sign_options, key), "FILE",
      "the secret key, made by 'pkg keygen' (required)", 0, 0 },
    { "package-version", 0, OPTION_NUMBER, offsetof(struct sign_options, version), "N",
      "a number that grows with each release (none: the time of signing counts)", 1, VERSION_MAX },
};

static int sign_package(const struct sign_options *o, const char *path, struct kiln_error *err)
{
    KILN_AUTO(fd) int fd = -1;
    KILN_AUTO(mem) char *manifest = NULL;
    if (snapshot_has_log(path))
        return cli_fail(
            err, KILN_E_INVALID,
            "'%s' is in use: there is a log next to it, which would not be signed.  End "
            "the programs that use it",
            path);
    int rc = snapshot_open_plain(path, &fd, err);
    if (!rc)
        rc = sign_manifest(o->key, &(struct sign_file){ fd, new_file_name(path), o->version.value },
                           &manifest, err);
    return rc ? rc : sign_write_manifest(path, manifest, err);
}

static void note_signed(const struct invocation *invocation, const char *path, struct json *list)
{
    char line[1024];
    snprintf(line, sizeof(line), "%.900s" SIGN_SUFFIX, path);
    json_append(list, json_text(line));
    if (invocation->common->json)
        return;
    output_clean(line, false);
    printf("wrote '%s'\n", line);
}

static int run_pkg_sign(const struct invocation *invocation, struct kiln_error *err)
{
    const struct sign_options *o = invocation->options;
    int rc = o->key
                 ? sign_check_key(o->key, err)
                 : cli_fail(err, KILN_E_INVALID,
                            "pkg sign needs --key, a secret key; 'kilnctl pkg keygen' creates one");
    if (rc)
        return rc;
    SEVERAL_AUTO struct several packages;
    KILN_AUTO(json) struct json *json = json_object();
    struct json *manifests = json_set_array(json, "manifests");
    several_init(&packages, invocation, "package");
    for (size_t i = 0; i < invocation->word_count; i++) {
        struct kiln_error why = { 0 };
        rc = sign_package(o, invocation->words[i], &why);
        several_note(&packages, invocation->words[i], rc, &why);
        if (!rc)
            note_signed(invocation, invocation->words[i], manifests);
    }
    return several_end(&packages, json, err);
}

const struct command command_pkg_sign = {
    .name = "pkg sign",
    .words = "PACKAGE...",
    .summary = "sign packages, so that others can trust them",
    .help = "Writes PACKAGE" SIGN_SUFFIX
            " next to each package: its name, size and SHA-256, of a .bz2\n"
            "file also those of its content, and the time, signed with your secret key.\n"
            "'pkg install' fetches and checks it.  Needs no kilnd."
            "\n\n"
            "'pkg install' replaces a signed package only by one of a higher version; of equal\n"
            "versions, by one that was signed later.",
    .least_words = 1,
    .most_words = SIZE_MAX,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct sign_options),
    .run = run_pkg_sign,
};
