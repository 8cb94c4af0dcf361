/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/db_words.h"
#include "cli/kilnctl/show.h"
#include "cli/output.h"
#include "common/base/units.h"

#include <string.h>

#define BY_CHOICES "uid target program"
#define SHOWN_MAX 40

struct stats_options {
    const char *by;
};

static const struct option options[] = {
    { "by", 0, OPTION_TEXT, offsetof(struct stats_options, by), "uid|target|program",
      "show compile time saved and space used by uid, target or program", 0, 0 },
};

static void add_counts(struct table *table, const struct json *row)
{
    char text[UNITS_TEXT_MAX];
    table_cell(table, "%s", units_seconds(json_get_number(row, "saved_s", 0), text));
    table_cell(table, "%s", units_count(json_get_u64(row, "hits", 0), text));
    table_cell(table, "%s", units_seconds(json_get_number(row, "compile_s", 0), text));
    table_cell(table, "%s", units_count(json_get_u64(row, "compiles", 0), text));
    table_cell(table, "%s", units_count(json_get_u64(row, "kernels", 0), text));
    table_cell(table, "%s", units_size(json_get_u64(row, "bytes", 0), text));
}

static void add_row(struct table *table, const struct json *row, const char *by)
{
    char user[DB_NAME_MAX];
    bool is_user = strcmp(by, "uid") == 0;
    table_cell_in(table, COLOUR_BOLD, "%s",
                  is_user ? db_user_name(row, user) : json_get_text(row, by, "?"));
    add_counts(table, row);
}

static void add_named(struct table *table, const struct json *row, const char *name)
{
    table_cell(table, "%s", name);
    add_counts(table, row);
}

static bool is_empty(const struct json *row)
{
    for (const struct json *j = json_first(row); j; j = json_next(j)) {
        if (json_as_number(j, 0) != 0)
            return false;
    }
    return true;
}

static int print_table(const struct json *reply, const char *by, struct kiln_error *err)
{
    const struct json *rows = json_get(reply, "rows"), *others = json_get(reply, "others");
    const char *title = strcmp(by, "uid") == 0      ? "USER"
                        : strcmp(by, "target") == 0 ? "TARGET"
                                                    : "PROGRAM";
    const struct column columns[] = {
        { title, ALIGN_LEFT },       { "SAVED", ALIGN_RIGHT },    { "HITS", ALIGN_RIGHT },
        { "COMPILED", ALIGN_RIGHT }, { "COMPILES", ALIGN_RIGHT }, { "KERNELS", ALIGN_RIGHT },
        { "STORED", ALIGN_RIGHT },
    };
    __attribute__((cleanup(table_auto))) struct table *table = table_create(columns, 7);
    size_t shown = 0;
    for (const struct json *j = json_first(rows); j && shown < SHOWN_MAX; j = json_next(j), shown++)
        add_row(table, j, by);
    if (!is_empty(others))
        add_named(table, others, "others");
    add_named(table, json_get(reply, "total"), "total");
    int rc = table_print(table, stdout, err);
    if (!rc && json_count(rows) > shown)
        printf("and %zu more: --json has all\n", json_count(rows) - shown);
    return rc;
}

static void print_since(const struct json *reply)
{
    char when[UNITS_TEXT_MAX];
    bool kept = json_get_bool(reply, "kept", true);
    printf("\nsince %s%s; KERNELS and STORED count the store's present contents\n",
           units_when(json_get_u64(reply, "since", 0), when),
           kept ? "" : ", and lost at the next restart: the cache is off or read-only");
}

static int print_usage(const struct invocation *invocation, const char *by, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *question = json_object();
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = db_check_word("by", by, BY_CHOICES, err);
    if (rc)
        return rc;
    json_set_text(question, "by", by);
    rc = admin_ask(invocation, "accounting", question, &reply, err);
    if (rc)
        return rc;
    if (invocation->common->json)
        return output_json(reply, err);
    rc = print_table(reply, by, err);
    if (!rc)
        print_since(reply);
    return rc;
}

static int run_stats(const struct invocation *invocation, struct kiln_error *err)
{
    const char *by = ((const struct stats_options *)invocation->options)->by;
    KILN_AUTO(json) struct json *reply = NULL;
    if (by)
        return print_usage(invocation, by, err);
    int rc = admin_ask(invocation, "stats", admin_no_arguments, &reply, err);
    if (rc)
        return rc;
    return invocation->common->json ? output_json(reply, err) : show_object(reply, stdout, err);
}

const struct command command_stats = {
    .name = "stats",
    .words = "",
    .summary = "show counters since the daemon started, sizes, and time saved by user",
    .help =
        "Prints kilnd's counters since it started: fetches, hits by tier, misses, and compiles by\n"
        "result.  Then prints the sizes of the stores.\n"
        "\n"
        "--by shows instead how much time kernels saved: each hit saves the time that compiling\n"
        "its kernel once took.  MIOpen's kernels state no compile time, so their hits count as\n"
        "zero time saved.  These totals survive restarts, as long as the cache does.  Users see\n"
        "their own row, and all others as one row.\n"
        "\n"
        "Compiles that programs do themselves by NVRTC, hiprtc or comgr ('kilnctl run') are no\n"
        "fetches.\n"
        "client_hits counts those that kilnd answered, client_compiles those that it stored, and\n"
        "client_saved_ms the milliseconds saved.  --by program shows them as one row.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct stats_options),
    .run = run_stats,
};
