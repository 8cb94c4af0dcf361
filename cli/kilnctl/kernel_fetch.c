/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/key_prefix.h"
#include "cli/kilnctl/new_file.h"
#include "cli/output.h"
#include "cli/tiers.h"
#include "common/base/units.h"

#include <stdlib.h>
#include <string.h>

struct fetch_options {
    const char *database_id, *name, *args, *output;
};

#define AT(field) offsetof(struct fetch_options, field)
static const struct option options[] = {
    { "output", 'o', OPTION_TEXT, AT(output), "FILE",
      "where to write the code object; '-': standard output (required)", 0, 0 },
    { "db-id", 0, OPTION_TEXT, AT(database_id), "ID",
      "MIOpen's name of the device: gfx90a68, or gfx90a68@2.17.0 for one MIOpen version", 0, 0 },
    { "name", 0, OPTION_TEXT, AT(name), "NAME", "MIOpen's name of the kernel: conv3x3.s.o", 0, 0 },
    { "args", 0, OPTION_VERBATIM, AT(args), "TEXT", "its arguments, verbatim: blanks matter", 0,
      0 },
};
#undef AT

static int check_options(const struct invocation *invocation, struct kiln_error *err)
{
    const struct fetch_options *o = invocation->options;
    bool by_key = invocation->word_count > 0;
    bool by_name = o->database_id && o->name;
    if (by_key ? o->database_id || o->name || o->args : !by_name)
        return cli_fail(err, KILN_E_INVALID,
                        "kernel fetch needs a KEY, or else --db-id, --name and --args");
    if (!o->output)
        return cli_fail(err, KILN_E_INVALID,
                        "give --output: the file to write, or - for standard "
                        "output");
    if (strcmp(o->output, "-") == 0 && invocation->common->json)
        return cli_fail(err, KILN_E_INVALID,
                        "standard output cannot take both the code object and --json");
    return KILN_E_OK;
}

static int fetch_by_key(const struct invocation *invocation, struct kiln_kernel **ret_kernel,
                        struct kiln_error *err)
{
    char key[KEY_DIGITS + 1];
    int rc = key_prefix_complete(invocation, invocation->words[0], key, err);
    if (!rc)
        rc = kiln_kernel_fetch(invocation->client, key, 0, ret_kernel, err);
    if (rc == KILN_E_NOT_FOUND && !*err->text)
        return cli_fail(err, rc, "no tier has the kernel '%s'; 'kilnctl why-miss' explains why",
                        invocation->words[0]);
    return rc;
}

#define LISTED_MAX 500u

static bool has_version(const char *list, const char *version)
{
    size_t size = strlen(version);
    for (const char *at = list; *at; at += strspn(at, ", ")) {
        size_t found = strcspn(at, ",");
        if (found == size && memcmp(at, version, size) == 0)
            return true;
        at += found;
    }
    return false;
}

static void find_versions(const struct invocation *invocation, char *text, size_t size)
{
    const struct fetch_options *o = invocation->options;
    KILN_AUTO(json) struct json *ask = json_object();
    KILN_AUTO(json) struct json *reply = NULL;
    struct kiln_error unused = { 0 };
    size_t used = 0;
    text[0] = '\0';
    json_set_text(ask, "database_id", o->database_id);
    json_set_text(ask, "program", o->name);
    json_set_u64(ask, "count", LISTED_MAX);
    if (admin_ask(invocation, "kernel_list", ask, &reply, &unused))
        return;
    for (const struct json *j = json_first(json_get(reply, "kernels")); j && used < size;
         j = json_next(j)) {
        const char *at = strchr(json_get_text(j, "database_id", ""), '@');
        bool same = strcmp(json_get_text(j, "options", ""), o->args ? o->args : "") == 0;
        if (at && same && !has_version(text, at + 1))
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", at + 1);
    }
}

static int fail_named(const struct invocation *invocation, struct kiln_error *err)
{
    const struct fetch_options *o = invocation->options;
    char versions[160] = "";
    if (!strchr(o->database_id, '@'))
        find_versions(invocation, versions, sizeof(versions));
    if (*versions)
        return cli_fail(err, KILN_E_NOT_FOUND,
                        "'%.100s' with these arguments is stored for several versions of MIOpen: "
                        "%s; name one, such as --db-id %.60s@%.*s",
                        o->name, versions, o->database_id, (int)strcspn(versions, ","), versions);
    return cli_fail(err, KILN_E_NOT_FOUND,
                    "neither imported kernels nor packages for '%.60s' have '%.100s' with these "
                    "arguments; blanks in them matter: 'kilnctl pkg show NAME --rows' shows them "
                    "in quotes",
                    o->database_id, o->name);
}

static int fetch_by_name(const struct invocation *invocation, struct kiln_kernel **ret_kernel,
                         struct kiln_error *err)
{
    const struct fetch_options *o = invocation->options;
    const struct kiln_kernel_name name = {
        .size = sizeof(name), .database_id = o->database_id, .name = o->name, .args = o->args
    };
    int rc = kiln_kernel_fetch_named(invocation->client, &name, ret_kernel, err);
    /* If a variable forbids the use of stored kernels, libkiln's message already says so. */
    bool unused = getenv("KILN_DISABLE_CACHE") || getenv("MIOPEN_DISABLE_CACHE");
    return rc == KILN_E_NOT_FOUND && !(unused && *err->text) ? fail_named(invocation, err) : rc;
}

static int write_object(const char *path, const struct kiln_kernel *kernel, struct kiln_error *err)
{
    const void *data = kiln_kernel_data(kernel);
    size_t size = kiln_kernel_size(kernel);
    if (strcmp(path, "-") == 0)
        return fwrite(data, 1, size, stdout) == size
                   ? KILN_E_OK
                   : cli_fail(err, KILN_E_IO, "cannot write to standard output");
    const struct new_file file = {
        .path = path, .replace = true, .from = -1, .data = data, .size = size
    };
    return new_file_write(&file, err);
}

static int print_json(const char *path, const struct kiln_kernel *kernel, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *json = json_object();
    json_set_text(json, "file", path);
    json_set_text(json, "key", kiln_kernel_key(kernel));
    json_set_u64(json, "size", kiln_kernel_size(kernel));
    json_set_text(json, "tier", tier_name(kiln_kernel_tier(kernel)));
    return output_json(json, err);
}

static inline void kernel_auto(struct kiln_kernel **kernel) { kiln_kernel_unref(*kernel); }

static int run_kernel_fetch(const struct invocation *invocation, struct kiln_error *err)
{
    const struct fetch_options *o = invocation->options;
    KILN_AUTO(kernel) struct kiln_kernel *kernel = NULL;
    int rc = check_options(invocation, err);
    if (!rc)
        rc = invocation->word_count > 0 ? fetch_by_key(invocation, &kernel, err)
                                        : fetch_by_name(invocation, &kernel, err);
    if (!rc)
        rc = write_object(o->output, kernel, err);
    if (rc || strcmp(o->output, "-") == 0)
        return rc;
    if (invocation->common->json)
        return print_json(o->output, kernel, err);
    char size[UNITS_TEXT_MAX];
    printf("%s: %s, from: %s\n", o->output, units_size(kiln_kernel_size(kernel), size),
           tier_name(kiln_kernel_tier(kernel)));
    return KILN_E_OK;
}

const struct command command_kernel_fetch = {
    .name = "kernel fetch",
    .words = "[KEY]",
    .summary = "write one kernel's code object to a file",
    .help =
        "Writes the code object of the kernel KEY, or of the kernel that MIOpen calls NAME with\n"
        "the arguments TEXT on the device ID.  For a stored kernel, the first digits of the key\n"
        "are enough.  A name is looked up in your imports, then in imports for everyone, then in\n"
        "packages.  Never compiles.",
    .most_words = 1,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct fetch_options),
    .run = run_kernel_fetch,
};
