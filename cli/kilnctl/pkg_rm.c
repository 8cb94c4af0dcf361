/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/several.h"
#include "cli/output.h"

static int remove_package(const struct invocation *invocation, const char *name,
                          struct json *removed, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *ask = json_object();
    KILN_AUTO(json) struct json *reply = NULL;
    json_set_text(ask, "name", name);
    int rc = admin_ask(invocation, "package_remove", ask, &reply, err);
    if (rc == KILN_E_NOT_FOUND && !*err->text)
        return cli_fail(err, rc, "no package '%s' is installed; 'kilnctl pkg ls' lists them", name);
    if (rc)
        return rc;
    json_append(removed, json_text(name));
    if (!invocation->common->json) {
        char line[300];
        snprintf(line, sizeof(line), "removed '%.255s'", name);
        output_clean(line, false);
        puts(line);
    }
    return KILN_E_OK;
}

static int run_pkg_rm(const struct invocation *invocation, struct kiln_error *err)
{
    SEVERAL_AUTO struct several packages;
    KILN_AUTO(json) struct json *json = json_object();
    struct json *removed = json_set_array(json, "removed");
    several_init(&packages, invocation, "package");
    for (size_t i = 0; i < invocation->word_count && !packages.over; i++) {
        struct kiln_error why = { 0 };
        int rc = remove_package(invocation, invocation->words[i], removed, &why);
        several_note(&packages, invocation->words[i], rc, &why);
    }
    return several_end(&packages, json, err);
}

const struct command command_pkg_rm = {
    .name = "pkg rm",
    .words = "NAME...",
    .summary = "remove installed packages",
    .help =
        "Removes packages that 'pkg install' installed.  Kernels that jobs have already loaded\n"
        "from them stay valid.  Packages in the directories of package_path can only be removed\n"
        "by their owners.",
    .least_words = 1,
    .most_words = SIZE_MAX,
    .run = run_pkg_rm,
};
