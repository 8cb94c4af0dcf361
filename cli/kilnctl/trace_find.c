/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/built_name.h"
#include "cli/kilnctl/command.h"
#include "cli/kilnctl/db_words.h"
#include "cli/kilnctl/trace_groups.h"
#include "cli/kilnctl/trace_job.h"
#include "cli/output.h"

#include <string.h>

struct find_options {
    const char *database_id, *backend;
    bool missing;
};

#define AT(field) offsetof(struct find_options, field)
static const struct option options[] = {
    { "db-id", 0, OPTION_TEXT, AT(database_id), "ID", "the device, such as gfx90a68 (the trace's)",
      0, 0 },
    { "backend", 0, OPTION_TEXT, AT(backend), "HIP|CUDA|OpenCL",
      "FindDb's backend (the device's own)", 0, 0 },
    { "missing", 0, OPTION_FLAG, AT(missing), NULL,
      "print only the problems without a find record, as MIOpenDriver command lines", 0, 0 },
};
#undef AT

struct work {
    const struct invocation *invocation;
    struct trace_job job;
    struct trace_groups groups;
    struct table *table; /* NULL with --json or --missing */
    struct json *entries;
    size_t problems, found, perf;
};

static void work_done(struct work *w)
{
    trace_groups_done(&w->groups);
    trace_job_done(&w->job);
    table_destroy(w->table);
    json_destroy(w->entries);
}

/* ---- the problems ---- */

/* Reads the problems of |word|, which is the name of a job, the path of a trace or of a log, or "-"
 * for a log from standard input. A path must contain a '/'. */
static int read_problems(struct work *w, const char *word, struct kiln_error *err)
{
    const struct find_options *o = w->invocation->options;
    const struct trace_change change = { .database_id = o->database_id, .any_solver = true };
    int rc = strcmp(word, "-") == 0 ? KILN_E_CORRUPT : trace_job_read(word, &w->job, err);
    if (rc == KILN_E_CORRUPT && (strchr(word, '/') || strcmp(word, "-") == 0)) {
        *err = (struct kiln_error){ 0 };
        return trace_groups_read_log(word, &change, &w->groups, err);
    }
    if (rc)
        return rc;
    trace_job_print_damage(&w->job);
    return trace_groups_make(&w->job, &change, &w->groups, err);
}

/* ---- the records ---- */

static int ask_records(const struct work *w, const char *problem, const char *database_id,
                       struct json **ret_reply, struct kiln_error *err)
{
    const struct find_options *o = w->invocation->options;
    KILN_AUTO(json) struct json *ask = json_object();
    json_set_text(ask, "problem", problem);
    json_set_text(ask, "database_id", database_id);
    admin_set_text(ask, "backend", o->backend);
    int rc = admin_ask(w->invocation, "tuning_show", ask, ret_reply, err);
    if (rc != KILN_E_NOT_FOUND)
        return rc;
    *err = (struct kiln_error){ 0 };
    return KILN_E_OK;
}

/* Returns whether |record| has a solver of MIOpen, because MIOpen cannot use the times of kiln's
 * own solvers. */
static bool has_miopens_solver(const struct json *record)
{
    for (const struct json *e = json_first(json_get(record, "entries")); e; e = json_next(e))
        if (!json_get_bool(e, "kilns", false))
            return true;
    return false;
}

/* Returns the tier of the first record that can be used for the device, or NULL. If |is_kilns| is
 * set, any record can be used: the device has only kiln's own solvers. Otherwise, the record must
 * have a solver of MIOpen. */
static const char *tier_of(const struct json *records, bool is_kilns)
{
    for (const struct json *r = json_first(records); r; r = json_next(r))
        if (is_kilns || has_miopens_solver(r))
            return json_get_text(r, "tier", "?");
    return NULL;
}

static void add_entry(struct work *w, const char *problem, const char *find, const char *perf)
{
    struct json *json = json_object();
    json_set_text(json, "problem", problem);
    if (find)
        json_set_text(json, "find", find);
    if (perf)
        json_set_text(json, "perf", perf);
    json_append(w->entries, json);
}

static void report_problem(struct work *w, const char *problem, const char *find, const char *perf)
{
    const struct find_options *o = w->invocation->options;
    w->problems++;
    w->found += find != NULL;
    w->perf += perf != NULL;
    if (w->invocation->common->json) {
        add_entry(w, problem, find, perf);
    } else if (o->missing && !find) {
        puts(problem);
    } else if (w->table) {
        table_cell(w->table, "%s", find ? find : "-");
        table_cell(w->table, "%s", perf ? perf : "-");
        table_cell(w->table, "%s", problem);
    }
}

static int look_up(struct work *w, const struct kiln_problem *problem, const char *database_id,
                   struct kiln_error *err)
{
    char text[512];
    bool is_kilns = device_id_is_kilns(database_id, strlen(database_id));
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = kiln_problem_to_driver(problem, text, sizeof(text), err);
    if (!rc)
        rc = ask_records(w, text, database_id, &reply, err);
    if (rc)
        return rc;
    const struct json *shown = json_first(json_get(reply, "problems"));
    report_problem(w, text, tier_of(json_get(shown, "find"), is_kilns),
                   tier_of(json_get(shown, "perf"), is_kilns));
    return KILN_E_OK;
}

static int look_up_group(struct work *w, const struct trace_group *group, struct kiln_error *err)
{
    int rc = KILN_E_OK;
    if (!*group->database_id)
        return cli_fail(err, KILN_E_INVALID,
                        "trace find needs --db-id: the device, such as gfx90a68 ('kilnctl device "
                        "ls' lists those of this host)");
    for (size_t i = 0; i < group->problems.count && !rc; i++)
        rc = look_up(w, &group->problems.problems[i], group->database_id, err);
    return rc;
}

/* ---- the report ---- */

static int print_json(struct work *w, struct kiln_error *err)
{
    KILN_AUTO(json) struct json *json = json_object();
    json_set_u64(json, "problems", w->problems);
    json_set_u64(json, "found", w->found);
    json_set_u64(json, "missing", w->problems - w->found);
    json_set_u64(json, "perf", w->perf);
    json_set_u64(json, "unreadable", w->groups.unreadable);
    json_set(json, "entries", KILN_TAKE(w->entries));
    return output_json(json, err);
}

static int print_table(struct work *w, struct kiln_error *err)
{
    char count[DB_NAME_MAX];
    int rc = table_print(w->table, stdout, err);
    if (!rc)
        printf("\n%s: %zu with a find record, %zu for which MIOpen searches, %zu with a perf "
               "record\n",
               db_count(w->problems, "problem", count), w->found, w->problems - w->found, w->perf);
    return rc;
}

static int run_trace_find(const struct invocation *invocation, struct kiln_error *err)
{
    static const struct column columns[] = { { "FIND", ALIGN_LEFT },
                                             { "PERF", ALIGN_LEFT },
                                             { "PROBLEM", ALIGN_LEFT } };
    const struct find_options *o = invocation->options;
    bool json = invocation->common->json;
    __attribute__((cleanup(work_done))) struct work w = {
        .invocation = invocation,
        .table = json || o->missing ? NULL : table_create(columns, 3),
        .entries = json_array(),
    };
    int rc = read_problems(&w, invocation->words[0], err);
    for (size_t i = 0; i < w.groups.count && !rc; i++)
        rc = look_up_group(&w, w.groups.list[i], err);
    if (rc)
        return rc;
    if (w.groups.unreadable && !json)
        fprintf(stderr, "kilnctl: %zu commands are no convolutions that kiln knows\n",
                w.groups.unreadable);
    return json ? print_json(&w, err) : w.table ? print_table(&w, err) : KILN_E_OK;
}

const struct command command_trace_find = {
    .name = "trace find",
    .words = "JOB|FILE",
    .summary = "say for which problems of a job MIOpen would search",
    .help =
        "Lists the problems of JOB's traces, or of the MIOpenDriver command lines in FILE, such "
        "as\n"
        "those that MIOPEN_ENABLE_LOGGING_CMD=1 logs ('-': standard input).  FIND and PERF are "
        "the\n"
        "tiers of the records that kilnd has for the device, or '-'.  A find record of kiln's own\n"
        "solvers only does not count, because MIOpen cannot use it.\n"
        "\n"
        "'miopen overlay' gives the job the records.  MIOpen searches for the problems without a\n"
        "find record: --missing prints them, for MIOpenDriver on a node with the GPU.  After the\n"
        "job, 'miopen harvest' lists the problems that MIOpen searched for.",
    .least_words = 1,
    .most_words = 1,
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct find_options),
    .run = run_trace_find,
};
