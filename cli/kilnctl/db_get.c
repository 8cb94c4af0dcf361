/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/db_words.h"
#include "cli/output.h"
#include "cli/result.h"
#include "common/base/units.h"

#include <string.h>

#define LINE_MAX 4096

struct get_options {
    const char *database_id, *backend, *driver, *toolchain;
    bool nearest;
};

#define AT(field) offsetof(struct get_options, field)
static const struct option options[] = {
    { "db-id", 0, OPTION_TEXT, AT(database_id), "ID", "the device, such as gfx90a68 (required)", 0,
      0 },
    { "backend", 0, OPTION_TEXT, AT(backend), "HIP|CUDA|OpenCL",
      "FindDb's backend (the device's own)", 0, 0 },
    { "nearest", 0, OPTION_FLAG, AT(nearest), NULL,
      "if nothing is recorded, show the nearest batch size, then spatial size", 0, 0 },
    { "driver", 0, OPTION_TEXT, AT(driver), "VERSION",
      "mark entries measured with another driver than this", 0, 0 },
    { "toolchain", 0, OPTION_TEXT, AT(toolchain), "NAME",
      "mark entries measured with another compiler than this", 0, 0 },
};
#undef AT

static int ask_daemon(const struct invocation *invocation, const char *problem,
                      struct json **ret_reply, struct kiln_error *err)
{
    const struct get_options *o = invocation->options;
    KILN_AUTO(json) struct json *ask = json_object();
    json_set_text(ask, "problem", problem);
    json_set_text(ask, "database_id", o->database_id);
    admin_set_text(ask, "backend", o->backend);
    if (o->nearest)
        json_set_bool(ask, "nearest", true);
    admin_set_text(ask, "driver", o->driver);
    admin_set_text(ask, "toolchain", o->toolchain);
    return admin_ask(invocation, "tuning_show", ask, ret_reply, err);
}

static bool has_records(const struct json *problems)
{
    for (const struct json *j = json_first(problems); j; j = json_next(j))
        if (json_count(json_get(j, "find")) + json_count(json_get(j, "perf")) > 0)
            return true;
    return false;
}

static void cell_number(struct table *table, const struct json *entry, const char *name)
{
    const struct json *number = json_get(entry, name);
    if (json_is_number(number))
        table_cell(table, "%.6g", json_as_number(number, 0));
    else
        table_cell(table, "-");
}

static void cell_origin(struct table *table, const struct json *entry)
{
    static const char *const parts[] = { "device", "driver", "toolchain", "library" };
    char text[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < 4 && used < sizeof(text); i++) {
        const char *part = json_get_text(entry, parts[i], "");
        if (*part)
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%.100s", used ? ", " : "",
                                     part);
    }
    table_cell(table, "%s", *text ? text : "-");
}

static void add_entry(struct table *table, const struct json *record, const struct json *entry,
                      bool is_find)
{
    char user[DB_NAME_MAX], when[UNITS_TEXT_MAX], size[UNITS_TEXT_MAX];
    bool left_out = json_get_bool(entry, "left_out", false);
    bool stale = left_out || json_get_bool(entry, "stale", false);
    table_cell_in(table, COLOUR_BOLD, "%s", json_get_text(entry, "solver", "?"));
    if (is_find) {
        table_cell(table, "%s", json_get_text(entry, "algorithm", "-"));
        cell_number(table, entry, "time_ms");
        table_cell(table, "%s", units_size(json_get_u64(entry, "workspace", 0), size));
    } else {
        table_cell(table, "%s", json_get_text(entry, "params", "-"));
        cell_number(table, entry, "median_ms");
    }
    table_cell_in(table, stale ? COLOUR_YELLOW : COLOUR_NONE, "%s%s",
                  json_get_text(record, "tier", "?"),
                  left_out ? ", left out"
                  : stale  ? ", stale"
                           : "");
    table_cell(table, "%s", db_user_name(json_get(entry, "uid") ? entry : record, user));
    cell_number(table, entry, "samples");
    cell_number(table, entry, "spread_ms");
    table_cell(table, "%s", units_when(json_get_u64(entry, "measured_at", 0), when));
    cell_origin(table, entry);
}

static int print_records(const struct json *records, bool is_find, struct kiln_error *err)
{
    static const struct column find_columns[] = {
        { "SOLVER", ALIGN_LEFT },     { "ALGORITHM", ALIGN_LEFT },  { "TIME MS", ALIGN_RIGHT },
        { "WORKSPACE", ALIGN_RIGHT }, { "TIER", ALIGN_LEFT },       { "BY", ALIGN_LEFT },
        { "SAMPLES", ALIGN_RIGHT },   { "SPREAD MS", ALIGN_RIGHT }, { "MEASURED", ALIGN_LEFT },
        { "ON", ALIGN_LEFT },
    };
    static const struct column perf_columns[] = {
        { "SOLVER", ALIGN_LEFT },     { "PARAMETERS", ALIGN_LEFT }, { "MEDIAN MS", ALIGN_RIGHT },
        { "TIER", ALIGN_LEFT },       { "BY", ALIGN_LEFT },         { "SAMPLES", ALIGN_RIGHT },
        { "SPREAD MS", ALIGN_RIGHT }, { "MEASURED", ALIGN_LEFT },   { "ON", ALIGN_LEFT },
    };
    if (json_count(records) == 0)
        return KILN_E_OK;
    __attribute__((cleanup(table_auto))) struct table *table =
        is_find ? table_create(find_columns, 10) : table_create(perf_columns, 9);
    for (const struct json *r = json_first(records); r; r = json_next(r))
        for (const struct json *e = json_first(json_get(r, "entries")); e; e = json_next(e))
            add_entry(table, r, e, is_find);
    return table_print(table, stdout, err);
}

static void print_notes(const struct get_options *o, const char *kind, const struct json *records)
{
    for (const struct json *j = json_first(records); j; j = json_next(j)) {
        const char *tier = json_get_text(j, "tier", "?");
        const char *id = json_get_text(j, "database_id", o->database_id);
        if (json_get_bool(j, "near", false))
            db_say("%s, %s tier: the nearest is %.300s (batch %.3gx, spatial %.3gx)", kind, tier,
                   json_get_text(j, "key", "?"), json_get_number(j, "batch_ratio", 1),
                   json_get_number(j, "spatial_ratio", 1));
        if (strcmp(id, o->database_id) != 0)
            db_say("%s, %s tier: from %.64s, the nearest device with a database", kind, tier, id);
    }
}

static int print_problem(const struct get_options *o, const struct json *problem,
                         struct kiln_error *err)
{
    const struct json *find = json_get(problem, "find"), *perf = json_get(problem, "perf");
    output_lines(stdout, "", json_get_text(problem, "driver", ""));
    db_say("find key %.1024s", json_get_text(problem, "find_key", "-"));
    db_say("perf key %.1024s", json_get_text(problem, "perf_key", "-"));
    print_notes(o, "find", find);
    print_notes(o, "perf", perf);
    if (json_count(find) + json_count(perf) == 0)
        puts("nothing is recorded");
    int rc = print_records(find, true, err);
    if (!rc && json_count(find) > 0 && json_count(perf) > 0)
        putchar('\n');
    return rc ? rc : print_records(perf, false, err);
}

static int print_answer(const struct get_options *o, const struct json *reply,
                        struct kiln_error *err)
{
    char count[DB_NAME_MAX];
    const struct json *problems = json_get(reply, "problems");
    uint64_t left_out = json_get_u64(reply, "left_out", 0);
    int rc = KILN_E_OK;
    for (const struct json *j = json_first(problems); j && !rc; j = json_next(j)) {
        if (j != json_first(problems))
            putchar('\n');
        rc = print_problem(o, j, err);
    }
    if (left_out > 0) {
        putchar('\n');
        db_say("%s measured with another driver or compiler: excluded from look-ups by the setting "
               "tuning_stale",
               db_count(left_out, "entry", count));
    }
    return rc;
}

static int fail_missing(const struct get_options *o, struct kiln_error *err)
{
    return cli_fail(err, KILN_E_NOT_FOUND, "nothing is recorded for this problem on %.64s%s",
                    o->database_id,
                    o->nearest ? "" : "; --nearest looks for other batch or spatial sizes");
}

/* Prints kilnd's reply. With --json, prints the reply even if nothing is recorded, because the
 * reply contains the keys that kilnd has looked up. */
static int report_answer(const struct invocation *invocation, struct json *reply,
                         struct kiln_error *err)
{
    const struct get_options *o = invocation->options;
    struct kiln_error why = { 0 };
    int missing = has_records(json_get(reply, "problems")) ? KILN_E_OK : fail_missing(o, &why);
    bool json = invocation->common->json;
    if (json && missing)
        json_set(reply, "error", result_error_json(&why));
    int rc = json ? output_json(reply, err) : print_answer(o, reply, err);
    *invocation->reported = json && missing && !rc;
    if (!rc && missing)
        *err = why;
    return rc ? rc : missing;
}

static int run_db_get(const struct invocation *invocation, struct kiln_error *err)
{
    const struct get_options *o = invocation->options;
    KILN_AUTO(json) struct json *reply = NULL;
    char problem[LINE_MAX];
    if (!o->database_id)
        return cli_fail(err, KILN_E_INVALID,
                        "db get needs --db-id: the device, such as gfx90a68 ('kilnctl device ls' "
                        "lists those of this host)");
    int rc = command_join_words(invocation, problem, sizeof(problem), err);
    if (!rc)
        rc = ask_daemon(invocation, problem, &reply, err);
    if (rc == KILN_E_NOT_FOUND && !*err->text)
        return fail_missing(o, err);
    return rc ? rc : report_answer(invocation, reply, err);
}

const struct command command_db_get = {
    .name = "db get",
    .words = "PROBLEM",
    .summary = "show the records of a problem: solvers, times, who measured them",
    .help =
        "PROBLEM is a MIOpenDriver command line (quoted or after --), a FindDb key or a PerfDb\n"
        "key, including keys that are stored unparsed.  Shows the keys and the records of every\n"
        "tier, most private first.  The first entry is the one that a look-up returns.  Entries\n"
        "that the setting tuning_stale excludes come last.  If nothing is recorded, the exit\n"
        "status is 5.",
    .least_words = 1,
    .most_words = SIZE_MAX,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct get_options),
    .run = run_db_get,
};
