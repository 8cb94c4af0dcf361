/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/confirm.h"
#include "cli/kilnctl/db_words.h"
#include "cli/output.h"
#include "common/base/units.h"

#include <string.h>

struct rm_options {
    const char *tier, *database_id, *kind, *backend, *problem, *solver, *origin;
    struct option_number uid, older_than;
    bool all, yes;
};

#define AT(field) offsetof(struct rm_options, field)
static const struct option options[] = {
    { "tier", 0, OPTION_TEXT, AT(tier), "system|host|user", "the tier (user: your own records)", 0,
      0 },
    { "uid", 0, OPTION_NUMBER, AT(uid), "UID", "the records of another user (for administrators)",
      0, UINT32_MAX - 1 },
    { "db-id", 0, OPTION_TEXT, AT(database_id), "ID", "records of this device, such as gfx90a68", 0,
      0 },
    { "kind", 0, OPTION_TEXT, AT(kind), "find|perf", "records of FindDb or PerfDb", 0, 0 },
    { "backend", 0, OPTION_TEXT, AT(backend), "HIP|CUDA|OpenCL", "FindDb records of this backend",
      0, 0 },
    { "problem", 0, OPTION_TEXT, AT(problem), "PROBLEM",
      "records of this problem: a MIOpenDriver line or a key", 0, 0 },
    { "solver", 0, OPTION_TEXT, AT(solver), "NAME", "only this solver's entries", 0, 0 },
    { "origin", 0, OPTION_TEXT, AT(origin), "LIBRARY",
      "entries whose library begins so; fleet: is what other hosts measured", 0, 0 },
    { "older-than", 0, OPTION_TIME, AT(older_than), "TIME",
      "measured longer ago than this, such as 90d", 0, 0 },
    { "all", 0, OPTION_FLAG, AT(all), NULL, "all records of the tier", 0, 0 },
    { "yes", 'y', OPTION_FLAG, AT(yes), NULL, "do not ask for confirmation", 0, 0 },
};
#undef AT

static const char *tier_of(const struct rm_options *o) { return o->tier ? o->tier : "user"; }

static bool selects_records(const struct rm_options *o)
{
    return o->database_id || o->kind || o->backend || o->problem || o->solver || o->origin ||
           o->older_than.given;
}

static int check_selection(const struct rm_options *o, struct kiln_error *err)
{
    bool system = strcmp(tier_of(o), "system") == 0;
    int rc = db_check_word("tier", o->tier, DB_TIERS, err);
    if (!rc)
        rc = db_check_word("kind", o->kind, DB_KINDS, err);
    if (rc)
        return rc;
    if (system && (!o->database_id || !o->kind))
        return cli_fail(err, KILN_E_INVALID,
                        "an imported system database can only be dropped as a whole: name it with "
                        "--db-id and --kind ('kilnctl db stats' lists the databases)");
    if (system &&
        (o->problem || o->solver || o->origin || o->older_than.given || o->all || o->uid.given))
        return cli_fail(err, KILN_E_INVALID,
                        "an imported system database can only be dropped as a whole: only --db-id, "
                        "--kind and --backend can select it");
    if (o->all && selects_records(o))
        return cli_fail(err, KILN_E_INVALID,
                        "--all cannot be combined with options that select records");
    if (!o->all && !selects_records(o))
        return cli_fail(err, KILN_E_INVALID,
                        "nothing is selected: give --db-id, --kind, --backend, --problem, "
                        "--solver, --origin, --older-than or --all");
    return KILN_E_OK;
}

/* Asks the user unless --yes is given, because removed measurements cannot be restored. */
static int confirm_removal(const struct rm_options *o, struct kiln_error *err)
{
    if (o->yes)
        return KILN_E_OK;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return cli_fail(err, KILN_E_INVALID,
                        "cannot ask for confirmation without a terminal: add --yes to drop without "
                        "confirmation");
    fprintf(stderr, "drop %s of the %s tier? [y/N] ",
            o->all ? "everything" : "all records that match", tier_of(o));
    fflush(stderr);
    return confirm_read(err);
}

static int ask_daemon(const struct invocation *invocation, struct json **ret_reply,
                      struct kiln_error *err)
{
    const struct rm_options *o = invocation->options;
    KILN_AUTO(json) struct json *ask = json_object();
    json_set_text(ask, "tier", tier_of(o));
    if (o->uid.given)
        json_set_u64(ask, "uid", o->uid.value);
    admin_set_text(ask, "database_id", o->database_id);
    admin_set_text(ask, "kind", o->kind);
    admin_set_text(ask, "backend", o->backend);
    admin_set_text(ask, "problem", o->problem);
    admin_set_text(ask, "solver", o->solver);
    admin_set_text(ask, "origin", o->origin);
    if (o->older_than.given)
        json_set_u64(ask, "older_than", units_whole_seconds(o->older_than.value));
    if (o->all)
        json_set_bool(ask, "all", true);
    const struct admin_call call = { ADMIN_CALL_INIT, .request = "tuning_remove",
                                     .arguments = ask };
    return admin_call(invocation, &call, ret_reply, err);
}

static void print_removed(const struct rm_options *o, const struct json *reply)
{
    char removed[DB_NAME_MAX], replaced[DB_NAME_MAX];
    if (strcmp(tier_of(o), "system") == 0)
        db_say("dropped the system's %s database for %.64s", o->kind, o->database_id);
    else
        db_say("dropped %s; %s lost some of their entries",
               db_count(json_get_u64(reply, "removed", 0), "record", removed),
               db_count(json_get_u64(reply, "replaced", 0), "other", replaced));
}

static int run_db_rm(const struct invocation *invocation, struct kiln_error *err)
{
    const struct rm_options *o = invocation->options;
    KILN_AUTO(json) struct json *reply = NULL;
    int rc = check_selection(o, err);
    if (!rc)
        rc = confirm_removal(o, err);
    if (!rc)
        rc = ask_daemon(invocation, &reply, err);
    if (rc)
        return rc;
    if (invocation->common->json)
        return output_json(reply, err);
    print_removed(o, reply);
    return KILN_E_OK;
}

const struct command command_db_rm = {
    .name = "db rm",
    .words = "",
    .summary = "drop records by tier, device, problem, solver or age",
    .help =
        "Drops the records that match all given options: your own, or as an administrator\n"
        "any.  With --tier system, drops the imported database that --db-id and --kind name.  On\n"
        "a terminal, kilnctl asks first; elsewhere, --yes is required.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct rm_options),
    .run = run_db_rm,
};
