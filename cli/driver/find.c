/* SPDX-License-Identifier: MIT */
#include "cli/driver/find.h"

#include "cli/driver/find_progress.h"
#include "cli/output.h"
#include "common/base/json.h"
#include "common/base/units.h"

#include <limits.h>
#include <stdlib.h>
#include <strings.h>

struct keyword {
    const char *name;
    int value;
};
static const struct keyword modes[] = {
    { "normal", KILN_FIND_NORMAL },
    { "1", KILN_FIND_NORMAL },
    { "fast", KILN_FIND_FAST },
    { "2", KILN_FIND_FAST },
    { "hybrid", KILN_FIND_HYBRID },
    { "3", KILN_FIND_HYBRID },
    { "dynamic_hybrid", KILN_FIND_HYBRID },
    { "5", KILN_FIND_HYBRID },
    { "soon", KILN_FIND_SOON },
};
static const struct keyword enforcements[] = {
    { "none", KILN_ENFORCE_NONE },
    { "1", KILN_ENFORCE_NONE },
    { "db_update", KILN_ENFORCE_DB_UPDATE },
    { "2", KILN_ENFORCE_DB_UPDATE },
    { "search", KILN_ENFORCE_SEARCH },
    { "3", KILN_ENFORCE_SEARCH },
    { "search_db_update", KILN_ENFORCE_SEARCH_DB_UPDATE },
    { "4", KILN_ENFORCE_SEARCH_DB_UPDATE },
    { "db_clean", KILN_ENFORCE_DB_CLEAN },
    { "5", KILN_ENFORCE_DB_CLEAN },
};

struct choice {
    const char *flag, *variable, *given;
    const struct keyword *words;
    size_t count;
    const char *list;
    int otherwise;
};

static int choose_value(const struct choice *c, int *ret_value, struct kiln_error *err)
{
    const char *text = c->given ? c->given : getenv(c->variable);
    *ret_value = c->otherwise;
    if (!text || !*text)
        return KILN_E_OK;
    for (size_t i = 0; i < c->count; i++) {
        if (strcasecmp(text, c->words[i].name) == 0) {
            *ret_value = c->words[i].value;
            return KILN_E_OK;
        }
    }
    return cli_fail(err, KILN_E_INVALID, "'%.40s' of %s is not one of %s", text,
                    c->given ? c->flag : c->variable, c->list);
}

int find_options_read(const struct driver_options *options, struct kiln_conv_options *ret_options,
                      struct kiln_error *err)
{
    const struct choice mode = { .flag = "--find-mode",
                                 .variable = "MIOPEN_FIND_MODE",
                                 .given = options->find_mode,
                                 .words = modes,
                                 .count = sizeof(modes) / sizeof(modes[0]),
                                 .list = "normal (1), fast (2), hybrid (3), soon",
                                 .otherwise = KILN_FIND_HYBRID };
    const struct choice enforce = { .flag = "--enforce",
                                    .variable = "MIOPEN_FIND_ENFORCE",
                                    .given = options->enforce,
                                    .words = enforcements,
                                    .count = sizeof(enforcements) / sizeof(enforcements[0]),
                                    .list = "none (1), db_update (2), search (3), "
                                            "search_db_update (4), db_clean (5)",
                                    .otherwise = KILN_ENFORCE_NONE };
    struct kiln_conv_options o = { .size = sizeof(o),
                                   .toolchain = options->toolchain,
                                   .no_record = options->no_record,
                                   .journal = options->journal };
    int rc = choose_value(&mode, &o.mode, err);
    if (!rc)
        rc = choose_value(&enforce, &o.enforce, err);
    if (!rc && options->improve.value > 0 && o.mode != KILN_FIND_SOON)
        rc = cli_fail(err, KILN_E_INVALID, "--improve works only with '--find-mode soon'");
    if (rc)
        return rc;
    o.budget_ms = options->budget.value < INT_MAX ? (int)options->budget.value : INT_MAX;
    *ret_options = o;
    return KILN_E_OK;
}

int find_run(const struct find_call *call, struct kiln_conv_result **ret_result,
             struct kiln_error *err)
{
    struct find_progress progress;
    struct kiln_conv_options options = *call->options;
    options.device = call->device;
    options.solver = *call->solver ? call->solver : NULL;
    bool is_limited = options.enforce < KILN_ENFORCE_SEARCH && options.mode != KILN_FIND_SOON;
    if (!call->tunes && is_limited && !options.budget_ms)
        options.budget_ms = call->find_ms;
    if (call->progress) {
        find_progress_init(&progress, call->progress, call->tunes ? "tune" : "find");
        options.reported = find_progress_reported;
        options.context = &progress;
    }
    int rc = (call->tunes ? kiln_conv_tune : kiln_conv_find)(call->client, call->problem, &options,
                                                             ret_result, err);
    if (call->progress)
        find_progress_done(&progress);
    return rc ? cli_while(err, call->tunes ? "tune" : "find") : KILN_E_OK;
}

static void add_row(struct table *table, const struct kiln_conv_entry *e)
{
    static const char *const states[] = {
        [KILN_CONV_TIMED] = "timed",         [KILN_CONV_RECORDED] = "recorded",
        [KILN_CONV_CUT_SHORT] = "cut short", [KILN_CONV_UNTIMED] = "not timed",
        [KILN_CONV_WRONG] = "WRONG",         [KILN_CONV_NOT_COMPILED] = "not compiled",
        [KILN_CONV_NOT_RUN] = "not run",
    };
    char size[UNITS_TEXT_MAX];
    bool is_bad = e->state >= KILN_CONV_WRONG;
    bool is_state = e->state >= 0 && (size_t)e->state < sizeof(states) / sizeof(states[0]);
    table_cell(table, "%s", e->solver);
    table_cell_in(table, is_bad ? COLOUR_RED : COLOUR_NONE, "%s",
                  is_state ? states[e->state] : "?");
    if (e->median_ms > 0 && !is_bad)
        table_cell(table, "%.6f", e->median_ms);
    else
        table_cell(table, "-");
    if (e->samples > 1 && !is_bad)
        table_cell(table, "%.6f", e->spread_ms);
    else
        table_cell(table, "-");
    table_cell(table, "%s", units_size(e->workspace, size));
    if (e->tried > 0)
        table_cell(table, "%u", e->tried);
    else
        table_cell(table, "-");
    table_cell(table, "%s", e->config[0] ? e->config : "-");
}

int find_print(const struct kiln_conv_result *result, FILE *out, struct kiln_error *err)
{
    static const struct column columns[] = {
        { "SOLVER", ALIGN_LEFT },     { "STATE", ALIGN_LEFT },      { "MEDIAN ms", ALIGN_RIGHT },
        { "SPREAD ms", ALIGN_RIGHT }, { "WORKSPACE", ALIGN_RIGHT }, { "TRIED", ALIGN_RIGHT },
        { "CONFIG", ALIGN_LEFT },
    };
    __attribute__((cleanup(table_auto))) struct table *table =
        table_create(columns, sizeof(columns) / sizeof(columns[0]));
    struct kiln_conv_entry e = { .size = sizeof(e) };
    for (unsigned i = 0; table && i < kiln_conv_result_count(result); i++) {
        if (kiln_conv_result_entry(result, i, &e, err))
            return err->code;
        add_row(table, &e);
    }
    int rc = table_print(table, out, err);
    for (unsigned i = 0; !rc && i < kiln_conv_result_count(result); i++) {
        rc = kiln_conv_result_entry(result, i, &e, err);
        if (!rc && e.state >= KILN_CONV_WRONG) {
            char text[640];
            snprintf(text, sizeof(text), "%s: %s", e.solver, e.reason);
            output_lines(out, "  ", text);
        }
    }
    return rc;
}

void find_warn(const struct kiln_conv_result *result, FILE *out)
{
    static bool is_reported;
    struct kiln_error why = { 0 };
    int rc = kiln_conv_result_recorded(result, &why);
    if (rc && !(rc == KILN_E_NOT_FOUND && is_reported))
        output_error(out, "kiln-driver: warning: nothing was recorded", &why, NULL);
    is_reported = is_reported || rc == KILN_E_NOT_FOUND;
}

static struct json *entry_json(const struct kiln_conv_entry *e)
{
    struct json *json = json_object();
    json_set_text(json, "solver", e->solver);
    json_set_text(json, "algorithm", e->algorithm);
    json_set_text(json, "config", e->config);
    json_set_text(json, "state", kiln_conv_state_name(e->state));
    json_set_number(json, "median_ms", e->median_ms);
    json_set_number(json, "spread_ms", e->spread_ms);
    json_set_u64(json, "samples", e->samples);
    json_set_u64(json, "workspace", e->workspace);
    json_set_u64(json, "checked", e->checked);
    json_set_u64(json, "tried", e->tried);
    json_set_text(json, "reason", e->reason);
    return json;
}

struct json *find_json(const struct kiln_conv_result *result)
{
    struct json *json = json_object(), *solvers = json_array(), *trials = json_array();
    struct kiln_conv_entry e = { .size = sizeof(e) };
    struct kiln_error unused = { 0 };
    for (unsigned i = 0; i < kiln_conv_result_count(result); i++)
        if (!kiln_conv_result_entry(result, i, &e, &unused))
            json_append(solvers, entry_json(&e));
    for (unsigned i = 0; i < kiln_conv_result_trial_count(result); i++)
        if (!kiln_conv_result_trial(result, i, &e, &unused))
            json_append(trials, entry_json(&e));
    json_set(json, "solvers", solvers);
    json_set(json, "trials", trials);
    bool is_recorded = kiln_conv_result_recorded(result, &unused) == KILN_E_OK;
    json_set_bool(json, "recorded", is_recorded);
    if (!is_recorded)
        json_set_text(json, "not_recorded", unused.text);
    return json;
}
