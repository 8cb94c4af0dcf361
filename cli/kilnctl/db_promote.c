/* SPDX-License-Identifier: MIT */
#include "cli/kilnctl/admin.h"
#include "cli/kilnctl/db_progress.h"
#include "cli/kilnctl/db_words.h"
#include "cli/output.h"

struct promote_options {
    const char *database_id, *kind, *backend, *problem, *solver;
    struct option_number uid;
};

#define AT(field) offsetof(struct promote_options, field)
static const struct option options[] = {
    { "db-id", 0, OPTION_TEXT, AT(database_id), "ID",
      "only records of this device, such as gfx90a68", 0, 0 },
    { "kind", 0, OPTION_TEXT, AT(kind), "find|perf", "only FindDb, or only PerfDb", 0, 0 },
    { "backend", 0, OPTION_TEXT, AT(backend), "HIP|CUDA|OpenCL", "only FindDb of this backend", 0,
      0 },
    { "problem", 0, OPTION_TEXT, AT(problem), "PROBLEM",
      "only this problem: a MIOpenDriver line or a key", 0, 0 },
    { "solver", 0, OPTION_TEXT, AT(solver), "NAME", "only entries of this solver", 0, 0 },
    { "uid", 0, OPTION_NUMBER, AT(uid), "UID", "only records of this user", 0, UINT32_MAX - 1 },
};
#undef AT

static void print_conflict(void *context, const struct json *item)
{
    (void)context;
    db_say("conflict: %.400s: %.500s", json_get_text(item, "key", "?"),
           json_get_text(item, "why", "?"));
}

static void fill_request(const struct promote_options *o, struct json *ask)
{
    admin_set_text(ask, "database_id", o->database_id);
    admin_set_text(ask, "kind", o->kind);
    admin_set_text(ask, "backend", o->backend);
    admin_set_text(ask, "problem", o->problem);
    admin_set_text(ask, "solver", o->solver);
    if (o->uid.given)
        json_set_u64(ask, "uid", o->uid.value);
}

static void print_counts(const struct json *reply)
{
    char records[DB_NAME_MAX], conflicts[DB_NAME_MAX];
    db_say("%s checked: %llu added to the host's, %llu replaced, %s",
           db_count(json_get_u64(reply, "records", 0), "record", records),
           (unsigned long long)json_get_u64(reply, "added", 0),
           (unsigned long long)json_get_u64(reply, "replaced", 0),
           db_count(json_get_u64(reply, "conflicts", 0), "conflict", conflicts));
}

static int run_db_promote(const struct invocation *invocation, struct kiln_error *err)
{
    static const struct db_list lists[] = {
        { "conflicts", print_conflict, .even_with_json = false },
        { NULL, NULL, false },
    };
    const struct promote_options *o = invocation->options;
    KILN_AUTO(json) struct json *ask = json_object(), *reply = NULL;
    DB_PROGRESS_AUTO struct db_progress progress;
    db_progress_init(&progress, "promote", lists, NULL, invocation->common->json);
    fill_request(o, ask);
    const struct admin_call call = { ADMIN_CALL_INIT, .request = "tuning_promote", .arguments = ask,
                                     .db_progress = &progress };
    int rc = db_check_word("kind", o->kind, DB_KINDS, err);
    if (!rc)
        rc = admin_call(invocation, &call, &reply, err);
    if (rc)
        return rc;
    if (!invocation->common->json) {
        print_counts(reply);
        return KILN_E_OK;
    }
    db_progress_move(&progress, 0, reply, "conflicting");
    return output_json(reply, err);
}

const struct command command_db_promote = {
    .name = "db promote",
    .words = "",
    .summary = "share what users measured with everyone on this host",
    .help =
        "Merges users' records into the host's by statistics, as 'db merge' does; the users keep\n"
        "their own.  Only records that match all given options are merged; without options, all\n"
        "are.  For administrators.",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .options_size = sizeof(struct promote_options),
    .run = run_db_promote,
};
