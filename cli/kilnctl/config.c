/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/show.h"
#include "cli/output.h"

static bool any_waits(const struct json *reply)
{
    const struct json *j = json_first(reply);
    while (j && !json_get(j, "after_restart"))
        j = json_next(j);
    return j != NULL;
}

static int print_settings(const struct json *reply, struct kiln_error *err)
{
    static const struct column columns[] = { { "SETTING", ALIGN_LEFT },
                                             { "VALUE", ALIGN_LEFT },
                                             { "ORIGIN", ALIGN_LEFT },
                                             { "AFTER A RESTART", ALIGN_LEFT } };
    bool waits = any_waits(reply);
    __attribute__((cleanup(table_auto))) struct table *table = table_create(columns, waits ? 4 : 3);
    for (const struct json *j = json_first(reply); j; j = json_next(j)) {
        char text[1024];
        const struct json *value = json_get(j, "value");
        table_cell(table, "%s", json_name(j) ? json_name(j) : "");
        /* Without units, so that the user can copy the number into kilnd.json. */
        if (json_is_number(value))
            table_cell(table, "%.15g", json_as_number(value, 0));
        else
            table_cell(table, "%s", show_value("", value, text, sizeof(text)));
        table_cell(table, "%s", json_get_text(j, "origin", "-"));
        if (waits)
            table_cell(table, "%s", json_get_text(json_get(j, "after_restart"), "value", "-"));
    }
    return table_print(table, stdout, err);
}

static int run_config(const struct invocation *invocation, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = admin_ask(invocation, "config", admin_no_arguments, &reply, err);
    if (rc)
        return rc;
    return invocation->common->json ? output_json(reply, err) : print_settings(reply, err);
}

const struct command command_config = {
    .name = "config",
    .words = "",
    .summary = "show the daemon's settings and their origins",
    .help =
        "Prints each setting with its value and its origin: a flag, an environment variable, a\n"
        "file or the built-in default.  Some settings take effect only when kilnd starts.  If\n"
        "such a setting was changed and the configuration was read again (systemctl reload,\n"
        "SIGHUP), the last column shows its new value.",
    .run = run_config,
};
