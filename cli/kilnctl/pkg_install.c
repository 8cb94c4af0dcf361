/* SPDX-License-Identifier: MIT */
#include "cli/interrupt.h"
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/new_file.h"
#include "cli/kilnctl/pkg_records.h"
#include "cli/kilnctl/sign.h"
#include "cli/kilnctl/snapshot.h"
#include "cli/kilnctl/url.h"
#include "cli/output.h"
#include "common/base/bytes.h"
#include "common/base/units.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct install_options {
    const char *name, *sha256, *manifest;
    bool replace_signed, allow_downgrade;
};

#define AT(field) offsetof(struct install_options, field)
static const struct option options[] = {
    { "name", 0, OPTION_TEXT, AT(name), "NAME",
      "the package's name, such as gfx90a68.kdb (from PATH or URL)", 0, 0 },
    { "sha256", 0, OPTION_TEXT, AT(sha256), "HEX",
      "the SHA-256 of the file; any other file is rejected", 0, 0 },
    { "manifest", 0, OPTION_TEXT, AT(manifest), "FILE",
      "its signed manifest (PATH.manifest if it exists)", 0, 0 },
    { "replace-signed", 0, OPTION_FLAG, AT(replace_signed), NULL,
      "allow an unsigned package to replace a signed one", 0, 0 },
    { "allow-downgrade", 0, OPTION_FLAG, AT(allow_downgrade), NULL,
      "allow a signed package that is older than an installed one", 0, 0 },
};
#undef AT

struct files {
    int package, manifest;
};

static void files_done(struct files *l)
{
    fd_auto(&l->package);
    fd_auto(&l->manifest);
}

static int open_manifest(const char *path, const char *given, int *ret_fd, struct kiln_error *err)
{
    char manifest_path[PATH_MAX];
    int size = snprintf(manifest_path, sizeof(manifest_path), "%s" SIGN_SUFFIX, path);
    if (given)
        return snapshot_open_plain(given, ret_fd, err);
    if (size < 0 || (size_t)size >= sizeof(manifest_path) || access(manifest_path, F_OK) != 0)
        return KILN_E_OK;
    return snapshot_open_plain(manifest_path, ret_fd, err);
}

/* Opens the package.  If MIOpen may have the file open, opens a snapshot instead.  |as_it_is| is
 * set for a file with a manifest or a SHA-256, neither of which would match a snapshot. */
static int open_package(const struct invocation *invocation, const char *path, bool as_it_is,
                        int *ret_fd, struct kiln_error *err)
{
    struct snapshot snapshot;
    bool log = snapshot_has_log(path);
    if (log && as_it_is)
        return cli_fail(err, KILN_E_INVALID,
                        "'%s' is in use: there is a log next to it, which no manifest or SHA-256 "
                        "covers.  End the programs that use it, or install without manifest and "
                        "SHA-256",
                        path);
    if (as_it_is || !(log || text_ends_with(path, ".ukdb")))
        return snapshot_open_plain(path, ret_fd, err);
    int rc = snapshot_open(path, SNAPSHOT_CACHE, session_deadline_ns(invocation->common), &snapshot,
                           err);
    if (!rc)
        *ret_fd = snapshot.fd;
    return rc;
}

static int open_path(const struct invocation *invocation, struct json *ask, struct files *files,
                     struct kiln_error *err)
{
    const struct install_options *o = invocation->options;
    const char *path = invocation->words[0];
    int rc = open_manifest(path, o->manifest, &files->manifest, err);
    bool as_it_is = files->manifest >= 0 || o->sha256;
    if (!rc)
        rc = open_package(invocation, path, as_it_is, &files->package, err);
    if (rc)
        return rc;
    char *full = realpath(path, NULL);
    json_set_text(ask, "name", o->name ? o->name : new_file_name(path));
    json_set_text(ask, "source", full ? full : path);
    free(full);
    return KILN_E_OK;
}

static int set_url(const struct install_options *o, const char *url, struct json *ask,
                   struct kiln_error *err)
{
    if (o->manifest)
        return cli_fail(err, KILN_E_INVALID,
                        "--manifest works only with a PATH: the manifest of a URL is fetched from "
                        "URL" SIGN_SUFFIX);
    json_set_text(ask, "url", url);
    if (o->name)
        json_set_text(ask, "name", o->name);
    return KILN_E_OK;
}

static int install_package(const struct invocation *invocation, struct json **ret_reply,
                           struct kiln_error *err)
{
    const struct install_options *o = invocation->options;
    const char *word = invocation->words[0];
    KILN_AUTO(json) struct json *ask = json_object();
    __attribute__((cleanup(files_done))) struct files files = { -1, -1 };
    int rc = o->sha256 ? url_set_sha256(o->sha256, ask, err) : KILN_E_OK;
    if (!rc)
        rc = url_is(word) ? set_url(o, word, ask, err) : open_path(invocation, ask, &files, err);
    if (rc)
        return rc;
    if (o->replace_signed)
        json_set_bool(ask, "replace_signed", true);
    if (o->allow_downgrade)
        json_set_bool(ask, "allow_downgrade", true);
    struct call_progress progress;
    char label[URL_LABEL_MAX];
    call_progress_init(&progress, url_label(word, label));
    interrupt_says("kilnctl", "the same command continues the download where it stopped");
    const struct admin_call call = { .request = "package_install",
                                     .arguments = ask,
                                     .file = files.package,
                                     .second_file = files.manifest,
                                     .progress = &progress };
    return admin_call(invocation, &call, ret_reply, err);
}

static void print_package(const struct json *package)
{
    char line[1024], kernels[UNITS_TEXT_MAX], size[UNITS_TEXT_MAX];
    const char *signer = json_get_text(package, "signer", "");
    snprintf(line, sizeof(line), "installed '%.255s' for %.64s: %s, %s, %s%.64s%s",
             json_get_text(package, "name", "?"), json_get_text(package, "database_id", "?"),
             units_kernels(json_get_u64(package, "kernels", 0), kernels),
             units_size(json_get_u64(package, "size", 0), size),
             *signer ? "signed by '" : "not signed", signer, *signer ? "'" : "");
    output_clean(line, false);
    puts(line);
    if (json_get_bool(package, "only_packed_signed", false))
        puts("its manifest covers only the packed file, not the content, so it counts as unsigned: "
             "have it signed again with 'kilnctl pkg sign'");
}

static bool fits_gpu(const struct json *gpu, const char *name)
{
    for (const struct json *j = json_first(json_get(gpu, "packages")); j; j = json_next(j)) {
        const char *fit = json_get_text(j, "fit", "");
        bool used = strcmp(fit, "exact") == 0 || strcmp(fit, "arch") == 0;
        if (used && strcmp(json_get_text(j, "name", ""), name) == 0)
            return true;
    }
    return false;
}

/* Prints a note if no GPU of this host can use the package.  That is not an error: node images are
 * built on any host. */
static void note_fit(const struct invocation *invocation, const struct json *package)
{
    KILN_AUTO(json) struct json *coverage = NULL;
    struct kiln_error unknown = { .code = KILN_E_OK };
    const char *name = json_get_text(package, "name", "?");
    if (admin_ask(invocation, "package_coverage", admin_no_arguments, &coverage, &unknown))
        return;
    const struct json *gpus = json_get(coverage, "gpus");
    for (const struct json *j = json_first(gpus); j; j = json_next(j)) {
        if (fits_gpu(j, name))
            return;
    }
    if (json_count(gpus) > 0)
        puts("it applies to no GPU of this host; 'kilnctl pkg coverage' shows which would");
}

static int run_pkg_install(const struct invocation *invocation, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *reply = NULL;
    char label[URL_LABEL_MAX];
    if (install_package(invocation, &reply, err))
        return cli_while(err, "%.200s", url_shown(invocation->words[0], label));
    if (!invocation->common->json) {
        print_package(reply);
        note_fit(invocation, reply);
    }
    const char *name = json_get_text(reply, "name", "?");
    int rc = strcmp(json_get_text(reply, "format", ""), "kiln") == 0
                 ? pkg_records_merge(invocation, name, reply, err)
                 : KILN_E_OK;
    return rc || !invocation->common->json ? rc : output_json(reply, err);
}

const struct command command_pkg_install = {
    .name = "pkg install",
    .words = "PATH|URL",
    .summary = "install a package of precompiled kernels",
    .help =
        "Installs a .kdb, .kdb.bz2, .ukdb or .kpkg file from PATH or from a URL (https, http,\n"
        "file).  Every kernel is checked first; if one is damaged, nothing is installed.  PATH is\n"
        "opened with your permissions, a URL with kilnd's.  An interrupted download is resumed.\n"
        "\n"
        "The name of a package decides to which GPUs it applies: gfx90a68.kdb to a gfx90a with\n"
        "104 compute units (hexadecimal; numbers up to 64 are decimal, as in gfx906_60),\n"
        "gfx90a.kdb to any gfx90a.\n"
        "\n"
        "Tuning records in a .kpkg ('pkg build --records', 'trace pack --records') are merged "
        "into\n"
        "the host's records, as by 'db merge --tier host'.",
    .least_words = 1,
    .most_words = 1,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct install_options),
    .run = run_pkg_install,
};
