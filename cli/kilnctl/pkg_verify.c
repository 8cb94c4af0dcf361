/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/several.h"
#include "cli/output.h"
#include "common/base/units.h"

#include <string.h>

static void print_report(const struct json *report)
{
    char line[512], kernels[UNITS_TEXT_MAX];
    snprintf(line, sizeof(line), "%.255s: %s, all good", json_get_text(report, "name", "?"),
             units_kernels(json_get_u64(report, "kernels", 0), kernels));
    output_clean(line, false);
    puts(line);
    /* kilnd read these kernels wrongly before, but reads them correctly now, so the disk or the
     * memory may be failing. */
    for (const struct json *j = json_first(json_get(report, "quarantine")); j; j = json_next(j)) {
        snprintf(line, sizeof(line), "  failed before: %.160s: %.300s",
                 json_get_text(j, "kernel", "?"), json_get_text(j, "text", ""));
        output_clean(line, false);
        puts(line);
    }
}

static int judge_report(const struct json *report, const char *name, struct kiln_error *err)
{
    uint64_t kernels = json_get_u64(report, "kernels", 0);
    uint64_t damaged = json_get_u64(report, "damaged", 0);
    if (damaged == 0)
        return KILN_E_OK;
    return cli_fail(err, KILN_E_CORRUPT,
                    "%llu of %llu kernels of '%.100s' are damaged (%.200s) and not used; install "
                    "the package again",
                    (unsigned long long)damaged, (unsigned long long)kernels, name,
                    json_get_text(report, "first", "no details"));
}

static int verify_package(const struct invocation *invocation, const char *name,
                          struct json **ret_report, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *ask = json_object();
    json_set_text(ask, "name", name);
    const struct admin_call call = { ADMIN_CALL_INIT, .request = "package_verify",
                                     .arguments = ask };
    int rc = admin_call(invocation, &call, ret_report, err);
    if (rc == KILN_E_NOT_FOUND && !*err->text)
        return cli_fail(err, rc, "no package '%s' is installed; 'kilnctl pkg ls' lists them", name);
    if (rc)
        return rc;
    rc = judge_report(*ret_report, name, err);
    if (!rc && !invocation->common->json)
        print_report(*ret_report);
    return rc;
}

static int run_pkg_verify(const struct invocation *invocation, struct kiln_error *err)
{
    SEVERAL_AUTO struct several packages;
    KILN_AUTO(json) struct json *json = json_object();
    struct json *reports = json_set_array(json, "packages");
    several_init(&packages, invocation, "package");
    for (size_t i = 0; i < invocation->word_count && !packages.over; i++) {
        struct json *report = NULL;
        struct kiln_error why = { 0 };
        int rc = verify_package(invocation, invocation->words[i], &report, &why);
        if (report)
            json_append(reports, report);
        several_note(&packages, invocation->words[i], rc, &why);
    }
    return several_end(&packages, json, err);
}

const struct command command_pkg_verify = {
    .name = "pkg verify",
    .words = "NAME...",
    .summary = "unpack and check every kernel of packages",
    .help =
        "Unpacks each kernel of the named packages and checks it against its recorded size and\n"
        "digest.  The exit status is 1 if a kernel is damaged.  There is no time limit unless\n"
        "--timeout is given.",
    .least_words = 1,
    .most_words = SIZE_MAX,
    .run = run_pkg_verify,
};
