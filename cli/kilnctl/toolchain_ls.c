/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/output.h"

struct toolchain_options {
    struct option_list probe;
    bool all;
};

static const struct option options[] = {
    { "probe", 0, OPTION_LIST, offsetof(struct toolchain_options, probe), "TARGET...",
      "try a one-line kernel for these targets", 0, 0 },
    { "all", 0, OPTION_FLAG, offsetof(struct toolchain_options, all), NULL,
      "try a one-line kernel for every target that kiln knows", 0, 0 },
};

static struct json *create_request(const struct toolchain_options *o)
{
    struct json *json = json_object();
    if (o->probe.count > 0) {
        struct json *targets = json_array();
        for (size_t i = 0; i < o->probe.count; i++)
            json_append(targets, json_text(o->probe.words[i]));
        json_set(json, "probe", targets);
    }
    if (o->all)
        json_set_bool(json, "all", true);
    return json;
}

static int print_toolchains(const struct json *toolchains, struct kiln_error *err)
{
    static const struct column columns[] = {
        { "NAME", ALIGN_LEFT },     { "VERSION", ALIGN_LEFT },  { "FAMILY", ALIGN_LEFT },
        { "LANGUAGE", ALIGN_LEFT }, { "IDENTITY", ALIGN_LEFT }, { "PATH", ALIGN_LEFT },
    };
    __attribute__((cleanup(table_auto))) struct table *table = table_create(columns, 6);
    for (const struct json *j = json_first(toolchains); j; j = json_next(j)) {
        table_cell_in(table, COLOUR_BOLD, "%s", json_get_text(j, "name", "-"));
        table_cell(table, "%.40s", json_get_text(j, "version", "-"));
        table_cell(table, "%s", json_get_text(j, "family", "-"));
        table_cell(table, "%s", json_get_text(j, "language", "-"));
        table_cell(table, "%.12s", json_get_text(j, "identity", "-"));
        table_cell(table, "%s", json_get_text(j, "path", "-"));
    }
    return table_print(table, stdout, err);
}

static void add_targets(struct table *table, const struct json *toolchain)
{
    for (const struct json *j = json_first(json_get(toolchain, "targets")); j; j = json_next(j)) {
        bool works = json_get_bool(j, "works", false);
        table_cell(table, "%s", json_get_text(toolchain, "name", "-"));
        table_cell(table, "%s", json_get_text(j, "target", "-"));
        table_cell_in(table, works ? COLOUR_GREEN : COLOUR_RED, "%s", works ? "yes" : "no");
        table_cell(table, "%.100s", json_get_text(j, "detail", ""));
    }
    for (const struct json *j = json_first(json_get(toolchain, "untried")); j; j = json_next(j)) {
        table_cell(table, "%s", json_get_text(toolchain, "name", "-"));
        table_cell(table, "%s", json_get_text(j, "target", "-"));
        table_cell(table, "not tried");
        table_cell(table, "%.100s", json_get_text(j, "detail", ""));
    }
}

static int print_targets(const struct json *toolchains, struct kiln_error *err)
{
    static const struct column columns[] = {
        { "TOOLCHAIN", ALIGN_LEFT },
        { "TARGET", ALIGN_LEFT },
        { "WORKS", ALIGN_LEFT },
        { "DETAIL", ALIGN_LEFT },
    };
    size_t targets = 0;
    for (const struct json *j = json_first(toolchains); j; j = json_next(j))
        targets += json_count(json_get(j, "targets")) + json_count(json_get(j, "untried"));
    if (targets == 0)
        return KILN_E_OK;
    __attribute__((cleanup(table_auto))) struct table *table = table_create(columns, 4);
    for (const struct json *j = json_first(toolchains); j; j = json_next(j))
        add_targets(table, j);
    putchar('\n');
    return table_print(table, stdout, err);
}

static int run_toolchain_ls(const struct invocation *invocation, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *ask = create_request(invocation->options);
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = admin_ask(invocation, "toolchains", ask, &reply, err);
    if (rc)
        return rc;
    if (invocation->common->json)
        return output_json(reply, err);
    const struct json *toolchains = json_get(reply, "toolchains");
    if (json_count(toolchains) == 0)
        puts("kilnd found no compiler on this host: install hiprtc, clang, NVRTC or an OpenCL "
             "runtime; kilnd searches again within a minute");
    rc = json_count(toolchains) ? print_toolchains(toolchains, err) : KILN_E_OK;
    if (!rc)
        rc = print_targets(toolchains, err);
    const struct toolchain_options *o = invocation->options;
    if (!rc && !o->all && json_count(toolchains) > 0)
        puts("\nOnly targets that were tried are listed; 'kilnctl toolchain ls --all' tries all "
             "that kiln knows.");
    return rc;
}

const struct command command_toolchain_ls = {
    .name = "toolchain ls",
    .words = "",
    .summary = "list the compilers of this host, and the targets that each supports",
    .help =
        "Lists the compilers that kilnd found, and which targets each can compile for, as far as\n"
        "that is known.  kilnd learns this by trying; --probe and --all try now.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct toolchain_options),
    .run = run_toolchain_ls,
};
