/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/output.h"
#include "common/base/units.h"

static void add_row(struct table *table, const struct json *package)
{
    char kernels[UNITS_TEXT_MAX], size[UNITS_TEXT_MAX], when[UNITS_TEXT_MAX];
    const char *signer = json_get_text(package, "signer", "");
    table_cell_in(table, COLOUR_BOLD, "%s", json_get_text(package, "name", "-"));
    table_cell(table, "%s", json_get_text(package, "format", "-"));
    table_cell(table, "%s", json_get_text(package, "database_id", "-"));
    table_cell(table, "%s", units_count(json_get_u64(package, "kernels", 0), kernels));
    table_cell(table, "%s", units_size(json_get_u64(package, "size", 0), size));
    table_cell(table, "%s", *signer ? signer : "-");
    table_cell(table, "%s", units_when(json_get_u64(package, "installed", 0), when));
    table_cell(table, "%s", json_get_text(package, "path", "-"));
}

static void print_signatures(const struct json *packages)
{
    for (const struct json *j = json_first(packages); j; j = json_next(j)) {
        char line[1536];
        const char *refused = json_get_text(j, "signature_refused", "");
        const char *name = json_get_text(j, "name", "?"), *path = json_get_text(j, "path", "?");
        bool only_shown = *json_get_text(j, "signer", "") && !json_get_u64(j, "installed", 0) &&
                          !json_get_bool(j, "signature_counts", true);
        if (*refused)
            snprintf(line, sizeof(line), "the manifest of '%.255s' is not believed: %.600s", name,
                     refused);
        else if (only_shown)
            snprintf(line, sizeof(line),
                     "the signature of '%.255s' is correct, but counts only after 'kilnctl pkg "
                     "install %.512s'",
                     name, path);
        if (!*refused && !only_shown)
            continue;
        output_clean(line, false);
        output_lines(stdout, "note: ", line);
    }
}

static void print_refused(const struct json *refused)
{
    for (const struct json *j = json_first(refused); j; j = json_next(j)) {
        char line[1536];
        snprintf(line, sizeof(line), "'%.255s' in '%.512s': %.600s", json_get_text(j, "name", "?"),
                 json_get_text(j, "directory", "?"), json_get_text(j, "why", "?"));
        output_clean(line, false);
        output_lines(stdout, "not used: ", line);
    }
}

static int print_packages(const struct json *packages, struct kiln_error *err)
{
    static const struct column columns[] = {
        { "NAME", ALIGN_LEFT },      { "FORMAT", ALIGN_LEFT }, { "FOR", ALIGN_LEFT },
        { "KERNELS", ALIGN_RIGHT },  { "SIZE", ALIGN_RIGHT },  { "SIGNED BY", ALIGN_LEFT },
        { "INSTALLED", ALIGN_LEFT }, { "PATH", ALIGN_LEFT },
    };
    __attribute__((cleanup(table_auto))) struct table *table = table_create(columns, 8);
    for (const struct json *j = json_first(packages); j; j = json_next(j))
        add_row(table, j);
    return table_print(table, stdout, err);
}

static int print_list(const struct json *reply, struct kiln_error *err)
{
    const struct json *packages = json_get(reply, "packages"),
                      *refused = json_get(reply, "refused");
    bool none = json_count(packages) == 0, some_refused = json_count(refused) > 0;
    int rc = none ? KILN_E_OK : print_packages(packages, err);
    if (none)
        puts(some_refused ? "none of the packages found is used"
                          : "no packages are installed: 'kilnctl pkg install' installs one, "
                            "'kilnctl pkg coverage' shows which ones this host's GPUs would use");
    print_signatures(packages);
    if (some_refused)
        putchar('\n');
    print_refused(refused);
    return rc;
}

static int run_pkg_ls(const struct invocation *invocation, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = admin_ask(invocation, "package_list", admin_no_arguments, &reply, err);
    if (rc)
        return rc;
    return invocation->common->json ? output_json(reply, err) : print_list(reply, err);
}

const struct command command_pkg_ls = {
    .name = "pkg ls",
    .words = "",
    .summary = "list the installed packages",
    .help =
        "Lists the packages of precompiled kernels that kilnd uses: those that 'pkg install'\n"
        "installed, and those in the directories of the setting package_path.  Below them, lists\n"
        "the files in these directories that are not used, with the reasons.",
    .run = run_pkg_ls,
};
