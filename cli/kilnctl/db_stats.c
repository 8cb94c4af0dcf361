/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/db_words.h"
#include "cli/kilnctl/show.h"
#include "cli/output.h"
#include "common/base/units.h"

#include <string.h>

static void add_system(struct table *table, const struct json *system)
{
    char records[UNITS_TEXT_MAX], entries[UNITS_TEXT_MAX], size[UNITS_TEXT_MAX];
    char when[UNITS_TEXT_MAX], user[DB_NAME_MAX];
    const char *backend = json_get_text(system, "backend", "");
    const char *state = json_get_text(system, "state", "?");
    bool ok = strcmp(state, "ok") == 0;
    table_cell_in(table, COLOUR_BOLD, "%s", json_get_text(system, "database_id", "?"));
    table_cell(table, "%s%s%s", json_get_text(system, "kind", "?"), *backend ? " " : "", backend);
    table_cell(table, "%s", units_count(json_get_u64(system, "records", 0), records));
    table_cell(table, "%s", units_count(json_get_u64(system, "entries", 0), entries));
    table_cell(table, "%s", units_size(json_get_u64(system, "mapped_bytes", 0), size));
    table_cell(table, "%s", units_when(json_get_u64(system, "imported_at", 0), when));
    table_cell(table, "%s", db_user_name(system, user));
    table_cell_in(table, ok ? COLOUR_GREEN : COLOUR_RED, "%s", state);
    table_cell(table, "%s", json_get_text(system, "source", "-"));
}

static int print_systems(const struct json *systems, struct kiln_error *err)
{
    static const struct column columns[] = {
        { "FOR", ALIGN_LEFT },      { "KIND", ALIGN_LEFT },    { "RECORDS", ALIGN_RIGHT },
        { "ENTRIES", ALIGN_RIGHT }, { "MAPPED", ALIGN_RIGHT }, { "IMPORTED", ALIGN_LEFT },
        { "BY", ALIGN_LEFT },       { "STATE", ALIGN_LEFT },   { "SOURCE", ALIGN_LEFT },
    };
    if (json_count(systems) == 0) {
        puts("no system database is imported; 'kilnctl db import' imports MIOpen's\n");
        return KILN_E_OK;
    }
    __attribute__((cleanup(table_auto))) struct table *table = table_create(columns, 9);
    for (const struct json *j = json_first(systems); j; j = json_next(j))
        add_system(table, j);
    int rc = table_print(table, stdout, err);
    for (const struct json *j = json_first(systems); j; j = json_next(j))
        if (json_get(j, "why"))
            db_say("%.64s %.8s: %.600s", json_get_text(j, "database_id", "?"),
                   json_get_text(j, "kind", "?"), json_get_text(j, "why", ""));
    putchar('\n');
    return rc;
}

static int print_counts(const struct json *reply, struct kiln_error *err)
{
    static const struct column columns[] = { { NULL, ALIGN_LEFT }, { NULL, ALIGN_LEFT } };
    static const char *const groups[] = { "host", "user", "hits" };
    char text[1024], name[128];
    __attribute__((cleanup(table_auto))) struct table *table = table_create(columns, 2);
    for (size_t i = 0; i < 3; i++) {
        const struct json *group = json_get(reply, groups[i]);
        for (const struct json *j = json_first(group); j; j = json_next(j)) {
            snprintf(name, sizeof(name), "%s.%.64s", groups[i], json_name(j) ? json_name(j) : "?");
            table_cell(table, "%s", name);
            table_cell(table, "%s", show_value(name, j, text, sizeof(text)));
        }
    }
    for (const struct json *j = json_first(reply); j; j = json_next(j)) {
        if (json_is_object(j) || json_is_array(j))
            continue;
        table_cell(table, "%s", json_name(j));
        table_cell(table, "%s", show_value(json_name(j), j, text, sizeof(text)));
    }
    return table_print(table, stdout, err);
}

static int run_db_stats(const struct invocation *invocation, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = admin_ask(invocation, "tuning_stats", admin_no_arguments, &reply, err);
    if (rc)
        return rc;
    if (invocation->common->json)
        return output_json(reply, err);
    rc = print_systems(json_get(reply, "system"), err);
    return rc ? rc : print_counts(reply, err);
}

const struct command command_db_stats = {
    .name = "db stats",
    .words = "",
    .summary = "show the tuning databases: imported files, records by tier, look-ups",
    .help =
        "Lists the imported system databases.  Counts the records of each tier, and the look-ups\n"
        "since kilnd started by their result.  user.own counts your own records.",
    .run = run_db_stats,
};
