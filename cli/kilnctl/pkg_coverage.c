/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/output.h"

#include <string.h>

static enum colour colour_of(const char *coverage)
{
    if (strcmp(coverage, "exact") == 0)
        return COLOUR_GREEN;
    return strcmp(coverage, "none") == 0 ? COLOUR_RED : COLOUR_YELLOW;
}

/* Lists the packages that the GPU uses. kilnd's reply also has packages for GPUs with other numbers
 * of compute units. */
static void join_packages(const struct json *gpu, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (const struct json *j = json_first(json_get(gpu, "packages")); j && used < size;
         j = json_next(j)) {
        const char *fit = json_get_text(j, "fit", "");
        if (strcmp(fit, "exact") == 0 || strcmp(fit, "arch") == 0)
            used += (size_t)snprintf(text + used, size - used, "%s%.255s", used ? ", " : "",
                                     json_get_text(j, "name", "?"));
    }
}

static void add_row(struct table *table, const struct json *gpu)
{
    char packages[1024];
    const char *coverage = json_get_text(gpu, "coverage", "?");
    join_packages(gpu, packages, sizeof(packages));
    table_cell(table, "%llu", (unsigned long long)json_get_u64(gpu, "node", 0));
    table_cell(table, "%s", json_get_text(gpu, "arch", "-"));
    table_cell(table, "%llu", (unsigned long long)json_get_u64(gpu, "compute_units", 0));
    table_cell(table, "%s", json_get_text(gpu, "database_id", "-"));
    table_cell_in(table, colour_of(coverage), "%s", coverage);
    table_cell(table, "%s", *packages ? packages : "-");
}

static void print_messages(const struct json *gpus)
{
    for (const struct json *j = json_first(gpus); j; j = json_next(j)) {
        const char *message = json_get_text(j, "message", "");
        const struct json *before = json_first(gpus);
        while (before != j && strcmp(json_get_text(before, "message", ""), message) != 0)
            before = json_next(before);
        if (!*message || before != j)
            continue;
        putchar('\n');
        output_lines(stdout, "", message);
    }
}

static int print_coverage(const struct json *reply, struct kiln_error *err)
{
    static const struct column columns[] = {
        { "NODE", ALIGN_RIGHT }, { "ARCH", ALIGN_LEFT },     { "UNITS", ALIGN_RIGHT },
        { "ID", ALIGN_LEFT },    { "COVERAGE", ALIGN_LEFT }, { "PACKAGES", ALIGN_LEFT },
    };
    const struct json *gpus = json_get(reply, "gpus");
    const char *skipped = json_get_text(reply, "skipped", "");
    int rc = KILN_E_OK;
    if (json_count(gpus) == 0) {
        puts("this host has no AMD GPU, or its driver does not show it");
    } else {
        __attribute__((cleanup(table_auto))) struct table *table = table_create(columns, 6);
        for (const struct json *j = json_first(gpus); j; j = json_next(j))
            add_row(table, j);
        rc = table_print(table, stdout, err);
        print_messages(gpus);
    }
    if (*skipped)
        output_lines(stdout, "skipped: ", skipped);
    return rc;
}

static int run_pkg_coverage(const struct invocation *invocation, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = admin_ask(invocation, "package_coverage", admin_no_arguments, &reply, err);
    if (rc)
        return rc;
    return invocation->common->json ? output_json(reply, err) : print_coverage(reply, err);
}

const struct command command_pkg_coverage = {
    .name = "pkg coverage",
    .words = "",
    .summary = "show which packages apply to the GPUs of this host",
    .help = "Says for each AMD GPU of this host whether a package applies to it:\n"
            "  exact      a package for its processor and its number of compute units\n"
            "  arch       a package for its processor with any number of compute units\n"
            "  other-...  only for its processor with another number: not used\n"
            "  none       no package: kernels are compiled when they are first requested",
    .run = run_pkg_coverage,
};
